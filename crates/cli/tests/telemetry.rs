//! What a run says of both ends: of real processes that use, lose and hold something.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ldplayer_emulate::stock::Kind;
use ldplayer_net::namespace::Namespace;
use ldplayer_net::pin;
use serde_json::Value;

/// Where the server of a namespace of its own listens.
const SERVER: &str = "127.0.0.1:5300";

/// Replays so many queries, 10 ms apart unless told otherwise, and returns run.json.
fn replay(folder: &Path, queries: usize, options: &[&str]) -> Value {
    let trace = folder.join("queries");
    let lines: String = (0..queries).map(|at| format!("n{at}.example. A\n")).collect();
    std::fs::write(&trace, lines).unwrap();
    let run = folder.join("run");
    let timing = if options.contains(&"--timing") { &[][..] } else { &["--timing", "rate:100"] };
    let output = Command::new(env!("CARGO_BIN_EXE_ldplayer"))
        .args(["replay", "--force", "--telemetry-interval", "100ms", "-o"])
        .args([&run, &trace])
        .args(timing)
        .args(options)
        // Servers are found all the same.
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let text = std::fs::read_to_string(run.join("run.json")).unwrap_or_else(|_| panic!("{}", said(&output)));
    serde_json::from_str(&text).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn nsd(folder: &Path) -> String {
    let server: SocketAddr = SERVER.parse().unwrap();
    let file = folder.join("nsd.conf");
    std::fs::write(&file, Kind::NSD.serving(Vec::new()).configuration(folder, &[server]).unwrap()).unwrap();
    format!("nsd -d -c {}", file.display())
}

#[test]
fn a_server_over_tcp_is_told_with_its_children_and_its_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let command = nsd(folder.path());
    // Long enough for several looks at the sockets: a machine that takes long for one rests long after it.
    let json = replay(folder.path(), 300, &["--server", SERVER, "--start-server", &command, "--transport", "tcp"]);
    let telemetry = &json["summary"]["telemetry"];
    let (client, server) = (&telemetry["client"], &telemetry["server"]);
    assert!(server["processes_peak"].as_u64() >= Some(2), "NSD forks: {server}");
    assert!(
        server["rss_peak_bytes"].as_u64() > Some(1_000_000) && server["pss_peak_bytes"].as_u64() > Some(100_000),
        "{server}"
    );
    assert!(
        server["cpu_s"].is_f64() && server["cores_peak"].is_f64() && server["samples"].as_u64() >= Some(8),
        "{server}"
    );
    assert!(server["from_s"].as_f64() <= Some(0.0) && server["to_s"].as_f64() >= Some(0.9), "{server}");
    assert!(
        server["in_bytes"].as_u64() > Some(4_000) && server["context_switches_voluntary"].as_u64() > Some(0),
        "{server}"
    );
    for side in [client, server] {
        assert_eq!(side["sockets_at_peak"]["by_state"]["established"].as_u64(), Some(1), "one client: {side}");
        assert!(side["rss_peak_bytes"].as_u64() > Some(1_000_000));
    }
    assert_eq!((&server["udp_drops"], &server["accept_queue_overflows"]), (&Value::from(0), &Value::from(0)));
    assert_eq!(client["processes_peak"], 1, "the server is a child of ours, and not counted as ours");
}

