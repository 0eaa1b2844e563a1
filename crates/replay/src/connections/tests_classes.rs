//! Tests of client classes with different policies in one machine.

use ldplayer_core::policy::TlsVersion;
use ldplayer_core::{Reason, RunTime, Status};
use proptest::prelude::*;

use super::simulation::{Accept, DELAY, Network, Reply, answer, config, of_class, policy, route, tcp_query};
use super::tests_tls::{dot_query, server, settings};
use super::{ALPN_DOT, Action, Connections, TlsClient};
use crate::table::{Config, Machine, Policy};

fn network(classes: &[Policy]) -> Network {
    let mut network = Network::honest(policy());
    network.machine = Connections::new(config(policy()), None).with_classes(classes);
    network
}

/// The connection of each query, by its number.
fn connections(network: &mut Network, queries: &[(u8, i64)]) -> Vec<u64> {
    let queries = queries.iter().zip(0..).map(|(&(class, due), number)| {
        // Clients are told apart by their class here.
        of_class(class, tcp_query(number, class + 1, due))
    });
    let rows = network.replay(queries.collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row.status == Status::Answered), "{rows:?}");
    rows.iter().map(|row| row.connection.unwrap()).collect()
}

#[test]
fn each_class_keeps_connections_idle_for_its_own_time() {
    let idle = |idle_timeout| Policy { idle_timeout, ..policy() };
    let mut network = network(&[idle(5_000), idle(0), idle(1_000)]);
    let dues = [0, 500, 3_000];
    let queries: Vec<(u8, i64)> = dues.into_iter().flat_map(|due| [(0, due), (1, due), (2, due)]).collect();
    let used = connections(&mut network, &queries);
    let of = |class: usize| [used[class], used[3 + class], used[6 + class]];
    assert!(of(0)[0] == of(0)[1] && of(0)[1] == of(0)[2], "the first class reuses its connection");
    assert!(of(1)[0] != of(1)[1] && of(1)[1] != of(1)[2], "the second has one for each query");
    assert!(of(2)[0] == of(2)[1] && of(2)[1] != of(2)[2], "the third lets go after a while");
    let last = network.now;
    network.pass(last + 999);
    assert_eq!(network.machine.connection_counts().open, 2);
    network.pass(last + 1_000);
    assert_eq!(network.machine.connection_counts().open, 1);
    network.pass(last + 5_000);
    assert_eq!((network.machine.connection_counts().open, network.machine.connection_counts().closed_idle), (0, 6));
    assert_eq!(network.machine.poll_timeout(), None);
}

#[test]
fn each_class_has_its_own_number_of_queries_and_pipeline() {
    let many = policy();
    let classes = [many, Policy { queries_per_connection: 1, ..many }, Policy { pipeline: 1, ..many }];
    let mut network = network(&classes);
    let used =
        connections(&mut network, &[(0, 0), (0, 1), (0, 200), (1, 0), (1, 1), (1, 200), (2, 0), (2, 1), (2, 200)]);
    assert!(used[0] == used[1] && used[1] == used[2]);
    assert!(used[3] != used[4] && used[4] != used[5]);
    assert!(used[6] != used[7] && (used[8] == used[6] || used[8] == used[7]));
    assert_eq!(network.machine.connection_counts().closed_spent, 3);
}

#[test]
fn each_class_waits_for_its_own_time_for_a_connection_and_for_its_handshake() {
    let waits = |connect_timeout, handshake_timeout| Policy { connect_timeout, handshake_timeout, ..policy() };
    let classes = [waits(300, 100), waits(100, 300)];
    for (accept, after, status, reason) in [
        (Accept::Never, [300, 100], Status::ConnectFailed, Reason::ConnectTimeout),
        // A server that takes the first record for a long message, and waits for its end.
        (Accept::Yes, [2 * DELAY + 100, 2 * DELAY + 300], Status::TlsFailed, Reason::HandshakeTimeout),
    ] {
        for (class, after) in [0, 1].into_iter().zip(after) {
            let mut network = network(&classes);
            let tls = Some(TlsClient::new(&settings(), ALPN_DOT).unwrap());
            network.machine = Connections::new(config(policy()), tls).with_classes(&classes);
            network.accept = accept;
            let rows = network.replay([of_class(class, dot_query(0, 1, 0))]);
            assert_eq!((rows[0].status, rows[0].reason, network.now), (status, Some(reason), after));
        }
    }
}

