//! The state of a connection common to all machines: kept small, since a million of them may be idle.

use std::fmt::Debug;
use std::net::IpAddr;

use ldplayer_core::{RunTime, Transport};

use super::clients::Client;
use crate::slab::{List, Slot};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing of it has been sent.
    Wanted,
    /// The first packet is sent, and nothing has come back.
    Opening,
    /// The server has answered, and a handshake is under way.
    Handshaking,
    /// Queries can be written.
    Open,
    /// As before, and nothing is outstanding.
    Idle,
}

/// Per-connection state of a machine that decides when the server may close the connection.
pub trait Terms {
    /// What the machine adds to one that is not idle.
    type Active: Debug + Default;

    /// Whether an idle connection can do without this.
    fn is_dispensable(active: &Self::Active) -> bool;

    /// How long the connection may be idle by the server's word, in nanoseconds, where that is less than the client's `own`
    /// time.
    fn server_idle_timeout(&self, own: i64) -> Option<i64>;

    /// Whether the server takes no more queries on it.
    fn is_leaving(&self, active: Option<&Self::Active>) -> bool;
}

/// What a connection has while it is not idle.
#[derive(Debug, Default)]
pub struct Active<A> {
    /// Requests not written.
    pub(super) queue: List<1>,
    /// Requests written and not answered.
    pub(super) outstanding: List<1>,
    /// The address it is opened from, where it must be set.
    pub(super) source: Option<IpAddr>,
    /// What its machine adds.
    pub(super) own: A,
}

/// One connection.
#[derive(Debug)]
pub struct Connection<C: Terms> {
    /// Number within the run.
    pub number: u64,
    /// When its opening began; then when its handshake did; once it is idle, since when.
    pub(super) since: RunTime,
    /// The client as recorded.
    pub(super) client: Client,
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
    /// What it has while it is not idle; one that is idle has this only where it cannot do without.
    pub(super) active: Option<Box<Active<C::Active>>>,
    /// What its machine adds.
    pub own: C,
}

impl<C: Terms> Connection<C> {
    /// What its machine adds while it is not idle.
    pub fn active(&self) -> Option<&C::Active> {
        self.active.as_ref().map(|active| &active.own)
    }

    /// The same, to be changed.
    pub fn active_mut(&mut self) -> &mut C::Active {
        &mut self.active.get_or_insert_default().own
    }

    /// Drops what an idle connection can do without.
    pub fn tidy(&mut self) {
        if self.state == State::Idle {
            self.take_dispensable();
        }
    }

    /// Takes what a connection without requests can do without.
    pub(super) fn take_dispensable(&mut self) -> Option<Box<Active<C::Active>>> {
        self.active.take_if(|active| C::is_dispensable(&active.own))
    }

    /// Its requests, those written but unanswered and those not written, once it has ended.
    pub(super) fn into_lists(self) -> [List<1>; 2] {
        self.active.map_or_else(Default::default, |active| [active.outstanding, active.queue])
    }

    /// Whether it has requests that were written and not answered.
    pub fn awaits_answers(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.outstanding.is_empty())
    }

    /// Whether the server takes no more queries on it.
    pub fn is_leaving(&self) -> bool {
        self.own.is_leaving(self.active())
    }

    /// The address it is opened from, where it must be set.
    pub fn source(&self) -> Option<IpAddr> {
        self.active.as_ref()?.source
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
        self.active.as_ref()?.queue.first()
    }

    /// The first request that is written and not answered.
    pub fn first_written(&self) -> Option<Slot> {
        self.active.as_ref()?.outstanding.first()
    }

    /// Requests that are not written.
    pub fn queued(&self) -> usize {
        self.active.as_ref().map_or(0, |active| active.queue.len())
    }

    /// Requests that are written and not answered.
    pub(super) fn written(&self) -> usize {
        self.active.as_ref().map_or(0, |active| active.outstanding.len())
    }

    /// Queries assigned so far.
    pub const fn taken(&self) -> u32 {
        self.taken
    }

    /// Queries on it that are not answered.
    pub fn load(&self) -> usize {
        self.queued() + self.written()
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
