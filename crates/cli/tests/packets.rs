//! `ldplayer replay --path packets` against real servers: every row is that of a replay by sockets, and what goes wrong is said.

#[path = "common/built_server.rs"]
mod built_server;
mod common;

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrow_array::cast::AsArray;
use ldplayer_emulate::stock::{Kind, Zone, find};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use built_server::built_server;
use common::{certificate, data, summary_of};

/// Where servers listen: in a namespace of their own, any address is local.
const SERVERS: [&str; 2] = ["203.0.113.53", "2001:db8::53"];
/// Both ways of a query.
const PATHS: [&str; 2] = ["sockets", "packets"];
/// However late a busy machine is, all is to be sent, and waited for.
const PATIENT: [&str; 8] =
    ["--max-lag", "60000", "--query-timeout", "20s", "--connect-timeout", "20s", "--handshake-timeout", "20s"];

fn ldplayer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ldplayer"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn listen(port: u16) -> Vec<SocketAddr> {
    SERVERS.iter().map(|server| SocketAddr::new(server.parse().unwrap(), port)).collect()
}

/// A server's command, and the folder of its files and of the runs against it.
struct Place {
    folder: tempfile::TempDir,
    command: String,
}

impl Place {
    /// NSD with the root zone, which answers over TLS on port 853, too.
    fn nsd() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let command = nsd(folder.path(), &[listen(53), listen(853)].concat());
        Self { folder, command }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command of two seconds of a root server's clients, in half of one.
    fn trace(&self, path: &str, arguments: &[&str]) -> Command {
        let mut command = self.replay(&data("l-root-20161006.pcap.xz"), path);
        command.args(["--stop", "2s", "--speed", "4"]).args(PATIENT).args(arguments);
        command
    }

    fn replay(&self, trace: &Path, path: &str) -> Command {
        let mut command = ldplayer();
        command.arg("replay").arg(trace).args(SERVERS.map(|server| format!("--server={server}")));
        command.args(["--start-server", &self.command, "--path", path, "--force", "-o"]).arg(self.path("run"));
        command
    }

    /// Makes a run, of which all is answered by this path, and returns what its rows say of each query.
    fn rows(&self, path: &str, command: &mut Command) -> Vec<String> {
        let rows = self.rows_of_all(path, command);
        let unanswered: Vec<&String> = rows.iter().filter(|row| !is_answered(row)).collect();
        assert_eq!(unanswered, [] as [&String; 0], "{path}");
        rows
    }

    /// Makes a run, and returns what its rows say of each query, answered or not.
    fn rows_of_all(&self, path: &str, command: &mut Command) -> Vec<String> {
        summary_of(command, &self.path("run"));
        assert_eq!(self.json()["config"]["path"], path);
        self.shown("index,client,server,transport,status,rcode,response_bytes,reason")
    }

    /// Rows of the last run, in the order of the trace.
    fn shown(&self, columns: &str) -> Vec<String> {
        let output = ldplayer().arg("rows").arg(self.path("run")).args(["--no-header", "--columns", columns]).output();
        let mut rows: Vec<String> =
            String::from_utf8(output.unwrap().stdout).unwrap().lines().map(str::to_owned).collect();
        rows.sort_by_key(|row| row.split('\t').next().and_then(|index| index.parse::<u64>().ok()));
        rows
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("run/run.json")).unwrap()).unwrap()
    }

    /// The rows of the same replay by both paths, which are equal.
    fn same_by_both_paths(&self, arguments: &[&str]) -> Vec<String> {
        let [sockets, packets] = PATHS.map(|path| self.rows(path, &mut self.trace(path, arguments)));
        assert_eq!(sockets, packets, "{arguments:?}");
        packets
    }
}

/// Whether a row is of a query that was answered.
fn is_answered(row: &str) -> bool {
    row.contains("\tanswered\t")
}