/// A process that waits for us: what has to be watched, and does nothing.
fn idle(namespace: Option<&Namespace>) -> Child {
    let mut command = Command::new("/bin/cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    namespace.into_iter().for_each(|namespace| namespace.start_in(&mut command).unwrap());
    command.spawn().unwrap()
}

fn end(mut process: Child) {
    drop(process.stdin.take());
    process.wait().unwrap();
}

/// Sockets whose accept queue and receive buffer have room for nearly nothing, and that nobody reads. Not this process is watched,
/// which has children of other tests.
#[test]
fn what_a_server_loses_is_counted_as_its() {
    let folder = tempfile::tempdir().unwrap();
    let tcp = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    tcp.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    tcp.listen(0).unwrap();
    let tcp = TcpListener::from(tcp);
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    socket2::SockRef::from(&udp).set_recv_buffer_size(1).unwrap();
    let process = idle(None);
    let (address, pid) = (address.to_string(), process.id().to_string());
    let watched = ["--server", &address, "--watch-pid", &pid, "--query-timeout", "300ms"];
    let over_udp = replay(folder.path(), 80, &[&watched[..], &["--transport", "udp"]].concat());
    let server = &over_udp["summary"]["telemetry"]["server"];
    assert!(server["udp_drops"].as_u64() >= Some(50) && server["udp_drops"].as_u64() < Some(80), "{server}");
    assert!(server["udp_receive_buffer_errors"].as_u64() >= Some(50), "{server}");
    // They are told apart from the replay's own.
    assert_eq!(over_udp["summary"]["responses"]["receive_drops"], 0);
    let warnings = over_udp["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|warning| warning["code"] == "host_drops").expect("a warning");
    assert!(told["text"].as_str().unwrap().starts_with("the server's sockets dropped "), "{told}");
    let one_each = ["--transport", "tcp", "--queries-per-connection", "1"];
    let over_tcp = replay(folder.path(), 40, &[&watched[..], &one_each].concat());
    let server = &over_tcp["summary"]["telemetry"]["server"];
    assert!(server["accept_queue_overflows"].as_u64() > Some(0), "{server}");
    assert!(server["accept_queue_peak"].as_u64() >= Some(1), "{server}");
    end(process);
}

/// A number of the client's namespace would be a wrong one.
#[test]
fn figures_of_a_server_in_another_namespace_are_of_that() {
    let folder = tempfile::tempdir().unwrap();
    let namespace = Namespace::create().unwrap();
    let other = idle(Some(&namespace));
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, pid) = (here.local_addr().unwrap().to_string(), other.id().to_string());
    let options = ["--server", &address, "--watch-pid", &pid, "--query-timeout", "100ms"];
    let json = replay(folder.path(), 30, &options);
    end(other);
    let (client, server) = (&json["summary"]["telemetry"]["client"], &json["summary"]["telemetry"]["server"]);
    assert!(client["in_bytes"].as_u64() > Some(1_000), "{client}");
    assert_eq!((&server["in_bytes"], &server["udp_drops"]), (&Value::from(0), &Value::from(0)), "{server}");
    assert_eq!(server["sockets_at_peak"]["all"], 0, "{server}");
    assert!(server["rss_peak_bytes"].as_u64() > Some(100_000), "{server}");
}

#[test]
fn a_run_without_a_watched_server_has_figures_of_the_client_alone() {
    let folder = tempfile::tempdir().unwrap();
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = here.local_addr().unwrap().to_string();
    let json = replay(folder.path(), 5, &["--server", &address, "--query-timeout", "100ms"]);
    let telemetry = &json["summary"]["telemetry"];
    assert!(telemetry["server"].is_null() && telemetry["client"]["rss_peak_bytes"].is_u64(), "{telemetry}");
}

/// What has ended uses nothing that is known, which is not the same as nothing.
#[test]
fn a_server_that_has_ended_has_no_figures() {
    let folder = tempfile::tempdir().unwrap();
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = here.local_addr().unwrap().to_string();
    let mut process = idle(None);
    process.kill().unwrap();
    // Its end is told before it is waited for, so that its number is still its own.
    let pid = process.id().to_string();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !stat().contains(") Z ") {}
    let json = replay(folder.path(), 5, &["--server", &address, "--watch-pid", &pid, "--query-timeout", "100ms"]);
    process.wait().unwrap();
    assert!(json["summary"]["telemetry"]["server"].is_null(), "{}", json["summary"]["telemetry"]);
}

#[test]
fn an_interval_out_of_range_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("queries"), "example. A\n").unwrap();
    let refused = |interval: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_ldplayer"))
            .args(["replay", "--server", "127.0.0.1:9", "--telemetry-interval", interval, "-o"])
            .args([folder.path().join("run"), folder.path().join("queries")])
            .output()
            .unwrap();
        (output.status.code(), said(&output))
    };
    for interval in ["99ms", "2s", "0"] {
        let (code, said) = refused(interval);
        assert!(
            code == Some(2) && said.contains("--telemetry-interval") && said.contains("100ms to 1s"),
            "{code:?} {said}"
        );
    }
}

