//! The machine of connections: which one carries a query, what is written and read, and what becomes of queries whose
//! connection ends.
//!
//! It owns no socket and reads no clock. The worker calls a `handle_…`, then carries out what [`Connections::poll_action`]
//! yields until there is nothing more. See the crate's documentation.

mod connection;
mod counts;
mod doh;
mod early;
mod encrypted;
mod ending;
pub mod framing;
pub mod http2;
mod policy;
mod request;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_classes;
#[cfg(test)]
mod tests_doh;
#[cfg(test)]
mod tests_early;
#[cfg(test)]
mod tests_memory;
#[cfg(test)]
mod tests_tls;
pub mod tls;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use ldplayer_core::message::{HEADER, flag};
use ldplayer_core::{Message, Outcome, Query, Reason, RunTime, Status, Transport};

use self::connection::{Connection, State};
pub use self::counts::ConnectionCounts;
pub use self::doh::Doh;
pub use self::http2::DohSettings;
pub use self::policy::{PIPELINE_MOST, Policy};
use self::request::{Request, Stage};
pub use self::tls::{ALPN_DOT, TlsClient, TlsError, TlsSettings, TlsTrust};
use crate::counts::Counts;
use crate::matching::repeats_question;
use crate::pending::Pending;
use crate::route::Route;
use crate::slab::{List, Slab, Slot};

/// Octets composed for one write, beyond which the next message has to wait for another.
const WRITE_AT_ONCE: usize = 64 << 10;

/// Limits and times of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How connections are used.
    pub policy: Policy,
    /// How long an answer is waited for, in nanoseconds.
    pub query_timeout: i64,
    /// How much longer a late answer is recognised, in nanoseconds.
    pub linger: i64,
    /// Connections at once; one that is idle makes room for a new one.
    pub most: u32,
    /// Where the IDs start.
    pub seed: u64,
    /// Number of the first connection …
    pub first: u64,
    /// … and the distance to the next one's, so that workers number theirs apart.
    pub step: u64,
}

/// What the worker is to do. A connection that is gone by then is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open it as [`Connections::opening`] says, and answer with `handle_opening` or `handle_unopened`.
    Open(Slot),
    /// Write what [`Connections::compose`] gives.
    Write(Slot),
    /// Close its socket.
    Close(Slot),
}

/// What a connection is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Address to open it from, where it must be set.
    pub source: Option<IpAddr>,
    /// The server.
    pub server: SocketAddr,
}

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By the client, for being idle.
    Idle,
    /// By the client, after its last query.
    Spent,
    /// By the client, to make room for another.
    Room,
    /// By the server, in order.
    Closed,
    /// By the server or the network, by a reset or an error.
    Reset,
}

/// Which client uses a connection, and for what.
type Key = (IpAddr, Transport);

/// The machine of one worker.
pub struct Connections {
    config: Config,
    servers: Vec<SocketAddr>,
    connections: Slab<Connection>,
    current: HashMap<Key, Slot, foldhash::fast::FixedState>,
    opening: List,
    /// The policy of each class of clients; of all of them where there are no classes.
    policies: Vec<Policy>,
    /// Idle connections that the client closes in its own time, of each class apart, since each has its own …
    idle: Vec<List>,
    /// … and those that it closes earlier, since the server said so. Sorted as long as a server says the same to all.
    told_idle: List,
    requests: Slab<Request, 2>,
    /// Requests written, by connection and by ID or, over HTTP/2, by stream.
    by_id: HashMap<(u64, u32), Slot, foldhash::fast::FixedState>,
    waiting: List,
    lingering: List,
    actions: VecDeque<Action>,
    /// What the peers of closed connections are still to be told.
    last_words: Vec<(Slot, Vec<u8>)>,
    tls: Option<TlsClient>,
    doh: Option<Doh>,
    /// Content before its encryption or after its decryption, for the time of a call.
    content: Vec<u8>,
    numbered: u64,
    outcomes: Vec<Outcome>,
    counts: Counts,
    connection_counts: ConnectionCounts,
}

