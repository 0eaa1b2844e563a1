//! Servers that send without end what answers no query: connections are closed as flooded, nothing waits for them, and what is kept of
//! it is bounded.

mod common;
#[path = "common/link.rs"]
mod link;
#[path = "common/streams.rs"]
mod streams;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ldplayer_core::{Outcome, Reason, Status, Transport};
use ldplayer_replay::{ConnectionCounts, Monitor, Settings, TlsSettings, TlsTrust};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use common::{queries, replay, settings, tally};
use link::{any_port, on_each_path};
use streams::{Responder, framed, read_message};

on_each_path! {
    a_server_over_tcp_that_sends_without_end_is_left_and_every_query_is_sent,
    a_server_over_tls_that_sends_without_end_is_left_and_every_query_is_sent,
    a_server_over_http2_that_sends_without_end_is_left_and_every_query_is_sent,
    answers_that_come_without_end_over_tcp_are_answers_and_the_rest_is_bounded,
    datagrams_without_end_are_counted_and_only_some_have_rows,
}

/// Queries of a test, of 50 clients.
const COUNT: u64 = 200;

/// What a server sends again and again, by the query that it has heard.
type Flood = fn(&[u8]) -> Vec<u8>;

fn empty(_: &[u8]) -> Vec<u8> {
    vec![0; 16_384]
}

