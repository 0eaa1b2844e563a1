//! The client side of TCP for very many connections: a state machine that has time as an argument.
//!
//! A caller calls something that changes the machine, then [`Tcp::poll_event`] and [`Tcp::poll_transmit`] until both yield
//! nothing. Events come first: what is written in answer to them carries the acknowledgements of what arrived, and an `Opened`
//! is told before the data behind it only if it is polled before the next segment is handled.
//!
//! ```text
//!   open, write, read, close, abort ──►┌─────┐──► poll_event     what happened
//!   handle_segment, handle_icmp ──────►│ Tcp │──► poll_transmit  segments to be sent
//!   handle_timeout ───────────────────►└─────┘──► poll_timeout   when to call again
//! ```
//!
//! One round of a driver:
//!
//! ```
//! use std::net::SocketAddr;
//!
//! use ldplayer_core::RunTime;
//! use ldplayer_stack::frame::{Check, Content, Link, Transport};
//! use ldplayer_stack::tcp::{Event, Tcp};
//!
//! fn round(tcp: &mut Tcp, now: RunTime, packets: &[(u16, &[u8])], link: &Link, send: &mut dyn FnMut(&[u8])) {
//!     for &(ethertype, packet) in packets {
//!         match Content::read(ethertype, packet, Check::Verify) {
//!             Ok(Content::Transport(source, destination, Transport::Tcp(segment))) => {
//!                 let from = SocketAddr::new(source, segment.source_port);
//!                 let to = SocketAddr::new(destination, segment.destination_port);
//!                 if let Some(input) = tcp.handle_segment(now, from, to, &segment) {
//!                     // Data in order: input.octets on input.at.
//!                 }
//!             }
//!             Ok(Content::Transport(_, _, Transport::Icmp(error))) => tcp.handle_icmp(&error),
//!             _ => {}
//!         }
//!         while let Some(event) = tcp.poll_event() {
//!             if let Event::Opened(at) = event {
//!                 tcp.write(at, now, b"\0\x0cand a query");
//!             }
//!         }
//!     }
//!     // Its failures are events, too.
//!     tcp.handle_timeout(now);
//!     let mut frame = [0; 1_518];
//!     while let Some(out) = tcp.poll_transmit(now) {
//!         if let Some(length) = out.write(&mut frame, link) {
//!             send(&frame[..length]);
//!         }
//!     }
//!     // Sleep until tcp.poll_timeout(), or until something arrives.
//! }
//! ```
//!
//! # Memory
//!
//! An idle connection takes 40 octets and 4 of the hash index; an IPv6 address of a client 28 more, once for all of its connections, and a
//! server some 70, once. While something is in flight, to be acknowledged or to be read, 280 more octets (256 at most, and 24 of the
//! timer), and its data. In TIME_WAIT it takes what it takes when idle. One that is parked takes nothing here, and 22 octets of the
//! caller's.
//!
//! # Limitations
//!
//! Nothing listens: SYNs are answered by resets, and simultaneous opening is not understood. No urgent data, no ECN. The
//! scoreboard of selective acknowledgements is not kept: of those received, only the first gap counts.

mod acknowledge;
mod active;
mod addresses;
mod blocks;
mod closing;
mod config;
mod connection;
mod cookies;
mod counts;
mod icmp;
mod index;
mod input;
mod opening;
mod output;
mod parked;
mod reassembly;
mod rtt;
#[cfg(test)]
mod script;
mod sequence;
mod servers;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_closing;
#[cfg(test)]
mod tests_memory;
#[cfg(test)]
mod tests_network;
#[cfg(test)]
mod tests_parked;
mod timers;
mod wheel;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ldplayer_core::{RunTime, Segments};

pub use self::addresses::Addresses;
pub use self::blocks::Blocks;
pub use self::config::{Config, OpenError, OpenOptions};
pub use self::connection::Handle;
pub use self::counts::Counts;
pub use self::index::{Chained, Index, NONE};
pub use self::parked::Parked;

use self::active::Actives;
use self::connection::{Connection, Connections, Key, NAGLE, State, V6};
use self::cookies::Cookies;
use self::output::Reply;
use self::servers::Servers;
use self::wheel::Wheel;

