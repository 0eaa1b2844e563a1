//! Replays over QUIC against a server of another make: all is answered, as over UDP, and sessions are resumed.

#[path = "common/built_server.rs"]
mod built_server;
mod common;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use ldplayer_emulate::stock::{Kind, Output, Process, StockError, Zone};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use built_server::built_server;
use common::{certificate, data, free_address, summary_of};

/// A root server, and dnsproxy in front of it.
struct Servers {
    plain: SocketAddr,
    quic: SocketAddr,
    https: SocketAddr,
    _processes: [Process; 2],
    /// One test at a time: dnsproxy refuses connections that it is too slow to accept.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

fn servers(folder: &Path) -> Option<Servers> {
    let dnsproxy = built_server("dnsproxy")?;
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut zone = Vec::new();
    let packed = std::fs::File::open(data("root-2016100801.zone.xz")).unwrap();
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(packed), &mut zone).unwrap();
    let file = folder.join("root.zone");
    std::fs::write(&file, zone).unwrap();
    let plain = free_address();
    let nsd = Kind::NSD.serving(vec![Zone::new(".", file)]).start(&[plain]).unwrap();
    // A port that was free may be another's by the time that it is used.
    let mut started = (0..5).map(|_| start_dnsproxy(&dnsproxy, plain, folder));
    let (quic, https, proxy) = started.find_map(Result::ok).expect("dnsproxy starts, see its errors above");
    Some(Servers { plain, quic, https, _processes: [nsd, proxy], _turn: turn })
}

/// Starts dnsproxy in front of `plain`, with an address for QUIC and one for HTTP/3.
fn start_dnsproxy(
    dnsproxy: &Path,
    plain: SocketAddr,
    folder: &Path,
) -> Result<(SocketAddr, SocketAddr, Process), StockError> {
    let (proxied, quic, https) = (free_address(), free_address(), free_address());
    let mut command = Command::new(dnsproxy);
    command
        .args(["--listen", "127.0.0.1", "--port", &proxied.port().to_string(), "--upstream", &plain.to_string()])
        .args(["--quic-port", &quic.port().to_string(), "--https-port", &https.port().to_string(), "--http3"])
        .args(["--tls-crt", &certificate("server.pem"), "--tls-key", &certificate("server.key")]);
    let mut process = Process::start("dnsproxy", &mut command, Output::Log(folder.join("dnsproxy.log")))?;
    // It answers over UDP when it listens to everything else.
    process.wait_for(proxied).inspect_err(|error| eprintln!("{error}"))?;
    Ok((quic, https, process))
}

/// Replays two seconds of a root server's clients and returns the summary of the run.
fn replay(folder: &Path, server: SocketAddr, transport: &str, arguments: &[&str]) -> Value {
    replay_trace(folder, &data("l-root-20161006.pcap.xz"), server, &[&["--transport", transport], arguments].concat())
}

