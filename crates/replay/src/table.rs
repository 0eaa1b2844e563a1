//! The connection table: requests and connections of a machine, the same for all transports with connections.
//! [`ConnectionTable`] holds both, and [`Machine`] says what becomes of them.
//!
//! ```text
//!   assign ──► queued ──write──► written ──answer──► row
//!                ▲                  │ expire: row, and then lingering until a late answer or give_up
//!                └── requeue, once ─┘ when the connection ends
//!
//!   open ──► Wanted ──► Opening ──► Handshaking ──► Open ◄──► Idle ──► taken out
//!                                                             ▲ └─ park ──► parked ─┐
//!                                                             └────── unpark ◄──────┘
//! ```

mod clients;
mod connection;
mod counts;
mod machine;
mod parked;
mod request;
mod servers;
#[cfg(test)]
mod tests;
mod timeouts;

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hashbrown::HashMap;
pub use ldplayer_core::Policy;
use ldplayer_core::{Expected, Message, Outcome, Reason, RunTime, Status, Transport};

use self::clients::Clients;
use self::connection::Active;
pub use self::connection::{Connection, State, Terms};
pub use self::counts::ConnectionCounts;
pub use self::machine::Machine;
use self::parked::Parked;
pub use self::parked::ParkedSlot;
pub use self::request::Request;
use self::servers::Servers;
use crate::counts::Counts;
use crate::matching::repeats_question;
use crate::response_sink::ResponseSink;
use crate::slab::{List, Slab, Slot};
pub use crate::stage::Stage;
use crate::strays::Strays;

/// Active parts of connections that are kept to be used again: some megabytes at most.
const SPARE: usize = 1 << 14;

/// Settings of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The connection policy.
    pub policy: Policy,
    /// Query timeout, in nanoseconds.
    pub query_timeout: i64,
    /// How much longer a late answer is recognised, in nanoseconds.
    pub linger: i64,
    /// Maximum number of concurrent connections; an idle one makes room for a new one.
    pub most: u32,
    /// The first ID.
    pub seed: u64,
    /// Number of the first connection …
    pub first: u64,
    /// … and the increment, so that workers use different numbers.
    pub step: u64,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Closed by the client because idle.
    Idle,
    /// Closed by the client after its last query.
    Spent,
    /// Closed by the client to make room for another.
    Room,
    /// Closed by the server in order.
    Closed,
    /// Ended by the server or the network, with a reset or an error.
    Reset,
    /// Closed by the client since the server sent too much that is of no use.
    Flooded,
}

/// A client class: its policy, and its connections with deadlines.
#[derive(Debug)]
struct Class {
    policy: Policy,
    /// Connections without an answer from the server yet.
    opening: List,
    /// Connections in a handshake.
    handshaking: List,
    /// Idle connections that the client will close after its own timeout.
    idle: List,
}

impl Class {
    fn new(policy: Policy) -> Self {
        Self { policy, opening: List::default(), handshaking: List::default(), idle: List::default() }
    }
}

/// Identifies a connection by client, transport and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The client as recorded.
    pub client: IpAddr,
    /// The transport.
    pub transport: Transport,
    /// The number of the server.
    pub server: u32,
}

/// The requests and connections of a machine, to which it adds `R` and `C`.
///
/// Invariants between calls:
///
/// - A request is on at most one list of its connection: the queued or the written ones.
/// - Exactly the written requests are found by their connection's number and their ID or stream.
/// - A waiting request is on the timeout list, which is sorted by deadline, since all have the same timeout.
/// - A connection that is opening, in a handshake or idle is on the list of its state, sorted by when the state began.
///   So the result of [`Terms::server_idle_timeout`] must not change while a connection is idle.
/// - Each client has at most one connection per server and transport that it uses next: the current one, which is in the table, or one that is
///   parked.
#[derive(Debug)]
pub struct ConnectionTable<C: Terms, R> {
    /// The settings.
    config: Config,
    /// The client classes; a single one if there are none.
    classes: Vec<Class>,
    /// The connections.
    connections: Slab<Connection<C>>,
    /// Active parts to be used again, so that a query on an idle connection allocates nothing.
    #[allow(clippy::vec_box, reason = "they go back into connections as boxes, without allocating")]
    spare: Vec<Box<Active<C::Active>>>,
    /// The servers, by number.
    servers: Servers,
    /// The current connection of each client to each server.
    current: Clients,
    /// Idle connections that are in short.
    parked: Parked,
    /// Idle connections that the client closes earlier because the server said so. Sorted as long as a server
    /// says the same to all clients.
    server_idle: List,
    /// The requests.
    requests: Slab<Request<R>, 2>,
    /// Written requests, by connection and by ID or stream.
    by_id: HashMap<(u64, u64), Slot, foldhash::fast::FixedState>,
    waiting: List,
    lingering: List,
    /// Number of connections with two or more written requests.
    crowded: usize,
    numbered: u64,
    outcomes: Vec<Outcome>,
    counts: Counts,
    strays: Strays,
    /// How responses are handled.
    pub sink: ResponseSink,
    /// Connection counters.
    connection_counts: ConnectionCounts,
}

