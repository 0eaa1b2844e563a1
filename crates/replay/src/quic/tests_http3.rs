//! Tests of DNS over HTTP/3 against a server on a simulated network.

use std::sync::Arc;

use ldplayer_core::{Outcome, Query, Reason, Status, Transport};
use quinn_proto::{ServerConfig, TransportConfig};

use super::http3::{self, code};
use super::simulation::{DELAY, MS, Network, Reply, doq_query, policy, server};
use crate::table::{Machine, Policy};

/// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// A type that nobody knows (RFC 9114 §7.2.8).
const UNKNOWN: u8 = 0x21;
/// Entries of the static table that are statuses.
const OK: u8 = 25;
const NOT_FOUND: u8 = 27;

pub fn doh_query(number: u64, client: u8, due: i64) -> Query {
    Query { transport: Transport::Doh3, ..doq_query(number, client, due) }
}

pub fn usual() -> ServerConfig {
    server("server.pem", http3::ALPN, 100, false)
}

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = match content.len() {
        length @ 0..64 => vec![length as u8],
        length => (length as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    };
    [&[kind], &length[..], content].concat()
}

/// The frames of a response.
fn response(status: u8, message: &[u8]) -> Vec<u8> {
    let response = crate::test::response(message, 0);
    let (begin, end) = response.split_at(7);
    let head = frame(HEADERS, &[0, 0, 0xc0 | status]);
    [frame(UNKNOWN, b"?"), head, frame(DATA, begin), frame(UNKNOWN, b""), frame(DATA, end)].concat()
}

fn answer(message: &[u8]) -> Vec<Reply> {
    vec![Reply::Whole(response(OK, message))]
}

fn number(message: &[u8]) -> u64 {
    std::str::from_utf8(&message[14..20]).unwrap().parse().unwrap()
}

fn all_answered(rows: &[Outcome]) -> bool {
    rows.iter().all(|row| row.status == Status::Answered)
}

/// How many ways through the network a query took.
fn ways(rows: &[Outcome]) -> Vec<i64> {
    rows.iter().map(|row| (row.answered.unwrap() - row.submitted.unwrap()) / DELAY).collect()
}

#[test]
fn requests_are_answered_on_one_connection() {
    let mut network = Network::http3(policy(), usual(), |_, message| answer(message));
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 200), doh_query(2, 1, 200)]);
    assert!(all_answered(&rows), "{rows:?}");
    assert_eq!(ways(&rows), [4, 2, 2]);
    assert!(rows.iter().all(|row| row.transport == Transport::Doh3 && row.connection == Some(0)));
    assert_eq!((rows[0].handshake_ns, rows[0].connect_ns), (Some(2 * DELAY), None));
    assert!(network.seen.iter().all(|(_, message)| message[..2] == [0, 0]), "IDs should be 0 (RFC 8484 §4.1)");
    network.pass(30_000 * MS);
    assert_eq!(network.machine.connection_counts().closed_idle, 1);
}

#[test]
fn another_status_fails_its_query_only() {
    let mut network = Network::http3(policy(), usual(), |_, message| match number(message) {
        0 => vec![Reply::Whole(response(NOT_FOUND, message))],
        1 => vec![Reply::Whole(frame(HEADERS, &[0, 0, 0xc0 | OK]))],
        2 => vec![Reply::Whole(Vec::new())],
        3 => vec![Reply::ResetStream(code::NO_ERROR)],
        _ => answer(message),
    });
    let rows = network.replay((0..5).map(|number| doh_query(number, 1, 0)));
    let reasons = [Reason::HttpStatus, Reason::Garbage, Reason::Garbage, Reason::StreamReset];
    for (row, reason) in rows.iter().zip(reasons) {
        assert_eq!((row.status, row.reason), (Status::Reset, Some(reason)));
    }
    assert!(all_answered(&rows[4..]));
    assert_eq!(network.machine.connection_counts().opened, 1);
}

