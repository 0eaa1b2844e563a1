//! The servers that no package has, or that are not to be installed, and that the tests make.

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The program, or `None` on a machine that can neither fetch nor make it; there, these tests have nothing to ask. Where
/// tests are run for a change (`CI` is set), it must be had.
pub fn built_server(name: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools").join(name);
    let output = Command::new(format!("{ROOT}/scripts/build-server.sh")).arg(name).arg(&place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Some(String::from_utf8(output.stdout).unwrap().trim().into());
    }
    assert!(std::env::var_os("CI").is_none(), "scripts/build-server.sh {name}: {said}");
    eprintln!("NOT TESTED with {name}, which cannot be made here: {said}");
    None
}
