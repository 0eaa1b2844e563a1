//! Timeouts: sending again (RFC 6298 section 5), probing closed windows, late acknowledgements, and the end of TIME_WAIT.

use ldplayer_core::RunTime;

use super::active::NEVER;
use super::connection::{EXTENDED, FAST_OPEN, State};
use super::index::NONE;
use super::{Failure, Tcp, milliseconds};

/// Timeouts that end TIME_WAIT are looked at when so many nanoseconds are over: a millisecond.
const MS: i64 = 1_000_000;

impl Tcp {
    /// When [`Self::handle_timeout`] has something to do; `None` if nothing is waited for. It may turn out to be nothing.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let waiting = self.first_waiting_ends();
        let next = self.wheel.next().into_iter().chain(waiting).min();
        next.map(RunTime)
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: RunTime) {
        while let Some(place) = self.wheel.expire(now.0) {
            self.handle_due(now, place);
        }
        self.end_waiting(now);
    }

    /// Sets the timer of a connection to its next deadline. One that is set for sooner is left, and looks again.
    pub(super) fn arm(&mut self, place: u32) {
        let deadline = self.actives[place].deadline();
        let is_late = self.wheel.deadline(place).is_none_or(|set| set > deadline);
        if deadline != NEVER && is_late {
            self.wheel.set(place, self.clock, deadline);
        }
    }

    fn handle_due(&mut self, now: RunTime, place: u32) {
        self.clock = self.clock.max(now.0);
        let active = &mut self.actives[place];
        if !active.is_used {
            return;
        }
        if active.ack_at <= now.0 {
            active.ack_at = NEVER;
            active.ack_now();
            self.queue(place);
        }
        if self.actives[place].resend_at <= now.0 {
            self.handle_silence(now, place);
        } else {
            self.arm(place);
        }
    }

    /// Nothing was acknowledged in time.
    fn handle_silence(&mut self, now: RunTime, place: u32) {
        let slot = self.actives[place].connection;
        self.actives[place].resend_at = NEVER;
        match self.connections[slot].state() {
            State::SynSent => self.synchronize_again(slot, place),
            State::FinWait2 => self.free(slot),
            _ if self.connections[slot].window() == 0 && !self.actives[place].output().is_empty() => {
                self.probe_window(now, slot, place);
            }
            _ => self.send_again(slot, place),
        }
    }

    fn synchronize_again(&mut self, slot: u32, place: u32) {
        let active = &mut self.actives[place];
        if active.retries >= self.config.syn_retries {
            return self.give_up(slot, place);
        }
        self.counts.timeouts += 1;
        active.retries += 1;
        active.backoff = active.backoff.saturating_add(1);
        active.syn_due = true;
        let connection = &mut self.connections[slot];
        // The data of SYN is forgotten, since SYN goes out without it now (RFC 7413 section 4.1.3).
        connection.sent = active.unacknowledged;
        if connection.has(FAST_OPEN) && active.syn_data > 0 {
            self.servers.get_mut(connection.server).is_fast_open_lost = true;
        }
        self.queue(place);
    }

    fn probe_window(&mut self, now: RunTime, slot: u32, place: u32) {
        let active = &mut self.actives[place];
        active.closed_since = active.closed_since.min(now.0);
        if now.0 - active.closed_since >= self.config.zero_window_ns {
            self.reset_out(now, slot);
            return self.fail(slot, Failure::ZeroWindow);
        }
        self.counts.probes += 1;
        active.probe_due = true;
        self.connections[slot].sent = active.unacknowledged;
        active.backoff = active.backoff.saturating_add(1);
        (active.recover, active.duplicates, active.resend_due) = (None, 0, false);
        self.queue(place);
    }

    /// Restarts at the first unacknowledged octet, with one segment (RFC 5681 section 3.1).
    fn send_again(&mut self, slot: u32, place: u32) {
        let active = &mut self.actives[place];
        let connection = &mut self.connections[slot];
        if active.unacknowledged == active.highest {
            return self.settle(place);
        }
        if active.retries >= self.config.retransmits {
            return self.give_up(slot, place);
        }
        self.counts.timeouts += 1;
        let mss = u32::from(connection.mss);
        if active.retries == 0 {
            active.threshold = (active.highest.wrapping_sub(active.unacknowledged) / 2).max(2 * mss);
        }
        active.retries += 1;
        active.backoff = active.backoff.saturating_add(1);
        active.congestion = mss;
        (active.recover, active.duplicates, active.resend_due, active.timed) = (None, 0, false, None);
        connection.sent = active.unacknowledged;
        self.queue(place);
    }

    fn give_up(&mut self, slot: u32, place: u32) {
        let is_unreachable = self.actives[place].is_unreachable;
        self.fail(slot, if is_unreachable { Failure::Unreachable } else { Failure::TimedOut });
    }

    fn first_waiting_ends(&self) -> Option<i64> {
        let (first, _) = self.waiting;
        if first == NONE {
            return None;
        }
        let connection = &self.connections[first];
        if connection.has(EXTENDED) {
            // It is in the way of others.
            return Some(self.clock);
        }
        let left = connection.active.wrapping_sub(milliseconds(RunTime(self.clock))) as i32;
        Some(self.clock.div_euclid(MS) * MS + i64::from(left.max(0)) * MS)
    }

    fn end_waiting(&mut self, now: RunTime) {
        self.clock = self.clock.max(now.0);
        let present = milliseconds(now);
        while self.waiting.0 != NONE {
            let slot = self.waiting.0;
            let connection = &mut self.connections[slot];
            let (is_over, is_extended) =
                (connection.active.wrapping_sub(present) as i32 <= 0, connection.has(EXTENDED));
            if !is_over && !is_extended {
                break;
            }
            self.waiting.0 = connection.next_waiting();
            if is_over {
                self.end_wait(slot);
            } else {
                connection.flags &= !EXTENDED;
                self.append_waiting(slot);
            }
        }
    }
}