/// Writes the configuration of an NSD with the root zone, and returns its command.
fn nsd(folder: &Path, addresses: &[SocketAddr]) -> String {
    let mut zone = Vec::new();
    let packed = File::open(data("root-2016100801.zone.xz")).unwrap();
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(packed), &mut zone).unwrap();
    let file = folder.join("root.zone");
    fs::write(&file, zone).unwrap();
    let mut text = Kind::NSD.serving(vec![Zone::new(".", file)]).configuration(folder, addresses).unwrap();
    let (key, pem) = (certificate("server.key"), certificate("server.pem"));
    text += &format!(
        "server:\n  tcp-count: 8000\n  tls-port: 853\n  tls-service-key: \"{key}\"\n  tls-service-pem: \"{pem}\"\n"
    );
    let configuration = folder.join("nsd.conf");
    fs::write(&configuration, text).unwrap();
    format!("nsd -d -c {}", configuration.display())
}

#[test]
fn nsd_answers_each_client_over_udp_and_tcp_as_by_sockets() {
    let nsd = Place::nsd();
    let recorded = nsd.same_by_both_paths(&["--idle-timeout", "50ms"]);
    let has = |text: &str| recorded.iter().any(|row| row.contains(text));
    assert!(has("\t[2001:db8::53]:53\tudp\t") && has("\t203.0.113.53:53\ttcp\t"), "{recorded:?}");
    nsd.same_by_both_paths(&["--transport", "tcp", "--queries-per-connection", "1", "--workers", "2"]);
}

/// By packets, connections that have been idle for longest are parked while there are more than a thousand.
#[test]
fn thousands_of_idle_connections_are_used_again_as_by_sockets() {
    // By packets, no client has an address of "this network" (RFC 1122 §3.2.1.3).
    let of_hosts = |row: &String| !row.split('\t').nth(1).unwrap().starts_with("0.");
    let [sockets, packets] =
        PATHS.map(|path| thousands_idle(60, path).into_iter().filter(of_hosts).collect::<Vec<String>>());
    // NSD resets the connection of two queries that are none.
    assert_eq!(sockets.iter().filter(|row| is_answered(row)).count(), sockets.len() - 2);
    assert_eq!(sockets, packets);
}

#[test]
fn thousands_of_idle_connections_may_be_closed_by_their_server() {
    for (path, least) in PATHS.into_iter().zip([99, 98]) {
        let rows = thousands_idle(1, path);
        // A query that crosses with the end of its connection is repeated once, and may meet another that ends.
        let answered = rows.iter().filter(|row| is_answered(row)).count();
        assert!(answered * 100 >= rows.len() * least, "{answered} of {} by {path}", rows.len());
    }
}

/// Rows of a minute of a root server's clients in four seconds, all over TCP, where the server closes what is idle for so many seconds.
fn thousands_idle(timeout_s: u32, path: &str) -> Vec<String> {
    let nsd = Place::nsd();
    let mut configuration = fs::read_to_string(nsd.path("nsd.conf")).unwrap();
    configuration += &format!("  tcp-timeout: {timeout_s}\n");
    fs::write(nsd.path("nsd.conf"), configuration).unwrap();
    let mut command = nsd.replay(&data("l-root-20161006.pcap.xz"), path);
    command.args(["--transport", "tcp", "--speed", "15", "--idle-timeout", "60s"]).args(PATIENT);
    let rows = nsd.rows_of_all(path, &mut command);
    let connections = &nsd.json()["summary"]["connections"];
    assert!(connections["peak_open"].as_u64() > Some(1_030), "{connections}");
    assert_eq!(connections["closed"]["server"].is_u64(), timeout_s == 1, "{connections}");
    rows
}

#[test]
fn nsd_answers_over_tls_as_by_sockets() {
    let (nsd, ca) = (Place::nsd(), certificate("ca.pem"));
    nsd.same_by_both_paths(&[
        "--transport",
        "dot",
        "--tls-ca",
        &ca,
        "--tls-name",
        "dns.test",
        "--idle-timeout",
        "50ms",
    ]);
}