fn replay_trace(folder: &Path, trace: &Path, server: SocketAddr, arguments: &[&str]) -> Value {
    let (run, server) = (folder.join("run"), server.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(trace).args(["--server", &server, "-o"]).arg(&run);
    // However late a busy machine is, all is to be sent.
    command.args([
        "--stop",
        "2s",
        "--max-lag",
        "60000",
        "--query-timeout",
        "20s",
        "--connect-timeout",
        "20s",
        "--handshake-timeout",
        "20s",
        "--force",
    ]);
    summary_of(command.args(arguments), &run)
}

/// How many rows of the last run have this bit set.
fn rows_with(folder: &Path, column: &str) -> usize {
    let files = std::fs::read_dir(folder.join("run/queries")).unwrap();
    let of_file = |path: PathBuf| {
        let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
        let batches = reader.build().unwrap().map(Result::unwrap);
        batches.map(|batch| batch.column_by_name(column).unwrap().as_boolean().true_count()).sum::<usize>()
    };
    files.map(|file| of_file(file.unwrap().path())).sum()
}

/// All was sent over `transport` and answered, with the response codes of `expected`.
fn is_answered(summary: &Value, transport: &str, expected: &Value) {
    let queries = &summary["queries"];
    assert_eq!(queries["answered"], queries["trace"], "{queries}");
    assert_eq!(queries["sent_by_transport"][transport], queries["trace"], "{queries}");
    assert_eq!(summary["rcodes"], expected["rcodes"]);
}

#[test]
fn dns_over_quic_is_answered_as_dns_over_udp() {
    let folder = tempfile::tempdir().unwrap();
    let Some(servers) = servers(folder.path()) else { return };
    let udp = replay(folder.path(), servers.plain, "udp", &["--sources", "pool:127.0.0.0/8"]);
    let doq = |arguments: &[&str]| replay(folder.path(), servers.quic, "doq", arguments);
    let ca = certificate("ca.pem");
    for sources in ["pool:127.0.0.0/8", "ports"] {
        let reused = doq(&["--tls-ca", &ca, "--tls-name", "dns.test", "--sources", sources]);
        is_answered(&reused, "doq", &udp);
        assert!(reused["connections"]["opened"].as_u64() >= udp["clients"]["total"].as_u64(), "{reused}");
    }
    let single = doq(&["--tls-insecure", "--queries-per-connection", "1"]);
    is_answered(&single, "doq", &udp);
    // Clients that ask once have nothing to resume, and those that ask again at once have no ticket yet.
    assert!(single["connections"]["resumed"].as_u64() > Some(0), "{single}");
    assert_eq!(rows_with(folder.path(), "early_data"), 0);
    let unresumed = doq(&["--tls-insecure", "--queries-per-connection", "1", "--resumption", "off"]);
    is_answered(&unresumed, "doq", &udp);
    assert_eq!(unresumed["connections"]["resumed"], 0);
    let early = doq(&["--tls-insecure", "--idle-timeout", "20ms", "--early-data", "on"]);
    is_answered(&early, "doq", &udp);
    assert!(rows_with(folder.path(), "early_data") > 0);
    let refused = doq(&["--tls-ca", &ca, "--tls-name", "other.test"]);
    assert_eq!(refused["queries"]["failed_by_status"]["tls_failed"], refused["queries"]["trace"]);
    assert_eq!(refused["queries"]["failed_by_reason"]["certificate_name"], refused["queries"]["trace"]);
}

#[test]
fn dns_over_http3_is_answered_as_dns_over_udp() {
    let folder = tempfile::tempdir().unwrap();
    let Some(servers) = servers(folder.path()) else { return };
    let udp = replay(folder.path(), servers.plain, "udp", &["--sources", "pool:127.0.0.0/8"]);
    let doh3 = |arguments: &[&str]| replay(folder.path(), servers.https, "doh3", arguments);
    let ca = certificate("ca.pem");
    let reused = doh3(&["--tls-ca", &ca, "--tls-name", "dns.test"]);
    is_answered(&reused, "doh3", &udp);
    assert!(reused["connections"]["opened"].as_u64() >= udp["clients"]["total"].as_u64(), "{reused}");
    let single = doh3(&["--tls-insecure", "--queries-per-connection", "1"]);
    is_answered(&single, "doh3", &udp);
    assert!(single["connections"]["resumed"].as_u64() > Some(0), "{single}");
    let early = ["--tls-insecure", "--idle-timeout", "20ms", "--early-data", "on", "--doh-method"];
    is_answered(&doh3(&[&early[..], &["get"]].concat()), "doh3", &udp);
    assert!(rows_with(folder.path(), "early_data") > 0);
    is_answered(&doh3(&[&early[..], &["post"]].concat()), "doh3", &udp);
    assert_eq!(rows_with(folder.path(), "early_data"), 0, "POST is not safe to be replayed");
    let refused = doh3(&["--tls-ca", &ca, "--tls-name", "other.test"]);
    assert_eq!(refused["queries"]["failed_by_reason"]["certificate_name"], refused["queries"]["trace"]);
}

#[test]
fn queries_recorded_over_udp_and_quic_are_sent_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(servers) = servers(folder.path()) else { return };
    let mut lines = "time\tsrc\tsrc_port\tdst\tdst_port\ttransport\tqname\tqtype\tqclass\tflags\tedns\n".to_owned();
    for (number, transport) in ["udp", "doq", "doh3"].into_iter().cycle().take(30).enumerate() {
        let time = 1_000_000_000.0 + number as f64 / 100.0;
        lines += &format!("{time:.9}\t192.0.2.1\t4000\t198.51.100.1\t53\t{transport}\tcom.\tNS\tIN\t-\t1232\n");
    }
    let trace = folder.path().join("mixed.tsv");
    std::fs::write(&trace, lines).unwrap();
    let (quic, https) = (servers.quic.port().to_string(), servers.https.port().to_string());
    for sources in ["ports", "pool:127.0.0.1"] {
        let arguments = ["--tls-insecure", "--tls-port", &quic, "--doh-port", &https, "--sources", sources];
        let summary = replay_trace(folder.path(), &trace, servers.plain, &arguments);
        assert_eq!(summary["queries"]["answered"], 30, "{summary}");
        assert_eq!(summary["queries"]["sent_by_transport"], serde_json::json!({"udp": 10, "doq": 10, "doh3": 10}));
        assert_eq!(summary["connections"]["opened"], 2);
    }
}
