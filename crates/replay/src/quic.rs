//! The machine of QUIC connections: which one carries a query, what datagrams are sent, and what becomes of queries whose
//! connection or stream ends.
//!
//! It owns no socket and reads no clock: the moment that it is made with only stands for run time 0 towards the library. The
//! worker calls a `handle_…`, then sends what [`Quic::poll_transmit`] yields until there is nothing more. See the crate's
//! documentation.

mod connection;
mod doh3;
mod doq;
mod ending;
mod exchange;
mod http3;
mod request;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_classes;
#[cfg(test)]
mod tests_http3;
mod tls;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hashbrown::HashMap;
use ldplayer_core::message::HEADER;
use ldplayer_core::{Outcome, Query, Reason, RunTime, Status, Transport};
use quinn_proto::{DatagramEvent, Dir, Endpoint, EndpointConfig, Event, StreamEvent, StreamId};

use self::connection::{Connection, Own};
pub use self::doh3::Doh3;
pub use self::doq::ALPN as ALPN_DOQ;
use self::request::Request;
pub use self::tls::QuicTls;
use crate::counts::Counts;
use crate::life::{Config, ConnectionCounts, End, Key, Policy, State, place};
use crate::route::{Route, SocketKey};
use crate::slab::{List, Slab, Slot};
use crate::udp::Arrival;

/// How much earlier than run time 0 the library's time begins, in nanoseconds: workers start before the run does.
const LEAD: i64 = 1_000_000_000;
/// Buffers of sent datagrams that are kept to be filled again.
const SPARES: usize = 256;

/// A datagram to be sent.
#[derive(Debug)]
pub struct Outgoing {
    at: Slot,
    number: u64,
    /// The socket to use.
    pub socket: SocketKey,
    /// Address to send from, where it must be set.
    pub source: Option<IpAddr>,
    /// The server.
    pub server: SocketAddr,
    /// The payload, of two octets at least.
    pub octets: Vec<u8>,
}

/// When a connection is to be woken: nanoseconds of run time, its slot, its number.
type Alarm = (i64, Slot, u64);

/// The machine of one worker.
pub struct Quic {
    config: Config,
    origin: Instant,
    /// The latest time heard of: the library's must not go back.
    latest: i64,
    endpoint: Endpoint,
    doq: Option<QuicTls>,
    doh3: Option<Doh3>,
    connections: Slab<Connection>,
    /// Connections by what the endpoint calls them; `Slot::MAX` for none.
    by_handle: Vec<Slot>,
    /// Connections that nothing was heard of yet, by the ID that their packets go to.
    by_initial: HashMap<u64, Slot, foldhash::fast::FixedState>,
    current: HashMap<Key, Slot, foldhash::fast::FixedState>,
    /// The policy of each class of clients; of all of them where there are no classes.
    policies: Vec<Policy>,
    opening: List,
    /// Idle connections, of each class apart, since each has its own idle timeout.
    idle: Vec<List>,
    /// Connections that may have something to send.
    called: VecDeque<Slot>,
    /// When connections are to be woken. One that is not the `armed` of its connection any more is passed over.
    alarms: BinaryHeap<Reverse<Alarm>>,
    requests: Slab<Request, 2>,
    by_stream: HashMap<(u64, u64), Slot, foldhash::fast::FixedState>,
    waiting: List,
    lingering: List,
    outgoing: VecDeque<Outgoing>,
    spares: Vec<Vec<u8>>,
    /// The content of a stream, for the time of a call.
    content: Vec<u8>,
    numbered: u64,
    outcomes: Vec<Outcome>,
    counts: Counts,
    connection_counts: ConnectionCounts,
}