#[test]
fn a_server_of_https_and_quic_answers_as_by_sockets() {
    let Some(dnsproxy) = built_server("dnsproxy") else { return };
    let folder = tempfile::tempdir().unwrap();
    // Inside, servers reach each other by loopback alone.
    let behind: SocketAddr = "127.0.0.1:5300".parse().unwrap();
    let (nsd, proxy) = (nsd(folder.path(), &[behind]), dnsproxy.display());
    let [v4, v6] = SERVERS;
    let (key, pem) = (certificate("server.key"), certificate("server.pem"));
    let ports = "--port 53 --tls-port 8853 --quic-port 8853 --https-port 8443 --http3";
    let command = format!(
        "{nsd} & exec {proxy} --listen {v4} --listen {v6} {ports} --tls-crt {pem} --tls-key {key} --upstream {behind}"
    );
    let place = Place { folder, command };
    for transport in ["doh2", "doq", "doh3"] {
        let ports = ["--tls-port", "8853", "--doh-port", "8443", "--idle-timeout", "50ms"];
        let arguments = [&["--transport", transport, "--tls-insecure"][..], &ports].concat();
        let [sockets, packets] = PATHS.map(|path| place.rows_of_all(path, &mut place.trace(path, &arguments)));
        let pairs = || sockets.iter().zip(&packets).filter(|(one, other)| is_answered(one) && is_answered(other));
        pairs().for_each(|(one, other)| assert_eq!(one, other));
        // The proxy refuses connections that it could not take yet, which clients know only once they have opened them.
        let is_refused = |row: &&String| row.ends_with("\treset_by_server") || row.ends_with("\tconnection_refused");
        assert!(sockets.iter().chain(&packets).filter(|row| !is_answered(row)).all(|row| is_refused(&row)));
        assert!(sockets.len() == packets.len() && pairs().count() > sockets.len() / 2, "{packets:?}");
    }
}

/// Knot DNS, which answers with the address that it was asked from.
fn whoami() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("whoami.zone");
    fs::write(&zone, "whoami.example. 60 SOA ns.example. h.example. 1 2 3 4 5\nwhoami.example. 60 NS ns.example.\n")
        .unwrap();
    let knot = Kind::KNOT.serving(vec![Zone::new("whoami.example.", zone)]);
    let text = knot.configuration(folder.path(), &listen(53)).unwrap() + "    module: mod-whoami\n";
    let file = folder.path().join("knot.conf");
    fs::write(&file, text).unwrap();
    let command = format!("{} -c {}", find("knotd", "knot").unwrap().display(), file.display());
    Place { folder, command }
}

/// Each client of the kept responses, and the address in the answer: the last bytes, as nothing comes after it.
fn told(responses: &Path) -> Vec<(IpAddr, IpAddr)> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(responses).unwrap()).unwrap().build().unwrap();
    let mut told = Vec::new();
    for batch in reader.map(Result::unwrap) {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let (clients, responses) = (column("src").as_string::<i32>(), column("response").as_binary::<i32>());
        for (client, response) in clients.iter().zip(responses) {
            let (client, response): (IpAddr, _) = (client.unwrap().parse().unwrap(), response.unwrap());
            let address = match client {
                IpAddr::V4(_) => IpAddr::from(*response.last_chunk::<4>().unwrap()),
                IpAddr::V6(_) => IpAddr::from(*response.last_chunk::<16>().unwrap()),
            };
            told.push((client, address));
        }
    }
    told
}

#[test]
fn a_server_sees_each_client_at_its_own_address() {
    let knot = whoami();
    let trace = knot.path("trace.tsv");
    let mut text = "time\tsrc\tqname\tqtype\ttransport\n".to_owned();
    for (client, qtype) in [("192.0.2.1", "A"), ("198.51.100.9", "A"), ("2001:db8:1::7", "AAAA"), ("fd00::8", "AAAA")] {
        for transport in ["udp", "tcp"] {
            text += &format!("1\t{client}\twhoami.example.\t{qtype}\t{transport}\n");
        }
    }
    fs::write(&trace, text).unwrap();
    let mut command = knot.replay(&trace, "packets");
    knot.rows("packets", command.arg("--keep-responses").args(PATIENT));
    let told = told(&knot.path("run/responses.parquet"));
    assert_eq!(told.len(), 8);
    assert!(told.iter().all(|(client, address)| client == address), "{told:?}");
}

