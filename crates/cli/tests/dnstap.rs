//! `unix:PATH`: real servers send dnstap to ldplayer, which ends with them or with Ctrl-C.

mod common;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::free_address;
use ldplayer_emulate::stock::{Kind, Process, StockSettings, Zone};

/// Questions asked.
const ASKED: usize = 300;
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A name that is asked.
fn name(number: usize) -> String {
    format!("tapped-{number}.example.")
}

/// A query for the addresses of [`name`].
fn question(number: usize) -> Vec<u8> {
    let mut wire = vec![(number >> 8) as u8, number as u8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name(number).trim_end_matches('.').split('.') {
        wire.push(label.len() as u8);
        wire.extend_from_slice(label.as_bytes());
    }
    [wire, vec![0, 0, 1, 0, 1]].concat()
}

/// Asks everything, one after the other.
fn ask(server: SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for number in 0..ASKED {
        socket.send_to(&question(number), server).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        assert!(length > 12 && answer[..2] == question(number)[..2]);
    }
}

/// Lets the server send what it has: Unbound does so once a second, and not when it ends.
fn pause() {
    std::thread::sleep(Duration::from_secs(3));
}

/// Starts ldplayer, and waits until it listens at `tap.sock`.
fn listen(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.current_dir(folder).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    while !folder.join("tap.sock").exists() {
        assert!(begun.elapsed() < PATIENCE, "it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn ldplayer(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ldplayer")).current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn unbound(folder: &Path, address: SocketAddr) -> Process {
    let socket = folder.join("tap.sock");
    let tap = format!(
        "server:\n  local-zone: \"example.\" static\ndnstap:\n  dnstap-enable: yes\n  dnstap-bidirectional: yes\n  \
         dnstap-socket-path: \"{}\"\n  dnstap-log-client-query-messages: yes\n  \
         dnstap-log-client-response-messages: yes\n",
        socket.display()
    );
    Kind::UNBOUND.with(StockSettings { extra: tap, ipv6: false, ..StockSettings::default() }).start(&[address]).unwrap()
}

fn bind(folder: &Path, address: SocketAddr) -> Process {
    let file = folder.join("example.zone");
    std::fs::write(&file, "$TTL 60\n@ SOA ns mail 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n").unwrap();
    let options = Kind::BIND.head(Path::new("."), &[address]).unwrap();
    // BIND drops what its queue has no room for; there is room for everything.
    let tap = format!(
        "dnstap {{ auth; client; }}; dnstap-output unix \"{}\"; fstrm-set-input-queue-size 16384;",
        folder.join("tap.sock").display()
    );
    let text = options.replacen("options {", &format!("options {{ {tap}"), 1);
    let zone = format!("zone \"example.\" {{ type primary; file \"{}\"; }};\n", file.display());
    Kind::BIND.configured(text + &zone, vec![Zone::new("example.", file)]).start(&[address]).unwrap()
}

/// What is asked of the server is what ldplayer writes, each question with its answer.
fn everything_is_written(role: &str, start: fn(&Path, SocketAddr) -> Process) {
    let folder = tempfile::tempdir().unwrap();
    let writer = listen(folder.path(), &["convert", "unix:tap.sock", "--role", role, "-o", "live.parquet"]);
    let address = free_address();
    let server = start(folder.path(), address);
    ask(address);
    pause();
    drop(server);
    let output = writer.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("damaged"), "{}", stderr(&output));
    assert!(!folder.path().join("tap.sock").exists());
    let rows = ldplayer(folder.path(), &["convert", "live.parquet", "-o", "-"]);
    for number in 0..ASKED {
        assert_eq!(rows.matches(&name(number)).count(), 1, "{}", name(number));
    }
    let summary = ldplayer(folder.path(), &["inspect", "--json", "live.parquet"]);
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["unanswered"], &summary["unasked"]), (&0.into(), &0.into()), "{summary}");
}

#[test]
fn what_clients_ask_unbound_is_written() {
    everything_is_written("client", unbound);
}

#[test]
fn what_resolvers_ask_bind_is_written() {
    // A query with RD is AUTH_QUERY to a BIND that does not recurse, and its answer is CLIENT_RESPONSE all the same.
    everything_is_written("auth,client", bind);
}

#[test]
fn ctrl_c_keeps_what_came() {
    let folder = tempfile::tempdir().unwrap();
    let inspector = listen(folder.path(), &["inspect", "--json", "unix:tap.sock"]);
    let address = free_address();
    let server = unbound(folder.path(), address);
    ask(address);
    pause();
    let pid = rustix::process::Pid::from_child(&inspector);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = inspector.wait_with_output().unwrap();
    drop(server);
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["kinds"]["CLIENT_QUERY"].as_u64() >= Some(ASKED as u64), "{summary}");
    assert_eq!(summary["damaged"].as_array().unwrap().len(), 0, "{summary}");
}

#[test]
fn what_a_writer_left_out_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let tapped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/compactor-test.dnstap");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let output =
        command.current_dir(folder.path()).arg("convert").arg(&tapped).args(["-o", "a.parquet"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let told = "missing in the input: server_address (10 times); the default is used\n";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
    let text = ldplayer(folder.path(), &["inspect", tapped.to_str().unwrap()]);
    assert!(text.contains("\nnot kept      server_address 10\n"), "{text}");
    assert!(text.contains("\nkinds         AUTH_QUERY 5 (50.0 %), AUTH_RESPONSE 5 (50.0 %)\n"), "{text}");
}

#[test]
fn what_is_there_already_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tap.sock"), "precious").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let output = command.current_dir(folder.path()).args(["inspect", "unix:tap.sock"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "ldplayer: unix:tap.sock: a file with this name exists and is not a socket; choose another name\n"
    );
}
