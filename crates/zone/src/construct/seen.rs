//! Observed record sets: each version once, with its sources, times and counts.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::history::History;
use super::names::Name;

/// The number of a version.
pub(super) type VersionId = u32;
/// The number of a server's address.
pub(super) type Server = u32;

/// End of a list.
const END: u32 = u32::MAX;

/// The section and authority of a record set in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SectionKind {
    /// In an authoritative answer.
    Answer,
    /// In the authority section of an authoritative response.
    Authority,
    /// In the authority section of a referral.
    Referral,
    /// In the additional section of an authoritative response.
    Additional,
    /// In the additional section of a referral.
    Glue,
}

impl SectionKind {
    /// Whether the response was authoritative.
    pub fn is_authoritative(self) -> bool {
        !matches!(self, Self::Referral | Self::Glue)
    }
}

/// A record set with this content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub owner: Name,
    pub rtype: u16,
    pub records: u16,
    pub signatures: u16,
    /// The greatest TTL seen: caches and some servers count down.
    pub ttl: u32,
    pub first: i64,
    pub last: i64,
    pub count: u32,
    start: u32,
    signed_from: u32,
    sightings: u32,
    hash: u64,
}

/// A server that sent a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub server: Server,
    pub kind: SectionKind,
    next: u32,
}

/// All versions of all record sets. Memory grows with the distinct records, not with the responses.
#[derive(Debug)]
pub(super) struct Versions {
    octets: Vec<u8>,
    versions: Vec<Version>,
    sightings: Vec<Sighting>,
    table: HashTable<VersionId>,
    hasher: FixedState,
    scratch: Vec<u8>,
    history: Option<History>,
}

/// A record set of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set<'a> {
    pub owner: Name,
    pub rtype: u16,
    pub ttl: u32,
    /// Data of the records, sorted.
    pub records: &'a [&'a [u8]],
    /// Data of the signatures.
    pub signatures: &'a [&'a [u8]],
}

impl Default for Versions {
    fn default() -> Self {
        Self {
            octets: Vec::new(),
            versions: Vec::new(),
            sightings: Vec::new(),
            table: HashTable::new(),
            hasher: FixedState::with_seed(0x7a63),
            scratch: Vec::new(),
            history: None,
        }
    }
}

impl Versions {
    /// Notes a record set of a response. `None` if there are more than 4 GiB of distinct data.
    pub fn add(&mut self, set: Set<'_>, server: Server, kind: SectionKind, time: i64) -> Option<VersionId> {
        self.scratch.clear();
        let records = distinct(set.records, &mut self.scratch);
        let hash = self.hasher.hash_one((set.owner, set.rtype, &self.scratch[..]));
        let (versions, octets, scratch) = (&self.versions, &self.octets, &self.scratch);
        let is_same = |&id: &VersionId| {
            let known = &versions[id as usize];
            known.hash == hash
                && (known.owner, known.rtype) == (set.owner, set.rtype)
                && octets[known.start as usize..].starts_with(scratch)
                && known.records == records
        };
        let id = match self.table.find(hash, is_same) {
            Some(&id) => id,
            None => self.insert(set, records, hash, time)?,
        };
        let version = &mut self.versions[id as usize];
        version.count = version.count.saturating_add(1);
        (version.first, version.last) = (version.first.min(time), version.last.max(time));
        version.ttl = version.ttl.max(set.ttl);
        if version.signatures == 0 && !set.signatures.is_empty() {
            self.sign(id, set.signatures)?;
        }
        self.saw(id, server, kind);
        if let Some(history) = &mut self.history {
            history.note(id, (set.owner, set.rtype), time);
        }
        Some(id)
    }

    /// From now on notes when versions are seen, and by whom.
    pub fn keep_history(&mut self) {
        self.history.get_or_insert_default();
    }

