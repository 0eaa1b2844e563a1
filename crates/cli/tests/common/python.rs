//! A Python with DuckDB, pandas and matplotlib, made in the build folder if it is not there.

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_ldplayer")).ancestors().nth(2).unwrap();
    let place = target.join("tools/python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/python.sh");
    let output = Command::new(script).arg(&place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/python.sh, which needs python3 with venv and PyPI: {said}");
    place.join("bin/python")
}
