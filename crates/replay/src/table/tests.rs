//! What all machines of connections do alike, by that over TCP.

use ldplayer_core::{Query, Reason, RunTime, Status, Transport};

use super::{Config, Machine, Policy};
use crate::connections::Connections;
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
