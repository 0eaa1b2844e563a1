//! One direction of a TCP connection: orders segments and extracts messages.

use std::collections::BTreeMap;

use ldplayer_core::message::HEADER;

use super::{FIN, Flow, SYN, Segment, Sink, Trouble};
use crate::packet::{Frame, word};

/// Maximum number of buffered octets of one direction.
const MAX_WAITING: usize = 256 * 1024;
/// Maximum distance of a segment from the expected sequence number, in both directions.
const MAX_APART: u64 = 1 << 20;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The next expected sequence number. Its upper half counts wrap-arounds, from 1.
    next: Option<u64>,
    /// The highest sequence number acknowledged by the peer.
    acknowledged: u64,
    /// Segments beyond `next`, each with its frame.
    waiting: BTreeMap<u64, Waiting>,
    waiting_octets: usize,
    /// Whether this direction is in the list of waiting directions.
    is_listed: bool,
    /// The beginning of a message, and the latest frame with a part of it.
    buffer: Vec<u8>,
    brought: Frame,
    /// Octets to come of a message that was cut.
    skip: usize,
    /// Whether the sender has finished (FIN or RST).
    pub finished: bool,
}

/// A segment that waits for an earlier one.
#[derive(Debug)]
struct Waiting {
    data: Vec<u8>,
    frame: Frame,
}

impl Direction {
    /// Buffered octets.
    pub fn octets(&self) -> usize {
        self.buffer.len() + self.waiting_octets
    }

    /// Whether this direction may have begun with a SYN of this sequence number.
    pub fn is_begun_by(&self, sequence: u32) -> bool {
        self.next.is_none_or(|next| next as u32 == sequence.wrapping_add(1))
    }

    /// The time since which segments wait, returned once whenever they begin to wait.
    pub fn begins_to_wait(&mut self) -> Option<i64> {
        let first = self.waiting.first_key_value().filter(|_| !self.is_listed)?;
        self.is_listed = true;
        Some(first.1.frame.time_ns)
    }

    /// Adds a segment; the flow has the frame that carried it.
    pub fn add(&mut self, segment: &Segment<'_>, flow: &Flow, sink: &mut impl Sink) {
        let mut sequence = segment.sequence;
        if segment.flags & SYN != 0 {
            sequence = sequence.wrapping_add(1);
            self.next.get_or_insert(start(sequence));
        }
        if !segment.payload.is_empty() {
            self.add_data(sequence, segment.payload, flow, sink);
        }
        let end = sequence.wrapping_add(segment.payload.len() as u32);
        if segment.missing > 0 && self.next.is_some_and(|next| next as u32 == end) {
            self.cut(segment.missing, flow, sink);
        }
        self.finished |= segment.flags & FIN != 0;
    }

    fn add_data(&mut self, sequence: u32, data: &[u8], flow: &Flow, sink: &mut impl Sink) {
        let Some(next) = self.next else {
            if !begins_message(data) {
                return sink.trouble(flow, Trouble::MidStream);
            }
            self.next = Some(start(sequence));
            return self.add_data(sequence, data, flow, sink);
        };
        let place = unwrap(sequence, next);
        if place.abs_diff(next) > MAX_APART {
            return self.lose_track(sequence, data, flow, sink);
        }
        if place > next {
            self.keep(place, data, flow.frame);
        } else {
            // A retransmission, possibly with new data at its end.
            let new = data.get((next - place) as usize..).unwrap_or_default();
            self.append(new, flow, sink);
            self.join(flow, sink);
        }
        self.skip_acknowledged(flow, sink);
        if self.waiting_octets > MAX_WAITING {
            self.jump(flow, sink);
        }
    }

    /// Notes that the peer has acknowledged everything up to this sequence number: what is missing is not in the capture.
    pub fn acknowledge(&mut self, sequence: u32, flow: &Flow, sink: &mut impl Sink) {
        let Some(next) = self.next else { return };
        let place = unwrap(sequence, next);
        if place.abs_diff(next) <= MAX_APART {
            self.acknowledged = self.acknowledged.max(place);
            self.skip_acknowledged(flow, sink);
        }
    }

    /// Skips segments that the peer has acknowledged but the capture lacks.
    fn skip_acknowledged(&mut self, flow: &Flow, sink: &mut impl Sink) {
        while self.waiting.first_key_value().is_some_and(|(&place, _)| place <= self.acknowledged) {
            self.jump(flow, sink);
        }
    }

    /// Skips missing segments that others have waited for since `limit` or longer.
    pub fn give_up(&mut self, limit: i64, flow: &Flow, sink: &mut impl Sink) {
        self.is_listed = false;
        while self.waiting.first_key_value().is_some_and(|(_, first)| first.frame.time_ns <= limit) {
            self.jump(flow, sink);
        }
    }

    /// Too much is missing: resynchronises as if the capture began here.
    fn lose_track(&mut self, sequence: u32, data: &[u8], flow: &Flow, sink: &mut impl Sink) {
        sink.trouble(flow, Trouble::Gap);
        self.forget();
        self.add_data(sequence, data, flow, sink);
    }

