//! How requests and connections come to their ends, and what becomes of requests whose connection has.

use bytes::Bytes;
use ldplayer_core::{Outcome, Reason, RunTime, Status};
use quinn_proto::{ConnectionError, EndpointEvent, TransportErrorCode, VarInt};

use super::connection::Connection;
use super::request::Request;
use super::{Quic, tls_of};
use crate::life::{End, Key, Policy, Stage, State, place};
use crate::slab::Slot;

/// Error codes of TLS alerts (RFC 9001 §4.8) …
const ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
/// … of which this one says that there is no protocol in common (RFC 7301 §3.2) …
const NO_APPLICATION_PROTOCOL: u64 = 0x178;
/// … and the code of a server that takes no connection (RFC 9000 §20.1).
const CONNECTION_REFUSED: u64 = 0x2;

impl Quic {
    /// Lets a connection on which nothing is outstanding be idle, or ends it.
    pub(super) fn settle(&mut self, at: Slot, now: RunTime) {
        let Some(class) = self.connections.get(at).map(|connection| connection.class) else { return };
        let Policy { queries_per_connection, idle_timeout, .. } = *self.policy(class);
        let Some(connection) = self.connections.get_mut(at) else { return };
        if connection.state != State::Open || connection.load() > 0 {
            return;
        }
        if connection.own.is_leaving {
            self.remove(at, now, End::Closed);
        } else if connection.taken >= queries_per_connection {
            self.remove(at, now, End::Spent);
        } else if idle_timeout == 0 {
            self.remove(at, now, End::Idle);
        } else {
            connection.state = State::Idle;
            connection.since = now;
            let key = (connection.client, connection.transport);
            self.connections.append(&mut self.idle[place(class)], at);
            self.prefer(key, at);
        }
    }

    /// A client goes on with this connection, where its current one has no room.
    fn prefer(&mut self, key: Key, at: Slot) {
        let current = self.current.get(&key).copied();
        if current != Some(at) && current.is_none_or(|current| !self.has_room(current)) {
            self.current.insert(key, at);
        }
    }

    /// A connection is over, by the server's doing or the network's.
    pub(super) fn handle_lost(&mut self, at: Slot, now: RunTime, error: &ConnectionError) {
        let Some(connection) = self.connections.get(at) else { return };
        let failed = tls_of(&self.doq, &self.doh3, connection.transport).and_then(|tls| tls.check().failed);
        if !connection.is_open() {
            let (reason, status) = failure(error, failed);
            self.connection_counts.failed += 1;
            return self.fail(at, reason, status);
        }
        let end = if is_in_order(error, connection.no_error()) { End::Closed } else { End::Reset };
        let reason = if end == End::Closed { Reason::ClosedByServer } else { Reason::ResetByServer };
        self.handle_closed(at, now, end, reason);
    }

    /// A connection that was up has ended: what was not answered on it is sent again on a new one, once.
    pub(super) fn handle_closed(&mut self, at: Slot, now: RunTime, end: End, reason: Reason) {
        let Some(connection) = self.remove(at, now, end) else { return };
        let (mut outstanding, mut queue) = (connection.outstanding, connection.queue);
        let mut orphans = Vec::new();
        for list in [&mut outstanding, &mut queue] {
            while let Some(slot) = list.first() {
                self.requests.unlink(list, slot);
                orphans.push(slot);
            }
        }
        for slot in orphans {
            self.adopt(slot, connection.number, now, reason);
        }
    }

    /// Sends an orphaned request again, or ends it when that has been done before.
    pub(super) fn adopt(&mut self, slot: Slot, number: u64, now: RunTime, reason: Reason) {
        let Some(request) = self.requests.get_mut(slot) else { return };
        if request.row.resent {
            return self.end(slot, Status::Reset, reason);
        }
        if let Some(id) = request.id {
            self.by_stream.remove(&(number, id));
        }
        request.rewind();
        request.row.resent = true;
        request.row.handshake_ns = None;
        request.row.early_data = false;
        request.row.resumed = false;
        request.is_opener = false;
        self.connection_counts.resent += 1;
        self.assign(now, slot);
    }

    /// Ends a connection that did not come up, and its requests with it.
    pub(super) fn fail(&mut self, at: Slot, reason: Reason, status: Status) {
        let Some(connection) = self.take_out(at, RunTime(self.latest)) else { return };
        let (mut outstanding, mut queue) = (connection.outstanding, connection.queue);
        for list in [&mut outstanding, &mut queue] {
            while let Some(slot) = list.first() {
                self.requests.unlink(list, slot);
                self.end_unanswered(slot, status, reason);
            }
        }
    }

    pub(super) fn end_unassigned(&mut self, slot: Slot, reason: Reason) {
        self.end_unanswered(slot, Status::NotSent, reason);
    }

    /// Ends a request; one that had been sent before cannot be one that was not.
    fn end_unanswered(&mut self, slot: Slot, status: Status, reason: Reason) {
        let was_sent = self.requests.get(slot).is_some_and(|request| request.row.submitted.is_some());
        let was_lost = was_sent && status == Status::NotSent;
        self.end(slot, if was_lost { Status::ConnectFailed } else { status }, reason);
    }

