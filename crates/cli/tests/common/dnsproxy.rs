//! dnsproxy, the server over QUIC of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// dnsproxy, or `None` on a machine that can neither fetch nor build it; there, these tests have nothing to ask. Where
/// tests are run for a change (`CI` is set), it must be had.
pub fn dnsproxy() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/dnsproxy");
    let output = Command::new(format!("{ROOT}/scripts/dnsproxy.sh")).arg(&place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Some(String::from_utf8(output.stdout).unwrap().trim().into());
    }
    assert!(std::env::var_os("CI").is_none(), "scripts/dnsproxy.sh, which needs Go and its module proxy: {said}");
    eprintln!(
        "NOT TESTED over QUIC, since there is no server: scripts/dnsproxy.sh needs Go and its module proxy: {said}"
    );
    None
}