impl Connections {
    /// A machine without connections. Those over TLS need `tls`, and those over HTTPS [`Self::with_doh`].
    pub fn new(config: Config, tls: Option<TlsClient>) -> Self {
        let config = Config { policy: config.policy.bounded(), ..config };
        Self {
            policies: vec![config.policy],
            config,
            servers: Vec::new(),
            connections: Slab::default(),
            current: HashMap::default(),
            opening: List::default(),
            idle: vec![List::default()],
            told_idle: List::default(),
            requests: Slab::default(),
            by_id: HashMap::default(),
            waiting: List::default(),
            lingering: List::default(),
            actions: VecDeque::new(),
            last_words: Vec::new(),
            tls,
            doh: None,
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

    /// Takes a query whose answer over UDP was truncated. It is in the accounts of UDP as sent, and comes to its end here.
    pub fn handle_truncated(&mut self, now: RunTime, pending: Pending) {
        let route = Route {
            socket: pending.socket,
            source: pending.set_source.then_some(pending.client),
            server: pending.server,
        };
        let client = pending.client;
        let slot = self.requests.insert(Request::fallback(pending, client, route));
        self.wait(slot, now);
        self.assign(now, slot);
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// How to open a connection; `None` when it is gone.
    pub fn opening(&self, at: Slot) -> Option<Opening> {
        let connection = self.connections.get(at).filter(|connection| connection.state == State::Wanted)?;
        let server = *self.servers.get(usize::from(connection.server))?;
        Some(Opening { source: connection.source, server })
    }

    /// What is to be written before a connection is closed, as far as the kernel has room.
    pub fn take_last_words(&mut self, at: Slot) -> Option<Vec<u8>> {
        let place = self.last_words.iter().position(|(closed, _)| *closed == at)?;
        Some(self.last_words.swap_remove(place).1)
    }

    /// The number of a connection in the run; `None` when it is gone.
    pub fn number(&self, at: Slot) -> Option<u64> {
        self.connections.get(at).map(|connection| connection.number)
    }

    /// Whether the kernel is still at opening the connection.
    pub fn is_opening(&self, at: Slot) -> bool {
        self.connections.get(at).is_some_and(|connection| connection.state == State::Opening)
    }

    /// The kernel began to open a connection at `now`.
    pub fn handle_opening(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Opening;
        connection.since = now;
        self.connections.append(&mut self.opening, at);
        let mut next = self.connections.get(at).and_then(|connection| connection.queue.first());
        if let Some(opener) = next.and_then(|slot| self.requests.get_mut(slot)) {
            opener.is_opener = true;
        }
        while let Some(slot) = next {
            self.submit(slot, now);
            next = self.requests.next::<1>(slot);
        }
    }

    /// The kernel has opened a connection, from the local `port`.
    pub fn handle_opened(&mut self, at: Slot, now: RunTime, port: u16) {
        let Some(connection) = self.connections.get_mut(at).filter(|it| it.state == State::Opening) else { return };
        connection.port = port;
        let took = now - connection.since;
        let is_encrypted = connection.transport != Transport::Tcp;
        if let Some(opener) = self.opener(at) {
            opener.row.connect_ns = Some(took);
        }
        if is_encrypted {
            self.start_tls(at, now);
        } else {
            self.come_up(at, now);
        }
    }

    /// The kernel refused to open a connection: nothing of it left this host.
    pub fn handle_unopened(&mut self, at: Slot, reason: Reason) {
        self.fail(at, reason, Status::NotSent);
    }

    /// A connection did not come up.
    pub fn handle_failed(&mut self, at: Slot, reason: Reason) {
        let Some(connection) = self.connections.get(at) else { return };
        let is_up = connection.state == State::Handshaking;
        self.connection_counts.failed += 1;
        self.fail(at, reason, if is_up { Status::TlsFailed } else { Status::ConnectFailed });
    }

    /// Appends to `out` what is to be written on a connection, in a call that begins at `now`.
    pub fn compose(&mut self, at: Slot, now: RunTime, out: &mut Vec<u8>) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.is_called = false;
        connection.is_blocked = false;
        let is_open = connection.is_open();
        out.append(&mut connection.take_output());
        if connection.tls.is_some() {
            self.compose_tls(at, now, out);
        } else if is_open {
            self.compose_queue(at, now, out);
        }
        let Some(connection) = self.connections.get(at).filter(|connection| connection.is_open()) else { return };
        if !connection.queue.is_empty() {
            self.call(at);
        }
    }

    /// The kernel took all but the `rest` of what was composed, and will tell when it has room.
    pub fn handle_blocked(&mut self, at: Slot, rest: &[u8]) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.is_blocked = true;
        connection.keep_output(rest);
    }

    /// The kernel has room again.
    pub fn handle_writable(&mut self, at: Slot) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        if std::mem::take(&mut connection.is_blocked) {
            self.call(at);
        }
    }

    /// Takes octets that arrived on a connection.
    pub fn handle_input(&mut self, at: Slot, now: RunTime, octets: &[u8]) {
        let Some(connection) = self.connections.get(at) else { return };
        if connection.tls.is_some() {
            self.handle_records(at, now, octets);
        } else {
            self.handle_content(at, now, octets);
        }
    }

