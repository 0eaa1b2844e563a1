//! Servers that misbehave, over TCP and over TLS: each query comes to one end, the right one, and reaches the server no more
//! often than its row says.

mod common;
#[path = "common/link.rs"]
mod link;
#[path = "common/streams.rs"]
mod streams;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ldplayer_core::{Outcome, Reason, Status, Transport};
use ldplayer_replay::{ConnectionCounts, Monitor, Settings, TlsSettings, TlsTrust};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use common::{queries, replay, settings, tally};
use link::on_each_path;
use streams::{Responder, framed, read_message};

on_each_path! {
    however_answers_are_cut_and_ordered_all_are_answered,
    a_wrong_id_is_a_stray_and_the_query_waits_on,
    a_reset_in_the_middle_of_an_answer_loses_it_after_a_second_try,
    a_server_that_half_closes_is_left_and_asked_anew,
    a_server_that_never_answers_and_closes_is_asked_twice,
    a_server_that_slams_the_door_fails_by_the_protocol,
    a_server_that_speaks_no_tls_is_waited_for_until_the_handshake_takes_too_long,
    a_server_that_never_answers_times_out,
    a_bad_certificate_is_told_by_its_fault,
}

/// Queries of a test; its 50 clients have an even number of them each.
const COUNT: u64 = 300;

/// How often each query reached the server, by its name.
type Seen = Arc<Mutex<BTreeMap<Vec<u8>, u64>>>;

/// A connection as the server has it.
struct Session {
    link: Link,
    /// Queries so far.
    number: u32,
    /// An answer held back.
    held: Vec<u8>,
}

enum Link {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Link {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Link {
    fn read(&mut self, octets: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(octets),
            Self::Tls(stream) => stream.read(octets),
        }
    }
}

impl Session {
    /// Writes octets, in a segment of their own where the kernel lets them go at once; whether the client is there.
    fn write(&mut self, octets: &[u8]) -> bool {
        let written = match &mut self.link {
            Link::Plain(stream) => stream.write_all(octets),
            Link::Tls(stream) => stream.write_all(octets).and_then(|()| stream.flush()),
        };
        written.is_ok()
    }

    /// Ends with a reset.
    fn reset(&self) -> bool {
        // A client that is gone does not matter.
        let _ = socket2::SockRef::from(self.link.socket()).set_linger(Some(Duration::ZERO));
        false
    }
}

/// What the server does with a query; `false` ends the connection.
type Behaviour = fn(&mut Session, &[u8]) -> bool;

/// A responder that remembers what it saw.
struct Server {
    responder: Responder,
    seen: Seen,
}

impl Server {
    /// Over TLS with the certificate in this file, if there is one.
    fn start(certificate: Option<&str>, behaviour: Behaviour) -> Self {
        let (seen, tls) = (Seen::default(), certificate.map(server_config));
        let noted = Arc::clone(&seen);
        let responder = Responder::start(move |stream, stopped| serve(stream, tls.clone(), behaviour, &noted, stopped));
        Self { responder, seen }
    }

    /// One that closes every connection as soon as it is there.
    fn slamming() -> Self {
        Self { responder: Responder::start(|_, _| ()), seen: Seen::default() }
    }
}

fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>, behaviour: Behaviour, seen: &Seen, stopped: &AtomicBool) {
    stream.set_nodelay(true).unwrap();
    let link = match tls {
        None => Link::Plain(stream),
        Some(config) => Link::Tls(Box::new(StreamOwned::new(ServerConnection::new(config).unwrap(), stream))),
    };
    let mut session = Session { link, number: 0, held: Vec::new() };
    while let Some(query) = read_message(&mut session.link, stopped) {
        *seen.lock().unwrap().entry(query[12..].to_vec()).or_default() += 1;
        session.number += 1;
        if !behaviour(&mut session, &query) {
            return;
        }
    }
}

/// The answer behind its length, with an ID that nobody uses.
fn misnumbered(query: &[u8]) -> Vec<u8> {
    let mut answer = framed(query);
    answer[2] ^= 0x55;
    answer
}

