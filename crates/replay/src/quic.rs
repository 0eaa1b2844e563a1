//! The machine of QUIC connections: what datagrams are sent, and what comes on streams. Which connection carries a query, and
//! what becomes of queries whose connection ends, is in [`crate::table`].
//!
//! It owns no socket and reads no clock: the instant passed at construction only stands for run time 0 in calls of the library. The
//! worker calls a `handle_…`, then sends what [`Quic::poll_transmit`] yields until there is nothing more. See the crate's
//! documentation.

mod connection;
mod doh3;
pub mod doq;
mod exchange;
mod failure;
pub mod http3;
mod request;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_classes;
#[cfg(test)]
mod tests_hostile;
#[cfg(test)]
mod tests_http3;
mod tls;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hashbrown::HashMap;
use ldplayer_core::{Message, Reason, RunTime, Status, Transport};
use quinn_proto::{DatagramEvent, Dir, Endpoint, EndpointConfig, EndpointEvent, Event, StreamEvent, VarInt};

use self::connection::{Connection, Own};
pub use self::doh3::Doh3;
pub use self::doq::ALPN as ALPN_DOQ;
use self::request::{Octets, Request};
pub use self::tls::QuicTls;
use crate::budget::{Budget, ITEM, PER_STREAM};
use crate::route::{Route, SocketKey};
use crate::slab::Slot;
use crate::table::{Config, ConnectionTable, End, Key, Machine, Policy, State};
use crate::udp::Arrival;

/// How much earlier than run time 0 the library's time begins, in nanoseconds: workers start before the run does.
const LEAD: i64 = 1_000_000_000;
/// Maximum number of spare datagram buffers.
const SPARES: usize = 256;

/// A datagram to be sent.
#[derive(Debug)]
pub struct Outgoing {
    at: Slot,
    number: u64,
    /// The socket.
    pub socket: SocketKey,
    /// The source address, if it must be set.
    pub source: Option<IpAddr>,
    /// The server.
    pub server: SocketAddr,
    /// The payload, at least two octets.
    pub octets: Vec<u8>,
}

/// An alarm of a connection: run time in nanoseconds, slot, number.
type Alarm = (i64, Slot, u64);

/// The machine of one worker.
pub struct Quic {
    origin: Instant,
    /// The latest time so far: the library's time must not go back.
    latest: i64,
    endpoint: Endpoint,
    doq: Option<QuicTls>,
    doh3: Option<Doh3>,
    table: ConnectionTable<Own, Octets>,
    /// Connections by the endpoint's handle; `Slot::MAX` for none.
    by_handle: Vec<Slot>,
    /// Connections without a packet from the server yet, by the connection ID of their packets.
    by_initial: HashMap<u64, Slot, foldhash::fast::FixedState>,
    /// Connections that may have something to send.
    called: VecDeque<Slot>,
    /// Alarms of connections. Those that are no longer the `armed` one of their connection are skipped.
    alarms: BinaryHeap<Reverse<Alarm>>,
    outgoing: VecDeque<Outgoing>,
    spares: Vec<Vec<u8>>,
    /// Buffer for the content of a stream.
    content: Vec<u8>,
}

