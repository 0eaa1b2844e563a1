//! What becomes of requests and connections, whatever is spoken: which connection carries a query, when one is opened and
//! closed, and what happens to the queries of one that ends.

use ldplayer_core::message::HEADER;
use ldplayer_core::{Message, Outcome, Query, Reason, RunTime, Status};

use super::{
    Class, Connection, ConnectionCounts, ConnectionTable, End, Key, ParkedSlot, Policy, Request, Stage, State, Terms,
    unlink_queued,
};
use crate::counts::Counts;
use crate::route::Route;
use crate::slab::Slot;

/// Connections that a query is given to at most because servers leave one after the other without looking at it.
const MOVES_MOST: u8 = 8;

/// A connection of a machine.
type ConnectionOf<M> = Connection<<M as Machine>::Connection>;
/// A request of a machine.
type RequestOf<M> = Request<<M as Machine>::Request>;

/// A machine of connections: what it does in its own way, and what all do alike.
pub trait Machine: Sized {
    /// What it adds to a connection.
    type Connection: Terms;
    /// What it adds to a request.
    type Request: Default;

    /// The requests and connections.
    fn table(&self) -> &ConnectionTable<Self::Connection, Self::Request>;

    /// The requests and connections, to be changed.
    fn table_mut(&mut self) -> &mut ConnectionTable<Self::Connection, Self::Request>;

    /// A new connection, which its client uses from now on.
    ///
    /// # Errors
    /// Why there can be none.
    fn open(&mut self, now: RunTime, key: Key, class: Option<u8>, route: &Route) -> Result<Slot, Reason>;

    /// Puts a parked connection back into the table; `None` if this machine parks none.
    fn unpark(&mut self, _: ParkedSlot) -> Option<Slot> {
        None
    }

    /// Takes a connection out of everything and sees to its closing. `ended`: when and how it ended; `None` if it was never established.
    fn detach(&mut self, at: Slot, ended: Option<(RunTime, End)>) -> Option<ConnectionOf<Self>>;

    /// A request has been put on the queue of a connection.
    fn handle_queued(&mut self, at: Slot, slot: Slot, now: RunTime);

