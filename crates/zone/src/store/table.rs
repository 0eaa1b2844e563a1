//! From names to numbers: an open hash table. The hash goes from the root label on, so that one pass serves all ancestors.

use ldplayer_net::ahead;

/// The hash of no labels, where all hashes of a table begin: the hash of the root, or of a zone's apex.
pub const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// An odd number with bits all over it.
const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;

/// The hash of a name, from its parent's hash and its first label with the length octet, in lower case.
#[inline]
pub fn extend(mut hash: u64, label: &[u8]) -> u64 {
    let mut chunks = label.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.iter().rev().fold(0, |word, &octet| word << 8 | u64::from(octet));
        hash = mix(hash, word);
    }
    let word = chunks.remainder().iter().rev().fold(0, |word, &octet| word << 8 | u64::from(octet));
    mix(hash, word)
}

#[inline]
const fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(FACTOR);
    product ^ product >> 32
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    /// The number plus one; 0 in an empty slot.
    number: u32,
}

/// The table; it never grows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    slots: Box<[Slot]>,
}

impl Table {
    /// An empty table for `count` names.
    pub fn with_capacity(count: usize) -> Self {
        let slots = (count * 4 / 3 + 1).next_power_of_two();
        Self { slots: vec![Slot::default(); slots].into_boxed_slice() }
    }

    /// Adds the number, below 2^32 - 1, of a name that is not in the table.
    pub fn insert(&mut self, hash: u64, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].number != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = Slot { tag: (hash >> 32) as u32, number: number + 1 };
    }

    /// The number with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let (mut at, tag) = (hash as usize & mask, (hash >> 32) as u32);
        loop {
            let slot = self.slots[at];
            let number = slot.number.checked_sub(1)?;
            if slot.tag == tag && is_it(number) {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Begins to fetch the first slots into the processor's caches.
    #[inline]
    pub fn fetch_first(&self, octets: usize) {
        ahead::fetch(&self.slots, octets);
    }

    /// Begins to fetch the slot in which a hash is looked for first.
    #[inline]
    pub fn fetch(&self, hash: u64) {
        let Some(mask) = self.slots.len().checked_sub(1) else { return };
        ahead::fetch(&self.slots[hash as usize & mask..][..1], size_of::<Slot>());
    }

    /// Octets of memory.
    pub const fn memory(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
    }
}
