//! `ldplayer replay` as a user runs it: against stock NSD, against nothing, with bad input.

mod common;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{data, free_address};
use ldplayer_emulate::stock::{Kind, Zone};

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap()
}

/// Replays and returns exit status, `run.json` and stderr.
fn replay(run: &Path, arguments: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let run_argument = run.to_str().unwrap();
    let output = ldplayer(&[&["replay", "-o", run_argument, "--force"], arguments].concat());
    let json = std::fs::read_to_string(run.join("run.json")).unwrap_or_default();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), serde_json::from_str(&json).unwrap_or_default(), stderr)
}

fn root_zone(folder: &Path) -> PathBuf {
    let mut zone = Vec::new();
    let packed = std::fs::File::open(data("root-2016100801.zone.xz")).unwrap();
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(packed), &mut zone).unwrap();
    let path = folder.join("root.zone");
    std::fs::write(&path, zone).unwrap();
    path
}

fn identity_holds(run: &serde_json::Value) {
    let queries = &run["summary"]["queries"];
    let count = |name: &str| queries[name].as_u64().unwrap();
    assert_eq!(count("answered") + count("timed_out") + count("failed"), count("sent"));
    assert_eq!(count("sent") + count("not_sent"), count("trace"));
}

#[test]
fn a_real_capture_is_answered_by_stock_nsd_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let server = free_address();
    let _nsd = Kind::NSD.serving(vec![Zone::new(".", root_zone(folder.path()))]).start(&[server]).unwrap();
    let capture = data("l-root-20161006.pcap.xz");
    let (capture, server) = (capture.to_str().unwrap(), server.to_string());
    let run = folder.path().join("run");
    let common = ["--server", &server, "--sources", "pool:127.0.0.0/8", "--stop", "10s", "--speed", "10"];
    let (status, json, _) = replay(&run, &[&[capture, "--transport", "udp"], &common[..]].concat());
    // Whether a busy machine was on time is the verdict's to say; that all was sent and answered is not.
    assert!(matches!(status, Some(0 | 1)), "{status:?}");
    identity_holds(&json);
    let queries = &json["summary"]["queries"];
    assert_eq!((&queries["trace"], &queries["answered"]), (&1_820.into(), &1_820.into()));
    assert!(json["summary"]["rcodes"]["NXDOMAIN"].as_u64() > json["summary"]["rcodes"]["NOERROR"].as_u64());
    assert!(run.join("report.html").is_file());

    let (_, json, _) = replay(&run, &[&[capture], &common[..]].concat());
    identity_holds(&json);
    let queries = &json["summary"]["queries"];
    assert_eq!((&queries["trace"], &queries["answered"]), (&1_820.into(), &1_820.into()));
    let by_transport = &queries["sent_by_transport"];
    assert!(by_transport["tcp"].as_u64() > Some(0) && by_transport["udp"].as_u64() > Some(0), "{by_transport}");
    let connections = &json["summary"]["connections"];
    assert!(connections["opened"].as_u64() > Some(0), "{connections}");
}

#[test]
fn a_server_that_is_down_is_the_first_thing_said_and_no_fault_of_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let queries = folder.path().join("queries");
    std::fs::write(&queries, "example. A\nexample. NS\n").unwrap();
    let server = free_address().to_string();
    let (status, json, _) = replay(&run, &[queries.to_str().unwrap(), "--server", &server]);
    assert!(matches!(status, Some(0 | 1)), "{status:?}");
    identity_holds(&json);
    assert_eq!(json["summary"]["queries"]["failed"], 2);
    assert!(json["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "no_answers"), "{json}");
    assert!(json["warnings"].to_string().contains("refused (2): start the server"), "{}", json["warnings"]);
    let expect = ["--expect", "answered >= 1 %"];
    let (status, json, _) = replay(&run, &[&[queries.to_str().unwrap(), "--server", &server], &expect[..]].concat());
    assert_eq!((status, &json["verdict"]["server"]["ok"]), (Some(1), &false.into()));
}

#[test]
fn bad_usage_is_one_line_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, text) = (file("empty.pcap", b""), file("text.pcap", b"this is\nno trace at all, is it?\n"));
    let queries = file("queries", b"example. A\n");
    let exists = folder.path().to_str().unwrap().to_owned();
    let run = folder.path().join("run").to_str().unwrap().to_owned();
    let local = ["--server", "127.0.0.1:5399", "-o", &run];
    let cases: [(&[&str], &str); 5] = [
        (&[&["replay", &empty], &local[..]].concat(), "empty"),
        (&[&["replay", &text], &local[..]].concat(), "text.pcap"),
        (&[&["replay", "/no/such/file"], &local[..]].concat(), "/no/such/file"),
        (&["replay", &queries, "--server", "192.0.2.1", "-o", &run], "--allow-target 192.0.2.1"),
        (&["replay", &queries, "--server", "127.0.0.1:5399", "-o", &exists], "exists"),
    ];
    for (arguments, word) in cases {
        let output = ldplayer(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(word), "{stderr}");
    }
}

#[test]
fn original_addresses_need_a_testbed_and_say_how_to_get_one() {
    let output = ldplayer(&["replay", "x", "--server", "127.0.0.1:5399", "--sources", "original"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("testbed run"));
}

#[test]
fn an_interrupt_leaves_a_complete_run_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (run, trace) = (folder.path().join("run"), folder.path().join("trace.tsv"));
    std::fs::write(&trace, "time\tsrc\tqname\tqtype\n0\t192.0.2.1\ta.\tA\n3600\t192.0.2.1\tb.\tA\n").unwrap();
    let responder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = responder.local_addr().unwrap().to_string();
    let arguments = ["replay", trace.to_str().unwrap(), "--server", &server, "--no-probe", "-o", run.to_str().unwrap()];
    let child = Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).spawn().unwrap();
    // The first query tells that the run has begun.
    responder.recv_from(&mut [0; 512]).unwrap();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait_with_output().unwrap().status;
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!((status.code(), json["state"].as_str()), (Some(130), Some("interrupted")));
    identity_holds(&json);
    assert!(run.join("report.html").is_file());
}
