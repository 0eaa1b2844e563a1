//! Files of somebody else: a run directory, a specification. They start nothing by themselves, allow nothing, and lead nowhere.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A run that nobody answered.
fn run(folder: &Path) -> PathBuf {
    let (list, run) = (folder.join("names.txt"), folder.join("run"));
    fs::write(&list, "example. A\n").unwrap();
    let server = common::free_address().to_string();
    let made = ["replay", list.to_str().unwrap(), "--server", &server, "--query-timeout", "100ms", "-q", "-o"];
    let made = ldplayer(&[&made[..], &[run.to_str().unwrap()]].concat());
    assert_eq!(made.status.code(), Some(1), "{}", err(&made));
    run
}

fn change(run: &Path, change: impl FnOnce(&mut Value)) {
    let file = run.join("run.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut document);
    fs::write(file, serde_json::to_vec(&document).unwrap()).unwrap();
}

/// `report` wrote through a link in the run directory, and so over any file of the user.
#[test]
fn nothing_is_written_through_a_link_of_a_run_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (run, users) = (run(folder.path()), folder.path().join("users"));
    fs::write(&users, "the user's").unwrap();
    symlink(&users, run.join("report.html.tmp")).unwrap();
    assert!(ldplayer(&["report", run.to_str().unwrap()]).status.code() == Some(1));
    fs::remove_file(run.join("report.html")).unwrap();
    symlink(&users, run.join("report.html")).unwrap();
    let refused = ldplayer(&["report", run.to_str().unwrap()]);
    assert!(err(&refused).contains("is a link"), "{}", err(&refused));
    assert_eq!(fs::read_to_string(&users).unwrap(), "the user's");

    let (rows, other) = (run.join("queries"), folder.path().join("other"));
    fs::rename(&rows, &other).unwrap();
    symlink(&other, &rows).unwrap();
    let before = fs::read_dir(&other).unwrap().count();
    let list = folder.path().join("names.txt");
    let forced = ["replay", list.to_str().unwrap(), "--server", "127.0.0.1:1", "--force", "-o", run.to_str().unwrap()];
    let forced = ldplayer(&forced);
    assert!(forced.status.code() != Some(0) && err(&forced).contains("is a link"), "{}", err(&forced));
    assert_eq!(fs::read_dir(&other).unwrap().count(), before);
}

#[test]
fn an_output_is_not_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let [list, users, link] = ["names.txt", "users.tsv", "link.tsv"].map(|name| folder.path().join(name));
    fs::write(&list, "example. A\n").unwrap();
    fs::write(&users, "the user's").unwrap();
    symlink(&users, &link).unwrap();
    let refused = ldplayer(&["convert", list.to_str().unwrap(), "--force", "-o", link.to_str().unwrap()]);
    assert!(refused.status.code() == Some(2) && err(&refused).contains("is a link"), "{}", err(&refused));
    assert_eq!(fs::read_to_string(&users).unwrap(), "the user's");
}

/// The run said by itself whom it may flood.
#[test]
fn permission_of_a_run_or_a_file_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    change(&run, |document| {
        document["spec"]["server"] = json!(["198.51.100.9:53"]);
        document["spec"]["allow_target"] = json!(["0.0.0.0/0"]);
    });
    let again = folder.path().join("again");
    let refused = ldplayer(&["replay", "--again", run.to_str().unwrap(), "-o", again.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("add --allow-target 198.51.100.9"), "{}", err(&refused));
    let spec = folder.path().join("spec.toml");
    let list = folder.path().join("names.txt");
    fs::write(
        &spec,
        format!("trace = '{}'\nserver = '198.51.100.9'\nallow_target = '::/0,0.0.0.0/0'\n", list.display()),
    )
    .unwrap();
    let refused = ldplayer(&["replay", "--spec", spec.to_str().unwrap(), "-o", again.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
}

#[test]
fn the_command_of_somebody_else_s_run_is_not_started_unless_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (run, started) = (run(folder.path()), folder.path().join("started"));
    let command = format!("touch {}", started.display());
    change(&run, |document| {
        document["spec"]["start_server"] = json!(command);
        document["environment"]["host"] = json!("elsewhere");
    });
    let output = folder.path().join("again");
    let again = ["replay", "--again", run.to_str().unwrap(), "-o", output.to_str().unwrap()];
    let refused = ldplayer(&again);
    let said = err(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("it starts `{command}`")) && said.contains("--allow-command"), "{said}");
    assert!(!started.exists());
    // Its server ends at once, and so does the run.
    let allowed = ldplayer(&[&again[..], &["--allow-command"]].concat());
    assert!(err(&allowed).contains(&format!("starts `{command}`")) && started.exists(), "{}", err(&allowed));
}