/// Each client with the milliseconds from sent to answered, of each row. No query was sent before it was due.
fn latencies(place: &Place) -> Vec<(IpAddr, f64)> {
    let rows = place.shown("index,client,intended_ns,submitted_ns,answered_ns");
    let latency = |row: &String| {
        let [_, client, due, submitted, answered] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let [due, submitted, answered] = [due, submitted, answered].map(|ns| ns.parse::<f64>().unwrap());
        assert!(due <= submitted, "{row}");
        (client.parse().unwrap(), (answered - submitted) / 1e6)
    };
    rows.iter().map(latency).collect()
}

#[test]
fn clients_have_the_round_trip_time_that_the_sender_is_told() {
    let nsd = Place::nsd();
    for (arguments, round_trips) in [
        (&["--transport", "udp"][..], 1.0),
        (&["--transport", "tcp", "--queries-per-connection", "1"], 2.0),
        (&["--transport", "dot", "--queries-per-connection", "1", "--tls-insecure", "--resumption", "off"], 3.0),
    ] {
        nsd.rows("packets", nsd.trace("packets", &["--rtt", "40ms"]).args(arguments));
        let latencies = latencies(&nsd);
        assert!(latencies.len() > 100 && latencies.iter().all(|&(_, ms)| ms >= 40.0), "{arguments:?}: {latencies:?}");
        let new = latencies.iter().filter(|&&(_, ms)| ms >= 40.0 * round_trips).count();
        assert!(new * 10 > latencies.len() * 9, "{arguments:?}: {new} of {}", latencies.len());
        let run = nsd.json();
        let link = &run["summary"]["link"];
        assert!(link["crossed"].as_u64().unwrap() >= 2 * latencies.len() as u64, "{link}");
        assert_eq!((&link["lost"], &link["no_room"]), (&0.into(), &0.into()));
        assert_eq!(run["config"]["changed"]["rtt"], "40ms");
    }
}

#[test]
fn each_client_has_the_round_trip_time_of_its_prefix_and_a_link_that_loses_all_answers_nobody() {
    let nsd = Place::nsd();
    let table = nsd.path("rtt.csv");
    fs::write(&table, "prefix,ms\n0.0.0.0/1,60\n128.0.0.0/1,120\n").unwrap();
    nsd.rows("packets", nsd.trace("packets", &["--transport", "udp", "--rtt"]).arg(&table));
    for (client, ms) in latencies(&nsd) {
        let least = match client {
            IpAddr::V4(v4) if v4.octets()[0] < 128 => 60.0,
            IpAddr::V4(_) => 120.0,
            IpAddr::V6(_) => 0.0,
        };
        assert!(ms >= least, "{client}: {ms}");
    }
    let mut lossy = nsd.replay(&data("l-root-20161006.pcap.xz"), "packets");
    lossy.args(["--stop", "2s", "--max-lag", "60s", "--transport", "udp", "--loss", "100%", "--query-timeout", "1s"]);
    let rows = nsd.rows_of_all("packets", &mut lossy);
    assert!(rows.len() > 100 && rows.iter().all(|row| row.contains("\ttimeout\t")), "{rows:?}");
    assert_eq!(nsd.json()["summary"]["link"]["lost"], rows.len());
}

/// States of TCP (include/net/tcp_states.h of Linux): LISTEN.
const LISTENS: &str = "0A";