    /// The other side ended a connection: what it had not answered is sent again on a new one, once.
    pub fn handle_closed(&mut self, at: Slot, now: RunTime, end: End) {
        let reason = if end == End::Closed { Reason::ClosedByServer } else { Reason::ResetByServer };
        self.orphan(at, now, end, reason);
    }

    /// The same for a `reason` of its own.
    fn orphan(&mut self, at: Slot, now: RunTime, end: End, reason: Reason) {
        if self.connections.get(at).is_some_and(Connection::is_rising) {
            return self.handle_failed(at, reason);
        }
        let Some(connection) = self.remove(at, end) else { return };
        let (mut outstanding, mut queue) = (connection.outstanding, connection.queue);
        let mut orphans = VecDeque::new();
        for list in [&mut outstanding, &mut queue] {
            while let Some(slot) = list.first() {
                self.requests.unlink(list, slot);
                orphans.push_back(slot);
            }
        }
        for slot in orphans {
            self.adopt(slot, now, reason);
        }
    }

    /// Ends what is overdue at `now`.
    pub fn handle_timeout(&mut self, now: RunTime) {
        let connect_timeout = self.config.policy.connect_timeout;
        while let Some(at) = self.first_since(&self.opening, now, connect_timeout) {
            self.handle_failed(at, Reason::ConnectTimeout);
        }
        while let Some(slot) = self.overdue(&self.waiting, now) {
            self.expire(slot, now, None);
        }
        while let Some(slot) = self.overdue(&self.lingering, now) {
            self.give_up(slot);
        }
        for class in 0..self.idle.len() {
            while let Some(at) = self.first_since(&self.idle[class], now, self.policies[class].idle_timeout) {
                self.remove(at, End::Idle);
            }
        }
        while self.told_idle_ends().is_some_and(|end| end <= now) {
            self.told_idle.first().map(|at| self.remove(at, End::Idle));
        }
    }

    /// Ends all that is outstanding, for a run that is interrupted.
    pub fn handle_interrupt(&mut self, now: RunTime) {
        while let Some(slot) = self.waiting.first() {
            self.expire(slot, now, Some(Reason::Interrupted));
        }
    }

    /// When [`Self::handle_timeout`] has something to do next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let since = |list: &List, timeout: i64| Some(self.connections.get(list.first()?)?.since + timeout);
        let deadline = |list: &List| Some(self.requests.get(list.first()?)?.deadline);
        let opening = since(&self.opening, self.config.policy.connect_timeout);
        let classes = self.idle.iter().zip(&self.policies);
        let idle = classes.filter_map(|(list, policy)| since(list, policy.idle_timeout)).min();
        [opening, idle, self.told_idle_ends(), deadline(&self.waiting), deadline(&self.lingering)]
            .into_iter()
            .flatten()
            .min()
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
        let Some(at) = usable.or_else(|| self.open(key, class, &route)) else {
            return self.end_unassigned(slot, Reason::NoSource);
        };
        self.leave_idle(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.taken += 1;
        self.requests.append(&mut connection.queue, slot);
        let (is_open, is_rising) = (connection.is_open(), connection.is_rising());
        let (number, is_blocked) = (connection.number, connection.is_blocked);
        if let Some(request) = self.requests.get_mut(slot) {
            request.connection = at;
            request.row.connection = Some(number);
            request.row.reused = is_open;
        }
        if is_rising || is_blocked {
            self.submit(slot, now);
        }
        if (is_open || self.early_room(at) > 0) && !is_blocked {
            self.call(at);
        }
    }

    /// The policy of a class; that of the first for what has none.
    fn policy(&self, class: Option<u8>) -> &Policy {
        self.policies.get(place(class)).unwrap_or(&self.config.policy)
    }

    /// The connection that has been idle for longest; those that their server wants closed sooner come first.
    fn longest_idle(&self) -> Option<Slot> {
        let first = self.idle.iter().filter_map(List::first);
        let oldest = || first.min_by_key(|&at| self.connections.get(at).map(|connection| connection.since));
        self.told_idle.first().or_else(oldest)
    }

    fn has_room(&self, at: Slot) -> bool {
        self.connections.get(at).is_some_and(|connection| {
            connection.taken < self.queries_most(connection)
                && connection.load() < self.policy(connection.class).pipeline as usize
                && self.has_stream(connection)
        })
    }

