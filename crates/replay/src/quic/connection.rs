//! A QUIC connection of one client.

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::{RunTime, Transport};
use quinn_proto::ConnectionHandle;

use super::http3::Http3;
use super::{doq, http3};
use crate::route::SocketKey;
use crate::slab::List;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its first packet is to be sent.
    Wanted,
    /// The handshake is under way.
    Opening,
    /// Queries can be sent.
    Open,
    /// As before, and nothing is outstanding.
    Idle,
}

/// One connection.
pub struct Connection {
    /// Number within the run.
    pub number: u64,
    /// When its opening began; once it is idle, since when.
    pub since: RunTime,
    /// The class of its client.
    pub class: Option<u8>,
    /// Its class of clients sends early data.
    pub may_be_early: bool,
    /// The client as recorded.
    pub client: IpAddr,
    /// The address it sends from, where it must be set.
    pub source: Option<IpAddr>,
    /// The socket that it uses.
    pub socket: SocketKey,
    /// The server.
    pub server: SocketAddr,
    /// Local port, 0 until the first packet is sent.
    pub port: u16,
    /// What is spoken on it.
    pub transport: Transport,
    /// Where it stands.
    pub state: State,
    /// Something has come from the server.
    pub is_heard: bool,
    /// The server has shown a certificate, as it does unless a session is resumed.
    pub was_checked: bool,
    /// The server lets the client open no more streams for now.
    pub is_full: bool,
    /// It takes no more queries: the server has said that it goes away.
    pub is_leaving: bool,
    /// It is on the list of those that may have something to send.
    pub is_called: bool,
    /// When it is next woken, in nanoseconds of run time; `i64::MAX` for never.
    pub armed: i64,
    /// Queries assigned so far.
    pub taken: u32,
    /// Streams of queries that have not come to their end.
    pub streams: u32,
    /// Requests not written.
    pub queue: List<1>,
    /// Requests written and not answered.
    pub outstanding: List<1>,
    /// The ID to which its first packets go, by which a refusal is known.
    pub initial: u64,
    /// What the endpoint calls it.
    pub handle: ConnectionHandle,
    /// The protocol.
    pub session: Box<quinn_proto::Connection>,
    /// What is spoken on it beside requests, where it is HTTP/3.
    pub http3: Option<Box<Http3>>,
}

impl Connection {
    /// Queries on it that are not answered.
    pub const fn load(&self) -> usize {
        self.queue.len() + self.outstanding.len()
    }

    /// The code with which it is ended in order.
    pub const fn no_error(&self) -> u32 {
        if self.http3.is_some() { http3::code::NO_ERROR } else { doq::NO_ERROR }
    }

    /// The code that stops an answer that is not wanted any more.
    pub const fn cancelled(&self) -> u32 {
        if self.http3.is_some() { http3::code::REQUEST_CANCELLED } else { doq::REQUEST_CANCELLED }
    }

    /// Whether the handshake is through.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::Idle)
    }

    /// Whether queries can go with the handshake, as early data.
    pub fn is_early(&self) -> bool {
        self.may_be_early && !self.is_open() && self.session.is_handshaking() && self.session.has_0rtt()
    }
}
