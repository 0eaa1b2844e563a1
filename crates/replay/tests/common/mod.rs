//! What the tests of the engine share: a trace, settings, and the accounts that must hold.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use ldplayer_core::Policy;
use ldplayer_core::message::{CLASS_IN, QueryParts, flag};
use ldplayer_core::{Cidr, Outcome, Query, Reason, RunTime, Transport};
use ldplayer_net::packets::SenderKind;
use ldplayer_net::veth;
use ldplayer_replay::{
    DohSettings, Drain, Feed, LinkError, Monitor, NetworkPath, NextHop, Packets, Precision, Settings, Sources, Targets,
    run,
};

thread_local! {
    /// Whether the test of this thread runs in a namespace that clients reach by frames.
    pub static IS_LINKED: Cell<bool> = const { Cell::new(false) };
}

/// The addresses of clients in place of their own.
pub fn pool() -> Cidr {
    if IS_LINKED.get() { "198.18.0.0/16" } else { "127.9.0.0/16" }.parse().unwrap()
}

/// The path of this thread's test.
fn path() -> NetworkPath {
    if !IS_LINKED.get() {
        return NetworkPath::Sockets;
    }
    NetworkPath::Packets(Packets {
        interface: veth::CLIENTS.to_owned(),
        answers: veth::answers().map(str::to_owned),
        queries: veth::queries().map(str::to_owned),
        mac: veth::CLIENT_MAC,
        next_hop: NextHop::Mac(veth::HOST_MAC),
        link: None,
        nobody: ["198.18.0.1".parse().unwrap(), "2001:2::1".parse().unwrap()],
        sender: SenderKind::Packet,
    })
}

pub struct Batches(pub Vec<Vec<Query>>);

impl Feed for Batches {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        batch.append(&mut self.0.remove(0));
        Ok(!self.0.is_empty())
    }
}

#[derive(Default)]
pub struct Rows(pub Vec<Outcome>);

impl Drain for Rows {
    fn outcomes(&mut self, _shard: usize, rows: &[Outcome]) -> Result<(), LinkError> {
        self.0.extend_from_slice(rows);
        Ok(())
    }
}

/// `count` queries of 50 clients, `gap` nanoseconds apart.
pub fn queries(count: u64, gap: i64) -> Vec<Query> {
    let query = |index: u64| {
        let mut wire = Vec::new();
        let label = format!("q{index:07}");
        let name = [&[8], label.as_bytes(), b"\x07example\0"].concat();
        QueryParts { id: 1, flags: flag::RD, name: &name, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut wire);
        Query {
            index,
            due: RunTime(index as i64 * gap),
            client: [10, 0, 0, (index % 50) as u8].into(),
            client_port: 0,
            server: "192.0.2.1:53".parse().unwrap(),
            transport: Transport::Udp,
            class: None,
            expected: Default::default(),
            dependency: None,
            wire: Bytes::from(wire),
        }
    };
    (0..count).map(query).collect()
}

pub fn settings(server: SocketAddr) -> Settings {
    Settings {
        path: path(),
        sources: Sources::Pool(vec![pool()]),
        targets: Targets::Fixed(vec![server]),
        workers: 2,
        cores: Vec::new(),
        precision: Precision::Normal,
        query_timeout: 3_000_000_000,
        max_lag: None,
        fast: false,
        window: 100,
        max_sockets: 100,
        policy: Policy::default(),
        classes: Vec::new(),
        tls: None,
        tls_port: 853,
        doh_port: 443,
        doh: DohSettings::default(),
        count_segments: false,
        seed: 1,
    }
}

/// Replays and checks the identity: each query of the trace has exactly one row of its own.
pub fn replay(settings: &Settings, trace: Vec<Query>, monitor: &Arc<Monitor>) -> Vec<Outcome> {
    let count = trace.len() as u64;
    let batches = trace.chunks(128).map(<[Query]>::to_vec).collect();
    let mut rows = Rows::default();
    let (ended, _) = run(settings, Batches(batches), &mut rows, monitor).unwrap();
    let mut own: Vec<u64> = rows.0.iter().filter(|row| row.status.is_query()).map(|row| row.index).collect();
    own.sort_unstable();
    assert!(own.windows(2).all(|pair| pair[0] != pair[1]), "a query has two rows");
    assert_eq!(own.len() as u64, ended.trace_queries);
    assert!(ended.trace_queries == count || monitor.is_stopped());
    let counts = monitor.counts();
    assert_eq!(counts.sent, counts.answered + counts.timed_out + counts.failed);
    assert_eq!(counts.sent + counts.not_sent, ended.trace_queries);
    rows.0
}

pub fn tally(rows: &[Outcome]) -> BTreeMap<(String, Option<&'static str>), usize> {
    let mut tally = BTreeMap::new();
    for row in rows {
        *tally.entry((row.status.to_string(), row.reason.map(Reason::as_str))).or_default() += 1;
    }
    tally
}
