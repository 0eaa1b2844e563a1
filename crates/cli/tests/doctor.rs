//! `ldplayer doctor` as a user runs it: as a table, as JSON, and where a limit is low.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The user `nobody` of Debian.
const NOBODY: u32 = 65_534;

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).arg("doctor").args(arguments).output().unwrap()
}

/// Doctor as a plain user whose limit of open files is so low. Root may pass any limit, and so would not notice.
fn with_files(folder: &Path, limit: u32) -> (Option<i32>, Vec<Value>) {
    let copy = folder.join("ldplayer");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_ldplayer"), &copy).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit} && exec ./ldplayer doctor --json")]).current_dir(folder);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn named<'a>(findings: &'a [Value], name: &str) -> &'a Value {
    findings.iter().find(|finding| finding["name"] == name).unwrap()
}

/// What the exit status must be.
fn status_of(findings: &[Value]) -> Option<i32> {
    let lacks = |finding: &Value| finding["essential"] == true && finding["ok"] == false;
    Some(if findings.iter().any(lacks) { 3 } else { 0 })
}

#[test]
fn every_finding_says_found_needed_and_how_to_lift() {
    let output = doctor(&["--json"]);
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), status_of(&findings));
    for finding in &findings {
        for key in ["name", "found", "needed", "lift"] {
            let text = finding[key].as_str().unwrap();
            assert!(!text.is_empty() && !text.contains('\n'), "{key}: {finding}");
        }
        assert!(finding["ok"].is_boolean() && finding["essential"].is_boolean(), "{finding}");
    }
    for name in [
        "testbed (AnyIP)",
        "user namespaces",
        "TUN",
        "packet path",
        "AF_XDP",
        "open files",
        "local ports",
        "port 53",
        "receive buffer",
    ] {
        named(&findings, name);
    }
    for name in
        ["clock source", "CPU steal", "frequency noise", "precision held", "cores", "nsd", "knotd", "named", "unbound"]
    {
        named(&findings, name);
    }
    // A stock server is nothing that a run depends on.
    assert_eq!(named(&findings, "nsd")["essential"], false);
}

#[test]
fn the_table_has_a_line_for_each_finding_with_its_parts_in_columns() {
    let output = doctor(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let column = |word: &str| text.lines().next().unwrap().find(word).unwrap();
    let columns = ["what", "found", "needed", "how to lift"].map(column);
    let names = text.lines().skip(1).map(|line| {
        let characters: Vec<char> = line.chars().collect();
        for column in columns {
            assert!(characters[column - 1] == ' ' && characters[column] != ' ', "column {column} of {line:?}");
        }
        characters[columns[0]..columns[1]].iter().collect::<String>().trim().to_owned()
    });
    let findings: Vec<Value> = serde_json::from_slice(&doctor(&["--json"]).stdout).unwrap();
    let expected: Vec<&str> = findings.iter().map(|finding| finding["name"].as_str().unwrap()).collect();
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

/// Runs the probe of a finding in what `setpriv` leaves of the rights of this process.
fn probe(options: &[&str], probe: &str) -> Output {
    let doctor = [env!("CARGO_BIN_EXE_ldplayer"), "doctor", "--probe", probe];
    Command::new("setpriv").args(options).args(doctor).output().unwrap()
}

#[test]
fn where_namespaces_have_links_the_packet_path_is_there_and_without_the_right_it_says_so() {
    let findings: Vec<Value> = serde_json::from_slice(&doctor(&["--json"]).stdout).unwrap();
    // Whoever made the namespace of a testbed may send frames in it.
    assert_eq!(named(&findings, "packet path")["ok"], named(&findings, "testbed (AnyIP)")["ok"], "{findings:?}");
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let output = probe(&["--bounding-set=-net_raw", "--inh-caps=-net_raw"], "packets");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot open a packet socket") && said.contains("cap_net_raw"), "{said}");
}

#[test]
fn where_there_is_no_tun_device_frames_are_sent_by_af_packet() {
    let found = |findings: &[Value]| named(findings, "packet path")["found"].as_str().unwrap().to_owned();
    let mut findings: Vec<Value> = serde_json::from_slice(&doctor(&["--json"]).stdout).unwrap();
    if named(&findings, "TUN")["ok"] == true {
        assert!(found(&findings).contains("sent by a TAP device and one received"), "{}", found(&findings));
        let without = format!("mount -t tmpfs none /dev/net && exec {} doctor --json", env!("CARGO_BIN_EXE_ldplayer"));
        let output =
            Command::new("unshare").args(["--map-root-user", "--mount", "sh", "-c", &without]).output().unwrap();
        findings = serde_json::from_slice(&output.stdout).unwrap();
    }
    assert_eq!(named(&findings, "TUN")["ok"], false, "{findings:?}");
    assert!(found(&findings).contains("sent by AF_PACKET and one received"), "{}", found(&findings));
}

#[test]
fn a_low_limit_of_open_files_is_told_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (status, findings) = with_files(folder.path(), 4_096);
    let files = named(&findings, "open files");
    assert_eq!((&files["ok"], status), (&Value::Bool(false), status_of(&findings)));
    assert!(files["found"].as_str().unwrap().contains("soft 4096, hard 4096"), "{files}");
    assert!(files["lift"].as_str().unwrap().contains("ulimit -Hn"), "{files}");
    assert_eq!(named(&findings, "descriptors")["ok"], true);
}

#[test]
fn too_few_files_for_any_run_are_status_3() {
    let folder = tempfile::tempdir().unwrap();
    let (status, findings) = with_files(folder.path(), 256);
    let files = named(&findings, "descriptors");
    assert_eq!((&files["ok"], &files["essential"], status), (&Value::Bool(false), &Value::Bool(true), Some(3)));
}
