//! Deadlines of connections: those being established, those idle, and the next one due.

use ldplayer_core::RunTime;

use super::{Class, Connection, ConnectionTable, State, Terms, place};
use crate::slab::{List, Slot};

impl<C: Terms, R: Default> ConnectionTable<C, R> {
    /// The server of a connection has answered, and its handshake is under way from `now` on.
    pub fn begin_handshake(&mut self, at: Slot, now: RunTime) {
        self.leave_connecting(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Handshaking;
        connection.since = now;
        let list = &mut self.classes[place(connection.class)].handshaking;
        self.connections.append(list, at);
    }

    /// A connection is not on its way up any more, if it was.
    pub(super) fn leave_connecting(&mut self, at: Slot) {
        let Some(connection) = self.connections.get(at) else { return };
        let class = &mut self.classes[place(connection.class)];
        match connection.state {
            State::Opening => self.connections.unlink(&mut class.opening, at),
            State::Handshaking => self.connections.unlink(&mut class.handshaking, at),
            State::Wanted | State::Open | State::Idle => {}
        }
    }

    /// Whether a connection is on its way up.
    pub(super) fn is_opening_any(&self) -> bool {
        self.classes.iter().any(|class| !class.opening.is_empty() || !class.handshaking.is_empty())
    }

    /// A connection is idle from `now` on.
    pub(super) fn rest(&mut self, at: Slot, now: RunTime) {
        let is_server_idle = self.is_server_idle(at);
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Idle;
        connection.since = now;
        let (class, active) = (connection.class, connection.take_dispensable());
        self.keep(active);
        let list = if is_server_idle { &mut self.server_idle } else { &mut self.classes[place(class)].idle };
        self.connections.append(list, at);
    }

    /// A connection is not idle any more, if it was.
    pub fn leave_idle(&mut self, at: Slot) {
        let is_server_idle = self.is_server_idle(at);
        let Some(connection) = self.connections.get_mut(at).filter(|it| it.state == State::Idle) else { return };
        connection.state = State::Open;
        let list = if is_server_idle { &mut self.server_idle } else { &mut self.classes[place(connection.class)].idle };
        self.connections.unlink(list, at);
    }

    fn is_server_idle(&self, at: Slot) -> bool {
        self.connections.get(at).is_some_and(|connection| self.server_idle_timeout(connection).is_some())
    }

    /// How long a connection may be idle by its server's word, where that is less than its client's own time.
    pub(super) fn server_idle_timeout(&self, connection: &Connection<C>) -> Option<i64> {
        connection.own.server_idle_timeout(self.policy(connection.class).idle_timeout)
    }

    /// The unparked connection that has been idle for longest, and since when.
    pub(super) fn longest_idle(&self) -> Option<(RunTime, Slot)> {
        let first = self.classes.iter().filter_map(|class| self.first_since(&class.idle, 0));
        first.min_by_key(|first| first.0)
    }

    /// The connection whose server should have answered first, and when it should have.
    pub(super) fn first_opening(&self) -> Option<(RunTime, Slot)> {
        self.first_of_classes(|class| (&class.opening, class.policy.connect_timeout))
    }

    /// The connection whose handshake should have been through first, and when it should have.
    pub(super) fn first_handshaking(&self) -> Option<(RunTime, Slot)> {
        self.first_of_classes(|class| (&class.handshaking, class.policy.handshake_timeout))
    }

    /// The connection that is idle for long enough first, and when it is.
    pub(super) fn first_idle(&self) -> Option<(RunTime, Slot)> {
        let own = self.first_of_classes(|class| (&class.idle, class.policy.idle_timeout));
        own.into_iter().chain(self.first_server_idle()).min_by_key(|first| first.0)
    }

    /// The first of all classes, each with a list and a timeout of its own.
    fn first_of_classes(&self, of: impl Fn(&Class) -> (&List, i64)) -> Option<(RunTime, Slot)> {
        let firsts = self.classes.iter().map(of).filter_map(|(list, timeout)| self.first_since(list, timeout));
        firsts.min_by_key(|first| first.0)
    }

    fn first_server_idle(&self) -> Option<(RunTime, Slot)> {
        let connection = self.connections.get(self.server_idle.first()?)?;
        self.first_since(&self.server_idle, self.server_idle_timeout(connection)?)
    }

    fn first_since(&self, list: &List, timeout: i64) -> Option<(RunTime, Slot)> {
        let at = list.first()?;
        Some((self.connections.get(at)?.since + timeout, at))
    }

    /// The request that is given up first, and when it is.
    pub(super) fn first_waiting(&self) -> Option<(RunTime, Slot)> {
        self.first_deadline(&self.waiting)
    }

    /// The request whose late answers are forgotten next, and when.
    pub(super) fn first_lingering(&self) -> Option<(RunTime, Slot)> {
        self.first_deadline(&self.lingering)
    }

    fn first_deadline(&self, list: &List) -> Option<(RunTime, Slot)> {
        let slot = list.first()?;
        Some((self.requests.get(slot)?.deadline, slot))
    }

    /// When something is overdue next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let connections = [self.first_opening(), self.first_handshaking(), self.first_idle(), self.first_parked()];
        let requests = [self.first_waiting(), self.first_lingering()];
        connections.into_iter().chain(requests).flatten().map(|first| first.0).min()
    }
}
