//! Tests of parked connections: neither servers nor rows can tell that there are any.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use allocation_counter::measure;
use ldplayer_core::{Query, RunTime, Status};
use ldplayer_stack::frame::{Flags, Options, Segment};
use ldplayer_stack::tcp::Config;
use proptest::prelude::*;

use super::streams::FrameStreams;
use crate::connections::Connections;
use crate::connections::simulation::{config, framed, policy, tcp_query};
use crate::ids::Ids;
use crate::route::{Route, SocketKey};
use crate::table::{self, ConnectionCounts, Machine, Policy};

const US: i64 = 1_000;
const MS: i64 = 1_000 * US;

/// One connection at the server.
#[derive(Default)]
struct Peer {
    /// The next octet to send, and the next one expected.
    next: [u32; 2],
    sink: Vec<u8>,
    /// Answers that are held back.
    held: Vec<u8>,
    is_closed: bool,
}

/// A segment, apart from its ports.
type Said = (Flags, [u32; 2], Vec<u8>);

/// Clients, and a server that answers at once; but not the questions whose number is a multiple of five.
struct World {
    machine: Connections,
    streams: FrameStreams,
    peers: BTreeMap<SocketAddr, Peer>,
    now: RunTime,
    asked: u64,
    /// All that clients sent, if it is kept.
    seen: Option<Vec<(SocketAddr, Said)>>,
}

impl World {
    fn new(config: table::Config, most_resting: Option<usize>) -> Self {
        let nobody = [Ipv4Addr::new(198, 18, 0, 1).into(), "2001:2::1".parse().unwrap()];
        // No two connections of different classes are due at the same time.
        let classes = [config.policy, Policy { idle_timeout: config.policy.idle_timeout / 3 + 500, ..config.policy }];
        let streams = FrameStreams::new(Config { delayed_ack_ns: 0, ..Config::default() }, nobody, most_resting);
        let machine = Connections::new(config, None).with_classes(&classes);
        Self { machine, streams, peers: BTreeMap::new(), now: RunTime(0), asked: 0, seen: Some(Vec::new()) }
    }

    /// A client of a class asks its next question.
    fn ask(&mut self, client: IpAddr, class: u8) {
        let server =
            SocketAddr::new(if client.is_ipv4() { "198.51.100.1" } else { "2001:db8::53" }.parse().unwrap(), 53);
        let route = Route { socket: SocketKey::Own(0), source: Some(client), server };
        let query = Query { client, class: Some(class), ..tcp_query(self.asked, 0, self.now.0) };
        self.asked += 1;
        self.machine.handle_query(self.now, query, route);
    }

