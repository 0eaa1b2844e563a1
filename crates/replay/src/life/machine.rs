//! What becomes of requests and connections, whatever is spoken: which connection carries a query, when one is opened and
//! closed, and what happens to the queries of one that ends.

use ldplayer_core::message::HEADER;
use ldplayer_core::{Message, Outcome, Query, Reason, RunTime, Status};

use super::{Class, Connection, ConnectionCounts, End, Key, Life, Policy, Request, Stage, State, Terms};
use crate::counts::Counts;
use crate::route::Route;
use crate::slab::Slot;

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
    fn life(&self) -> &Life<Self::Connection, Self::Request>;

    /// The requests and connections, to be changed.
    fn life_mut(&mut self) -> &mut Life<Self::Connection, Self::Request>;

    /// A new connection, which its client uses from now on.
    ///
    /// # Errors
    /// Why there can be none.
    fn open(&mut self, now: RunTime, key: Key, class: Option<u8>, route: &Route) -> Result<Slot, Reason>;

    /// Takes a connection out of everything and sees to its closing. It `ended` then and so; `None` where it did not come up.
    fn part(&mut self, at: Slot, ended: Option<(RunTime, End)>) -> Option<ConnectionOf<Self>>;

    /// A request has been put on the queue of a connection.
    fn handle_queued(&mut self, at: Slot, slot: Slot, now: RunTime);

    /// A request of a connection has come to its end, by this answer if there is one.
    fn handle_relieved(&mut self, at: Slot, now: RunTime, answer: Option<&Message<'_>>);

    /// Whether a connection may have one more query, as far as its server and what is spoken are concerned.
    fn has_stream(&self, connection: &ConnectionOf<Self>) -> bool;

    /// Queries after which a connection is used no more.
    fn queries_most(&self, connection: &ConnectionOf<Self>) -> u32 {
        self.life().policy(connection.class).queries_per_connection
    }

    /// Takes a request off its lists and frees its ID or stream, and its slot.
    fn release(&mut self, slot: Slot) -> Option<RequestOf<Self>> {
        self.life_mut().release(slot)
    }

    /// Forgets a query that has timed out long ago, and lets the server do so.
    fn give_up(&mut self, slot: Slot);

    /// The same machine with a policy for each class of clients; none leaves all with the one that there is.
    fn with_classes(mut self, classes: &[Policy]) -> Self {
        if !classes.is_empty() {
            let life = self.life_mut();
            life.classes = classes.iter().map(|policy| Class::new(policy.bounded())).collect();
        }
        self
    }

    /// Takes a query that is due.
    fn handle_query(&mut self, now: RunTime, query: Query, route: Route) {
        let life = self.life_mut();
        life.counts.taken += 1;
        if !(HEADER..=usize::from(u16::MAX)).contains(&query.wire.len()) {
            return life.finish(Outcome::not_sent(&query, Reason::BadMessage));
        }
        let slot = life.requests.insert(Request::new(query, route));
        self.assign(now, slot);
    }

    /// Gives a request the connection of its client, or a new one.
    fn assign(&mut self, now: RunTime, slot: Slot) {
        let Some(request) = self.life().requests.get(slot) else { return };
        let key = (request.client, request.row.transport);
        let (route, class) = (request.route, request.row.class);
        let usable = self.life().current(&key).filter(|&at| self.has_room(at));
        let at = match usable.map_or_else(|| self.open_in_room(now, key, class, &route), Ok) {
            Ok(at) => at,
            Err(reason) => return self.life_mut().end_unanswered(slot, Status::NotSent, reason),
        };
        self.life_mut().leave_idle(at);
        self.life_mut().queue(at, slot);
        self.handle_queued(at, slot, now);
    }

    /// Whether a connection may have one more query.
    fn has_room(&self, at: Slot) -> bool {
        self.life().connections.get(at).is_some_and(|connection| {
            connection.taken < self.queries_most(connection)
                && connection.load() < self.life().policy(connection.class).pipeline as usize
                && self.has_stream(connection)
        })
    }

    /// A new connection. An idle one makes room where there is none.
    ///
    /// # Errors
    /// Why there can be none.
    fn open_in_room(&mut self, now: RunTime, key: Key, class: Option<u8>, route: &Route) -> Result<Slot, Reason> {
        if self.life().connections.len() >= self.life().config.most as usize {
            let oldest = self.life().longest_idle().ok_or(Reason::NoSource)?;
            self.remove(oldest, now, End::Room);
        }
        self.open(now, key, class, route)
    }

    /// Lets a connection on which nothing is outstanding be idle, or ends it.
    fn settle(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.life().connections.get(at) else { return };
        if connection.state != State::Open || connection.load() > 0 {
            return;
        }
        let idle_timeout = self.life().policy(connection.class).idle_timeout;
        let end = if connection.own.is_leaving() {
            End::Closed
        } else if connection.taken >= self.queries_most(connection) {
            End::Spent
        } else if self.life().told(connection).unwrap_or(idle_timeout) == 0 {
            End::Idle
        } else {
            let key = connection.key();
            self.life_mut().rest(at, now);
            return self.prefer(key, at);
        };
        self.remove(at, now, end);
    }

    /// A client goes on with this connection, where its current one has no room.
    fn prefer(&mut self, key: Key, at: Slot) {
        let current = self.life().current(&key);
        if current != Some(at) && current.is_none_or(|current| !self.has_room(current)) {
            let life = self.life_mut();
            life.current.set(at, &life.connections);
        }
    }

    /// Takes a connection that was up out of everything.
    fn remove(&mut self, at: Slot, now: RunTime, end: End) -> Option<ConnectionOf<Self>> {
        let connection = self.part(at, Some((now, end)))?;
        if connection.is_open() {
            self.life_mut().connection_counts.close(end);
        }
        Some(connection)
    }

    /// A connection has ended: what was not answered on it is sent again on a new one, once.
    fn orphan(&mut self, at: Slot, now: RunTime, end: End, reason: Reason) {
        let Some(connection) = self.remove(at, now, end) else { return };
        let mut orphans = Vec::new();
        for mut list in [connection.outstanding, connection.queue] {
            while let Some(slot) = list.first() {
                self.life_mut().requests.unlink(&mut list, slot);
                orphans.push(slot);
            }
        }
        for slot in orphans {
            self.adopt(slot, now, reason);
        }
    }

    /// Sends an orphaned request again, or ends it when that has been done before.
    fn adopt(&mut self, slot: Slot, now: RunTime, reason: Reason) {
        let life = self.life_mut();
        let Some(request) = life.requests.get_mut(slot) else { return };
        if request.row.resent {
            return life.end(slot, Status::Reset, reason);
        }
        request.written().and_then(|key| life.by_id.remove(&key));
        request.rewind();
        request.row.resent = true;
        request.row.connect_ns = None;
        request.row.handshake_ns = None;
        request.row.early_data = false;
        request.row.resumed = false;
        request.is_opener = false;
        life.connection_counts.resent += 1;
        self.assign(now, slot);
    }

    /// A connection did not come up.
    fn handle_failed(&mut self, at: Slot, reason: Reason) {
        let Some(connection) = self.life().connections.get(at) else { return };
        let is_heard = connection.state == State::Handshaking;
        self.life_mut().connection_counts.failed += 1;
        self.fail(at, reason, if is_heard { Status::TlsFailed } else { Status::ConnectFailed });
    }

    /// Ends a connection that did not come up, and its requests with it.
    fn fail(&mut self, at: Slot, reason: Reason, status: Status) {
        let Some(connection) = self.part(at, None) else { return };
        // Something is outstanding already where it went as early data.
        for mut list in [connection.outstanding, connection.queue] {
            while let Some(slot) = list.first() {
                self.life_mut().requests.unlink(&mut list, slot);
                self.life_mut().end_unanswered(slot, status, reason);
            }
        }
    }

    /// A request is answered at `now`.
    fn answer(&mut self, slot: Slot, now: RunTime, message: &Message<'_>) {
        let Some(request) = self.release(slot) else { return };
        let at = request.connection;
        self.life_mut().finish(request.answered(now, message));
        self.handle_relieved(at, now, Some(message));
    }

    /// The stream of a request has ended without its answer; if it had timed out, it has its row.
    fn fail_stream(&mut self, slot: Slot, now: RunTime, reason: Reason) {
        let Some(request) = self.release(slot) else { return };
        let at = request.connection;
        if request.stage != Stage::Lingering {
            self.life_mut().finish(request.end(Status::Reset, Some(reason)));
        }
        self.handle_relieved(at, now, None);
    }

    /// Ends what is overdue at `now`, and lets connections do what it is time for.
    fn handle_timeout(&mut self, now: RunTime) {
        self.end_overdue(now);
    }

    /// When [`Self::handle_timeout`] has something to do next.
    fn poll_timeout(&self) -> Option<RunTime> {
        self.life().poll_timeout()
    }

    /// Ends what is overdue at `now`.
    fn end_overdue(&mut self, now: RunTime) {
        let is_over = |first: &(RunTime, Slot)| first.0 <= now;
        while let Some((_, at)) = self.life().first_opening().filter(is_over) {
            self.handle_failed(at, Reason::ConnectTimeout);
        }
        while let Some((_, at)) = self.life().first_handshaking().filter(is_over) {
            self.handle_failed(at, Reason::HandshakeTimeout);
        }
        while let Some((_, slot)) = self.life().first_waiting().filter(is_over) {
            self.expire(slot, now, None);
        }
        while let Some((_, slot)) = self.life().first_lingering().filter(is_over) {
            self.give_up(slot);
        }
        while let Some((_, at)) = self.life().first_idle().filter(is_over) {
            self.remove(at, now, End::Idle);
        }
    }

    /// Ends all that is outstanding, for a run that is interrupted.
    fn handle_interrupt(&mut self, now: RunTime) {
        while let Some(slot) = self.life().waiting.first() {
            self.expire(slot, now, Some(Reason::Interrupted));
        }
    }

    /// Records a timeout. What was written is kept for a while, so that a late answer is known as such.
    fn expire(&mut self, slot: Slot, now: RunTime, reason: Option<Reason>) {
        let life = self.life_mut();
        life.requests.unlink(&mut life.waiting, slot);
        let Some(request) = life.requests.get_mut(slot) else { return };
        request.waits = false;
        let (at, row) = (request.connection, request.row.clone());
        let connection = life.connections.get_mut(at);
        if request.stage == Stage::Outstanding {
            request.stage = Stage::Lingering;
            request.deadline = now + life.config.linger;
            connection.into_iter().for_each(|it| life.requests.unlink(&mut it.outstanding, slot));
            life.requests.append(&mut life.lingering, slot);
        } else {
            connection.into_iter().for_each(|it| life.requests.unlink(&mut it.queue, slot));
            life.requests.remove(slot);
        }
        life.finish(Outcome { status: Status::Timeout, reason, ..row });
        self.settle(at, now);
    }

    /// The rows finished since the caller last emptied it.
    fn outcomes(&mut self) -> &mut Vec<Outcome> {
        &mut self.life_mut().outcomes
    }

    /// Queries taken and neither answered nor timed out.
    fn outstanding(&self) -> usize {
        self.life().requests.len() - self.life().lingering.len()
    }

    /// Whether a connection is on its way up, so that what comes next should not wait.
    fn is_opening_any(&self) -> bool {
        self.life().is_opening_any()
    }

    /// The accounts of queries.
    fn counts(&self) -> &Counts {
        &self.life().counts
    }

    /// The accounts of connections.
    fn connection_counts(&self) -> &ConnectionCounts {
        &self.life().connection_counts
    }
}
