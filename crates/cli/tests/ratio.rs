//! `ldplayer ratio` against real servers and against odd ones, at the ends of the wire: what is found of each, and what is not.

#[path = "common/built_server.rs"]
mod built_server;
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use built_server::built_server;
use common::certificate;
use ldplayer_emulate::stock::{Kind, StockServer, Zone, find};
use ldplayer_net::settings::has_ipv6;
use serde_json::Value;

const ZONE: &str =
    "example. 60 SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n";
/// The server's address in a testbed.
const SERVER: &str = "10.53.0.2";
/// Far enough that the time of processing, on a busy machine too, is a small part of a response time.
const FAR: &str = "uniform:60ms,120ms";
/// The environment variable that says what is odd about the server of [`odd_server`].
const ODD: &str = "ODD_SERVER";

/// One study at a time: each is a measurement.
static TURN: Mutex<()> = Mutex::new(());

/// A folder with a zone, for servers and studies.
struct Place {
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("example.zone"), ZONE).unwrap();
        Self { folder, _turn: turn }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn zones(&self) -> Vec<Zone> {
        vec![Zone::new("example.", self.path("example.zone"))]
    }

    /// The command that starts a stock server in a testbed, with more in its configuration.
    fn stock(&self, stock: &StockServer, more: &str) -> String {
        self.stock_at(SERVER, stock, more)
    }

    fn stock_at(&self, address: &str, stock: &StockServer, more: &str) -> String {
        let program = stock.kind.program();
        let listen = [SocketAddr::new(address.parse().unwrap(), 53)];
        let file = self.path("server.conf");
        std::fs::write(&file, stock.configuration(self.folder.path(), &listen).unwrap() + more).unwrap();
        let path = find(program.name, program.package).unwrap();
        format!("{} {} -c {}", path.display(), program.options.join(" "), file.display())
    }

    fn nsd(&self, more: &str) -> String {
        self.stock(&Kind::NSD.serving(self.zones()), more)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.current_dir(self.folder.path()).arg("ratio").args(arguments).arg("-o").arg(self.path("study"));
        if !arguments.contains(&"--zone") {
            command.args(["--zone", "example."]);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The lines of a study in a testbed of a server that is started so.
    fn wired(&self, start: &str, more: &[&str]) -> Vec<Value> {
        self.wired_at(SERVER, start, more)
    }

    fn wired_at(&self, address: &str, start: &str, more: &[&str]) -> Vec<Value> {
        let output = self.run(&[&[address, "--json", "--force", "--start-server", start], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let study: Value = serde_json::from_slice(&output.stdout).unwrap();
        study["lines"].as_array().unwrap().clone()
    }
}

/// The command that starts a server that is odd in this way.
fn odd(kind: &str) -> String {
    let probe = std::env::current_exe().unwrap();
    format!("env {ODD}={kind} {} --exact odd_server --ignored --nocapture", probe.display())
}

fn codes(line: &Value) -> Vec<&str> {
    line["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

fn count(line: &Value, group: &str, key: &str) -> u64 {
    line[group][key].as_u64().unwrap_or_else(|| panic!("{group}.{key} of {line}"))
}

/// Not a test: a server with one answer, which does over TCP what the environment says.
#[test]
#[ignore = "is a server, which the tests start"]
fn odd_server() {
    let kind = std::env::var(ODD).unwrap();
    let socket = UdpSocket::bind((SERVER, 53)).unwrap();
    if kind != "without-tcp" {
        let listener = TcpListener::bind((SERVER, 53)).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kind = kind.clone();
                // A client that has gone is no reason to end.
                thread::spawn(move || answer_on(stream, &kind).ok());
            }
        });
    }
    let mut query = [0; 4_096];
    while let Ok((count, client)) = socket.recv_from(&mut query) {
        socket.send_to(&answer(&query[..count]), client).unwrap();
    }
}

/// Answers on a connection until the client closes it.
fn answer_on(mut stream: TcpStream, kind: &str) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.set_nodelay(kind == "split-at-once")?;
    loop {
        stream.read_exact(&mut length)?;
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query)?;
        if kind == "closing" {
            return Ok(());
        }
        let response = answer(&query);
        let length = (response.len() as u16).to_be_bytes();
        if kind.starts_with("split") {
            stream.write_all(&length)?;
            stream.write_all(&response)?;
        } else {
            stream.write_all(&[&length[..], &response].concat())?;
        }
    }
}

