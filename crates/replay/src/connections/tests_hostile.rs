//! Servers that send what answers no query: how much of it is borne before the connection is closed, and what is no flood.

use std::sync::Arc;

use ldplayer_core::{Outcome, Query, Reason, RunTime, Status, Transport};
use rustls::crypto::cipher::{AeadKey, Iv, OutboundChunks, OutboundPlainMessage};
use rustls::{ConnectionTrafficSecrets, ContentType, ExtractedSecrets, ProtocolVersion, SupportedCipherSuite};

use super::http2::frames::{append_header, flag, kind};
use super::simulation::{Network, Reply, answer, config, framed, policy, tcp_query};
use super::tests_doh::scripted::scripted;
use super::tests_doh::{doh_query, of};
use super::tests_tls::{dot_query, server, settings};
use crate::doh::DohMethod;
use crate::table::{Machine, Policy};
use crate::test::response;

/// Octets of the pieces in which a server sends without end, and how many pieces stand for that.
const PIECE: usize = 16_000;
const PIECES: usize = 600;

/// A policy whose clients wait long enough for a flood.
fn patient() -> Policy {
    Policy { idle_timeout: i64::MAX / 2, ..policy() }
}

/// So many octets of what `make` says, again and again.
fn repeat(piece: &[u8]) -> Vec<u8> {
    piece.iter().copied().cycle().take((PIECE / piece.len()).max(1) * piece.len()).collect()
}

/// What a server over TCP or TLS sends upon a query.
type Flood = fn(&[u8]) -> Vec<u8>;

fn empty(_: &[u8]) -> Vec<u8> {
    vec![0; PIECE]
}

fn one_octet(_: &[u8]) -> Vec<u8> {
    repeat(b"\0\x01x")
}