#[test]
fn each_class_opens_its_connections_in_its_own_way() {
    let classes = [policy(), Policy { nagle: true, ..policy() }, Policy { fast_open: true, ..policy() }];
    let mut machine = network(&classes).machine;
    for class in 0..3 {
        machine.handle_query(RunTime(0), of_class(class, tcp_query(class.into(), class, 0)), route());
    }
    let opened = std::iter::from_fn(|| machine.poll_action()).filter_map(|action| match action {
        Action::Open(at) => Some(at),
        Action::Write(_) | Action::Resume(_) | Action::Close(_) => None,
    });
    let ways = opened.collect::<Vec<_>>().into_iter().filter_map(|at| machine.opening(at));
    let ways: Vec<_> = ways.map(|opening| (opening.nagle, opening.fast_open)).collect();
    assert_eq!(ways, [(false, false), (true, false), (false, true)]);
}

#[test]
fn each_class_has_its_own_version_of_tls_and_its_own_padding() {
    let classes = [policy(), Policy { tls_version: TlsVersion::Tls12, padding: 0, ..policy() }];
    let mut network =
        Network::encrypted(policy(), &settings(), server("server.pem"), |_, message| vec![answer(message)]);
    let tls = Some(TlsClient::new(&settings(), ALPN_DOT).unwrap());
    network.machine = Connections::new(config(policy()), tls).with_classes(&classes);
    let queries = [0, 1].map(|class| {
        let mut query = dot_query(class.into(), class, 0);
        let mut wire = query.wire.to_vec();
        wire[11] = 1;
        wire.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        query.wire = wire.into();
        of_class(class, query)
    });
    let rows = network.replay(queries);
    let round_trips = rows.iter().map(|row| (row.answered.unwrap() - row.submitted.unwrap()) / (2 * DELAY));
    assert_eq!(round_trips.collect::<Vec<_>>(), [3, 4]);
    assert!(rows[0].query_bytes == 128 && rows[1].query_bytes < 128, "{rows:?}");
}

#[test]
fn the_connection_that_was_idle_for_longest_makes_room_whatever_its_class() {
    let classes = [Policy { idle_timeout: 9_000, ..policy() }, Policy { idle_timeout: 4_000, ..policy() }];
    let mut network = network(&classes);
    network.machine = Connections::new(Config { most: 2, ..config(policy()) }, None).with_classes(&classes);
    let queries = [(0, 1, 0), (1, 2, 300), (1, 3, 600), (1, 2, 900)];
    let queries = queries
        .into_iter()
        .zip(0..)
        .map(|((class, client, due), number)| of_class(class, tcp_query(number, client, due)));
    let rows = network.replay(queries.collect::<Vec<_>>());
    assert_eq!(network.machine.connection_counts().closed_for_room, 1);
    assert!(rows[3].reused, "the second client's connection stayed, the first one's went: {rows:?}");
    assert_eq!(rows.iter().map(|row| row.class).collect::<Vec<_>>(), [Some(0), Some(1), Some(1), Some(1)]);
}

proptest! {
    /// Timeouts fall when the class says, whatever other classes do.
    #[test]
    fn no_connection_outlives_the_time_of_its_class(
        timeouts in prop::collection::vec(prop::sample::select(vec![0_i64, 40, 700, 3_000]), 1..5),
        dues in prop::collection::vec((0_i64..4_000, 0_u8..5, 0_u8..3), 1..50),
    ) {
        let classes: Vec<Policy> = timeouts.iter().map(|&idle_timeout| Policy { idle_timeout, ..policy() }).collect();
        let mut network = network(&classes);
        let count = dues.len() as u64;
        let queries = dues.into_iter().zip(0..).map(|((due, class, client), number)| {
            let class = class % classes.len() as u8;
            of_class(class, tcp_query(number, 10 * class + client, due))
        });
        let mut rows = network.replay(queries.collect::<Vec<_>>());
        prop_assert_eq!(rows.len() as u64, count);
        // A reused connection was never idle for longer than its class allows.
        rows.sort_by_key(|row| (row.connection, row.answered));
        for pair in rows.windows(2).filter(|pair| pair[0].connection == pair[1].connection) {
            let own = timeouts[usize::from(pair[1].class.unwrap())];
            let idle = pair[1].submitted.unwrap() - pair[0].answered.unwrap();
            prop_assert!(idle <= own, "{idle} of {own}");
        }
        network.pass(network.now + 10_000);
        prop_assert_eq!(network.machine.connection_counts().open, 0);
        network.machine.handle_timeout(RunTime(network.now));
    }
}

#[test]
fn a_query_sent_again_keeps_its_class() {
    let mut network = Network::new(config(policy()), |connection, message| match connection {
        0 => vec![Reply::Close],
        _ => vec![answer(message)],
    });
    let classes = [policy(), Policy { idle_timeout: 0, ..policy() }];
    network.machine = Connections::new(config(policy()), None).with_classes(&classes);
    let rows = network.replay([of_class(1, tcp_query(0, 1, 0))]);
    assert_eq!((rows[0].status, rows[0].resent, rows[0].class), (Status::Answered, true, Some(1)));
    assert_eq!((network.machine.connection_counts().closed_idle, network.now), (1, 8 * DELAY));
}
