//! A QUIC connection's own state.

use ldplayer_core::RunTime;
use quinn_proto::ConnectionHandle;

use super::http3::Http3;
use super::{doq, http3};
use crate::budget::Budget;
use crate::route::SocketKey;
use crate::table::{self, Terms};

/// One connection.
pub type Connection = table::Connection<Own>;

/// What a connection has beside what it has in common with those over TCP.
pub struct Own {
    /// Its class of clients sends early data.
    pub may_be_early: bool,
    /// The socket that it uses.
    pub socket: SocketKey,
    /// The server has shown a certificate, as it does unless a session is resumed.
    pub was_checked: bool,
    /// The server lets the client open no more streams for now.
    pub is_full: bool,
    /// It takes no more queries: the server has said that it goes away.
    pub is_leaving: bool,
    /// It is on the list of connections that may have something to send.
    pub is_called: bool,
    /// When the kernel had its first packet.
    pub began: RunTime,
    /// When it is next woken, in nanoseconds of run time; `i64::MAX` for never.
    pub armed: i64,
    /// Streams of queries that have not come to their end.
    pub streams: u32,
    /// The connection ID of its first packets, to match ICMP refusals.
    pub initial: u64,
    /// What the endpoint calls it.
    pub handle: ConnectionHandle,
    /// The protocol.
    pub session: Box<quinn_proto::Connection>,
    /// What the server may send that is of no use.
    pub budget: Budget,
    /// What is spoken on it beside requests, where it is HTTP/3.
    pub http3: Option<Box<Http3>>,
}

impl Terms for Own {
    type Active = ();

    /// Its address stays with it.
    fn is_dispensable(_: &()) -> bool {
        false
    }

    /// The library heeds what servers tell in the handshake (RFC 9000 §10.1).
    fn server_idle_timeout(&self, _: i64) -> Option<i64> {
        None
    }

    fn is_leaving(&self, _: Option<&()>) -> bool {
        self.is_leaving
    }
}

impl Connection {
    /// The code with which it is ended in order.
    pub const fn no_error(&self) -> u32 {
        if self.own.http3.is_some() { http3::code::NO_ERROR } else { doq::NO_ERROR }
    }

    /// The code with which it is ended where the server sends too much that is of no use.
    pub const fn excessive_load(&self) -> u32 {
        if self.own.http3.is_some() { http3::code::EXCESSIVE_LOAD } else { doq::EXCESSIVE_LOAD }
    }

    /// The code that stops an answer that is not wanted any more.
    pub const fn cancelled(&self) -> u32 {
        if self.own.http3.is_some() { http3::code::REQUEST_CANCELLED } else { doq::REQUEST_CANCELLED }
    }

    /// Whether queries can go with the handshake, as early data.
    pub fn is_early(&self) -> bool {
        self.own.may_be_early && !self.is_open() && self.own.session.is_handshaking() && self.own.session.has_0rtt()
    }
}
