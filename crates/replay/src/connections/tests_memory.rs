//! Tests of the memory used by an idle connection.

use std::net::Ipv4Addr;

use allocation_counter::measure;
use ldplayer_core::Query;

use super::simulation::{Network, answer, config, policy, tcp_query};
use super::tests_tls::{dot_query, server, settings};
use super::{ALPN_DOT, Connections, TlsClient};
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

#[test]
fn an_idle_connection_over_tcp_takes_at_most_150_octets() {
    // So many that the table of clients has grown just before, and is as empty as it gets.
    let each = octets_each([1_024, 15 * 1_024], over_tcp, |number| Query {
        client: Ipv4Addr::from_bits(number as u32).into(),
        ..tcp_query(number, 0, number as i64 * 1_000)
    });
    assert!(each <= 150, "{each}");
}

#[test]
fn an_idle_connection_over_tls_takes_at_most_4_800_octets_with_two_small_tickets() {
    let query = |number| dot_query(number, number as u8, number as i64 * 1_000);
    let each = octets_each([20, 220], over_tls, query);
    assert!(each <= 4_800, "{each}");
}
