//! TCP reassembled as far as DNS needs it: length-prefixed messages of both directions (RFC 7766 §8).
//!
//! Segments may come out of order, twice, or not at all; a connection may have begun before the capture. What does not
//! arrive leaves a gap, which is counted, and reading goes on at the next segment that begins with a message.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hashbrown::HashMap;
use ldplayer_core::damage::Flaw;
use ldplayer_core::message::HEADER;

use super::{long, word};
use crate::source::Frame;

/// Connections followed at once at most.
const MAX_CONNECTIONS: usize = 65_536;
/// Octets kept of one direction that cannot be used yet.
const MAX_WAITING: usize = 256 * 1024;
/// Octets kept of all connections together.
const MAX_OCTETS: usize = 32 << 20;
/// How far ahead a segment may be, and how far behind.
const MAX_APART: u64 = 1 << 20;
/// How long a connection may be silent before it is forgotten, in nanoseconds of the trace.
const IDLE: i64 = 120_000_000_000;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;

/// A parsed segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    sequence: u32,
    flags: u8,
    payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads the header (RFC 9293 §3.1); `None` when it is damaged.
    pub fn parse(octets: &'a [u8]) -> Option<Self> {
        let header = usize::from(*octets.get(12)? >> 4) * 4;
        if header < 20 {
            return None;
        }
        Some(Self {
            source: word(octets, 0)?,
            destination: word(octets, 2)?,
            sequence: long(octets, 4)?,
            flags: *octets.get(13)?,
            payload: octets.get(header..)?,
        })
    }
}

/// What reassembly could not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Octets that never arrived.
    Gap,
    /// A length prefix too short for a DNS message.
    BadLength,
    /// Data of a connection that began before the capture, up to its first message.
    MidStream,
}

impl Trouble {
    /// Its name in the accounts.
    pub const fn flaw(self) -> Flaw {
        match self {
            Self::Gap => Flaw::TcpGap,
            Self::BadLength => Flaw::TcpBadLength,
            Self::MidStream => Flaw::TcpMidStream,
        }
    }
}

/// Takes what segments yield.
pub(crate) trait Sink {
    /// A message.
    fn message(&mut self, flow: &Flow, message: &[u8]);
    /// Something that could not be used.
    fn trouble(&mut self, flow: &Flow, trouble: Trouble);
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Number of the connection in the capture.
    pub stream: u64,
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// The frame at hand; at the end of a connection or capture, the last one of the connection.
    pub frame: Frame,
}

/// The connections of a capture.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    table: HashMap<[SocketAddr; 2], Connection>,
    opened: u64,
    /// Octets kept of all connections.
    octets: usize,
}

#[derive(Debug, Default)]
struct Connection {
    number: u64,
    last: Frame,
    /// From the lower to the higher address, and back.
    directions: [Direction; 2],
}

#[derive(Debug, Default)]
struct Direction {
    /// The sequence number that is due. The upper half counts how often the numbers have wrapped around, from 1.
    next: Option<u64>,
    /// Segments ahead of `next`.
    waiting: BTreeMap<u64, Vec<u8>>,
    waiting_octets: usize,
    buffer: Vec<u8>,
    finished: bool,
}

impl Reassembly {
    /// Adds a segment that `frame` carried.
    pub fn add(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        segment: &Segment<'_>,
        frame: &Frame,
        sink: &mut impl Sink,
    ) {
        let (key, side) = if from < to { ([from, to], 0) } else { ([to, from], 1) };
        self.make_room(frame.time_ns, sink);
        let known = self.table.get(&key);
        if segment.flags & SYN != 0 && known.is_some_and(|old| old.is_used(side, segment)) {
            self.close(&key, sink);
        } else if known.is_none() && segment.payload.is_empty() && segment.flags & SYN == 0 {
            // The last acknowledgements of a connection that is closed.
            return;
        }
        let opened = &mut self.opened;
        let connection = self.table.entry(key).or_insert_with(|| {
            *opened += 1;
            Connection { number: *opened - 1, ..Connection::default() }
        });
        connection.last = *frame;
        let direction = &mut connection.directions[side];
        let before = direction.octets();
        direction.add(segment, &Flow { stream: connection.number, from, to, frame: *frame }, sink);
        self.octets = self.octets + direction.octets() - before;
        let both_finished = connection.directions.iter().all(|direction| direction.finished);
        if segment.flags & RST != 0 || both_finished {
            self.close(&key, sink);
        }
    }

