//! The machine of connections over TCP: what is written and read on them. Which one carries a query, and what becomes of
//! queries whose connection ends, is in [`crate::table`].
//!
//! It owns no socket and reads no clock. The worker calls a `handle_…`, then carries out what [`Connections::poll_action`]
//! yields until there is nothing more. See the crate's documentation.

mod connection;
mod doh;
mod early;
mod encrypted;
pub mod framing;
pub mod http2;
#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_classes;
#[cfg(test)]
mod tests_doh;
#[cfg(test)]
mod tests_early;
#[cfg(test)]
mod tests_hostile;
#[cfg(test)]
mod tests_memory;
#[cfg(test)]
mod tests_tls;
pub mod tls;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ldplayer_core::{Message, Outcome, Reason, RunTime, Segments, Status, Transport};
use ldplayer_stack::tcp;

use self::connection::{Arrival, Connection, Own};
pub use self::doh::Doh;
use self::http2::{ErrorCode, STREAMS};
use self::tls::Tls;
pub use self::tls::{ALPN_DOT, TlsClient, TlsError, TlsSettings, TlsTrust};
use crate::answered::Answered;
use crate::budget::ITEM;
use crate::ids::Ids;
use crate::pending::Pending;
use crate::route::Route;
use crate::slab::Slot;
use crate::table::{self, Config, ConnectionTable, End, Key, Machine, ParkedSlot, Policy, Stage, State};

/// Limit of octets handed to the kernel at once, beyond which the next message waits for another write. Plus one message with its framing,
/// this is the maximum that a connection buffers while the kernel's buffer is full.
const WRITE_AT_ONCE: usize = 64 << 10;

/// One query in flight.
type Request = table::Request<()>;

/// An action for the worker. If the connection is gone by then, the action is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open it as [`Connections::opening`] says, and call `handle_opening` or `handle_unopened`.
    Open(Slot),
    /// It is not parked any more: take up its stream again, as the next of [`Connections::take_resumed`] says.
    Resume(Slot),
    /// Write what [`Connections::compose`] returns.
    Write(Slot),
    /// Close its socket.
    Close(Slot),
}

/// How to open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The source address, if it must be set.
    pub source: Option<IpAddr>,
    /// The server.
    pub server: SocketAddr,
    /// Whether to use Nagle's algorithm.
    pub nagle: bool,
    /// Whether to use TCP Fast Open, if the server has given a cookie.
    pub fast_open: bool,
}

/// The stream of a connection that was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The recorded address of the client whose stream it is.
    pub client: IpAddr,
    /// The server.
    pub server: SocketAddr,
    /// All else that is needed to go on with it.
    pub parked: tcp::Parked,
}

/// The machine of one worker.
pub struct Connections {
    table: ConnectionTable<Own, ()>,
    actions: VecDeque<Action>,
    /// The streams of connections that are not parked any more, one for each [`Action::Resume`].
    resumed: VecDeque<Stream>,
    /// Final messages to the peers of closed connections.
    close_notify: Vec<(Slot, Vec<u8>)>,
    tls: Option<TlsClient>,
    doh: Option<Doh>,
    /// Buffer for plaintext.
    content: Vec<u8>,
    /// The kernel's counters of the connection being read.
    segments: Option<Segments>,
    ids: Ids,
    /// Answered queries, by connection and ID.
    answered: Answered,
}

impl Connections {
    /// A machine without connections. TLS needs `tls`, and HTTPS [`Self::with_doh`].
    pub fn new(config: Config, tls: Option<TlsClient>) -> Self {
        Self {
            table: ConnectionTable::new(config),
            actions: VecDeque::new(),
            resumed: VecDeque::new(),
            close_notify: Vec::new(),
            tls,
            doh: None,
            content: Vec::new(),
            segments: None,
            ids: Ids::new(),
            answered: Answered::default(),
        }
    }

    /// Has the IDs of another machine, so that both send the same.
    #[cfg(test)]
    pub(crate) fn set_ids(&mut self, ids: Ids) {
        self.ids = ids;
    }

