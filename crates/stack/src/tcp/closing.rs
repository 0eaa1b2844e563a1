//! The ends of connections: closing, resets, failures and TIME_WAIT.

use ldplayer_core::RunTime;

use super::connection::{ORPHAN, State, V6};
use super::index::NONE;
use super::output::{ACKNOWLEDGE, RESET_ACKNOWLEDGE};
use super::{Event, Failure, Handle, Tcp, milliseconds};

impl Tcp {
    /// Closes a connection when all that was written has been sent. The handle is dead; data that still arrives resets the
    /// connection, as nobody reads it. A connection that is not open yet is forgotten.
    pub fn close(&mut self, at: Handle, now: RunTime) {
        let Some(slot) = self.connections.slot(at) else { return };
        let next = match self.connections[slot].state() {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return self.free(slot),
        };
        let place = self.activate(slot, now);
        let active = &mut self.actives[place];
        active.has_fin = true;
        active.wants_room = false;
        let connection = &mut self.connections[slot];
        connection.set_state(next);
        connection.flags |= ORPHAN;
        self.queue(place);
    }

    /// Resets a connection. The handle is dead.
    pub fn abort(&mut self, at: Handle, now: RunTime) {
        let Some(slot) = self.connections.slot(at) else { return };
        if self.connections[slot].state() != State::SynSent {
            self.reset_out(now, slot);
        }
        self.free(slot);
    }

    /// Resets a connection that the caller has closed.
    pub(super) fn reset(&mut self, now: RunTime, slot: u32) {
        self.reset_out(now, slot);
        self.free(slot);
    }

    /// Sends a reset, which the server believes if its sequence number is the one that it expects: what it has acknowledged
    /// would be challenged where data is in flight (RFC 5961 section 3.2), so that it goes behind that.
    pub(super) fn reset_out(&mut self, now: RunTime, slot: u32) {
        if let Some(place) = self.place(slot) {
            self.connections[slot].sent = self.actives[place].highest;
        }
        self.reply_from(now, slot, RESET_ACKNOWLEDGE);
    }

    /// Ends a connection with a reason.
    pub(super) fn fail(&mut self, slot: u32, failure: Failure) {
        if self.connections[slot].state() == State::SynSent {
            self.counts.failed += 1;
        }
        if self.connections[slot].is_known() {
            let handle = self.connections.handle(slot);
            self.events.push_back(Event::Failed(handle, failure));
        }
        self.free(slot);
    }

    /// Forgets a connection that is not in TIME_WAIT.
    pub(super) fn free(&mut self, slot: u32) {
        self.deactivate(slot);
        self.forget_tuple(slot);
        self.connections.remove(slot);
    }

    fn forget_tuple(&mut self, slot: u32) {
        self.index.remove(&mut self.connections, slot);
        let connection = &self.connections[slot];
        if connection.has(V6) {
            self.addresses.release(connection.local);
        }
    }

    /// Both sides have closed, we first or at once: TIME_WAIT begins, with the acknowledgement of the server's FIN.
    pub(super) fn wait(&mut self, now: RunTime, slot: u32) {
        self.deactivate(slot);
        self.reply_from(now, slot, ACKNOWLEDGE);
        self.connections[slot].set_state(State::TimeWait);
        self.wait_longer(now, slot);
        self.append_waiting(slot);
    }

    /// TIME_WAIT begins anew.
    pub(super) fn wait_longer(&mut self, now: RunTime, slot: u32) {
        self.clock = self.clock.max(now.0);
        let ms = (self.config.time_wait_ns / 1_000_000).clamp(0, i32::MAX.into()) as u32;
        self.connections[slot].active = milliseconds(now).wrapping_add(ms);
    }

    pub(super) fn append_waiting(&mut self, slot: u32) {
        self.connections[slot].set_next_waiting(NONE);
        match self.waiting {
            (NONE, _) => self.waiting.0 = slot,
            (_, last) => self.connections[last].set_next_waiting(slot),
        }
        self.waiting.1 = slot;
    }

    /// The time of the first in TIME_WAIT is over.
    pub(super) fn end_wait(&mut self, slot: u32) {
        if self.connections[slot].state() == State::TimeWait {
            self.forget_tuple(slot);
        }
        self.connections.remove(slot);
    }

    /// The tuple of a connection in TIME_WAIT is used again (RFC 6191).
    pub(super) fn replace(&mut self, slot: u32) {
        self.counts.time_wait_reused += 1;
        self.forget_tuple(slot);
        self.connections[slot].set_state(State::Replaced);
    }
}
