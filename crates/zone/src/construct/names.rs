//! Interned names: each has a number and a parent.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use ldplayer_core::name::labels;

/// The number of a name.
pub(super) type Name = u32;

/// The root.
pub(super) const ROOT: Name = 0;

/// All names seen, and their ancestors.
#[derive(Debug)]
pub(super) struct Names {
    octets: Vec<u8>,
    entries: Vec<Entry>,
    table: HashTable<Name>,
    hasher: FixedState,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    length: u8,
    depth: u8,
    parent: Name,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            octets: Vec::new(),
            entries: Vec::new(),
            table: HashTable::new(),
            hasher: FixedState::with_seed(0x6c64),
        };
        names.add(&[0], ROOT, 0);
        names
    }
}

impl Names {
    /// The number of an uncompressed name in lower case.
    pub fn intern(&mut self, wire: &[u8]) -> Name {
        if let Some(known) = self.find(wire) {
            return known;
        }
        let parent = self.intern(&wire[1 + usize::from(wire[0])..]);
        self.add(wire, parent, self.entries[parent as usize].depth + 1)
    }

    /// The number of a name, if it was seen.
    pub fn find(&self, wire: &[u8]) -> Option<Name> {
        self.table.find(self.hasher.hash_one(wire), |&name| self.wire(name) == wire).copied()
    }

    fn add(&mut self, wire: &[u8], parent: Name, depth: u8) -> Name {
        let (name, start) = (self.entries.len() as Name, self.octets.len() as u32);
        self.octets.extend_from_slice(wire);
        self.entries.push(Entry { start, length: wire.len() as u8, depth, parent });
        let (entries, octets, hasher) = (&self.entries, &self.octets, &self.hasher);
        let hash = |&name: &Name| hasher.hash_one(wire_of(&entries[name as usize], octets));
        self.table.insert_unique(hasher.hash_one(wire), name, hash);
        name
    }

    /// The name in wire format, in lower case.
    pub fn wire(&self, name: Name) -> &[u8] {
        wire_of(&self.entries[name as usize], &self.octets)
    }

    /// The number of labels without the root label.
    pub fn depth(&self, name: Name) -> u8 {
        self.entries[name as usize].depth
    }

    /// The parent of the name; the root is its own.
    pub fn parent(&self, name: Name) -> Name {
        self.entries[name as usize].parent
    }

    /// The name and its ancestors up to the root.
    pub fn upward(&self, name: Name) -> impl Iterator<Item = Name> {
        std::iter::successors(Some(name), |&name| (name != ROOT).then(|| self.parent(name)))
    }

    /// Whether `name` is `ancestor` or below it.
    pub fn is_within(&self, name: Name, ancestor: Name) -> bool {
        let depth = self.depth(ancestor);
        self.upward(name).find(|&name| self.depth(name) <= depth) == Some(ancestor)
    }

    /// The ancestor of `depth` labels, or the name where it has fewer.
    pub fn cut_to(&self, name: Name, depth: u8) -> Name {
        self.upward(name).find(|&name| self.depth(name) <= depth).unwrap_or(ROOT)
    }

    /// Whether the first label is `*`.
    pub fn is_wildcard(&self, name: Name) -> bool {
        labels(self.wire(name)).next() == Some(b"*")
    }
}

fn wire_of<'a>(entry: &Entry, octets: &'a [u8]) -> &'a [u8] {
    &octets[entry.start as usize..][..usize::from(entry.length)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_know_their_ancestors() {
        let mut names = Names::default();
        let name = names.intern(b"\x03www\x07example\x03com\0");
        let com = names.find(b"\x03com\0").unwrap();
        assert_eq!(names.intern(b"\x03www\x07example\x03com\0"), name);
        assert_eq!(names.depth(name), 3);
        assert_eq!(names.upward(name).count(), 4);
        assert!(names.is_within(name, com) && names.is_within(com, com) && names.is_within(com, ROOT));
        assert!(!names.is_within(com, name));
        assert_eq!(names.cut_to(name, 1), com);
    }
}
