//! A network between a machine and a simple server that shares no code with it but the wire format: seeded loss, duplicates,
//! delay and reordering. For tests.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use ldplayer_core::RunTime;
use ldplayer_core::random::draw;

use super::{Config, Event, Handle, OpenOptions, Tcp};
use crate::frame::{Check, Content, Flags, Link, Options, Sack, Segment, Timestamps, Transport, ethernet};

const MS: i64 = 1_000_000;

/// How bad the network is.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub seed: u64,
    /// Packets lost of a hundred.
    pub loss: u64,
    /// Packets that arrive twice of a hundred.
    pub twice: u64,
    /// Longest delay in milliseconds: any packet takes something up to that, and may overtake others.
    pub delay: u64,
    /// Octets of data in the server's segments.
    pub mss: usize,
    /// The server's receive window.
    pub window: u16,
    /// Whether the server has timestamps and selective acknowledgements.
    pub options: bool,
    /// Whether the server closes when it has sent all.
    pub server_closes: bool,
}

/// The server's side of one connection: go-back-N after a fixed timeout.
struct Peer {
    start: u32,
    /// The client's next sequence number.
    next: u32,
    ahead: BTreeMap<u32, u8>,
    got: Vec<u8>,
    data: Vec<u8>,
    /// Octets that are acknowledged, and that were sent; FIN counts for one.
    acknowledged: usize,
    sent: usize,
    window: usize,
    resend_at: i64,
    client_closed: bool,
    stamp: Option<u32>,
    closes: bool,
}

impl Peer {
    /// Octets of data and FIN, as far as they are ready.
    fn length(&self) -> usize {
        let has_fin = self.client_closed || (self.closes && self.acknowledged >= self.data.len());
        self.data.len() + usize::from(has_fin)
    }

    fn is_done(&self) -> bool {
        self.client_closed && self.acknowledged > self.data.len()
    }

    fn handle(&mut self, now: i64, segment: &Segment<'_>) {
        if let Some(stamps) = segment.options.timestamps {
            self.stamp = Some(stamps.value);
        }
        let ack = segment.acknowledgement.wrapping_sub(self.start.wrapping_add(1)) as usize;
        if ack > self.acknowledged && ack <= self.data.len() + 1 {
            self.acknowledged = ack;
            self.sent = self.sent.max(ack);
            self.resend_at = now + 300 * MS;
        }
        self.window = usize::from(segment.window);
        for (at, &octet) in (segment.sequence..).zip(segment.payload) {
            if at.wrapping_sub(self.next) < 1 << 20 {
                self.ahead.insert(at, octet);
            }
        }
        while let Some(octet) = self.ahead.remove(&self.next) {
            self.got.push(octet);
            self.next = self.next.wrapping_add(1);
        }
        let fin = segment.sequence.wrapping_add(segment.payload.len() as u32);
        if segment.flags.has(Flags::FIN) && fin == self.next && !self.client_closed {
            self.client_closed = true;
            self.next = self.next.wrapping_add(1);
        }
    }
}

/// What a client of the machine has.
struct Ours {
    data: Vec<u8>,
    written: usize,
    /// How much of the data is written so far at most: half of it until the connection has rested, where that is told.
    allowed: usize,
    got: Vec<u8>,
    closed: bool,
}

/// The whole.
pub struct Simulation {
    pub tcp: Tcp,
    tells_rest: bool,
    network: Network,
    server: SocketAddr,
    now: i64,
    draws: u64,
    /// Packets on their way by the time of arrival: whether to the client, and octets.
    wire: BTreeMap<(i64, u64), (bool, Vec<u8>)>,
    peers: HashMap<SocketAddr, Peer>,
    ours: HashMap<Handle, (Ours, SocketAddr)>,
    expected: usize,
    pub finished: Vec<(Vec<u8>, Vec<u8>, SocketAddr)>,
    /// How often a connection was parked.
    pub parked: usize,
}

