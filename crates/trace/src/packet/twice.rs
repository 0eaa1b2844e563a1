//! Datagrams that a capture has twice: seen on two interfaces, in two VLANs, before and behind a router, or by a mirror of both directions.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;

use foldhash::{fast, quality};

use super::{Frame, word};

/// How long after a datagram a copy of it is one, in nanoseconds: a client repeats a question after a timeout.
const WITHIN: i64 = 1_000_000;
/// The most datagrams that are remembered.
const REMEMBERED: usize = 1 << 16;

/// Where a packet was seen, and which one of its sender's it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sight {
    /// What [`place`] says of the frame.
    pub place: u64,
    /// The VLAN and tunnel around the packet.
    outer: u64,
    /// Time to live, or hop limit.
    ttl: u8,
    /// The identification of IPv4 (RFC 791), which IPv6 has not.
    id: Option<u16>,
}

/// The interface that a frame was seen on and the addresses of its link: nothing that differs between two packets on one way.
pub(crate) fn place(frame: &Frame, octets: &[u8]) -> u64 {
    let link = match frame.link {
        // Ethernet: both addresses.
        1 => 0..12,
        // Linux cooked captures: type and address; the second version has the interface's index as well.
        113 => 0..14,
        276 => 4..20,
        // PF's log: the interface's name.
        117 => 4..20,
        _ => 0..0,
    };
    quality::FixedState::default().hash_one((frame.interface, octets.get(link)))
}

impl Sight {
    /// That of the IP packet `packet` at a place, in a VLAN or tunnel of the identity `outer`.
    pub fn of(place: u64, outer: u64, packet: &[u8]) -> Self {
        let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
        let ttl = packet.get(if is_v4 { 8 } else { 7 }).copied().unwrap_or(0);
        Self { place, outer, ttl, id: word(packet, 4).filter(|_| is_v4) }
    }

    /// Whether two sights of the same octets are of one packet: elsewhere, and under one identification. What comes again by the same way
    /// is a repetition of its sender, who may give all packets one identification (RFC 6864 §4.1).
    fn is_copy_of(&self, other: &Self) -> bool {
        let is_elsewhere = (self.place, self.outer, self.ttl) != (other.place, other.outer, other.ttl);
        self.id == other.id && is_elsewhere
    }
}

/// Recognises copies among the datagrams of a capture, in its order.
#[derive(Default)]
pub(crate) struct Twice {
    /// A seed of its own, so that nobody makes a capture of datagrams that pass for copies.
    hash: quality::RandomState,
    recent: HashMap<u64, (i64, Sight), fast::FixedState>,
    order: VecDeque<(i64, u64)>,
}

impl Twice {
    /// Whether a datagram is a copy of one that came shortly before.
    pub fn is_copy(&mut self, time_ns: i64, ends: (SocketAddr, SocketAddr), payload: &[u8], sight: Sight) -> bool {
        let key = self.hash.hash_one((ends, payload));
        let is_old = |(time, _): &(i64, u64)| time_ns.saturating_sub(*time) > WITHIN;
        while self.order.front().is_some_and(is_old) || self.order.len() >= REMEMBERED {
            let Some((time, key)) = self.order.pop_front() else { break };
            if self.recent.get(&key).is_some_and(|(last, _)| *last == time) {
                self.recent.remove(&key);
            }
        }
        let known = self.recent.get(&key).filter(|(time, _)| time_ns.abs_diff(*time) <= WITHIN as u64);
        if known.is_some_and(|(_, first)| sight.is_copy_of(first)) {
            return true;
        }
        self.recent.insert(key, (time_ns, sight));
        self.order.push_back((time_ns, key));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1_000;

    fn ends() -> (SocketAddr, SocketAddr) {
        ("192.0.2.1:4000".parse().unwrap(), "198.51.100.1:53".parse().unwrap())
    }

    fn sight(place: u64, ttl: u8, id: Option<u16>) -> Sight {
        Sight { place, outer: 0, ttl, id }
    }

    #[test]
    fn what_is_seen_elsewhere_within_a_millisecond_is_a_copy() {
        let seen = |first: Sight, second: Sight, after: i64| {
            let mut twice = Twice::default();
            assert!(!twice.is_copy(0, ends(), b"query", first));
            twice.is_copy(after, ends(), b"query", second)
        };
        let v4 = |place, ttl, id| sight(place, ttl, Some(id));
        assert!(seen(v4(1, 64, 7), v4(2, 64, 7), 5 * US), "another interface");
        assert!(seen(v4(1, 64, 7), Sight { outer: 9, ..v4(1, 64, 7) }, 5 * US), "another VLAN");
        assert!(seen(v4(1, 64, 0), v4(1, 63, 0), 1_000 * US), "behind a router");
        assert!(seen(sight(1, 64, None), sight(2, 64, None), 5 * US), "IPv6");
        assert!(!seen(v4(1, 64, 7), v4(1, 64, 8), 5 * US), "a client that asks again at once");
        assert!(!seen(v4(1, 64, 7), v4(2, 64, 8), 5 * US), "another packet by another way");
        assert!(!seen(v4(1, 64, 7), v4(1, 64, 7), 5 * US), "the same way: its sender repeats it");
        assert!(!seen(v4(1, 64, 7), v4(2, 64, 7), 1_001 * US), "too late");
    }

    /// Each of two packets on two interfaces: the second packet is not a copy of the first.
    #[test]
    fn a_repetition_that_is_also_seen_twice_counts_once() {
        let mut twice = Twice::default();
        let seen: Vec<bool> =
            [1, 2, 1, 2].map(|place| twice.is_copy(0, ends(), b"query", sight(place, 64, None))).to_vec();
        assert_eq!(seen, [false, true, false, true]);
    }

    #[test]
    fn other_ends_and_octets_are_others_and_memory_is_bounded() {
        let mut twice = Twice::default();
        let (from, to) = ends();
        assert!(!twice.is_copy(0, (from, to), b"query", sight(1, 64, Some(7))));
        assert!(!twice.is_copy(0, (to, from), b"query", sight(2, 64, Some(7))));
        assert!(!twice.is_copy(0, (from, to), b"other", sight(2, 64, Some(7))));
        for number in 0..2 * REMEMBERED as u32 {
            twice.is_copy(0, (from, to), &number.to_be_bytes(), Sight::default());
        }
        assert!(twice.order.len() <= REMEMBERED && twice.recent.len() <= REMEMBERED);
        twice.is_copy(i64::MAX / 2, (from, to), b"late", Sight::default());
        assert_eq!(twice.recent.len(), 1);
    }
}
