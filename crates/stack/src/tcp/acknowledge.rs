//! Handles acknowledgements of the server: frees sent data and controls congestion (RFC 5681, RFC 6582).

use ldplayer_core::RunTime;

use super::active::{Active, NEVER};
use super::config::Config;
use super::connection::{Connection, State};
use super::sequence::{after, before};
use super::{Event, Tcp};
use crate::frame::{Flags, Segment};

/// Duplicate acknowledgements that mean a loss (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;

/// The congestion window of a connection that was idle or is new: ten segments (RFC 6928).
pub fn initial_window(mss: u16) -> u32 {
    10 * u32::from(mss)
}

impl Tcp {
    /// Takes an acknowledgement, and the window. Returns whether the segment may be looked at further: not if the
    /// connection is gone, or it acknowledges what never was (RFC 5961 section 5.2).
    pub(super) fn handle_acknowledgement(&mut self, now: RunTime, slot: u32, segment: &Segment<'_>) -> bool {
        let ack = segment.acknowledgement;
        let connection = &self.connections[slot];
        let (oldest, highest) = match self.place(slot) {
            Some(place) => (self.actives[place].unacknowledged, self.actives[place].highest),
            None => (connection.sent, connection.sent),
        };
        if after(ack, highest) || before(ack, oldest.wrapping_sub(connection.largest_window())) {
            self.counts.bad_acknowledgements += 1;
            self.challenge(now, slot);
            return false;
        }
        let is_new = after(ack, oldest);
        let is_duplicate = self.is_duplicate(slot, segment, oldest, highest);
        self.update_window(slot, segment, is_new, !before(ack, oldest));
        let Some(place) = self.place(slot) else { return true };
        if is_new {
            self.advance(now, slot, place, ack);
            return self.close_step(now, slot, place);
        }
        if is_duplicate {
            self.count_duplicate(slot, place, segment);
        }
        true
    }

    /// Updates the send window. Callers have already rejected old segments.
    fn update_window(&mut self, slot: u32, segment: &Segment<'_>, is_new: bool, is_current: bool) {
        let connection = &mut self.connections[slot];
        if is_new || is_current {
            let has_grown = segment.window > connection.window;
            connection.window = segment.window;
            if let (true, Some(place)) = (has_grown, self.place(slot)) {
                self.reopen(slot, place);
            }
        }
    }

    /// The window has grown: probing ends, if that was what the connection waited for.
    fn reopen(&mut self, slot: u32, place: u32) {
        let active = &mut self.actives[place];
        if active.closed_since != NEVER && self.connections[slot].window > 0 {
            active.closed_since = NEVER;
            active.probe_due = false;
            (active.backoff, active.retries) = (0, 0);
            // The octet of the probe is in flight now, like other data; data sent before the window closed is sent again.
            self.connections[slot].sent = active.unacknowledged;
            active.resend_at = NEVER;
        }
        self.queue(place);
    }

    /// RFC 5681 section 2: nothing but the same acknowledgement with the same window, while something is in flight.
    fn is_duplicate(&self, slot: u32, segment: &Segment<'_>, oldest: u32, highest: u32) -> bool {
        let is_bare = segment.payload.is_empty() && !segment.flags.has(Flags::FIN);
        let is_same = segment.acknowledgement == oldest && segment.window == self.connections[slot].window;
        is_bare && is_same && oldest != highest && segment.window > 0
    }

    fn advance(&mut self, now: RunTime, slot: u32, place: u32, ack: u32) {
        let config = &self.config;
        let connection = &mut self.connections[slot];
        let active = &mut self.actives[place];
        let octets = ack.wrapping_sub(active.unacknowledged);
        active.acknowledge(octets);
        active.unacknowledged = ack;
        if before(connection.sent, ack) {
            connection.sent = ack;
        }
        if let Some((end, since)) = active.timed.filter(|(end, _)| !before(ack, *end)) {
            debug_assert!(!after(end, ack));
            active.timed = None;
            active.rtt.measure(now.0 - since);
        }
        (active.backoff, active.retries, active.duplicates) = (0, 0, 0);
        active.is_unreachable = false;
        if active.output().is_empty() {
            active.closed_since = NEVER;
        }
        recover_or_grow(active, connection.mss, ack, octets);
        restart_timer(active, now, config);
        self.tell_room(slot, place);
        self.queue(place);
    }

