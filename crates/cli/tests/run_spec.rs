//! A run as a value, through the command line: written down, read back, made again, and against recorded servers.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use ldplayer_emulate::stock::{Kind, Process};
use serde_json::Value;

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn run_json(run: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server that refuses every query.
fn refusing() -> (Process, String) {
    let address = common::free_address();
    (Kind::NSD.serving(Vec::new()).start(&[address]).unwrap(), address.to_string())
}

#[test]
fn a_run_is_written_down_and_made_again_although_its_rules_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, rules, spec, first, again, other] =
        ["queries", "rules.toml", "run.toml", "first", "again", "other"].map(|name| folder.path().join(name));
    std::fs::write(&trace, "example. A\nexample. NS\nexample. MX\n").unwrap();
    std::fs::write(&rules, "[[rule]]\ndo = true\n").unwrap();
    let (_nsd, server) = refusing();
    let options = [
        text(&trace),
        "--server",
        &server,
        "--rules",
        text(&rules),
        "--timing",
        "rate:100",
        "--pipeline",
        "3",
        "--seed",
        "9",
        "--expect",
        "refused = 100 %",
    ];
    let printed = ldplayer(&[&["replay", "--print-spec"], &options[..]].concat());
    assert!(printed.status.success(), "{}", stderr(&printed));
    std::fs::write(&spec, &printed.stdout).unwrap();
    // The file says what the options said, and stands in for them.
    let reprinted = ldplayer(&["replay", "--spec", text(&spec), "--print-spec"]);
    assert_eq!(String::from_utf8_lossy(&reprinted.stdout), String::from_utf8_lossy(&printed.stdout));

    let made = ldplayer(&["replay", "--spec", text(&spec), "-o", text(&first)]);
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", stderr(&made));
    let first_json = run_json(&first);
    assert_eq!(first_json["summary"]["rcodes"]["REFUSED"], 3);
    assert_eq!(first_json["config"]["trace"], serde_json::json!([text(&trace)]));
    assert!(String::from_utf8_lossy(&made.stdout).starts_with(&format!("run        queries → {server} over UDP\n")));
    assert_eq!((&first_json["spec"]["seed"], &first_json["spec"]["pipeline"]), (&9.into(), &3.into()));
    assert_eq!(first_json["verdict"]["server"]["ok"], true, "{}", first_json["verdict"]);

    std::fs::remove_file(&rules).unwrap();
    let made = ldplayer(&["replay", "--again", text(&first), "-o", text(&again)]);
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", stderr(&made));
    assert_eq!(run_json(&again)["spec"], first_json["spec"]);

    // Options win over what the run was.
    let made = ldplayer(&["replay", "--again", text(&first), "--timing", "fast", "--seed", "4", "-o", text(&other)]);
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", stderr(&made));
    let other = run_json(&other);
    assert_eq!((&other["config"]["timing"], &other["spec"]["seed"]), (&"fast".into(), &4.into()));
    assert_eq!(other["spec"]["pipeline"], 3);
}

#[test]
fn what_is_wrong_with_a_specification_is_one_line_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("run.toml");
    for (content, word) in [
        ("trace = 'a'\ntransprt = 'tcp'\n", "line 2: unknown key `transprt`: did you mean `transport`?"),
        ("trace = 'a'\nserver = '127.0.0.1'\npipeline = 0\n", "line 3: `pipeline`: `0` is not a whole number from 1"),
        ("version = 7\n", "version 7 is not supported"),
        ("trace = 'a'\n", "no server"),
        ("server = '127.0.0.1'\n", "no trace"),
        ("trace = [\n", "line "),
    ] {
        std::fs::write(&spec, content).unwrap();
        let output = ldplayer(&["replay", "--spec", text(&spec)]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{content}: {said}");
        assert!(said.lines().count() == 1 && said.contains(word), "{content}: {said}");
    }
    let output = ldplayer(&["replay", "--again", text(folder.path())]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("no run directory"), "{}", stderr(&output));
}

#[test]
fn a_server_may_be_a_name_that_is_resolved_once_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("queries");
    std::fs::write(&trace, "example. A\n").unwrap();
    let (_nsd, server) = refusing();
    let port = server.rsplit_once(':').unwrap().1;
    let run = folder.path().join("run");
    let output = ldplayer(&["replay", text(&trace), "--server", &format!("localhost:{port}"), "-o", text(&run)]);
    assert!(stderr(&output).contains(&format!("localhost is 127.0.0.1:{port}")), "{}", stderr(&output));
    assert_eq!(run_json(&run)["summary"]["rcodes"]["REFUSED"], 1);
    let output = ldplayer(&[
        "replay",
        text(&trace),
        "--server",
        "no-such-host.invalid",
        "-o",
        text(&folder.path().join("none")),
    ]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("--server no-such-host.invalid: "));
}

/// What a resolver asked of many servers is asked of each of them again, in the emulated Internet.
#[test]
fn queries_go_to_the_servers_that_they_were_recorded_for() {
    let folder = tempfile::tempdir().unwrap();
    let [zones, trace, run] = ["zones", "trace.tsv", "run"].map(|name| folder.path().join(name));
    std::fs::create_dir(&zones).unwrap();
    let packed = std::fs::File::open(common::data("root-2016100801.zone.xz")).unwrap();
    let mut zone = std::fs::File::create(zones.join("root.zone")).unwrap();
    std::io::copy(&mut liblzma::read::XzDecoder::new(packed), &mut zone).unwrap();
    // Two root servers, one of other addresses that is mapped to a third, and one that serves nothing.
    let row = |at: u32, server: &str, transport: &str| {
        format!("{at}.0\t192.0.2.7\t4000\t{server}\t53\t{transport}\texample.\tA\tIN\t-\t-\n")
    };
    let head = "time\tsrc\tsrc_port\tdst\tdst_port\ttransport\tqname\tqtype\tqclass\tflags\tedns\n";
    let rows = [
        row(1, "198.41.0.4", "udp"),
        row(1, "2001:503:ba3e::2:30", "udp"),
        row(1, "192.33.4.12", "tcp"),
        row(2, "203.0.113.9", "udp"),
        row(2, "203.0.113.10", "udp"),
    ];
    std::fs::write(
        &trace,
        head.to_owned() + &rows.concat().replace("192.0.2.7\t4000\t2001", "2001:db8::7\t4000\t2001"),
    )
    .unwrap();
    let serve = format!("{} serve {}", env!("CARGO_BIN_EXE_ldplayer"), text(&zones));
    let output = ldplayer(&[
        "replay",
        text(&trace),
        "--server",
        "recorded",
        "--map",
        "203.0.113.9=193.0.14.129",
        "--start-server",
        &serve,
        "--query-timeout",
        "2s",
        "-o",
        text(&run),
    ]);
    let json = run_json(&run);
    let rcodes = &json["summary"]["rcodes"];
    assert_eq!((&rcodes["NXDOMAIN"], &rcodes["REFUSED"]), (&4.into(), &1.into()), "{rcodes} {}", stderr(&output));
    let target = (&json["config"]["server"], &json["config"]["map"]);
    assert_eq!(target, (&serde_json::json!(["recorded"]), &serde_json::json!(["203.0.113.9=193.0.14.129"])));

    let output = ldplayer(&["replay", text(&trace), "--server", "recorded", "-o", text(&run), "--force"]);
    let said = stderr(&output);
    assert!(output.status.code() == Some(3) && said.contains("must not be sent load"), "{said}");
}
