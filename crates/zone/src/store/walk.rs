//! All records of a zone, one after the other, with a place to go on from: for zone transfers.

use super::{Set, Zone, entries};
use crate::rtype;

/// How far a walk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    part: Part,
    /// Of a node, or of the NSEC3 records.
    at: u32,
    /// Of a node's sets.
    set: u32,
    /// Octets of the set that are behind.
    octets: u32,
}

/// Zone transfers begin and end with the SOA record (RFC 5936 §2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Start,
    Names,
    Hashes,
    End,
    Done,
}

impl Walk {
    /// Behind all records.
    pub const DONE: Self = Self::part(Part::Done);
    /// At the last record, which is the SOA record once more.
    pub const LAST: Self = Self::part(Part::End);

    /// Whether all records are behind.
    pub fn is_done(&self) -> bool {
        self.part == Part::Done
    }

    const fn part(part: Part) -> Self {
        Self { part, at: 0, set: 0, octets: 0 }
    }

    fn next_set(&mut self) {
        match self.part {
            Part::Names => self.set += 1,
            _ => self.at += 1,
        }
        self.octets = 0;
    }
}

impl Zone {
    /// The next record: its owner, and type, class, TTL, length and data as on the wire, names not compressed.
    pub(crate) fn next_record(&self, walk: &mut Walk) -> Option<(&[u8], &[u8])> {
        loop {
            let found = match walk.part {
                Part::Start | Part::End => {
                    *walk = Walk::part(if walk.part == Part::Start { Part::Names } else { Part::Done });
                    return self.soa_record();
                }
                Part::Names => self.set_of_names(walk),
                Part::Hashes => self.set_of_hashes(walk),
                Part::Done => return None,
            };
            let Some((owner, set)) = found else {
                *walk = Walk::part(if walk.part == Part::Names { Part::Hashes } else { Part::End });
                continue;
            };
            let rest = &self.octets[(set.start + walk.octets) as usize..set.end as usize];
            match entries(rest).next() {
                Some(record) => {
                    walk.octets += record.len() as u32;
                    return Some((owner, record));
                }
                None => walk.next_set(),
            }
        }
    }

    fn set_of_names(&self, walk: &mut Walk) -> Option<(&[u8], &Set)> {
        loop {
            let node = self.nodes.get(walk.at as usize)?;
            let Some(set) = self.sets_of(node).get(walk.set as usize) else {
                *walk = Walk { at: walk.at + 1, ..Walk::part(Part::Names) };
                continue;
            };
            if set.rtype == rtype::SOA {
                // The record is the first and the last; its signatures are here.
                walk.octets = walk.octets.max(set.signed_from - set.start);
            }
            return Some((self.name(node), set));
        }
    }

    fn set_of_hashes(&self, walk: &Walk) -> Option<(&[u8], &Set)> {
        let entry = self.denial.hashed_at(walk.at)?;
        Some((self.denial_owner(entry), self.set(entry.set)))
    }

    pub(super) fn soa_record(&self) -> Option<(&[u8], &[u8])> {
        let soa = self.set_of(&self.nodes[0], rtype::SOA)?;
        entries(self.wire(soa)).next().map(|record| (self.apex(), record))
    }

    /// The serial number of the SOA record.
    pub fn serial(&self) -> Option<u32> {
        serial(&self.soa_record()?.1[super::HEAD..])
    }
}

/// The serial number in the data of an SOA record, where names may be compressed: before four other numbers.
pub(crate) fn serial(data: &[u8]) -> Option<u32> {
    let number = data.get(data.len().checked_sub(20)?..)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}
