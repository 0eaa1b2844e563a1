//! TCP reassembly for DNS: length-prefixed messages of both directions (RFC 7766 §8).
//!
//! Segments may be reordered, duplicated or missing; a connection may have begun before the capture. Data after a missing segment
//! wait until the peer acknowledges it, or for a second of the capture. Then the gap is counted, and reading resumes at the next
//! segment that begins with a message. The time of a message is that of the segment that completed it, even if it was yielded later.

mod direction;

use std::collections::VecDeque;
use std::net::SocketAddr;

use hashbrown::HashMap;
use ldplayer_core::damage::Flaw;

use self::direction::Direction;
use super::{Frame, long, word};

/// Maximum number of connections tracked.
const MAX_CONNECTIONS: usize = 65_536;
/// Maximum number of directions that wait for a missing segment; beyond that, the gap that is oldest is skipped.
const MAX_HOLES: usize = 2 * MAX_CONNECTIONS;
/// Maximum number of buffered octets, over all connections.
const MAX_OCTETS: usize = 32 << 20;
/// Idle timeout of connections in nanoseconds of the trace.
const IDLE: i64 = 120_000_000_000;
/// Timeout for missing segments in nanoseconds of the trace.
const PATIENCE: i64 = 1_000_000_000;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// A parsed segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    payload: &'a [u8],
    /// Octets at the end of the payload that are missing from the capture.
    missing: usize,
}

impl<'a> Segment<'a> {
    /// Parses the header (RFC 9293 §3.1); `None` if malformed. The capture lacks the last `missing` octets of the segment.
    pub fn parse(octets: &'a [u8], missing: usize) -> Option<Self> {
        let header = usize::from(*octets.get(12)? >> 4) * 4;
        if header < 20 {
            return None;
        }
        Some(Self {
            source: word(octets, 0)?,
            destination: word(octets, 2)?,
            sequence: long(octets, 4)?,
            acknowledgement: long(octets, 8)?,
            flags: *octets.get(13)?,
            payload: octets.get(header..)?,
            missing,
        })
    }
}

/// Data that reassembly could not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Missing octets.
    Gap,
    /// A length prefix too short for a DNS message.
    BadLength,
    /// Data before the first message of a connection that began before the capture.
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

/// Receives messages and problems.
pub(crate) trait Sink {
    /// A message.
    fn message(&mut self, flow: &Flow, message: &[u8]);
    /// The beginning of a message. Its rest was not captured.
    fn cut(&mut self, flow: &Flow, beginning: &[u8]);
    /// Unusable data.
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
    /// Whether the sender opened the connection, if the capture shows who did.
    pub from_opener: Option<bool>,
    /// Of a message, the frame that completed it; of a problem, the frame that revealed it, which at the end of a connection or
    /// capture is the connection's last.
    pub frame: Frame,
}

/// The lower and the higher address of a connection.
type Key = [SocketAddr; 2];

/// The connections of a capture.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    table: HashMap<Key, Connection>,
    opened: u64,
    /// Buffered octets of all connections.
    octets: usize,
    /// Directions that wait for a missing segment, oldest first.
    holes: VecDeque<Hole>,
}

/// A direction that waits for a missing segment, and since when.
#[derive(Clone, Copy, Debug)]
struct Hole {
    since: i64,
    key: Key,
    side: usize,
    /// Distinguishes successive connections between the same addresses.
    number: u64,
}

#[derive(Debug, Default)]
struct Connection {
    number: u64,
    last: Frame,
    /// The side that sent a SYN first.
    opener: Option<usize>,
    /// Both directions, that from the lower to the higher address first.
    directions: [Direction; 2],
}