    /// Takes a query whose answer over UDP was truncated. The UDP accounts count it as sent; its outcome is counted here.
    pub fn handle_truncated(&mut self, now: RunTime, pending: Pending) {
        let slot = self.table.insert(Request::fallback(pending));
        self.table.wait(slot, now);
        self.assign(now, slot);
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// How to open a connection; `None` if it is gone.
    pub fn opening(&self, at: Slot) -> Option<Opening> {
        let connection = self.table.connection(at).filter(|connection| connection.state() == State::Wanted)?;
        let server = self.table.server(connection);
        let Policy { nagle, fast_open, .. } = *self.table.policy(connection.class);
        Some(Opening { source: connection.source(), server, nagle, fast_open })
    }

    /// Final data to write before a connection is closed, as far as the kernel accepts it.
    pub fn take_close_notify(&mut self, at: Slot) -> Option<Vec<u8>> {
        let place = self.close_notify.iter().position(|(closed, _)| *closed == at)?;
        Some(self.close_notify.swap_remove(place).1)
    }

    /// The number of a connection in the run; `None` if it is gone.
    pub fn number(&self, at: Slot) -> Option<u64> {
        self.table.connection(at).map(|connection| connection.number)
    }

    /// Whether there is a connection whose opening has begun.
    pub fn is_begun(&self, at: Slot) -> bool {
        self.table.connection(at).is_some_and(|connection| connection.state() != State::Wanted)
    }

    /// Whether a connection has queries that were written and not answered.
    pub fn awaits_answers(&self, at: Slot) -> bool {
        self.table.connection(at).is_some_and(Connection::awaits_answers)
    }

    /// Since when a connection is idle; `None` if it is not.
    pub fn idle_since(&self, at: Slot) -> Option<RunTime> {
        self.table.connection(at).filter(|connection| connection.state() == State::Idle).map(Connection::since)
    }

    /// The recorded address of a connection's client, and its server's.
    pub fn ends(&self, at: Slot) -> Option<(IpAddr, SocketAddr)> {
        self.table.connection(at).map(|connection| (self.table.client(connection), self.table.server(connection)))
    }

    /// Parks an idle connection whose stream has the address of its client, if that may be; returns whether it was. It comes back
    /// with [`Action::Resume`].
    pub fn park(&mut self, at: Slot, stream: tcp::Parked) -> bool {
        let id = self.table.connection(at).map(|connection| connection.own.id);
        id.is_some_and(|id| self.table.park(at, id, stream))
    }

    /// The stream of the connection of the next [`Action::Resume`].
    pub fn take_resumed(&mut self) -> Option<Stream> {
        self.resumed.pop_front()
    }

    /// Whether any connection is parked.
    pub const fn has_parked(&self) -> bool {
        self.table.parked() > 0
    }

    /// Whether the stream of any connection is to be taken up again.
    pub fn has_resumed(&self) -> bool {
        !self.resumed.is_empty()
    }

    /// Something arrives for a connection between these addresses: it is taken out of those parked, if it is one.
    pub fn wake(&mut self, client: SocketAddr, server: SocketAddr) {
        self.table.find_parked_tuple(client, server).and_then(|place| self.unpark(place));
    }

    /// Forgets a parked connection, and returns its stream; `None` if none is left.
    pub fn take_parked(&mut self) -> Option<Stream> {
        self.table.take_parked().map(|(client, server, parked)| Stream { client, server, parked })
    }

    /// Whether the kernel is still opening the connection.
    pub fn is_opening(&self, at: Slot) -> bool {
        self.table.connection(at).is_some_and(|connection| connection.state() == State::Opening)
    }

    /// The kernel began to open a connection at `now`.
    pub fn handle_opening(&mut self, at: Slot, now: RunTime) {
        self.table.begin_opening(at, now);
    }

    /// The kernel has established a connection, from the local `port`.
    pub fn handle_opened(&mut self, at: Slot, now: RunTime, port: u16) {
        let connection = self.table.connection_mut(at).filter(|it| it.state() == State::Opening);
        let Some(connection) = connection else { return };
        connection.port = port;
        let took = now - connection.since();
        let is_encrypted = connection.transport != Transport::Tcp;
        self.table.note_opener(at, |row| row.connect_ns = Some(took));
        if is_encrypted {
            self.start_tls(at, now);
        } else {
            self.come_up(at, now);
        }
    }

    /// The kernel refused to open a connection: nothing was sent.
    pub fn handle_unopened(&mut self, at: Slot, reason: Reason) {
        self.fail(at, reason, Status::NotSent);
    }

    /// Appends to `out` what to write on a connection, in a call that begins at `now`; nothing while the kernel's buffer is
    /// full.
    pub fn compose(&mut self, at: Slot, now: RunTime, out: &mut Vec<u8>) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        // An idle connection may have been called before its last query timed out.
        if connection.active().is_none() {
            return;
        }
        connection.active_mut().is_called = false;
        if connection.is_blocked() {
            return;
        }
        let is_open = connection.is_open();
        out.append(&mut connection.take_output());
        if connection.tls().is_some() {
            self.compose_tls(at, now, out);
        } else if is_open {
            self.compose_queue(at, now, 0, out);
        }
        let Some(connection) = self.table.connection(at).filter(|connection| connection.is_open()) else { return };
        if connection.queued() > 0 {
            self.call(at);
        }
    }