fn garbage(_: &[u8]) -> Vec<u8> {
    (0..PIECE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn long(_: &[u8]) -> Vec<u8> {
    [&[0x3e, 0x7e][..], &vec![b'x'; PIECE - 2]].concat()
}

fn other_ids(query: &[u8]) -> Vec<u8> {
    // Its own ID would make one of them the answer.
    let others = (0..4_096_u16).filter(|id| query.get(..2) != Some(&id.to_be_bytes()));
    let answers = others.flat_map(|id| {
        let mut answer = framed(query);
        answer[2..4].copy_from_slice(&id.to_be_bytes());
        answer
    });
    answers.take(PIECE / framed(query).len() * framed(query).len()).collect()
}

fn other_question(query: &[u8]) -> Vec<u8> {
    let mut answer = framed(query);
    answer[16] ^= 1;
    repeat(&answer)
}

fn again(query: &[u8]) -> Vec<u8> {
    repeat(&framed(query))
}

fn over(transport: Transport, server_of: impl FnMut(u64, &[u8]) -> Vec<Reply> + 'static) -> Network {
    match transport {
        Transport::Tcp => Network::new(config(patient()), server_of),
        _ => Network::encrypted(patient(), &settings(), server("server.pem"), server_of),
    }
}

fn asked(transport: Transport, count: u64) -> Vec<Query> {
    let query = if transport == Transport::Tcp { tcp_query } else { dot_query };
    (0..count).map(|number| query(number, 1, number as i64 * 300)).collect()
}

fn own(rows: &[Outcome]) -> Vec<&Outcome> {
    rows.iter().filter(|row| row.status.is_query()).collect()
}

#[test]
fn a_server_that_sends_what_nobody_asked_for_is_left_as_flooded() {
    for transport in [Transport::Tcp, Transport::Dot] {
        for (name, flood, most) in [
            ("empty", empty as Flood, 2_306),
            ("one octet", one_octet, 2_306),
            ("garbage", garbage, 2_306),
            ("long", long, 40),
            ("other IDs", other_ids, 2_306),
            ("other question", other_question, 2_306),
        ] {
            let mut network = over(transport, move |_, query| vec![Reply::Segments(vec![flood(query); PIECES])]);
            let rows = network.replay(asked(transport, 1));
            let row = own(&rows)[0];
            let expected = (Status::Reset, Some(Reason::Flooded), true);
            assert_eq!((row.status, row.reason, row.resent), expected, "{transport} {name}");
            let counts = network.machine.connection_counts();
            assert_eq!((counts.opened, counts.flooded, counts.open), (2, 2, 0), "{transport} {name}");
            let strays = network.machine.counts().stray;
            assert!((1..=most).contains(&strays), "{transport} {name}: {strays} messages were looked at");
        }
    }
}

#[test]
fn an_answer_counts_though_it_comes_without_end() {
    for transport in [Transport::Tcp, Transport::Dot] {
        let mut network = over(transport, |_, query| vec![Reply::Segments(vec![again(query); PIECES])]);
        let rows = network.replay(asked(transport, 3));
        assert!(own(&rows).iter().all(|row| row.status == Status::Answered && !row.resent), "{transport}");
        network.pass(network.now + 10_000);
        let counts = network.machine.connection_counts();
        assert_eq!((counts.opened, counts.flooded, counts.open), (3, 3, 0), "{transport}");
        assert!(network.machine.counts().stray < 4_000);
    }
}

#[test]
fn an_idle_connection_that_is_flooded_is_closed_and_none_is_opened() {
    let mut network = over(Transport::Tcp, |_, query| vec![answer(query)]);
    let rows = network.replay(asked(Transport::Tcp, 1));
    assert_eq!(rows[0].status, Status::Answered);
    let mut pieces = 0;
    while network.machine.number(0).is_some() {
        network.machine.handle_input(0, RunTime(network.now), &empty(&[]));
        pieces += 1;
    }
    let counts = network.machine.connection_counts();
    assert_eq!((pieces, counts.opened, counts.flooded, counts.open), (1, 1, 1, 0));
}

/// Sends records of this type and content to a client whose session is up, until its connection is closed; how many that were.
fn records_until_closed(kind: ContentType, content: &[u8], most: usize) -> usize {
    let mut network = over(Transport::Dot, |_, query| vec![answer(query)]);
    assert_eq!(network.replay(asked(Transport::Dot, 1))[0].status, Status::Answered);
    for number in 1..=most {
        let connection = network.machine.table.connection_mut(0).unwrap();
        let record = connection.active_mut().tls.as_mut().unwrap().forge(kind, content).unwrap();
        network.machine.handle_input(0, RunTime(network.now), &record);
        if network.machine.number(0).is_none() {
            assert_eq!(network.machine.connection_counts().flooded, 1);
            return number;
        }
    }
    panic!("{kind:?} {content:?}: it goes on after {most} records");
}

#[test]
fn records_of_tls_without_content_tickets_and_new_keys_are_borne_so_often_and_no_more() {
    let ticket = [&[4, 0, 0, 0, 0, 9, 0x3a, 0x80, 0, 0, 0, 1, 1, b'x', 0, 200][..], &[b't'; 200], &[0, 0]].concat();
    let mut ticket = ticket;
    ticket[3] = (ticket.len() - 4) as u8;
    for (kind, content, expected) in [
        (ContentType::ApplicationData, &[][..], 1_000..=1_200),
        (ContentType::Alert, &[1, 90], 1_000..=1_200),
        (ContentType::Handshake, &[24, 0, 0, 1, 0], 60..=75),
        (ContentType::Handshake, &[24, 0, 0, 1, 1], 60..=75),
        (ContentType::Handshake, &ticket, 60..=75),
        (ContentType::Handshake, &ticket.repeat(30), 2..=4),
    ] {
        let records = records_until_closed(kind, content, 5_000);
        assert!(expected.contains(&records), "{kind:?} of {} octets: {records}", content.len());
    }
}

/// TLS 1.2 lets a server ask for another handshake at any time (RFC 5246 §7.4.1.1).
#[test]
fn a_server_of_tls_1_2_that_asks_for_handshakes_without_end_is_left() {
    let policy = Policy { tls_version: ldplayer_core::policy::TlsVersion::Tls12, ..patient() };
    let mut tls = Arc::unwrap_or_clone(server("server.pem"));
    tls.enable_secret_extraction = true;
    let mut network = Network::encrypted(policy, &settings(), Arc::new(tls), |_, query| vec![answer(query)]);
    assert_eq!(network.replay(asked(Transport::Dot, 1))[0].status, Status::Answered);
    let session = network.take_session(0);
    let Some(SupportedCipherSuite::Tls12(suite)) = session.negotiated_cipher_suite() else { panic!() };
    let ExtractedSecrets { tx: (mut sequence, secrets), .. } = session.dangerous_extract_secrets().unwrap();
    let seal = |key: AeadKey, iv: Iv, implicit: usize| {
        let (iv, extra) = iv.as_ref().split_at(implicit);
        suite.aead_alg.encrypter(key, iv, extra)
    };
    let mut sealer = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } | ConnectionTrafficSecrets::Aes256Gcm { key, iv } => {
            seal(key, iv, 4)
        }
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => seal(key, iv, 12),
        _ => panic!("the provider has no other suites"),
    };
    let mut asked = 0;
    while network.machine.number(0).is_some() {
        let payload = OutboundChunks::Single(&[0; 4]);
        let plain = OutboundPlainMessage { typ: ContentType::Handshake, version: ProtocolVersion::TLSv1_2, payload };
        let record = sealer.encrypt(plain, sequence).unwrap().encode();
        network.machine.handle_input(0, RunTime(network.now), &record);
        (sequence, asked) = (sequence + 1, asked + 1);
        assert!(asked < 100);
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    append_header(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

/// What a server of HTTP/2 says first.
fn greeting() -> Vec<u8> {
    [frame(kind::SETTINGS, 0, 0, &[]), frame(kind::SETTINGS, flag::ACK, 0, &[])].concat()
}

/// The status 200.
const OK: u8 = 0x88;

/// A network whose server sends this `begin`, and then without end what `piece` is, once it has heard of a query.
fn http2(begin: Vec<u8>, piece: Vec<u8>) -> Network {
    Network::https(of(config(patient()), DohMethod::Post), move |_, octets| match octets.is_empty() {
        true => vec![],
        false => {
            vec![Reply::Segments([vec![[greeting(), begin.clone()].concat()], vec![piece.clone(); PIECES]].concat())]
        }
    })
}

#[test]
fn frames_of_http2_that_are_of_no_use_are_borne_so_often_and_no_more() {
    let head = frame(kind::HEADERS, flag::END_HEADERS, 1, &[OK]);
    let interim = frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x08\x03100");
    let (settings, ping) = (frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]), frame(kind::PING, 0, 0, &[7; 8]));
    let referred = [&b"\x3f\xe1\x1f\x40\x01a\x7f\xa1\x1e"[..], &[b'v'; 4_000]].concat();
    let kept = frame(kind::HEADERS, flag::END_HEADERS, 1, &referred);
    for (name, begin, piece) in [
        ("SETTINGS", vec![], settings),
        ("empty SETTINGS", vec![], frame(kind::SETTINGS, 0, 0, &[])),
        ("acknowledgements", vec![], frame(kind::SETTINGS, flag::ACK, 0, &[])),
        ("PING", vec![], ping),
        ("answered PING", vec![], frame(kind::PING, flag::ACK, 0, &[7; 8])),
        ("PRIORITY", vec![], frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 16])),
        ("WINDOW_UPDATE", vec![], frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("GOAWAY", vec![], frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])),
        ("unknown frames", vec![], frame(0xee, 0, 0, &[b'x'; 100])),
        ("empty DATA", head.clone(), frame(kind::DATA, 0, 1, &[])),
        ("interim responses", vec![], interim),
        ("empty CONTINUATION", frame(kind::HEADERS, 0, 1, &[OK]), frame(kind::CONTINUATION, 0, 1, &[])),
        ("header blocks of a finished stream", frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]), head),
        ("RST_STREAM", vec![], frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8])),
        ("a kept field again and again", kept, frame(kind::HEADERS, flag::END_HEADERS, 1, &[0xbe; 8_000])),
    ] {
        let mut network = http2(begin, repeat(&piece));
        let rows = network.replay([doh_query(0, 1, 0)]);
        // What ends the stream of the query ends it by that; the connection is closed all the same.
        network.pass(network.now + 100_000);
        let counts = network.machine.connection_counts();
        assert!(counts.open == 0 && counts.flooded == counts.opened, "{name}: {counts:?}");
        assert_eq!((rows.len(), rows[0].status), (1, Status::Reset), "{name}");
        assert!(matches!(rows[0].reason, Some(Reason::Flooded | Reason::StreamReset | Reason::Garbage)), "{name}");
    }
}