impl Simulation {
    pub fn new(config: Config, network: Network) -> Self {
        Self {
            tcp: Tcp::new(config),
            tells_rest: config.tells_rest,
            network,
            server: SocketAddr::from(([198, 51, 100, 53], 53)),
            now: 0,
            draws: 0,
            wire: BTreeMap::new(),
            peers: HashMap::new(),
            ours: HashMap::new(),
            expected: 0,
            finished: Vec::new(),
            parked: 0,
        }
    }

    fn draw(&mut self, most: u64) -> u64 {
        self.draws += 1;
        draw(self.network.seed, self.draws) % most.max(1)
    }

    /// A client sends `data` and expects so many octets.
    pub fn open(&mut self, data: Vec<u8>, expected: usize, nagle: bool) {
        self.expected = expected;
        let client = IpAddr::from([192, 0, 2, self.ours.len() as u8]);
        let options = OpenOptions { nagle, ..OpenOptions::default() };
        let (at, port) = self.tcp.open(RunTime(self.now), client, self.server, &options).unwrap();
        let allowed = if self.tells_rest { data.len() / 2 } else { data.len() };
        let ours = Ours { data, written: 0, allowed, got: Vec::new(), closed: false };
        self.ours.insert(at, (ours, SocketAddr::new(client, port)));
    }

