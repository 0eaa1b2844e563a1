//! Assigns record sets to zones, and ranks how far each is trusted (RFC 2181 §5.4.1).

use super::Facts;
use super::names::{Name, ROOT};
use super::report::{Reason, Report};
use super::seen::{Kind, Sighting, Version, VersionId};
use super::servers::Authority;
use crate::rdata;
use crate::rtype;

/// What a record set is to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    /// Data of the zone itself.
    Own,
    /// NS records of a delegation.
    Delegation,
    /// An address of a name server, from a zone above the host's.
    Glue,
}

/// How far data are believed; the least is the best.
pub(super) type Level = u8;

/// An authoritative answer of one of the zone's servers.
const ANSWER: Level = 0;
/// The authority section of one of the zone's servers.
const AUTHORITY: Level = 1;
/// The additional section of one of the zone's servers.
const ADDITIONAL: Level = 2;
/// An answer of a server of a zone above, which a resolver believes, too.
const ABOVE: Level = 3;

/// A version in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placed {
    pub zone: Name,
    pub owner: Name,
    pub rtype: u16,
    pub side: Side,
    pub level: Level,
    pub version: VersionId,
}

/// Puts all versions in their places, sorted by zone, owner and type.
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
    // The best level of each version in each place comes first.
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
        _ if seen.kind == Kind::Glue => glue(facts, authority, version.owner, seen),
        _ => of_zone(facts, authority, authority.zone_of(facts, version.owner), version.owner, seen),
    }
}

/// NS records are the zone's own from its servers, and the delegation's from those of a zone above.
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
    } else if matches!(seen.kind, Kind::Additional) {
        glue(facts, authority, owner, seen)
    } else if authority.is_above(facts, zone, seen.server) {
        Ok((zone, Side::Own, ABOVE))
    } else {
        Err(Reason::NotResponsible)
    }
}

/// An address beside a referral. From a server of the host's own zone it is that zone's, if with less authority.
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

const fn level(kind: Kind) -> Level {
    match kind {
        Kind::Answer => ANSWER,
        Kind::Authority | Kind::Referral => AUTHORITY,
        Kind::Additional | Kind::Glue => ADDITIONAL,
    }
}

/// The zone whose key made the signature, when it is a zone around the owner: NSEC records at a cut are the parent's.
fn signer(facts: &Facts, authority: &Authority, id: VersionId) -> Option<Name> {
    let signature = facts.versions.signatures(id).next()?.get(18..)?;
    let zone = facts.names.find(signature.get(..rdata::name_length(signature)?)?)?;
    let owner = facts.versions.get(id).owner;
    (authority.is_cut(zone) && facts.names.is_within(owner, zone)).then_some(zone)
}