/// All of these are the ways of servers that mean well.
mod no_flood {
    use super::*;

    /// Replays over a transport against a server that answers as `server_of` says; every query is answered, on one connection.
    fn check(transport: Transport, count: u64, server_of: impl FnMut(u64, &[u8]) -> Vec<Reply> + 'static) -> Network {
        let mut network = over(transport, server_of);
        let rows = network.replay(asked(transport, count));
        assert!(own(&rows).iter().all(|row| row.status == Status::Answered), "{:?}", own(&rows)[0]);
        let counts = network.machine.connection_counts();
        assert_eq!((counts.opened, counts.flooded), (1, 0), "{transport}");
        network
    }

    #[test]
    fn each_answer_may_come_some_times_and_in_pieces() {
        for transport in [Transport::Tcp, Transport::Dot] {
            let thrice = |_: u64, query: &[u8]| vec![Reply::Segments(vec![framed(query); 3])];
            let network = check(transport, 3_000, thrice);
            assert_eq!(network.machine.counts().stray, 6_000);
            let octet_by_octet = |_: u64, query: &[u8]| {
                vec![Reply::Segments(framed(query).into_iter().map(|octet| vec![octet]).collect())]
            };
            check(transport, 300, octet_by_octet);
        }
    }

    /// A server that hung for longer than timeouts and answers everything then.
    #[test]
    fn answers_that_nobody_waits_for_any_more_are_as_many_as_queries() {
        let mut network = over(Transport::Tcp, |_, _| vec![]);
        let queries = (0..2_000).map(|number| tcp_query(number, 1, 0));
        let rows = network.replay(queries);
        assert!(rows.iter().all(|row| row.status == Status::Timeout));
        network.pass(network.now + 10_000);
        let answers: Vec<u8> = network.seen.iter().flat_map(|(_, message)| framed(message)).collect();
        let at = (0..20).find(|&at| network.machine.number(at).is_some()).unwrap();
        network.machine.handle_input(at, RunTime(network.now), &answers);
        let counts = network.machine.connection_counts();
        assert_eq!((counts.flooded, network.machine.counts().stray), (0, 2_000));
    }

