//! Record sets that have several versions, and which of them an answer takes.
//!
//! The zone's own set is the first choice: only a set that varies is looked up here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::Cidr;
use ldplayer_core::random::{draw, subkey};

use super::build::host_of;
use super::{NONE, Set, Zone, target_offset};
use crate::rtype;

/// A version of a record set, as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The TTL of its records in seconds.
    pub ttl: u32,
    /// The data of its records in wire format, uncompressed.
    pub records: Vec<Vec<u8>>,
    /// The data of their RRSIG records.
    pub signatures: Vec<Vec<u8>>,
    /// How often it was seen.
    pub count: u64,
    /// When it began to hold, each time, in nanoseconds since the start of the recording.
    pub from_ns: Vec<i64>,
    /// Subnets of clients and addresses of resolvers that were given it.
    pub clients: Vec<Cidr>,
}

/// A record set with all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The owner in wire format, in lower case.
    pub owner: Vec<u8>,
    /// TYPE.
    pub rtype: u16,
    /// The versions, the first seen first.
    pub versions: Vec<Version>,
}

/// Why a set cannot have versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionsError {
    /// The zone has no such set.
    #[error("the zone has no such records")]
    Missing,
    /// The set keeps the zone together.
    #[error("records of this type have one version: what delegates, signs or denies cannot vary")]
    Fixed,
    /// It is there twice.
    #[error("its versions are listed twice")]
    Twice,
    /// A version has no records, more than can be numbered, or several aliases.
    #[error("a version needs at least one record, 65535 at most, and an alias (CNAME, DNAME) exactly one")]
    Records,
    /// The zone has more octets than can be numbered.
    #[error("the zone with all versions is larger than 4 GiB")]
    TooLarge,
}

/// Which version of a set an answer takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// That of the zone.
    #[default]
    Fixed,
    /// The one that held so many nanoseconds after the start of the recording.
    Recorded(i64),
    /// One after the other, from one on that this number says.
    Rotate(u64),
    /// One that is drawn from this seed, by how often each was seen.
    Weighted(u64),
    /// The one that this subnet was given; without one, that of the zone.
    BySubnet(Cidr),
    /// That of this step: all sets go on at the same time.
    Changing(u64),
}

/// The sets of a zone that vary.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    /// By position.
    sets: HashMap<u32, Varying, FixedState>,
}

/// A set that varies.
#[derive(Clone, Debug)]
struct Varying {
    versions: Box<[Set]>,
    /// For each version how often it and those before it were seen.
    seen: Box<[u64]>,
    /// When which version began to hold, by time.
    changes: Box<[(i64, u16)]>,
    by_client: HashMap<Cidr, u16, FixedState>,
    /// Lengths of their prefixes, the longest first.
    prefixes: Box<[u8]>,
    /// Answers so far, of all threads.
    answers: Arc<AtomicU64>,
}

impl Zone {
    /// Gives sets other versions.
    ///
    /// # Errors
    /// A set is not there or cannot vary, or a version has no records; the zone is of no use then.
    pub fn vary(&mut self, sets: &[VersionedSet]) -> Result<(), (usize, VersionsError)> {
        for (number, set) in sets.iter().enumerate() {
            self.vary_one(set).map_err(|error| (number, error))?;
        }
        self.drop_templates();
        Ok(())
    }

    /// How many sets vary.
    pub fn varying(&self) -> usize {
        self.versions.sets.len()
    }

    /// The set at a position in the version that an answer takes. `scope` becomes the bits of the client's subnet that this depends on, where
    /// they are more.
    #[inline]
    pub(crate) fn version(&self, at: u32, pick: &Pick, scope: &mut u8) -> &Set {
        let set = self.set(at);
        if !set.varies {
            return set;
        }
        self.versions.sets.get(&at).and_then(|varying| varying.pick(at, pick, scope)).unwrap_or(set)
    }

    fn vary_one(&mut self, set: &VersionedSet) -> Result<(), VersionsError> {
        if is_fixed(set.rtype) {
            return Err(VersionsError::Fixed);
        }
        let node = self.exact(&set.owner).ok_or(VersionsError::Missing)?;
        let at = self.set_at(node, set.rtype).ok_or(VersionsError::Missing)?;
        if self.sets[at as usize].varies {
            return Err(VersionsError::Twice);
        }
        let versions = set.versions.iter().map(|version| self.add_version(node, set.rtype, version));
        let versions = versions.collect::<Result<_, _>>()?;
        self.sets[at as usize].varies = true;
        self.versions.sets.insert(at, Varying::new(versions, &set.versions));
        Ok(())
    }

    fn add_version(&mut self, node: u32, rtype: u16, version: &Version) -> Result<Set, VersionsError> {
        let count = |all: &[Vec<u8>]| u16::try_from(all.len()).map_err(|_| VersionsError::Records);
        let (count, signatures) = (count(&version.records)?, count(&version.signatures)?);
        if count == 0 || (count > 1 && rtype::is_alias(rtype)) {
            return Err(VersionsError::Records);
        }
        let start = self.add_records(rtype, version.ttl, &version.records)?;
        let signed_from = self.add_records(rtype::RRSIG, version.ttl, &version.signatures)?;
        let end = self.add_records(rtype, 0, &[])?;
        let targets = self.add_targets(node, rtype, &version.records)?;
        Ok(Set { rtype, count, signatures, varies: false, start, signed_from, end, targets })
    }