    /// The kernel accepted all but the `rest` of what was composed at `now`, and will signal when there is room. Queries that wait for
    /// that count as submitted at `now`.
    pub fn handle_blocked(&mut self, at: Slot, now: RunTime, rest: &[u8]) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        connection.active_mut().is_blocked = true;
        connection.keep_output(rest);
        let mut next = connection.first_queued();
        while let Some(slot) = next {
            self.table.submit(slot, now);
            next = self.table.next(slot);
        }
    }

    /// The kernel has room again.
    pub fn handle_writable(&mut self, at: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        if connection.is_blocked() {
            connection.active_mut().is_blocked = false;
            self.call(at);
        }
    }

    /// Handles octets received on a connection, with the kernel's counters if requested.
    pub fn handle_counted(&mut self, at: Slot, now: RunTime, octets: &[u8], segments: Option<Segments>) {
        self.segments = segments;
        self.handle_input(at, now, octets);
        self.segments = None;
    }

    /// Handles octets received on a connection.
    pub fn handle_input(&mut self, at: Slot, now: RunTime, octets: &[u8]) {
        let Some(connection) = self.table.connection(at) else { return };
        if connection.tls().is_some() {
            self.handle_records(at, now, octets);
        } else {
            self.handle_content(at, now, octets);
        }
    }

    /// The peer closed a connection: unanswered queries are retried once on a new one.
    pub fn handle_closed(&mut self, at: Slot, now: RunTime, end: End) {
        let reason = if end == End::Closed { Reason::ClosedByServer } else { Reason::ResetByServer };
        self.break_down(at, now, end, reason);
    }

    /// The same with a specific `reason`.
    fn break_down(&mut self, at: Slot, now: RunTime, end: End, reason: Reason) {
        if self.table.connection(at).is_some_and(Connection::is_connecting) {
            self.handle_failed(at, reason);
        } else {
            self.requeue_all(at, now, end, reason);
        }
    }

    /// Charges the server of a connection for this many useless octets. Returns whether that ends the connection.
    fn charge(&mut self, at: Slot, now: RunTime, cost: u32) -> bool {
        if cost == 0 {
            return false;
        }
        let Some(connection) = self.table.connection_mut(at) else { return true };
        let queries = (connection.taken(), connection.allowed_each());
        let is_flooded = connection.active_mut().budget.spend(cost, queries, now);
        if is_flooded {
            self.announce_close(at, ErrorCode::EnhanceYourCalm);
            self.break_down(at, now, End::Flooded, Reason::Flooded);
        }
        is_flooded
    }

    /// Tells the worker once that there is something to write.
    fn call(&mut self, at: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let may_write = connection.has_output() && !connection.is_blocked();
        if may_write && !std::mem::replace(&mut connection.active_mut().is_called, true) {
            self.actions.push_back(Action::Write(at));
        }
    }

    /// Queries can now be written on a connection.
    fn come_up(&mut self, at: Slot, now: RunTime) {
        self.table.come_up(at);
        self.call(at);
        self.settle(at, now);
    }

    /// Handles octets of the message stream.
    fn handle_content(&mut self, at: Slot, now: RunTime, octets: &[u8]) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let number = connection.number;
        if connection.http2().is_some() {
            return self.handle_frames(at, number, now, octets);
        }
        let (mut kept, mut arrival) = connection.take_input(now);
        kept.extend_from_slice(if kept.is_empty() { &[] } else { octets });
        let mut rest = if kept.is_empty() { octets } else { kept.as_slice() };
        while let Some(message) = framing::split(&mut rest) {
            if !self.handle_message(at, number, arrival, message) {
                return;
            }
            arrival = Arrival { since: now, now, length_apart: false };
        }
        let Some(connection) = self.table.connection_mut(at) else { return };
        let done = kept.len() - if kept.is_empty() { 0 } else { rest.len() };
        let kept = if kept.is_empty() { rest.to_vec() } else { kept.split_off(done) };
        connection.keep_input(kept, arrival);
        self.settle(at, now);
    }

    /// Appends queued queries, as many as fit into one write with the `waiting` octets.
    fn compose_queue(&mut self, at: Slot, now: RunTime, waiting: usize, out: &mut Vec<u8>) {
        let room = WRITE_AT_ONCE.saturating_sub(waiting);
        if out.len() >= room {
            return;
        }
        if let Some(http2) = self.table.connection_mut(at).and_then(Connection::http2_mut) {
            http2.take_output(out);
        }
        let mut beside = 0;
        while out.len() + beside < room {
            let connection = self.table.connection(at).filter(|connection| connection.takes_messages());
            let Some(slot) = connection.and_then(|connection| connection.first_queued()) else { return };
            beside += connection.map_or(0, Connection::octets_beside);
            self.compose_one(at, slot, now, out);
        }
    }

    fn compose_one(&mut self, at: Slot, slot: Slot, now: RunTime, out: &mut Vec<u8>) {
        let Some((id, length)) = self.compose_message(at, slot, out) else { return };
        self.table.write(at, slot, id);
        self.table.submit(slot, now);
        let Some((connection, request)) = self.table.pair_mut(at, slot) else { return };
        request.row.client_port = connection.port;
        request.row.resumed = connection.tls().is_some_and(Tls::is_resumed);
        request.row.query_bytes = length;
    }

    /// Appends a message in the framing of its transport, and returns the ID or stream of its answer, and its length.
    fn compose_message(&mut self, at: Slot, slot: Slot, out: &mut Vec<u8>) -> Option<(u64, u16)> {
        let connection = self.table.connection(at)?;
        if connection.http2().is_some() {
            return self.compose_request(at, slot, out);
        }
        let block = if connection.tls().is_some() { self.table.policy(connection.class).padding } else { 0 };
        let id = self.free_id(at);
        let length = framing::append(out, &self.table.request(slot)?.wire, self.ids.hide(id), block);
        Some((u64::from(id), length))
    }

    /// A free ID of the connection; one that only waits for a late answer is reused. There is one, since no connection
    /// has more than [`ldplayer_core::policy::MAX_PIPELINE`] outstanding queries.
    fn free_id(&mut self, at: Slot) -> u16 {
        let Some((number, mut id)) = self.table.connection(at).map(|it| (it.number, it.own.id)) else { return 0 };
        loop {
            id = id.wrapping_add(1);
            match self.table.find(number, u64::from(id)) {
                None => break,
                Some(slot) if self.table.request(slot).is_none_or(|request| request.stage == Stage::Lingering) => {
                    self.release(slot);
                    break;
                }
                Some(_) => {}
            }
        }
        if let Some(connection) = self.table.connection_mut(at) {
            connection.own.id = id;
        }
        id
    }

    /// Handles a message. Returns whether the connection goes on.
    fn handle_message(&mut self, at: Slot, number: u64, arrival: Arrival, octets: &[u8]) -> bool {
        let now = arrival.now;
        let Some(message) = Message::new(octets).filter(Message::is_response) else {
            return self.stray(at, now, octets, Reason::Garbage);
        };
        let id = u64::from(self.ids.reveal(message.id()));
        let key = number << 16 | id;
        let Some(slot) = self.table.find(number, id) else {
            let reason = if self.answered.has(key) { Reason::Duplicate } else { Reason::UnknownId };
            return self.stray(at, now, octets, reason);
        };
        if !self.table.is_of(slot, &message) {
            return self.stray(at, now, octets, Reason::QuestionMismatch);
        }
        self.table.note_octets(slot, arrival.since);
        self.note_delivery(slot, arrival.length_apart);
        self.answered.note(key);
        if message.question().is_some_and(|question| framing::TRANSFERS.contains(&question.qtype))
            && let Some(connection) = self.table.connection_mut(at)
        {
            connection.active_mut().budget.allow_transfer();
        }
        self.answer(slot, now, &message);
        true
    }

    /// Notes the pieces in which a response arrived; for the first query of a connection also the kernel's counters, since later queries
    /// cannot be told apart in them.
    fn note_delivery(&mut self, slot: Slot, length_apart: bool) {
        let segments = self.segments;
        let Some(request) = self.table.request_mut(slot) else { return };
        request.row.length_apart = length_apart;
        if request.row.transport == Transport::Tcp && request.row.connect_ns.is_some() {
            request.row.segments = segments;
        }
    }

    /// A message belongs to no query. Returns whether its connection goes on.
    fn stray(&mut self, at: Slot, now: RunTime, octets: &[u8], reason: Reason) -> bool {
        let Some(connection) = self.table.connection(at) else { return false };
        let row = Outcome {
            client: self.table.client(connection),
            client_port: connection.port,
            server: self.table.server(connection),
            transport: connection.transport,
            connection: Some(connection.number),
            intended: now,
            answered: Some(now),
            response_bytes: octets.len() as u16,
            ..Outcome::EMPTY
        };
        let row = match Message::new(octets) {
            Some(message) => row.with_response(&message),
            None => row,
        };
        self.table.finish_stray(reason, row);
        !self.charge(at, now, ITEM + octets.len() as u32)
    }
}

