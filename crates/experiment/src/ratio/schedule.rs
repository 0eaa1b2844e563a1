//! The schedule of a ratio study, drawn from the seed and written as a trace.

use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use ldplayer_core::Transport;
use ldplayer_core::random::{draw, subkey};
use ldplayer_net::output::Pending;

use super::RatioPlan;

/// Two queries of a pair are so far apart at most: in nanoseconds, half a second.
const GAP: i64 = 500_000_000;
/// The addresses of clients: 10.64.0.1 and on (RFC 1918), and fd64::1 and on (RFC 4193).
const CLIENTS_V4: u32 = u32::from_be_bytes([10, 64, 0, 0]);
const CLIENTS_V6: u128 = 0xfd64 << 112;
/// Octets that answers over UDP may have (EDNS), so that they come whole and unfragmented.
const UDP_SIZE: u16 = 1_232;

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Nanoseconds from the start.
    pub at: i64,
    /// The client, from 0.
    pub client: u32,
    /// Its transport.
    pub transport: Transport,
}

/// All queries to a server, sorted by time. Clients are spread over a round; each asks over its transports one after the other, in an
/// order of its own in each round.
pub fn schedule(plan: &RatioPlan) -> Vec<Due> {
    let interval = plan.interval.ns();
    let transports: Vec<Transport> = [Transport::Udp].into_iter().chain(plan.transports.iter().copied()).collect();
    let gap = (interval / transports.len() as i64).min(GAP);
    let mut queries = Vec::new();
    for client in 0..plan.clients {
        let key = subkey(plan.base.seed, u64::from(client));
        // In an order that has nothing to do with addresses, so that neighbours in the wire's prefixes do not ask together.
        let offset = ((u128::from(draw(key, 0)) * interval as u128) >> 64) as i64;
        for round in 0..plan.rounds {
            let mut order = transports.clone();
            shuffle(&mut order, subkey(key, u64::from(round) + 1));
            let begun = i64::from(round) * interval + offset;
            let due = |(place, transport): (i64, Transport)| Due { at: begun + place * gap, client, transport };
            queries.extend((0..).zip(order).map(due));
        }
    }
    queries.sort_unstable();
    queries
}

/// Puts them in an order drawn by a key (Fisher and Yates).
fn shuffle(items: &mut [Transport], key: u64) {
    for last in (1..items.len()).rev() {
        items.swap(last, (draw(key, last as u64) % (last as u64 + 1)) as usize);
    }
}

/// Writes the queries to a server as a TSV trace.
pub fn write(plan: &RatioPlan, server: SocketAddr, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(Pending::new(path)?);
    writeln!(out, "time\tsrc\ttransport\tqname\tqtype\tflags\tedns")?;
    for Due { at, client, transport } in schedule(plan) {
        let (seconds, ns, client) = (at / 1_000_000_000, at % 1_000_000_000, address(client, server));
        writeln!(out, "{seconds}.{ns:09}\t{client}\t{transport}\t{}\tSOA\t-\t{UDP_SIZE}", plan.zone)?;
    }
    out.into_inner()?.finish()
}

/// The address of a client, of the server's family.
fn address(client: u32, server: SocketAddr) -> IpAddr {
    match server {
        SocketAddr::V4(_) => Ipv4Addr::from(CLIENTS_V4 + client + 1).into(),
        SocketAddr::V6(_) => Ipv6Addr::from(CLIENTS_V6 + u128::from(client) + 1).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ldplayer_core::time::Span;
    use ldplayer_run::RunSpec;

    use super::*;

    fn plan(seed: u64) -> RatioPlan {
        RatioPlan {
            servers: Vec::new(),
            transports: vec![Transport::Tcp, Transport::Dot],
            zone: ".".to_owned(),
            clients: 50,
            rounds: 4,
            interval: Span::from_ns(1_200_000_000),
            base: RunSpec { seed, ..RunSpec::default() },
            wire: None,
        }
    }

    #[test]
    fn each_client_asks_once_over_each_transport_in_each_round() {
        let mut asked: BTreeMap<(u32, i64), Vec<(i64, Transport)>> = BTreeMap::new();
        let queries = schedule(&plan(1));
        assert!(queries.is_sorted_by_key(|due| due.at) && queries.len() == 50 * 4 * 3);
        let first: BTreeMap<u32, i64> = queries.iter().rev().map(|due| (due.client, due.at)).collect();
        for due in &queries {
            let round = (due.at - first[&due.client]) / 1_200_000_000;
            asked.entry((due.client, round)).or_default().push((due.at, due.transport));
        }
        assert_eq!(asked.len(), 200);
        for round in asked.values() {
            let mut transports: Vec<Transport> = round.iter().map(|&(_, transport)| transport).collect();
            transports.sort_unstable();
            assert_eq!(transports, [Transport::Udp, Transport::Tcp, Transport::Dot]);
            assert!(round.windows(2).all(|two| two[1].0 - two[0].0 == 400_000_000), "{round:?}");
        }
        // No transport is first for all.
        let firsts = |of: Transport| asked.values().filter(|round| round[0].1 == of).count();
        assert!(firsts(Transport::Udp) > 40 && firsts(Transport::Tcp) > 40 && firsts(Transport::Dot) > 40);
    }

    #[test]
    fn the_seed_decides_and_nothing_else() {
        assert_eq!(schedule(&plan(1)), schedule(&plan(1)));
        assert_ne!(schedule(&plan(1)), schedule(&plan(2)));
        let clients = [0, 299].map(|client| address(client, "192.0.2.1:53".parse().unwrap()).to_string());
        assert_eq!(clients, ["10.64.0.1", "10.64.1.44"]);
        assert_eq!(address(9, "[2001:db8::1]:53".parse().unwrap()).to_string(), "fd64::a");
    }
}
