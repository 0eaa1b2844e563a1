//! Whom a replay asks and from where, and how it ends when it is told to, through the real command line.

mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::Array;
use ldplayer_net::namespace::Namespace;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use common::{certificate, data, free_address, summary_of};

/// A server that answers everything, and tells of each query by its sender's port.
struct Responder {
    address: SocketAddr,
    asked: mpsc::Receiver<u16>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (address, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (sender, asked) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
                buffer[2] |= 0x80;
                socket.send_to(&buffer[..length], client).unwrap();
                // Nobody listens any more once the test has seen enough.
                let _ = sender.send(client.port());
            }
        });
        Self { address, asked, stop, thread: Some(thread) }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn replay(run: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let system = "/usr/local/sbin:/usr/sbin:/sbin";
    command.env("PATH", format!("{}:{system}", std::env::var("PATH").unwrap()));
    command.args(["replay", "--force", "-o"]).arg(run);
    command
}

#[test]
fn a_pool_that_is_not_of_this_host_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = replay(&run);
    command.arg(data("l-root-20161006.pcap.xz")).args(["--server", &free_address().to_string()]);
    let output = command.args(["--sources", "pool:127.0.0.0/8,192.0.2.0/24"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("192.0.2.0 is not an address of this host") && stderr.lines().count() == 1, "{stderr}");
    assert!(!run.exists());
}

#[test]
fn several_servers_of_a_family_share_the_clients() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let servers = [Responder::start(), Responder::start()];
    let mut command = replay(&run);
    command.arg(data("l-root-20161006.pcap.xz")).args(["--stop", "2s", "--transport", "udp", "--sources", "ports"]);
    command.arg("--no-probe");
    for server in &servers {
        command.arg("--server").arg(server.address.to_string());
    }
    let summary = summary_of(&mut command, &run);
    assert_eq!(summary["queries"]["answered"], summary["queries"]["trace"], "{summary}");
    // Each client has a port of its own.
    let [first, second] = servers.each_ref().map(|server| server.asked.try_iter().collect::<BTreeSet<u16>>());
    assert!(!first.is_empty() && !second.is_empty() && first.is_disjoint(&second));
    assert_eq!((first.len() + second.len()) as u64, summary["clients"]["total"].as_u64().unwrap(), "{summary}");
}

#[test]
fn queries_without_a_way_to_their_server_fail_and_the_other_family_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // Nothing but loopback, and so no way to any address of IPv6 but ::1.
    let namespace = Namespace::create().unwrap();
    let in_namespace = |mut command: Command| {
        namespace.start_in(&mut command).unwrap();
        command
    };
    let mut up = Command::new("/usr/sbin/ip");
    up.args(["link", "set", "lo", "up"]);
    assert!(in_namespace(up).status().unwrap().success());
    let server = namespace.run(Responder::start).unwrap();
    let address = server.address.to_string();
    let mut lost = BTreeSet::new();
    for transport in ["udp", "tcp", "doq"] {
        let mut command = replay(&run);
        command.arg(data("l-root-20161006.pcap.xz")).args(["--stop", "2s", "--transport", transport]);
        command.args(["--query-timeout", "1s", "--sources", "ports", "--tls-ca", &certificate("ca.pem")]);
        command.args(["--server", &address, "--server", "[2001:db8::53]:5300", "--allow-target", "2001:db8::53"]);
        let summary = summary_of(&mut in_namespace(command), &run);
        let queries = &summary["queries"];
        let unreachable = queries["failed_by_reason"]["unreachable"].as_u64().unwrap();
        lost.insert(unreachable);
        if transport == "udp" {
            let all = queries["trace"].as_u64().unwrap();
            assert_eq!(queries["answered"].as_u64(), Some(all - unreachable), "{queries}");
        }
    }
    // The same queries fail over each transport: those of IPv6 clients.
    assert!(lost.len() == 1 && lost.first() > Some(&0), "{lost:?}");
}

#[test]
fn an_interrupt_ends_a_replay_whose_input_is_a_silent_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let server = Responder::start();
    let address = server.address.to_string();
    let mut command = replay(&run);
    command.args(["-", "--server", &address, "--timing", "rate:20000", "--sources", "pool:127.0.0.0/8"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // More than the reader sorts by and reads ahead, and then nothing more: the pipe stays open until the test is over.
    let mut pipe = child.stdin.take().unwrap();
    let (over, wait) = mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let lines: String = (0..200_000).map(|number| format!("q{number}.example. A\n")).collect();
        // The replay ends before it has read it all, or waits for more.
        let _ = pipe.write_all(lines.as_bytes());
        let _ = wait.recv();
    });
    let asked = server.asked.iter().take(1_000).count();
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success() && asked == 1_000);
    assert!(child.wait().unwrap().code().is_some(), "it ended by itself");
    let json: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    let count = |name: &str| json["summary"]["queries"][name].as_u64().unwrap();
    assert!(count("answered") >= 900, "{json}");
    assert_eq!(count("answered") + count("timed_out") + count("failed"), count("sent"));
    assert_eq!(count("sent") + count("not_sent"), count("trace"));
    drop(over);
    writer.join().unwrap();
}

#[test]
fn the_rows_tell_when_the_kernel_sent_each_query_where_they_are_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let server = Responder::start();
    for options in [&[][..], &["--stamp-sends"]] {
        let mut command = replay(&run);
        command.arg(data("l-root-20161006.pcap.xz")).args(["--stop", "2s", "--transport", "udp", "--sources", "ports"]);
        summary_of(command.args(["--server", &server.address.to_string()]).args(options), &run);
        let (mut rows, mut stamped) = (0, 0);
        for file in std::fs::read_dir(run.join("queries")).unwrap() {
            let file = std::fs::File::open(file.unwrap().path()).unwrap();
            for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
                let sent = Array::to_data(batch.unwrap().column_by_name("sent_ns").unwrap());
                rows += sent.len();
                stamped += sent.len() - sent.null_count();
            }
        }
        assert!(rows > 0 && stamped == if options.is_empty() { 0 } else { rows }, "{stamped} of {rows}");
    }
}