    /// What was noted, if anything.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    pub fn history_mut(&mut self) -> Option<&mut History> {
        self.history.as_mut()
    }

    fn insert(&mut self, set: Set<'_>, records: u16, hash: u64, time: i64) -> Option<VersionId> {
        let (id, start) = (self.versions.len() as VersionId, u32::try_from(self.octets.len()).ok()?);
        self.octets.extend_from_slice(&self.scratch);
        let version = Version {
            owner: set.owner,
            rtype: set.rtype,
            records,
            signatures: 0,
            ttl: set.ttl,
            first: time,
            last: time,
            count: 0,
            start,
            signed_from: 0,
            sightings: END,
            hash,
        };
        self.versions.push(version);
        let versions = &self.versions;
        self.table.insert_unique(hash, id, |&id| versions[id as usize].hash);
        Some(id)
    }

    fn sign(&mut self, id: VersionId, signatures: &[&[u8]]) -> Option<()> {
        let start = u32::try_from(self.octets.len()).ok()?;
        let count = distinct(signatures, &mut self.octets);
        let version = &mut self.versions[id as usize];
        (version.signatures, version.signed_from) = (count, start);
        Some(())
    }

    fn saw(&mut self, id: VersionId, server: Server, kind: SectionKind) {
        let is_known = self.sightings(id).any(|known| (known.server, known.kind) == (server, kind));
        if !is_known {
            let version = &mut self.versions[id as usize];
            self.sightings.push(Sighting { server, kind, next: version.sightings });
            version.sightings = self.sightings.len() as u32 - 1;
        }
    }

    /// A version.
    pub fn get(&self, id: VersionId) -> &Version {
        &self.versions[id as usize]
    }

    /// All versions with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (VersionId, &Version)> {
        (0..).zip(&self.versions)
    }

    /// The sources of a version.
    pub fn sightings(&self, id: VersionId) -> impl Iterator<Item = Sighting> {
        let first = self.sightings.get(self.versions[id as usize].sightings as usize);
        std::iter::successors(first, |known| self.sightings.get(known.next as usize)).copied()
    }

    /// The data of a version's records.
    pub fn records(&self, id: VersionId) -> impl Iterator<Item = &[u8]> {
        let version = self.get(id);
        self.list(version.start, version.records)
    }

    /// The data of a version's signatures.
    pub fn signatures(&self, id: VersionId) -> impl Iterator<Item = &[u8]> {
        let version = self.get(id);
        self.list(version.signed_from, version.signatures)
    }

    fn list(&self, start: u32, count: u16) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.octets[start as usize..];
        (0..count).map(move |_| {
            let (length, behind) = rest.split_at(2);
            let (data, behind) = behind.split_at(usize::from(u16::from_be_bytes([length[0], length[1]])));
            rest = behind;
            data
        })
    }
}

/// Appends distinct data with their lengths, and returns their number.
fn distinct(all: &[&[u8]], octets: &mut Vec<u8>) -> u16 {
    let mut count = 0;
    for (at, data) in all.iter().enumerate() {
        if at > 0 && all[at - 1] == *data {
            continue;
        }
        octets.extend_from_slice(&(data.len() as u16).to_be_bytes());
        octets.extend_from_slice(data);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(records: &'a [&'a [u8]], signatures: &'a [&'a [u8]]) -> Set<'a> {
        Set { owner: 3, rtype: 1, ttl: 60, records, signatures }
    }

    #[test]
    fn equal_sets_are_one_version() {
        let mut versions = Versions::default();
        let first = versions.add(set(&[b"aaaa", b"aaaa", b"bbbb"], &[]), 0, SectionKind::Answer, 10).unwrap();
        let again = versions.add(set(&[b"aaaa", b"bbbb"], &[b"sig"]), 1, SectionKind::Answer, 30).unwrap();
        let other = versions.add(set(&[b"aaaa"], &[]), 1, SectionKind::Glue, 20).unwrap();
        assert_eq!((first, again), (first, first));
        assert_ne!(first, other);
        let version = versions.get(first);
        assert_eq!((version.records, version.count, version.first, version.last), (2, 2, 10, 30));
        assert_eq!(versions.records(first).collect::<Vec<_>>(), [b"aaaa", b"bbbb"]);
        assert_eq!(versions.signatures(first).collect::<Vec<_>>(), [b"sig"]);
        assert_eq!(versions.sightings(first).map(|seen| seen.server).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(versions.signatures(other).count(), 0);
    }
}
