//! Tests of the machine over HTTPS, against another HTTP/2 implementation and hand-made frames.

mod oracle;
pub mod scripted;

use std::sync::{Arc, Mutex};

use h2::server::Builder;
use http::Method;
use ldplayer_core::message::QueryParts;
use ldplayer_core::{Outcome, Query, Reason, RunTime, Status, Transport};
use proptest::prelude::*;

use self::oracle::{Oracle, Seen};
use super::simulation::{DELAY, Https, Network, Reply, TIMEOUT, accounts_hold, config, policy, tcp_query};
use super::tests_tls::{server_of, settings};
use super::{ALPN_DOT, framing};
use crate::doh::{DohMethod, DohSettings};
use crate::table::{Config, Machine, Policy};
use crate::test::response;

pub fn doh_query(number: u64, client: u8, due: i64) -> Query {
    Query { transport: Transport::Doh2, ..tcp_query(number, client, due) }
}

fn queries(count: u64, client: u8, due: i64) -> impl Iterator<Item = Query> {
    (0..count).map(move |number| doh_query(number, client, due))
}

fn honest(_: u64, message: &[u8]) -> Option<(u16, Vec<u8>)> {
    Some((200, response(message, 0)))
}

pub fn of(config: Config, method: DohMethod) -> Https<'static> {
    let settings = Box::leak(Box::new(settings()));
    let doh = DohSettings::new(method, "/dns-query").unwrap();
    Https { config, settings, doh, tls: server_of("server.pem", &[b"h2"]) }
}

fn network(oracle: Oracle) -> (Network, Arc<Mutex<Seen>>) {
    network_with(config(policy()), DohMethod::Post, oracle)
}

fn network_with(config: Config, method: DohMethod, mut oracle: Oracle) -> (Network, Arc<Mutex<Seen>>) {
    let seen = Arc::clone(&oracle.seen);
    (Network::https(of(config, method), move |number, octets| oracle.serve(number, octets)), seen)
}

fn latencies(rows: &[Outcome]) -> Vec<i64> {
    rows.iter().map(|row| (row.answered.unwrap() - row.submitted.unwrap()) / DELAY).collect()
}

fn all_answered(rows: &[Outcome], count: usize) {
    assert_eq!(rows.len(), count);
    let answered = |row: &Outcome| (row.status, row.reason) == (Status::Answered, None) && row.rcode == Some(0);
    let other = rows.iter().find(|row| !answered(row));
    assert!(other.is_none(), "{other:?}");
}

/// Nothing is left once connections have been idle for long.
fn forgets_all(network: &mut Network) {
    network.pass(network.now + 20_000);
    assert_eq!(network.machine.connection_counts().open, 0);
    assert_eq!(network.machine.table.request_count(), 0, "a request was forgotten");
    assert!(network.machine.table.is_clear());
}

#[test]
fn a_fresh_connection_takes_three_round_trips_and_a_reused_one_takes_one() {
    for method in [DohMethod::Post, DohMethod::Get] {
        let (mut network, seen) = network_with(config(policy()), method, Oracle::new(Builder::new(), honest));
        let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 200)]);
        all_answered(&rows, 2);
        assert!(rows.iter().all(|row| row.transport == Transport::Doh2 && row.client_port == 4_000));
        assert_eq!(latencies(&rows), [6, 2]);
        assert_eq!((rows[0].connect_ns, rows[0].handshake_ns), (Some(2 * DELAY), Some(2 * DELAY)));
        assert_eq!((rows[1].handshake_ns, rows[1].reused, rows[1].connection), (None, true, Some(0)));
        let seen = seen.lock().unwrap();
        let expected = if method == DohMethod::Post { Method::POST } else { Method::GET };
        let target = (expected, "198.51.100.1:53".to_owned(), "/dns-query".to_owned());
        assert_eq!(seen.targets, [target.clone(), target]);
        for (number, (_, message)) in (0..).zip(&seen.queries) {
            assert_eq!(message[..2], [0, 0], "the ID is 0 (RFC 8484 §4.1)");
            assert_eq!(message[2..], doh_query(number, 1, 0).wire[2..]);
        }
        accounts_hold(&network, &rows, 2);
    }
}