fn honest(session: &mut Session, query: &[u8]) -> bool {
    session.write(&framed(query))
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn server_config(certificate: &str) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(data(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

fn trusting(name: &str) -> TlsSettings {
    let trust = TlsTrust::from_file(&data("ca.pem")).unwrap();
    TlsSettings { trust, name: Some(TlsSettings::parse_name(name).unwrap()), resumption: true }
}

/// A run over a transport against a responder, with its accounts checked.
fn run_over(
    transport: Transport,
    behaviour: Behaviour,
    change: impl FnOnce(&mut Settings),
) -> (Vec<Outcome>, ConnectionCounts) {
    let certificate = (transport == Transport::Dot).then_some("server.pem");
    run_against(&Server::start(certificate, behaviour), transport, change)
}

fn run_against(
    server: &Server,
    transport: Transport,
    change: impl FnOnce(&mut Settings),
) -> (Vec<Outcome>, ConnectionCounts) {
    let mut settings =
        Settings { query_timeout: 20_000_000_000, max_sockets: 2_000, ..settings(server.responder.address) };
    // What a test counts shall not depend on how busy the machine is.
    settings.policy.connect_timeout = 20_000_000_000;
    settings.policy.handshake_timeout = 20_000_000_000;
    (settings.tls, settings.tls_port) = (Some(trusting("dns.test")), server.responder.address.port());
    change(&mut settings);
    let mut trace = queries(COUNT, 200_000);
    trace.iter_mut().for_each(|query| query.transport = transport);
    let names: Vec<Vec<u8>> = trace.iter().map(|query| query.wire[12..].to_vec()).collect();
    let monitor = Monitor::new(settings.workers);
    let rows = replay(&settings, trace, &monitor);
    let seen = server.seen.lock().unwrap();
    for row in rows.iter().filter(|row| row.status.is_query()) {
        let times = seen.get(&names[row.index as usize]).copied().unwrap_or(0);
        assert!(times <= 1 + u64::from(row.resent), "seen {times} times: {row:?}");
        assert!(row.status != Status::Answered || times > 0, "answered and never seen: {row:?}");
    }
    let counts = monitor.connections();
    let closed = counts.closed_by_client() + counts.closed_by_server;
    assert_eq!(counts.opened, counts.open + closed + counts.reset);
    assert_eq!(counts.resent, rows.iter().filter(|row| row.resent).count() as u64);
    (rows, counts)
}

/// The same over TCP and over TLS.
fn over_both(behaviour: Behaviour, check: impl Fn(Transport, Vec<Outcome>, ConnectionCounts)) {
    for transport in [Transport::Tcp, Transport::Dot] {
        let (rows, counts) = run_over(transport, behaviour, |_| ());
        check(transport, rows, counts);
    }
}

fn all(status: &str, reason: Option<&'static str>) -> BTreeMap<(String, Option<&'static str>), usize> {
    [((status.to_owned(), reason), COUNT as usize)].into()
}

fn however_answers_are_cut_and_ordered_all_are_answered() {
    let out_of_order: Behaviour = |session, query| {
        if session.number.is_multiple_of(2) {
            let held = std::mem::take(&mut session.held);
            session.write(&framed(query)) && session.write(&held)
        } else {
            session.held = framed(query);
            true
        }
    };
    let two_in_a_segment: Behaviour = |session, query| {
        session.held.extend(framed(query));
        if session.number.is_multiple_of(2) {
            let both = std::mem::take(&mut session.held);
            return session.write(&both);
        }
        true
    };
    let length_apart: Behaviour = |session, query| {
        let answer = framed(query);
        let (length, message) = answer.split_at(2);
        let sent = session.write(length);
        std::thread::sleep(Duration::from_micros(300));
        sent && session.write(message)
    };
    let single_octets: Behaviour = |session, query| framed(query).iter().all(|&octet| session.write(&[octet]));
    for behaviour in [out_of_order, two_in_a_segment, length_apart, single_octets] {
        over_both(behaviour, |_, rows, counts| {
            assert_eq!(tally(&rows), all("answered", None));
            assert_eq!((counts.opened, counts.open, counts.failed, counts.resent), (50, 50, 0, 0));
        });
    }
}

fn a_wrong_id_is_a_stray_and_the_query_waits_on() {
    let first_wrong: Behaviour = |session, query| session.write(&misnumbered(query)) && honest(session, query);
    over_both(first_wrong, |_, rows, _| {
        let of = |status: Status| rows.iter().filter(|row| row.status == status).count();
        assert_eq!((of(Status::Answered), of(Status::Stray), rows.len()), (300, 300, 600));
        // A wrong ID may be that of a query that was answered before, or of another that waits.
        let is_known = |reason| matches!(reason, Reason::UnknownId | Reason::Duplicate | Reason::QuestionMismatch);
        assert!(rows.iter().filter_map(|row| row.reason).all(is_known), "{:?}", tally(&rows));
    });
    for transport in [Transport::Tcp, Transport::Dot] {
        let only_wrong: Behaviour = |session, query| session.write(&misnumbered(query));
        let (rows, _) = run_over(transport, only_wrong, |settings| settings.query_timeout = 300_000_000);
        let of = |status: Status| rows.iter().filter(|row| row.status == status).count();
        assert_eq!((of(Status::Timeout), of(Status::Stray), rows.len()), (300, 300, 600));
        let is_known = |reason| matches!(reason, Reason::UnknownId | Reason::QuestionMismatch);
        assert!(rows.iter().filter_map(|row| row.reason).all(is_known), "{:?}", tally(&rows));
    }
}

fn a_reset_in_the_middle_of_an_answer_loses_it_after_a_second_try() {
    let half: Behaviour = |session, query| {
        session.write(&framed(query)[..9]);
        session.reset()
    };
    over_both(half, |_, rows, counts| {
        // Octets that were on their way may be lost with the reset, or be read before it.
        assert!(rows.iter().all(|row| row.status == Status::Reset && row.reason.is_some() && row.resent), "{rows:?}");
        assert_eq!(counts.resent, COUNT);
    });
}

fn a_server_that_half_closes_is_left_and_asked_anew() {
    let half_close: Behaviour = |session, query| {
        let is_there = session.write(&framed(query));
        let _ = session.link.socket().shutdown(Shutdown::Write);
        is_there
    };
    over_both(half_close, |_, rows, counts| {
        // What meets a connection that is about to end is sent again, and a second time lost.
        let is_known = |row: &Outcome| matches!(row.status, Status::Answered | Status::Reset);
        assert!(rows.iter().all(is_known), "{:?}", tally(&rows));
        assert!(rows.iter().filter(|row| row.status == Status::Answered).count() >= 50);
        assert!(counts.closed_by_server > 0 && counts.closed_idle == 0, "{counts:?}");
    });
}

fn a_server_that_never_answers_and_closes_is_asked_twice() {
    over_both(
        |_, _| false,
        |_, rows, counts| {
            assert!(rows.iter().all(|row| row.status == Status::Reset && row.resent), "{:?}", tally(&rows));
            assert_eq!(counts.resent, COUNT);
        },
    );
}

fn a_server_that_slams_the_door_fails_by_the_protocol() {
    let server = Server::slamming();
    let (rows, _) = run_against(&server, Transport::Tcp, |_| ());
    assert!(rows.iter().all(|row| row.status == Status::Reset && row.resent), "{:?}", tally(&rows));
    let (rows, counts) = run_against(&server, Transport::Dot, |_| ());
    let ended = |row: &Outcome| matches!(row.reason, Some(Reason::ClosedByServer | Reason::ResetByServer));
    assert!(rows.iter().all(|row| row.status == Status::TlsFailed && ended(row) && !row.resent), "{:?}", tally(&rows));
    assert!(counts.opened == 0 && counts.failed > 0, "{counts:?}");
}

fn a_server_that_speaks_no_tls_is_waited_for_until_the_handshake_takes_too_long() {
    // It takes the first record for a long message, and waits for its end.
    let server = Server::start(None, honest);
    let (rows, counts) = run_against(&server, Transport::Dot, |settings| {
        settings.policy.handshake_timeout = 300_000_000;
    });
    assert_eq!(tally(&rows), all("tls_failed", Some("handshake_timeout")));
    assert_eq!(counts.opened, 0);
}

fn a_server_that_never_answers_times_out() {
    for transport in [Transport::Tcp, Transport::Dot] {
        let (rows, counts) = run_over(transport, |_, _| true, |settings| settings.query_timeout = 500_000_000);
        assert_eq!(tally(&rows), all("timeout", None));
        assert_eq!((counts.opened, counts.failed, counts.resent), (50, 0, 0));
    }
}

fn a_bad_certificate_is_told_by_its_fault() {
    for (certificate, name, reason) in [
        ("expired.pem", "dns.test", "certificate_time"),
        ("stranger.pem", "dns.test", "certificate_untrusted"),
        ("server.pem", "other.test", "certificate_name"),
    ] {
        let server = Server::start(Some(certificate), honest);
        let (rows, counts) = run_against(&server, Transport::Dot, |settings| settings.tls = Some(trusting(name)));
        assert_eq!(tally(&rows), all("tls_failed", Some(reason)));
        assert!(counts.opened == 0 && counts.failed >= 50, "{counts:?}");
        assert!(server.seen.lock().unwrap().is_empty(), "no query reaches a server that is not trusted");
    }
}
