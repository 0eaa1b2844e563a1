//! Every capture at hand that holds queries is replayed, and each of its queries is accounted for.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// Captures of the repository, and of the collection that may lie beside it.
const FOLDERS: [&str; 3] = ["../trace/tests/data", "../../data", "../../../shared/data"];

/// All captures, the largest first, so that none is left to a single thread at the end.
fn captures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<PathBuf> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    open.extend(std::env::var_os("LDPLAYER_SHARED").map(|folder| PathBuf::from(folder).join("data")));
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let is_capture = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".pcap"));
            match path.is_dir() {
                true => open.push(path),
                false if is_capture => found.push(path),
                false => {}
            }
        }
    }
    found.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
    found
}

/// Answers every query with itself until an empty datagram comes. What the kernel says of earlier answers is passed over.
fn echo(socket: &UdpSocket) {
    let mut message = [0; 65_535];
    loop {
        match socket.recv_from(&mut message) {
            Ok((0, _)) => return,
            Ok((length, from)) => {
                if let Some(flags) = message[..length].get_mut(2) {
                    *flags |= 0x80;
                }
                let _ = socket.send_to(&message[..length], from);
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted)),
        }
    }
}

/// Ends [`echo`] when the work ends, even by a panic.
struct Stop<'a>(&'a UdpSocket);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let _ = self.0.local_addr().and_then(|server| self.0.send_to(&[], server));
    }
}

/// Standard output as JSON; `None` where the status says that the input is of no use.
fn json(arguments: &[&str]) -> Option<serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) {
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        return None;
    }
    // A failed verdict is a result, too: what is malformed is not answered.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {stderr}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// What is wrong with the accounts of a replay of `capture`; `None` where nothing is, with the queries that it held.
fn replay(capture: &Path, server: SocketAddr, run: &Path) -> (u64, Option<String>) {
    let (capture, server, run) = (capture.to_str().unwrap(), server.to_string(), run.to_str().unwrap());
    let inspected = json(&["inspect", "--json", capture]);
    let held = inspected.and_then(|summary| summary["queries"].as_u64()).unwrap_or(0);
    let how = [
        "--timing",
        "fast",
        "--transport",
        "udp",
        "--max-outstanding",
        "100",
        "--query-timeout",
        "0.3",
        "--json",
        "--force",
    ];
    let report = json(&[&["replay", capture, "--server", &server, "-o", run], &how[..]].concat());
    let Some(report) = report else {
        return (held, (held > 0).then(|| format!("{capture}: {held} queries, but nothing to replay")));
    };
    let queries = &report["summary"]["queries"];
    let count = |name: &str| queries[name].as_u64().unwrap();
    let ended = count("answered") + count("timed_out") + count("failed") + count("not_sent");
    let wrong = count("trace") != held || ended != held;
    (held, wrong.then(|| format!("{capture}: {held} queries, and {queries}")))
}

#[test]
fn every_query_of_every_capture_is_accounted_for() {
    let captures = captures();
    assert!(captures.len() >= 15, "only {} captures found", captures.len());
    let (left, done) = (Mutex::new(captures.iter()), Mutex::new(Vec::new()));
    let work = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| echo(&socket));
            let _stop = Stop(&socket);
            loop {
                let Some(capture) = left.lock().unwrap().next() else { break };
                done.lock().unwrap().push(replay(capture, server, &folder.path().join("run")));
            }
        });
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let done = done.into_inner().unwrap();
    let wrong: Vec<&String> = done.iter().filter_map(|(_, wrong)| wrong.as_ref()).collect();
    assert!(wrong.is_empty(), "{} of {} captures:\n{wrong:#?}", wrong.len(), done.len());
    assert_eq!(done.len(), captures.len());
    let replayed = done.iter().filter(|(held, _)| *held > 0).count();
    assert!(replayed >= 10, "only {replayed} captures hold queries");
}
