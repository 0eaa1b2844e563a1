//! Segments that arrive (RFC 9293 section 3.10.7, with the checks of RFC 5961 and RFC 7323).

use std::net::SocketAddr;

use ldplayer_core::{RunTime, time::NS_PER_S};

use super::connection::{EXTENDED, ORPHAN, State, TIMESTAMPS};
use super::output::{ACKNOWLEDGE, RESET, RESET_ACKNOWLEDGE, Reply};
use super::sequence::{after, before};
use super::{Event, Input, REPLIES, Tcp};
use crate::frame::{Flags, Segment};

/// Challenge acknowledgements in a second (RFC 5961 section 7).
const CHALLENGES: u32 = 1_000;

impl Tcp {
    /// Handles a segment from a server to an address of ours. Returns the data in order that came with it; other data in
    /// order that it makes available is told of by [`Event::Data`].
    pub fn handle_segment<'a>(
        &mut self,
        now: RunTime,
        from: SocketAddr,
        to: SocketAddr,
        segment: &Segment<'a>,
    ) -> Option<Input<'a>> {
        self.counts.segments_in += 1;
        let Some(slot) = self.find(to, from) else {
            self.refuse(from, to, segment);
            return None;
        };
        match self.connections[slot].state() {
            State::SynSent => self.handle_answer(now, slot, segment),
            State::TimeWait => {
                self.handle_late(now, slot, segment);
                None
            }
            _ => self.handle_known(now, slot, segment),
        }
    }

    /// A segment of no connection: it is reset (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, from: SocketAddr, to: SocketAddr, segment: &Segment<'_>) {
        self.counts.unknown += 1;
        if segment.flags.has(Flags::RST) {
            return;
        }
        let reply = if segment.flags.has(Flags::ACK) {
            Reply { sequence: segment.acknowledgement, ..Reply::new(to, from, RESET) }
        } else {
            let acknowledgement = segment.sequence.wrapping_add(segment.length());
            Reply { acknowledgement, ..Reply::new(to, from, RESET_ACKNOWLEDGE) }
        };
        self.reply(reply);
    }

    /// Puts an answer without a connection on its way.
    pub(super) fn reply(&mut self, reply: Reply) {
        if self.replies.len() == REPLIES {
            self.counts.replies_dropped += 1;
            return;
        }
        self.counts.resets_out += u64::from(reply.flags.has(Flags::RST));
        self.replies.push_back(reply);
    }

    fn handle_known<'a>(&mut self, now: RunTime, slot: u32, segment: &Segment<'a>) -> Option<Input<'a>> {
        if segment.flags.has(Flags::RST) {
            self.handle_reset(now, slot, segment);
            return None;
        }
        if !self.has_good_stamp(now, slot, segment) || !self.is_acceptable(now, slot, segment) {
            return None;
        }
        if segment.flags.has(Flags::SYN) {
            self.challenge(now, slot);
            return None;
        }
        if !segment.flags.has(Flags::ACK) {
            self.counts.meaningless += 1;
            return None;
        }
        if !self.handle_acknowledgement(now, slot, segment) {
            return None;
        }
        self.take_stamp(slot, segment);
        let is_more = !segment.payload.is_empty() || segment.flags.has(Flags::FIN);
        if is_more { self.take_data(now, slot, segment) } else { None }
    }

    /// RFC 5961 section 3.2: only the very next sequence number resets; others within the window are challenged.
    fn handle_reset(&mut self, now: RunTime, slot: u32, segment: &Segment<'_>) {
        let ahead = segment.sequence.wrapping_sub(self.connections[slot].received);
        if ahead == 0 {
            self.counts.resets_in += 1;
            self.tell(slot, Event::Reset);
            self.free(slot);
            return;
        }
        self.counts.resets_ignored += 1;
        if ahead < self.config.window {
            self.challenge(now, slot);
        }
    }

    /// RFC 7323 sections 3.2 and 5: timestamps never are absent or go back.
    fn has_good_stamp(&mut self, now: RunTime, slot: u32, segment: &Segment<'_>) -> bool {
        let connection = &self.connections[slot];
        if !connection.has(TIMESTAMPS) {
            return true;
        }
        match segment.options.timestamps {
            None => {
                self.counts.without_timestamp += 1;
                false
            }
            Some(stamps) if before(stamps.value, connection.recent) => {
                self.counts.paws += 1;
                self.acknowledge_now(now, slot);
                false
            }
            Some(_) => true,
        }
    }

    /// RFC 9293 section 3.4, table 6. What is not acceptable is acknowledged, keepalive probes among it.
    fn is_acceptable(&mut self, now: RunTime, slot: u32, segment: &Segment<'_>) -> bool {
        let received = self.connections[slot].received;
        let (length, window) = (segment.length(), self.config.window);
        let end = segment.sequence.wrapping_add(length);
        let begins_inside = before(segment.sequence, received.wrapping_add(window));
        let is_acceptable = match length {
            0 => segment.sequence == received || (after(segment.sequence, received) && begins_inside),
            _ => after(end, received) && begins_inside,
        };
        if !is_acceptable {
            self.counts.duplicates += 1;
            let is_keepalive = segment.sequence == received.wrapping_sub(1);
            // Answers to segments without data are limited: two sides out of step would answer each other for ever.
            if segment.flags.has(Flags::SYN) || (length == 0 && !is_keepalive) {
                self.challenge(now, slot);
            } else {
                self.acknowledge_now(now, slot);
            }
            self.count_arrival(slot, segment);
        }
        is_acceptable
    }

    /// RFC 7323 section 4.3: the timestamp of the segment that the next acknowledgement is about.
    fn take_stamp(&mut self, slot: u32, segment: &Segment<'_>) {
        let acknowledged = self.place(slot).map(|place| self.actives[place].acknowledged);
        let connection = &mut self.connections[slot];
        let acknowledged = acknowledged.unwrap_or(connection.received);
        if let Some(stamps) = segment.options.timestamps
            && connection.has(TIMESTAMPS)
            && !after(segment.sequence, acknowledged)
        {
            connection.recent = stamps.value;
        }
    }

    /// Takes data and FIN of a segment that overlaps our window, whose acknowledgement has been handled.
    pub(super) fn take_data<'a>(&mut self, now: RunTime, slot: u32, segment: &Segment<'a>) -> Option<Input<'a>> {
        let connection = &self.connections[slot];
        if !matches!(connection.state(), State::Established | State::FinWait1 | State::FinWait2) {
            self.counts.after_fin += 1;
            self.acknowledge_now(now, slot);
            return None;
        }
        let received = connection.received;
        let (first, octets) = trim(segment, received, self.config.window);
        if !octets.is_empty() && connection.has(ORPHAN) {
            self.counts.data_after_close += 1;
            self.reset(now, slot);
            return None;
        }
        let place = self.activate(slot, now);
        self.actives[place].is_pushed = segment.flags.has(Flags::PSH);
        self.count_arrival(slot, segment);
        let octets = self.take_octets(now, slot, place, first, octets);
        self.take_fin(place, segment);
        self.finish(now, slot, place);
        octets.map(|octets| Input { at: self.connections.handle(slot), octets })
    }

    /// Counts a segment with data, whether that is new or not.
    fn count_arrival(&mut self, slot: u32, segment: &Segment<'_>) {
        if let Some(place) = self.place(slot).filter(|_| !segment.payload.is_empty()) {
            let arrived = &mut self.actives[place].segments.arrived;
            *arrived = arrived.saturating_add(1);
        }
    }

    /// Takes the octets of a segment that begin at `first`; returns them if they are next, to be handed over.
    fn take_octets<'a>(
        &mut self,
        now: RunTime,
        slot: u32,
        place: u32,
        first: u32,
        octets: &'a [u8],
    ) -> Option<&'a [u8]> {
        if octets.is_empty() {
            self.queue(place);
            return None;
        }
        let received = self.connections[slot].received;
        let active = &self.actives[place];
        let is_next = first == received;
        let (has_gap, has_unread) = (active.has_gap(), active.has_unread());
        if is_next && !has_unread {
            let end = first.wrapping_add(octets.len() as u32);
            let next = if has_gap { self.actives.input(place, received).advance(end) } else { end };
            self.receive(now, slot, place, next, octets.len(), has_gap);
            if next != end {
                self.tell(slot, Event::Data);
            }
            self.actives.drop_empty_input(place);
            return Some(octets);
        }
        self.store(now, slot, place, first, octets);
        None
    }

    /// Stores octets that arrived out of order, or that the caller has not read yet.
    fn store(&mut self, now: RunTime, slot: u32, place: u32, first: u32, octets: &[u8]) {
        let received = self.connections[slot].received;
        let most = self.config.window.saturating_mul(2);
        let Some(next) = self.actives.input(place, received).store(received, first, octets, most) else {
            self.counts.dropped_octets += octets.len() as u64;
            self.actives.drop_empty_input(place);
            self.acknowledge_now(now, slot);
            return;
        };
        if next == received {
            self.counts.out_of_order += 1;
            let active = &mut self.actives[place];
            // Each is acknowledged on its own, so that the server can count them (RFC 5681 section 4.2).
            active.acks_due = active.acks_due.saturating_add(1);
            self.queue(place);
        } else {
            self.receive(now, slot, place, next, octets.len(), true);
            self.tell(slot, Event::Data);
        }
    }

    /// The stream goes on at `next`: says when that is acknowledged.
    fn receive(&mut self, now: RunTime, slot: u32, place: u32, next: u32, length: usize, filled_gap: bool) {
        let connection = &mut self.connections[slot];
        self.counts.octets_in += u64::from(next.wrapping_sub(connection.received));
        connection.received = next;
        let active = &mut self.actives[place];
        // Several segments arrive as one where the network device joins them.
        let full = length / usize::from(connection.mss.max(1));
        active.full_segments = active.full_segments.saturating_add(full.min(u8::MAX.into()) as u8);
        // More follows a full segment that is not pushed, and waits for this acknowledgement if the server uses Nagle's algorithm
        // and what is left does not fill another.
        let is_awaited = full > 0 && !active.is_pushed;
        let is_due = active.full_segments >= 2 || self.config.delayed_ack_ns <= 0;
        if filled_gap || is_awaited || is_due || length < usize::from(self.config.quick_ack_below) {
            active.ack_now();
        } else {
            active.ack_at = active.ack_at.min(now.0.saturating_add(self.config.delayed_ack_ns));
        }
        self.queue(place);
    }

    /// Notes where FIN is.
    fn take_fin(&mut self, place: u32, segment: &Segment<'_>) {
        if segment.flags.has(Flags::FIN) {
            let at = segment.sequence.wrapping_add(segment.payload.len() as u32);
            // The first one counts: another place is a forgery or a mistake.
            self.actives[place].peer_fin.get_or_insert(at);
        }
    }

    /// The server has closed, if all that was in front of its FIN has arrived.
    fn finish(&mut self, now: RunTime, slot: u32, place: u32) {
        let active = &mut self.actives[place];
        let Some(fin) = active.peer_fin else { return };
        let connection = &mut self.connections[slot];
        if after(fin, connection.received) {
            active.ack_now();
            return;
        }
        active.peer_fin = None;
        connection.received = connection.received.wrapping_add(1);
        active.ack_now();
        match connection.state() {
            State::Established => {
                connection.set_state(State::CloseWait);
                self.tell(slot, Event::Closed);
            }
            State::FinWait1 => connection.set_state(State::Closing),
            State::FinWait2 => self.wait(now, slot),
            _ => {}
        }
    }

    /// That an acknowledgement is sent with the next segments.
    pub(super) fn acknowledge_now(&mut self, now: RunTime, slot: u32) {
        let place = self.activate(slot, now);
        self.actives[place].ack_now();
        self.queue(place);
    }

    /// Answers what may be forged with the truth, so that a server that means it says it again (RFC 5961).
    pub(super) fn challenge(&mut self, now: RunTime, slot: u32) {
        let second = now.0.div_euclid(NS_PER_S);
        if self.challenges.0 != second {
            self.challenges = (second, 0);
        }
        if self.challenges.1 == CHALLENGES {
            self.counts.challenges_withheld += 1;
            return;
        }
        self.challenges.1 += 1;
        self.counts.challenge_acks += 1;
        self.acknowledge_now(now, slot);
    }

    /// A segment arrived in TIME_WAIT: FIN that is sent again is acknowledged, and the time begins anew. Resets are not
    /// believed (RFC 1337).
    fn handle_late(&mut self, now: RunTime, slot: u32, segment: &Segment<'_>) {
        if segment.flags.has(Flags::RST) {
            self.counts.resets_ignored += 1;
            return;
        }
        self.counts.duplicates += 1;
        if segment.flags.has(Flags::FIN) {
            self.wait_longer(now, slot);
            self.connections[slot].flags |= EXTENDED;
        }
        let is_bare = segment.length() == 0 && segment.sequence == self.connections[slot].received;
        if !is_bare {
            self.reply_from(now, slot, ACKNOWLEDGE);
        }
    }
}

/// The part of a segment's data within the window, and its sequence number.
fn trim<'a>(segment: &Segment<'a>, received: u32, window: u32) -> (u32, &'a [u8]) {
    let mut octets = segment.payload;
    let mut first = segment.sequence;
    if before(first, received) {
        let old = (received.wrapping_sub(first) as usize).min(octets.len());
        octets = &octets[old..];
        first = received;
    }
    let room = received.wrapping_add(window).wrapping_sub(first) as usize;
    (first, &octets[..octets.len().min(room)])
}
