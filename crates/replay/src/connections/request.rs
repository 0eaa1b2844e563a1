//! A query on its way over a connection.

use std::net::IpAddr;

use bytes::Bytes;
use ldplayer_core::{Outcome, Query, Reason, RunTime, Status, Transport};

use crate::pending::Pending;
use crate::route::Route;
use crate::slab::Slot;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Assigned to a connection, not written.
    Queued,
    /// Written, not answered.
    Outstanding,
    /// Timed out and recorded; kept so that a late answer is known.
    Lingering,
}

/// One query on its way. It lives as long as it is in flight, so it may hold its row.
#[derive(Debug)]
pub struct Request {
    /// The row as far as it is known.
    pub row: Outcome,
    /// The message as recorded.
    pub wire: Bytes,
    /// The client as recorded.
    pub client: IpAddr,
    /// Where it goes and from where.
    pub route: Route,
    /// When it is given up; meaningless until it is submitted.
    pub deadline: RunTime,
    /// The connection that it was assigned to.
    pub connection: Slot,
    /// The ID under which it was written, or the stream.
    pub id: u32,
    /// Where it stands.
    pub stage: Stage,
    /// It has a deadline, and a place on the list of those that have.
    pub waits: bool,
    /// It caused its connection to be opened.
    pub is_opener: bool,
}

impl Request {
    /// A query that is due, on no connection.
    pub fn new(query: Query, route: Route) -> Self {
        let mut row = Outcome::unfinished(&query);
        row.client = route.source.unwrap_or(query.client);
        row.server = route.server;
        Self { row, wire: query.wire, client: query.client, ..Self::blank(route) }
    }

    /// A query whose answer over UDP was truncated, to be asked over TCP as of the same moment.
    pub fn fallback(pending: Pending, client: IpAddr, route: Route) -> Self {
        let mut row = pending.outcome(Status::Timeout, None);
        row.transport = Transport::Tcp;
        row.fell_back = true;
        Self { row, wire: pending.wire, client, ..Self::blank(route) }
    }

    fn blank(route: Route) -> Self {
        Self {
            row: Outcome::EMPTY,
            wire: Bytes::new(),
            client: Outcome::EMPTY.client,
            route,
            deadline: RunTime(i64::MAX),
            connection: Slot::MAX,
            id: 0,
            stage: Stage::Queued,
            waits: false,
            is_opener: false,
        }
    }

    /// Its row, ended.
    pub fn end(self, status: Status, reason: Option<Reason>) -> Outcome {
        Outcome { status, reason, ..self.row }
    }
}