    /// Lets time pass.
    fn pass(&mut self, time: i64) {
        let end = self.now + time;
        loop {
            let next = [self.machine.poll_timeout(), self.streams.poll_timeout()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            // Timers of TCP are looked at a tick later; and whatever happens, the next is a microsecond later.
            self.now = self.now.max(RunTime((next.0 + US - 1) / US * US)) + US;
            self.machine.handle_timeout(self.now);
            self.streams.handle_timeout(self.now, &mut self.machine);
            self.settle();
        }
        self.now = self.now.max(end);
    }

    /// Carries segments until nobody has anything to say.
    fn settle(&mut self) {
        loop {
            self.streams.drive(self.now, &mut self.machine);
            let mut out = Vec::new();
            while let Some(sent) = self.streams.poll_transmit(self.now) {
                let segment = &sent.segment;
                let said = (segment.flags, [segment.sequence, segment.acknowledgement], segment.payload.to_vec());
                out.push((sent.from, said));
            }
            if out.is_empty() {
                return;
            }
            for (client, said) in out {
                self.seen.iter_mut().for_each(|seen| seen.push((client, said.clone())));
                for reply in self.answer(client, &said) {
                    self.hear(client, &reply);
                }
            }
        }
    }

    /// What the server says to a segment of a client.
    fn answer(&mut self, client: SocketAddr, (flags, [sequence, _], payload): &Said) -> Vec<Said> {
        if flags.has(Flags::RST) {
            self.peers.remove(&client);
            return Vec::new();
        }
        if flags.has(Flags::SYN) {
            let next = [7_000, sequence.wrapping_add(1)];
            self.peers.insert(client, Peer { next: [7_001, next[1]], ..Peer::default() });
            return vec![(Flags::SYN | Flags::ACK, next, Vec::new())];
        }
        let Some(peer) = self.peers.get_mut(&client) else { return Vec::new() };
        assert!(*sequence == peer.next[1] || payload.is_empty(), "nothing is lost here");
        peer.next[1] = peer.next[1].wrapping_add(payload.len() as u32);
        peer.sink.extend(payload);
        let answers = peer.take_answers();
        if flags.has(Flags::FIN) {
            peer.next[1] = peer.next[1].wrapping_add(1);
            let replies =
                if peer.is_closed { peer.says(Flags::ACK, &[]) } else { peer.says(Flags::FIN | Flags::ACK, &[]) };
            self.peers.remove(&client);
            return vec![replies];
        }
        if payload.is_empty() { Vec::new() } else { vec![peer.says(Flags::ACK, &answers)] }
    }

    /// A segment of the server arrives.
    fn hear(&mut self, client: SocketAddr, (flags, [sequence, acknowledgement], payload): &Said) {
        let server =
            SocketAddr::new(if client.is_ipv4() { "198.51.100.1" } else { "2001:db8::53" }.parse().unwrap(), 53);
        let segment = Segment {
            source_port: 53,
            destination_port: client.port(),
            sequence: *sequence,
            acknowledgement: *acknowledgement,
            flags: *flags,
            window: 60_000,
            options: Options::default(),
            payload,
        };
        self.now = self.now + US;
        self.streams.handle_segment((self.now, self.now), (server, client), &segment, &mut self.machine);
    }

    /// The server does something on the connection of this number among all, of those that it has not closed.
    fn act(&mut self, number: usize, act: u8) {
        let open: Vec<SocketAddr> = self.peers.iter().filter(|(_, peer)| !peer.is_closed).map(|(at, _)| *at).collect();
        if open.is_empty() {
            return;
        }
        let client = open[number % open.len()];
        let Some(peer) = self.peers.get_mut(&client) else { return };
        let said = match act {
            0 => peer.says(Flags::FIN | Flags::ACK, &[]),
            1 => (Flags::RST, peer.next, Vec::new()),
            // A keepalive probe (RFC 9293 section 3.8.4).
            2 => (Flags::ACK, [peer.next[0].wrapping_sub(1), peer.next[1]], Vec::new()),
            _ => {
                let held = std::mem::take(&mut peer.held);
                peer.says(Flags::ACK, &held)
            }
        };
        (peer.is_closed, _) = (act == 0, &said);
        if act == 1 {
            self.peers.remove(&client);
        }
        self.hear(client, &said);
    }

    fn parked(&self) -> usize {
        self.machine.table().parked()
    }

    /// What can be known of the run: rows, accounts, and what servers saw.
    fn into_known(mut self) -> (Vec<String>, ConnectionCounts, Vec<(SocketAddr, Said)>) {
        let rows = self.machine.outcomes().drain(..).map(|row| format!("{row:?}")).collect();
        (rows, *self.machine.connection_counts(), self.seen.unwrap_or_default())
    }
}

impl Peer {
    fn says(&mut self, flags: Flags, payload: &[u8]) -> Said {
        let at = self.next;
        self.next[0] = at[0].wrapping_add(payload.len() as u32 + u32::from(flags.has(Flags::FIN)));
        (flags, at, payload.to_vec())
    }

    /// Answers to the queries, except those that are held back.
    fn take_answers(&mut self) -> Vec<u8> {
        let mut answers = Vec::new();
        let sink = std::mem::take(&mut self.sink);
        let mut rest = sink.as_slice();
        while let Some(message) = crate::connections::framing::split(&mut rest) {
            let is_held = crate::connections::simulation::number(message).is_multiple_of(5);
            if is_held { &mut self.held } else { &mut answers }.extend(framed(message));
        }
        self.sink = rest.to_vec();
        answers
    }
}

fn client(number: u8) -> IpAddr {
    match number % 3 {
        2 => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number)).into(),
        _ => Ipv4Addr::new(192, 0, 2, number).into(),
    }
}

/// Times of milliseconds, few connections.
fn settings(most: u32) -> table::Config {
    let policy =
        Policy { idle_timeout: 60 * MS, connect_timeout: 400 * MS, queries_per_connection: 6, pipeline: 2, ..policy() };
    table::Config { query_timeout: 20 * MS, linger: 20 * MS, most, ..config(policy) }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u8),
    Act(usize, u8),
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_u8..7).prop_map(Step::Ask),
        2 => (any::<usize>(), 0_u8..4).prop_map(|(number, act)| Step::Act(number, act)),
        3 => (1_i64..40_000).prop_map(|time| Step::Pass(time * US)),
    ]
}

fn play(steps: &[Step], most: u32, most_resting: Option<usize>, ids: &Ids) -> World {
    let mut world = World::new(settings(most), most_resting);
    world.machine.set_ids(ids.clone());
    for step in steps {
        match *step {
            Step::Ask(number) => world.ask(client(number), number % 2),
            Step::Act(number, act) => world.act(number, act),
            Step::Pass(time) => world.pass(time),
        }
        world.now = world.now + US;
        world.settle();
    }
    world.pass(1_000 * MS);
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn servers_and_rows_cannot_tell_that_connections_are_parked(
        steps in prop::collection::vec(step(), 1..120), most in 2_u32..9, most_resting in 0_usize..4,
    ) {
        let ids = Ids::new();
        let plain = play(&steps, most, None, &ids);
        let parked = play(&steps, most, Some(most_resting), &ids);
        prop_assert!(plain.parked() == 0 && parked.parked() == 0, "all are closed in the end");
        prop_assert!(parked.machine.table().is_clear());
        let [plain, parked] = [plain, parked].map(World::into_known);
        prop_assert_eq!(plain.0, parked.0);
        prop_assert_eq!(plain.1, parked.1);
        prop_assert_eq!(plain.2, parked.2);
    }
}

