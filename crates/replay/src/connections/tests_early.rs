//! Tests of early data against servers that accept it, refuse it, limit it, or close: each query is answered once.

use std::sync::Arc;

use ldplayer_core::{Outcome, Query, Reason, Status};
use proptest::prelude::*;
use rustls::ServerConfig;

use super::simulation::{Accept, DELAY, Network, Reply, answer, config, number, of_class, policy};
use super::tests_tls::{dot_query, server, settings};
use super::{ALPN_DOT, Connections, TlsClient};
use crate::table::{Machine, Policy};

/// Servers that share their sessions: the first takes so many octets of early data, the second refuses all, since it
/// goes by another protocol.
fn servers(most: u32) -> [Arc<ServerConfig>; 2] {
    let mut takes = ServerConfig::clone(&server("server.pem"));
    (takes.max_early_data_size, takes.send_half_rtt_data) = (most, true);
    let mut refuses = takes.clone();
    refuses.alpn_protocols = vec![b"dot".to_vec()];
    // How much it passes over. This library counts what comes in pieces again with each of them.
    refuses.max_early_data_size = 1 << 20;
    [Arc::new(takes), Arc::new(refuses)]
}

/// Connections of one query each burst, which are closed as soon as nothing is outstanding.
fn early() -> Policy {
    Policy { idle_timeout: 0, early_data: true, padding: 0, ..policy() }
}

fn network(policy: Policy, server: &Arc<ServerConfig>) -> Network {
    Network::encrypted(policy, &settings(), Arc::clone(server), |_, message| vec![answer(message)])
}

/// A query that fetches a ticket.
fn first(network: &mut Network) {
    let rows = network.replay([dot_query(0, 1, 0)]);
    assert_eq!((rows[0].status, rows[0].resumed, rows[0].early_data), (Status::Answered, false, false));
    network.seen.clear();
}

fn flags(rows: &[Outcome]) -> Vec<(Status, bool, bool)> {
    rows.iter().map(|row| (row.status, row.resumed, row.early_data)).collect()
}

fn latency(row: &Outcome) -> i64 {
    (row.answered.unwrap() - row.submitted.unwrap()) / DELAY
}

/// Numbers of the queries that the server saw.
fn seen(network: &Network) -> Vec<u64> {
    network.seen.iter().map(|(_, message)| number(message)).collect()
}

const EARLY: (Status, bool, bool) = (Status::Answered, true, true);
const RESUMED: (Status, bool, bool) = (Status::Answered, true, false);

#[test]
fn early_queries_save_a_round_trip() {
    let [takes, _] = servers(1 << 14);
    let mut network = network(early(), &takes);
    first(&mut network);
    // The third comes when the first message of the session is on its way.
    let rows = network.replay([dot_query(1, 1, 1_000), dot_query(2, 1, 1_010), dot_query(3, 1, 1_025)]);
    assert_eq!(flags(&rows), [EARLY; 3]);
    assert_eq!((latency(&rows[0]), seen(&network)), (4, vec![1, 2, 3]));
    assert_eq!((rows[0].connect_ns, rows[0].handshake_ns), (Some(2 * DELAY), Some(2 * DELAY)));
    assert_eq!((network.machine.connection_counts().opened, network.machine.connection_counts().resumed), (2, 1));
}

#[test]
fn what_a_server_refuses_early_is_sent_again_and_answered_once() {
    let [takes, refuses] = servers(1 << 14);
    let mut network = network(early(), &takes);
    first(&mut network);
    network.tls = Some(refuses);
    let rows = network.replay([dot_query(1, 1, 1_000), dot_query(2, 1, 1_000), dot_query(3, 1, 1_030)]);
    assert_eq!(flags(&rows), [RESUMED; 3]);
    assert_eq!((latency(&rows[0]), seen(&network)), (6, vec![1, 2, 3]));
    assert!(rows.iter().all(|row| !row.resent), "no connection ended");
    let counts = network.machine.counts();
    assert_eq!((counts.sent, counts.answered, counts.stray), (4, 4, 0));
    assert!(network.machine.table.request_count() == 0 && network.machine.table.is_clear());
}

#[test]
fn what_is_sent_again_tells_of_the_connection_that_answers_it() {
    let mut takes = ServerConfig::clone(&servers(1 << 14)[0]);
    takes.send_tls13_tickets = 1;
    let mut network = Network::encrypted(early(), &settings(), Arc::new(takes), |connection, message| {
        if connection == 1 { vec![Reply::Close] } else { vec![answer(message)] }
    });
    first(&mut network);
    // The only ticket went with the connection that ended.
    let rows = network.replay([dot_query(1, 1, 1_000)]);
    assert_eq!(flags(&rows), [(Status::Answered, false, false)]);
    assert_eq!((rows[0].resent, rows[0].connection, seen(&network)), (true, Some(2), vec![1, 1]));
    assert_eq!(network.machine.connection_counts().resumed, 1);
}

