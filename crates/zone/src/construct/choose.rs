//! Chooses between conflicting responses.

use std::fmt;

use ldplayer_core::name::Presentation;

use super::Facts;
use super::names::Name;
use super::place::{Placed, Side};
use super::report::{self, Conflict, Report};
use super::seen::VersionId;
use crate::records::{Record, Records};
use crate::rtype;
use crate::write::Line;

/// Servers that a report names for a version.
const MOST_SERVERS: usize = 8;

/// What to take where responses disagree about a record set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// What was seen first (LDplayer paper, §2.3).
    #[default]
    First,
    /// What was seen last.
    Last,
    /// What was seen most often; of equals, what was seen first.
    Majority,
    /// The records of all; of types that a name has once (SOA, CNAME, DNAME), what was seen first.
    Union,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::First, Self::Last, Self::Majority, Self::Union];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Majority => "majority",
            Self::Union => "union",
        })
    }
}

/// A record set of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub zone: Name,
    pub owner: Name,
    pub rtype: u16,
    pub side: Side,
    /// One version, or several whose records are taken together.
    pub versions: Vec<VersionId>,
}

/// Chooses for each set of each zone. `placed` is sorted, and so is the result.
pub(super) fn choose(facts: &Facts, placed: Vec<Placed>, policy: Policy, report: &mut Report) -> Vec<Chosen> {
    let place = |one: &Placed| (one.zone, one.owner, one.rtype, one.side);
    let mut chosen: Vec<Chosen> = Vec::new();
    for group in placed.chunk_by(|a, b| place(a) == place(b)) {
        let versions = best(facts, group);
        let taken = settle(facts, &versions, group[0], policy);
        if versions.len() > 1 && group[0].side != Side::Glue {
            report.conflicts.push(conflict(facts, group[0], &versions, &taken));
        }
        if is_single(group[0].rtype) && taken.iter().any(|&id| facts.versions.get(id).records > 1) {
            let what = format!("several {} records", rtype::name_of(group[0].rtype));
            report.conflicts.push(Conflict { what, ..conflict(facts, group[0], &taken, &taken) });
        }
        let Placed { zone, owner, rtype, side, .. } = group[0];
        chosen.push(Chosen { zone, owner, rtype, side, versions: taken });
    }
    without_aliases_beside(facts, chosen, policy, report)
}

/// The versions that are believed most, those that are parts of others left out: of what is additional, some may be missing (RFC 2181 §9).
fn best(facts: &Facts, group: &[Placed]) -> Vec<VersionId> {
    let level = group.iter().map(|one| one.level).min().unwrap_or(0);
    let mut versions: Vec<VersionId> = group.iter().filter(|one| one.level == level).map(|one| one.version).collect();
    versions.sort_unstable_by_key(|&id| (facts.versions.get(id).first, id));
    if versions.len() > 1 {
        let all = versions.clone();
        versions.retain(|&id| !all.iter().any(|&other| other != id && is_part(facts, id, other)));
    }
    versions
}

fn is_part(facts: &Facts, part: VersionId, whole: VersionId) -> bool {
    facts.versions.get(part).records < facts.versions.get(whole).records
        && facts.versions.records(part).all(|data| facts.versions.records(whole).any(|other| other == data))
}

/// Types with at most one record per name (RFC 1035 §3.3.13, RFC 2181 §10.1, RFC 6672 §2.4).
const fn is_single(rtype: u16) -> bool {
    matches!(rtype, rtype::SOA | rtype::CNAME | rtype::DNAME)
}

/// `versions` are by the time they were first seen.
fn settle(facts: &Facts, versions: &[VersionId], place: Placed, policy: Policy) -> Vec<VersionId> {
    let policy = match (policy, place.side) {
        // Each referral may have but a part of the addresses.
        (_, Side::Glue) => Policy::Union,
        (Policy::Union, _) if is_single(place.rtype) => Policy::First,
        (policy, _) => policy,
    };
    if policy == Policy::Union {
        return versions.to_vec();
    }
    preferred(versions.iter().map(|&id| (id, tally(facts, &[id]))), policy).into_iter().collect()
}

/// When something was seen first and last, and how often.
#[derive(Clone, Copy, Debug)]
struct Tally {
    first: i64,
    last: i64,
    count: u64,
}

fn tally(facts: &Facts, versions: &[VersionId]) -> Tally {
    let all = || versions.iter().map(|&id| facts.versions.get(id));
    Tally {
        first: all().map(|version| version.first).min().unwrap_or(0),
        last: all().map(|version| version.last).max().unwrap_or(0),
        count: all().map(|version| u64::from(version.count)).sum(),
    }
}

/// The one that the policy prefers; the earlier one of equals.
fn preferred<T>(all: impl Iterator<Item = (T, Tally)>, policy: Policy) -> Option<T> {
    let rank = |tally: &Tally| match policy {
        Policy::First | Policy::Union => -i128::from(tally.first),
        Policy::Last => i128::from(tally.last),
        Policy::Majority => i128::from(tally.count),
    };
    let best = all.reduce(|best, other| if rank(&other.1) > rank(&best.1) { other } else { best });
    best.map(|(one, _)| one)
}