    /// A new connection, which its client uses from now on. An idle one makes room where there is none.
    fn open(&mut self, key: Key, class: Option<u8>, route: &Route) -> Option<Slot> {
        if self.connections.len() >= self.config.most as usize {
            self.remove(self.longest_idle()?, End::Room);
        }
        let server = self.servers.iter().position(|&known| known == route.server).unwrap_or_else(|| {
            self.servers.push(route.server);
            self.servers.len() - 1
        });
        let number = self.config.first + self.numbered * self.config.step;
        self.numbered += 1;
        let (client, transport) = key;
        let at = self.connections.insert(Connection {
            number,
            since: RunTime(0),
            client,
            source: route.source,
            server: server as u16,
            port: 0,
            keepalive: connection::UNTOLD,
            transport,
            class,
            state: State::Wanted,
            is_called: false,
            is_blocked: false,
            id: (self.config.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16,
            taken: 0,
            queue: List::default(),
            outstanding: List::default(),
            tls: None,
            http2: None,
            buffers: None,
        });
        self.current.insert(key, at);
        self.actions.push_back(Action::Open(at));
        Some(at)
    }

    fn leave_idle(&mut self, at: Slot) {
        let class = self.connections.get(at).and_then(|connection| connection.class);
        let own = self.policy(class).idle_timeout;
        let Some(connection) = self.connections.get_mut(at).filter(|it| it.state == State::Idle) else { return };
        connection.state = State::Open;
        let is_told = connection.told(own).is_some();
        self.connections.unlink(if is_told { &mut self.told_idle } else { &mut self.idle[place(class)] }, at);
    }

    /// When the first connection ends that is idle for as long as its server said.
    fn told_idle_ends(&self) -> Option<RunTime> {
        let connection = self.connections.get(self.told_idle.first()?)?;
        Some(connection.since + connection.told(self.policy(connection.class).idle_timeout)?)
    }

    /// Tells the worker once that there is something to write.
    fn call(&mut self, at: Slot) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let may_write = connection.has_output() && !connection.is_blocked;
        if may_write && !std::mem::replace(&mut connection.is_called, true) {
            self.actions.push_back(Action::Write(at));
        }
    }

    /// The kernel has the query, or it waits for the kernel, from `now` on.
    fn submit(&mut self, slot: Slot, now: RunTime) {
        let Some(request) = self.requests.get_mut(slot) else { return };
        if request.row.submitted.is_none() {
            request.row.submitted = Some(now);
            self.counts.sent += 1;
        }
        if !request.waits {
            self.wait(slot, now);
        }
    }

    /// Puts a request on the list of those that time out.
    fn wait(&mut self, slot: Slot, now: RunTime) {
        let Some(request) = self.requests.get_mut(slot) else { return };
        request.waits = true;
        request.deadline = now + self.config.query_timeout;
        self.requests.append(&mut self.waiting, slot);
    }

    /// The request for which a connection was opened, while it waits for that.
    fn opener(&mut self, at: Slot) -> Option<&mut Request> {
        let connection = self.connections.get(at)?;
        // It has left the queue where it went as early data.
        let first = [connection.outstanding.first(), connection.queue.first()];
        let is_opener = |slot: &Slot| self.requests.get(*slot).is_some_and(|request| request.is_opener);
        let slot = first.into_iter().flatten().find(is_opener)?;
        self.requests.get_mut(slot)
    }

    /// Queries can be written on a connection from now on.
    fn come_up(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Open;
        self.connections.unlink(&mut self.opening, at);
        self.connection_counts.open();
        self.call(at);
        self.settle(at, now);
    }