    /// Ends a request that is on no connection's list.
    fn end(&mut self, slot: Slot, status: Status, reason: Reason) {
        let Some(request) = self.requests.get(slot) else { return };
        if request.waits {
            self.requests.unlink(&mut self.waiting, slot);
        }
        if let Some(request) = self.requests.remove(slot) {
            self.forget_stream(&request);
            self.finish(request.end(status, Some(reason)));
        }
    }

    /// Takes a connection that was up out of everything.
    pub(super) fn remove(&mut self, at: Slot, now: RunTime, end: End) -> Option<Connection> {
        self.leave_idle(at);
        let connection = self.take_out(at, now)?;
        if connection.is_open() {
            self.connection_counts.close(end);
        }
        Some(connection)
    }

    /// Takes a connection out of everything. Its server is told, where it does not know; what comes from it later is
    /// passed over, as in the closing state (RFC 9000 §10.2.1), but for an answer to each packet.
    fn take_out(&mut self, at: Slot, now: RunTime) -> Option<Connection> {
        let instant = self.instant(now);
        let connection = self.connections.get_mut(at)?;
        if connection.is_rising() {
            self.connections.unlink(&mut self.opening, at);
        }
        let connection = self.connections.get_mut(at)?;
        if connection.state != State::Wanted {
            let code = VarInt::from_u32(connection.no_error());
            connection.own.session.close(instant, code, Bytes::new());
            self.collect(at, now);
        }
        let connection = self.connections.remove(at)?;
        let key = (connection.client, connection.transport);
        if self.current.get(&key) == Some(&at) {
            self.current.remove(&key);
        }
        if self.by_initial.get(&connection.own.initial) == Some(&at) {
            self.by_initial.remove(&connection.own.initial);
        }
        self.by_handle[connection.own.handle.0] = Slot::MAX;
        self.endpoint.handle_event(connection.own.handle, EndpointEvent::drained());
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

    /// Gives up a query that had timed out: its server need not answer any more (RFC 9250 §4.3.1).
    pub(super) fn forget(&mut self, slot: Slot) {
        let Some(request) = self.release(slot) else { return };
        let connection = self.connections.get_mut(request.connection);
        let connection = connection.filter(|connection| Some(connection.number) == request.row.connection);
        if let (Some(connection), Some(id)) = (connection, request.stream()) {
            // A stream that has ended meanwhile needs no stop.
            let code = VarInt::from_u32(connection.cancelled());
            let _ = connection.own.session.recv_stream(id).stop(code);
            self.call(request.connection);
        }
    }

    /// Takes a request off its lists and frees its stream and slot.
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
        let connection = self.connections.get_mut(request.connection);
        let connection = connection.filter(|connection| Some(connection.number) == request.row.connection);
        if let Some(connection) = connection.filter(|_| request.id.is_some()) {
            connection.own.streams -= 1;
        }
        self.forget_stream(&request);
        Some(request)
    }

    fn forget_stream(&mut self, request: &Request) {
        if let (Some(number), Some(id)) = (request.row.connection, request.id) {
            self.by_stream.remove(&(number, id));
        }
    }
}

/// Why a connection did not come up; `certificate` is what was wrong with the server's.
fn failure(error: &ConnectionError, certificate: Option<Reason>) -> (Reason, Status) {
    let of_code = |code: TransportErrorCode, otherwise: Reason| match u64::from(code) {
        NO_APPLICATION_PROTOCOL => (Reason::Alpn, Status::TlsFailed),
        code if ALERTS.contains(&code) => (Reason::Handshake, Status::TlsFailed),
        CONNECTION_REFUSED => (Reason::ConnectionRefused, Status::ConnectFailed),
        _ => (otherwise, Status::ConnectFailed),
    };
    match (error, certificate) {
        (_, Some(reason)) => (reason, Status::TlsFailed),
        (ConnectionError::TransportError(error), _) => of_code(error.code, Reason::Protocol),
        (ConnectionError::ConnectionClosed(close), _) => of_code(close.error_code, Reason::ClosedByServer),
        (ConnectionError::ApplicationClosed(_), _) => (Reason::ClosedByServer, Status::ConnectFailed),
        (ConnectionError::Reset, _) => (Reason::ResetByServer, Status::ConnectFailed),
        (ConnectionError::TimedOut, _) => (Reason::ConnectTimeout, Status::ConnectFailed),
        _ => (Reason::Handshake, Status::ConnectFailed),
    }
}

/// Whether the server ended a connection in order: with no error, or silently since it was idle for as long as it had said.
fn is_in_order(error: &ConnectionError, no_error: u32) -> bool {
    match error {
        ConnectionError::ApplicationClosed(close) => u64::from(close.error_code) == u64::from(no_error),
        ConnectionError::ConnectionClosed(close) => close.error_code == TransportErrorCode::NO_ERROR,
        ConnectionError::TimedOut => true,
        _ => false,
    }
}