    /// Resets everything except membership in the list of waiting directions.
    fn forget(&mut self) {
        *self = Self { finished: self.finished, is_listed: self.is_listed, ..Self::default() };
    }

    /// Appends the next octets in order, and yields the messages completed by them.
    fn append(&mut self, data: &[u8], flow: &Flow, sink: &mut impl Sink) {
        if data.is_empty() {
            return;
        }
        // A message in several segments has the time of the latest.
        if self.buffer.is_empty() || self.brought.number < flow.frame.number {
            self.brought = flow.frame;
        }
        self.next = self.next.map(|next| next + data.len() as u64);
        let (skipped, data) = data.split_at(self.skip.min(data.len()));
        self.skip -= skipped.len();
        self.buffer.extend_from_slice(data);
        self.yield_messages(flow, sink);
    }

    /// Skips the last `missing` octets of a segment, which were not captured; yields the beginning of the message that they belong to.
    fn cut(&mut self, missing: usize, flow: &Flow, sink: &mut impl Sink) {
        self.next = self.next.map(|next| next + missing as u64);
        if self.skip == 0 {
            let length = word(&self.buffer, 0).map_or(0, usize::from);
            self.skip = (2 + length).saturating_sub(self.buffer.len());
            let beginning = self.buffer.get(2..).unwrap_or_default();
            sink.cut(flow, beginning);
            self.buffer.clear();
        }
        // If the message's length is missing, the start of the next message cannot be found.
        match self.skip.checked_sub(missing) {
            Some(rest) => self.skip = rest,
            None => self.forget(),
        }
    }

    /// Buffers a segment ahead, except for octets already buffered.
    fn keep(&mut self, mut place: u64, mut data: &[u8], frame: Frame) {
        while let Some(known) = self.waiting.get(&place) {
            let Some((_, rest)) = data.split_at_checked(known.data.len()).filter(|(_, rest)| !rest.is_empty()) else {
                return;
            };
            place += known.data.len() as u64;
            data = rest;
        }
        self.waiting_octets += data.len();
        self.waiting.insert(place, Waiting { data: data.to_vec(), frame });
    }

    /// Appends buffered segments that are now in order, each with its own time.
    fn join(&mut self, flow: &Flow, sink: &mut impl Sink) {
        while let (Some(next), Some(first)) = (self.next, self.waiting.first_entry()) {
            let place = *first.key();
            if place > next {
                break;
            }
            let Waiting { data, frame } = first.remove();
            self.waiting_octets -= data.len();
            let new = data.get((next - place) as usize..).unwrap_or_default();
            self.append(new, &Flow { frame, ..*flow }, sink);
        }
    }

    /// Skips the gap, and resumes at the next buffered segment that begins with a message.
    fn jump(&mut self, flow: &Flow, sink: &mut impl Sink) {
        sink.trouble(flow, Trouble::Gap);
        self.buffer.clear();
        self.skip = 0;
        while let Some(first) = self.waiting.first_entry() {
            if begins_message(&first.get().data) {
                self.next = Some(*first.key());
                return self.join(flow, sink);
            }
            self.waiting_octets -= first.remove().data.len();
        }
        self.next = None;
    }

    /// Yields the complete messages in the buffer. The first has the time of the frame that completed it; the others, and the
    /// rest, are from the segment added last.
    fn yield_messages(&mut self, flow: &Flow, sink: &mut impl Sink) {
        let mut at = 0;
        while let Some(length) = word(&self.buffer, at).map(usize::from) {
            if length < HEADER {
                sink.trouble(flow, Trouble::BadLength);
                return self.forget();
            }
            let Some(message) = self.buffer.get(at + 2..at + 2 + length) else { break };
            sink.message(&Flow { frame: self.brought, ..*flow }, message);
            self.brought = flow.frame;
            at += 2 + length;
        }
        self.buffer.drain(..at);
    }

    /// Yields the remaining messages at the end.
    pub fn finish(&mut self, flow: &Flow, sink: &mut impl Sink) {
        while !self.waiting.is_empty() && self.next.is_some() {
            self.jump(flow, sink);
        }
        if !self.buffer.is_empty() {
            sink.trouble(flow, Trouble::Gap);
        }
    }
}

/// A sequence number extended by the number of wrap-arounds.
fn start(sequence: u32) -> u64 {
    1 << 32 | u64::from(sequence)
}

/// Extends a sequence number to the value nearest to a given one.
fn unwrap(sequence: u32, near: u64) -> u64 {
    near.wrapping_add_signed(i64::from(sequence.wrapping_sub(near as u32) as i32))
}

/// Whether data look like the length and header of a DNS message: known opcode, few questions, reserved bit clear.
fn begins_message(data: &[u8]) -> bool {
    let length = word(data, 0).map_or(0, usize::from);
    let Some(flags) = word(data, 4) else { return false };
    let questions = word(data, 6).unwrap_or(u16::MAX);
    length >= HEADER && (flags >> 11) & 0xf <= 6 && flags & 0x0040 == 0 && questions <= 1
}