impl Reassembly {
    /// Adds a segment carried by `frame`.
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
            // The last acknowledgements of a closed connection.
            return;
        }
        let opened = &mut self.opened;
        let connection = self.table.entry(key).or_insert_with(|| {
            *opened += 1;
            Connection { number: *opened - 1, ..Connection::default() }
        });
        connection.last = *frame;
        connection.note_opener(side, segment.flags);
        let before = connection.octets();
        connection.add(&key, side, segment, frame, sink);
        self.octets = self.octets + connection.octets() - before;
        let number = connection.number;
        let waits = connection.directions[side].begins_to_wait().map(|since| Hole { since, key, side, number });
        let both_finished = connection.directions.iter().all(|direction| direction.finished);
        if segment.flags & RST != 0 || both_finished {
            self.close(&key, sink);
        } else if let Some(hole) = waits {
            self.holes.push_back(hole);
        }
        self.give_up(frame.time_ns, sink);
    }

    /// Whether missing segments have timed out at this time of the trace.
    pub fn is_due(&self, now: i64) -> bool {
        self.holes.front().is_some_and(|hole| now.saturating_sub(hole.since) > PATIENCE || self.is_crowded())
    }

    fn is_crowded(&self) -> bool {
        self.holes.len() > MAX_HOLES
    }

    /// Skips missing segments that have timed out.
    pub fn give_up(&mut self, now: i64, sink: &mut impl Sink) {
        while self.is_due(now) {
            let limit = if self.is_crowded() { i64::MAX } else { now.saturating_sub(PATIENCE) };
            let Some(hole) = self.holes.pop_front() else { return };
            let found = self.table.get_mut(&hole.key).filter(|connection| connection.number == hole.number);
            let Some(connection) = found else { continue };
            let flow = connection.flow(&hole.key, hole.side);
            let direction = &mut connection.directions[hole.side];
            let before = direction.octets();
            direction.give_up(limit, &flow, sink);
            self.octets = self.octets + direction.octets() - before;
            let since = direction.begins_to_wait();
            self.holes.extend(since.map(|since| Hole { since, ..hole }));
        }
    }

    /// Ends all connections, at the end of a capture.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let mut keys: Vec<_> = self.table.iter().map(|(key, connection)| (connection.last.number, *key)).collect();
        keys.sort_unstable();
        keys.iter().for_each(|(_, key)| self.close(key, sink));
    }

    fn close(&mut self, key: &Key, sink: &mut impl Sink) {
        let Some(mut connection) = self.table.remove(key) else { return };
        self.octets -= connection.octets();
        for side in 0..2 {
            let flow = connection.flow(key, side);
            connection.directions[side].finish(&flow, sink);
        }
    }

    fn make_room(&mut self, now: i64, sink: &mut impl Sink) {
        if self.table.len() < MAX_CONNECTIONS && self.octets < MAX_OCTETS {
            return;
        }
        let mut old: Vec<_> = self.table.iter().map(|(key, connection)| (connection.last.time_ns, *key)).collect();
        old.sort_unstable();
        let idle = old.partition_point(|(seen, _)| now.saturating_sub(*seen) > IDLE);
        // At least an eighth, so that this happens rarely.
        old.iter().take(idle.max(old.len().div_ceil(8))).for_each(|(_, key)| self.close(key, sink));
    }
}

impl Connection {
    /// Buffered octets.
    fn octets(&self) -> usize {
        self.directions.iter().map(Direction::octets).sum()
    }

    /// The flow of one direction, at the connection's last frame.
    fn flow(&self, key: &Key, side: usize) -> Flow {
        let from_opener = self.opener.map(|opener| opener == side);
        Flow { stream: self.number, from: key[side], to: key[1 - side], from_opener, frame: self.last }
    }

    fn note_opener(&mut self, side: usize, flags: u8) {
        if flags & SYN != 0 {
            self.opener.get_or_insert(if flags & ACK == 0 { side } else { 1 - side });
        }
    }

    /// Adds a segment of one side. Its acknowledgement is processed first, so that no answer is yielded before its
    /// query.
    fn add(&mut self, key: &Key, side: usize, segment: &Segment<'_>, frame: &Frame, sink: &mut impl Sink) {
        let (flow, other) = (self.flow(key, side), self.flow(key, 1 - side));
        if segment.flags & ACK != 0 {
            self.directions[1 - side].acknowledge(segment.acknowledgement, &other, sink);
        }
        self.directions[side].add(segment, &Flow { frame: *frame, ..flow }, sink);
    }

    /// Whether a SYN of this side begins a new connection; otherwise it is a retransmission.
    fn is_used(&self, side: usize, syn: &Segment<'_>) -> bool {
        let direction = &self.directions[side];
        direction.finished || !direction.is_begun_by(syn.sequence)
    }
}

#[cfg(test)]
mod tests;
