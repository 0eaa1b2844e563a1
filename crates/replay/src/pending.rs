//! An in-flight query over UDP.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use ldplayer_core::{Expected, Outcome, Query, Reason, RunTime, Status};

use crate::route::{Route, SocketKey};
use crate::stage::Stage;

/// One query in flight. Kept small: there may be hundreds of thousands, and each is visited twice.
#[derive(Debug)]
pub struct Pending {
    /// Row of the transaction in the trace.
    pub index: u64,
    /// When it was due.
    pub due: RunTime,
    /// When the kernel accepted it; meaningless while it is queued.
    pub submitted: RunTime,
    /// When the kernel handed it to the device, if requested.
    pub sent: Option<RunTime>,
    /// When it leaves its list.
    pub deadline: RunTime,
    /// The message as recorded.
    pub wire: Bytes,
    /// The server.
    pub server: SocketAddr,
    /// The client as recorded.
    pub client: IpAddr,
    /// The client's port; meaningless while it is queued.
    pub client_port: u16,
    /// The ID under which it is sent.
    pub id: u16,
    /// The socket.
    pub socket: SocketKey,
    /// The source address, if it must be set: the client's, or one that replaces it.
    pub source: Option<IpAddr>,
    /// Whether another query may have its socket and ID, to another server.
    pub is_by_server: bool,
    /// Its stage.
    pub stage: Stage,
    /// The class of its client.
    pub class: Option<u8>,
    /// The expected response.
    pub expected: Expected,
}

impl Pending {
    /// A queued query on no list.
    pub fn new(query: Query, route: &Route, socket: SocketKey, id: u16) -> Self {
        Self {
            index: query.index,
            due: query.due,
            submitted: RunTime(0),
            sent: None,
            deadline: RunTime(i64::MAX),
            wire: query.wire,
            server: route.server,
            client: query.client,
            client_port: 0,
            id,
            socket,
            source: route.source,
            is_by_server: false,
            stage: Stage::Queued,
            class: query.class,
            expected: query.expected,
        }
    }

    /// The row of this query, ended with `status`.
    pub fn outcome(&self, status: Status, reason: Option<Reason>) -> Outcome {
        let sent = self.stage != Stage::Queued;
        Outcome {
            index: self.index,
            client: self.client,
            client_port: self.client_port,
            server: self.server,
            intended: self.due,
            submitted: sent.then_some(self.submitted),
            sent: self.sent,
            status,
            reason,
            query_bytes: self.wire.len() as u16,
            class: self.class,
            ..Outcome::EMPTY
        }
    }
}