/// An answer with a SOA record, without EDNS.
fn answer(query: &[u8]) -> Vec<u8> {
    let name = query[12..].iter().position(|&octet| octet == 0).unwrap();
    let question = &query[12..12 + name + 5];
    let record = [&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 60, 0, 22, 0, 0][..], &[0; 20]].concat();
    [&query[..2], &[0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0], question, &record].concat()
}

#[test]
fn clients_and_servers_have_addresses_of_one_family() {
    if !has_ipv6() {
        return eprintln!("NOT TESTED over IPv6, which this kernel has not");
    }
    let place = Place::new();
    let start = place.stock_at("fd53::2", &Kind::NSD.serving(place.zones()), "");
    let line = &place.wired_at("six=fd53::2", &start, &SOME)[0];
    assert_eq!((codes(line), &line["server"]), (vec!["normal"], &"six ([fd53::2]:53)".into()), "{line}");
    let trace = std::fs::read_to_string(place.path("study/fd53--2-53.tsv")).unwrap();
    assert!(trace.contains("\tfd64::1\t") && !trace.contains("10.64."), "{trace}");
}

/// Pairs enough for a finding, of clients with round-trip times of their own.
const SOME: [&str; 6] = ["--rtt", FAR, "--clients", "40", "--pairs", "2"];

#[test]
fn stock_servers_take_two_round_trips() {
    let place = Place::new();
    let zones = || place.zones();
    let servers: [(&str, StockServer); 3] = [
        ("nsd", Kind::NSD.serving(zones())),
        ("knot", Kind::KNOT.serving(zones())),
        ("bind", Kind::BIND.serving(zones())),
    ];
    for (name, stock) in servers {
        let lines = place.wired(&place.stock(&stock, ""), &SOME);
        let line = &lines[0];
        assert_eq!(codes(line), ["normal"], "{name}: {line}");
        assert_eq!((count(line, "pairs", "valid"), count(line, "wire", "length_apart")), (80, 0), "{name}: {line}");
        assert!(line["rtt_classes"].as_array().unwrap().len() >= 2, "{name}: {line}");
    }
    for file in ["ratio.json", "ratio.html", "ratio.svg", "10.53.0.2-53/run.json", "10.53.0.2-53.tsv"] {
        assert!(place.path("study").join(file).is_file(), "{file}");
    }
}

#[test]
fn a_length_in_a_segment_of_its_own_is_seen_on_the_wire() {
    let place = Place::new();
    let split = &place.wired(&odd("split"), &SOME)[0];
    assert_eq!(codes(split)[0], "split_length", "{split}");
    assert!(count(split, "wire", "length_apart") >= 76 && count(split, "wire", "several_segments") >= 76, "{split}");
    let median = split["ratio"]["p50"].as_f64().unwrap();
    assert!((2.6..4.5).contains(&median), "{split}");
    // The same two writes without Nagle's algorithm: two segments, and no wait.
    let at_once = &place.wired(&odd("split-at-once"), &SOME)[0];
    assert_eq!(codes(at_once), ["split_response", "normal"], "{at_once}");
    // In one write there is nothing of it.
    let whole = &place.wired(&odd("whole"), &SOME)[0];
    assert_eq!((codes(whole), count(whole, "wire", "several_segments")), (vec!["normal"], 0), "{whole}");
}

#[test]
fn a_server_without_tcp_is_told_with_the_reason() {
    let place = Place::new();
    let line = &place.wired(&odd("without-tcp"), &SOME)[0];
    assert_eq!(codes(line), ["no_connections"], "{line}");
    let counts = ["asked", "valid", "only_udp"].map(|key| count(line, "pairs", key));
    assert_eq!((counts, &line["failures"]["tcp"]["connection_refused"]), ([80, 0, 80], &80.into()), "{line}");
    let closing = &place.wired(&odd("closing"), &SOME)[0];
    assert_eq!(codes(closing), ["no_connections"], "{closing}");
    assert_eq!(closing["failures"]["tcp"]["closed_by_server"], 80, "{closing}");
}

/// More clients at once than ten connections are for: each is open for a round trip at least.
const MANY: [&str; 8] = ["--rtt", "80ms", "--clients", "300", "--pairs", "2", "--query-timeout", "4s"];

