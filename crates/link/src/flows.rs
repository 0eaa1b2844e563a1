//! Per-flow state of a link: packet counts, order, and progress of TCP streams.

use std::net::IpAddr;

use ldplayer_core::random::subkey;
use ldplayer_core::shard::client_hash;

use crate::recent::Recent;

/// Who sends a packet to whom. Fragments and packets without ports are of port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The sender's address and port.
    pub from: (IpAddr, u16),
    /// The receiver's.
    pub to: (IpAddr, u16),
    /// The number of the transport protocol.
    pub protocol: u8,
}

/// The endpoints of a flow, the lower one first.
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
    pub fn of(&mut self, ends: &Ends, now: i64) -> &mut Direction {
        let (low, high) = (ends.from.min(ends.to), ends.from.max(ends.to));
        let key = Key { low, high, protocol: ends.protocol };
        let hash = key.hash(self.seed);
        let flow = self.recent.at(hash, &key, now, |lost| [0, 1].map(|way| Direction::new(subkey(hash, way), lost)));
        &mut flow[usize::from(ends.from != low)]
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

    /// Notes a TCP segment that uses `length` sequence numbers from `sequence` on; returns whether it is a retransmission. Packets of
    /// the same sender cannot overtake each other, so a segment that begins before the furthest octet was sent again (or is a
    /// keepalive probe).
    pub fn repeats(&mut self, sequence: u32, length: u32, is_syn: bool) -> bool {
        let end = sequence.wrapping_add(length);
        // A SYN elsewhere in the sequence begins another connection between the same endpoints (RFC 9293 §3.4).
        let is_new = |next: u32| is_syn && next.wrapping_sub(sequence) != 1;
        let Some(next) = self.next.filter(|&next| !is_new(next)) else {
            self.next = Some(end);
            return false;
        };
        let is_before = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        if is_before(next, end) {
            self.next = Some(end);
        }
        length > 0 && is_before(sequence, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_of_one_flow() {
        let mut flows = Flows::new(16, 1);
        let [client, server] = [("192.0.2.1", 5), ("192.0.2.2", 53)].map(|(ip, port)| (ip.parse().unwrap(), port));
        let there = Ends { from: client, to: server, protocol: 17 };
        let back = Ends { from: server, to: client, protocol: 17 };
        flows.of(&there, 0).packets = 7;
        flows.of(&back, 0).packets = 9;
        assert_eq!((flows.of(&there, 0).packets, flows.of(&back, 0).packets), (7, 9));
        let draws = flows.of(&there, 0).draws;
        assert_ne!(draws, flows.of(&back, 0).draws);
    }

    #[test]
    fn what_was_sent_before_is_told() {
        let mut way = Direction::new(0, 0);
        let first = u32::MAX - 10;
        assert!(!way.repeats(first, 1, true));
        assert!(way.repeats(first, 1, true), "a SYN once more");
        assert!(!way.repeats(first + 1, 100, false), "over the end of the numbers");
        assert!(!way.repeats(first.wrapping_add(101), 0, false), "an empty ACK");
        assert!(way.repeats(first + 1, 100, false));
        assert!(!way.repeats(first.wrapping_add(101), 50, false));
        assert!(!way.repeats(5_000, 1, true), "the next connection");
        assert!(!way.repeats(5_001, 10, false));
    }
}