#[test]
fn many_queries_share_a_connection_and_are_told_apart_by_their_streams() {
    let (mut network, seen) = network(Oracle::new(Builder::new(), honest));
    let rows = network.replay((0..2_000).map(|number| doh_query(number, 1, number as i64 / 3)));
    all_answered(&rows, 2_000);
    assert!(rows.iter().skip(300).all(|row| row.reused));
    // The first 100 share the connection that is opened first; a server that sets no limit takes all that come later.
    assert!(network.machine.connection_counts().opened <= 2, "{:?}", network.machine.connection_counts());
    assert!(seen.lock().unwrap().at_once >= 2);
    accounts_hold(&network, &rows, 2_000);
    forgets_all(&mut network);
}

#[test]
fn no_query_waits_for_a_stream() {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(3);
    let (mut network, seen) = network(Oracle::new(builder, honest));
    let rows = network.replay(queries(20, 1, 0));
    all_answered(&rows, 20);
    let opened = network.machine.connection_counts().opened;
    assert_eq!(opened, 7, "three on each");
    // The first connection has sent all of its queries before it heard of the limit, and what the server refused is sent again.
    assert!(latencies(&rows).iter().all(|&latency| latency <= 14), "{:?}", latencies(&rows));
    let rows = network.replay((20..23).map(|number| doh_query(number, 1, 500)));
    assert_eq!((latencies(&rows), network.machine.connection_counts().opened), (vec![2; 3], opened));
    let rows = network.replay((23..29).map(|number| doh_query(number, 2, 1_000)));
    assert!(rows.iter().all(|row| !row.resent) && network.machine.connection_counts().opened == opened + 2);
    assert!(seen.lock().unwrap().at_once <= 3);
    forgets_all(&mut network);
}

#[test]
fn the_pipeline_bounds_streams_too() {
    let config = config(Policy { pipeline: 2, queries_per_connection: 4, ..policy() });
    let (mut network, seen) = network_with(config, DohMethod::Get, Oracle::new(Builder::new(), honest));
    let rows = network.replay(queries(6, 1, 0).chain((6..10).map(|number| doh_query(number, 1, 300 * number as i64))));
    all_answered(&rows, 10);
    assert_eq!(seen.lock().unwrap().at_once, 2);
    assert!(network.machine.connection_counts().closed_spent > 0);
    accounts_hold(&network, &rows, 10);
}

#[test]
fn small_windows_and_long_messages_only_take_longer() {
    let mut builder = Builder::new();
    builder.initial_window_size(5);
    let (mut network, _) = network(Oracle::new(builder, honest));
    all_answered(&network.replay(queries(5, 1, 0)), 5);

    let long = |mut message: Vec<u8>| {
        message.resize(60_000, 7);
        message
    };
    let oracle = Oracle::new(Builder::new(), move |_, message| Some((200, long(response(message, 0)))));
    let (mut network, _) = self::network(oracle);
    let queries = (0..60).map(|number| {
        let query = doh_query(number, 1, 5 * number as i64);
        Query { wire: long(query.wire.to_vec()).into(), ..query }
    });
    let rows = network.replay(queries);
    all_answered(&rows, 60);
    assert!(rows.iter().all(|row| row.response_bytes == 60_000 && row.connection == Some(0)));
}

#[test]
fn a_full_kernel_buffer_loses_nothing() {
    let (mut network, _) = network(Oracle::new(Builder::new(), honest));
    network.room = 7;
    let rows = network.replay(queries(3, 1, 0));
    all_answered(&rows, 3);
    assert!(network.machine.table.connection(0).unwrap().active().is_none_or(|active| active.buffers.is_none()));
}