    /// Tells the caller that there is room, once half of the buffer is free.
    pub(super) fn tell_room(&mut self, slot: u32, place: u32) {
        let active = &mut self.actives[place];
        if active.wants_room && active.output().len() <= self.config.send_buffer as usize / 2 {
            active.wants_room = false;
            self.tell(slot, Event::Writable);
        }
    }

    /// Goes on with closing, if our FIN is acknowledged. Returns whether the connection is still there.
    fn close_step(&mut self, now: RunTime, slot: u32, place: u32) -> bool {
        let active = &mut self.actives[place];
        let is_closed = active.has_fin && after(active.unacknowledged, active.end());
        if !is_closed {
            return true;
        }
        match self.connections[slot].state() {
            State::FinWait1 => {
                active.resend_at = now.0.saturating_add(self.config.fin_wait_ns);
                self.connections[slot].set_state(State::FinWait2);
                true
            }
            State::Closing => {
                self.wait(now, slot);
                false
            }
            State::LastAck => {
                self.free(slot);
                false
            }
            _ => true,
        }
    }

    fn count_duplicate(&mut self, slot: u32, place: u32, segment: &Segment<'_>) {
        let connection: &Connection = &self.connections[slot];
        let mss = u32::from(connection.mss);
        let flight = self.actives[place].flight(connection.sent);
        let active = &mut self.actives[place];
        active.duplicates = active.duplicates.saturating_add(1);
        if active.recover.is_some() {
            // Each one says that a segment has left the network.
            active.congestion = active.congestion.saturating_add(mss);
        } else if active.duplicates == DUPLICATES && may_recover(active, segment) {
            active.threshold = (flight / 2).max(2 * mss);
            active.congestion = active.threshold + u32::from(DUPLICATES) * mss;
            active.recover = Some(active.highest);
            active.resend_due = true;
            self.counts.fast_retransmits += 1;
        }
        self.queue(place);
    }
}

/// Whether a loss may be concluded: a selective acknowledgement, if there is one, must lie in flight.
fn may_recover(active: &Active, segment: &Segment<'_>) -> bool {
    let blocks = segment.options.sack.blocks();
    blocks.iter().all(|&(first, end)| after(end, first) && after(end, active.unacknowledged))
}

/// In recovery, a partial acknowledgement shows the next loss (RFC 6582 section 3.2); otherwise the window grows
/// (RFC 5681 section 3.1).
fn recover_or_grow(active: &mut Active, mss: u16, ack: u32, octets: u32) {
    let mss = u32::from(mss);
    match active.recover {
        Some(recover) if before(ack, recover) => {
            active.resend_due = true;
            active.congestion = active.congestion.saturating_sub(octets).saturating_add(mss).max(mss);
        }
        Some(_) => {
            active.recover = None;
            active.resend_due = false;
            active.congestion = active.threshold.min(active.congestion);
        }
        None if active.congestion < active.threshold => {
            active.congestion = active.congestion.saturating_add(octets.min(mss));
        }
        None => active.congestion = active.congestion.saturating_add((mss * mss / active.congestion.max(1)).max(1)),
    }
}

/// RFC 6298 sections 5.2 and 5.3.
fn restart_timer(active: &mut Active, now: RunTime, config: &Config) {
    active.resend_at = if active.unacknowledged == active.highest {
        NEVER
    } else {
        now.0.saturating_add(active.rtt.timeout(0, config))
    };
}