    /// A request of a connection has come to its end, by this answer if there is one.
    fn handle_finished(&mut self, at: Slot, now: RunTime, answer: Option<&Message<'_>>);

    /// Whether server and protocol allow one more query on a connection.
    fn has_stream(&self, connection: &ConnectionOf<Self>) -> bool;

    /// Queries after which a connection is used no more.
    fn max_queries(&self, connection: &ConnectionOf<Self>) -> u32 {
        self.table().policy(connection.class).queries_per_connection
    }

    /// Takes a request off its lists and frees its ID or stream, and its slot.
    fn release(&mut self, slot: Slot) -> Option<RequestOf<Self>> {
        self.table_mut().release(slot)
    }

    /// Forgets a query that has timed out long ago, and lets the server do so.
    fn give_up(&mut self, slot: Slot);

    /// The same machine with a policy for each class of clients; none leaves all with the one that there is.
    fn with_classes(mut self, classes: &[Policy]) -> Self {
        if !classes.is_empty() {
            let table = self.table_mut();
            table.classes = classes.iter().map(|policy| Class::new(policy.bounded())).collect();
        }
        self
    }

    /// Takes a query that is due.
    fn handle_query(&mut self, now: RunTime, query: Query, route: Route) {
        let table = self.table_mut();
        table.counts.taken += u64::from(query.expected.is_counted());
        if !(HEADER..=usize::from(u16::MAX)).contains(&query.wire.len()) {
            let row = Outcome::not_sent(&query, Reason::BadMessage);
            return table.finish_judged(row, &query.wire, &query.expected, None);
        }
        let slot = table.requests.insert(Request::new(query, route));
        self.assign(now, slot);
    }

    /// Gives a request the connection of its client, or a new one.
    fn assign(&mut self, now: RunTime, slot: Slot) {
        let table = self.table_mut();
        let Some(request) = table.requests.get(slot) else { return };
        let (route, class) = (request.route, request.row.class);
        let server = table.servers.number(route.server);
        let key = Key { client: request.client, transport: request.row.transport, server };
        let current = self.table().current(&key).or_else(|| self.unpark_for(&key));
        let usable = current.filter(|&at| self.has_room(at));
        let at = match usable.map_or_else(|| self.open_in_room(now, key, class, &route), Ok) {
            Ok(at) => at,
            Err(reason) => return self.table_mut().end_unanswered(slot, Status::NotSent, reason),
        };
        self.table_mut().leave_idle(at);
        self.table_mut().queue(at, slot);
        self.handle_queued(at, slot, now);
    }

    /// The parked connection of a client, back in the table.
    fn unpark_for(&mut self, key: &Key) -> Option<Slot> {
        self.table().find_parked(key).and_then(|place| self.unpark(place))
    }

    /// Whether a connection may have one more query.
    fn has_room(&self, at: Slot) -> bool {
        self.table().connections.get(at).is_some_and(|connection| {
            connection.taken < self.max_queries(connection)
                && connection.load() < self.table().policy(connection.class).pipeline as usize
                && self.has_stream(connection)
        })
    }

    /// A new connection. An idle one makes room where there is none.
    ///
    /// # Errors
    /// Why there can be none.
    fn open_in_room(&mut self, now: RunTime, key: Key, class: Option<u8>, route: &Route) -> Result<Slot, Reason> {
        if self.table().connections.len() + self.table().parked() >= self.table().config.most as usize {
            let oldest = self.longest_idle().ok_or(Reason::NoSource)?;
            self.remove(oldest, now, End::Room);
        }
        self.open(now, key, class, route)
    }

    /// The connection that has been idle for longest; those that their server wants closed sooner come first.
    fn longest_idle(&mut self) -> Option<Slot> {
        let table = self.table();
        let (idle, parked) = (table.longest_idle(), table.longest_parked());
        match (table.server_idle.first(), parked) {
            (Some(at), _) => Some(at),
            (None, Some((since, place))) if idle.is_none_or(|idle| since <= idle.0) => self.unpark(place),
            (None, _) => idle.map(|idle| idle.1),
        }
    }

    /// Lets a connection on which nothing is outstanding be idle, or ends it.
    fn settle(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.table().connections.get(at) else { return };
        if connection.state != State::Open || connection.load() > 0 {
            return;
        }
        let idle_timeout = self.table().policy(connection.class).idle_timeout;
        let end = if connection.is_leaving() {
            End::Closed
        } else if connection.taken >= self.max_queries(connection) {
            End::Spent
        } else if self.table().server_idle_timeout(connection).unwrap_or(idle_timeout) == 0 {
            End::Idle
        } else {
            let key = self.table().key(connection);
            self.table_mut().rest(at, now);
            return self.prefer(key, at);
        };
        self.remove(at, now, end);
    }

    /// A client goes on with this connection, where its current one has no room.
    fn prefer(&mut self, key: Key, at: Slot) {
        let current = self.table().current(&key);
        let has_parked = || self.table().find_parked(&key).is_some();
        if current != Some(at) && current.map_or_else(|| !has_parked(), |current| !self.has_room(current)) {
            let table = self.table_mut();
            table.current.set(at, &table.connections);
        }
    }

    /// Takes a connection that was up out of everything.
    fn remove(&mut self, at: Slot, now: RunTime, end: End) -> Option<ConnectionOf<Self>> {
        let connection = self.detach(at, Some((now, end)))?;
        if connection.is_open() {
            self.table_mut().connection_counts.close(end);
        }
        Some(connection)
    }

    /// A connection has ended: its unanswered queries are sent again on a new one, once.
    fn requeue_all(&mut self, at: Slot, now: RunTime, end: End, reason: Reason) {
        let Some(connection) = self.remove(at, now, end) else { return };
        let mut unanswered = Vec::new();
        for mut list in connection.into_lists() {
            while let Some(slot) = list.first() {
                self.table_mut().requests.unlink(&mut list, slot);
                unanswered.push(slot);
            }
        }
        for slot in unanswered {
            self.requeue(slot, now, reason);
        }
    }

    /// Sends a request of an ended connection again, or ends it when that has been done before.
    fn requeue(&mut self, slot: Slot, now: RunTime, reason: Reason) {
        let table = self.table_mut();
        let Some(request) = table.requests.get_mut(slot) else { return };
        if std::mem::replace(&mut request.is_repeated, true) {
            return table.end(slot, Status::Reset, reason);
        }
        self.send_again(slot, now, true);
    }

    /// Gives a request that its server has not looked at to another connection: it keeps its repetition. A server that looks at
    /// it on no connection is not followed for ever.
    fn reassign(&mut self, slot: Slot, now: RunTime, reason: Reason) {
        let table = self.table_mut();
        let Some(request) = table.requests.get_mut(slot) else { return };
        request.moves += 1;
        if request.moves > MOVES_MOST {
            return table.end(slot, Status::Reset, reason);
        }
        let was_written = request.id.is_some();
        self.send_again(slot, now, was_written);
    }

    /// Gives a request that is on no list to another connection. It `is_resent` where octets of it have been sent.
    fn send_again(&mut self, slot: Slot, now: RunTime, is_resent: bool) {
        let table = self.table_mut();
        let Some(request) = table.requests.get_mut(slot) else { return };
        request.written().and_then(|key| table.by_id.remove(&key));
        request.rewind();
        table.connection_counts.resent += u64::from(is_resent && !request.row.resent);
        request.row.resent |= is_resent;
        request.leave_connection();
        self.assign(now, slot);
    }

    /// A connection did not come up.
    fn handle_failed(&mut self, at: Slot, reason: Reason) {
        let Some(connection) = self.table().connections.get(at) else { return };
        let is_heard = connection.state == State::Handshaking;
        self.table_mut().connection_counts.failed += 1;
        self.fail(at, reason, if is_heard { Status::TlsFailed } else { Status::ConnectFailed });
    }

    /// Ends a connection that did not come up, and its requests with it.
    fn fail(&mut self, at: Slot, reason: Reason, status: Status) {
        let Some(connection) = self.detach(at, None) else { return };
        // Something is outstanding already where it went as early data.
        for mut list in connection.into_lists() {
            while let Some(slot) = list.first() {
                self.table_mut().requests.unlink(&mut list, slot);
                self.table_mut().end_unanswered(slot, status, reason);
            }
        }
    }

    /// A request is answered at `now`. One that was overdue by then has timed out, whatever has been looked at by now.
    fn answer(&mut self, slot: Slot, now: RunTime, message: &Message<'_>) {
        if self.table().request(slot).is_some_and(|request| request.waits && request.deadline <= now) {
            self.lapse(slot, now, None);
        }
        let Some(request) = self.release(slot) else { return };
        let at = request.connection;
        self.table_mut().finish_answered(&request, now, message);
        self.handle_finished(at, now, Some(message));
    }

    /// The stream of a request has ended without its answer; if it had timed out, it has its row.
    fn fail_stream(&mut self, slot: Slot, now: RunTime, reason: Reason) {
        let Some(request) = self.release(slot) else { return };
        let at = request.connection;
        if request.stage != Stage::Lingering {
            self.table_mut().finish_unanswered(&request, Status::Reset, Some(reason));
        }
        self.handle_finished(at, now, None);
    }

    /// Ends the queries whose time is over at `now`, and handles the timers of connections.
    fn handle_timeout(&mut self, now: RunTime) {
        self.end_overdue(now);
    }

    /// When [`Self::handle_timeout`] has something to do next.
    fn poll_timeout(&self) -> Option<RunTime> {
        self.table().poll_timeout()
    }

    /// Ends the queries whose time is over at `now`.
    fn end_overdue(&mut self, now: RunTime) {
        let is_over = |first: &(RunTime, Slot)| first.0 <= now;
        while let Some((_, at)) = self.table().first_opening().filter(is_over) {
            self.handle_failed(at, Reason::ConnectTimeout);
        }
        while let Some((_, at)) = self.table().first_handshaking().filter(is_over) {
            self.handle_failed(at, Reason::HandshakeTimeout);
        }
        while let Some((_, slot)) = self.table().first_waiting().filter(is_over) {
            self.expire(slot, now, None);
        }
        while let Some((_, slot)) = self.table().first_lingering().filter(is_over) {
            self.give_up(slot);
        }
        while let Some(at) = self.idle_too_long(now) {
            self.remove(at, now, End::Idle);
        }
    }

    /// The connection that has been idle for long enough first, if any has been at `now`.
    fn idle_too_long(&mut self, now: RunTime) -> Option<Slot> {
        let (idle, parked) = (self.table().first_idle(), self.table().first_parked());
        let idle = idle.filter(|first| first.0 <= now);
        match parked.filter(|first| first.0 <= idle.map_or(now, |idle| idle.0)) {
            Some((_, place)) => self.unpark(place),
            None => idle.map(|first| first.1),
        }
    }

    /// Ends all queries of an interrupted run: those sent, and those that wait for a connection.
    fn handle_interrupt(&mut self, now: RunTime) {
        while let Some(slot) = self.table().waiting.first() {
            self.expire(slot, now, Some(Reason::Interrupted));
        }
        let is_unsent = |table: &ConnectionTable<_, _>, slot| {
            table.request(slot).is_some_and(|request: &RequestOf<Self>| request.stage != Stage::Lingering)
        };
        let unsent: Vec<Slot> = self.table().requests.slots().filter(|&slot| is_unsent(self.table(), slot)).collect();
        for slot in unsent {
            if let Some(request) = self.release(slot) {
                self.table_mut().finish_unanswered(&request, Status::NotSent, Some(Reason::Interrupted));
            }
        }
    }

    /// Records a timeout, and lets the connection be idle that has nothing else to do.
    fn expire(&mut self, slot: Slot, now: RunTime, reason: Option<Reason>) {
        if let Some(at) = self.lapse(slot, now, reason) {
            self.settle(at, now);
        }
    }

    /// Records a timeout. What was written is kept for a while, so that a late answer is known as such. Returns the connection.
    fn lapse(&mut self, slot: Slot, now: RunTime, reason: Option<Reason>) -> Option<Slot> {
        let table = self.table_mut();
        table.requests.unlink(&mut table.waiting, slot);
        let request = table.requests.get_mut(slot)?;
        request.waits = false;
        let (at, expected, wire) = (request.connection, request.expected.clone(), request.wire.clone());
        let row = Outcome { status: Status::Timeout, reason, ..request.row.clone() };
        if request.stage == Stage::Outstanding {
            request.stage = Stage::Lingering;
            request.deadline = now + table.config.linger;
            table.unlink_written(at, slot);
            table.requests.append(&mut table.lingering, slot);
        } else {
            let connection = table.connections.get_mut(at);
            connection.into_iter().for_each(|it| unlink_queued(&mut table.requests, it, slot));
            table.requests.remove(slot);
        }
        table.finish_judged(row, &wire, &expected, None);
        Some(at)
    }

    /// The rows finished since the caller last emptied it.
    fn outcomes(&mut self) -> &mut Vec<Outcome> {
        &mut self.table_mut().outcomes
    }

    /// Queries taken and neither answered nor timed out.
    fn outstanding(&self) -> usize {
        self.table().requests.len() - self.table().lingering.len()
    }

    /// Whether a connection is on its way up, so that what comes next should not wait.
    fn is_opening_any(&self) -> bool {
        self.table().is_opening_any()
    }

    /// Whether answers to several queries may come on one connection, and so be read as one.
    fn is_crowded_any(&self) -> bool {
        self.table().is_crowded_any()
    }

    /// The accounts of queries.
    fn counts(&self) -> &Counts {
        &self.table().counts
    }

    /// The accounts of connections.
    fn connection_counts(&self) -> &ConnectionCounts {
        &self.table().connection_counts
    }
}