impl Quic {
    /// A machine without connections, whose run time 0 is `origin` for the library. DNS over QUIC needs
    /// `doq`, and DNS over HTTP/3 `doh3`.
    pub fn new(config: Config, origin: Instant, doq: Option<QuicTls>, doh3: Option<Doh3>) -> Self {
        Self {
            origin,
            latest: -LEAD,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None),
            doq,
            doh3,
            table: ConnectionTable::new(config),
            by_handle: Vec::new(),
            by_initial: HashMap::default(),
            called: VecDeque::new(),
            alarms: BinaryHeap::new(),
            outgoing: VecDeque::new(),
            spares: Vec::new(),
            content: Vec::new(),
        }
    }

    /// The next datagram to hand to the kernel, as of `now`. Answer with [`Self::handle_sent`], [`Self::handle_unsent`] or
    /// [`Self::handle_postponed`].
    pub fn poll_transmit(&mut self, now: RunTime) -> Option<Outgoing> {
        loop {
            if let Some(outgoing) = self.outgoing.pop_front() {
                return Some(outgoing);
            }
            let at = self.called.pop_front()?;
            self.serve(at, now);
        }
    }

    /// The kernel accepted a datagram in a call that began at `now`; `port` is the socket's.
    pub fn handle_sent(&mut self, outgoing: Outgoing, now: RunTime, port: u16) {
        let at = outgoing.at;
        let is_first = self.is_wanted(&outgoing);
        self.recycle(outgoing.octets);
        if is_first {
            self.begin_opening(at, now, port);
        }
    }

    /// The kernel refused a datagram permanently, as reported at `now`. A connection that has sent nothing else fails; for others it
    /// is a lost datagram.
    pub fn handle_unsent(&mut self, outgoing: Outgoing, now: RunTime, reason: Reason) {
        let at = outgoing.at;
        let is_first = self.is_wanted(&outgoing);
        self.recycle(outgoing.octets);
        if is_first && reason == Reason::Unreachable {
            self.begin_opening(at, now, 0);
            self.handle_failed(at, reason);
        } else if is_first {
            self.fail(at, reason, Status::NotSent);
        }
    }

    /// The kernel's buffer is full: the datagram returns to the head of the queue.
    pub fn handle_postponed(&mut self, outgoing: Outgoing) {
        self.outgoing.push_front(outgoing);
    }

    /// Handles a received datagram. Datagrams for unknown or closed connections are dropped.
    pub fn handle_datagram(&mut self, arrival: &Arrival<'_>) {
        let (now, mut response) = (self.instant(arrival.at), Vec::new());
        let octets = BytesMut::from(arrival.octets);
        let event = self.endpoint.handle(now, arrival.peer, arrival.local, None, octets, &mut response);
        let Some(DatagramEvent::ConnectionEvent(handle, event)) = event else { return };
        let Some(&at) = self.by_handle.get(handle.0) else { return };
        self.begin(at);
        let Some(connection) = self.table.connection_mut(at) else { return };
        let (initial, is_first) = (connection.own.initial, connection.state() == State::Opening);
        let number = connection.number;
        connection.own.session.handle_event(event);
        self.by_initial.remove(&initial);
        if is_first {
            self.table.begin_handshake(at, arrival.at);
        }
        self.note_check(at);
        self.advance(at, arrival.at);
        if self.table.connection(at).is_some_and(|connection| connection.number == number) {
            self.charge(at, arrival.at, ITEM + arrival.octets.len() as u32);
        }
        self.call(at);
    }

    /// Handles the payload of a datagram that its destination refused.
    pub fn handle_refused(&mut self, octets: &[u8]) {
        let at = initial_id(octets).and_then(|id| self.by_initial.get(&id).copied());
        if let Some(at) = at {
            self.handle_failed(at, Reason::ConnectionRefused);
        }
    }

    /// Closes all connections at the end of a run. They count as open in the accounts.
    pub fn handle_end(&mut self, now: RunTime) {
        let counts = *self.connection_counts();
        for at in 0..self.by_handle.len() {
            let at = self.by_handle[at];
            if self.table.connection(at).is_some_and(|connection| connection.state() != State::Wanted) {
                self.remove(at, now, End::Idle);
            }
        }
        self.table.set_connection_counts(counts);
    }

    /// Handles what a connection has to send.
    fn call(&mut self, at: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        if !std::mem::replace(&mut connection.own.is_called, true) {
            self.called.push_back(at);
        }
    }

    /// Writes the queued requests of a connection, and collects its datagrams.
    fn serve(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        connection.own.is_called = false;
        self.begin(at);
        self.write_queue(at, now);
        self.advance(at, now);
        self.collect(at, now);
        self.advance(at, now);
        self.arm(at);
    }

    /// Collects the datagrams that a connection has to send.
    fn collect(&mut self, at: Slot, now: RunTime) {
        let instant = self.instant(now);
        let Some(server) = self.table.connection(at).map(|connection| self.table.server(connection)) else { return };
        let Some(connection) = self.table.connection_mut(at) else { return };
        loop {
            let mut octets = self.spares.pop().unwrap_or_default();
            let Some(transmit) = connection.own.session.poll_transmit(instant, 1, &mut octets) else {
                self.spares.push(octets);
                return;
            };
            octets.truncate(transmit.size);
            let (number, socket) = (connection.number, connection.own.socket);
            let source = connection.source();
            self.outgoing.push_back(Outgoing { at, number, socket, source, server, octets });
        }
    }

    /// Handles the events of a connection after a call into it.
    fn advance(&mut self, at: Slot, now: RunTime) {
        while let Some(connection) = self.table.connection_mut(at) {
            while let Some(event) = connection.own.session.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(connection.own.handle, event) {
                    connection.own.session.handle_event(event);
                }
            }
            let Some(event) = connection.own.session.poll() else { return };
            match event {
                Event::Connected => self.come_up(at, now),
                Event::ConnectionLost { reason } => self.handle_lost(at, now, &reason),
                Event::Stream(event) => self.handle_stream(at, now, event),
                Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
    }

    fn handle_stream(&mut self, at: Slot, now: RunTime, event: StreamEvent) {
        match event {
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_control(at, id, now),
            StreamEvent::Readable { id } => self.read(at, id, now),
            StreamEvent::Opened { dir: Dir::Uni } => self.accept_streams(at, now),
            StreamEvent::Writable { id } if id.dir() == Dir::Uni => self.write_control(at),
            StreamEvent::Writable { id } => self.write_rest(at, id),
            // The control stream must stay open (RFC 9114 §6.2.1).
            StreamEvent::Stopped { id, .. } if id.dir() == Dir::Uni => {
                self.abort(at, now, http3::code::CLOSED_CRITICAL_STREAM);
            }
            StreamEvent::Stopped { id, error_code } => {
                let Some(connection) = self.table.connection_mut(at) else { return };
                // A stream that has already ended needs no end.
                let _ = connection.own.session.send_stream(id).reset(error_code);
            }
            StreamEvent::Available { dir: Dir::Bi } => {
                let Some(connection) = self.table.connection_mut(at) else { return };
                connection.own.is_full = false;
                self.call(at);
            }
            StreamEvent::Available { dir: Dir::Uni } => {
                if self.table.connection(at).is_some_and(Connection::is_open) {
                    self.begin_http3(at);
                }
            }
            StreamEvent::Opened { .. } | StreamEvent::Finished { .. } => {}
        }
    }

    /// The kernel accepted the first datagram of a connection.
    fn begin_opening(&mut self, at: Slot, now: RunTime, port: u16) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        connection.port = port;
        connection.own.began = now;
        self.table.begin_opening(at, now);
    }

    /// The handshake is complete.
    fn come_up(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        connection.own.is_full = false;
        let (took, is_resumed) = (now - connection.own.began, !connection.own.was_checked);
        self.table.note_opener(at, |row| row.handshake_ns = Some(took));
        self.table.come_up(at);
        self.table.note_resumed(is_resumed);
        self.settle_early_data(at);
        self.call(at);
        self.settle(at, now);
    }

    /// Notes that the server has sent its certificate, if it has.
    fn note_check(&mut self, at: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let tls = tls_of(&self.doq, &self.doh3, connection.transport);
        connection.own.was_checked |= tls.is_some_and(|tls| tls.check().was_made);
    }

    /// Marks the connection of the following calls into the library.
    fn begin(&self, at: Slot) {
        let Some(connection) = self.table.connection(at) else { return };
        if let Some(tls) = tls_of(&self.doq, &self.doh3, connection.transport) {
            tls.begin(self.table.key(connection), self.table.policy(connection.class).resumption);
        }
    }

    /// Handles the timeout of a connection.
    fn wake(&mut self, at: Slot, number: u64, armed: i64, now: RunTime) {
        let instant = self.instant(now);
        self.begin(at);
        let Some(connection) = self.table.connection_mut(at) else { return };
        if connection.number != number || connection.own.armed != armed {
            return;
        }
        connection.own.armed = i64::MAX;
        connection.own.session.handle_timeout(instant);
        self.advance(at, now);
        self.arm(at);
        self.call(at);
    }

    /// Sets the alarm of a connection, unless an earlier one is set.
    fn arm(&mut self, at: Slot) {
        let origin = self.origin;
        let Some(connection) = self.table.connection_mut(at) else { return };
        let Some(timeout) = connection.own.session.poll_timeout() else { return };
        let next = timeout.saturating_duration_since(origin).as_nanos() as i64 - LEAD;
        if next < connection.own.armed {
            connection.own.armed = next;
            self.alarms.push(Reverse((next, at, connection.number)));
        }
    }

    /// The library's instant for a time; never earlier than the previous one.
    fn instant(&mut self, now: RunTime) -> Instant {
        self.latest = self.latest.max(now.0);
        self.origin + Duration::from_nanos((self.latest + LEAD) as u64)
    }

    fn is_wanted(&self, outgoing: &Outgoing) -> bool {
        let connection = self.table.connection(outgoing.at);
        connection.is_some_and(|it| it.number == outgoing.number && it.state() == State::Wanted)
    }

    fn recycle(&mut self, mut octets: Vec<u8>) {
        octets.clear();
        if self.spares.len() < SPARES {
            self.spares.push(octets);
        }
    }
}

