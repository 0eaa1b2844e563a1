//! Which connections are idle, what is overdue, and when something will be.

use ldplayer_core::RunTime;

use super::{Connection, Life, State, Terms, place};
use crate::slab::{List, Slot};

impl<C: Terms, R: Default> Life<C, R> {
    /// A connection is idle from `now` on.
    pub(super) fn rest(&mut self, at: Slot, now: RunTime) {
        let is_told = self.is_told(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Idle;
        connection.since = now;
        let list = if is_told { &mut self.told_idle } else { &mut self.idle[place(connection.class)] };
        self.connections.append(list, at);
    }

    /// A connection is not idle any more, if it was.
    pub fn leave_idle(&mut self, at: Slot) {
        let is_told = self.is_told(at);
        let Some(connection) = self.connections.get_mut(at).filter(|it| it.state == State::Idle) else { return };
        connection.state = State::Open;
        let list = if is_told { &mut self.told_idle } else { &mut self.idle[place(connection.class)] };
        self.connections.unlink(list, at);
    }

    fn is_told(&self, at: Slot) -> bool {
        self.connections.get(at).is_some_and(|connection| self.told(connection).is_some())
    }

    /// How long a connection may be idle by its server's word, where that is less than its client's own time.
    pub(super) fn told(&self, connection: &Connection<C>) -> Option<i64> {
        connection.own.told(self.policy(connection.class).idle_timeout)
    }

    /// The connection that has been idle for longest; those that their server wants closed sooner come first.
    pub(super) fn longest_idle(&self) -> Option<Slot> {
        let first = self.idle.iter().filter_map(List::first);
        let oldest = || first.min_by_key(|&at| self.connections.get(at).map(|connection| connection.since));
        self.told_idle.first().or_else(oldest)
    }

    /// The connection that should have come up first, and when it should have.
    pub(super) fn first_opening(&self) -> Option<(RunTime, Slot)> {
        self.first_since(&self.opening, self.config.policy.connect_timeout)
    }

    /// The connection that is idle for long enough first, and when it is.
    pub(super) fn first_idle(&self) -> Option<(RunTime, Slot)> {
        let classes = self.idle.iter().zip(&self.policies);
        let of_classes = classes.filter_map(|(list, policy)| self.first_since(list, policy.idle_timeout));
        of_classes.chain(self.first_told()).min_by_key(|first| first.0)
    }

    fn first_told(&self) -> Option<(RunTime, Slot)> {
        let connection = self.connections.get(self.told_idle.first()?)?;
        self.first_since(&self.told_idle, self.told(connection)?)
    }

    fn first_since(&self, list: &List, timeout: i64) -> Option<(RunTime, Slot)> {
        let at = list.first()?;
        Some((self.connections.get(at)?.since + timeout, at))
    }

    /// The request that is given up first, and when it is.
    pub(super) fn first_waiting(&self) -> Option<(RunTime, Slot)> {
        self.first_deadline(&self.waiting)
    }

    /// The request whose late answer is not known any more first, and when that is.
    pub(super) fn first_lingering(&self) -> Option<(RunTime, Slot)> {
        self.first_deadline(&self.lingering)
    }

    fn first_deadline(&self, list: &List) -> Option<(RunTime, Slot)> {
        let slot = list.first()?;
        Some((self.requests.get(slot)?.deadline, slot))
    }

    /// When something is overdue next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let firsts = [self.first_opening(), self.first_idle(), self.first_waiting(), self.first_lingering()];
        firsts.into_iter().flatten().map(|first| first.0).min()
    }
}
