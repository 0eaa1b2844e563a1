//! Delayed packets, released at their time: bounded, and free of allocations once warmed up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::HostId;

/// Packets up to this length are stored in small slots: most DNS messages are short.
const SMALL: usize = 256;
/// Slots allocated at once.
const CHUNK: usize = 64;

/// The delayed packets.
#[derive(Debug)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<Entry>>,
    small: Places,
    large: Places,
    number: u64,
    most: usize,
}

/// Ordered by time, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: i64,
    number: u64,
    to: HostId,
    place: u32,
    length: u32,
}

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<'a> {
    /// When it was due.
    pub due: i64,
    /// Its destination.
    pub to: HostId,
    /// Its octets.
    pub packet: &'a [u8],
}

/// Slots of one size.
#[derive(Debug)]
struct Places {
    size: usize,
    chunks: Vec<Box<[u8]>>,
    free: Vec<u32>,
}

impl Schedule {
    /// An empty schedule, for packets of up to `longest` octets and at most `most` of them.
    pub fn new(longest: usize, most: usize) -> Self {
        Self {
            heap: BinaryHeap::new(),
            small: Places::new(SMALL),
            large: Places::new(longest.max(SMALL)),
            number: 0,
            most,
        }
    }

    /// Stores a copy of `packet` for `to` until `due`; false if there is no room, or the packet is too long.
    pub fn push(&mut self, due: i64, to: HostId, packet: &[u8]) -> bool {
        if self.heap.len() >= self.most || packet.len() > self.large.size {
            return false;
        }
        let places = if packet.len() <= SMALL { &mut self.small } else { &mut self.large };
        let place = places.take();
        places.octets_mut(place)[..packet.len()].copy_from_slice(packet);
        self.number += 1;
        self.heap.push(Reverse(Entry { due, number: self.number, to, place, length: packet.len() as u32 }));
        true
    }

    /// When the next packet is due.
    pub fn next_due(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(entry)| entry.due)
    }

    /// The next packet, if it is due at `now`.
    pub fn pop(&mut self, now: i64) -> Option<Due<'_>> {
        self.next_due().filter(|&due| due <= now)?;
        let Reverse(Entry { due, to, place, length, .. }) = self.heap.pop()?;
        let length = length as usize;
        let places = if length <= SMALL { &mut self.small } else { &mut self.large };
        // The slot is free for the next `push`, which cannot happen while the octets are borrowed.
        places.free.push(place);
        Some(Due { due, to, packet: &places.octets_mut(place)[..length] })
    }

    /// The number of delayed packets.
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

impl Places {
    const fn new(size: usize) -> Self {
        Self { size, chunks: Vec::new(), free: Vec::new() }
    }

    /// A free slot.
    fn take(&mut self) -> u32 {
        if let Some(place) = self.free.pop() {
            return place;
        }
        let first = (self.chunks.len() * CHUNK) as u32;
        self.chunks.push(vec![0; CHUNK * self.size].into_boxed_slice());
        self.free.extend((first + 1..first + CHUNK as u32).rev());
        first
    }

    fn octets_mut(&mut self, place: u32) -> &mut [u8] {
        let (chunk, at) = (place as usize / CHUNK, place as usize % CHUNK * self.size);
        &mut self.chunks[chunk][at..at + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_come_out_by_time_and_those_of_one_time_as_they_came_in(times in proptest::collection::vec(0..20_i64, 0..300)) {
            let mut schedule = Schedule::new(1_500, 1_000);
            let packet = |number: usize| [number as u8].repeat(1 + number * 5);
            times.iter().enumerate().for_each(|(number, &due)| assert!(schedule.push(due, HostId(number as u8), &packet(number))));
            let mut expected: Vec<(i64, usize)> = times.iter().copied().enumerate().map(|(number, due)| (due, number)).collect();
            expected.sort_unstable();
            for (due, number) in expected {
                prop_assert_eq!(schedule.next_due(), Some(due));
                prop_assert_eq!(schedule.pop(due - 1), None);
                prop_assert_eq!(schedule.pop(due), Some(Due { due, to: HostId(number as u8), packet: &packet(number) }));
            }
            prop_assert_eq!(schedule.pop(i64::MAX), None);
        }
    }

    #[test]
    fn it_stays_bounded_and_places_are_used_again() {
        let mut schedule = Schedule::new(1_500, 100);
        for round in 0..50 {
            let pushed = (0..150).filter(|_| schedule.push(round, HostId(0), &[1; 300])).count();
            assert_eq!((pushed, schedule.len()), (100, 100));
            while schedule.pop(round).is_some() {}
        }
        assert_eq!(schedule.large.chunks.len(), 2);
        assert!(!schedule.push(0, HostId(0), &[0; 1_501]));
    }
}
