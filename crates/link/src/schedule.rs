//! Delayed packets, released at their time: bounded, and free of allocations once warmed up.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Packets up to these lengths are stored in slots of that size: most DNS messages are short, and most others fit an Ethernet frame.
const SIZES: [usize; 2] = [256, 2_048];
/// Octets of all slots in use at most.
const OCTETS: usize = 512 << 20;
/// Slots allocated at once.
const CHUNK: usize = 64;

/// The delayed packets, each with a tag of the caller's: where it goes, or what is known of it.
#[derive(Debug)]
pub struct Schedule<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    /// Slots by size, the smallest first.
    places: Vec<Places>,
    /// Octets of the slots in use.
    octets: usize,
    number: u64,
    most: usize,
}

/// Ordered by time, then by arrival.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    due: i64,
    number: u64,
    place: u32,
    length: u32,
    tag: T,
}

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<'a, T> {
    /// When it was due.
    pub due: i64,
    /// What [`Schedule::push`] was told.
    pub tag: T,
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

impl<T> Entry<T> {
    const fn order(&self) -> (i64, u64) {
        (self.due, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl<T: Copy> Schedule<T> {
    /// An empty schedule, for packets of up to `longest` octets, and at most `most` of them and 512 MiB.
    pub fn new(longest: usize, most: usize) -> Self {
        let sizes = SIZES.into_iter().filter(|&size| size < longest).chain([longest]);
        let places = sizes.map(Places::new).collect();
        Self { heap: BinaryHeap::new(), places, octets: 0, number: 0, most }
    }

    /// Stores a copy of `packet` until `due`; false if there is no room, or the packet is too long.
    pub fn push(&mut self, due: i64, tag: T, packet: &[u8]) -> bool {
        let Some(places) = self.places.iter_mut().find(|places| packet.len() <= places.size) else { return false };
        if self.heap.len() >= self.most || self.octets + places.size > OCTETS {
            return false;
        }
        self.octets += places.size;
        let place = places.take();
        places.octets_mut(place)[..packet.len()].copy_from_slice(packet);
        self.number += 1;
        self.heap.push(Reverse(Entry { due, number: self.number, place, length: packet.len() as u32, tag }));
        true
    }

    /// When the next packet is due.
    pub fn next_due(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(entry)| entry.due)
    }

    /// The next packet, if it is due at `now`.
    pub fn pop(&mut self, now: i64) -> Option<Due<'_, T>> {
        self.next_due().filter(|&due| due <= now)?;
        let Reverse(Entry { due, place, length, tag, .. }) = self.heap.pop()?;
        let length = length as usize;
        let places = self.places.iter_mut().find(|places| length <= places.size)?;
        self.octets -= places.size;
        // The slot is free for the next `push`, which cannot happen while the octets are borrowed.
        places.free.push(place);
        Some(Due { due, tag, packet: &places.octets_mut(place)[..length] })
    }

    /// The number of delayed packets.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
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
            times.iter().enumerate().for_each(|(number, &due)| assert!(schedule.push(due, number, &packet(number))));
            let mut expected: Vec<(i64, usize)> = times.iter().copied().enumerate().map(|(number, due)| (due, number)).collect();
            expected.sort_unstable();
            for (due, number) in expected {
                prop_assert_eq!(schedule.next_due(), Some(due));
                prop_assert_eq!(schedule.pop(due - 1), None);
                prop_assert_eq!(schedule.pop(due), Some(Due { due, tag: number, packet: &packet(number) }));
            }
            prop_assert_eq!(schedule.pop(i64::MAX), None);
        }
    }

    #[test]
    fn it_stays_bounded_and_places_are_used_again() {
        let mut schedule = Schedule::new(1_500, 100);
        for round in 0..50 {
            let pushed = (0..150).filter(|_| schedule.push(round, (), &[1; 300])).count();
            assert_eq!((pushed, schedule.len()), (100, 100));
            while schedule.pop(round).is_some() {}
        }
        assert_eq!(schedule.places[1].chunks.len(), 2);
        assert!(!schedule.push(0, (), &[0; 1_501]) && schedule.octets == 0);
    }
}