fn garbage(_: &[u8]) -> Vec<u8> {
    (0..16_384_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn other_ids(query: &[u8]) -> Vec<u8> {
    let answer = |id: u16| {
        let mut answer = framed(query);
        answer[2..4].copy_from_slice(&id.to_be_bytes());
        // One of the IDs may be that of the query.
        answer[16] ^= 1;
        answer
    };
    (0..512).flat_map(answer).collect()
}

fn repeated(query: &[u8]) -> Vec<u8> {
    framed(query).repeat(500)
}

/// Frames of HTTP/2, behind SETTINGS: PING, as if it had an answer each.
fn pings(_: &[u8]) -> Vec<u8> {
    b"\0\0\x08\x06\x01\0\0\0\0pingping".repeat(900)
}

/// Frames of HTTP/2: DATA of no octets on the stream of the first query.
fn empty_data(_: &[u8]) -> Vec<u8> {
    b"\0\0\0\0\0\0\0\0\x01".repeat(1_800)
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn tls_server(protocols: &[&[u8]]) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(data("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

/// Says `greeting` and then the flood, from the first query on, until the client is gone. Queries over HTTP/2 are not read.
fn flood(link: &mut (impl Read + Write), (greeting, flood): (&[u8], Flood), stopped: &AtomicBool) {
    let query = if greeting.is_empty() { read_message(link, stopped) } else { Some(Vec::new()) };
    let Some(piece) = query.map(|query| flood(&query)) else { return };
    let mut is_there = link.write_all(greeting).is_ok();
    while is_there && !stopped.load(Ordering::Relaxed) {
        is_there = link.write_all(&piece).is_ok();
    }
}

fn start(transport: Transport, greeting: &'static [u8], piece: Flood) -> Responder {
    let tls = match transport {
        Transport::Tcp => None,
        Transport::Doh2 => Some(tls_server(&[b"h2"])),
        _ => Some(tls_server(&[])),
    };
    Responder::start(move |mut stream: TcpStream, stopped| {
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        match tls.clone() {
            None => flood(&mut stream, (greeting, piece), stopped),
            Some(config) => {
                let mut session = ServerConnection::new(config).unwrap();
                while session.is_handshaking() {
                    match session.complete_io(&mut stream) {
                        Err(error) if error.kind() != ErrorKind::WouldBlock || stopped.load(Ordering::Relaxed) => {
                            return;
                        }
                        _ => {}
                    }
                }
                flood(&mut StreamOwned::new(session, stream), (greeting, piece), stopped);
            }
        }
    })
}

/// What became of a run.
struct Ran {
    rows: Vec<Outcome>,
    connections: ConnectionCounts,
    /// Responses that belong to no query, whether they have a row or not.
    strays: u64,
    stray_rows: u64,
}

impl Ran {
    fn own(&self) -> impl Iterator<Item = &Outcome> {
        self.rows.iter().filter(|row| row.status.is_query())
    }
}

fn run_over(settings: &Settings, transport: Transport) -> Ran {
    let mut trace = queries(COUNT, 200_000);
    trace.iter_mut().for_each(|query| query.transport = transport);
    let monitor = Monitor::new(settings.workers);
    let rows = replay(settings, trace, &monitor);
    let stray_rows = rows.iter().filter(|row| row.status == Status::Stray).count() as u64;
    // No machine has more rows of them than some thousands and its queries.
    assert!(stray_rows <= settings.workers as u64 * 10_000 + COUNT, "{:?}", tally(&rows));
    Ran { rows, connections: monitor.connections(), strays: monitor.counts().stray, stray_rows }
}

fn run_against(responder: &Responder, transport: Transport, workers: usize) -> Ran {
    let mut settings = Settings { workers, query_timeout: 30_000_000_000, ..settings(responder.address) };
    // What a test counts shall not depend on how busy the machine is.
    (settings.policy.connect_timeout, settings.policy.handshake_timeout) = (30_000_000_000, 30_000_000_000);
    let trust = TlsTrust::from_file(&data("ca.pem")).unwrap();
    let name = Some(TlsSettings::parse_name("dns.test").unwrap());
    settings.tls = Some(TlsSettings { trust, name, resumption: true });
    (settings.tls_port, settings.doh_port) = (responder.address.port(), responder.address.port());
    run_over(&settings, transport)
}

/// Every query is sent, and ends since its server flooded two connections.
fn all_flooded(transport: Transport, greeting: &'static [u8], floods: &[Flood]) {
    for &piece in floods {
        for workers in [1, 2] {
            let responder = start(transport, greeting, piece);
            let ran = run_against(&responder, transport, workers);
            // The first frames of a flood may end the stream of a query before its connection.
            let expected = |row: &Outcome| matches!(row.reason, Some(Reason::Flooded | Reason::Garbage));
            let other = ran.own().find(|row| row.status != Status::Reset || !expected(row));
            assert!(other.is_none(), "{transport}: {other:?}");
            let counts = ran.connections;
            assert!(counts.flooded > 0 && counts.flooded == counts.opened, "{transport}: {counts:?}");
        }
    }
}

fn a_server_over_tcp_that_sends_without_end_is_left_and_every_query_is_sent() {
    all_flooded(Transport::Tcp, &[], &[empty, garbage, other_ids]);
}

fn a_server_over_tls_that_sends_without_end_is_left_and_every_query_is_sent() {
    all_flooded(Transport::Dot, &[], &[empty, garbage]);
}

fn a_server_over_http2_that_sends_without_end_is_left_and_every_query_is_sent() {
    all_flooded(Transport::Doh2, b"\0\0\0\x04\0\0\0\0\0", &[pings, empty_data]);
}

fn answers_that_come_without_end_over_tcp_are_answers_and_the_rest_is_bounded() {
    let responder = start(Transport::Tcp, &[], repeated);
    let ran = run_against(&responder, Transport::Tcp, 2);
    // A query behind another on its connection is not what that repeats.
    let is_known = |row: &Outcome| row.status == Status::Answered || row.reason == Some(Reason::Flooded);
    assert!(ran.own().all(is_known));
    assert!(ran.own().filter(|row| row.status == Status::Answered).count() >= 50);
    assert!(ran.connections.flooded >= 50, "{:?}", ran.connections);
}

fn datagrams_without_end_are_counted_and_only_some_have_rows() {
    let socket = ldplayer_net::udp::UdpSocket::serve(any_port(), 64 << 20).unwrap();
    let socket = UdpSocket::from(std::os::fd::OwnedFd::from(socket));
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (address, stop) = (socket.local_addr().unwrap(), AtomicBool::new(false));
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2_048];
            while !stop.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
                buffer[2] |= 0x80;
                // A full buffer of the client's loses some.
                (0..400).for_each(|_| drop(socket.send_to(&buffer[..length], client)));
            }
        });
        let settings = Settings { workers: 1, query_timeout: 3_000_000_000, ..settings(address) };
        let ran = run_over(&settings, Transport::Udp);
        stop.store(true, Ordering::Relaxed);
        ran
    });
    assert!(ran.own().all(|row| row.submitted.is_some()));
    assert!(ran.strays > ran.stray_rows && ran.stray_rows > 10_000, "{} of {}", ran.stray_rows, ran.strays);
}
