//! Record sets that have several versions, and which of them an answer takes.
//!
//! The zone's own set is the first choice: only a set that varies is looked up here.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

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
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// With their positions, in this order.
    sets: Box<[(u32, Varying)]>,
}

/// A set that varies.
#[derive(Debug)]
struct Varying {
    /// Answers so far, of all threads.
    answers: AtomicU64,
    versions: Box<[Choice]>,
    /// When which version began to hold, by time.
    changes: Box<[Change]>,
    /// Which version a client was given; by block, the longest prefixes first.
    clients: Box<[(Cidr, u16)]>,
}

/// A version of a set that varies.
#[derive(Debug)]
struct Choice {
    set: Set,
    /// How often it and those before it were seen.
    seen: u64,
}

/// A version began to hold. It is packed into ten octets instead of sixteen: a zone set may have millions.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(2))]
struct Change {
    ns: i64,
    version: u16,
}

/// What versions add to a zone.
#[derive(Default)]
struct Added {
    octets: Vec<u8>,
    targets: Vec<u32>,
}

impl Zone {
    /// Gives sets other versions, best all of a zone at once.
    ///
    /// # Errors
    /// A set is not there or cannot vary, or a version has no records; with the place of the set in the list. The zone is as it was.
    pub fn vary(&mut self, sets: &[VersionedSet]) -> Result<(), (usize, VersionsError)> {
        let (mut added, mut varying) = (Added::default(), Vec::with_capacity(sets.len()));
        for (number, set) in sets.iter().enumerate() {
            let one = self.varying_of(set, &mut added).inspect_err(|_| {
                varying.iter().for_each(|(at, _)| self.sets[*at as usize].varies = false);
            });
            let (at, one) = one.map_err(|error| (number, error))?;
            self.sets[at as usize].varies = true;
            varying.push((at, one));
        }
        varying.extend(std::mem::take(&mut self.versions.sets));
        varying.sort_unstable_by_key(|(at, _)| *at);
        self.octets = [&*self.octets, &added.octets].concat().into();
        if !added.targets.is_empty() {
            self.targets = [&*self.targets, &added.targets].concat().into();
        }
        self.versions = Versions { sets: varying.into() };
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
        self.versions.pick(at, pick, scope).unwrap_or(set)
    }

    fn varying_of(&self, set: &VersionedSet, added: &mut Added) -> Result<(u32, Varying), VersionsError> {
        if is_fixed(set.rtype) {
            return Err(VersionsError::Fixed);
        }
        let node = self.exact(&set.owner).ok_or(VersionsError::Missing)?;
        let at = self.set_at(node, set.rtype).ok_or(VersionsError::Missing)?;
        if self.sets[at as usize].varies {
            return Err(VersionsError::Twice);
        }
        let versions = set.versions.iter().map(|version| self.version_of(node, set.rtype, version, added));
        let versions = versions.collect::<Result<Vec<_>, _>>()?;
        Ok((at, Varying::new(versions, &set.versions)))
    }

    fn version_of(&self, node: u32, rtype: u16, version: &Version, added: &mut Added) -> Result<Set, VersionsError> {
        let count = |all: &[Vec<u8>]| u16::try_from(all.len()).map_err(|_| VersionsError::Records);
        let (count, signatures) = (count(&version.records)?, count(&version.signatures)?);
        if count == 0 || (count > 1 && rtype::is_alias(rtype)) {
            return Err(VersionsError::Records);
        }
        let place =
            |added: &Added| u32::try_from(self.octets.len() + added.octets.len()).map_err(|_| VersionsError::TooLarge);
        let start = place(added)?;
        self.push_records(rtype, version.ttl, &version.records, &mut added.octets);
        let signed_from = place(added)?;
        self.push_records(rtype::RRSIG, version.ttl, &version.signatures, &mut added.octets);
        let end = place(added)?;
        let targets = self.push_targets(node, rtype, &version.records, &mut added.targets)?;
        Ok(Set { rtype, count, signatures, varies: false, start, signed_from, end, targets })
    }

    fn push_records(&self, rtype: u16, ttl: u32, records: &[Vec<u8>], octets: &mut Vec<u8>) {
        for data in records {
            octets.extend([rtype.to_be_bytes(), self.class.to_be_bytes()].as_flattened());
            octets.extend(ttl.to_be_bytes());
            octets.extend((data.len() as u16).to_be_bytes());
            octets.extend(data);
        }
    }

