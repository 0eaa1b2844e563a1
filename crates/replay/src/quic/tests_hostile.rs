//! Servers over QUIC that send what answers no query.

use ldplayer_core::{Query, Reason, RunTime, Status};

use super::doq;
use super::simulation::{DELAY, MS, Network, Reply, doq_query, framed, policy, server, settings, usual};
use super::tests_http3::{doh_query, usual as usual_http3};
use crate::budget::ITEM;
use crate::table::Machine;

/// A zone transfer asked for by a client.
fn transfer(number: u64) -> Query {
    let query = doq_query(number, 1, 0);
    let mut wire = query.wire.to_vec();
    let qtype = wire.len() - 4;
    wire[qtype..qtype + 2].copy_from_slice(&252_u16.to_be_bytes());
    Query { wire: wire.into(), ..query }
}

/// So much is of no use in this many datagrams of 1,200 octets.
const COST: u32 = ITEM + 1_200;

#[test]
fn datagrams_of_no_use_are_borne_so_often_and_the_connection_is_then_closed_as_flooded() {
    let mut network = Network::honest(policy());
    assert_eq!(network.replay([doq_query(0, 1, 0)])[0].status, Status::Answered);
    let mut datagrams = 0;
    while network.machine.table().connection(0).is_some() {
        network.machine.charge(0, RunTime(network.now), COST);
        datagrams += 1;
    }
    // What a server may spend without a query, and for one.
    assert_eq!(datagrams, (256 + 160) * 1_024 / COST + 1);
    let counts = network.machine.connection_counts();
    assert_eq!((counts.opened, counts.flooded, counts.open), (1, 1, 0));
}

#[test]
fn the_queries_of_a_flooded_connection_are_asked_once_more() {
    let mut network = Network::new(policy(), &settings(), usual(), |_, _| vec![]);
    network.ask(doq_query(0, 1, 0));
    for _ in 0..2 {
        network.pass(10 * DELAY);
        let at = (0..3).find(|&at| network.machine.table().connection(at).is_some()).unwrap();
        (0..400).for_each(|_| network.machine.charge(at, RunTime(network.now), COST));
    }
    let rows = network.replay([]);
    assert_eq!((rows[0].status, rows[0].reason, rows[0].resent), (Status::Reset, Some(Reason::Flooded), true));
    assert_eq!(network.machine.connection_counts().flooded, 2);
}

#[test]
fn control_streams_of_http3_without_end_are_a_flood() {
    // Settings, and then frames of an unknown type and no content.
    let frames = [&[0, 4, 0][..], &[0x21, 0].repeat(40_000)].concat();
    let mut network = Network::http3(policy(), usual_http3(), move |_, _| vec![Reply::Control(frames.clone()); 8]);
    let rows = network.replay([doh_query(0, 1, 0)]);
    assert_eq!(rows[0].status, Status::Reset, "{:?}", rows[0]);
    assert!(network.machine.connection_counts().open == 0);
}

#[test]
fn long_answers_on_many_streams_with_losses_are_no_flood() {
    let mut network = Network::new(policy(), &settings(), server("server.pem", doq::ALPN, 100, false), |_, message| {
        let mut answer = framed(message);
        answer.resize(2 + 15_000, 0);
        answer[..2].copy_from_slice(&15_000_u16.to_be_bytes());
        vec![Reply::Whole(answer)]
    });
    network.faults.lost = 5;
    let rows = network.replay((0..300).map(|number| doq_query(number, 1, number as i64 * 50)));
    let counts = network.machine.connection_counts();
    assert_eq!((counts.opened, counts.flooded), (1, 0));
    assert!(rows.iter().filter(|row| row.status == Status::Answered).count() > 250);
}

#[test]
fn a_server_that_keeps_a_connection_alive_for_an_hour_is_no_flood() {
    let mut network = Network::honest(policy());
    assert_eq!(network.replay([doq_query(0, 1, 0)])[0].status, Status::Answered);
    for second in 1..3_600 {
        network.machine.charge(0, RunTime(network.now + second * 1_000 * MS), COST);
    }
    assert_eq!(network.machine.connection_counts().flooded, 0);
    // A zone may be long: of a stream that asks for one nothing is a flood.
    let mut network = Network::new(policy(), &settings(), usual(), |_, _| vec![]);
    network.ask(transfer(0));
    network.pass(10 * DELAY);
    (0..10_000).for_each(|_| network.machine.charge(0, RunTime(network.now), COST));
    assert_eq!(network.machine.connection_counts().flooded, 0);
}
