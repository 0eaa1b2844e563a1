//! Tests of the memory used by an idle connection.

use std::net::{Ipv4Addr, Ipv6Addr};

use allocation_counter::measure;
use ldplayer_core::{Query, RunTime};

use super::connection::Connection;
use super::simulation::{Network, answer, config, framed, policy, route, tcp_query};
use super::tests_tls::{dot_query, server, settings};
use super::{ALPN_DOT, Action, Connections, TlsClient};
use crate::slab::Slot;
use crate::table::{Config, Machine, Policy};

/// The octets that the machine of a network holds once so many clients have asked and are idle.
fn octets_held(clients: u32, network: fn(Config) -> Network, query: fn(u64) -> Query) -> i64 {
    let mut machine: Option<Connections> = None;
    let held = measure(|| {
        let policy = Policy { idle_timeout: i64::MAX / 2, ..policy() };
        let mut network = network(Config { most: clients, ..config(policy) });
        let rows = network.replay((0..u64::from(clients)).map(query));
        assert_eq!(network.machine.connection_counts().open, u64::from(clients));
        drop(rows);
        machine = Some(network.machine);
    });
    drop(machine);
    held.bytes_current
}

/// What one more connection takes. The row of its query is not in it, nor what the allocator adds to each piece.
fn octets_each(clients: [u32; 2], network: fn(Config) -> Network, query: fn(u64) -> Query) -> i64 {
    let [few, many] = clients.map(|clients| octets_held(clients, network, query));
    (many - few) / i64::from(clients[1] - clients[0])
}

fn over_tcp(config: Config) -> Network {
    Network::new(config, |_, message| vec![answer(message)])
}

fn over_tls(config: Config) -> Network {
    let mut network =
        Network::encrypted(config.policy, &settings(), server("server.pem"), |_, message| vec![answer(message)]);
    network.machine = Connections::new(config, Some(TlsClient::new(&settings(), ALPN_DOT).unwrap()));
    network
}

/// So many that the table of clients has grown just before, and is as empty as it gets: 11 octets each.
const CLIENTS: [u32; 2] = [1_024, 15 * 1_024];

#[test]
fn an_idle_connection_over_tcp_takes_56_octets_and_its_place_in_the_table_of_clients() {
    assert_eq!(size_of::<Option<Connection>>() + 2 * size_of::<Slot>(), 56);
    let each = octets_each(CLIENTS, over_tcp, |number| Query {
        client: Ipv4Addr::from_bits(number as u32).into(),
        ..tcp_query(number, 0, number as i64 * 1_000)
    });
    assert!(each <= 68, "{each}");
}

#[test]
fn an_idle_connection_of_an_ipv6_client_takes_28_octets_more() {
    let each = octets_each(CLIENTS, over_tcp, |number| Query {
        client: Ipv6Addr::from_bits(number.into()).into(),
        ..tcp_query(number, 0, number as i64 * 1_000)
    });
    assert!(each <= 97, "{each}");
}

/// Asks on connections of the machine, opening them where there are none, and answers.
fn ask(machine: &mut Connections, now: RunTime, queries: Vec<Query>, written: &mut Vec<u8>, answers: &[Vec<u8>]) {
    for (query, answer) in queries.into_iter().zip(answers) {
        machine.handle_query(now, query, route());
        while let Some(action) = machine.poll_action() {
            match action {
                Action::Open(at) => {
                    machine.handle_opening(at, now);
                    machine.handle_opened(at, now, 1_024);
                }
                Action::Write(at) => {
                    written.clear();
                    machine.compose(at, now, written);
                    written.clear();
                    // With the ID that this connection uses now.
                    written.extend_from_slice(answer);
                    let id = machine.table.connection(at).map_or(0, |connection| connection.own.id);
                    written[2..4].copy_from_slice(&machine.ids.hide(id).to_be_bytes());
                    machine.handle_input(at, now, written);
                }
                Action::Close(_) | Action::Resume(_) => {}
            }
        }
    }
}

#[test]
fn a_query_on_an_idle_connection_allocates_nothing_once_buffers_are_there() {
    let policy = Policy { idle_timeout: i64::MAX / 2, ..policy() };
    let mut machine = Connections::new(config(policy), None);
    let queries = || (0..9).map(|number| tcp_query(number, number as u8, 0)).collect::<Vec<_>>();
    let answers: Vec<Vec<u8>> = queries().iter().map(|query| framed(&query.wire)).collect();
    let mut written = Vec::with_capacity(512);
    (0..2).for_each(|_| ask(&mut machine, RunTime(0), queries(), &mut written, &answers));
    assert_eq!((machine.counts().answered, machine.connection_counts().open), (18, 9));
    machine.outcomes().clear();
    let again = queries();
    let allocated = measure(|| ask(&mut machine, RunTime(0), again, &mut written, &answers));
    assert_eq!((machine.counts().answered, allocated.count_total), (27, 0));
}

#[test]
fn an_idle_connection_over_tls_takes_at_most_4_800_octets_with_two_small_tickets() {
    let query = |number| dot_query(number, number as u8, number as i64 * 1_000);
    let each = octets_each([20, 220], over_tls, query);
    assert!(each <= 4_800, "{each}");
}