impl Quic {
    /// A machine without connections, whose run time 0 the library knows as `origin`. Clients that speak DNS over QUIC need
    /// `doq`, and those that speak DNS over HTTP/3 `doh3`.
    pub fn new(config: Config, origin: Instant, doq: Option<QuicTls>, doh3: Option<Doh3>) -> Self {
        let config = Config { policy: config.policy.bounded(), ..config };
        Self {
            policies: vec![config.policy],
            config,
            origin,
            latest: -LEAD,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None),
            doq,
            doh3,
            connections: Slab::default(),
            by_handle: Vec::new(),
            by_initial: HashMap::default(),
            current: HashMap::default(),
            opening: List::default(),
            idle: vec![List::default()],
            called: VecDeque::new(),
            alarms: BinaryHeap::new(),
            requests: Slab::default(),
            by_stream: HashMap::default(),
            waiting: List::default(),
            lingering: List::default(),
            outgoing: VecDeque::new(),
            spares: Vec::new(),
            content: Vec::new(),
            numbered: 0,
            outcomes: Vec::new(),
            counts: Counts::default(),
            connection_counts: ConnectionCounts::default(),
        }
    }

    /// The same with a policy for each class of clients; none leaves all with the one that there is.
    pub fn with_classes(mut self, classes: &[Policy]) -> Self {
        if !classes.is_empty() {
            self.policies = classes.iter().map(|policy| policy.bounded()).collect();
            self.idle = classes.iter().map(|_| List::default()).collect();
        }
        self
    }

    /// Takes a query that is due.
    pub fn handle_query(&mut self, now: RunTime, query: Query, route: Route) {
        self.counts.taken += 1;
        if !(HEADER..=usize::from(u16::MAX)).contains(&query.wire.len()) {
            return self.finish(Outcome::not_sent(&query, Reason::BadMessage));
        }
        let slot = self.requests.insert(Request::new(query, route));
        self.assign(now, slot);
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

    /// The kernel took a datagram in a call that began at `now`; `port` is the socket's.
    pub fn handle_sent(&mut self, outgoing: Outgoing, now: RunTime, port: u16) {
        let at = outgoing.at;
        let is_first = self.is_wanted(&outgoing);
        self.recycle(outgoing.octets);
        if is_first {
            self.begin_opening(at, now, port);
        }
    }

    /// The kernel refused a datagram for good. A connection that has sent nothing else fails; to others it is one lost.
    pub fn handle_unsent(&mut self, outgoing: Outgoing, reason: Reason) {
        let at = outgoing.at;
        let is_first = self.is_wanted(&outgoing);
        self.recycle(outgoing.octets);
        if is_first {
            self.fail(at, reason, Status::NotSent);
        }
    }

    /// The kernel has no room now: the datagram goes back to the head of the queue.
    pub fn handle_postponed(&mut self, outgoing: Outgoing) {
        self.outgoing.push_front(outgoing);
    }

    /// Takes a datagram that arrived. What belongs to no connection is passed over, as what is left of ended ones is.
    pub fn handle_datagram(&mut self, arrival: &Arrival<'_>) {
        let (now, mut response) = (self.instant(arrival.at), Vec::new());
        let octets = BytesMut::from(arrival.octets);
        let event = self.endpoint.handle(now, arrival.peer, arrival.local, None, octets, &mut response);
        let Some(DatagramEvent::ConnectionEvent(handle, event)) = event else { return };
        let Some(&at) = self.by_handle.get(handle.0) else { return };
        self.begin(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        if connection.state == State::Opening {
            connection.state = State::Handshaking;
        }
        let initial = connection.own.initial;
        connection.own.session.handle_event(event);
        self.by_initial.remove(&initial);
        self.note_check(at);
        self.advance(at, arrival.at);
        self.call(at);
    }

    /// Takes the payload of a datagram back that its destination refused.
    pub fn handle_refused(&mut self, octets: &[u8]) {
        let at = initial_id(octets).and_then(|id| self.by_initial.get(&id).copied());
        if let Some(at) = at {
            self.connection_counts.failed += 1;
            self.fail(at, Reason::ConnectionRefused, Status::ConnectFailed);
        }
    }

    /// Ends what is overdue at `now`, and lets connections do what it is time for.
    pub fn handle_timeout(&mut self, now: RunTime) {
        let connect_timeout = self.config.policy.connect_timeout;
        while let Some(at) = self.first_since(&self.opening, now, connect_timeout) {
            let is_heard = self.connections.get(at).is_some_and(|connection| connection.state == State::Handshaking);
            self.connection_counts.failed += 1;
            let status = if is_heard { Status::TlsFailed } else { Status::ConnectFailed };
            self.fail(at, Reason::ConnectTimeout, status);
        }
        while let Some(slot) = self.overdue(&self.waiting, now) {
            self.expire(slot, now, None);
        }
        while let Some(slot) = self.overdue(&self.lingering, now) {
            self.forget(slot);
        }
        for class in 0..self.idle.len() {
            while let Some(at) = self.first_since(&self.idle[class], now, self.policies[class].idle_timeout) {
                self.remove(at, now, End::Idle);
            }
        }
        while let Some(&Reverse((_, at, number))) = self.alarms.peek().filter(|alarm| alarm.0.0 <= now.0) {
            let armed = self.alarms.pop().map_or(0, |alarm| alarm.0.0);
            self.wake(at, number, armed, now);
        }
    }

    /// Ends all that is outstanding, for a run that is interrupted.
    pub fn handle_interrupt(&mut self, now: RunTime) {
        while let Some(slot) = self.waiting.first() {
            self.expire(slot, now, Some(Reason::Interrupted));
        }
    }

    /// Tells the servers of all connections that these are over, for the end of a run. They stay in the accounts as open.
    pub fn handle_end(&mut self, now: RunTime) {
        let counts = self.connection_counts;
        for at in 0..self.by_handle.len() {
            let at = self.by_handle[at];
            if self.connections.get(at).is_some_and(|connection| connection.state != State::Wanted) {
                self.remove(at, now, End::Idle);
            }
        }
        self.connection_counts = counts;
    }

    /// When [`Self::handle_timeout`] has something to do next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let since = |list: &List, timeout: i64| Some(self.connections.get(list.first()?)?.since + timeout);
        let deadline = |list: &List| Some(self.requests.get(list.first()?)?.deadline);
        let opening = since(&self.opening, self.config.policy.connect_timeout);
        let classes = self.idle.iter().zip(&self.policies);
        let idle = classes.filter_map(|(list, policy)| since(list, policy.idle_timeout)).min();
        let alarm = self.alarms.peek().map(|alarm| RunTime(alarm.0.0));
        [opening, idle, alarm, deadline(&self.waiting), deadline(&self.lingering)].into_iter().flatten().min()
    }

    /// The rows finished since the caller last emptied it.
    pub fn outcomes(&mut self) -> &mut Vec<Outcome> {
        &mut self.outcomes
    }

    /// Queries taken and neither answered nor timed out.
    pub fn outstanding(&self) -> usize {
        self.requests.len() - self.lingering.len()
    }

    /// Whether a connection is on its way up, so that what comes next should not wait.
    pub fn is_opening_any(&self) -> bool {
        !self.opening.is_empty()
    }

    /// The accounts of queries.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The accounts of connections.
    pub const fn connection_counts(&self) -> &ConnectionCounts {
        &self.connection_counts
    }

    /// Gives a request the connection of its client, or a new one.
    fn assign(&mut self, now: RunTime, slot: Slot) {
        let Some(request) = self.requests.get(slot) else { return };
        let key = (request.client, request.row.transport);
        let (route, class) = (request.route, request.row.class);
        let usable = self.current.get(&key).copied().filter(|&at| self.has_room(at));
        let at = match usable.map_or_else(|| self.open(now, key, class, &route), Ok) {
            Ok(at) => at,
            Err(reason) => return self.end_unassigned(slot, reason),
        };
        self.leave_idle(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.taken += 1;
        self.requests.append(&mut connection.queue, slot);
        let (number, port, is_open) = (connection.number, connection.port, connection.is_open());
        let is_opening = connection.is_rising();
        if let Some(request) = self.requests.get_mut(slot) {
            request.connection = at;
            request.row.connection = Some(number);
            request.row.client_port = port;
            request.row.reused = is_open;
        }
        if is_opening {
            self.submit(slot, now);
        }
        self.call(at);
    }

    /// The policy of a class; that of the first for what has none.
    fn policy(&self, class: Option<u8>) -> &Policy {
        self.policies.get(place(class)).unwrap_or(&self.config.policy)
    }

    /// The connection that has been idle for longest.
    fn longest_idle(&self) -> Option<Slot> {
        let first = self.idle.iter().filter_map(List::first);
        first.min_by_key(|&at| self.connections.get(at).map(|connection| connection.since))
    }

    fn has_room(&self, at: Slot) -> bool {
        self.connections.get(at).is_some_and(|connection| {
            let policy = self.policy(connection.class);
            connection.taken < policy.queries_per_connection
                && connection.load() < policy.pipeline as usize
                && !connection.own.is_full
                && !connection.own.is_leaving
        })
    }

    /// A new connection, which its client uses from now on. An idle one makes room where there is none.
    fn open(&mut self, now: RunTime, key: Key, class: Option<u8>, route: &Route) -> Result<Slot, Reason> {
        if self.connections.len() >= self.config.most as usize {
            let oldest = self.longest_idle().ok_or(Reason::NoSource)?;
            self.remove(oldest, now, End::Room);
        }
        let (client, transport) = key;
        let instant = self.instant(now);
        let tls = tls_of(&self.doq, &self.doh3, transport).ok_or(Reason::Transport)?;
        let Policy { resumption, early_data, .. } = *self.policy(class);
        let opened = tls.connect(&mut self.endpoint, instant, client, route.server, resumption);
        let (handle, session, initial) = opened.map_err(|_| Reason::SendError)?;
        let number = self.config.first + self.numbered * self.config.step;
        self.numbered += 1;
        let at = self.connections.insert(Connection {
            number,
            since: now,
            class,
            client,
            source: route.source,
            port: 0,
            transport,
            state: State::Wanted,
            taken: 0,
            queue: List::default(),
            outstanding: List::default(),
            own: Own {
                may_be_early: early_data,
                socket: route.socket,
                server: route.server,
                was_checked: false,
                is_full: false,
                is_leaving: false,
                is_called: false,
                armed: i64::MAX,
                streams: 0,
                initial,
                handle,
                session: Box::new(session),
                http3: (transport == Transport::Doh3).then(Box::default),
            },
        });
        if self.by_handle.len() <= handle.0 {
            self.by_handle.resize(handle.0 + 1, Slot::MAX);
        }
        self.by_handle[handle.0] = at;
        self.by_initial.insert(initial, at);
        self.current.insert(key, at);
        Ok(at)
    }

    fn leave_idle(&mut self, at: Slot) {
        let Some(connection) = self.connections.get_mut(at).filter(|it| it.state == State::Idle) else { return };
        connection.state = State::Open;
        let class = connection.class;
        self.connections.unlink(&mut self.idle[place(class)], at);
    }

    /// Sees once to what a connection has to send.
    fn call(&mut self, at: Slot) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        if !std::mem::replace(&mut connection.own.is_called, true) {
            self.called.push_back(at);
        }
    }

    /// Writes what is queued on a connection, and takes its datagrams.
    fn serve(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.own.is_called = false;
        self.begin(at);
        self.write_queue(at, now);
        self.advance(at, now);
        self.collect(at, now);
        self.advance(at, now);
        self.arm(at);
    }

    /// Takes the datagrams that a connection has to send.
    fn collect(&mut self, at: Slot, now: RunTime) {
        let instant = self.instant(now);
        let Some(connection) = self.connections.get_mut(at) else { return };
        loop {
            let mut octets = self.spares.pop().unwrap_or_default();
            let Some(transmit) = connection.own.session.poll_transmit(instant, 1, &mut octets) else {
                self.spares.push(octets);
                return;
            };
            octets.truncate(transmit.size);
            let (number, socket) = (connection.number, connection.own.socket);
            let (source, server) = (connection.source, connection.own.server);
            self.outgoing.push_back(Outgoing { at, number, socket, source, server, octets });
        }
    }

    /// Takes what has become of a connection in the last call into it.
    fn advance(&mut self, at: Slot, now: RunTime) {
        while let Some(connection) = self.connections.get_mut(at) {
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
            StreamEvent::Writable { id } => self.write_rest(at, id),
            StreamEvent::Stopped { id, error_code } => {
                let Some(connection) = self.connections.get_mut(at) else { return };
                // A stream that is over already needs no end.
                let _ = connection.own.session.send_stream(id).reset(error_code);
            }
            StreamEvent::Available { dir: Dir::Bi } => {
                let Some(connection) = self.connections.get_mut(at) else { return };
                connection.own.is_full = false;
                self.call(at);
            }
            StreamEvent::Available { dir: Dir::Uni } | StreamEvent::Opened { .. } | StreamEvent::Finished { .. } => {}
        }
    }

    /// The kernel has the first datagram of a connection.
    fn begin_opening(&mut self, at: Slot, now: RunTime, port: u16) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Opening;
        connection.since = now;
        connection.port = port;
        let lists = [connection.outstanding.first(), connection.queue.first()];
        self.connections.append(&mut self.opening, at);
        if let Some(opener) = lists.into_iter().flatten().next().and_then(|slot| self.requests.get_mut(slot)) {
            opener.is_opener = true;
        }
        for mut next in lists {
            while let Some(slot) = next {
                if let Some(request) = self.requests.get_mut(slot) {
                    request.row.client_port = port;
                }
                self.submit(slot, now);
                next = self.requests.next::<1>(slot);
            }
        }
    }

    /// The handshake is through.
    fn come_up(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        if connection.is_rising() {
            self.connections.unlink(&mut self.opening, at);
        }
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Open;
        connection.own.is_full = false;
        let (took, is_resumed) = (now - connection.since, !connection.own.was_checked);
        let openers = [connection.outstanding.first(), connection.queue.first()];
        for slot in openers.into_iter().flatten() {
            if let Some(request) = self.requests.get_mut(slot).filter(|request| request.is_opener) {
                request.row.handshake_ns = Some(took);
            }
        }
        self.connection_counts.open();
        self.connection_counts.resumed += u64::from(is_resumed);
        self.settle_early_data(at);
        self.call(at);
        self.settle(at, now);
    }

    /// Remembers that the server has shown its certificate, if it has in the last call.
    fn note_check(&mut self, at: Slot) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let tls = tls_of(&self.doq, &self.doh3, connection.transport);
        connection.own.was_checked |= tls.is_some_and(|tls| tls.check().was_made);
    }

    /// The calls into the library that follow are for this connection.
    fn begin(&self, at: Slot) {
        let Some(connection) = self.connections.get(at) else { return };
        if let Some(tls) = tls_of(&self.doq, &self.doh3, connection.transport) {
            tls.begin(connection.client, self.policy(connection.class).resumption);
        }
    }

    /// Lets a connection do what it is time for.
    fn wake(&mut self, at: Slot, number: u64, armed: i64, now: RunTime) {
        let instant = self.instant(now);
        self.begin(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        if connection.number != number || connection.own.armed != armed {
            return;
        }
        connection.own.armed = i64::MAX;
        connection.own.session.handle_timeout(instant);
        self.advance(at, now);
        self.arm(at);
        self.call(at);
    }

    /// Sets the alarm of a connection, unless one is set that rings earlier.
    fn arm(&mut self, at: Slot) {
        let origin = self.origin;
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(timeout) = connection.own.session.poll_timeout() else { return };
        let next = timeout.saturating_duration_since(origin).as_nanos() as i64 - LEAD;
        if next < connection.own.armed {
            connection.own.armed = next;
            self.alarms.push(Reverse((next, at, connection.number)));
        }
    }

    /// What the library calls a moment; never earlier than the one before.
    fn instant(&mut self, now: RunTime) -> Instant {
        self.latest = self.latest.max(now.0);
        self.origin + Duration::from_nanos((self.latest + LEAD) as u64)
    }

    /// The kernel has the query, or it waits for the kernel, from `now` on.
    fn submit(&mut self, slot: Slot, now: RunTime) {
        let Some(request) = self.requests.get_mut(slot) else { return };
        if request.row.submitted.is_none() {
            request.row.submitted = Some(now);
            self.counts.sent += 1;
        }
        if !request.waits {
            request.waits = true;
            request.deadline = now + self.config.query_timeout;
            self.requests.append(&mut self.waiting, slot);
        }
    }

    fn is_wanted(&self, outgoing: &Outgoing) -> bool {
        let connection = self.connections.get(outgoing.at);
        connection.is_some_and(|it| it.number == outgoing.number && it.state == State::Wanted)
    }

    fn recycle(&mut self, mut octets: Vec<u8>) {
        octets.clear();
        if self.spares.len() < SPARES {
            self.spares.push(octets);
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        self.counts.add(outcome.status);
        self.outcomes.push(outcome);
    }

    fn overdue(&self, list: &List, now: RunTime) -> Option<Slot> {
        list.first().filter(|&slot| self.requests.get(slot).is_some_and(|request| request.deadline <= now))
    }

    fn first_since(&self, list: &List, now: RunTime, timeout: i64) -> Option<Slot> {
        list.first().filter(|&at| self.connections.get(at).is_some_and(|it| it.since + timeout <= now))
    }
}

/// What connections of a transport are made from.
fn tls_of<'a>(doq: &'a Option<QuicTls>, doh3: &'a Option<Doh3>, transport: Transport) -> Option<&'a QuicTls> {
    if transport == Transport::Doh3 { doh3.as_ref().map(|doh3| &doh3.tls) } else { doq.as_ref() }
}

/// The ID that a packet of a client that has heard nothing goes to (RFC 9000 §17.2).
fn initial_id(octets: &[u8]) -> Option<u64> {
    const LONG: u8 = 0x80;
    let is_long = octets.first().is_some_and(|first| first & LONG != 0);
    let id = octets.get(6..14).filter(|_| is_long && octets.get(5) == Some(&8))?;
    id.try_into().ok().map(u64::from_be_bytes)
}

/// The stream of a query in the table of them.
fn stream_key(number: u64, id: StreamId) -> (u64, u64) {
    (number, id.into())
}
