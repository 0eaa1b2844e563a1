//! Name compression: offsets of names already in the message (RFC 1035 §4.1.4).

use crate::store::{Labels, SEED, extend};

/// Slots of the table; names beyond three quarters of it are not noted.
const SLOTS: usize = 1024;
/// The first offset that no pointer can have.
const BEYOND: usize = 0x4000;

/// The names of one message.
pub(crate) struct Names {
    slots: Box<[Slot; SLOTS]>,
    /// Marks the slots of this message.
    message: u32,
    noted: usize,
    hashes: Box<[u64; 129]>,
    /// Where pointers were written, when that is wanted.
    pub pointers: Option<Vec<u16>>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    message: u32,
    tag: u32,
    at: u16,
}

impl Names {
    pub fn new() -> Self {
        Self {
            slots: Box::new([Slot::default(); SLOTS]),
            message: 0,
            noted: 0,
            hashes: Box::new([0; 129]),
            pointers: None,
        }
    }

    /// Forgets all names.
    pub fn clear(&mut self) {
        self.noted = 0;
        self.message = self.message.wrapping_add(1);
        if self.message == 0 {
            self.slots.fill(Slot::default());
            self.message = 1;
        }
    }

    /// Notes a name that stands uncompressed at an offset of the message.
    pub fn note(&mut self, name: &[u8], offset: usize) {
        let mut lower = [0; 256];
        let labels = self.hash(name, &mut lower);
        for label in 0..labels.count() {
            self.insert(self.hashes[label], offset + labels.at(label));
        }
    }

    /// Appends a name to the message that begins at `base`, as short as what stands there allows.
    pub fn write(&mut self, name: &[u8], out: &mut Vec<u8>, base: usize) {
        let mut lower = [0; 256];
        let labels = self.hash(name, &mut lower);
        let found = (0..labels.count()).find_map(|label| {
            let suffix = &lower[labels.at(label)..name.len()];
            self.find(self.hashes[label], |at| stands_at(&out[base..], at, suffix)).map(|at| (label, at))
        });
        let (new, pointer) = found.map_or((labels.count(), None), |(label, at)| (label, Some(at)));
        let start = out.len() - base;
        for label in 0..new {
            self.insert(self.hashes[label], start + labels.at(label));
        }
        out.extend_from_slice(&name[..labels.at(new)]);
        match pointer {
            Some(at) => self.point(at, out, base),
            None => out.push(0),
        }
    }

    /// Appends a pointer.
    #[inline]
    pub fn point(&mut self, at: u16, out: &mut Vec<u8>, base: usize) {
        if let Some(pointers) = &mut self.pointers {
            // Messages with noted pointers are short.
            pointers.push((out.len() - base) as u16);
        }
        out.extend_from_slice(&(0xc000 | at).to_be_bytes());
    }

    /// The labels of a name, the name in lower case, and for each label the hash of the name from there on.
    fn hash(&mut self, name: &[u8], lower: &mut [u8; 256]) -> Labels {
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let labels = Labels::of(lower);
        let mut hash = SEED;
        for label in (0..labels.count()).rev() {
            hash = extend(hash, labels.label(lower, label));
            self.hashes[label] = hash;
        }
        labels
    }

    fn insert(&mut self, hash: u64, offset: usize) {
        if offset >= BEYOND || self.noted > SLOTS * 3 / 4 {
            return;
        }
        self.noted += 1;
        let mut at = hash as usize % SLOTS;
        while self.slots[at].message == self.message {
            at = (at + 1) % SLOTS;
        }
        self.slots[at] = Slot { message: self.message, tag: (hash >> 32) as u32, at: offset as u16 };
    }

    fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<u16> {
        let (mut at, tag) = (hash as usize % SLOTS, (hash >> 32) as u32);
        loop {
            let slot = self.slots[at];
            if slot.message != self.message {
                return None;
            }
            if slot.tag == tag && is_it(usize::from(slot.at)) {
                return Some(slot.at);
            }
            at = (at + 1) % SLOTS;
        }
    }
}

/// Whether a name in lower case stands at an offset. What was noted may have been taken back since.
fn stands_at(message: &[u8], mut at: usize, mut name: &[u8]) -> bool {
    // A name is no longer than its labels, with a pointer before each.
    for _ in 0..256 {
        let Some(&length) = message.get(at) else { return false };
        if length >= 0xc0 {
            let Some(&low) = message.get(at + 1) else { return false };
            let next = usize::from(u16::from_be_bytes([length & 0x3f, low]));
            if next >= at {
                return false;
            }
            at = next;
            continue;
        }
        let taken = 1 + usize::from(length);
        let same = match (message.get(at..at + taken), name.get(..taken)) {
            (Some(there), Some(here)) => there.eq_ignore_ascii_case(here),
            _ => false,
        };
        if !same || length == 0 {
            return same;
        }
        (at, name) = (at + taken, &name[taken..]);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(labels: &[u8]) -> Vec<u8> {
        let mut name: Vec<u8> = labels.iter().flat_map(|&octet| [1, octet]).collect();
        name.push(0);
        name
    }

    #[test]
    fn names_are_as_short_as_can_be_whatever_their_case() {
        let (mut names, mut out) = (Names::new(), vec![7, 7, 7]);
        names.clear();
        names.write(b"\x03ns1\x07example\0", &mut out, 1);
        names.write(b"\x03NS2\x07Example\0", &mut out, 1);
        names.write(b"\x03ns2\x07EXAMPLE\0", &mut out, 1);
        assert_eq!(out[3..], *b"\x03ns1\x07example\0\x03NS2\xc0\x06\xc0\x0f");
    }

    #[test]
    fn what_was_taken_back_is_not_pointed_to() {
        let (mut names, mut out) = (Names::new(), vec![0; 12]);
        names.clear();
        names.write(b"\x03ns1\x07example\0", &mut out, 0);
        out.truncate(12);
        out.extend_from_slice(b"\x03ns1\x07ex");
        names.write(b"\x03ns1\x07example\0", &mut out, 0);
        assert_eq!(out[19..], *b"\x03ns1\x07example\0");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(all in prop::collection::vec(prop::collection::vec(b'A'..b'd', 0..6), 0..40)) {
            let (mut names, mut out) = (Names::new(), vec![0; 12]);
            names.clear();
            for labels in &all {
                let (name, at) = (name(labels), out.len());
                names.write(&name, &mut out, 0);
                prop_assert!(stands_at(&out, at, &name));
                prop_assert!(out.len() - at <= name.len());
            }
        }
    }
}