    /// Only the first message of a zone transfer is an answer here; the others of a zone of 20 MB follow.
    #[test]
    fn a_zone_transfer_of_many_messages() {
        let mut network = over(Transport::Tcp, |_, query| {
            let mut answer = framed(query);
            answer.resize(2 + 60_000, 0);
            answer[..2].copy_from_slice(&60_000_u16.to_be_bytes());
            vec![Reply::Segments(vec![answer; 333])]
        });
        let mut query = tcp_query(0, 1, 0);
        let mut wire = query.wire.to_vec();
        let qtype = wire.len() - 4;
        wire[qtype..qtype + 2].copy_from_slice(&252_u16.to_be_bytes());
        query.wire = wire.into();
        let rows = network.replay([query]);
        network.pass(network.now + 1_000);
        assert_eq!(own(&rows)[0].status, Status::Answered);
        assert_eq!((network.machine.connection_counts().flooded, network.machine.counts().stray), (0, 332));
    }

    #[test]
    fn padding_small_frames_settings_and_pings_around_answers() {
        let mut network = scripted(|asked| {
            let stream = asked.stream;
            let mut frames = frame(kind::PING, 0, 0, &[1; 8]);
            frames.extend(frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]));
            frames.extend(frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]));
            frames.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, b"\x08\x03103"));
            frames.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &[OK]));
            for octet in response(&asked.message, 0) {
                frames.extend(frame(kind::DATA, flag::PADDED, stream, &[&[9, octet][..], &[0; 9]].concat()));
            }
            let padding = [&[255][..], &[0; 255]].concat();
            frames.extend(frame(kind::DATA, flag::END_STREAM | flag::PADDED, stream, &padding));
            vec![Reply::Segments(vec![frames])]
        });
        let rows = network.replay((0..500).map(|number| doh_query(number, 1, number as i64 * 300)));
        assert!(rows.iter().all(|row| row.status == Status::Answered), "{:?}", rows[0]);
        let counts = network.machine.connection_counts();
        assert_eq!((counts.opened, counts.flooded), (1, 0));
    }
}