impl Machine for Connections {
    type Connection = Own;
    type Request = ();

    fn table(&self) -> &ConnectionTable<Own, ()> {
        &self.table
    }

    fn table_mut(&mut self) -> &mut ConnectionTable<Own, ()> {
        &mut self.table
    }

    fn open(&mut self, now: RunTime, key: Key, class: Option<u8>, route: &Route) -> Result<Slot, Reason> {
        let spread = self.table.next_number().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let own = Own::new((self.table.seed() ^ spread >> 48) as u16);
        let at = self.table.open(now, key, class, route.source, own);
        self.actions.push_back(Action::Open(at));
        Ok(at)
    }

    fn unpark(&mut self, parked: ParkedSlot) -> Option<Slot> {
        let (at, stream) = self.table.unpark(parked, Own::new);
        let (client, server) = self.ends(at)?;
        self.resumed.push_back(Stream { client, server, parked: stream });
        self.actions.push_back(Action::Resume(at));
        Some(at)
    }

    fn detach(&mut self, at: Slot, ended: Option<(RunTime, End)>) -> Option<Connection> {
        let is_left = |it: &Connection| it.is_leaving() && it.load() == 0;
        let by_client = matches!(ended, Some((_, End::Idle | End::Spent | End::Room)));
        if by_client || self.table.connection(at).is_some_and(is_left) {
            self.announce_close(at, ErrorCode::NoError);
        }
        let connection = self.table.take(at)?;
        self.actions.push_back(Action::Close(at));
        Some(connection)
    }