    /// Adds records, and returns where they begin.
    fn add_records(&mut self, rtype: u16, ttl: u32, records: &[Vec<u8>]) -> Result<u32, VersionsError> {
        let start = u32::try_from(self.octets.len()).map_err(|_| VersionsError::TooLarge)?;
        let mut octets = std::mem::take(&mut self.octets).into_vec();
        for data in records {
            octets.extend([rtype.to_be_bytes(), self.class.to_be_bytes()].as_flattened());
            octets.extend(ttl.to_be_bytes());
            octets.extend((data.len() as u16).to_be_bytes());
            octets.extend(data);
        }
        self.octets = octets.into();
        Ok(start)
    }

    /// Adds the hosts that records name, and returns where they begin, if the zone has any of them.
    fn add_targets(&mut self, node: u32, rtype: u16, records: &[Vec<u8>]) -> Result<u32, VersionsError> {
        if target_offset(rtype).is_none() {
            return Ok(NONE);
        }
        let hosts: Vec<u32> = records.iter().map(|data| host_of(self, node, rtype, data).unwrap_or(NONE)).collect();
        if hosts.iter().all(|&host| host == NONE) {
            return Ok(NONE);
        }
        let start = u32::try_from(self.targets.len()).map_err(|_| VersionsError::TooLarge)?;
        self.targets = std::mem::take(&mut self.targets).into_vec().into_iter().chain(hosts).collect();
        Ok(start)
    }

    /// Referrals that were written beforehand have addresses of one version.
    fn drop_templates(&mut self) {
        for cut in self.cuts() {
            let servers = self.set_of(self.node(cut), rtype::NS).map_or(&[][..], |set| self.targets(set));
            let varies = |host: &u32| *host != NONE && self.sets_of(self.node(*host)).iter().any(|set| set.varies);
            if servers.iter().any(varies) {
                self.nodes[cut as usize].template = NONE;
            }
        }
    }
}

/// Types that keep a zone and its proofs together.
const fn is_fixed(rtype: u16) -> bool {
    matches!(
        rtype,
        rtype::SOA
            | rtype::NS
            | rtype::DS
            | rtype::DNSKEY
            | rtype::RRSIG
            | rtype::NSEC
            | rtype::NSEC3
            | rtype::NSEC3PARAM
    )
}

/// Whether a record set of this type can have several versions.
pub const fn can_vary(rtype: u16) -> bool {
    !is_fixed(rtype)
}

impl Varying {
    fn new(sets: Box<[Set]>, versions: &[Version]) -> Self {
        let mut changes: Vec<(i64, u16)> = (0..)
            .zip(versions)
            .flat_map(|(number, version)| version.from_ns.iter().map(move |&ns| (ns, number)))
            .collect();
        changes.sort_unstable();
        let mut by_client = HashMap::default();
        for (number, version) in (0..).zip(versions) {
            // The first that a client was given, where it was given several.
            for &client in &version.clients {
                by_client.entry(client).or_insert(number);
            }
        }
        let mut prefixes: Vec<u8> = by_client.keys().map(Cidr::prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes.reverse();
        let seen = versions.iter().scan(0_u64, |sum, version| {
            *sum = sum.saturating_add(version.count);
            Some(*sum)
        });
        Self {
            versions: sets,
            seen: seen.collect(),
            changes: changes.into(),
            by_client,
            prefixes: prefixes.into(),
            answers: Arc::default(),
        }
    }

    /// The version for an answer; `None` for that of the zone.
    fn pick(&self, at: u32, pick: &Pick, scope: &mut u8) -> Option<&Set> {
        let nth = |number: u64| self.versions.get((number % self.versions.len().max(1) as u64) as usize);
        match *pick {
            Pick::Fixed => None,
            Pick::Recorded(ns) => {
                let after = self.changes.partition_point(|&(from, _)| from <= ns);
                // Before the first time, the first version.
                self.changes
                    .get(after.saturating_sub(1))
                    .and_then(|&(_, number)| self.versions.get(usize::from(number)))
            }
            Pick::Rotate(seed) => nth(self.next_answer().wrapping_add(seed)),
            Pick::Weighted(seed) => {
                let all = self.seen.last().copied().unwrap_or(0);
                let drawn = draw(subkey(seed, at.into()), self.next_answer());
                if all == 0 { nth(drawn) } else { nth(self.seen.partition_point(|&seen| seen <= drawn % all) as u64) }
            }
            Pick::BySubnet(client) => {
                let found = self.of_client(client);
                *scope = (*scope).max(found.map_or(client.prefix(), |(prefix, _)| prefix));
                found.and_then(|(_, number)| self.versions.get(usize::from(number)))
            }
            Pick::Changing(step) => nth(step),
        }
    }

    fn next_answer(&self) -> u64 {
        self.answers.fetch_add(1, Ordering::Relaxed)
    }

    /// The longest prefix that the client is in, and the version that it was given.
    fn of_client(&self, client: Cidr) -> Option<(u8, u16)> {
        let within = self.prefixes.iter().filter(|&&prefix| prefix <= client.prefix());
        within.into_iter().find_map(|&prefix| {
            let block = Cidr::new(client.first(), prefix);
            self.by_client.get(&block).map(|&number| (prefix, number))
        })
    }
}

impl Versions {
    /// Octets of memory, those of the records left out.
    pub fn memory(&self) -> usize {
        let one = |varying: &Varying| {
            size_of_val(&*varying.versions)
                + size_of_val(&*varying.seen)
                + size_of_val(&*varying.changes)
                + varying.by_client.allocation_size()
        };
        self.sets.allocation_size() + self.sets.values().map(one).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