impl<C: Terms, R: Default> ConnectionTable<C, R> {
    /// An empty table.
    pub fn new(config: Config) -> Self {
        let config = Config { policy: config.policy.bounded(), ..config };
        Self {
            classes: vec![Class::new(config.policy)],
            config,
            connections: Slab::default(),
            spare: Vec::new(),
            servers: Servers::default(),
            current: Clients::default(),
            parked: Parked::default(),
            server_idle: List::default(),
            requests: Slab::default(),
            by_id: HashMap::default(),
            waiting: List::default(),
            lingering: List::default(),
            crowded: 0,
            numbered: 0,
            outcomes: Vec::new(),
            counts: Counts::default(),
            strays: Strays::default(),
            sink: ResponseSink::default(),
            connection_counts: ConnectionCounts::default(),
        }
    }

    /// The connection in a slot.
    pub fn connection(&self, at: Slot) -> Option<&Connection<C>> {
        self.connections.get(at)
    }

    /// The connection in a slot, mutable.
    pub fn connection_mut(&mut self, at: Slot) -> Option<&mut Connection<C>> {
        self.connections.get_mut(at)
    }

    /// The request in a slot.
    pub fn request(&self, slot: Slot) -> Option<&Request<R>> {
        self.requests.get(slot)
    }

    /// The request in a slot, mutable.
    pub fn request_mut(&mut self, slot: Slot) -> Option<&mut Request<R>> {
        self.requests.get_mut(slot)
    }

    /// A connection and a request, both mutable.
    pub fn pair_mut(&mut self, at: Slot, slot: Slot) -> Option<(&mut Connection<C>, &mut Request<R>)> {
        Some((self.connections.get_mut(at)?, self.requests.get_mut(slot)?))
    }

    /// Adds a request, without a connection.
    pub fn insert(&mut self, request: Request<R>) -> Slot {
        self.requests.insert(request)
    }

    /// The next request on the list of its connection.
    pub fn next(&self, slot: Slot) -> Option<Slot> {
        self.requests.next::<1>(slot)
    }

