//! A TCP connection's own state: kept small, since a million of them may be idle.

use ldplayer_core::RunTime;

use super::framing;
use super::http2::Http2;
use super::tls::Tls;
use crate::table::{self, Terms};

/// No keepalive was told.
const UNTOLD: u16 = u16::MAX;
/// Nanoseconds in a unit of keepalive (RFC 7828 §3.1).
const KEEPALIVE_UNIT: i64 = 100_000_000;

/// One connection.
pub type Connection = table::Connection<Own>;

/// Octets of a record beside its content: the head, an explicit nonce or the content's type, and the tag (RFC 5288 §3, RFC 8446 §5.2).
const RECORD_BESIDE: usize = 5 + 8 + 16;

/// What a connection has beside what it has in common with those over QUIC.
#[derive(Debug)]
pub struct Own {
    /// What the server said last about how long it keeps idle connections, in units of 100 ms; [`UNTOLD`] if it did not.
    pub keepalive: u16,
    /// The worker has been told to write.
    pub is_called: bool,
    /// The kernel has no room: the worker will tell when there is.
    pub is_blocked: bool,
    /// The ID given last.
    pub id: u16,
    /// The TLS session, where there is one.
    pub tls: Option<Box<Tls>>,
    /// HTTP/2, where it is spoken, once the session is up.
    pub http2: Option<Box<Http2>>,
    /// What is in flight; `None` when nothing is.
    pub buffers: Option<Box<Buffers>>,
}

impl Own {
    /// That of a connection whose first query is written under the ID behind this one.
    pub const fn new(id: u16) -> Self {
        Self { keepalive: UNTOLD, is_called: false, is_blocked: false, id, tls: None, http2: None, buffers: None }
    }

    /// Whether each message travels in a TLS record of its own.
    pub const fn has_records(&self) -> bool {
        self.tls.is_some() && self.http2.is_none()
    }

    /// Octets that a message takes beside itself.
    pub const fn octets_beside(&self) -> usize {
        if self.has_records() { RECORD_BESIDE } else { 0 }
    }
}

impl Terms for Own {
    fn server_idle_timeout(&self, own: i64) -> Option<i64> {
        let told = (self.keepalive != UNTOLD).then_some(i64::from(self.keepalive) * KEEPALIVE_UNIT);
        told.filter(|&told| told < own)
    }

    fn is_leaving(&self) -> bool {
        self.http2.as_ref().is_some_and(|http2| http2.is_leaving())
    }
}

/// How a message arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When its first octet did …
    pub since: RunTime,
    /// … and the last one read.
    pub now: RunTime,
    /// Its length had been read before any of it.
    pub length_apart: bool,
}

/// Octets of messages of which only a part has passed.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The beginning of a response.
    pub input: Vec<u8>,
    /// When the first octet of it arrived.
    pub since: RunTime,
    /// Its length was all there was of it once.
    pub length_apart: bool,
    /// The end of what could not be written.
    pub output: Vec<u8>,
}

impl Connection {
    /// Whether the next message may be written.
    pub fn takes_messages(&self) -> bool {
        self.own.http2.as_ref().is_none_or(|http2| http2.room() > 0)
    }

    /// Whether there is something to write.
    pub fn has_output(&self) -> bool {
        (self.queued() > 0 && self.takes_messages())
            || self.own.http2.as_ref().is_some_and(|http2| http2.has_output())
            || self.own.buffers.as_ref().is_some_and(|buffers| !buffers.output.is_empty())
            || self.own.tls.as_ref().is_some_and(|tls| tls.has_output())
    }

    /// Takes the half response kept, and how it arrived so far: as of `now` where there is none.
    pub fn take_input(&mut self, now: RunTime) -> (Vec<u8>, Arrival) {
        let kept = self.own.buffers.as_mut().filter(|buffers| !buffers.input.is_empty());
        let none = (Vec::new(), Arrival { since: now, now, length_apart: false });
        let taken = kept.map_or(none, |buffers| {
            let Buffers { since, length_apart, .. } = **buffers;
            (std::mem::take(&mut buffers.input), Arrival { since, now, length_apart })
        });
        self.tidy();
        taken
    }

    /// Keeps half a response, and how it arrived so far.
    pub fn keep_input(&mut self, input: Vec<u8>, arrival: Arrival) {
        if !input.is_empty() {
            let buffers = self.own.buffers.get_or_insert_default();
            buffers.length_apart = arrival.length_apart || input.len() == framing::LENGTH;
            (buffers.input, buffers.since) = (input, arrival.since);
        }
    }

    /// Takes what could not be written.
    pub fn take_output(&mut self) -> Vec<u8> {
        let taken = self.own.buffers.as_mut().map(|buffers| std::mem::take(&mut buffers.output)).unwrap_or_default();
        self.tidy();
        taken
    }

    /// Keeps what could not be written.
    pub fn keep_output(&mut self, output: &[u8]) {
        self.own.buffers.get_or_insert_default().output.extend_from_slice(output);
    }

    fn tidy(&mut self) {
        self.own.buffers.take_if(|buffers| buffers.input.is_empty() && buffers.output.is_empty());
    }
}