impl Machine for Quic {
    type Connection = Own;
    type Request = Octets;

    fn table(&self) -> &ConnectionTable<Own, Octets> {
        &self.table
    }

    fn table_mut(&mut self) -> &mut ConnectionTable<Own, Octets> {
        &mut self.table
    }

    fn open(&mut self, now: RunTime, key: Key, class: Option<u8>, route: &Route) -> Result<Slot, Reason> {
        let instant = self.instant(now);
        let tls = tls_of(&self.doq, &self.doh3, key.transport).ok_or(Reason::Transport)?;
        let Policy { resumption, early_data, .. } = *self.table.policy(class);
        let opened = tls.connect(&mut self.endpoint, instant, key, route.server, resumption);
        let (handle, session, initial) = opened.map_err(|_| Reason::SendError)?;
        let own = Own {
            may_be_early: early_data,
            socket: route.socket,
            was_checked: false,
            is_full: false,
            is_leaving: false,
            is_called: false,
            began: now,
            armed: i64::MAX,
            streams: 0,
            initial,
            handle,
            session: Box::new(session),
            budget: Budget::default(),
            http3: (key.transport == Transport::Doh3).then(Box::default),
        };
        let at = self.table.open(now, key, class, route.source, own);
        if self.by_handle.len() <= handle.0 {
            self.by_handle.resize(handle.0 + 1, Slot::MAX);
        }
        self.by_handle[handle.0] = at;
        self.by_initial.insert(initial, at);
        Ok(at)
    }