/// Answers without a connection that wait to be sent. More are dropped, which is counted.
const REPLIES: usize = 4_096;

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server has taken it: data can be written and arrives.
    Opened(Handle),
    /// Data waits that arrived out of order: [`Tcp::read`] it before anything else is handled.
    Data(Handle),
    /// There is room for data after [`Tcp::write`] had none.
    Writable(Handle),
    /// The server has closed its side, and all of its data has been handed over or told of. What is written still goes out.
    Closed(Handle),
    /// The server has reset it. The handle is dead.
    Reset(Handle),
    /// It has failed. The handle is dead.
    Failed(Handle, Failure),
    /// Nothing of it is in flight any more, or waits to be read or acknowledged. Told only if [`Config::tells_rest`] is set.
    Rests(Handle),
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server's host refused it: nothing listens.
    Refused,
    /// There is no way to the server, as a router or its host says.
    Unreachable,
    /// The server did not answer.
    TimedOut,
    /// The server kept its window closed.
    ZeroWindow,
}

/// Data that arrived in order with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input<'a> {
    /// On which connection.
    pub at: Handle,
    /// The data: a part of the segment.
    pub octets: &'a [u8],
}

/// The machine.
#[derive(Debug)]
pub struct Tcp {
    config: Config,
    connections: Connections,
    index: Index,
    addresses: Addresses,
    servers: Servers,
    cookies: Cookies,
    actives: Actives,
    wheel: Wheel,
    /// Active parts that may have something to send.
    ready: VecDeque<u32>,
    replies: VecDeque<Reply>,
    events: VecDeque<Event>,
    /// First and last in TIME_WAIT, in the order in which it began.
    waiting: (u32, u32),
    /// Ports chosen so far (RFC 6056 section 3.3.3).
    chosen: u32,
    /// The second in which challenge acknowledgements are counted, and how many there were.
    challenges: (i64, u32),
    /// The latest time that anything was told.
    clock: i64,
    counts: Counts,
}