/// Long pages of another status: whole, and longer than the server may send at once.
#[test]
fn a_long_page_of_another_status_is_no_timeout_and_costs_no_other_query_its_connection() {
    let page = |length| [frame(HEADERS, &[0, 0, 0xc0 | NOT_FOUND]), frame(DATA, &vec![b'x'; length])].concat();
    let mut network = Network::http3(policy(), usual(), move |_, message| match number(message) % 4 {
        0 => vec![Reply::Whole(page(70_000))],
        1 => vec![Reply::Flood(page(200_000))],
        2 => vec![Reply::Flood([frame(HEADERS, &[0, 0, 0xc0 | OK]), frame(DATA, &[0; 200_000])].concat())],
        _ => answer(message),
    });
    let rows = network.replay((0..12).map(|number| doh_query(number, 1, 0)).chain([doh_query(15, 1, 500)]));
    for row in &rows {
        let expected = match row.index % 4 {
            0 | 1 => (Status::Reset, Some(Reason::HttpStatus)),
            2 => (Status::Reset, Some(Reason::Garbage)),
            _ => (Status::Answered, None),
        };
        assert_eq!((row.status, row.reason, row.resent, row.connection), (expected.0, expected.1, false, Some(0)));
    }
    assert_eq!(network.machine.connection_counts().opened, 1);
    network.pass(100 * MS);
    let cancelled = network.stopped.iter().filter(|&&code| code == u64::from(code::REQUEST_CANCELLED)).count();
    assert!((6..=9).contains(&cancelled) && cancelled == network.stopped.len(), "{:?}", network.stopped);
}

#[test]
fn another_type_or_a_length_that_lies_is_garbage_and_fails_its_query_only() {
    let mut network = Network::http3(policy(), usual(), |_, message| {
        let body = frame(DATA, &crate::test::response(message, 0));
        let with =
            |fields: &[u8]| vec![Reply::Whole([frame(HEADERS, &[&[0, 0, 0xc0 | OK], fields].concat()), body].concat())];
        match number(message) {
            // Entries of the static table: application/json, a length of 0, and application/dns-message.
            0 => with(&[0xc0 | 46]),
            1 => with(&[0xc0 | 44, 0xc0 | 4]),
            _ => with(&[0xc0 | 44]),
        }
    });
    let rows = network.replay((0..3).map(|number| doh_query(number, 1, 0)));
    let ends: Vec<_> = rows.iter().map(|row| (row.status, row.reason)).collect();
    let garbage = (Status::Reset, Some(Reason::Garbage));
    assert_eq!(ends, [garbage, garbage, (Status::Answered, None)]);
    assert_eq!(network.machine.connection_counts().opened, 1);
}

#[test]
fn a_control_stream_that_the_server_has_no_room_for_is_written_when_it_has() {
    let mut config = usual();
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(100_u32.into()).stream_receive_window(3_u32.into());
    config.transport_config(Arc::new(transport));
    let mut network = Network::http3(policy(), config, |_, message| answer(message));
    assert!(all_answered(&network.replay([doh_query(0, 1, 0)])));
    assert_eq!(network.control, http3::CONTROL);
}

#[test]
fn a_stream_that_ends_before_its_type_is_forgotten() {
    let mut network = Network::http3(policy(), usual(), |_, message| {
        [vec![Reply::ControlEnds(vec![]), Reply::ControlEnds(vec![0x40])], answer(message)]
            .into_iter()
            .flatten()
            .collect()
    });
    let rows = network.replay((0..40).map(|number| doh_query(number, 1, 100 * number as i64)));
    assert!(all_answered(&rows), "{rows:?}");
    assert_eq!((network.machine.connection_counts().opened, network.machine.connection_counts().reset), (1, 0));
}

#[test]
fn frames_out_of_place_end_the_connection_and_the_other_queries_are_sent_again() {
    let settings = |behind: &[u8]| [&[0], frame(SETTINGS, &[]).as_slice(), behind].concat();
    let faults: [Vec<Reply>; 6] = [
        // GOAWAY for a stream that is no request's, and one that takes back an earlier one.
        vec![Reply::Control(settings(&frame(GOAWAY, &[3])))],
        vec![Reply::Control(settings(&[frame(GOAWAY, &[0]), frame(GOAWAY, &[4])].concat()))],
        vec![Reply::Control([&[0], frame(GOAWAY, &[0]).as_slice()].concat())],
        vec![Reply::Control(settings(&frame(DATA, b"x")))],
        vec![Reply::Control(settings(&[])), Reply::Control(settings(&[]))],
        vec![Reply::Control(vec![1])],
    ];
    for fault in faults {
        let mut fault = Some(fault);
        let mut network = Network::http3(policy(), usual(), move |_, message| match fault.take() {
            Some(fault) => fault,
            None => answer(message),
        });
        let rows = network.replay([doh_query(0, 1, 0)]);
        assert!(all_answered(&rows) && rows[0].resent, "{rows:?}");
        let counts = network.machine.connection_counts();
        assert_eq!((counts.reset, counts.opened, counts.open), (1, 2, 1));
    }
    let mut network = Network::http3(policy(), usual(), |_, message| match number(message) {
        0 => vec![Reply::Whole(frame(DATA, b"first"))],
        _ => answer(message),
    });
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 500)]);
    assert_eq!((rows[0].status, rows[0].reason), (Status::Reset, Some(Reason::Protocol)));
    assert!(all_answered(&rows[1..]));
    assert_eq!(network.machine.connection_counts().reset, 1);
}

