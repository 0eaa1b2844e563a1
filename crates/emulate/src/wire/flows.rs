//! Per-flow state of the wire: packet counts, order, and progress of TCP streams.

use std::net::IpAddr;

use ldplayer_core::shard::client_hash;

use super::packet::{Headers, Segment};
use super::recent::Recent;
use ldplayer_core::random::subkey;

/// The endpoints of a flow, the lower one first. Fragments and packets without ports belong to flows of port 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    low: (IpAddr, u16),
    high: (IpAddr, u16),
    protocol: u8,
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    /// The random sequence.
    pub draws: u64,
    /// Packets so far.
    pub packets: u64,
    /// When the last of them arrives.
    pub last_due: i64,
    /// The sequence number after the furthest octet sent.
    next: Option<u32>,
}

/// Recently seen flows.
#[derive(Debug)]
pub struct Flows {
    seed: u64,
    recent: Recent<Key, [Direction; 2]>,
}

impl Flows {
    /// A table of at least `size` flows; when it is full, the least recently seen one is forgotten.
    pub fn new(size: usize, seed: u64) -> Self {
        Self { seed, recent: Recent::new(size) }
    }

    /// The direction of a packet.
    pub fn of(&mut self, headers: &Headers, now: i64) -> &mut Direction {
        let ports = headers.ports.filter(|_| headers.fragment.is_none()).unwrap_or((0, 0));
        let (source, destination) = ((headers.source, ports.0), (headers.destination, ports.1));
        let (low, high) = (source.min(destination), source.max(destination));
        let key = Key { low, high, protocol: headers.protocol };
        let hash = key.hash(self.seed);
        let flow = self.recent.at(hash, &key, now, |lost| [0, 1].map(|way| Direction::new(subkey(hash, way), lost)));
        &mut flow[usize::from(source != low)]
    }

    /// Number of forgotten flows.
    pub const fn forgotten(&self) -> u64 {
        self.recent.forgotten()
    }
}

impl Key {
    /// A hash that is the same on every machine and in every run.
    fn hash(&self, seed: u64) -> u64 {
        let ends = subkey(client_hash(self.low.0), client_hash(self.high.0));
        let ports = u64::from(self.low.1) << 32 | u64::from(self.high.1) << 16 | u64::from(self.protocol);
        subkey(subkey(seed, ends), ports)
    }
}

impl Direction {
    fn new(draws: u64, lost: u32) -> Self {
        Self { draws, packets: u64::from(lost) << 40, last_due: i64::MIN, next: None }
    }

    /// Notes a TCP segment; returns whether it is a retransmission. Packets of the same sender cannot overtake each other, so
    /// a segment that begins before the furthest octet was sent again (or is a keepalive probe).
    pub fn repeats(&mut self, segment: Segment) -> bool {
        let end = segment.sequence.wrapping_add(segment.length);
        // A SYN elsewhere in the sequence begins another connection between the same endpoints (RFC 9293 §3.4).
        let is_new = |next: u32| segment.syn && next.wrapping_sub(segment.sequence) != 1;
        let Some(next) = self.next.filter(|&next| !is_new(next)) else {
            self.next = Some(end);
            return false;
        };
        let is_before = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        if is_before(next, end) {
            self.next = Some(end);
        }
        segment.length > 0 && is_before(segment.sequence, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::made::{self, Made};

    #[test]
    fn both_directions_are_of_one_flow() {
        let mut flows = Flows::new(16, 1);
        let there = Headers::parse(&Made::udp("192.0.2.1:5", "192.0.2.2:53", b"").packet()).unwrap();
        let back = Headers::parse(&Made::udp("192.0.2.2:53", "192.0.2.1:5", b"").packet()).unwrap();
        flows.of(&there, 0).packets = 7;
        flows.of(&back, 0).packets = 9;
        assert_eq!((flows.of(&there, 0).packets, flows.of(&back, 0).packets), (7, 9));
        let draws = flows.of(&there, 0).draws;
        assert_ne!(draws, flows.of(&back, 0).draws);
    }

    #[test]
    fn all_fragments_of_a_datagram_are_of_one_flow() {
        let mut flows = Flows::new(16, 1);
        for fragment in made::fragments(&Made::udp("192.0.2.1:5", "192.0.2.2:53", &[0; 60]).packet(), 1, 24) {
            flows.of(&Headers::parse(&fragment).unwrap(), 0).packets += 1;
        }
        let later = made::fragments(&Made::udp("192.0.2.1:5", "192.0.2.2:53", &[0; 60]).packet(), 2, 24).remove(1);
        assert_eq!(flows.of(&Headers::parse(&later).unwrap(), 0).packets, 3);
    }

    #[test]
    fn what_was_sent_before_is_told() {
        let mut way = Direction::new(0, 0);
        let segment = |sequence, length, syn| Segment { sequence, length, syn, opens: syn };
        let first = u32::MAX - 10;
        assert!(!way.repeats(segment(first, 1, true)));
        assert!(way.repeats(segment(first, 1, true)), "a SYN once more");
        assert!(!way.repeats(segment(first + 1, 100, false)), "over the end of the numbers");
        assert!(!way.repeats(segment(first.wrapping_add(101), 0, false)), "an empty ACK");
        assert!(way.repeats(segment(first + 1, 100, false)));
        assert!(!way.repeats(segment(first.wrapping_add(101), 50, false)));
        assert!(!way.repeats(segment(5_000, 1, true)), "the next connection");
        assert!(!way.repeats(segment(5_001, 10, false)));
    }
}
