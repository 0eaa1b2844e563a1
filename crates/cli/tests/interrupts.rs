//! What Ctrl-C does to a replay whose queries nobody answers, through the real command line.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow_array::StringArray;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// A trace of a few thousand queries.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/l-root-20161006.pcap.xz");
/// How long a replay that is told to end waits for answers, unless it is told again.
const GRACE: Duration = Duration::from_secs(1);
/// SIGINT in the masks of /proc.
const SIGINT: u64 = 1 << 1;

/// A server that takes what it is asked, and answers nothing.
enum Silent {
    Datagrams(UdpSocket),
    Streams(TcpListener),
}

impl Silent {
    fn start(transport: &str) -> Self {
        match transport {
            "tcp" | "dot" => Self::Streams(TcpListener::bind("127.0.0.1:0").unwrap()),
            _ => Self::Datagrams(UdpSocket::bind("127.0.0.1:0").unwrap()),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Datagrams(socket) => socket.local_addr().unwrap(),
            Self::Streams(listener) => listener.local_addr().unwrap(),
        }
    }

    /// Waits until a client has sent something.
    fn wait(&self) {
        let mut octets = [0; 4_096];
        match self {
            Self::Datagrams(socket) => assert!(socket.recv(&mut octets).unwrap() > 0),
            Self::Streams(listener) => {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut octets).unwrap() > 0);
                // A connection that ended would be another reason for its queries to end.
                std::mem::forget(stream);
            }
        }
    }
}

/// A replay over a transport to a server: nothing but an interrupt ends it within a minute.
fn replay(transport: &str, server: SocketAddr, run: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.args(["replay", "--force", "--tls-insecure", "--transport", transport, "--sources", "ports", "--no-probe"]);
    command.args(["--query-timeout", "60s", "--connect-timeout", "60s", "--handshake-timeout", "60s"]);
    let server = server.to_string();
    let port = server.rsplit(':').next().unwrap();
    command.args(["--tls-port", port, "--doh-port", port, "--server", &server, "-o"]).arg(run);
    command.stdout(Stdio::null());
    command
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    // One that comes while another is pending is none.
    while is_pending(child) {
        std::thread::yield_now();
    }
}

/// Whether an interrupt of the process is still to be handled. That of one that has ended is not.
fn is_pending(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    if status.contains("State:\tZ") {
        return false;
    }
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & SIGINT != 0)
}

/// Why each query of a run has no answer, as its row files have it.
fn reasons(run: &Path) -> Vec<Option<String>> {
    let mut reasons = Vec::new();
    for file in std::fs::read_dir(run.join("queries")).unwrap() {
        let file = File::open(file.unwrap().path()).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column_by_name("reason").unwrap().as_dictionary::<Int8Type>();
            let words = column.downcast_dict::<StringArray>().unwrap();
            reasons.extend(words.into_iter().map(|word| word.map(str::to_owned)));
        }
    }
    reasons
}

/// The run is complete: its accounts hold, its row files are whole, and nothing but the interrupt has ended its queries.
fn is_whole(run: &Path) {
    let report = Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(["report", "--json"]).arg(run).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let queries = report.pointer("/queries").or(report.pointer("/summary/queries")).unwrap();
    let count = |name: &str| queries[name].as_u64().unwrap();
    assert!(count("sent") > 0 && count("answered") == 0, "{queries}");
    assert_eq!(count("timed_out") + count("failed"), count("sent"), "{queries}");
    assert_eq!(count("sent") + count("not_sent"), count("trace"), "{queries}");
    let reasons = reasons(run);
    assert_eq!(reasons.len() as u64, count("trace"), "each query has its row");
    assert!(reasons.iter().all(|reason| reason.as_deref() == Some("interrupted")), "{reasons:?}");
}

#[test]
fn a_second_interrupt_ends_a_replay_at_once_and_leaves_complete_row_files() {
    let folder = tempfile::tempdir().unwrap();
    for transport in ["udp", "tcp", "doq"] {
        let run = folder.path().join(transport);
        let ended_at_once = || {
            // A new one each time: the last one still has what the last replay sent.
            let server = Silent::start(transport);
            let mut command = replay(transport, server.address(), &run);
            let mut child = command.arg(TRACE).spawn().unwrap();
            server.wait();
            let began = Instant::now();
            interrupt(&child);
            interrupt(&child);
            assert_eq!(child.wait().unwrap().code(), Some(130), "{transport}");
            let took = began.elapsed();
            is_whole(&run);
            took < GRACE
        };
        // A replay that waited would never end within that time; one that does not may be slow on a busy machine.
        assert!(std::iter::repeat_with(ended_at_once).take(5).any(|at_once| at_once), "{transport}");
    }
}

#[test]
fn one_interrupt_ends_a_replay_whose_connections_are_only_opening() {
    let folder = tempfile::tempdir().unwrap();
    for transport in ["doq", "doh3", "dot"] {
        let run = folder.path().join(transport);
        let server = Silent::start(transport);
        let mut command = replay(transport, server.address(), &run);
        let mut child = command.arg(TRACE).spawn().unwrap();
        server.wait();
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{transport}");
        is_whole(&run);
    }
}

/// A pipe that somebody has opened to write, and writes nothing.
#[test]
fn an_interrupt_ends_a_replay_whose_trace_is_still_being_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, run) = (folder.path().join("trace.pcap"), folder.path().join("run"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let server = Silent::start("udp");
    let child = replay("udp", server.address(), &run).arg(&pipe).stderr(Stdio::piped()).spawn().unwrap();
    // This returns when the replay has opened its end.
    let writer = OpenOptions::new().write(true).open(&pipe).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let told = said.lines().filter(|line| !line.contains("no effect in this run"));
    assert!(told.count() <= 1, "{said}");
    drop(writer);
}

/// The pipe gives some kilobytes and stays open. The replay has read all or a part of them.
#[test]
fn an_interrupt_ends_a_replay_whose_pipe_says_nothing_more() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    // The second is more than a pipe holds: what is written first has been read.
    for (number, octets) in [4_000, 200_000].into_iter().enumerate() {
        let (pipe, run) = (folder.path().join(format!("queries{number}")), folder.path().join(format!("run{number}")));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let server = Silent::start("udp");
        let child = replay("udp", server.address(), &run).arg(&pipe).stderr(Stdio::piped()).spawn().unwrap();
        let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
        writer.write_all(&b"some.name.example A\n".repeat(octets / 20)).unwrap();
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{octets}: {said}");
        drop(writer);
    }
}