    fn handle_queued(&mut self, at: Slot, slot: Slot, now: RunTime) {
        let Some(connection) = self.table.connection(at) else { return };
        let (is_open, is_blocked) = (connection.is_open(), connection.is_blocked());
        if connection.is_connecting() || is_blocked {
            self.table.submit(slot, now);
        }
        if (is_open || self.early_room(at) > 0) && !is_blocked {
            self.call(at);
        }
    }

    fn handle_finished(&mut self, at: Slot, _: RunTime, answer: Option<&Message<'_>>) {
        let Some(connection) = self.table.connection_mut(at).filter(|it| it.state() == State::Open) else { return };
        let Some(answer) = answer else { return };
        if let Some(keepalive) = answer.keepalive() {
            connection.own.keepalive = keepalive;
        }
        if connection.active().is_some() {
            let each = connection.allowed_each();
            connection.active_mut().budget.answer(answer.octets().len(), each);
        }
    }

    fn has_stream(&self, connection: &Connection) -> bool {
        match (connection.http2(), &self.doh) {
            (Some(http2), _) => http2.room() > connection.queued(),
            (None, Some(doh)) if connection.transport == Transport::Doh2 => connection.queued() < doh.streams(),
            _ => true,
        }
    }

    fn max_queries(&self, connection: &Connection) -> u32 {
        let most = self.table.policy(connection.class).queries_per_connection;
        if connection.transport == Transport::Doh2 { most.min(STREAMS) } else { most }
    }

    fn give_up(&mut self, slot: Slot) {
        let Some(request) = self.release(slot) else { return };
        let http2 = self.table.connection_of(&request).and_then(Connection::http2_mut);
        if http2.is_some_and(|http2| request.id.is_some_and(|stream| http2.cancel(stream as u32))) {
            self.call(request.connection);
        }
    }
}