fn conflict(facts: &Facts, place: Placed, versions: &[VersionId], taken: &[VersionId]) -> Conflict {
    let side = if place.side == Side::Delegation { " of the delegation" } else { "" };
    Conflict {
        zone: shown(facts, place.zone),
        name: shown(facts, place.owner),
        what: format!("{}{side}", rtype::name_of(place.rtype)),
        versions: versions.iter().map(|&id| version(facts, &[id], taken.contains(&id))).collect(),
    }
}

pub(super) fn version(facts: &Facts, versions: &[VersionId], is_taken: bool) -> report::Version {
    let Tally { first, last, count } = tally(facts, versions);
    let mut servers: Vec<_> = versions
        .iter()
        .flat_map(|&id| facts.versions.sightings(id))
        .map(|seen| facts.servers[seen.server as usize])
        .collect();
    servers.sort_unstable();
    servers.dedup();
    servers.truncate(MOST_SERVERS);
    let records = versions.iter().flat_map(|&id| lines(facts, id)).collect();
    report::Version { records, first_ns: first, last_ns: last, count, servers, is_taken }
}

/// The records of a version as lines of a zone file.
pub(super) fn lines(facts: &Facts, id: VersionId) -> Vec<String> {
    let (version, mut line) = (facts.versions.get(id), Line::default());
    let owner = facts.names.wire(version.owner);
    let record = |data| Record { owner, rtype: version.rtype, ttl: version.ttl, data, place: (0, 0) };
    facts.versions.records(id).map(|data| line.of(&record(data)).trim_end().to_owned()).collect()
}

/// A name with an alias has nothing else but what DNSSEC adds (RFC 2181 §10.1): of alias and other data one is taken.
fn without_aliases_beside(facts: &Facts, chosen: Vec<Chosen>, policy: Policy, report: &mut Report) -> Vec<Chosen> {
    let is_same = |a: &Chosen, b: &Chosen| (a.zone, a.owner) == (b.zone, b.owner);
    let mut kept = Vec::with_capacity(chosen.len());
    for group in chosen.chunk_by(is_same) {
        let is_plain = |one: &&Chosen| {
            one.side == Side::Own && !matches!(one.rtype, rtype::CNAME | rtype::NSEC | rtype::NSEC3 | rtype::DS)
        };
        let alias = group.iter().find(|one| one.rtype == rtype::CNAME);
        let others: Vec<&Chosen> = group.iter().filter(is_plain).collect();
        let (Some(alias), false) = (alias, others.is_empty()) else {
            kept.extend_from_slice(group);
            continue;
        };
        let ids: Vec<VersionId> = others.iter().flat_map(|one| one.versions.iter().copied()).collect();
        // An apex has a SOA record and NS records in any case.
        let is_apex = alias.zone == alias.owner;
        let ranks = [(true, tally(facts, &alias.versions)), (false, tally(facts, &ids))];
        let takes_alias = !is_apex && preferred(ranks.into_iter(), policy).unwrap_or(true);
        report.conflicts.push(Conflict {
            zone: shown(facts, alias.zone),
            name: shown(facts, alias.owner),
            what: "CNAME and other data".into(),
            versions: vec![version(facts, &alias.versions, takes_alias), version(facts, &ids, !takes_alias)],
        });
        kept.extend(group.iter().filter(|one| if takes_alias { !is_plain(one) } else { *one != alias }).cloned());
    }
    kept
}

/// A name as people read it.
pub(super) fn shown(facts: &Facts, name: Name) -> String {
    Presentation(facts.names.wire(name)).to_string()
}

impl Records {
    /// Adds what was chosen; data that were checked when they were read.
    pub(super) fn add_chosen(&mut self, facts: &Facts, chosen: &Chosen) -> Option<()> {
        let owner = facts.names.wire(chosen.owner).to_vec();
        let ttl = chosen.versions.iter().map(|&id| ttl(facts, id)).max().unwrap_or(0);
        let mut seen: Vec<&[u8]> = Vec::new();
        let most = if is_single(chosen.rtype) { 1 } else { usize::MAX };
        for data in chosen.versions.iter().flat_map(|&id| facts.versions.records(id)).take(most) {
            if !seen.contains(&data) {
                seen.push(data);
                self.push(&owner, chosen.rtype, ttl, data).ok()?;
            }
        }
        // Signatures of several versions hold for none of them together.
        let signed = chosen.versions.first().filter(|_| chosen.versions.len() == 1);
        for data in signed.into_iter().flat_map(|&id| facts.versions.signatures(id)) {
            self.push(&owner, rtype::RRSIG, ttl, data).ok()?;
        }
        Some(())
    }
}

/// The TTL of a version: what its signature says, or the greatest that was seen.
fn ttl(facts: &Facts, id: VersionId) -> u32 {
    let original = facts.versions.signatures(id).next().and_then(|data| data.get(4..8)?.try_into().ok());
    original.map_or(facts.versions.get(id).ttl, u32::from_be_bytes)
}
