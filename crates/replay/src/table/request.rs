//! An in-flight query over a connection.

use std::net::IpAddr;

use bytes::Bytes;
use ldplayer_core::{Expected, Message, Outcome, Query, Reason, RunTime, Status, Transport};

use crate::pending::Pending;
use crate::route::Route;
use crate::slab::Slot;
use crate::stage::Stage;

/// One query in flight. It lives no longer than that, so it may hold its row.
#[derive(Debug)]
pub struct Request<R> {
    /// The row so far.
    pub row: Outcome,
    /// The message as recorded.
    pub wire: Bytes,
    /// The client as recorded.
    pub client: IpAddr,
    /// What its answer is compared with.
    pub expected: Expected,
    /// Where it goes and from where.
    pub route: Route,
    /// When it is given up; meaningless until it is submitted.
    pub deadline: RunTime,
    /// The connection that it was assigned to.
    pub connection: Slot,
    /// The ID under which it was written, or the stream, once it is.
    pub id: Option<u64>,
    /// Where it stands.
    pub stage: Stage,
    /// It has a deadline and is on the list of requests with one.
    pub waits: bool,
    /// It caused its connection to be opened.
    pub is_opener: bool,
    /// It has been sent again since its connection ended, which is done once.
    pub is_repeated: bool,
    /// Connections on which a server has not looked at it.
    pub moves: u8,
    /// What its machine adds: the state that only a written request has.
    pub own: R,
}

impl<R: Default> Request<R> {
    /// A query that is due, on no connection.
    pub fn new(query: Query, route: Route) -> Self {
        let mut row = Outcome::unfinished(&query);
        row.server = route.server;
        Self { expected: query.expected, ..Self::blank(row, query.wire, query.client, route) }
    }

    /// A query whose answer over UDP was truncated, retried over TCP with its original send time.
    pub fn fallback(pending: Pending) -> Self {
        let client = pending.client;
        let route = Route { socket: pending.socket, source: pending.source, server: pending.server };
        let mut row = pending.outcome(Status::Timeout, None);
        row.transport = Transport::Tcp;
        row.fell_back = true;
        Self { expected: pending.expected, ..Self::blank(row, pending.wire, client, route) }
    }

    fn blank(row: Outcome, wire: Bytes, client: IpAddr, route: Route) -> Self {
        Self {
            row,
            wire,
            client,
            expected: Expected::Nothing,
            route,
            deadline: RunTime(i64::MAX),
            connection: Slot::MAX,
            id: None,
            stage: Stage::Queued,
            waits: false,
            is_opener: false,
            is_repeated: false,
            moves: 0,
            own: R::default(),
        }
    }

    /// Back to where it was before it was written, keeping when it was first sent.
    pub fn rewind(&mut self) {
        self.stage = Stage::Queued;
        self.id = None;
        self.row.first_byte = None;
        self.own = R::default();
    }

    /// Forgets what its row says of the connection that it leaves for another: that is not what its answer took.
    pub fn leave_connection(&mut self) {
        self.row.connect_ns = None;
        self.row.handshake_ns = None;
        self.row.early_data = false;
        self.row.resumed = false;
        self.is_opener = false;
    }

    /// Its connection, and the ID or stream there, once it is written.
    pub fn written(&self) -> Option<(u64, u64)> {
        Some((self.row.connection?, self.id?))
    }

    /// Its row, ended.
    pub fn end(&self, status: Status, reason: Option<Reason>) -> Outcome {
        Outcome { status, reason, ..self.row.clone() }
    }

    /// Its row, ended by the answer `message` that came at `now`.
    pub fn answered(&self, now: RunTime, message: &Message<'_>) -> Outcome {
        let status = if self.stage == Stage::Lingering { Status::Late } else { Status::Answered };
        // The two stamps are of two clocks, which may differ by some nanoseconds.
        let answered = self.row.submitted.map_or(now, |submitted| now.max(submitted));
        let row = Outcome {
            first_byte: Some(self.row.first_byte.unwrap_or(answered).min(answered)),
            answered: Some(answered),
            ..self.end(status, None)
        };
        row.with_response(message)
    }
}
