//! Tests of the machine over TLS: handshakes, tickets, certificates, and the failures of TCP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ldplayer_core::policy::TlsVersion;
use ldplayer_core::{Outcome, Query, Reason, Status, Transport};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::simulation::{DELAY, Network, Reply, TIMEOUT, answer, framed, policy, tcp_query};
use super::{TlsSettings, TlsTrust};
use crate::table::{Machine, Policy};

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn server(certificate: &str) -> Arc<ServerConfig> {
    server_of(certificate, &[])
}

/// A server that chooses among these protocols.
pub fn server_of(certificate: &str, protocols: &[&[u8]]) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(data(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

pub fn settings() -> TlsSettings {
    let trust = TlsTrust::from_file(&data("ca.pem")).unwrap();
    TlsSettings { trust, name: None, resumption: true }
}

pub fn dot_query(number: u64, client: u8, due: i64) -> Query {
    Query { transport: Transport::Dot, ..tcp_query(number, client, due) }
}

fn network(settings: &TlsSettings) -> Network {
    Network::encrypted(policy(), settings, server("server.pem"), |_, message| vec![answer(message)])
}

fn latencies(rows: &[Outcome]) -> Vec<i64> {
    rows.iter().map(|row| (row.answered.unwrap() - row.submitted.unwrap()) / DELAY).collect()
}

#[test]
fn a_fresh_session_takes_three_round_trips_and_a_reused_one_takes_one() {
    let mut network = network(&settings());
    let rows = network.replay([dot_query(0, 1, 0), dot_query(1, 1, 200)]);
    assert!(rows.iter().all(|row| row.status == Status::Answered && row.transport == Transport::Dot));
    assert_eq!(latencies(&rows), [6, 2]);
    assert_eq!((rows[0].connect_ns, rows[0].handshake_ns), (Some(2 * DELAY), Some(2 * DELAY)));
    assert_eq!((rows[1].handshake_ns, rows[1].reused, rows[1].resumed), (None, true, false));
    let counts = network.machine.connection_counts();
    assert_eq!((counts.opened, counts.resumed, counts.failed), (1, 0, 0));
}

/// They shared one, and servers that wait for the socket after each message, as NSD and dnsdist do, left all but the first of them unanswered.
#[test]
fn queries_that_are_written_together_travel_in_records_of_their_own() {
    let mut network = network(&settings());
    let rows = network.replay([0, 1, 2, 200, 200].into_iter().zip(0..).map(|(due, number)| dot_query(number, 1, due)));
    assert!(rows.iter().all(|row| row.status == Status::Answered && row.connection == rows[0].connection));
    let records: Vec<usize> = network.written.iter().map(|octets| records(octets)).collect();
    // The greeting; the end of the handshake and the three that waited for it; and one by one.
    assert_eq!(records, [0, 4, 1, 1]);
}

/// Encrypted records in octets that were written at once (RFC 8446 §5.2).
fn records(mut octets: &[u8]) -> usize {
    let mut encrypted = 0;
    while let Some((&[kind, _, _, high, low], rest)) = octets.split_first_chunk() {
        encrypted += usize::from(kind == 23);
        octets = &rest[usize::from(u16::from_be_bytes([high, low]))..];
    }
    encrypted
}

#[test]
fn tls_1_2_takes_a_round_trip_more() {
    let policy = Policy { tls_version: TlsVersion::Tls12, ..policy() };
    let mut network = Network::encrypted(policy, &settings(), server("server.pem"), |_, message| vec![answer(message)]);
    let rows = network.replay([dot_query(0, 1, 0)]);
    assert_eq!(latencies(&rows), [8]);
}

#[test]
fn a_client_resumes_its_own_sessions_and_nobody_else_s() {
    let policy = Policy { queries_per_connection: 1, ..policy() };
    for (resumption, expected) in [(true, [false, true, false, true]), (false, [false; 4])] {
        let settings = TlsSettings { resumption, ..settings() };
        let mut network =
            Network::encrypted(policy, &settings, server("server.pem"), |_, message| vec![answer(message)]);
        let queries = [(1, 0), (1, 200), (2, 400), (2, 600)];
        let rows =
            network.replay(queries.into_iter().zip(0..).map(|((client, due), number)| dot_query(number, client, due)));
        assert_eq!(rows.iter().map(|row| row.resumed).collect::<Vec<_>>(), expected);
        let resumed = expected.iter().filter(|&&resumed| resumed).count() as u64;
        assert_eq!(network.machine.connection_counts().resumed, resumed);
        assert_eq!(network.machine.connection_counts().closed_spent, 4);
    }
}

#[test]
fn a_class_without_resumption_resumes_nothing() {
    let once = Policy { queries_per_connection: 1, ..policy() };
    let classes = [once, Policy { resumption: false, ..once }];
    let mut network = network(&settings());
    let tls = super::TlsClient::new(&settings(), super::ALPN_DOT).unwrap();
    network.machine = super::Connections::new(super::simulation::config(once), Some(tls)).with_classes(&classes);
    let queries = [(0, 0), (1, 0), (0, 300), (1, 300)].into_iter().zip(0..);
    let rows = network.replay(
        queries.map(|((class, due), number)| super::simulation::of_class(class, dot_query(number, class, due))),
    );
    assert_eq!(rows.iter().map(|row| row.resumed).collect::<Vec<_>>(), [false, false, true, false]);
}

#[test]
fn bad_certificates_fail_the_handshake_with_their_reason() {
    let other = TlsSettings { name: Some(TlsSettings::parse_name("other.test").unwrap()), ..settings() };
    let named = TlsSettings { name: Some(TlsSettings::parse_name("dns.test").unwrap()), ..settings() };
    let anybody = TlsSettings { trust: TlsTrust::Anybody, ..settings() };
    for (certificate, settings, reason) in [
        ("expired.pem", settings(), Some(Reason::CertificateTime)),
        ("stranger.pem", settings(), Some(Reason::CertificateUntrusted)),
        ("server.pem", other, Some(Reason::CertificateName)),
        ("server.pem", named, None),
        ("expired.pem", anybody.clone(), None),
        ("stranger.pem", anybody, None),
    ] {
        let mut network =
            Network::encrypted(policy(), &settings, server(certificate), |_, message| vec![answer(message)]);
        let rows = network.replay([dot_query(0, 1, 0), dot_query(1, 1, 1)]);
        let status = if reason.is_some() { Status::TlsFailed } else { Status::Answered };
        assert!(rows.iter().all(|row| (row.status, row.reason) == (status, reason)), "{certificate}: {rows:?}");
        let counts = network.machine.counts();
        assert_eq!(counts.sent, counts.answered + counts.timed_out + counts.failed);
        assert_eq!(network.machine.connection_counts().failed, u64::from(reason.is_some()));
    }
}

#[test]
fn a_server_that_speaks_no_tls_fails_the_handshake() {
    let mut network = network(&settings());
    network.tls = None;
    let rows = network.replay([dot_query(0, 1, 0)]);
    // It takes the records for the beginning of a message, and never answers.
    assert_eq!((rows[0].status, rows[0].reason), (Status::TlsFailed, Some(Reason::HandshakeTimeout)));
}

#[test]
fn queries_of_an_ended_session_are_sent_again_and_answers_may_be_cut_into_records() {
    let mut network =
        Network::encrypted(policy(), &settings(), server("server.pem"), |connection, message| match connection {
            0 => vec![Reply::Segments(vec![framed(message)[..5].to_vec()]), Reply::Reset],
            _ => vec![Reply::Segments(framed(message).chunks(1).map(<[u8]>::to_vec).collect())],
        });
    let rows = network.replay([dot_query(0, 1, 0), dot_query(1, 1, 0)]);
    assert!(rows.iter().all(|row| row.status == Status::Answered && row.resent && row.connection == Some(1)));
    assert_eq!(network.machine.connection_counts().reset, 1);
}

#[test]
fn queries_are_padded_over_tls_and_nowhere_else() {
    let with_opt = |mut query: Query| {
        let mut wire = query.wire.to_vec();
        wire[11] = 1;
        wire.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        query.wire = wire.into();
        query
    };
    for (padding, lengths) in [(128, [128, 128]), (0, [0, 0]), (468, [468, 468])] {
        let policy = Policy { padding, ..policy() };
        let mut network =
            Network::encrypted(policy, &settings(), server("server.pem"), |_, message| vec![answer(message)]);
        let queries = [with_opt(dot_query(0, 1, 0)), with_opt(dot_query(1, 1, 5)), dot_query(2, 1, 9)];
        let plain = [queries[0].wire.len(), queries[2].wire.len()];
        let rows = network.replay(queries);
        assert!(rows.iter().all(|row| row.status == Status::Answered), "{rows:?}");
        let sent: Vec<usize> = network.seen.iter().map(|(_, message)| message.len()).collect();
        assert_eq!(sent, [lengths[0].max(plain[0]), lengths[1].max(plain[0]), plain[1]]);
        assert_eq!(rows.iter().map(|row| usize::from(row.query_bytes)).collect::<Vec<_>>(), sent);
    }
    let mut network = Network::honest(Policy { padding: 128, ..policy() });
    network.replay([with_opt(tcp_query(0, 1, 0))]);
    assert!(network.seen[0].1.len() < 128, "TCP hides nothing");
}

#[test]
fn a_full_kernel_buffer_loses_no_record() {
    let mut network = network(&settings());
    network.room = 7;
    let rows = network.replay((0..3).map(|number| dot_query(number, 1, number as i64)));
    assert!(rows.iter().all(|row| row.status == Status::Answered), "{rows:?}");
}

#[test]
fn an_idle_session_is_closed_with_a_word() {
    let mut network = network(&settings());
    network.replay([dot_query(0, 1, 0)]);
    network.machine.handle_timeout(ldplayer_core::RunTime(network.now + 5_000));
    assert!(network.machine.take_close_notify(0).is_some_and(|words| words.len() > 5));
    assert_eq!(network.machine.connection_counts().closed_idle, 1);
}

#[test]
fn a_ticket_is_shown_to_no_server_but_the_one_that_gave_it() {
    // The server of the simulation has one set of keys for both addresses, and so would take any ticket.
    let mut network = network(&settings());
    let mut resumed = Vec::new();
    for (number, port) in [853, 854, 853, 854].into_iter().enumerate() {
        network.route.server.set_port(port);
        let rows = network.replay([dot_query(number as u64, 1, network.now + 100)]);
        assert_eq!((rows.len(), rows[0].status, rows[0].server.port()), (1, Status::Answered, port));
        resumed.push(rows[0].resumed);
        network.pass(network.now + 10 * policy().idle_timeout);
    }
    assert_eq!(resumed, [false, false, true, true]);
    assert_eq!(network.machine.connection_counts().opened, 4);
}

#[test]
fn a_blocked_session_keeps_no_more_than_one_write_takes() {
    let mut network =
        Network::encrypted(Policy { pipeline: 10_000, ..policy() }, &settings(), server("server.pem"), |_, message| {
            vec![answer(message)]
        });
    network.replay([dot_query(0, 1, 0)]);
    // From now on the kernel has room for nothing, and is asked again and again.
    (network.room, network.pause) = (0, DELAY);
    network.schedule_all((1..6_000).map(|number| dot_query(number, 1, 200)));
    network.pass(200 + 2 * TIMEOUT);
    let rows = std::mem::take(network.machine.outcomes());
    assert!(rows.len() == 5_999 && rows.iter().all(|row| row.status == Status::Timeout));
    let connection = network.machine.table.connection(0).unwrap();
    let kept = connection.active().unwrap().buffers.as_ref().unwrap().output.len();
    let most = super::WRITE_AT_ONCE + 1_000;
    assert!((super::WRITE_AT_ONCE / 2..most).contains(&kept), "{kept}");
}