    /// Runs until every connection has come to its end and everything is quiet; panics if that takes an hour.
    pub fn run(&mut self) {
        self.drain();
        while let Some(next) = self.next_time() {
            assert!(next < 3_600_000 * MS, "it does not end: {:?}", self.tcp.counts());
            self.now = self.now.max(next);
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to_client, packet) = entry.remove();
                if to_client { self.deliver_to_client(&packet) } else { self.deliver_to_server(&packet) }
            }
            self.tcp.handle_timeout(RunTime(self.now));
            self.resend();
            self.drain();
        }
    }

    fn next_time(&self) -> Option<i64> {
        let wire = self.wire.first_key_value().map(|((at, _), _)| *at);
        let open = self.peers.values().filter(|peer| peer.acknowledged < peer.length() && !peer.is_done());
        let peers = open.map(|peer| peer.resend_at).min();
        let ours = self.tcp.poll_timeout().map(|next| next.0);
        [wire, peers, ours].into_iter().flatten().min()
    }

    fn put(&mut self, to_client: bool, packet: &[u8]) {
        let copies = if self.draw(100) < self.network.twice { 2 } else { 1 };
        for _ in 0..copies {
            if self.draw(100) >= self.network.loss {
                let at = self.now + MS + self.draw(self.network.delay * 1_000) as i64 * 1_000;
                self.wire.insert((at, self.draws), (to_client, packet.to_vec()));
            }
        }
    }

    /// Handles events, and transmits pending segments.
    fn drain(&mut self) {
        while let Some(event) = self.tcp.poll_event() {
            self.handle_event(event);
        }
        let mut packet = [0; 2_000];
        for _ in 0..10_000 {
            let Some(out) = self.tcp.poll_transmit(RunTime(self.now)) else { return };
            let length = out.write(&mut packet, &Link::none()).unwrap();
            self.put(false, &packet[..length]);
        }
        panic!("endless segments");
    }

    fn handle_event(&mut self, event: Event) {
        let now = RunTime(self.now);
        match event {
            Event::Opened(at) | Event::Writable(at) => {
                let Some((ours, _)) = self.ours.get_mut(&at) else { return };
                ours.written += self.tcp.write(at, now, &ours.data[ours.written..ours.allowed]);
            }
            Event::Data(at) => {
                let mut octets = [0; 1_000];
                loop {
                    let count = self.tcp.read(at, &mut octets);
                    if count == 0 {
                        break;
                    }
                    self.take(at, &octets[..count]);
                }
            }
            Event::Closed(at) => {
                if let Some((ours, _)) = self.ours.get_mut(&at) {
                    ours.closed = true;
                }
            }
            Event::Rests(at) => self.park_for_a_moment(at),
            Event::Reset(at) | Event::Failed(at, _) => panic!("{at:?} {event:?} {:?}", self.tcp.counts()),
        }
        self.close_what_is_done();
    }

    /// Takes a connection out of the machine and puts it back, if it still rests: it has a new handle then. The rest of the data follows.
    fn park_for_a_moment(&mut self, at: Handle) {
        let Some(parked) = self.tcp.park(at) else { return self.write_all(at) };
        let ours = self.ours.remove(&at).unwrap();
        assert_eq!((self.tcp.tuple(at), self.tcp.knows(ours.1, self.server)), (None, false));
        let again = self.tcp.resume(ours.1.ip(), self.server, &parked).unwrap();
        assert_eq!(self.tcp.tuple(again), Some((ours.1, self.server)));
        self.ours.insert(again, ours);
        self.parked += 1;
        self.write_all(again);
    }

    fn write_all(&mut self, at: Handle) {
        let Some((ours, _)) = self.ours.get_mut(&at) else { return };
        ours.allowed = ours.data.len();
        ours.written += self.tcp.write(at, RunTime(self.now), &ours.data[ours.written..]);
    }

    fn take(&mut self, at: Handle, octets: &[u8]) {
        let (ours, _) = self.ours.get_mut(&at).expect("data comes to connections that are not closed");
        assert!(!ours.closed, "no data comes behind FIN");
        ours.got.extend_from_slice(octets);
    }

    fn close_what_is_done(&mut self) {
        let (expected, waits) = (self.expected, self.network.server_closes);
        let is_done =
            |ours: &Ours| ours.written == ours.data.len() && ours.got.len() == expected && (ours.closed || !waits);
        let done: Vec<Handle> = self.ours.iter().filter(|(_, (ours, _))| is_done(ours)).map(|(at, _)| *at).collect();
        for at in done {
            let (ours, address) = self.ours.remove(&at).unwrap();
            self.tcp.close(at, RunTime(self.now));
            self.finished.push((ours.data, ours.got, address));
        }
    }

    fn deliver_to_client(&mut self, packet: &[u8]) {
        let Ok(Content::Transport(_, to, Transport::Tcp(segment))) =
            Content::read(ethernet::IPV4, packet, Check::Verify)
        else {
            panic!("bad packet");
        };
        let to = SocketAddr::new(to, segment.destination_port);
        let input = self.tcp.handle_segment(RunTime(self.now), self.server, to, &segment);
        if let Some(input) = input {
            self.take(input.at, input.octets);
        }
        self.drain();
        self.close_what_is_done();
        self.drain();
    }

    fn deliver_to_server(&mut self, packet: &[u8]) {
        let Ok(Content::Transport(from, _, Transport::Tcp(segment))) =
            Content::read(ethernet::IPV4, packet, Check::Verify)
        else {
            panic!("bad packet");
        };
        let from = SocketAddr::new(from, segment.source_port);
        if segment.flags.has(Flags::RST) {
            // What arrives late for a connection that is over is reset.
            assert!(self.peers.get(&from).is_some_and(Peer::is_done), "{segment:?}");
            return;
        }
        if segment.flags.has(Flags::SYN) {
            return self.accept(from, &segment);
        }
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.handle(now, &segment);
        let is_bare = segment.length() == 0;
        self.send(from, !is_bare);
    }

    fn accept(&mut self, from: SocketAddr, syn: &Segment<'_>) {
        let start = self.draw(1 << 32) as u32;
        let data = (0..self.expected as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let next = syn.sequence.wrapping_add(1);
        let closes = self.network.server_closes;
        let stamp = syn.options.timestamps.filter(|_| self.network.options).map(|stamps| stamps.value);
        self.peers.entry(from).or_insert_with(|| Peer {
            start,
            next,
            ahead: BTreeMap::new(),
            got: Vec::new(),
            data,
            acknowledged: 0,
            sent: 0,
            window: 0,
            resend_at: i64::MAX,
            client_closed: false,
            stamp,
            closes,
        });
        let has_options = self.network.options;
        let options = Options { mss: Some(self.network.mss as u16), sack_permitted: has_options, ..Options::default() };
        self.segment(from, None, Flags::SYN | Flags::ACK, options);
    }

    /// Sends what the client's window has room for, or an acknowledgement if there is nothing and one is due.
    fn send(&mut self, to: SocketAddr, acknowledge: bool) {
        let mut is_said = false;
        loop {
            let Some(peer) = self.peers.get_mut(&to) else { return };
            let room = peer.window.saturating_sub(peer.sent - peer.acknowledged);
            let (at, end) = (peer.sent, (peer.sent + self.network.mss.min(room)).min(peer.data.len()));
            let is_fin = at == peer.data.len() && peer.length() > at;
            if end <= at && !is_fin {
                break;
            }
            peer.sent = end.max(at) + usize::from(is_fin);
            peer.resend_at = if peer.resend_at == i64::MAX { self.now + 300 * MS } else { peer.resend_at };
            self.segment(
                to,
                Some((at, end)),
                if is_fin { Flags::FIN | Flags::ACK } else { Flags::ACK },
                Options::default(),
            );
            is_said = true;
        }
        if acknowledge && !is_said {
            let at = self.peers.get(&to).map_or(0, |peer| peer.sent);
            self.segment(to, Some((at, at)), Flags::ACK, Options::default());
        }
    }

    fn resend(&mut self) {
        let now = self.now;
        let due: Vec<SocketAddr> = self.peers.iter().filter(|(_, it)| it.resend_at <= now).map(|(at, _)| *at).collect();
        for at in due {
            let Some(peer) = self.peers.get_mut(&at) else { return };
            peer.sent = peer.acknowledged;
            peer.resend_at = i64::MAX;
            self.send(at, false);
        }
    }

    fn segment(&mut self, to: SocketAddr, part: Option<(usize, usize)>, flags: Flags, mut options: Options) {
        let Some(peer) = self.peers.get(&to) else { return };
        let (at, end) = part.unwrap_or_default();
        let sequence = if part.is_some() { peer.start.wrapping_add(1 + at as u32) } else { peer.start };
        let now = (self.now / MS) as u32;
        options.timestamps = peer.stamp.map(|echo| Timestamps { value: now, echo });
        if self.network.options {
            options.sack = blocks(&peer.ahead);
        }
        let segment = Segment {
            source_port: self.server.port(),
            destination_port: to.port(),
            sequence,
            acknowledgement: peer.next,
            flags,
            window: self.network.window,
            options,
            payload: &peer.data[at.min(peer.data.len())..end.clamp(at, at.max(peer.data.len())).min(peer.data.len())],
        };
        let mut packet = [0; 2_000];
        let length = segment.write(&mut packet, &Link::none(), self.server.ip(), to.ip()).unwrap();
        self.put(true, &packet[..length]);
    }

    /// What the server has got of a client.
    pub fn got(&self, client: SocketAddr) -> &[u8] {
        &self.peers[&client].got
    }
}

/// The first two ranges received out of order.
fn blocks(ahead: &BTreeMap<u32, u8>) -> Sack {
    let (mut sack, mut range) = (Sack::default(), None::<(u32, u32)>);
    for &at in ahead.keys() {
        range = match range {
            Some((first, end)) if end == at => Some((first, at.wrapping_add(1))),
            other => {
                other.into_iter().for_each(|range| sack.push(range));
                Some((at, at.wrapping_add(1)))
            }
        };
    }
    range.into_iter().for_each(|range| sack.push(range));
    sack.truncate(2);
    sack
}
