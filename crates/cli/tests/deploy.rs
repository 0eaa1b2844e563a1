//! What `deploy/` has for many hosts passes the linters of those who read it.

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_manifest_and_the_play_pass_their_linters() {
    let checked = Command::new(Path::new(ROOT).join("scripts/deploy.sh")).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success(), "{said}");
    assert!(said.contains("agents.yaml") && said.contains("Passed"), "what was checked is not told: {said}");
}
