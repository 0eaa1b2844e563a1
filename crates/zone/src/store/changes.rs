//! What changed from one version of a zone to the next, as incremental transfers have it (RFC 1995 §4).

use std::sync::Arc;

use super::{HEAD, Walk, Zone};
use crate::rtype;

/// The records that are gone, and those that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The serial number of the older version.
    from: u32,
    /// The SOA record of the older version, what is gone, the SOA record of the newer one, what has come. Each has the length of its
    /// owner before it.
    records: Box<[u8]>,
}

/// How far an incremental transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The SOA record, the changes one after the other, and the SOA record again.
    part: usize,
    /// Octets of the part that are behind.
    octets: usize,
}

/// A record: its owner, and type, class, TTL, length and data.
type Record<'z> = (&'z [u8], &'z [u8]);

impl Changes {
    /// What changed between two versions of a zone; `None` unless the serial number has gone up.
    pub fn between(before: &Zone, after: &Zone) -> Option<Self> {
        let (from, to) = (before.serial()?, after.serial()?);
        if !is_newer(to, from) {
            return None;
        }
        let (old, new) = (before.sorted(), after.sorted());
        let mut records = Vec::new();
        push(before.soa_record()?, &mut records);
        old.iter().filter(|record| new.binary_search(record).is_err()).for_each(|&record| push(record, &mut records));
        push(after.soa_record()?, &mut records);
        new.iter().filter(|record| old.binary_search(record).is_err()).for_each(|&record| push(record, &mut records));
        Some(Self { from, records: records.into() })
    }

    /// The serial number of the older version.
    pub const fn from(&self) -> u32 {
        self.from
    }

    /// Octets of all records.
    pub const fn octets(&self) -> usize {
        self.records.len()
    }
}

fn push((owner, record): Record<'_>, records: &mut Vec<u8>) {
    // A name has at most 255 octets.
    records.push(owner.len() as u8);
    records.extend_from_slice(owner);
    records.extend_from_slice(record);
}

/// The record at the beginning, and how many octets it takes.
fn first(records: &[u8]) -> Option<(Record<'_>, usize)> {
    let (&length, rest) = records.split_first()?;
    let (owner, rest) = rest.split_at_checked(usize::from(length))?;
    let data = u16::from_be_bytes(*rest.get(HEAD - 2..)?.first_chunk()?);
    let record = rest.get(..HEAD + usize::from(data))?;
    Some(((owner, record), 1 + owner.len() + record.len()))
}

impl Progress {
    /// Whether all of so many changes are behind.
    pub const fn is_done(&self, changes: usize) -> bool {
        self.part > changes + 1
    }
}

impl Zone {
    /// The next record of an incremental transfer. The changes end at this version of the zone.
    pub(crate) fn next_change<'z>(
        &'z self,
        changes: &'z [Arc<Changes>],
        progress: &mut Progress,
    ) -> Option<Record<'z>> {
        loop {
            let Progress { part, octets } = *progress;
            if part == 0 || part == changes.len() + 1 {
                *progress = Progress { part: part + 1, octets: 0 };
                return self.soa_record();
            }
            match first(&changes.get(part - 1)?.records[octets..]) {
                Some((record, length)) => {
                    progress.octets += length;
                    return Some(record);
                }
                None => *progress = Progress { part: part + 1, octets: 0 },
            }
        }
    }

    /// Octets of all records, names not compressed.
    pub fn octets(&self) -> usize {
        let mut walk = Walk::default();
        std::iter::from_fn(|| self.next_record(&mut walk)).map(|(owner, record)| owner.len() + record.len()).sum()
    }

    /// Whether another version has the same records.
    pub fn is_same(&self, other: &Self) -> bool {
        self.soa_record() == other.soa_record() && self.sorted() == other.sorted()
    }

    /// All records but the SOA record.
    fn sorted(&self) -> Vec<Record<'_>> {
        let mut walk = Walk::default();
        let all = std::iter::from_fn(|| self.next_record(&mut walk));
        let mut records: Vec<_> = all.filter(|(_, record)| record[..2] != rtype::SOA.to_be_bytes()).collect();
        records.sort_unstable();
        records
    }
}

/// Whether a serial number follows another one (RFC 1982 §3.2).
pub const fn is_newer(serial: u32, other: u32) -> bool {
    let ahead = serial.wrapping_sub(other);
    ahead != 0 && ahead < 1 << 31
}

#[cfg(test)]
mod tests;
