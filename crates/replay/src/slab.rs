//! A slab with intrusive lists: slots are reused, and an entry leaves its lists in constant time.
//!
//! All entries of a timeout list have the same timeout, so that a list in insertion order is sorted by deadline
//! and needs no timer wheel. Links are slot numbers, so that entries need no allocation.

/// A slot of the slab.
pub type Slot = u32;

/// The end of a list.
const NONE: Slot = Slot::MAX;

/// A list through a slab. `LINK` selects which of an entry's links it uses; an entry is on at most one list per link.
#[derive(Debug)]
pub struct List<const LINK: usize = 0> {
    first: Slot,
    last: Slot,
    length: u32,
}

impl<const LINK: usize> Default for List<LINK> {
    fn default() -> Self {
        Self { first: NONE, last: NONE, length: 0 }
    }
}

impl<const LINK: usize> List<LINK> {
    /// The number of entries.
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first entry.
    pub fn first(&self) -> Option<Slot> {
        (self.first != NONE).then_some(self.first)
    }
}

#[derive(Clone, Copy, Debug)]
struct Links {
    previous: Slot,
    next: Slot,
}

const UNLINKED: Links = Links { previous: NONE, next: NONE };

#[derive(Debug)]
struct Entry<T, const LINKS: usize> {
    value: T,
    links: [Links; LINKS],
}

/// Entries per block. Memory grows by blocks: no entry is ever moved, which would stall a worker with a million of
/// them, and no spare memory is reserved.
const BLOCK: usize = 1_024;

/// The slab: slots are reused, and memory grows to the maximum ever used.
#[derive(Debug)]
pub struct Slab<T, const LINKS: usize = 1> {
    blocks: Vec<Vec<Option<Entry<T, LINKS>>>>,
    used: usize,
    free: Vec<Slot>,
}

impl<T, const LINKS: usize> Default for Slab<T, LINKS> {
    fn default() -> Self {
        Self { blocks: Vec::new(), used: 0, free: Vec::new() }
    }
}

impl<T, const LINKS: usize> Slab<T, LINKS> {
    /// Stores a value, on no list, and returns its slot.
    pub fn insert(&mut self, value: T) -> Slot {
        let entry = Some(Entry { value, links: [UNLINKED; LINKS] });
        if let Some(slot) = self.free.pop() {
            self.blocks[slot as usize / BLOCK][slot as usize % BLOCK] = entry;
            return slot;
        }
        if self.used == self.blocks.len() * BLOCK {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        self.blocks[self.used / BLOCK].push(entry);
        self.used += 1;
        (self.used - 1) as Slot
    }

    /// Removes a value, which must be on no list.
    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.place(slot)?.take()?;
        self.free.push(slot);
        Some(entry.value)
    }

    /// The number of values.
    pub const fn len(&self) -> usize {
        self.used - self.free.len()
    }