impl Tcp {
    /// A machine without connections.
    pub fn new(config: Config) -> Self {
        Self {
            config: config.possible(),
            connections: Connections::default(),
            index: Index::default(),
            addresses: Addresses::default(),
            servers: Servers::default(),
            cookies: Cookies::new(config.max_cookies),
            actives: Actives::default(),
            wheel: Wheel::default(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            waiting: (NONE, NONE),
            chosen: 0,
            challenges: (i64::MIN, 0),
            clock: i64::MIN,
            counts: Counts::default(),
        }
    }

    /// What was counted.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Connections, those in TIME_WAIT included.
    pub const fn len(&self) -> usize {
        self.connections.len() as usize
    }

    /// Whether there are no connections.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Connections with something in flight, to be acknowledged or to be read.
    pub const fn active(&self) -> usize {
        self.actives.len() as usize
    }

    /// The client's address and port of a connection, and the server; `None` if the handle is dead.
    pub fn tuple(&self, at: Handle) -> Option<(SocketAddr, SocketAddr)> {
        self.connections.slot(at).map(|slot| self.addresses_of(slot))
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes data to be sent, as much as there is room for; returns how many octets. After less than all,
    /// [`Event::Writable`] tells when there is room. 0 if the handle is dead.
    pub fn write(&mut self, at: Handle, now: RunTime, octets: &[u8]) -> usize {
        let Some(slot) = self.connections.slot(at) else { return 0 };
        if !matches!(self.connections[slot].state(), State::SynSent | State::Established | State::CloseWait) {
            return 0;
        }
        let place = self.activate(slot, now);
        let active = &mut self.actives[place];
        let room = (self.config.send_buffer as usize).saturating_sub(active.output().len());
        let count = room.min(octets.len());
        active.append(&octets[..count]);
        active.wants_room |= count < octets.len();
        self.queue(place);
        count
    }

    /// Octets written that the server has not acknowledged.
    pub fn unacknowledged(&self, at: Handle) -> usize {
        let place = self.connections.slot(at).and_then(|slot| self.place(slot));
        place.map_or(0, |place| self.actives[place].output().len())
    }

    /// Segments with data that arrived, and segments that were sent again, SYN included, since the connection was idle: asked
    /// for with the data of a response, those of its query and response alone, unless queries overlap. Zeros if the handle is
    /// dead.
    pub fn segments(&self, at: Handle) -> Segments {
        let place = self.connections.slot(at).and_then(|slot| self.place(slot));
        place.map_or(Segments::default(), |place| self.actives[place].segments)
    }

    /// Copies data that waits after [`Event::Data`]; returns how many octets, 0 when there are no more.
    pub fn read(&mut self, at: Handle, into: &mut [u8]) -> usize {
        let Some(place) = self.connections.slot(at).and_then(|slot| self.place(slot)) else { return 0 };
        let Some(input) = &mut self.actives[place].input else { return 0 };
        let count = input.read(into);
        self.actives.drop_empty_input(place);
        self.queue(place);
        count
    }

    /// Whether data that is written before SYN is sent goes with it: Fast Open is asked for, and the server has given the client a
    /// cookie (RFC 7413 section 3).
    pub fn takes_early_data(&mut self, at: Handle) -> bool {
        let Some(slot) = self.connections.slot(at) else { return false };
        let (connection, client) = (&self.connections[slot], self.addresses_of(slot).0.ip());
        let is_asked_for = connection.has(connection::FAST_OPEN) && connection.state() == State::SynSent;
        let number = connection.server;
        is_asked_for && !self.servers.get(number).is_fast_open_lost && self.cookies.get(client, number).is_some()
    }

    /// The addresses of a connection: ours, and the server's.
    fn addresses_of(&self, slot: u32) -> (SocketAddr, SocketAddr) {
        let connection = &self.connections[slot];
        let local = match connection.has(V6) {
            true => IpAddr::V6(self.addresses.address(connection.local)),
            false => IpAddr::V4(connection.local.into()),
        };
        (SocketAddr::new(local, connection.port), self.servers.get(connection.server).address)
    }

    /// The connection between two addresses, in any state.
    fn find(&self, local: SocketAddr, server: SocketAddr) -> Option<u32> {
        let number = self.servers.find(server)?;
        let (client, is_v6) = match local.ip() {
            IpAddr::V4(v4) => (v4.to_bits(), false),
            IpAddr::V6(v6) => (self.addresses.find(v6)?, true),
        };
        self.find_key((client, number, local.port(), is_v6))
    }

    fn find_key(&self, key: Key) -> Option<u32> {
        self.index.find(&self.connections, connection::hash(key), |slot| self.connections.key(slot) == key)
    }

    /// The active part of a connection, if it has one.
    fn place(&self, slot: u32) -> Option<u32> {
        let connection = &self.connections[slot];
        connection.is_active().then_some(connection.active)
    }

    /// The active part of a connection, which is made if there is none.
    fn activate(&mut self, slot: u32, now: RunTime) -> u32 {
        self.clock = self.clock.max(now.0);
        if let Some(place) = self.place(slot) {
            return place;
        }
        let connection = &mut self.connections[slot];
        let place = self.actives.insert(slot, connection.sent);
        connection.active = place;
        let active = &mut self.actives[place];
        active.acknowledged = connection.received;
        active.rtt = rtt::Rtt::unpacked(connection.rtt);
        active.congestion = acknowledge::initial_window(connection.mss);
        place
    }

    /// Puts an active part on the list of those that may have something to send.
    fn queue(&mut self, place: u32) {
        if !std::mem::replace(&mut self.actives[place].is_queued, true) {
            self.ready.push_back(place);
        }
    }

    /// Drops the active part of a connection with nothing in flight, to be sent, acknowledged or read.
    fn settle(&mut self, place: u32) {
        let active = &self.actives[place];
        let slot = active.connection;
        let connection = &self.connections[slot];
        let may_be_idle = matches!(connection.state(), State::Established | State::CloseWait);
        let is_done = active.output().is_empty() && active.unacknowledged == active.highest && active.input.is_none();
        let is_said = active.acks_due == 0 && active.ack_at == active::NEVER && active.peer_fin.is_none();
        if may_be_idle && is_done && is_said && !active.has_fin {
            self.deactivate(slot);
            if self.config.tells_rest {
                self.tell(slot, Event::Rests);
            }
        } else {
            self.arm(place);
        }
    }

    /// Drops the active part of a connection, if it has one.
    fn deactivate(&mut self, slot: u32) {
        let Some(place) = self.place(slot) else { return };
        let connection = &mut self.connections[slot];
        connection.active = NONE;
        connection.rtt = self.actives[place].rtt.packed();
        self.wheel.cancel(place);
        self.actives.remove(place);
    }

    /// Tells the caller, unless it has closed the connection.
    fn tell(&mut self, slot: u32, event: fn(Handle) -> Event) {
        if self.connections[slot].is_known() {
            self.events.push_back(event(self.connections.handle(slot)));
        }
    }
}

/// The flags of a new connection.
const fn flags(is_v6: bool, options: &OpenOptions<'_>) -> u8 {
    let nagle = if options.nagle { NAGLE } else { 0 };
    let fast_open = if options.fast_open { connection::FAST_OPEN } else { 0 };
    nagle | fast_open | if is_v6 { V6 } else { 0 }
}

/// A clock of milliseconds, for timestamps and TIME_WAIT, which wraps.
const fn milliseconds(now: RunTime) -> u32 {
    now.0.div_euclid(1_000_000) as u32
}

/// A connection in its first state.
const fn new_connection(key: Key, options: &OpenOptions<'_>) -> Connection {
    let (local, server, port, is_v6) = key;
    Connection::new(local, server, port, flags(is_v6, options))
}
