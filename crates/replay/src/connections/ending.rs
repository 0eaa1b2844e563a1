//! How requests and connections come to their ends, and what becomes of requests whose connection has.

use ldplayer_core::{Outcome, Reason, RunTime, Status};

use super::connection::Connection;
use super::http2::ErrorCode;
use super::{Action, Connections, Request};
use crate::life::{End, Key, Stage, State, place};
use crate::slab::Slot;

impl Connections {
    /// Lets a connection on which nothing is outstanding be idle, or ends it.
    pub(super) fn settle(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get(at) else { return };
        if connection.state != State::Open || connection.load() > 0 {
            return;
        }
        if connection.own.http2.as_ref().is_some_and(|http2| http2.is_leaving()) {
            self.remove(at, End::Closed);
            return;
        }
        let class = connection.class;
        let own = self.policy(class).idle_timeout;
        if connection.taken >= self.queries_most(connection) {
            self.remove(at, End::Spent);
            return;
        }
        let told = connection.told(own);
        if told.unwrap_or(own) == 0 {
            self.remove(at, End::Idle);
        } else if let Some(connection) = self.connections.get_mut(at) {
            connection.state = State::Idle;
            connection.since = now;
            let key = (connection.client, connection.transport);
            let list = if told.is_some() { &mut self.told_idle } else { &mut self.idle[place(class)] };
            self.connections.append(list, at);
            self.prefer(key, at);
        }
    }

    /// A client goes on with this connection, where its current one has no room.
    pub(super) fn prefer(&mut self, key: Key, at: Slot) {
        let current = self.current.get(&key).copied();
        if current != Some(at) && current.is_none_or(|current| !self.has_room(current)) {
            self.current.insert(key, at);
        }
    }

    /// Sends an orphaned request again, or ends it when that has been done before.
    pub(super) fn adopt(&mut self, slot: Slot, now: RunTime, reason: Reason) {
        let Some(request) = self.requests.get_mut(slot) else { return };
        if request.row.resent {
            return self.end(slot, Status::Reset, reason);
        }
        if let Some(id) = request.id {
            self.by_id.remove(&(request.row.connection.unwrap_or_default(), id));
        }
        request.rewind();
        request.row.resent = true;
        request.row.connect_ns = None;
        request.row.handshake_ns = None;
        request.row.early_data = false;
        request.row.resumed = false;
        request.is_opener = false;
        self.connection_counts.resent += 1;
        self.assign(now, slot);
    }

    /// Ends a connection that did not come up, and its requests with it.
    pub(super) fn fail(&mut self, at: Slot, reason: Reason, status: Status) {
        let Some(connection) = self.take(at) else { return };
        // Something is outstanding already where it went as early data.
        for mut list in [connection.outstanding, connection.queue] {
            while let Some(slot) = list.first() {
                self.requests.unlink(&mut list, slot);
                let was_sent = self.requests.get(slot).is_some_and(|request| request.row.submitted.is_some());
                let was_lost = was_sent && status == Status::NotSent;
                self.end(slot, if was_lost { Status::ConnectFailed } else { status }, reason);
            }
        }
    }

    pub(super) fn end_unassigned(&mut self, slot: Slot, reason: Reason) {
        let was_sent = self.requests.get(slot).is_some_and(|request| request.row.submitted.is_some());
        self.end(slot, if was_sent { Status::ConnectFailed } else { Status::NotSent }, reason);
    }

    /// Ends a request that is on no connection's list.
    pub(super) fn end(&mut self, slot: Slot, status: Status, reason: Reason) {
        let Some(request) = self.requests.get(slot) else { return };
        if request.waits {
            self.requests.unlink(&mut self.waiting, slot);
        }
        if let Some(request) = self.requests.remove(slot) {
            if let Some(id) = request.id {
                self.by_id.remove(&(request.row.connection.unwrap_or_default(), id));
            }
            self.finish(request.end(status, Some(reason)));
        }
    }

    /// Takes a connection that was up out of everything and tells the worker to close it.
    pub(super) fn remove(&mut self, at: Slot, end: End) -> Option<Connection> {
        self.leave_idle(at);
        let is_left = |it: &Connection| it.own.http2.as_ref().is_some_and(|http2| http2.is_leaving() && it.load() == 0);
        let by_client = matches!(end, End::Idle | End::Spent | End::Room);
        if by_client || self.connections.get(at).is_some_and(is_left) {
            self.say_farewell(at, ErrorCode::NoError);
        }
        let connection = self.take(at)?;
        if connection.is_open() {
            self.connection_counts.close(end);
        }
        Some(connection)
    }

    pub(super) fn take(&mut self, at: Slot) -> Option<Connection> {
        if self.connections.get(at)?.is_rising() {
            self.connections.unlink(&mut self.opening, at);
        }
        let connection = self.connections.remove(at)?;
        let key = (connection.client, connection.transport);
        if self.current.get(&key) == Some(&at) {
            self.current.remove(&key);
        }
        self.actions.push_back(Action::Close(at));
        Some(connection)
    }

    /// Records a timeout. What was written is kept for a while, so that a late answer is known as such.
    pub(super) fn expire(&mut self, slot: Slot, now: RunTime, reason: Option<Reason>) {
        self.requests.unlink(&mut self.waiting, slot);
        let Some(request) = self.requests.get_mut(slot) else { return };
        request.waits = false;
        let (at, row) = (request.connection, request.row.clone());
        if request.stage == Stage::Outstanding {
            request.stage = Stage::Lingering;
            request.deadline = now + self.config.linger;
            self.requests.append(&mut self.lingering, slot);
            if let Some(connection) = self.connections.get_mut(at) {
                self.requests.unlink(&mut connection.outstanding, slot);
            }
        } else {
            if let Some(connection) = self.connections.get_mut(at) {
                self.requests.unlink(&mut connection.queue, slot);
            }
            self.requests.remove(slot);
        }
        self.finish(Outcome { status: Status::Timeout, reason, ..row });
        self.settle(at, now);
    }

    /// Takes a request off its lists and frees its ID and slot.
    pub(super) fn release(&mut self, slot: Slot) -> Option<Request> {
        let request = self.requests.get(slot)?;
        if request.waits {
            self.requests.unlink(&mut self.waiting, slot);
        }
        let request = self.requests.get(slot)?;
        match (request.stage, self.connections.get_mut(request.connection)) {
            (Stage::Queued, Some(connection)) => self.requests.unlink(&mut connection.queue, slot),
            (Stage::Outstanding, Some(connection)) => self.requests.unlink(&mut connection.outstanding, slot),
            (Stage::Lingering, _) => self.requests.unlink(&mut self.lingering, slot),
            (_, None) => {}
        }
        let request = self.requests.remove(slot)?;
        if let Some(id) = request.id {
            self.by_id.remove(&(request.row.connection.unwrap_or_default(), id));
        }
        Some(request)
    }
}