#[test]
fn ten_connections_at_once_are_a_queue_and_more_are_none() {
    let place = Place::new();
    let ten = &place.wired(&place.nsd("server:\n  tcp-count: 10\n"), &MANY)[0];
    assert_eq!(codes(ten)[0], "accept_queue", "{ten}");
    assert!(count(ten, "wire", "slow_to_answer") + count(ten, "pairs", "only_udp") > 60, "{ten}");
    let thousand = &place.wired(&place.nsd("server:\n  tcp-count: 1000\n"), &MANY)[0];
    assert_eq!(codes(thousand), ["normal"], "{thousand}");
}

#[test]
fn a_path_that_loses_packets_is_no_queue() {
    let place = Place::new();
    let many = ["--rtt", FAR, "--loss", "6%", "--clients", "200", "--pairs", "2", "--query-timeout", "4s"];
    let line = &place.wired(&place.nsd(""), &many)[0];
    let codes = codes(line);
    assert!(codes.contains(&"loss") && codes.contains(&"udp_lost") && !codes.contains(&"accept_queue"), "{line}");
}

/// A server in Go, which sends small segments at once.
#[test]
fn tls_takes_three_round_trips_and_quic_two_or_three() {
    let Some(dnsproxy) = built_server("dnsproxy") else { return };
    let place = Place::new();
    let behind = Kind::NSD.serving(place.zones());
    let text = behind.configuration(place.folder.path(), &["127.0.0.1:5300".parse().unwrap()]).unwrap();
    std::fs::write(place.path("behind.conf"), text).unwrap();
    let script = format!(
        "{} -d -c {} &\nexec {} --listen {SERVER} --port 53 --tls-port 853 --quic-port 853 --upstream 127.0.0.1:5300 --tls-crt {} --tls-key {}\n",
        find("nsd", "nsd").unwrap().display(),
        place.path("behind.conf").display(),
        dnsproxy.display(),
        certificate("server.pem"),
        certificate("server.key")
    );
    std::fs::write(place.path("start.sh"), script).unwrap();
    let more = [&SOME[..], &["--transport", "tcp,dot,doq", "--tls-insecure"]].concat();
    let lines = place.wired(&format!("sh {}", place.path("start.sh").display()), &more);
    assert_eq!(codes(&lines[0]), ["normal"], "{lines:?}");
    // Over TLS, dnsproxy writes the length in a record of its own, which arrives with the rest or a moment before it. That costs no round
    // trip, and is told where it is so on half of the connections.
    let over_tls: Vec<&str> = codes(&lines[1]).into_iter().filter(|&code| code != "split_response").collect();
    assert_eq!(over_tls, ["normal"], "{lines:?}");
    let quic = &lines[2];
    // Its handshakes take a round trip or two, as where clients are asked to prove their addresses (RFC 9000 §8.1).
    let median = quic["ratio"]["p50"].as_f64().unwrap();
    assert!(count(quic, "pairs", "valid") >= 78 && (1.6..3.6).contains(&median), "{quic}");
    assert!(lines[1]["parts_ms"]["handshake"]["n"] == 80 && quic["parts_ms"].get("connect").is_none(), "{lines:?}");
}

#[test]
fn a_response_that_a_server_holds_over_tls_and_what_is_not_spoken_are_told() {
    let place = Place::new();
    let listen = [format!("{SERVER}:53").parse().unwrap()];
    let text = Kind::BIND.serving(place.zones()).configuration(place.folder.path(), &listen).unwrap();
    let over_tls = format!("options {{ listen-on port 853 tls ours {{ {SERVER}; }};");
    let text = text.replacen("options {", &over_tls, 1)
        + &format!(
            "tls ours {{ cert-file \"{}\"; key-file \"{}\"; }};\n",
            certificate("server.pem"),
            certificate("server.key")
        );
    let bind = Kind::BIND.configured(text, place.zones());
    let more = [&SOME[..], &["--transport", "tcp,dot,doq", "--tls-insecure", "--query-timeout", "2s"]].concat();
    let lines = place.wired(&place.stock(&bind, ""), &more);
    assert_eq!((codes(&lines[0])[0], codes(&lines[2])[0]), ("normal", "no_connections"), "{lines:?}");
    // Another version of it may do better.
    let (dot, found) = (lines[1]["ratio"]["p50"].as_f64().unwrap(), codes(&lines[1])[0]);
    assert!((dot > 3.4 && found == "held_response") || (dot < 3.4 && found == "normal"), "{}", lines[1]);
}

