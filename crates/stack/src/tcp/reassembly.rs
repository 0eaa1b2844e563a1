//! Out-of-order data, and in-order data that the caller has not read yet.

use super::sequence::{after, before, earlier, later};
use crate::frame::Sack;

/// Maximum number of out-of-order ranges. More are dropped and retransmitted by the server.
const RANGES: usize = 32;

/// The data of one connection. Memory is as much as the stream is ahead, up to the window.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Sequence number of the first of `octets`, the next octet to be read.
    base: u32,
    octets: Vec<u8>,
    /// Octets in order, from `base` on, that were not read.
    unread: u32,
    /// Ranges behind that: in order, apart, none empty. Each from its first to behind its last.
    ranges: Vec<(u32, u32)>,
    /// Where the latest segment begins, whose range is reported first (RFC 2018 section 4).
    latest: u32,
}

impl Reassembly {
    /// Begins anew: `next` is what the stream goes on with.
    pub fn start(&mut self, next: u32) {
        self.base = next;
        self.octets.clear();
        self.unread = 0;
        self.ranges.clear();
    }

    /// Octets that it holds memory for.
    pub fn capacity(&self) -> usize {
        self.octets.capacity()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.unread == 0 && self.ranges.is_empty()
    }

    /// Whether something waits to be read.
    pub fn has_unread(&self) -> bool {
        self.unread > 0
    }

    /// Whether there is out-of-order data.
    pub fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Stores what begins at `first`, which lies at `next`, where the stream goes on, or behind, if it ends at most `most`
    /// octets behind what is to be read next. Returns whether it did, and where the stream goes on now.
    pub fn store(&mut self, next: u32, first: u32, octets: &[u8], most: u32) -> Option<u32> {
        let end = first.wrapping_add(octets.len() as u32);
        let offset = first.wrapping_sub(self.base) as usize;
        let fits = end.wrapping_sub(self.base) <= most;
        if !fits || (first != next && !self.add_range(first, end)) {
            return None;
        }
        self.latest = first;
        let behind = offset + octets.len();
        if self.octets.len() < behind {
            self.octets.resize(behind, 0);
        }
        self.octets[offset..behind].copy_from_slice(octets);
        if first != next {
            return Some(next);
        }
        self.unread += octets.len() as u32;
        Some(self.advance(end))
    }

    /// The stream goes on at `next`, with octets up to which were handed over elsewhere unless some wait to be read. Returns
    /// where it goes on with what was ahead.
    pub fn advance(&mut self, next: u32) -> u32 {
        let mut next = next;
        if self.unread == 0 {
            self.skip_to(next);
        }
        while let Some(&(first, end)) = self.ranges.first().filter(|(first, _)| !after(*first, next)) {
            self.ranges.remove(0);
            debug_assert!(!before(end, first));
            if after(end, next) {
                self.unread += end.wrapping_sub(next);
                next = end;
            }
        }
        next
    }

    /// Copies what waits to be read, in order; returns how many octets.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.unread as usize);
        into[..count].copy_from_slice(&self.octets[..count]);
        self.unread -= count as u32;
        self.skip_to(self.base.wrapping_add(count as u32));
        count
    }

    /// The out-of-order ranges, the most recent first (RFC 2018 section 4).
    pub fn sack(&self) -> Sack {
        let is_latest = |&(first, end): &(u32, u32)| !before(self.latest, first) && before(self.latest, end);
        let mut sack = Sack::default();
        self.ranges.iter().filter(|range| is_latest(range)).for_each(|&range| sack.push(range));
        self.ranges.iter().filter(|range| !is_latest(range)).for_each(|&range| sack.push(range));
        sack
    }

    /// Forgets what lies before `next`.
    fn skip_to(&mut self, next: u32) {
        let count = (next.wrapping_sub(self.base) as usize).min(self.octets.len());
        self.octets.drain(..count);
        self.base = next;
    }

    /// Merges a range into the others; returns whether there was room for it.
    fn add_range(&mut self, mut first: u32, mut end: u32) -> bool {
        let from = self.ranges.partition_point(|range| before(range.1, first));
        let to = self.ranges.partition_point(|range| !after(range.0, end));
        if from == to && self.ranges.len() == RANGES {
            return false;
        }
        for range in &self.ranges[from..to] {
            (first, end) = (earlier(first, range.0), later(end, range.1));
        }
        self.ranges.splice(from..to, [(first, end)]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u32 = u32::MAX - 100;

    proptest! {
        #[test]
        fn pieces_in_any_order_become_the_stream(
            pieces in prop::collection::vec((0_usize..300, 1_usize..40, 0_usize..50), 0..200),
        ) {
            let stream: Vec<u8> = (0..400).map(|at| (at % 251) as u8).collect();
            let (mut reassembly, mut next, mut got) = (Reassembly::default(), START, Vec::<u8>::new());
            reassembly.start(START);
            for (at, length, room) in pieces {
                let done = next.wrapping_sub(START) as usize;
                let (from, to) = (at.max(done), (at + length).max(done));
                if from < to {
                    let first = START.wrapping_add(from as u32);
                    next = reassembly.store(next, first, &stream[from..to], 400).unwrap_or(next);
                }
                let mut into = vec![0; room];
                let count = reassembly.read(&mut into);
                got.extend(&into[..count]);
                prop_assert_eq!(&got[..], &stream[..got.len()]);
                let behind = |range: &(u32, u32)| after(range.0, next) && after(range.1, range.0);
                prop_assert!(reassembly.ranges.iter().all(behind) && reassembly.ranges.len() <= RANGES);
                prop_assert!(reassembly.ranges.windows(2).all(|pair| before(pair[0].1, pair[1].0)));
            }
            let mut rest = vec![0; 400];
            let count = reassembly.read(&mut rest);
            got.extend(&rest[..count]);
            prop_assert_eq!(got.len() as u32, next.wrapping_sub(START), "all in order is read");
        }
    }

    #[test]
    fn rfc_2018_section_4_the_range_that_arrived_last_is_told_first() {
        let mut reassembly = Reassembly::default();
        reassembly.start(0);
        for first in [10, 50, 30] {
            assert_eq!(reassembly.store(0, first, &[1; 10], 100), Some(0));
        }
        assert_eq!(reassembly.sack().blocks(), [(30, 40), (10, 20), (50, 60)]);
        assert_eq!(reassembly.advance(10), 20);
        assert_eq!(reassembly.sack().blocks(), [(30, 40), (50, 60)]);
    }

    #[test]
    fn what_is_beyond_the_bound_or_one_range_too_many_is_not_stored() {
        let mut reassembly = Reassembly::default();
        reassembly.start(0);
        assert_eq!(reassembly.store(0, 95, &[1; 6], 100), None);
        for range in 0..=RANGES as u32 {
            let stored = reassembly.store(0, 1 + 2 * range, &[1], 100);
            assert_eq!(stored.is_some(), range < RANGES as u32);
        }
    }
}
