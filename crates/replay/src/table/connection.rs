//! The state of a connection common to all machines: kept small, since a million of them may be idle.

use std::net::IpAddr;

use ldplayer_core::{RunTime, Transport};

use super::Key;
use crate::slab::{List, Slot};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing of it has been sent.
    Wanted,
    /// The first packet is sent, and nothing has come back.
    Opening,
    /// The server has been heard of, and a handshake is under way.
    Handshaking,
    /// Queries can be written.
    Open,
    /// As before, and nothing is outstanding.
    Idle,
}

/// On what terms a server keeps a connection: what a machine adds to one, as far as its end depends on it.
pub trait Terms {
    /// How long the connection may be idle by the server's word, in nanoseconds, where that is less than the client's `own`
    /// time.
    fn server_idle_timeout(&self, own: i64) -> Option<i64>;

    /// Whether the server takes no more queries on it.
    fn is_leaving(&self) -> bool;
}

/// One connection.
#[derive(Debug)]
pub struct Connection<C> {
    /// Number within the run.
    pub number: u64,
    /// When its opening began; then when its handshake did; once it is idle, since when.
    pub(super) since: RunTime,
    /// The client as recorded.
    pub client: IpAddr,
    /// The address it is opened from, where it must be set.
    pub source: Option<IpAddr>,
    /// Local port, 0 until it is known.
    pub port: u16,
    /// What is spoken on it.
    pub transport: Transport,
    /// The number of the server that it goes to.
    pub(super) server: u32,
    /// The class of its client.
    pub class: Option<u8>,
    /// Where it stands.
    pub(super) state: State,
    /// Queries assigned so far.
    pub(super) taken: u32,
    /// Requests not written.
    pub(super) queue: List<1>,
    /// Requests written and not answered.
    pub(super) outstanding: List<1>,
    /// What its machine adds.
    pub own: C,
}

impl<C> Connection<C> {
    /// Who uses it, and for what.
    pub const fn key(&self) -> Key {
        Key { client: self.client, transport: self.transport, server: self.server }
    }

    /// Where it stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// When its opening began; then when its handshake did; once it is idle, since when.
    pub const fn since(&self) -> RunTime {
        self.since
    }

    /// The first request that is not written.
    pub fn first_queued(&self) -> Option<Slot> {
        self.queue.first()
    }

    /// The first request that is written and not answered.
    pub fn first_written(&self) -> Option<Slot> {
        self.outstanding.first()
    }

    /// Requests that are not written.
    pub const fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Queries on it that are not answered.
    pub const fn load(&self) -> usize {
        self.queue.len() + self.outstanding.len()
    }

    /// Whether queries can be written now.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::Idle)
    }

    /// Whether it is on its way up.
    pub const fn is_connecting(&self) -> bool {
        matches!(self.state, State::Opening | State::Handshaking)
    }
}