/// The warning that the client was the bottleneck, if it is given.
fn bottleneck(json: &Value) -> Option<&Value> {
    json["warnings"].as_array().unwrap().iter().find(|warning| warning["code"] == "client_bottleneck")
}

/// A worker of high precision uses all of its core, and is not late.
#[test]
fn a_client_that_spins_is_no_bottleneck() {
    let folder = tempfile::tempdir().unwrap();
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = here.local_addr().unwrap().to_string();
    let options = ["--server", &address, "--query-timeout", "300ms", "--precision", "high", "--workers", "1"];
    let json = replay(folder.path(), 120, &options);
    let telemetry = &json["summary"]["telemetry"];
    assert_eq!(bottleneck(&json), None);
    assert_eq!(telemetry["replay"]["saturated_s"], 0.0, "{telemetry}");
    assert!(telemetry["client"]["cpu_s"].as_f64() > Some(0.2), "it did spin: {telemetry}");
}

/// No machine sends two million queries a second from one worker of a build without optimisation.
#[test]
fn a_client_that_cannot_keep_up_is_the_bottleneck() {
    let folder = tempfile::tempdir().unwrap();
    let here = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = here.local_addr().unwrap().to_string();
    let overload = ["--timing", "rate:2000000", "--max-lag", "100000", "--workers", "1"];
    let json =
        replay(folder.path(), 150_000, &[&["--server", &address, "--query-timeout", "200ms"], &overload[..]].concat());
    let text =
        bottleneck(&json).unwrap_or_else(|| panic!("{}", json["summary"]["telemetry"]))["text"].as_str().unwrap();
    assert!(text.contains("worker 0 had no rest") && text.contains("became later"), "{text}");
}

/// The 99th percentile was ten times as long as without the neighbour, and the replay was called faithful.
#[test]
fn a_neighbour_on_the_servers_core_is_told_with_the_percentiles_that_it_can_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let core = *pin::allowed_cores().unwrap().last().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let neighbours = [(); 2].map(|()| {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || {
            pin::pin_to(core).unwrap();
            while !is_over.load(Ordering::Relaxed) {}
        })
    });
    let command = format!("taskset -c {core} {}", nsd(folder.path()));
    let load = ["--timing", "rate:2000", "--for", "3s", "--clients", "50"];
    let json = replay(folder.path(), 100, &[&["--server", SERVER, "--start-server", &command], &load[..]].concat());
    is_over.store(true, Ordering::Relaxed);
    neighbours.into_iter().for_each(|neighbour| neighbour.join().unwrap());
    let (verdict, wait) = (&json["verdict"], &json["summary"]["cpu_wait"]);
    assert!(wait["server"]["share"].as_f64() > Some(0.01) && wait["others_cores"].as_f64() > Some(0.3), "{wait}");
    let check = verdict["checks"].as_array().unwrap().iter().find(|check| check["name"] == "server_wait").unwrap();
    assert!(check["ok"] == false && check["note"].as_str().unwrap().contains("p99 ("), "{check}");
    assert_eq!((&verdict["replay"], &verdict["ok"]), (&"disturbed".into(), &false.into()));
    assert_eq!(json["summary"]["latency_ms"]["from_sent"]["good"]["p99"], false);
}
