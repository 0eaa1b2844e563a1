//! `--timing ramp:…` and `--timing poisson:…` through the command line, and the recorded answers that a run is compared with.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// `run.json` of a replay of two seconds of the bundled capture to a server that answers nothing.
fn replay(run: &Path, timing: &str) -> Value {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/l-root-20161006.pcap.xz");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.args(["replay", capture, "--server", &server, "--transport", "udp", "--stop", "2s", "--timing", timing]);
    command.args(["--query-timeout", "100ms", "--precision", "low", "--force", "-o"]).arg(run);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap_or_else(|_| panic!("{said}"))).unwrap()
}

#[test]
fn a_run_has_the_timing_that_was_asked_for_and_the_recorded_answers() {
    let folder = tempfile::tempdir().unwrap();
    for (timing, shown) in [("ramp:0-1k/400ms", "ramp:0-1000/400ms"), ("poisson:1k", "poisson:1000")] {
        let run = replay(folder.path(), timing);
        assert_eq!(run["config"]["timing"], shown);
        let queries = run["summary"]["queries"]["trace"].as_u64().unwrap();
        let recorded = &run["summary"]["recorded"];
        let answered: u64 = recorded["rcodes"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(answered + recorded["unanswered"].as_u64().unwrap(), queries, "{recorded}");
        assert!(recorded["rcodes"]["NXDOMAIN"].as_u64() > Some(0), "{recorded}");
    }
}

#[test]
fn a_timing_that_is_none_is_refused_with_those_that_are() {
    let arguments = ["replay", "any.pcap", "--server", "127.0.0.1", "--timing", "ramp:1k/60s"];
    let output = Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ramp:1k-50k/60s") && said.contains("poisson:20k"), "{said}");
}