    /// Closes the connection towards the server, unless it knows; later packets are dropped, as in the closing state (RFC 9000
    /// §10.2.1), except that each is answered.
    fn detach(&mut self, at: Slot, ended: Option<(RunTime, End)>) -> Option<Connection> {
        let now = ended.map_or(RunTime(self.latest), |(now, _)| now);
        let instant = self.instant(now);
        let connection = self.table.connection_mut(at)?;
        if connection.state() != State::Wanted {
            let code = VarInt::from_u32(connection.no_error());
            connection.own.session.close(instant, code, Bytes::new());
            self.collect(at, now);
        }
        let connection = self.table.take(at)?;
        if self.by_initial.get(&connection.own.initial) == Some(&at) {
            self.by_initial.remove(&connection.own.initial);
        }
        self.by_handle[connection.own.handle.0] = Slot::MAX;
        self.endpoint.handle_event(connection.own.handle, EndpointEvent::drained());
        Some(connection)
    }

    fn handle_queued(&mut self, at: Slot, slot: Slot, now: RunTime) {
        let Some((connection, request)) = self.table.pair_mut(at, slot) else { return };
        request.row.client_port = connection.port;
        if connection.is_connecting() {
            self.table.submit(slot, now);
        }
        self.call(at);
    }

    fn handle_finished(&mut self, at: Slot, now: RunTime, answer: Option<&Message<'_>>) {
        if let (Some(answer), Some(connection)) = (answer, self.table.connection_mut(at)) {
            connection.own.budget.answer(answer.octets().len(), PER_STREAM);
        }
        self.settle(at, now);
    }

    fn has_stream(&self, connection: &Connection) -> bool {
        !connection.own.is_full && !connection.own.is_leaving
    }

    fn release(&mut self, slot: Slot) -> Option<Request> {
        let request = self.table.release(slot)?;
        let connection = self.table.connection_of(&request);
        if let Some(connection) = connection.filter(|_| request.id.is_some()) {
            connection.own.streams -= 1;
        }
        Some(request)
    }

    /// The server need not answer any more (RFC 9250 §4.3.1).
    fn give_up(&mut self, slot: Slot) {
        let Some(request) = self.release(slot) else { return };
        if let (Some(connection), Some(id)) = (self.table.connection_of(&request), request.stream()) {
            // A stream that has ended meanwhile needs no stop.
            let code = VarInt::from_u32(connection.cancelled());
            let _ = connection.own.session.recv_stream(id).stop(code);
            self.call(request.connection);
        }
    }

    fn handle_timeout(&mut self, now: RunTime) {
        self.end_overdue(now);
        while let Some(&Reverse((_, at, number))) = self.alarms.peek().filter(|alarm| alarm.0.0 <= now.0) {
            let armed = self.alarms.pop().map_or(0, |alarm| alarm.0.0);
            self.wake(at, number, armed, now);
        }
    }

    fn poll_timeout(&self) -> Option<RunTime> {
        let alarm = self.alarms.peek().map(|alarm| RunTime(alarm.0.0));
        [self.table.poll_timeout(), alarm].into_iter().flatten().min()
    }
}

/// The configuration of a transport's connections.
fn tls_of<'a>(doq: &'a Option<QuicTls>, doh3: &'a Option<Doh3>, transport: Transport) -> Option<&'a QuicTls> {
    if transport == Transport::Doh3 { doh3.as_ref().map(|doh3| &doh3.tls) } else { doq.as_ref() }
}

/// The destination connection ID of a client's first packets (RFC 9000 §17.2).
fn initial_id(octets: &[u8]) -> Option<u64> {
    const LONG: u8 = 0x80;
    let is_long = octets.first().is_some_and(|first| first & LONG != 0);
    let id = octets.get(6..14).filter(|_| is_long && octets.get(5) == Some(&8))?;
    id.try_into().ok().map(u64::from_be_bytes)
}