    /// Ends all connections, at the end of a capture.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let mut keys: Vec<_> = self.table.iter().map(|(key, connection)| (connection.last.number, *key)).collect();
        keys.sort_unstable();
        keys.iter().for_each(|(_, key)| self.close(key, sink));
    }

    fn close(&mut self, key: &[SocketAddr; 2], sink: &mut impl Sink) {
        let Some(mut connection) = self.table.remove(key) else { return };
        let [low, high] = *key;
        let ends = [(low, high), (high, low)];
        for (direction, (from, to)) in connection.directions.iter_mut().zip(ends) {
            self.octets -= direction.octets();
            direction.finish(&Flow { stream: connection.number, from, to, frame: connection.last }, sink);
        }
    }

    fn make_room(&mut self, now: i64, sink: &mut impl Sink) {
        if self.table.len() < MAX_CONNECTIONS && self.octets < MAX_OCTETS {
            return;
        }
        let mut old: Vec<_> = self.table.iter().map(|(key, connection)| (connection.last.time_ns, *key)).collect();
        old.sort_unstable();
        let idle = old.partition_point(|(seen, _)| now - seen > IDLE);
        // At least an eighth, so that this is not done for every segment.
        old.iter().take(idle.max(old.len().div_ceil(8))).for_each(|(_, key)| self.close(key, sink));
    }
}

impl Connection {
    /// Whether a SYN of this side begins another connection, rather than being sent again.
    fn is_used(&self, side: usize, syn: &Segment<'_>) -> bool {
        let direction = &self.directions[side];
        direction.finished || direction.next.is_some_and(|next| next as u32 != syn.sequence.wrapping_add(1))
    }
}

impl Direction {
    /// Octets kept.
    fn octets(&self) -> usize {
        self.buffer.len() + self.waiting_octets
    }