#[test]
fn a_server_that_goes_away_gets_no_new_requests() {
    // The first request is answered, the second is on a stream that the server says it does nothing about.
    let goaway = [&[0], frame(SETTINGS, &[]).as_slice(), &frame(GOAWAY, &[4])].concat();
    let mut network =
        Network::http3(policy(), usual(), move |connection, message| match (connection, number(message)) {
            (0, 0) => vec![Reply::Control(goaway.clone()), Reply::Whole(response(OK, message))],
            (0, _) => Vec::new(),
            _ => answer(message),
        });
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 0), doh_query(2, 1, 200)]);
    assert!(all_answered(&rows), "{rows:?}");
    assert_eq!(rows.iter().map(|row| row.connection).collect::<Vec<_>>(), [Some(0), Some(1), Some(1)]);
    assert_eq!(rows.iter().map(|row| row.resent).collect::<Vec<_>>(), [false, true, false]);
    let counts = network.machine.connection_counts();
    assert_eq!((counts.opened, counts.closed_by_server, counts.open, counts.resent), (2, 1, 1, 1));
}

#[test]
fn what_goaway_moves_keeps_its_repetition() {
    let goaway = [&[0], frame(SETTINGS, &[]).as_slice(), &frame(GOAWAY, &[0])].concat();
    let mut network = Network::http3(policy(), usual(), move |connection, message| match connection {
        0 => vec![Reply::Control(goaway.clone())],
        1 => vec![Reply::Close(code::NO_ERROR)],
        _ => answer(message),
    });
    let rows = network.replay([doh_query(0, 1, 0)]);
    assert!(all_answered(&rows), "{rows:?}");
    assert_eq!((rows[0].resent, rows[0].connection), (true, Some(2)));
    // A server that leaves every connection is not followed for ever.
    let goaway = [&[0], frame(SETTINGS, &[]).as_slice(), &frame(GOAWAY, &[0])].concat();
    let mut network = Network::http3(policy(), usual(), move |_, _| vec![Reply::Control(goaway.clone())]);
    let rows = network.replay([doh_query(0, 1, 0)]);
    assert_eq!((rows[0].status, rows[0].reason), (Status::Reset, Some(Reason::ClosedByServer)));
    assert_eq!(network.machine.connection_counts().opened, 9);
}

#[test]
fn a_request_that_the_server_rejects_is_sent_again_once() {
    let mut network = Network::http3(policy(), usual(), |_, message| match number(message) {
        0 => vec![Reply::ResetStream(code::REQUEST_REJECTED)],
        _ => answer(message),
    });
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 0)]);
    assert_eq!((rows[0].status, rows[0].reason, rows[0].resent), (Status::Reset, Some(Reason::StreamReset), true));
    assert!(all_answered(&rows[1..]));
    assert_eq!(network.seen.iter().filter(|(_, message)| number(message) == 0).count(), 2);
}

#[test]
fn what_is_not_safe_is_no_early_data() {
    let policy = Policy { early_data: true, idle_timeout: 50 * MS, ..policy() };
    let config = server("server.pem", http3::ALPN, 100, true);
    let mut network = Network::http3(policy, config, |_, message| answer(message));
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 500)]);
    assert!(all_answered(&rows));
    assert_eq!((rows[1].resumed, rows[1].early_data, ways(&rows)[1]), (true, false, 4), "POST is not safe");
}

#[test]
fn a_server_that_speaks_another_protocol_is_told_from_one_that_is_not_trusted() {
    let mut network = Network::http3(policy(), server("server.pem", b"doq", 100, false), |_, message| answer(message));
    let rows = network.replay([doh_query(0, 1, 0)]);
    assert_eq!((rows[0].status, rows[0].reason), (Status::TlsFailed, Some(Reason::Alpn)));
}