/// A page of 200 kB is longer than any window lets the server send at once.
#[test]
fn a_long_page_of_another_status_is_no_timeout_and_costs_no_other_query_anything() {
    let oracle = Oracle::new(Builder::new(), |_, message| {
        Some(if message[19].is_multiple_of(2) { (404, vec![b'x'; 200_000]) } else { (200, response(message, 0)) })
    });
    let (mut network, _) = network(oracle);
    let rows = network.replay(queries(10, 1, 0).chain((10..20).map(|number| doh_query(number, 1, 300))));
    for (number, row) in rows.iter().enumerate() {
        let expected =
            if number % 2 == 0 { (Status::Reset, Some(Reason::HttpStatus)) } else { (Status::Answered, None) };
        assert_eq!((row.status, row.reason, row.resent), (expected.0, expected.1, false), "{number}");
    }
    assert!(rows.iter().filter(|row| row.status == Status::Answered).all(|row| row.connection == Some(0)));
    assert_eq!((network.now < TIMEOUT, network.machine.connection_counts().opened), (true, 1));
    accounts_hold(&network, &rows, 20);
    forgets_all(&mut network);
}

#[test]
fn another_status_is_no_answer() {
    for status in [204, 404, 415, 503] {
        let oracle = Oracle::new(Builder::new(), move |_, message| {
            Some(if message[19] == b'0' { (status, b"<html>".to_vec()) } else { (200, response(message, 0)) })
        });
        let (mut network, _) = network(oracle);
        let rows = network.replay(queries(2, 1, 0));
        assert_eq!((rows[0].status, rows[0].reason), (Status::Reset, Some(Reason::HttpStatus)), "{status}");
        assert_eq!((rows[1].status, rows[1].connection), (Status::Answered, Some(0)));
        accounts_hold(&network, &rows, 2);
    }
}

#[test]
fn bodies_that_are_no_answer_fail_their_query_only() {
    let oracle = Oracle::new(Builder::new(), |_, message| {
        let mut answer = response(message, 0);
        match message[19] {
            b'0' => answer.truncate(5),
            b'1' => answer = message.to_vec(),
            b'2' => answer[14] ^= 1,
            b'3' => answer.clear(),
            b'4' => answer.resize(70_000, 0),
            // Servers that do not repeat the ID are borne: the stream says what is answered.
            _ => answer[..2].copy_from_slice(&[9, 9]),
        }
        Some((200, answer))
    });
    let (mut network, _) = network(oracle);
    let rows = network.replay(queries(6, 1, 0));
    let reasons: Vec<_> = rows.iter().map(|row| (row.status, row.reason)).collect();
    let failed = |reason| (Status::Reset, Some(reason));
    let garbage = failed(Reason::Garbage);
    let expected = [garbage, garbage, failed(Reason::QuestionMismatch), garbage, garbage, (Status::Answered, None)];
    assert_eq!(reasons, expected);
    assert_eq!(network.machine.connection_counts().opened, 1);
    accounts_hold(&network, &rows, 6);
}

#[test]
fn a_query_that_is_not_answered_times_out_and_its_stream_is_given_up() {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(2);
    let oracle = Oracle::new(builder, |_, message| if message[19] <= b'1' { None } else { honest(0, message) });
    let (mut network, seen) = network(oracle);
    let late = (2..4).map(|number| doh_query(number, 1, 3 * TIMEOUT));
    let rows = network.replay(queries(2, 1, 0).chain(late));
    let statuses: Vec<_> = rows.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [Status::Timeout, Status::Timeout, Status::Answered, Status::Answered]);
    assert_eq!(seen.lock().unwrap().cancelled, 2);
    assert!(rows[2..].iter().all(|row| row.connection == Some(0)), "the streams are free again");
    accounts_hold(&network, &rows, 4);
    forgets_all(&mut network);
}

#[test]
fn queries_with_edns_are_padded_and_their_length_is_told() {
    for method in [DohMethod::Post, DohMethod::Get] {
        let (mut network, _) = network_with(config(policy()), method, Oracle::new(Builder::new(), honest));
        let parts =
            QueryParts { id: 9, flags: 0, name: b"\x07example\0", qtype: 1, qclass: 1, edns: Some((1_232, true)) };
        let mut wire = Vec::new();
        parts.compose(&mut wire);
        let rows = network.replay([Query { wire: wire.into(), ..doh_query(0, 1, 0) }, doh_query(1, 1, 1)]);
        all_answered(&rows, 2);
        let lengths = |of: fn(&Outcome) -> u16| rows.iter().map(of).collect::<Vec<_>>();
        assert_eq!(lengths(|row| row.query_bytes), [128, 25], "the one without EDNS stays as it is");
        assert_eq!(lengths(|row| row.response_bytes), [128, 25], "as the server saw it");
    }
}