    fn add(&mut self, segment: &Segment<'_>, flow: &Flow, sink: &mut impl Sink) {
        let mut sequence = segment.sequence;
        if segment.flags & SYN != 0 {
            sequence = sequence.wrapping_add(1);
            self.next.get_or_insert(start(sequence));
        }
        if !segment.payload.is_empty() {
            self.add_data(sequence, segment.payload, flow, sink);
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
        let place = next.wrapping_add_signed(i64::from(sequence.wrapping_sub(next as u32) as i32));
        if place.abs_diff(next) > MAX_APART {
            return self.lose_track(sequence, data, flow, sink);
        }
        if place > next {
            self.keep(place, data);
        } else {
            // Sent again, perhaps with something new at its end.
            self.append(data.get((next - place) as usize..).unwrap_or_default());
        }
        self.join();
        self.yield_messages(flow, sink);
        if self.waiting_octets > MAX_WAITING {
            self.jump(flow, sink);
        }
    }

    /// More is missing than can be waited for: the connection is joined again as if the capture began here.
    fn lose_track(&mut self, sequence: u32, data: &[u8], flow: &Flow, sink: &mut impl Sink) {
        sink.trouble(flow, Trouble::Gap);
        *self = Self { finished: self.finished, ..Self::default() };
        self.add_data(sequence, data, flow, sink);
    }

    fn append(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
        self.next = self.next.map(|next| next + data.len() as u64);
    }

    fn keep(&mut self, place: u64, data: &[u8]) {
        let longer = self.waiting.get(&place).is_none_or(|known| known.len() < data.len());
        if longer {
            let replaced = self.waiting.insert(place, data.to_vec());
            self.waiting_octets = self.waiting_octets + data.len() - replaced.map_or(0, |known| known.len());
        }
    }

    /// Appends the waiting segments that have become the next ones.
    fn join(&mut self) {
        while let (Some(next), Some(first)) = (self.next, self.waiting.first_entry()) {
            let place = *first.key();
            if place > next {
                break;
            }
            let data = first.remove();
            self.waiting_octets -= data.len();
            self.append(data.get((next - place) as usize..).unwrap_or_default());
        }
    }

    /// Gives up on what lacks and goes on at the next waiting segment that begins with a message.
    fn jump(&mut self, flow: &Flow, sink: &mut impl Sink) {
        sink.trouble(flow, Trouble::Gap);
        self.buffer.clear();
        while let Some(first) = self.waiting.first_entry() {
            if begins_message(first.get()) {
                self.next = Some(*first.key());
                self.join();
                return self.yield_messages(flow, sink);
            }
            self.waiting_octets -= first.remove().len();
        }
        self.next = None;
    }

    fn yield_messages(&mut self, flow: &Flow, sink: &mut impl Sink) {
        let mut at = 0;
        while let Some(length) = word(&self.buffer, at).map(usize::from) {
            if length < HEADER {
                sink.trouble(flow, Trouble::BadLength);
                *self = Self { finished: self.finished, ..Self::default() };
                return;
            }
            let Some(message) = self.buffer.get(at + 2..at + 2 + length) else { break };
            sink.message(flow, message);
            at += 2 + length;
        }
        self.buffer.drain(..at);
    }

    /// Yields what can still be had when nothing more will come.
    fn finish(&mut self, flow: &Flow, sink: &mut impl Sink) {
        while !self.waiting.is_empty() && self.next.is_some() {
            self.jump(flow, sink);
        }
        if !self.buffer.is_empty() {
            sink.trouble(flow, Trouble::Gap);
        }
    }
}

/// A sequence number of which the wrap-arounds are counted from now on.
fn start(sequence: u32) -> u64 {
    1 << 32 | u64::from(sequence)
}

/// Whether data looks like the length and header of a DNS message: known opcode, few questions, reserved bit clear.
fn begins_message(data: &[u8]) -> bool {
    let length = word(data, 0).map_or(0, usize::from);
    let Some(flags) = word(data, 4) else { return false };
    let questions = word(data, 6).unwrap_or(u16::MAX);
    length >= HEADER && (flags >> 11) & 0xf <= 6 && flags & 0x0040 == 0 && questions <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Seen {
        messages: Vec<(u64, Vec<u8>)>,
        senders: Vec<SocketAddr>,
        troubles: Vec<Trouble>,
    }

    impl Sink for Seen {
        fn message(&mut self, flow: &Flow, message: &[u8]) {
            self.messages.push((flow.stream, message.to_vec()));
            self.senders.push(flow.from);
        }
        fn trouble(&mut self, _: &Flow, trouble: Trouble) {
            self.troubles.push(trouble);
        }
    }

    fn message(number: u8, length: usize) -> Vec<u8> {
        let mut message = vec![number; length];
        message[2..6].copy_from_slice(&[1, 0, 0, 1]);
        message
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u16).to_be_bytes()[..], message].concat()
    }

    fn segment(sequence: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
        Segment { source: 1_024, destination: 53, sequence, flags, payload }
    }

    fn replay(segments: &[Segment<'_>]) -> Seen {
        let (mut tcp, mut seen) = (Reassembly::default(), Seen::default());
        let (from, to) = ("192.0.2.1:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        segments.iter().for_each(|segment| tcp.add(from, to, segment, &Frame::default(), &mut seen));
        tcp.finish(&mut seen);
        seen
    }

    fn stream() -> (Vec<Vec<u8>>, Vec<u8>) {
        let messages: Vec<Vec<u8>> = (0..5).map(|number| message(number, 20 + 31 * usize::from(number))).collect();
        let octets = messages.iter().flat_map(|message| framed(message)).collect();
        (messages, octets)
    }

    proptest! {
        #[test]
        fn any_cut_order_and_repetition_yields_the_messages(
            cuts in prop::collection::btree_set(1_usize..410, 0..30),
            seed in any::<u64>(),
            start in any::<u32>(),
        ) {
            let (messages, octets) = stream();
            let mut bounds: Vec<usize> = cuts.into_iter().filter(|&cut| cut < octets.len()).collect();
            bounds.insert(0, 0);
            bounds.push(octets.len());
            let mut parts: Vec<Segment<'_>> = bounds
                .windows(2)
                .flat_map(|pair| [(pair[0], pair[1]), (pair[0], (pair[1] + 5).min(octets.len()))])
                .map(|(from, to)| segment(start.wrapping_add(1 + from as u32), 0, &octets[from..to]))
                .collect();
            let count = parts.len();
            (0..count).for_each(|at| parts.swap(at, (seed as usize).wrapping_mul(at + 7) % count));
            parts.insert(0, segment(start, SYN, &[]));
            let seen = replay(&parts);
            prop_assert_eq!(seen.messages.into_iter().map(|(_, message)| message).collect::<Vec<_>>(), messages);
            prop_assert!(seen.troubles.is_empty());
        }

        #[test]
        fn no_segments_make_it_panic(segments in prop::collection::vec((any::<u32>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)), 0..30)) {
            let segments: Vec<Segment<'_>> = segments.iter().map(|(sequence, flags, data)| segment(*sequence, *flags, data)).collect();
            replay(&segments);
        }

        #[test]
        fn no_octets_make_the_header_panic(octets in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Segment::parse(&octets);
        }
    }

    #[test]
    fn a_connection_that_began_before_the_capture_is_joined_at_a_message() {
        let (messages, octets) = stream();
        let second = 2 + messages[0].len();
        let seen = replay(&[segment(50, 0, &[0xff; 30]), segment(80, 0, &octets[second..])]);
        assert_eq!(seen.troubles, [Trouble::MidStream]);
        assert_eq!(seen.messages.len(), 4);
    }

    #[test]
    fn a_gap_is_told_and_reading_goes_on_behind_it() {
        let (messages, octets) = stream();
        let third = 4 + messages[0].len() + messages[1].len();
        let seen = replay(&[
            segment(0, SYN, &[]),
            segment(1, 0, &octets[..10]),
            segment(1 + third as u32, 0, &octets[third..]),
        ]);
        assert_eq!(seen.troubles, [Trouble::Gap]);
        assert_eq!(seen.messages.len(), 3);
    }

    #[test]
    fn what_a_reset_sets_free_keeps_its_sender() {
        let (mut tcp, mut seen) = (Reassembly::default(), Seen::default());
        let (client, server): (SocketAddr, SocketAddr) =
            ("192.0.2.9:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        let (one, two) = (framed(&message(1, 20)), framed(&message(2, 30)));
        tcp.add(server, client, &segment(0, SYN, &[]), &Frame::default(), &mut seen);
        tcp.add(server, client, &segment(1 + one.len() as u32, 0, &two), &Frame::default(), &mut seen);
        tcp.add(client, server, &segment(0, RST, &[]), &Frame::default(), &mut seen);
        assert_eq!((seen.senders, seen.messages.len(), seen.troubles), (vec![server], 1, vec![Trouble::Gap]));
        assert_eq!(tcp.octets, 0);
    }

    #[test]
    fn a_hole_too_wide_to_wait_for_is_told_and_left_behind() {
        let one = framed(&message(1, 20));
        let seen = replay(&[segment(0, SYN, &[]), segment(1, 0, &one), segment(3 << 20, 0, &one)]);
        assert_eq!((seen.messages.len(), seen.troubles), (2, vec![Trouble::Gap]));
    }

    #[test]
    fn unfinished_messages_of_all_connections_are_bounded_together() {
        let (mut tcp, mut seen) = (Reassembly::default(), Seen::default());
        let big = [&[0xff, 0xff][..], &message(1, 60_000)].concat();
        for port in 1_024..5_024 {
            let client = SocketAddr::new("192.0.2.1".parse().unwrap(), port);
            tcp.add(client, "192.0.2.2:53".parse().unwrap(), &segment(0, 0, &big), &Frame::default(), &mut seen);
            assert!(tcp.octets <= MAX_OCTETS + big.len());
        }
        assert!(!seen.troubles.is_empty());
    }

    #[test]
    fn a_port_used_again_is_another_connection() {
        let one = framed(&message(1, 20));
        let seen =
            replay(&[segment(0, SYN, &[]), segment(1, FIN, &one), segment(9_000, SYN, &[]), segment(9_001, FIN, &one)]);
        assert_eq!(seen.messages.iter().map(|(stream, _)| *stream).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_length_too_short_for_dns_is_told() {
        let seen = replay(&[segment(0, SYN, &[]), segment(1, 0, &[0, 3, 1, 2, 3])]);
        assert_eq!(seen.troubles, [Trouble::BadLength]);
    }
}
