//! A TCP connection's own state: kept small, since a million of them may be idle.

use ldplayer_core::RunTime;

use super::framing;
use super::http2::Http2;
use super::tls::Tls;
use crate::budget::{self, Budget};
use crate::table::{self, Terms};

/// No keepalive from the server.
const UNTOLD: u16 = u16::MAX;
/// Nanoseconds per unit of keepalive (RFC 7828 §3.1).
const KEEPALIVE_UNIT: i64 = 100_000_000;

/// One connection.
pub type Connection = table::Connection<Own>;

/// Overhead of a record, in octets: the header, an explicit nonce or the content type, and the tag (RFC 5288 §3, RFC 8446 §5.2).
const RECORD_BESIDE: usize = 5 + 8 + 16;

/// The TCP-specific state of a connection that lasts while it is idle.
#[derive(Debug)]
pub struct Own {
    /// The server's last idle timeout, in units of 100 ms; [`UNTOLD`] if it sent none.
    pub keepalive: u16,
    /// The last ID used.
    pub id: u16,
}

impl Own {
    /// The state of a connection whose first query gets the ID after this one.
    pub const fn new(id: u16) -> Self {
        Self { keepalive: UNTOLD, id }
    }
}

/// The rest of it: an idle connection without TLS has none.
#[derive(Debug, Default)]
pub struct Active {
    /// Whether the worker has been asked to write.
    pub is_called: bool,
    /// Whether the kernel's buffer is full; the worker will signal when there is room.
    pub is_blocked: bool,
    /// The TLS session, if any.
    pub tls: Option<Box<Tls>>,
    /// HTTP/2, if used, once the session is established.
    pub http2: Option<Box<Http2>>,
    /// Partial messages; `None` if there are none.
    pub buffers: Option<Box<Buffers>>,
    /// What the server may send that is of no use.
    pub budget: Budget,
}

impl Terms for Own {
    type Active = Active;

    fn is_dispensable(active: &Active) -> bool {
        let is_empty = active.tls.is_none() && active.http2.is_none() && active.buffers.is_none();
        is_empty && !active.is_blocked && active.budget.is_whole()
    }

    fn server_idle_timeout(&self, own: i64) -> Option<i64> {
        let told = (self.keepalive != UNTOLD).then_some(i64::from(self.keepalive) * KEEPALIVE_UNIT);
        told.filter(|&told| told < own)
    }

    fn is_leaving(&self, active: Option<&Active>) -> bool {
        active.and_then(|active| active.http2.as_ref()).is_some_and(|http2| http2.is_leaving())
    }
}

/// Arrival times of a message.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When its first octet arrived …
    pub since: RunTime,
    /// … and the last one read.
    pub now: RunTime,
    /// Whether its length was read before any of it.
    pub length_apart: bool,
}

/// Partial messages in either direction.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The beginning of a response.
    pub input: Vec<u8>,
    /// When its first octet arrived.
    pub since: RunTime,
    /// Whether at some time only its length had arrived.
    pub length_apart: bool,
    /// The remainder that could not be written.
    pub output: Vec<u8>,
}

impl Connection {
    /// The TLS session, if any.
    pub fn tls(&self) -> Option<&Tls> {
        self.active()?.tls.as_deref()
    }

    /// HTTP/2, if used, once the session is established.
    pub fn http2(&self) -> Option<&Http2> {
        self.active()?.http2.as_deref()
    }

    /// The same, to be changed.
    pub fn http2_mut(&mut self) -> Option<&mut Http2> {
        self.http2()?;
        self.active_mut().http2.as_deref_mut()
    }

    /// Whether the kernel's buffer is full.
    pub fn is_blocked(&self) -> bool {
        self.active().is_some_and(|active| active.is_blocked)
    }

    /// Whether each message travels in its own TLS record.
    pub fn has_records(&self) -> bool {
        self.tls().is_some() && self.http2().is_none()
    }

    /// Framing overhead of a message, in octets.
    pub fn octets_beside(&self) -> usize {
        if self.has_records() { RECORD_BESIDE } else { 0 }
    }

    /// Whether the next message may be written.
    pub fn takes_messages(&self) -> bool {
        self.http2().is_none_or(|http2| http2.room() > 0)
    }

    /// What the server may send for each query that is of no use.
    pub fn allowed_each(&self) -> u64 {
        if self.http2().is_some() { budget::PER_STREAM } else { budget::PER_MESSAGE }
    }

    /// Whether there is something to write.
    pub fn has_output(&self) -> bool {
        let Some(active) = self.active() else { return false };
        (self.queued() > 0 && self.takes_messages())
            || active.http2.as_ref().is_some_and(|http2| http2.has_output())
            || active.buffers.as_ref().is_some_and(|buffers| !buffers.output.is_empty())
            || active.tls.as_ref().is_some_and(|tls| tls.has_output())
    }

    /// Takes the partial response and its arrival times so far; `now` if there is none.
    pub fn take_input(&mut self, now: RunTime) -> (Vec<u8>, Arrival) {
        let none = (Vec::new(), Arrival { since: now, now, length_apart: false });
        if self.active().is_none_or(|active| active.buffers.is_none()) {
            return none;
        }
        let kept = self.active_mut().buffers.as_mut().filter(|buffers| !buffers.input.is_empty());
        let taken = kept.map_or(none, |buffers| {
            let Buffers { since, length_apart, .. } = **buffers;
            (std::mem::take(&mut buffers.input), Arrival { since, now, length_apart })
        });
        self.drop_empty_buffers();
        taken
    }

    /// Keeps a partial response, and how it arrived so far.
    pub fn keep_input(&mut self, input: Vec<u8>, arrival: Arrival) {
        if !input.is_empty() {
            let buffers = self.active_mut().buffers.get_or_insert_default();
            buffers.length_apart = arrival.length_apart || input.len() == framing::LENGTH;
            (buffers.input, buffers.since) = (input, arrival.since);
        }
    }

    /// Takes the unwritten remainder.
    pub fn take_output(&mut self) -> Vec<u8> {
        if self.active().is_none_or(|active| active.buffers.is_none()) {
            return Vec::new();
        }
        let buffers = self.active_mut().buffers.as_mut();
        let taken = buffers.map(|buffers| std::mem::take(&mut buffers.output)).unwrap_or_default();
        self.drop_empty_buffers();
        taken
    }

    /// Keeps the unwritten remainder.
    pub fn keep_output(&mut self, output: &[u8]) {
        self.active_mut().buffers.get_or_insert_default().output.extend_from_slice(output);
    }

    fn drop_empty_buffers(&mut self) {
        let buffers = &mut self.active_mut().buffers;
        buffers.take_if(|buffers| buffers.input.is_empty() && buffers.output.is_empty());
        self.tidy();
    }
}
