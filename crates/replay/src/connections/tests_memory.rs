//! What an idle connection holds of our memory.

use allocation_counter::measure;

use super::simulation::{Network, answer, config, policy};
use super::tests_tls::{dot_query, server, settings};
use super::{ALPN_DOT, Connections, TlsClient};
use crate::life::{Config, Machine, Policy};

/// The octets that the machine holds once so many clients have asked over TLS and are idle.
fn octets_held(clients: u8) -> i64 {
    let mut machine: Option<Connections> = None;
    let held = measure(|| {
        let policy = Policy { idle_timeout: i64::MAX / 2, ..policy() };
        let mut network =
            Network::encrypted(policy, &settings(), server("server.pem"), |_, message| vec![answer(message)]);
        let config = Config { most: clients.into(), ..config(policy) };
        network.machine = Connections::new(config, Some(TlsClient::new(&settings(), ALPN_DOT).unwrap()));
        let rows =
            network.replay((0..clients).map(|client| dot_query(client.into(), client, i64::from(client) * 1_000)));
        assert_eq!(network.machine.connection_counts().open, u64::from(clients));
        drop(rows);
        machine = Some(network.machine);
    });
    drop(machine);
    held.bytes_current
}

#[test]
fn an_idle_connection_over_tls_takes_at_most_4_800_octets_with_two_small_tickets() {
    // The row of its query is not in it, nor what the allocator adds to each piece.
    let (few, many) = (octets_held(20), octets_held(220));
    let each = (many - few) / 200;
    assert!(each <= 4_800, "{each}");
}
