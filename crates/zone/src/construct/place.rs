//! Assigns record sets to zones, and ranks their trustworthiness (RFC 2181 §5.4.1).

use super::Facts;
use super::names::{Name, ROOT};
use super::report::{Reason, Report};
use super::seen::{SectionKind, Sighting, Version, VersionId};
use super::servers::Authority;
use crate::rdata;
use crate::rtype;

/// The role of a record set in its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    /// Authoritative data.
    Own,
    /// NS records at a zone cut.
    Delegation,
    /// Glue: an address of a name server, from a zone above the host's own.
    Glue,
}

/// Trust in data; lower is better.
pub(super) type Level = u8;

/// Answer section of an authoritative response from one of the zone's servers.
const ANSWER: Level = 0;
/// Authority section of a response from one of the zone's servers.
const AUTHORITY: Level = 1;
/// Additional section of a response from one of the zone's servers.
const ADDITIONAL: Level = 2;
/// An answer from a server of a zone above, which resolvers accept, too.
const ABOVE: Level = 3;

/// A version assigned to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placed {
    pub zone: Name,
    pub owner: Name,
    pub rtype: u16,
    pub side: Side,
    pub level: Level,
    pub version: VersionId,
}

/// Assigns all versions, sorted by zone, owner and type.
pub(super) fn place(facts: &Facts, authority: &Authority, report: &mut Report) -> Vec<Placed> {
    let mut placed = Vec::new();
    for (id, version) in facts.versions.iter() {
        let before = placed.len();
        let mut refused = None;
        for seen in facts.versions.sightings(id) {
            match place_of(facts, authority, id, version, seen) {
                Ok((zone, side, level)) => {
                    placed.push(Placed { zone, owner: version.owner, rtype: version.rtype, side, level, version: id });
                }
                Err(reason) => refused = Some(reason),
            }
        }
        placed[before..].sort_unstable();
        if let Some(reason) = refused.filter(|_| placed.len() == before) {
            report.ignore(reason);
        }
    }
    placed.sort_unstable();
    // The most trusted occurrence of each version comes first.
    placed.dedup_by_key(|one| (one.zone, one.owner, one.rtype, one.side, one.version));
    placed
}

fn place_of(
    facts: &Facts,
    authority: &Authority,
    id: VersionId,
    version: &Version,
    seen: Sighting,
) -> Result<(Name, Side, Level), Reason> {
    match version.rtype {
        rtype::NS => name_servers(facts, authority, version.owner, seen),
        rtype::DS => of_zone(facts, authority, authority.parent_of(facts, version.owner), version.owner, seen),
        rtype::NSEC | rtype::NSEC3 => {
            let zone = signer(facts, authority, id).or_else(|| authority.zone_of(facts, version.owner));
            of_zone(facts, authority, zone, version.owner, seen)
        }
        _ if seen.kind == SectionKind::Glue => glue(facts, authority, version.owner, seen),
        _ => of_zone(facts, authority, authority.zone_of(facts, version.owner), version.owner, seen),
    }
}

/// NS records from the zone's servers belong to its apex, those from servers of a zone above to the delegation.
fn name_servers(
    facts: &Facts,
    authority: &Authority,
    owner: Name,
    seen: Sighting,
) -> Result<(Name, Side, Level), Reason> {
    if seen.kind.is_authoritative() && authority.serves(owner, seen.server) {
        return Ok((owner, Side::Own, level(seen.kind)));
    }
    let parent = authority.parent_of(facts, owner);
    if authority.is_referrer(owner, seen.server) {
        return Ok((parent.unwrap_or(ROOT), Side::Delegation, ABOVE));
    }
    let parent = parent.ok_or(Reason::NotResponsible)?;
    if authority.serves(parent, seen.server) {
        Ok((parent, Side::Delegation, ANSWER))
    } else if authority.is_above(facts, parent, seen.server) {
        Ok((parent, Side::Delegation, ABOVE))
    } else {
        Err(Reason::NotResponsible)
    }
}

fn of_zone(
    facts: &Facts,
    authority: &Authority,
    zone: Option<Name>,
    owner: Name,
    seen: Sighting,
) -> Result<(Name, Side, Level), Reason> {
    let zone = zone.ok_or(Reason::NotResponsible)?;
    if authority.serves(zone, seen.server) {
        Ok((zone, Side::Own, level(seen.kind)))
    } else if matches!(seen.kind, SectionKind::Additional) {
        glue(facts, authority, owner, seen)
    } else if authority.is_above(facts, zone, seen.server) {
        Ok((zone, Side::Own, ABOVE))
    } else {
        Err(Reason::NotResponsible)
    }
}

/// An address in a referral. From a server of the host's own zone it is that zone's data, with less trust.
fn glue(facts: &Facts, authority: &Authority, owner: Name, seen: Sighting) -> Result<(Name, Side, Level), Reason> {
    let zone = authority.zone_of(facts, owner).ok_or(Reason::NotResponsible)?;
    if authority.serves(zone, seen.server) {
        Ok((zone, Side::Own, ADDITIONAL))
    } else if authority.is_above(facts, zone, seen.server) || authority.refers_around(facts, owner, seen.server) {
        Ok((zone, Side::Glue, ADDITIONAL))
    } else {
        Err(Reason::NotResponsible)
    }
}

pub(super) const fn level(kind: SectionKind) -> Level {
    match kind {
        SectionKind::Answer => ANSWER,
        SectionKind::Authority | SectionKind::Referral => AUTHORITY,
        SectionKind::Additional | SectionKind::Glue => ADDITIONAL,
    }
}

/// The signer's zone, if it encloses the owner: NSEC records at a zone cut are the parent's.
fn signer(facts: &Facts, authority: &Authority, id: VersionId) -> Option<Name> {
    let signature = facts.versions.signatures(id).next()?.get(18..)?;
    let zone = facts.names.find(signature.get(..rdata::name_length(signature)?)?)?;
    let owner = facts.versions.get(id).owner;
    (authority.is_cut(zone) && facts.names.is_within(owner, zone)).then_some(zone)
}