#[test]
fn a_server_that_forgot_the_session_refuses_early_data_with_it() {
    let mut network = network(early(), &servers(1 << 14)[0]);
    first(&mut network);
    network.tls = Some(Arc::clone(&servers(1 << 14)[0]));
    let rows = network.replay([dot_query(1, 1, 1_000)]);
    assert_eq!(flags(&rows), [(Status::Answered, false, false)]);
    assert_eq!(seen(&network), [1]);
}

#[test]
fn without_the_option_or_a_ticket_nothing_goes_early() {
    let [takes, _] = servers(1 << 14);
    for (policy, expected) in [
        (Policy { early_data: false, ..early() }, RESUMED),
        (Policy { resumption: false, ..early() }, (Status::Answered, false, false)),
    ] {
        let mut network = network(policy, &takes);
        first(&mut network);
        assert_eq!(flags(&network.replay([dot_query(1, 1, 1_000)])), [expected]);
    }
    let mut network = network(early(), &server("server.pem"));
    first(&mut network);
    assert_eq!(flags(&network.replay([dot_query(1, 1, 1_000)])), [RESUMED], "the ticket allows none");
}

#[test]
fn a_class_decides_for_itself() {
    let [takes, _] = servers(1 << 14);
    let mut network = network(early(), &takes);
    let classes = [early(), Policy { early_data: false, ..early() }];
    let tls = TlsClient::new(&settings(), ALPN_DOT).unwrap();
    network.machine = Connections::new(config(early()), Some(tls)).with_classes(&classes);
    let queries = [(0, 0), (1, 0), (0, 1_000), (1, 1_000)].into_iter().zip(0..);
    let rows = network.replay(queries.map(|((class, due), at)| of_class(class, dot_query(at, class, due))));
    assert_eq!(flags(&rows)[2..], [EARLY, RESUMED]);
}

#[test]
fn what_may_not_be_replayed_waits_and_what_follows_waits_with_it() {
    let [takes, _] = servers(1 << 14);
    // An UPDATE (opcode 5), and a transfer (AXFR).
    let changes: [fn(&mut Vec<u8>); 2] = [
        |wire| wire[2] |= 5 << 3,
        |wire| {
            let at = wire.len() - 3;
            wire[at] = 252;
        },
    ];
    for change in changes {
        let mut network = network(early(), &takes);
        first(&mut network);
        let mut odd: Query = dot_query(2, 1, 1_000);
        let mut wire = odd.wire.to_vec();
        change(&mut wire);
        odd.wire = wire.into();
        let rows = network.replay([dot_query(1, 1, 1_000), odd, dot_query(3, 1, 1_000)]);
        assert_eq!(flags(&rows), [EARLY, RESUMED, RESUMED]);
        assert_eq!(seen(&network), [1, 2, 3]);
    }
}

#[test]
fn no_more_goes_early_than_the_server_allows() {
    let length = dot_query(0, 1, 0).wire.len() as u32 + 6;
    let [takes, _] = servers(2 * length + 5);
    let mut network = network(early(), &takes);
    first(&mut network);
    let rows = network.replay((1..=5).map(|number| dot_query(number, 1, 1_000)));
    assert_eq!(flags(&rows), [EARLY, EARLY, RESUMED, RESUMED, RESUMED]);
    assert_eq!(seen(&network), [1, 2, 3, 4, 5]);
}

#[test]
fn a_handshake_that_fails_fails_what_went_early() {
    let [takes, _] = servers(1 << 14);
    let mut network = network(early(), &takes);
    first(&mut network);
    // A server that takes records for messages, and never says a word.
    network.tls = None;
    let rows = network.replay([dot_query(1, 1, 1_000), dot_query(2, 1, 1_030)]);
    let failed = |row: &Outcome| (row.status, row.reason, row.early_data);
    assert!(
        rows.iter().all(|row| failed(row) == (Status::TlsFailed, Some(Reason::HandshakeTimeout), false)),
        "{rows:?}"
    );
    let counts = network.machine.counts();
    assert_eq!((counts.sent, counts.answered, counts.failed), (3, 1, 2));
    assert!(network.machine.table.request_count() == 0 && network.machine.table.is_clear());
    network.accept = Accept::Refuse;
    assert_eq!(network.replay([dot_query(3, 1, 3_000)])[0].status, Status::ConnectFailed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the kernel takes at once and whether the server takes early data: one answer for each query.
    #[test]
    fn every_query_reaches_the_server_once(
        room in prop::sample::select(vec![9_usize, 100, 400, usize::MAX]),
        refuses: bool,
        most in prop::sample::select(vec![0_u32, 60, 200, 1 << 14]),
        dues in prop::collection::vec((1_000_i64..1_200, 1_u8..3), 1..12),
    ) {
        let both = servers(most);
        let mut network = network(early(), &both[0]);
        first(&mut network);
        network.tls = Some(Arc::clone(&both[usize::from(refuses)]));
        network.room = room;
        let count = dues.len() as u64;
        let rows = network.replay(dues.into_iter().zip(1..).map(|((due, client), at)| dot_query(at, client, due)));
        // Early or not: the second server takes what goes with tickets of its own.
        prop_assert!(rows.iter().all(|row| row.status == Status::Answered && !row.resent), "{rows:?}");
        let mut numbers = seen(&network);
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (1..=count).collect::<Vec<u64>>());
    }
}