/// Clients that have asked one question each, long ago enough to be parked.
fn rested(clients: u8) -> World {
    let mut world = World::new(settings(100), Some(0));
    world.asked = 1;
    for number in 1..=clients {
        world.ask(client(number), 0);
        world.settle();
    }
    // That a connection rests is told with what comes next.
    world.streams.handle_timeout(world.now, &mut world.machine);
    world
}

#[test]
fn a_query_takes_its_clients_connection_out_of_those_parked() {
    let mut world = rested(3);
    assert_eq!(world.parked(), 3);
    (0..3).for_each(|number| world.ask(client(1 + number), 0));
    assert_eq!(world.parked(), 0);
    world.settle();
    let rows: Vec<_> = world.machine.outcomes().iter().map(|row| (row.status, row.reused, row.connection)).collect();
    let first = [0, 1, 2].map(|number| (Status::Answered, false, Some(number)));
    assert_eq!(rows[..3], first);
    assert!(rows[3..].iter().all(|row| row.1), "{rows:?}");
}

#[test]
fn a_segment_for_a_connection_that_is_about_to_be_taken_up_again_is_not_reset() {
    let mut world = rested(1);
    // The query has its connection, whose stream the worker has not taken up yet.
    world.ask(client(1), 0);
    world.act(0, 2);
    world.settle();
    assert!(world.seen.as_ref().unwrap().iter().all(|(_, said)| !said.0.has(Flags::RST)));
    assert_eq!(world.machine.outcomes().last().map(|row| (row.status, row.reused)), Some((Status::Answered, true)));
}

#[test]
fn a_probe_is_acknowledged_for_a_parked_connection_which_is_idle_for_no_less_for_it() {
    let mut world = rested(2);
    let began = world.now;
    world.pass(30 * MS);
    (0..2).for_each(|number| world.act(number, 2));
    world.settle();
    let last: Vec<Flags> = world.seen.as_ref().unwrap().iter().rev().map(|(_, said)| said.0).take(2).collect();
    assert_eq!(last, [Flags::ACK; 2]);
    world.pass(29 * MS);
    assert_eq!(world.machine.connection_counts().open, 2);
    world.pass(2 * MS);
    assert_eq!(world.machine.connection_counts().closed_idle, 2, "60 ms after {began:?}, not after the probes");
}

#[test]
fn a_client_goes_on_with_its_parked_connection_though_another_of_its_own_becomes_idle() {
    let mut world = World::new(settings(100), Some(0));
    // Two questions whose answers are held back fill the first connection; the next has another.
    for number in [0, 5, 1] {
        world.asked = number;
        world.ask(client(1), 0);
        world.settle();
    }
    world.streams.handle_timeout(world.now, &mut world.machine);
    assert_eq!((world.parked(), world.machine.connection_counts().open), (1, 2));
    let first = world.peers.iter().position(|(_, peer)| !peer.held.is_empty()).unwrap();
    world.act(first, 3);
    world.settle();
    assert_eq!(world.machine.counts().answered, 3);
    world.asked = 2;
    world.ask(client(1), 0);
    world.settle();
    assert_eq!(world.machine.outcomes().last().and_then(|row| row.connection), Some(1));
}

#[test]
fn all_parked_connections_are_closed_at_the_end_of_a_run() {
    let mut world = rested(4);
    assert_eq!(world.parked(), 4);
    let mut rounds = 1;
    while world.streams.close_some(world.now, 3, &mut world.machine) {
        world.settle();
        rounds += 1;
    }
    world.settle();
    assert!(world.peers.is_empty() && !world.streams.is_active(), "{} are left", world.peers.len());
    assert_eq!((world.parked(), rounds), (0, 2));
}

/// What one more connection takes of both machines once it has been idle for a while.
fn octets_each(client: fn(u32) -> IpAddr) -> i64 {
    let held = |clients: u32| {
        let mut machines = None;
        let held = measure(|| {
            let policy = Policy { idle_timeout: i64::MAX / 4, queries_per_connection: u32::MAX, ..settings(0).policy };
            let mut world = World::new(table::Config { policy, ..settings(1 << 30) }, Some(16));
            world.seen = None;
            for number in 0..clients {
                world.asked = 1;
                world.ask(client(number), 0);
                world.settle();
                world.machine.outcomes().clear();
            }
            assert!(world.parked() + 20 > clients as usize, "{} of {clients}", world.parked());
            let World { machine, streams, .. } = world;
            machines = Some((machine, streams));
        });
        drop(machines);
        held.bytes_current
    };
    (held(80 << 10) - held(16 << 10)) / i64::from(64 << 10)
}

#[test]
fn an_idle_connection_takes_64_octets_of_both_machines_together() {
    let each = octets_each(|number| Ipv4Addr::from_bits(0x0a00_0000 + number).into());
    assert!(each <= 64, "{each}");
}

#[test]
fn the_address_of_an_ipv6_client_takes_28_more() {
    let each = octets_each(|number| Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number)).into());
    assert!(each <= 92, "{each}");
}