    /// All occupied slots.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..self.used as Slot).filter(|&slot| self.get(slot).is_some())
    }

    /// The value in `slot`.
    pub fn get(&self, slot: Slot) -> Option<&T> {
        self.entry(slot).map(|entry| &entry.value)
    }

    /// The value in `slot`, mutable.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.place(slot)?.as_mut().map(|entry| &mut entry.value)
    }

    fn entry(&self, slot: Slot) -> Option<&Entry<T, LINKS>> {
        self.blocks.get(slot as usize / BLOCK)?.get(slot as usize % BLOCK)?.as_ref()
    }

    fn place(&mut self, slot: Slot) -> Option<&mut Option<Entry<T, LINKS>>> {
        self.blocks.get_mut(slot as usize / BLOCK)?.get_mut(slot as usize % BLOCK)
    }

    /// The next entry on the list of link `LINK`.
    pub fn next<const LINK: usize>(&self, slot: Slot) -> Option<Slot> {
        let next = self.entry(slot)?.links[LINK].next;
        (next != NONE).then_some(next)
    }

    /// Appends an entry to a list.
    pub fn append<const LINK: usize>(&mut self, list: &mut List<LINK>, slot: Slot) {
        let last = list.last;
        self.link::<LINK>(slot, Links { previous: last, next: NONE });
        match self.links::<LINK>(last) {
            Some(previous) => previous.next = slot,
            None => list.first = slot,
        }
        list.last = slot;
        list.length += 1;
    }

    /// Puts an entry onto a list before the first that is not `earlier`, which is looked for from the front, among `most` at most.
    pub fn insert_sorted<const LINK: usize>(
        &mut self,
        list: &mut List<LINK>,
        slot: Slot,
        most: usize,
        earlier: impl Fn(&T) -> bool,
    ) {
        let mut next = list.first();
        for _ in 0..most {
            let Some(at) = next.filter(|&at| self.get(at).is_some_and(&earlier)) else { break };
            next = self.next::<LINK>(at);
        }
        let Some(next) = next else { return self.append(list, slot) };
        let Some(links) = self.links::<LINK>(next) else { return };
        let previous = std::mem::replace(&mut links.previous, slot);
        match self.links::<LINK>(previous) {
            Some(links) => links.next = slot,
            None => list.first = slot,
        }
        self.link::<LINK>(slot, Links { previous, next });
        list.length += 1;
    }

    /// Removes an entry from its list.
    pub fn unlink<const LINK: usize>(&mut self, list: &mut List<LINK>, slot: Slot) {
        let Some(&mut Links { previous, next }) = self.links::<LINK>(slot) else { return };
        match self.links::<LINK>(previous) {
            Some(links) => links.next = next,
            None => list.first = next,
        }
        match self.links::<LINK>(next) {
            Some(links) => links.previous = previous,
            None => list.last = previous,
        }
        self.link::<LINK>(slot, UNLINKED);
        list.length -= 1;
    }

    fn links<const LINK: usize>(&mut self, slot: Slot) -> Option<&mut Links> {
        self.place(slot)?.as_mut().map(|entry| &mut entry.links[LINK])
    }

    fn link<const LINK: usize>(&mut self, slot: Slot, links: Links) {
        if let Some(place) = self.links::<LINK>(slot) {
            *place = links;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order<const LINK: usize>(slab: &Slab<u64, 2>, list: &List<LINK>) -> Vec<u64> {
        let mut at = list.first();
        let step = || {
            let slot = at?;
            at = slab.next::<LINK>(slot);
            slab.get(slot).copied()
        };
        std::iter::from_fn(step).collect()
    }

    #[test]
    fn slots_of_many_blocks_are_told_apart_and_used_again() {
        let mut slab = Slab::<usize>::default();
        let slots: Vec<Slot> = (0..3 * BLOCK).map(|number| slab.insert(number)).collect();
        assert!(slots.iter().enumerate().all(|(number, &slot)| slab.get(slot) == Some(&number)));
        assert_eq!(slab.remove(slots[BLOCK]), Some(BLOCK));
        assert_eq!((slab.len(), slab.get(slots[BLOCK]), slab.get(9 * BLOCK as Slot)), (3 * BLOCK - 1, None, None));
        assert_eq!(slab.slots().count(), slab.len());
        assert_eq!(slab.insert(7), slots[BLOCK]);
    }

    proptest! {
        #[test]
        fn two_lists_keep_their_order_through_any_removals(removed in prop::collection::vec(0usize..20, 0..40)) {
            let (mut slab, mut all, mut even) = (Slab::<u64, 2>::default(), List::<0>::default(), List::<1>::default());
            let slots: Vec<Slot> = (0..20).map(|number| slab.insert(number)).collect();
            slots.iter().for_each(|&slot| slab.append(&mut all, slot));
            slots.iter().step_by(2).for_each(|&slot| slab.append(&mut even, slot));
            let mut expected: Vec<u64> = (0..20).collect();
            for at in removed {
                if expected.contains(&(at as u64)) {
                    slab.unlink(&mut all, slots[at]);
                    if at % 2 == 0 {
                        slab.unlink(&mut even, slots[at]);
                    }
                    prop_assert_eq!(slab.remove(slots[at]), Some(at as u64));
                    expected.retain(|&number| number != at as u64);
                }
                prop_assert_eq!(order(&slab, &all), expected.clone());
                let halves: Vec<u64> = expected.iter().copied().filter(|number| number % 2 == 0).collect();
                prop_assert_eq!(even.len(), halves.len());
                prop_assert_eq!(order(&slab, &even), halves);
                prop_assert_eq!((all.len(), slab.len()), (expected.len(), expected.len()));
            }
        }
    }

    #[test]
    fn a_value_finds_its_place_on_a_sorted_list() {
        let (mut slab, mut list) = (Slab::<u64, 2>::default(), List::<0>::default());
        for value in [5, 3, 9, 3, 7] {
            let slot = slab.insert(value);
            slab.insert_sorted(&mut list, slot, 9, |&other| other <= value);
        }
        assert_eq!((order(&slab, &list), list.len()), (vec![3, 3, 5, 7, 9], 5));
        let last = slab.insert(10);
        slab.append(&mut list, last);
        slab.unlink(&mut list, 0);
        assert_eq!(order(&slab, &list), [3, 3, 7, 9, 10]);
    }

    #[test]
    fn slots_are_reused() {
        let mut slab = Slab::<u64>::default();
        let first = slab.insert(1);
        slab.remove(first);
        assert_eq!(slab.insert(2), first);
        assert!(slab.remove(99).is_none());
    }
}