#[test]
fn connections_are_closed_on_both_sides_when_a_run_has_ended() {
    let nsd = Place::nsd();
    let sockets = nsd.path("sockets");
    let replay = format!(
        "{} replay {} --server {} --stop 1s --transport tcp --force -o {}; cat /proc/net/tcp /proc/net/tcp6 >{}",
        env!("CARGO_BIN_EXE_ldplayer"),
        data("l-root-20161006.pcap.xz").display(),
        SERVERS.join(" --server "),
        nsd.path("run").display(),
        sockets.display()
    );
    let mut command = ldplayer();
    command.args(["testbed", "run", "--packets", "--start-server", &nsd.command, "--wait-for", SERVERS[0]]);
    let output = command.args(["--", "sh", "-c", &replay]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let opened = nsd.json()["summary"]["connections"]["opened"].as_u64().unwrap();
    let text = fs::read_to_string(&sockets).unwrap();
    let states: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert!(opened > 50 && states.contains(&LISTENS), "{text}");
    assert!(states.iter().all(|state| [LISTENS, "st"].contains(state)), "{text}");
}

#[test]
fn a_run_by_packets_is_made_again_by_packets() {
    let nsd = Place::nsd();
    let first = nsd.rows("packets", &mut nsd.trace("packets", &[]));
    fs::rename(nsd.path("run"), nsd.path("first")).unwrap();
    let mut again = ldplayer();
    again.args(["replay", "--again"]).arg(nsd.path("first")).arg("-o").arg(nsd.path("run"));
    assert_eq!(nsd.rows("packets", &mut again), first);
}

/// The documentation says so; but its answers were dropped where they leave by a device of their own.
#[test]
fn a_server_on_loopback_answers_clients_without_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let command = nsd(folder.path(), &["127.0.0.1:53".parse().unwrap()]);
    let trace = folder.path().join("trace.tsv");
    // A client on loopback, which the one client of a list is, sent packets from 127.0.0.1, which the kernel drops.
    let rows = ["192.0.2.7", "127.0.0.1"].map(|client| format!("1\t{client}\t4000\t198.51.100.1\t.\tNS\n")).concat();
    std::fs::write(&trace, format!("time\tsrc\tsrc_port\tdst\tqname\tqtype\n{rows}")).unwrap();
    for transport in ["udp", "tcp"] {
        let mut replay = ldplayer();
        replay.arg("replay").arg(&trace).args(["--server", "127.0.0.1", "--transport", transport, "--force"]);
        replay
            .args(["--start-server", &command, "--path", "packets"])
            .args(PATIENT)
            .arg("-o")
            .arg(folder.path().join("run"));
        let output = replay.output().unwrap();
        let run = std::fs::read(folder.path().join("run/run.json")).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        let run: Value = serde_json::from_slice(&run).unwrap();
        assert_eq!(run["summary"]["queries"]["answered"], 2, "{transport}: {}", run["summary"]);
    }
}

#[test]
fn what_cannot_be_had_without_sockets_is_one_line_with_its_remedy() {
    let nsd = Place::nsd();
    let trace = data("l-root-20161006.pcap.xz");
    let bare = |arguments: &[&str]| {
        let mut command = ldplayer();
        command.arg("replay").arg(&trace).args(["--server", "127.0.0.1:5399", "-o"]).arg(nsd.path("none"));
        command.args(arguments).output().unwrap()
    };
    let started = |argument: &[&str]| nsd.trace("packets", argument).output().unwrap();
    for (output, status, words) in [
        (bare(&["--path", "packets"]), 3, "--path packets: this namespace has no link for frames; add --start-server"),
        (bare(&["--path", "raw"]), 2, "unknown path `raw`: use auto, sockets, packets or packets:xdp"),
        (
            started(&["--sources", "ports"]),
            2,
            "--sources ports: there are no sockets with --path packets; use original",
        ),
        (started(&["--server", "::1"]), 2, "--path packets: the kernel drops packets to ::1 that arrive by a link"),
        (started(&["--count-segments"]), 2, "--count-segments: the counters are the kernel's"),
        (started(&["--rtt", "fast"]), 2, "'--rtt <SPEC>': `fast` is not a round-trip time: use 20ms"),
        (
            started(&["--loss", "1%", "--stamp-sends"]),
            2,
            "--stamp-sends: the kernel stamps frames as they leave the link",
        ),
        (bare(&["--rtt", "1ms"]), 2, "a link of the sender's own needs --path packets"),
    ] {
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{said}");
        let ours: Vec<&str> = said.lines().filter(|line| line.starts_with("ldplayer: ")).collect();
        assert!(matches!(ours[..], [line] if line.contains(words)), "{words}: {said}");
        assert!(!nsd.path("none").exists() && !nsd.path("run").exists(), "{words}");
    }
}

