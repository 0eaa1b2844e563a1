//! Runs the command in a folder.
#![allow(dead_code, reason = "every test uses another part")]

use std::path::Path;
use std::process::{Command, Output};

pub fn ldplayer(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).current_dir(folder).args(arguments).output().unwrap()
}

/// What the command prints, where it succeeds.
pub fn text(folder: &Path, arguments: &[&str]) -> String {
    let output = ldplayer(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The line that says why the command refuses.
pub fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let output = ldplayer(folder, arguments);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{arguments:?}: {line}");
    line
}