#[test]
fn a_server_that_does_not_choose_http_2_fails_the_handshake() {
    for protocols in [&[][..], &[&b"dot"[..]], &[b"http/1.1"]] {
        let mut oracle = Oracle::new(Builder::new(), honest);
        let of = Https { tls: server_of("server.pem", protocols), ..of(config(policy()), DohMethod::Post) };
        let mut network = Network::https(of, move |number, octets| oracle.serve(number, octets));
        let rows = network.replay(queries(2, 1, 0));
        assert!(rows.iter().all(|row| (row.status, row.reason) == (Status::TlsFailed, Some(Reason::Alpn))), "{rows:?}");
        assert_eq!((network.machine.connection_counts().failed, network.machine.connection_counts().opened), (1, 0));
        accounts_hold(&network, &rows, 2);
    }
}

#[test]
fn sessions_are_resumed_and_not_with_tickets_of_another_transport() {
    let config = config(Policy { queries_per_connection: 1, ..policy() });
    let mut oracle = Oracle::new(Builder::new(), honest);
    let of = Https { tls: server_of("server.pem", &[b"h2", ALPN_DOT]), ..of(config, DohMethod::Post) };
    // The first connection is one of DNS over TLS.
    let mut network = Network::https(of, move |number, octets| match number {
        0 if octets.len() > 2 => {
            let mut out = Vec::new();
            framing::append(&mut out, &response(&octets[2..], 0), u16::from_be_bytes([octets[2], octets[3]]), 0);
            vec![Reply::Segments(vec![out])]
        }
        0 => vec![],
        _ => oracle.serve(number, octets),
    });
    let dot = Query { transport: Transport::Dot, ..doh_query(0, 1, 0) };
    let rows = network.replay([dot, doh_query(1, 1, 200), doh_query(2, 1, 400), doh_query(3, 2, 600)]);
    all_answered(&rows, 4);
    assert_eq!(rows.iter().map(|row| row.resumed).collect::<Vec<_>>(), [false, false, true, false]);
}

#[test]
fn an_idle_connection_is_closed_with_a_word() {
    let (mut network, _) = network(Oracle::new(Builder::new(), honest));
    network.replay([doh_query(0, 1, 0)]);
    network.machine.handle_timeout(RunTime(network.now + 5_000));
    // GOAWAY and close_notify, each in a record of its own.
    assert!(network.machine.take_close_notify(0).is_some_and(|words| words.len() > 17 + 2 * 22));
    assert_eq!(network.machine.connection_counts().closed_idle, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn octets_cut_anywhere_mean_the_same(
        cuts in prop::collection::vec(1usize..200, 1..20),
        dues in prop::collection::vec((0i64..2_000, 1u8..4), 1..40),
        method in prop::sample::select(vec![DohMethod::Post, DohMethod::Get]),
    ) {
        let mut oracle = Oracle::new(Builder::new(), honest);
        let mut cuts = cuts.into_iter().cycle();
        let mut network = Network::https(of(config(policy()), method), move |number, octets| {
            let replies = oracle.serve(number, octets).into_iter().map(|reply| match reply {
                Reply::Segments(segments) => Reply::Segments(cut(&segments.concat(), &mut cuts)),
                other => other,
            });
            replies.collect()
        });
        let count = dues.len();
        let queries: Vec<Query> =
            dues.into_iter().zip(0..).map(|((due, client), number)| doh_query(number, client, due)).collect();
        let rows = network.replay(queries);
        all_answered(&rows, count);
        accounts_hold(&network, &rows, count as u64);
        forgets_all(&mut network);
    }
}

fn cut(octets: &[u8], cuts: &mut impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let mut rest = octets;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(cuts.next().unwrap().min(rest.len()));
        pieces.push(piece.to_vec());
        rest = behind;
    }
    pieces
}