#[test]
fn a_server_that_is_down_refuses_as_by_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place { folder, command: String::new() };
    for (transport, status, reason) in [
        ("udp", "refused", "-"),
        ("tcp", "connect_failed", "connection_refused"),
        ("dot", "connect_failed", "connection_refused"),
        ("doq", "connect_failed", "connection_refused"),
    ] {
        let [sockets, packets] = PATHS.map(|path| {
            let mut command = ldplayer();
            command.args(["testbed", "run"]).args((path == "packets").then_some("--packets"));
            command.arg(env!("CARGO_BIN_EXE_ldplayer")).arg("replay").arg(data("l-root-20161006.pcap.xz"));
            command.args(SERVERS.map(|server| format!("--server={server}"))).args(["--stop", "1s", "--tls-insecure"]);
            command.args(["--transport", transport, "--force", "-o"]).arg(place.path("run")).args(PATIENT);
            summary_of(&mut command, &place.path("run"));
            assert_eq!(place.json()["config"]["path"], path, "auto is the path of the namespace");
            place.shown("index,client,status,reason")
        });
        assert_eq!(sockets, packets, "{transport}");
        let end = format!("\t{status}\t{reason}");
        assert!(packets.len() > 100 && packets.iter().all(|row| row.ends_with(&end)), "{transport}: {packets:?}");
    }
}

#[test]
fn an_experiment_compares_both_paths() {
    let folder = tempfile::tempdir().unwrap();
    let zone =
        "example. 60 SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n";
    fs::write(folder.path().join("example.zone"), zone).unwrap();
    let trace = "time\tsrc\tqname\tqtype\n1\t192.0.2.1\texample.\tNS\n1.1\t2001:db8::1\tno.example.\tA\n";
    fs::write(folder.path().join("trace.tsv"), trace).unwrap();
    let text = "trace = 'trace.tsv'\nmax_retries = 0\nmax_lag = '60s'\nrtt = '20ms'\n[server.nsd]\nkind = 'nsd'\nzones = 'example.zone'\n\
                [matrix]\npath = ['sockets', 'packets']\ntransport = ['udp', 'tcp']\n";
    let (file, out) = (folder.path().join("paths.toml"), folder.path().join("out"));
    fs::write(&file, text).unwrap();
    let output = ldplayer().arg("experiment").arg(file).arg("-o").arg(&out).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let record: Value = serde_json::from_slice(&fs::read(out.join("experiment.json")).unwrap()).unwrap();
    let cells: Vec<&str> = record["runs"].as_array().unwrap().iter().filter_map(|run| run["cell"].as_str()).collect();
    for path in PATHS {
        let of_path: Vec<&&str> = cells.iter().filter(|cell| cell.contains(&format!("path={path}"))).collect();
        assert_eq!(of_path.len(), 2, "{cells:?}");
        for cell in of_path {
            let run: Value = serde_json::from_slice(&fs::read(out.join(cell).join("1/run.json")).unwrap()).unwrap();
            assert_eq!((&run["config"]["path"], &run["summary"]["queries"]["answered"]), (&path.into(), &2.into()));
            assert!(run["summary"]["latency_ms"]["from_sent"]["p50"].as_f64().unwrap() >= 20.0, "{cell}: {run}");
            assert_eq!(run["summary"]["link"].is_object(), path == "packets", "of the sender, or of a wire");
        }
    }
}
