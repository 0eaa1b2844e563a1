//! A connection of one client: kept small, since a million of them may be idle.

use std::net::IpAddr;

use ldplayer_core::{RunTime, Transport};

use super::http2::Http2;
use super::tls::Tls;
use crate::slab::List;

/// No keepalive was told.
pub const UNTOLD: u16 = u16::MAX;
/// Nanoseconds in a unit of keepalive (RFC 7828 §3.1).
const KEEPALIVE_UNIT: i64 = 100_000_000;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// To be opened by the worker.
    Wanted,
    /// The kernel is at it.
    Opening,
    /// The TLS handshake is under way.
    Handshaking,
    /// Queries can be written.
    Open,
    /// As before, and nothing is outstanding.
    Idle,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// Number within the run.
    pub number: u64,
    /// When its opening began; once it is idle, since when.
    pub since: RunTime,
    /// The client as recorded.
    pub client: IpAddr,
    /// The address it is opened from, where it must be set.
    pub source: Option<IpAddr>,
    /// Which of the servers known.
    pub server: u16,
    /// Local port, 0 until it is open.
    pub port: u16,
    /// What the server said last about how long it keeps idle connections, in units of 100 ms; [`UNTOLD`] if it did not.
    pub keepalive: u16,
    /// What is spoken on it.
    pub transport: Transport,
    /// The class of its client.
    pub class: Option<u8>,
    /// Where it stands.
    pub state: State,
    /// The worker has been told to write.
    pub is_called: bool,
    /// The kernel has no room: the worker will tell when there is.
    pub is_blocked: bool,
    /// The ID given last.
    pub id: u16,
    /// Queries assigned so far.
    pub taken: u32,
    /// Requests not written.
    pub queue: List<1>,
    /// Requests written and not answered.
    pub outstanding: List<1>,
    /// The TLS session, where there is one.
    pub tls: Option<Box<Tls>>,
    /// HTTP/2, where it is spoken, once the session is up.
    pub http2: Option<Box<Http2>>,
    /// What is in flight; `None` when nothing is.
    pub buffers: Option<Box<Buffers>>,
}

/// Octets of messages of which only a part has passed.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The beginning of a response.
    pub input: Vec<u8>,
    /// The end of what could not be written.
    pub output: Vec<u8>,
}

impl Connection {
    /// Queries on it that are not answered.
    pub const fn load(&self) -> usize {
        self.queue.len() + self.outstanding.len()
    }

    /// How long it may be idle by the server's word, in nanoseconds, where that is less than the client's `own` time.
    pub fn told(&self, own: i64) -> Option<i64> {
        let told = (self.keepalive != UNTOLD).then_some(i64::from(self.keepalive) * KEEPALIVE_UNIT);
        told.filter(|&told| told < own)
    }

    /// Whether queries can be written now.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::Idle)
    }

    /// Whether it is on its way up.
    pub fn is_rising(&self) -> bool {
        matches!(self.state, State::Opening | State::Handshaking)
    }

    /// Whether the next message may be written.
    pub fn takes_messages(&self) -> bool {
        self.http2.as_ref().is_none_or(|http2| http2.room() > 0)
    }

    /// Whether there is something to write.
    pub fn has_output(&self) -> bool {
        (!self.queue.is_empty() && self.takes_messages())
            || self.http2.as_ref().is_some_and(|http2| http2.has_output())
            || self.buffers.as_ref().is_some_and(|buffers| !buffers.output.is_empty())
            || self.tls.as_ref().is_some_and(|tls| tls.has_output())
    }

    /// Takes the half response kept.
    pub fn take_input(&mut self) -> Vec<u8> {
        let taken = self.buffers.as_mut().map(|buffers| std::mem::take(&mut buffers.input)).unwrap_or_default();
        self.tidy();
        taken
    }

    /// Keeps half a response.
    pub fn keep_input(&mut self, input: Vec<u8>) {
        if !input.is_empty() {
            self.buffers.get_or_insert_default().input = input;
        }
    }

    /// Takes what could not be written.
    pub fn take_output(&mut self) -> Vec<u8> {
        let taken = self.buffers.as_mut().map(|buffers| std::mem::take(&mut buffers.output)).unwrap_or_default();
        self.tidy();
        taken
    }

    /// Keeps what could not be written.
    pub fn keep_output(&mut self, output: &[u8]) {
        self.buffers.get_or_insert_default().output.extend_from_slice(output);
    }

    fn tidy(&mut self) {
        self.buffers.take_if(|buffers| buffers.input.is_empty() && buffers.output.is_empty());
    }
}
