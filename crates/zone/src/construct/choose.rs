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
use crate::store::can_vary;
use crate::write::Line;

/// Maximum number of servers that the report lists for a version.
const MOST_SERVERS: usize = 8;

/// Which version of a record set to take where responses disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The first one seen (LDplayer paper, §2.3).
    #[default]
    First,
    /// The last one seen.
    Last,
    /// The one seen most often; among equals, the first.
    Majority,
    /// The first one seen is in the zone, and all versions are listed beside it.
    Keep,
    /// The union of all; for types with a single record per name (SOA, CNAME, DNAME), the first one seen.
    Union,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 5] = [Self::First, Self::Last, Self::Majority, Self::Union, Self::Keep];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Majority => "majority",
            Self::Union => "union",
            Self::Keep => "keep",
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
    /// One version, or several that are merged.
    pub versions: Vec<VersionId>,
}

/// Chooses a version of each record set. `placed` must be sorted; the result is, too.
pub(super) fn choose(facts: &Facts, placed: Vec<Placed>, policy: Policy, report: &mut Report) -> Vec<Chosen> {
    let place = |one: &Placed| (one.zone, one.owner, one.rtype, one.side);
    let (mut chosen, mut varying) = (Vec::new(), Vec::new());
    for group in placed.chunk_by(|a, b| place(a) == place(b)) {
        let versions = best(facts, group);
        let taken = settle(facts, &versions, group[0], policy);
        if versions.len() > 1 && group[0].side != Side::Glue {
            report.conflicts.push(conflict(facts, group[0], &versions, &taken));
            if group[0].side == Side::Own && can_vary(group[0].rtype) {
                varying.push((group[0], versions.clone()));
            }
        }
        if is_single(group[0].rtype) && taken.iter().any(|&id| facts.versions.get(id).records > 1) {
            let what = format!("several {} records", rtype::name_of(group[0].rtype));
            report.conflicts.push(Conflict { what, ..conflict(facts, group[0], &taken, &taken) });
        }
        let Placed { zone, owner, rtype, side, .. } = group[0];
        chosen.push(Chosen { zone, owner, rtype, side, versions: taken });
    }
    if let Some(history) = facts.versions.history() {
        history.report(facts, &varying, report);
    }
    without_aliases_beside(facts, chosen, policy, report)
}

/// The most trusted versions, without those that are subsets of another: additional data may be incomplete (RFC 2181 §9).
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

/// Merges versions, which are sorted by the time they were first seen.
fn settle(facts: &Facts, versions: &[VersionId], place: Placed, policy: Policy) -> Vec<VersionId> {
    let policy = match (policy, place.side) {
        // A referral may carry only some of the addresses.
        (_, Side::Glue) => Policy::Union,
        (Policy::Union, _) if is_single(place.rtype) => Policy::First,
        (policy, _) => policy,
    };
    if policy == Policy::Union {
        return versions.to_vec();
    }
    preferred(versions.iter().map(|&id| (id, tally(facts, &[id]))), policy).into_iter().collect()
}

/// First and last time seen, and count.
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

/// The version preferred by the policy; the earlier one if equal.
fn preferred<T>(all: impl Iterator<Item = (T, Tally)>, policy: Policy) -> Option<T> {
    let rank = |tally: &Tally| match policy {
        Policy::First | Policy::Union | Policy::Keep => -i128::from(tally.first),
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

/// Resolves conflicts between a CNAME and other data, which cannot coexist except for DNSSEC records (RFC 2181 §10.1).
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
        // An apex always has SOA and NS records.
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

/// A name in presentation form.
pub(super) fn shown(facts: &Facts, name: Name) -> String {
    Presentation(facts.names.wire(name)).to_string()
}

impl Records {
    /// Adds the chosen records, whose data were checked when they were parsed.
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
        // A merged set has no valid signature.
        let signed = chosen.versions.first().filter(|_| chosen.versions.len() == 1);
        for data in signed.into_iter().flat_map(|&id| facts.versions.signatures(id)) {
            self.push(&owner, rtype::RRSIG, ttl, data).ok()?;
        }
        Some(())
    }
}

/// The TTL of a version: the signature's original TTL, or the greatest seen.
pub(super) fn ttl(facts: &Facts, id: VersionId) -> u32 {
    let original = facts.versions.signatures(id).next().and_then(|data| data.get(4..8)?.try_into().ok());
    original.map_or(facts.versions.get(id).ttl, u32::from_be_bytes)
}