#[test]
fn on_loopback_ratios_say_nothing_and_files_are_not_written_over() {
    let place = Place::new();
    let start = place.stock(&Kind::NSD.serving(place.zones()), "server:\n  ip-address: 127.0.0.1@5300\n");
    let ldplayer = env!("CARGO_BIN_EXE_ldplayer");
    let study = place.path("study");
    let ask = |more: &[&str]| {
        let mut command = Command::new(ldplayer);
        command.args(["testbed", "run", "--start-server", &start.replace("10.53.0.2@53", "127.0.0.1@53")]);
        command.args(["--wait-for", "127.0.0.1:5300", "--", ldplayer, "ratio", "127.0.0.1:5300", "--zone", "example."]);
        command.args(["--interval", "0.2", "--pairs", "3", "-o"]).arg(&study).args(more).output().unwrap()
    };
    let text = ask(&[]);
    let said = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text.status.code(), Some(0), "{}", String::from_utf8_lossy(&text.stderr));
    assert!(said.contains("no_network") && said.contains("127.0.0.1:5300  tcp      60     60"), "{said}");
    let again = ask(&[]);
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.code() == Some(2) && said.contains("exists") && !said.contains("begins"), "{said}");
    assert_eq!(ask(&["--force"]).status.code(), Some(0));
}

#[test]
fn bad_input_is_told_in_a_line_before_anything_is_sent() {
    let place = Place::new();
    let said = |status: i32, arguments: &[&str]| {
        let output = place.run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        said
    };
    let told = said(2, &["192.0.2.1"]);
    assert!(told.contains("--allow-target 192.0.2.1") && told.trim().lines().count() <= 2, "{told}");
    assert!(said(2, &["127.0.0.1", "--transport", "udp"]).contains("the transports to compare with UDP"));
    assert!(said(2, &["127.0.0.1", "--transport", "dot"]).contains("--tls-insecure"));
    assert!(said(2, &["127.0.0.1", "--clients", "0"]).contains("--clients"));
    assert!(said(2, &["127.0.0.1", "--clients", "100000", "--pairs", "1000"]).contains("the maximum is 2000000"));
    assert!(said(2, &["127.0.0.1", "--zone", "a..b"]).contains("--zone a..b"));
    assert!(said(2, &["127.0.0.1", "--transport", "tcp,tcp"]).contains("each transport once"));
    assert!(said(2, &["127.0.0.1", "a=127.0.0.1:53"]).contains("127.0.0.1:53: give each server once"));
    assert!(said(2, &["recorded"]).contains("recorded"));
    assert!(said(2, &["127.0.0.1", "--rtt", "20ms"]).contains("--start-server"));
    let wired = ["--rtt", "20ms", "--start-server", "false"];
    assert!(said(2, &[&["127.0.0.1"], &wired[..]].concat()).contains("servers must be at 10.53.0.2"));
    assert!(said(2, &[SERVER, "--rtt", "fast", "--start-server", "false"]).contains("not a round-trip time"));
    assert!(said(3, &[&[SERVER], &wired[..]].concat()).contains("--start-server: "));
    assert!(!Path::new(&place.path("study")).join("ratio.json").exists());
}

/// Its timeouts were told as those of a server that runs.
#[test]
fn a_server_that_ends_during_a_study_is_told() {
    let place = Place::new();
    let line = &place
        .wired(&format!("timeout 3 {}", place.nsd("")), &["--rtt", FAR, "--pairs", "5", "--query-timeout", "1s"])[0];
    let told = line["replay"][0].as_str().unwrap();
    assert!(told.starts_with("server.start_server: ") && told.contains("124"), "{line}");
    let study = std::fs::read_to_string(place.path("study/ratio.html")).unwrap();
    assert!(study.contains("server.start_server: "));
}

#[test]
fn an_interrupted_study_keeps_what_it_has() {
    let place = Place::new();
    let start = place.nsd("");
    let mut command = place.command(&[SERVER, "--rtt", "20ms", "--start-server", &start, "--pairs", "2000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains("10.53.0.2:53 ")));
    // What is not read would keep the server from writing.
    let rest = thread::spawn(move || lines.map_while(Result::ok).count());
    let has_rows = || std::fs::metadata(place.path("study/10.53.0.2-53/telemetry.parquet")).is_ok();
    // The run has begun once it has a directory; it is interrupted somewhere behind that.
    while !place.path("study/10.53.0.2-53/run.json").exists() && !has_rows() {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    rest.join().unwrap();
    let study: Value = serde_json::from_slice(&std::fs::read(place.path("study/ratio.json")).unwrap()).unwrap();
    let line = &study["lines"][0];
    assert!(line["pairs"]["asked"].as_u64().is_some() && !codes(line).is_empty(), "{line}");
}