    /// Takes octets of the stream of messages.
    fn handle_content(&mut self, at: Slot, now: RunTime, octets: &[u8]) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let number = connection.number;
        if connection.http2.is_some() {
            return self.handle_frames(at, number, now, octets);
        }
        let mut kept = connection.take_input();
        kept.extend_from_slice(if kept.is_empty() { &[] } else { octets });
        let mut rest = if kept.is_empty() { octets } else { kept.as_slice() };
        while let Some(message) = framing::split(&mut rest) {
            self.handle_message(at, number, now, message);
        }
        let Some(connection) = self.connections.get_mut(at) else { return };
        let done = kept.len() - if kept.is_empty() { 0 } else { rest.len() };
        let kept = if kept.is_empty() { rest.to_vec() } else { kept.split_off(done) };
        connection.keep_input(kept);
        self.settle(at, now);
    }

    /// Appends queued queries, as many as one write takes.
    fn compose_queue(&mut self, at: Slot, now: RunTime, out: &mut Vec<u8>) {
        if let Some(http2) = self.connections.get_mut(at).and_then(|connection| connection.http2.as_mut()) {
            http2.take_output(out);
        }
        while out.len() < WRITE_AT_ONCE {
            let connection = self.connections.get(at).filter(|connection| connection.takes_messages());
            let Some(slot) = connection.and_then(|connection| connection.queue.first()) else { return };
            self.compose_one(at, slot, now, out);
        }
    }

    fn compose_one(&mut self, at: Slot, slot: Slot, now: RunTime, out: &mut Vec<u8>) {
        let Some((id, length)) = self.compose_message(at, slot, out) else { return };
        let Some(connection) = self.connections.get_mut(at) else { return };
        self.requests.unlink(&mut connection.queue, slot);
        self.requests.append(&mut connection.outstanding, slot);
        let (number, port) = (connection.number, connection.port);
        let is_resumed = connection.tls.as_ref().is_some_and(|session| session.is_resumed());
        self.by_id.insert((number, id), slot);
        self.submit(slot, now);
        let Some(request) = self.requests.get_mut(slot) else { return };
        request.id = id;
        request.stage = Stage::Outstanding;
        request.row.client_port = port;
        request.row.resumed = is_resumed;
        request.row.query_bytes = length;
    }

    /// Appends a message as its transport has it, and returns the ID or stream that its answer will have, and its length.
    fn compose_message(&mut self, at: Slot, slot: Slot, out: &mut Vec<u8>) -> Option<(u32, u16)> {
        let connection = self.connections.get(at)?;
        if connection.http2.is_some() {
            return self.compose_request(at, slot, out);
        }
        let block = if connection.tls.is_some() { self.config.policy.padding } else { 0 };
        let id = self.free_id(at);
        let length = framing::append(out, &self.requests.get(slot)?.wire, id, block);
        Some((u32::from(id), length))
    }

    /// An ID free on the connection; one that only waits for a late answer is given up. There is one, since no connection
    /// has more than [`PIPELINE_MOST`] outstanding.
    fn free_id(&mut self, at: Slot) -> u16 {
        let Some((number, mut id)) = self.connections.get(at).map(|it| (it.number, it.id)) else { return 0 };
        loop {
            id = id.wrapping_add(1);
            match self.by_id.get(&(number, u32::from(id))).copied() {
                None => break,
                Some(slot) if self.requests.get(slot).is_none_or(|request| request.stage == Stage::Lingering) => {
                    self.release(slot);
                    break;
                }
                Some(_) => {}
            }
        }
        if let Some(connection) = self.connections.get_mut(at) {
            connection.id = id;
        }
        id
    }

    fn handle_message(&mut self, at: Slot, number: u64, now: RunTime, octets: &[u8]) {
        let Some(message) = Message::new(octets).filter(Message::is_response) else {
            return self.stray(at, now, octets, Reason::Garbage);
        };
        let Some(&slot) = self.by_id.get(&(number, u32::from(message.id()))) else {
            return self.stray(at, now, octets, Reason::UnknownId);
        };
        if self.requests.get(slot).is_some_and(|request| !repeats_question(&request.wire, &message)) {
            return self.stray(at, now, octets, Reason::QuestionMismatch);
        }
        self.answer(slot, now, &message);
    }

    fn answer(&mut self, slot: Slot, now: RunTime, message: &Message<'_>) {
        let Some(request) = self.release(slot) else { return };
        let status = if request.stage == Stage::Lingering { Status::Late } else { Status::Answered };
        let connection = self.connections.get_mut(request.connection).filter(|it| it.state == State::Open);
        if let (Some(connection), Some(keepalive)) = (connection, message.keepalive()) {
            connection.keepalive = keepalive;
        }
        // The two stamps are of two clocks, which may differ by some nanoseconds.
        let answered = request.row.submitted.map_or(now, |submitted| now.max(submitted));
        self.finish(Outcome {
            answered: Some(answered),
            rcode: Some(message.rcode()),
            tc: message.has(flag::TC),
            ad: message.has(flag::AD),
            aa: message.has(flag::AA),
            response_bytes: message.octets().len() as u16,
            ..request.end(status, None)
        });
    }

    fn stray(&mut self, at: Slot, now: RunTime, octets: &[u8], reason: Reason) {
        let Some(connection) = self.connections.get(at) else { return };
        let message = Message::new(octets);
        self.finish(Outcome {
            client: connection.source.unwrap_or(connection.client),
            client_port: connection.port,
            server: self.servers[usize::from(connection.server)],
            transport: connection.transport,
            connection: Some(connection.number),
            intended: now,
            answered: Some(now),
            status: Status::Stray,
            reason: Some(reason),
            rcode: message.map(|message| message.rcode()),
            response_bytes: octets.len() as u16,
            ..Outcome::EMPTY
        });
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

/// The place of a class in the tables of them.
pub(crate) fn place(class: Option<u8>) -> usize {
    usize::from(class.unwrap_or_default())
}
