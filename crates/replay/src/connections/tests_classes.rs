//! Classes of clients, each with a policy of its own, in one machine.

use ldplayer_core::{RunTime, Status};
use proptest::prelude::*;

use super::simulation::{DELAY, Network, Reply, answer, config, of_class, policy, tcp_query};
use crate::life::{Config, Machine, Policy};

fn network(classes: &[Policy]) -> Network {
    let mut network = Network::honest(policy());
    network.machine = super::Connections::new(config(policy()), None).with_classes(classes);
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
fn the_connection_that_was_idle_for_longest_makes_room_whatever_its_class() {
    let classes = [Policy { idle_timeout: 9_000, ..policy() }, Policy { idle_timeout: 4_000, ..policy() }];
    let mut network = network(&classes);
    network.machine = super::Connections::new(Config { most: 2, ..config(policy()) }, None).with_classes(&classes);
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
    network.machine = super::Connections::new(config(policy()), None).with_classes(&classes);
    let rows = network.replay([of_class(1, tcp_query(0, 1, 0))]);
    assert_eq!((rows[0].status, rows[0].resent, rows[0].class), (Status::Answered, true, Some(1)));
    assert_eq!((network.machine.connection_counts().closed_idle, network.now), (1, 8 * DELAY));
}
