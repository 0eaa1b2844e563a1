//! Tests of the behaviour common to all connection machines, on the one over TCP.

use ldplayer_core::{Query, Reason, RunTime, Status, Transport};

use super::{Config, End, Machine, Policy};
use crate::connections::{Action, Connections};
use crate::route::{Route, SocketKey};
use crate::test::query;

fn machine() -> Connections {
    let config =
        Config { policy: Policy::default(), query_timeout: 1_000, linger: 500, most: 10, seed: 1, first: 0, step: 1 };
    Connections::new(config, None)
}

fn take(machine: &mut Connections, number: u64) {
    let route = Route { socket: SocketKey::Own(0), source: None, server: "192.0.2.1:53".parse().unwrap() };
    machine.handle_query(RunTime(0), Query { transport: Transport::Tcp, ..query(number, 0) }, route);
}

#[test]
fn several_answers_to_come_on_one_connection_are_known_as_long_as_they_are() {
    let mut machine = machine();
    [1, 2].into_iter().for_each(|number| take(&mut machine, number));
    let Some(Action::Open(at)) = machine.poll_action() else { panic!("a connection is wanted") };
    machine.handle_opening(at, RunTime(1));
    machine.handle_opened(at, RunTime(2), 1_024);
    assert!(!machine.is_crowded_any(), "nothing is written");
    let mut written = Vec::new();
    machine.compose(at, RunTime(3), &mut written);
    assert!(machine.is_crowded_any());
    // Answers each, as they were framed.
    let mut answers: Vec<Vec<u8>> = written.chunks(written.len() / 2).map(<[u8]>::to_vec).collect();
    answers.iter_mut().for_each(|answer| answer[4] |= 0x80);
    machine.handle_input(at, RunTime(4), &answers[0]);
    assert!(!machine.is_crowded_any(), "one is left");
    take(&mut machine, 3);
    machine.compose(at, RunTime(5), &mut written);
    assert!(machine.is_crowded_any());
    machine.handle_closed(at, RunTime(6), End::Reset);
    assert!(!machine.is_crowded_any(), "the connection is gone, and its queries wait for another");
    assert_eq!(machine.outstanding(), 2);
}

#[test]
fn a_timeout_leaves_one_answer_to_come() {
    let mut machine = machine();
    [1, 2].into_iter().for_each(|number| take(&mut machine, number));
    let Some(Action::Open(at)) = machine.poll_action() else { panic!("a connection is wanted") };
    machine.handle_opening(at, RunTime(1));
    machine.handle_opened(at, RunTime(2), 1_024);
    machine.compose(at, RunTime(3), &mut Vec::new());
    assert!(machine.is_crowded_any());
    machine.handle_timeout(RunTime(1_001));
    assert!(!machine.is_crowded_any());
}

#[test]
fn an_answer_after_its_deadline_is_late_whenever_timeouts_are_looked_at() {
    let mut machine = machine();
    take(&mut machine, 1);
    let Some(Action::Open(at)) = machine.poll_action() else { panic!("a connection is wanted") };
    machine.handle_opening(at, RunTime(0));
    machine.handle_opened(at, RunTime(2), 1_024);
    let mut written = Vec::new();
    machine.compose(at, RunTime(3), &mut written);
    written[4] |= 0x80;
    machine.handle_input(at, RunTime(1_000), &written);
    let rows: Vec<_> = machine.outcomes().drain(..).map(|row| (row.index, row.status)).collect();
    assert_eq!(rows, [(1, Status::Timeout), (1, Status::Late)]);
    assert_eq!(machine.outstanding(), 0);
}

#[test]
fn an_interrupt_ends_queries_whose_connection_is_only_wanted() {
    let mut machine = machine();
    take(&mut machine, 1);
    assert_eq!((machine.outstanding(), machine.poll_timeout()), (1, None), "nothing of it has been sent");
    machine.handle_interrupt(RunTime(5));
    let row = machine.outcomes().pop().unwrap();
    assert_eq!((row.index, row.status, row.reason), (1, Status::NotSent, Some(Reason::Interrupted)));
    assert_eq!(machine.outstanding(), 0);
    assert_eq!((machine.counts().taken, machine.counts().not_sent), (1, 1));
}

#[test]
fn clients_of_ipv6_have_connections_of_their_own_whose_addresses_are_forgotten_with_them() {
    let mut machine = machine();
    let clients = ["2001:db8::1", "2001:db8::2", "2001:db8::1"].map(|client| client.parse().unwrap());
    for (number, client) in (0..).zip(clients) {
        let route = Route { socket: SocketKey::Own(0), source: None, server: "[2001:db8::53]:53".parse().unwrap() };
        machine.handle_query(RunTime(0), Query { transport: Transport::Tcp, client, ..query(number, 0) }, route);
    }
    let opened: Vec<_> = std::iter::from_fn(|| machine.poll_action()).collect();
    assert_eq!(opened, [Action::Open(0), Action::Open(1)]);
    for (at, client) in [(0, clients[0]), (1, clients[1])] {
        assert_eq!(machine.table().client(machine.table().connection(at).unwrap()), client);
        machine.handle_opening(at, RunTime(0));
        machine.handle_failed(at, Reason::ConnectionRefused);
    }
    assert!(machine.table().is_clear());
    let rows: Vec<_> = machine.outcomes().drain(..).map(|row| (row.index, row.client)).collect();
    assert_eq!(rows, [(0, clients[0]), (2, clients[2]), (1, clients[1])]);
}