    /// Detaches an unwritten request from its connection, which may have been replaced in its slot.
    pub fn detach_queued(&mut self, at: Slot, slot: Slot) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.taken -= 1;
        unlink_queued(&mut self.requests, connection, slot);
        if let Some(request) = self.requests.get_mut(slot) {
            request.leave_connection();
        }
    }

    /// Detaches a written request from its connection. It keeps its ID or stream until it is released or requeued.
    pub fn detach_written(&mut self, at: Slot, slot: Slot) {
        self.unlink_written(at, slot);
    }

    fn unlink_written(&mut self, at: Slot, slot: Slot) {
        let connection = self.connections.get_mut(at);
        let Some(active) = connection.and_then(|connection| connection.active.as_mut()) else { return };
        self.requests.unlink(&mut active.outstanding, slot);
        self.crowded -= usize::from(active.outstanding.len() == 1);
    }

    /// Whether a connection expects several answers, which may be read together.
    pub const fn is_crowded_any(&self) -> bool {
        self.crowded > 0
    }

    /// The server of a connection.
    pub fn server(&self, connection: &Connection<C>) -> SocketAddr {
        self.servers.address(connection.server)
    }

    /// The client of a connection, as recorded.
    pub fn client(&self, connection: &Connection<C>) -> IpAddr {
        self.current.address(connection.client)
    }

    /// Who uses a connection, and for what.
    pub fn key(&self, connection: &Connection<C>) -> Key {
        Key { client: self.client(connection), transport: connection.transport, server: connection.server }
    }

    /// The seed of the machine's random choices.
    pub const fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Counts a resumed connection, if it was resumed.
    pub fn note_resumed(&mut self, is_resumed: bool) {
        self.connection_counts.resumed += u64::from(is_resumed);
    }

    /// Counts a failed connection.
    pub const fn note_failed(&mut self) {
        self.connection_counts.failed += 1;
    }

    /// Restores the connection counters.
    pub const fn set_connection_counts(&mut self, counts: ConnectionCounts) {
        self.connection_counts = counts;
    }

    /// Requests in the table, including those that wait for a late answer.
    #[cfg(test)]
    pub const fn request_count(&self) -> usize {
        self.requests.len()
    }

    /// Whether no ID or stream is in use and no client has a connection.
    #[cfg(test)]
    pub fn is_clear(&self) -> bool {
        self.by_id.is_empty() && self.current.is_empty()
    }

    /// Parked connections.
    pub const fn parked(&self) -> usize {
        self.parked.len()
    }

    /// The current connection of a client.
    fn current(&self, key: &Key) -> Option<Slot> {
        self.current.get(key, &self.connections)
    }

    /// The policy of a class; the first one if there is no such class.
    pub fn policy(&self, class: Option<u8>) -> &Policy {
        self.classes.get(place(class)).map_or(&self.config.policy, |class| &class.policy)
    }

    /// The number of the next connection.
    pub const fn next_number(&self) -> u64 {
        self.config.first + self.numbered * self.config.step
    }

    /// Adds a connection and makes it its client's current one.
    pub fn open(&mut self, now: RunTime, key: Key, class: Option<u8>, source: Option<IpAddr>, own: C) -> Slot {
        let number = self.next_number();
        self.numbered += 1;
        let Key { client, transport, server } = key;
        let mut active = self.spare.pop().unwrap_or_default();
        active.source = source;
        let at = self.connections.insert(Connection {
            number,
            since: now,
            client: self.current.acquire(client),
            port: 0,
            transport,
            server,
            class,
            state: State::Wanted,
            taken: 0,
            active: Some(active),
            own,
        });
        self.current.set(at, &self.connections);
        at
    }

    /// A connection begins to open, from its port if known; the timeouts of requests waiting for it begin, too.
    pub fn begin_opening(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Opening;
        connection.since = now;
        let (port, class) = (connection.port, place(connection.class));
        // Early data is already outstanding.
        let lists = [connection.first_written(), connection.first_queued()];
        self.connections.append(&mut self.classes[class].opening, at);
        if let Some(opener) = lists.into_iter().flatten().next().and_then(|slot| self.requests.get_mut(slot)) {
            opener.is_opener = true;
        }
        for mut next in lists {
            while let Some(slot) = next {
                if let Some(request) = self.requests.get_mut(slot).filter(|_| port != 0) {
                    request.row.client_port = port;
                }
                self.submit(slot, now);
                next = self.requests.next::<1>(slot);
            }
        }
    }

    /// Updates the row of the request for which a connection was opened, while that waits.
    pub fn note_opener(&mut self, at: Slot, note: impl Fn(&mut Outcome)) {
        let Some(connection) = self.connections.get(at) else { return };
        let first = [connection.first_written(), connection.first_queued()];
        for slot in first.into_iter().flatten() {
            if let Some(request) = self.requests.get_mut(slot).filter(|request| request.is_opener) {
                note(&mut request.row);
            }
        }
    }

    /// Requests outstanding on a newly established connection were accepted as early data.
    pub fn note_early_data(&mut self, at: Slot, is_resumed: bool) {
        let mut next = self.connections.get(at).and_then(Connection::first_written);
        while let Some(request) = next.and_then(|slot| self.requests.get_mut(slot)) {
            (request.row.early_data, request.row.resumed) = (true, is_resumed);
            next = next.and_then(|slot| self.requests.next::<1>(slot));
        }
    }

    /// Queries can now be written on a connection.
    pub fn come_up(&mut self, at: Slot) {
        self.leave_connecting(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Open;
        self.connection_counts.open();
    }

    /// Queues a request on a connection.
    fn queue(&mut self, at: Slot, slot: Slot) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.taken += 1;
        let active = connection.active.get_or_insert_with(|| self.spare.pop().unwrap_or_default());
        self.requests.append(&mut active.queue, slot);
        if let Some(request) = self.requests.get_mut(slot) {
            request.connection = at;
            request.row.connection = Some(connection.number);
            request.row.reused = connection.is_open();
        }
    }

    /// A request is submitted at `now`: it is handed to the kernel, or waits for its connection.
    pub fn submit(&mut self, slot: Slot, now: RunTime) {
        let Some(request) = self.requests.get_mut(slot) else { return };
        if request.row.submitted.is_none() {
            request.row.submitted = Some(now);
            self.counts.sent += u64::from(request.expected.is_counted());
            self.sink.note_sent(&request.expected, now);
        }
        if !request.waits {
            self.wait(slot, now);
        }
    }

    /// Adds a request to the timeout list.
    pub fn wait(&mut self, slot: Slot, now: RunTime) {
        let Some(request) = self.requests.get_mut(slot) else { return };
        request.waits = true;
        request.deadline = now + self.config.query_timeout;
        self.requests.append(&mut self.waiting, slot);
    }

    /// A request was written on its connection, under an ID or on a stream.
    pub fn write(&mut self, at: Slot, slot: Slot, id: u64) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(active) = &mut connection.active else { return };
        self.requests.unlink(&mut active.queue, slot);
        self.requests.append(&mut active.outstanding, slot);
        self.crowded += usize::from(active.outstanding.len() == 2);
        self.by_id.insert((connection.number, id), slot);
        if let Some(request) = self.requests.get_mut(slot) {
            request.id = Some(id);
            request.stage = Stage::Outstanding;
        }
    }

    /// Everything written on a connection must be written again, before the queued requests.
    pub fn unwrite_all(&mut self, at: Slot) {
        let connection = self.connections.get_mut(at);
        let Some(active) = connection.and_then(|connection| connection.active.as_mut()) else { return };
        self.crowded -= usize::from(active.outstanding.len() >= 2);
        let mut lists = [std::mem::take(&mut active.outstanding), std::mem::take(&mut active.queue)];
        for list in &mut lists {
            while let Some(slot) = list.first() {
                self.requests.unlink(list, slot);
                self.requests.append(&mut active.queue, slot);
                if let Some(request) = self.requests.get_mut(slot) {
                    request.written().and_then(|key| self.by_id.remove(&key));
                    request.rewind();
                }
            }
        }
    }

    /// Forgets the IDs or streams of a connection: requests written under them are no longer found.
    pub fn forget_ids(&mut self, number: u64) {
        for (_, slot) in self.by_id.extract_if(|key, _| key.0 == number) {
            if let Some(request) = self.requests.get_mut(slot) {
                request.id = None;
            }
        }
    }

    /// The request written on a connection under an ID or on a stream.
    pub fn find(&self, number: u64, id: u64) -> Option<Slot> {
        self.by_id.get(&(number, id)).copied()
    }

    /// The same for the current connection in a slot.
    pub fn find_on(&self, at: Slot, id: u64) -> Option<Slot> {
        self.find(self.connections.get(at)?.number, id)
    }

    /// Octets of an answer arrived at `now`; the first ones set its time.
    pub fn note_octets(&mut self, slot: Slot, now: RunTime) {
        if let Some(request) = self.requests.get_mut(slot) {
            request.row.first_byte.get_or_insert(now);
        }
    }

    /// The connection of a request, if it still exists.
    pub fn connection_of(&mut self, request: &Request<R>) -> Option<&mut Connection<C>> {
        let connection = self.connections.get_mut(request.connection);
        connection.filter(|connection| Some(connection.number) == request.row.connection)
    }

    /// The response in `octets` on the stream of a request, whose ID is irrelevant.
    ///
    /// # Errors
    /// Why it is not a response to the request.
    pub fn check<'a>(&self, slot: Slot, octets: &'a [u8]) -> Result<Message<'a>, Reason> {
        let message = Message::new(octets).filter(Message::is_response).ok_or(Reason::Garbage)?;
        if self.is_of(slot, &message) { Ok(message) } else { Err(Reason::QuestionMismatch) }
    }

    /// Whether a response repeats the question of a request.
    pub fn is_of(&self, slot: Slot, message: &Message<'_>) -> bool {
        self.requests.get(slot).is_some_and(|request| repeats_question(&request.wire, message))
    }

    /// Takes a request off its lists, and frees its ID or stream and its slot.
    pub fn release(&mut self, slot: Slot) -> Option<Request<R>> {
        let request = self.requests.get(slot)?;
        let (stage, at) = (request.stage, request.connection);
        if request.waits {
            self.requests.unlink(&mut self.waiting, slot);
        }
        match (stage, self.connections.get_mut(at)) {
            (Stage::Queued, Some(connection)) => unlink_queued(&mut self.requests, connection, slot),
            (Stage::Outstanding, Some(_)) => self.unlink_written(at, slot),
            (Stage::Lingering, _) => self.requests.unlink(&mut self.lingering, slot),
            (_, None) => {}
        }
        self.forget(slot)
    }

    fn forget(&mut self, slot: Slot) -> Option<Request<R>> {
        let request = self.requests.remove(slot)?;
        request.written().and_then(|key| self.by_id.remove(&key));
        Some(request)
    }

    /// Ends a request that is on no list of a connection.
    fn end(&mut self, slot: Slot, status: Status, reason: Reason) {
        if self.requests.get(slot).is_some_and(|request| request.waits) {
            self.requests.unlink(&mut self.waiting, slot);
        }
        if let Some(request) = self.forget(slot) {
            self.finish_unanswered(&request, status, Some(reason));
        }
    }

    /// Ends a request without an answer. One that has been sent cannot end as not sent.
    fn end_unanswered(&mut self, slot: Slot, status: Status, reason: Reason) {
        let was_sent = self.requests.get(slot).is_some_and(|request| request.row.submitted.is_some());
        let was_lost = was_sent && status == Status::NotSent;
        self.end(slot, if was_lost { Status::ConnectFailed } else { status }, reason);
    }

    /// Records the row of a request answered at `now`.
    pub fn finish_answered(&mut self, request: &Request<R>, now: RunTime, message: &Message<'_>) {
        let row = request.answered(now, message);
        self.finish_judged(row, &request.wire, &request.expected, Some(message));
    }

    /// Records the row of a request that ended without an answer.
    pub fn finish_unanswered(&mut self, request: &Request<R>, status: Status, reason: Option<Reason>) {
        self.finish_judged(request.end(status, reason), &request.wire, &request.expected, None);
    }

    /// Records a row whose response is compared and kept. Queries to a reference server and attempts of lookups are not counted.
    fn finish_judged(&mut self, row: Outcome, wire: &Bytes, expected: &Expected, response: Option<&Message<'_>>) {
        if expected.is_counted() {
            self.counts.add(row.status);
        }
        let judged = self.sink.judge(row, wire, expected, response);
        self.outcomes.extend(judged);
    }

    /// Records a response that belongs to no query, for this reason.
    pub fn finish_stray(&mut self, reason: Reason, outcome: Outcome) {
        self.counts.add(Status::Stray);
        if self.strays.add(reason, self.counts.sent) {
            self.outcomes.push(Outcome { status: Status::Stray, reason: Some(reason), ..outcome });
        }
    }

    /// Responses that belong to no query.
    pub const fn strays(&self) -> &Strays {
        &self.strays
    }

    /// Removes a connection from its lists and frees its slot.
    pub fn take(&mut self, at: Slot) -> Option<Connection<C>> {
        self.leave_idle(at);
        self.leave_connecting(at);
        self.current.forget(at, &self.connections);
        let mut connection = self.connections.remove(at)?;
        self.current.release(connection.client);
        self.crowded -= usize::from(connection.written() >= 2);
        if connection.load() == 0 {
            let active = connection.take_dispensable();
            self.keep(active);
        }
        Some(connection)
    }

    /// Keeps an active part that a connection can do without.
    fn keep(&mut self, active: Option<Box<Active<C::Active>>>) {
        let room = self.spare.len() < SPARE;
        self.spare.extend(active.filter(|_| room).map(|mut active| {
            *active = Active::default();
            active
        }));
    }
}

/// Takes a request that is not written off the list of its connection.
fn unlink_queued<C: Terms, R>(requests: &mut Slab<Request<R>, 2>, connection: &mut Connection<C>, slot: Slot) {
    if let Some(active) = &mut connection.active {
        requests.unlink(&mut active.queue, slot);
    }
}

/// The index of a class in tables.
pub fn place(class: Option<u8>) -> usize {
    usize::from(class.unwrap_or_default())
}