    /// Adds the hosts that records name, and returns where they begin, if the zone has any of them.
    fn push_targets(
        &self,
        node: u32,
        rtype: u16,
        records: &[Vec<u8>],
        targets: &mut Vec<u32>,
    ) -> Result<u32, VersionsError> {
        if target_offset(rtype).is_none() {
            return Ok(NONE);
        }
        let start = targets.len();
        targets.extend(records.iter().map(|data| host_of(self, node, rtype, data).unwrap_or(NONE)));
        if targets[start..].iter().all(|&host| host == NONE) {
            targets.truncate(start);
            return Ok(NONE);
        }
        u32::try_from(self.targets.len() + start).map_err(|_| VersionsError::TooLarge)
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
    fn new(sets: Vec<Set>, versions: &[Version]) -> Self {
        let numbered = || (0_u16..).zip(versions);
        let mut changes = Vec::new();
        for (version, seen) in numbered() {
            changes.extend(seen.from_ns.iter().map(|&ns| Change { ns, version }));
        }
        changes.sort_unstable_by_key(|change| (change.ns, change.version));
        let mut clients: Vec<(Cidr, u16)> = numbered()
            .flat_map(|(number, version)| version.clients.iter().map(move |&client| (client, number)))
            .collect();
        clients.sort_by_key(|(block, _)| key(*block));
        // The first version that a client was given, where it was given several.
        clients.dedup_by_key(|(block, _)| *block);
        let mut seen = 0_u64;
        let chosen = sets.into_iter().zip(versions).map(|(set, version)| {
            seen = seen.saturating_add(version.count);
            Choice { set, seen }
        });
        let versions = chosen.collect();
        Self { answers: AtomicU64::new(0), versions, changes: changes.into(), clients: clients.into() }
    }

    fn nth(&self, number: u64) -> Option<&Set> {
        self.at((number % self.versions.len().max(1) as u64) as usize)
    }

    fn at(&self, place: usize) -> Option<&Set> {
        self.versions.get(place).map(|choice| &choice.set)
    }

    fn recorded(&self, ns: i64) -> Option<&Set> {
        let after = self.changes.partition_point(|change| change.ns <= ns);
        // Before the first time, the first version.
        let change = self.changes.get(after.saturating_sub(1))?;
        self.at(usize::from(change.version))
    }

    /// As often as each was seen; all alike, if none has a count.
    fn weighted(&self, drawn: u64) -> Option<&Set> {
        match self.versions.last().map_or(0, |last| last.seen) {
            0 => self.nth(drawn),
            all => self.at(self.versions.partition_point(|choice| choice.seen <= drawn % all)),
        }
    }

    /// The length of the longest prefix that the client is in, and the version that it was given.
    fn of_client(&self, client: Cidr) -> Option<(u8, &Set)> {
        let mut rest = &self.clients[..];
        while let Some(&(longest, _)) = rest.first() {
            let prefix = longest.prefix();
            let wanted = Cidr::new(client.first(), prefix);
            let of_prefix = rest.partition_point(|(block, _)| block.prefix() >= prefix);
            if prefix <= client.prefix()
                && let Ok(at) = rest[..of_prefix].binary_search_by_key(&key(wanted), |(block, _)| key(*block))
            {
                return self.at(usize::from(rest[at].1)).map(|set| (prefix, set));
            }
            rest = &rest[of_prefix..];
        }
        None
    }
}

/// The order of clients: the longest prefixes first.
fn key(block: Cidr) -> (Reverse<u8>, IpAddr) {
    (Reverse(block.prefix()), block.first())
}

impl Versions {
    /// The version of a set for an answer; `None` for that of the zone.
    fn pick(&self, at: u32, pick: &Pick, scope: &mut u8) -> Option<&Set> {
        let place = self.sets.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        let varying = &self.sets[place].1;
        let next = || varying.answers.fetch_add(1, Ordering::Relaxed);
        match *pick {
            Pick::Fixed => None,
            Pick::Recorded(ns) => varying.recorded(ns),
            Pick::Rotate(seed) => varying.nth(next().wrapping_add(seed)),
            Pick::Weighted(seed) => varying.weighted(draw(subkey(seed, at.into()), next())),
            Pick::BySubnet(client) => {
                let found = varying.of_client(client);
                *scope = (*scope).max(found.map_or(client.prefix(), |(prefix, _)| prefix));
                found.map(|(_, set)| set)
            }
            Pick::Changing(step) => varying.nth(step),
        }
    }

    /// Octets of memory, those of the records left out.
    pub fn memory(&self) -> usize {
        let one = |(_, varying): &(u32, Varying)| {
            size_of_val(&*varying.versions) + size_of_val(&*varying.changes) + size_of_val(&*varying.clients)
        };
        size_of_val(&*self.sets) + self.sets.iter().map(one).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
