//! A query on its way over a QUIC connection.

use std::net::IpAddr;

use bytes::Bytes;
use ldplayer_core::{Outcome, Query, Reason, RunTime, Status};
use quinn_proto::StreamId;

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
    /// The stream that carries it, once it is written.
    pub stream: Option<StreamId>,
    /// Where it stands.
    pub stage: Stage,
    /// It has a deadline, and a place on the list of those that have.
    pub waits: bool,
    /// It caused its connection to be opened.
    pub is_opener: bool,
    /// What the stream has no room for yet.
    pub output: Bytes,
    /// The beginning of what the stream brings.
    pub input: Vec<u8>,
}

impl Request {
    /// A query that is due, on no connection.
    pub fn new(query: Query, route: Route) -> Self {
        let mut row = Outcome::unfinished(&query);
        row.client = route.source.unwrap_or(query.client);
        row.server = route.server;
        Self {
            row,
            wire: query.wire,
            client: query.client,
            route,
            deadline: RunTime(i64::MAX),
            connection: Slot::MAX,
            stream: None,
            stage: Stage::Queued,
            waits: false,
            is_opener: false,
            output: Bytes::new(),
            input: Vec::new(),
        }
    }

    /// Back to where it was before it was written, keeping when it was first sent.
    pub fn rewind(&mut self) {
        self.stage = Stage::Queued;
        self.stream = None;
        self.output = Bytes::new();
        self.input = Vec::new();
    }

    /// Its row, ended.
    pub fn end(self, status: Status, reason: Option<Reason>) -> Outcome {
        Outcome { status, reason, ..self.row }
    }
}
