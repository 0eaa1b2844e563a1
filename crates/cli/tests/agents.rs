//! Replays on several hosts, as the command line has them: a lab on this host, and what is told where something lacks.

use std::net::UdpSocket;
use std::process::{Command, Output};
use std::thread;

use serde_json::Value;

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/l-root-20161006.pcap.xz");

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).env_remove("NATS_URL").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Answers every query with itself, as a response.
fn responder() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut message = [0; 4_096];
        while let Ok((length, client)) = socket.recv_from(&mut message) {
            message[2] |= 0x80;
            // A client that is gone needs no answer.
            let _ = socket.send_to(&message[..length], client);
        }
    });
    address
}

#[test]
fn a_lab_on_this_host_makes_one_run_directory_of_its_agents() {
    let (folder, server) = (tempfile::tempdir().unwrap(), responder());
    let run = folder.path().join("run");
    let made = ldplayer(&[
        "replay",
        CAPTURE,
        "--server",
        &server,
        "--transport",
        "udp",
        "--speed",
        "30",
        "--stop",
        "30",
        "--precision",
        "low",
        "--query-timeout",
        "1s",
        "--workers",
        "1",
        "--nats",
        "embedded",
        "--agents",
        "2",
        "-o",
        run.to_str().unwrap(),
    ]);
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
    let json: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    let queries = &json["summary"]["queries"];
    assert_eq!(json["state"], "complete");
    assert_eq!(json["workers"], 2);
    assert_eq!(
        queries["sent"].as_u64().unwrap() + queries["not_sent"].as_u64().unwrap(),
        queries["trace"].as_u64().unwrap()
    );
    assert!(queries["answered"].as_u64().unwrap() > 1_000, "{queries}");
    for file in ["report.html", "agents/agent-1/run.json", "agents/agent-2/report.html"] {
        assert!(run.join(file).exists(), "{file}");
    }
}

#[test]
fn no_server_there_is_an_environment_that_lacks_it() {
    for arguments in [&["agents"][..], &["agent"], &["replay", CAPTURE, "--server", "127.0.0.1:5300", "--agents", "2"]]
    {
        let refused = ldplayer(&[arguments, &["--nats", "nats://user:secret@127.0.0.1:1"]].concat());
        let said = said(&refused);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("no NATS server at nats://127.0.0.1:1") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn agents_without_a_server_are_a_usage_error() {
    let refused = ldplayer(&["replay", CAPTURE, "--server", "127.0.0.1:5300", "--agents", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("--nats"), "{}", said(&refused));
}

#[test]
fn options_of_one_host_are_refused_and_not_left_out_in_silence() {
    for option in [&["--keep-responses"][..], &["--watch-pid", "1"], &["--compare-answers", "recorded"]] {
        let run = [
            "replay",
            CAPTURE,
            "--server",
            "127.0.0.1:5300",
            "--nats",
            "embedded",
            "--agents",
            "1",
            "-o",
            "/nonexistent/run",
        ];
        let refused = ldplayer(&[&run[..], option].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(
            said(&refused).contains(&format!("{} is not there for runs on several hosts", option[0])),
            "{}",
            said(&refused)
        );
    }
}

#[test]
fn a_server_that_the_run_starts_is_refused() {
    let refused = ldplayer(&[
        "replay",
        CAPTURE,
        "--server",
        "127.0.0.1:5300",
        "--start-server",
        "nsd -d",
        "--nats",
        "embedded",
        "--agents",
        "1",
        "-o",
        "/nonexistent/run",
    ]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains("--start-server: a server that the run starts is on one host"),
        "{}",
        said(&refused)
    );
}
