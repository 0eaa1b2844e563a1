//! From names to nodes: an open hash table. The hash goes from the root label on, so that one pass serves all ancestors.

/// The hash of the apex, where all hashes of a zone begin.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// An odd number with bits all over it.
const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;

/// The hash of a name from that of its parent and its first label with the length octet, in lower case.
#[inline]
pub(crate) fn extend(mut hash: u64, label: &[u8]) -> u64 {
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
    /// The node's position plus one; 0 in an empty slot.
    node: u32,
}

/// The table; it never grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    slots: Box<[Slot]>,
}

impl Table {
    /// An empty table for `count` names.
    pub fn with_capacity(count: usize) -> Self {
        let slots = (count * 4 / 3 + 1).next_power_of_two();
        Self { slots: vec![Slot::default(); slots].into_boxed_slice() }
    }

    /// Adds a node whose name is not in the table.
    pub fn insert(&mut self, hash: u64, node: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].node != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = Slot { tag: (hash >> 32) as u32, node: node + 1 };
    }

    /// The node with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let (mut at, tag) = (hash as usize & mask, (hash >> 32) as u32);
        loop {
            let slot = self.slots[at];
            let node = slot.node.checked_sub(1)?;
            if slot.tag == tag && is_it(node) {
                return Some(node);
            }
            at = (at + 1) & mask;
        }
    }

    /// Octets of memory.
    pub const fn memory(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
    }
}
