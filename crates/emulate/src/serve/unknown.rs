//! Questions without a zone in the set: a bounded list with counts.

use std::hash::BuildHasher;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Maximum number of questions listed by one worker.
pub const LISTED: usize = 10_000;
/// Average name length in octets, for one allocation.
const NAME: usize = 48;

/// A question, how often it was queried, and the first address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// QNAME in wire format and lower case.
    pub name: Box<[u8]>,
    /// QTYPE.
    pub qtype: u16,
    /// How often it was queried.
    pub count: u64,
    /// The address of the first query.
    pub address: IpAddr,
}

/// The list of one worker. All memory is allocated at the start.
#[derive(Debug)]
pub struct UnknownList {
    names: Vec<u8>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
    hasher: RandomState,
    unlisted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    length: u8,
    qtype: u16,
    hash: u64,
    count: u64,
    address: IpAddr,
}

impl UnknownList {
    /// An empty list with room for this many questions.
    pub fn new(listed: usize) -> Self {
        let hasher = RandomState::default();
        let (names, entries) = (Vec::with_capacity(listed * NAME), Vec::with_capacity(listed));
        Self { names, entries, table: HashTable::with_capacity(listed), hasher, unlisted: 0 }
    }

    /// Counts a question (name in wire format and lower case).
    pub fn add(&mut self, name: &[u8], qtype: u16, address: IpAddr) {
        let hash = self.hasher.hash_one((name, qtype));
        let is_it = |&at: &u32| {
            let entry = &self.entries[at as usize];
            entry.qtype == qtype && self.names[entry.start as usize..][..usize::from(entry.length)] == *name
        };
        if let Some(&at) = self.table.find(hash, is_it) {
            self.entries[at as usize].count += 1;
        } else if self.has_room(name) {
            let (start, length) = (self.names.len() as u32, name.len() as u8);
            self.names.extend_from_slice(name);
            self.entries.push(Entry { start, length, qtype, hash, count: 1, address });
            self.table.insert_unique(hash, self.entries.len() as u32 - 1, |&at| self.entries[at as usize].hash);
        } else {
            self.unlisted += 1;
        }
    }

    fn has_room(&self, name: &[u8]) -> bool {
        let listed = self.entries.len() < self.entries.capacity() && self.table.len() < self.table.capacity();
        listed && name.len() <= self.names.capacity() - self.names.len() && name.len() <= usize::from(u8::MAX)
    }

    /// The questions, and the number of unlisted ones.
    pub fn take(&mut self) -> (Vec<Unknown>, u64) {
        let name = |entry: &Entry| self.names[entry.start as usize..][..usize::from(entry.length)].into();
        let shown = |entry: &Entry| Unknown {
            name: name(entry),
            qtype: entry.qtype,
            count: entry.count,
            address: entry.address,
        };
        let all = self.entries.iter().map(shown).collect();
        self.names.clear();
        self.entries.clear();
        self.table.clear();
        (all, std::mem::take(&mut self.unlisted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn questions_are_listed_once_with_their_counts_until_the_list_is_full() {
        let mut list = UnknownList::new(2);
        for (name, qtype) in [(b"\x01a\0", 1), (b"\x01a\0", 1), (b"\x01a\0", 2), (b"\x01b\0", 1), (b"\x01a\0", 2)] {
            list.add(name, qtype, ASKED);
        }
        let entry = |qtype| Unknown { name: (*b"\x01a\0").into(), qtype, count: 2, address: ASKED };
        assert_eq!(list.take(), (vec![entry(1), entry(2)], 1));
        assert_eq!(list.take(), (Vec::new(), 0));
        list.add(b"\x01b\0", 1, ASKED);
        assert_eq!(list.take().0.len(), 1);
    }

    #[test]
    fn nothing_is_allocated_for_a_question() {
        let mut list = UnknownList::new(100);
        let before = (list.names.as_ptr(), list.entries.as_ptr(), list.table.capacity());
        for number in 0..1_000_u32 {
            let mut name = [0; 255];
            name[..4].copy_from_slice(&number.to_be_bytes());
            list.add(&name, 1, ASKED);
        }
        assert_eq!((list.names.as_ptr(), list.entries.as_ptr(), list.table.capacity()), before);
        let (listed, unlisted) = list.take();
        assert_eq!(listed.len() as u64 + unlisted, 1_000);
    }
}
