//! Inputs of the search for servers, in an order that does not depend on hashes.

use super::{Map, Set};
use crate::construct::Facts;
use crate::construct::names::{Name, ROOT};
use crate::construct::seen::{SectionKind, Server, Version, VersionId};
use crate::rtype;

/// The inputs of the search.
pub(super) struct Lists {
    /// NS record sets by owner.
    pub name_servers: Vec<VersionId>,
    /// A and AAAA record sets of name servers by owner.
    pub addresses: Vec<VersionId>,
    /// Zones claimed in authoritative responses, with the claimants.
    pub claims: Vec<(Name, Server)>,
    /// Zones that servers refer to. A referral says nothing of the names between: jp may refer to example.co.jp without a zone co.jp.
    pub referrals: Vec<(Name, Server)>,
    /// For each name in the two lists above: the servers with authoritative answers for it or for names below it.
    pub answered: Map<Name, Vec<Server>>,
    /// For each of these names: the zones that denials place it in, with the servers (RFC 2308 §3: the SOA record is that of the zone).
    pub undivided: Map<Name, Vec<(Name, Server)>>,
}

impl Lists {
    pub fn of(facts: &Facts) -> Self {
        let name_servers = of_types(facts, &[rtype::NS]);
        let targets = name_servers.iter().flat_map(|&id| facts.versions.records(id));
        let hosts: Set<Name> = targets.filter_map(|data| facts.names.find(data)).collect();
        let mut addresses = of_types(facts, &[rtype::A, rtype::AAAA]);
        addresses.retain(|&id| hosts.contains(&facts.versions.get(id).owner));
        let mut claims: Vec<(Name, Server)> = facts.claims.keys().copied().collect();
        claims.sort_unstable();
        let referrals = referrals(facts, &name_servers);
        let spoken_of: Set<Name> = claims.iter().chain(&referrals).map(|&(zone, _)| zone).collect();
        let (answered, undivided) = (answered(facts, &spoken_of), undivided(facts, &spoken_of));
        Self { name_servers, addresses, claims, referrals, answered, undivided }
    }

    /// The record sets of one owner in one of the lists.
    pub fn of_owner<'a>(&self, ids: &'a [VersionId], facts: &Facts, owner: Name) -> &'a [VersionId] {
        let start = ids.partition_point(|&id| facts.versions.get(id).owner < owner);
        let count = ids[start..].partition_point(|&id| facts.versions.get(id).owner == owner);
        &ids[start..start + count]
    }
}

fn of_types(facts: &Facts, types: &[u16]) -> Vec<VersionId> {
    let wanted = facts.versions.iter().filter(|(_, version)| types.contains(&version.rtype));
    let mut ids: Vec<VersionId> = wanted.map(|(id, _)| id).collect();
    ids.sort_unstable_by_key(|&id| (facts.versions.get(id).owner, id));
    ids
}

fn referrals(facts: &Facts, name_servers: &[VersionId]) -> Vec<(Name, Server)> {
    let of_one = |&id: &VersionId| {
        let senders = facts.versions.sightings(id).filter(|seen| seen.kind == SectionKind::Referral);
        senders.map(move |seen| (facts.versions.get(id).owner, seen.server))
    };
    // A referral to the root carries no information.
    let is_downward = |&(zone, _): &(Name, Server)| zone != ROOT;
    let mut referrals: Vec<(Name, Server)> = name_servers.iter().flat_map(of_one).filter(is_downward).collect();
    referrals.sort_unstable();
    referrals.dedup();
    referrals
}

/// The servers that answered for names of `zones` or below. DS and NS records at an apex do not count: the parent answers for them, too.
fn answered(facts: &Facts, zones: &Set<Name>) -> Map<Name, Vec<Server>> {
    let mut answered: Map<Name, Vec<Server>> = Map::default();
    let is_parents = |version: &Version, zone| version.owner == zone && matches!(version.rtype, rtype::DS | rtype::NS);
    for (id, version) in facts.versions.iter() {
        for zone in facts.names.upward(version.owner).filter(|zone| zones.contains(zone)) {
            let answers = facts.versions.sightings(id).filter(|seen| seen.kind == SectionKind::Answer);
            let servers = answers.map(|seen| seen.server).filter(|_| !is_parents(version, zone));
            for server in servers {
                let known = answered.entry(zone).or_default();
                if !known.contains(&server) {
                    known.push(server);
                }
            }
        }
    }
    answered
}

fn undivided(facts: &Facts, zones: &Set<Name>) -> Map<Name, Vec<(Name, Server)>> {
    let mut undivided: Map<Name, Vec<(Name, Server)>> = Map::default();
    for denied in facts.undivided.keys() {
        for zone in denied.names(&facts.names).filter(|zone| zones.contains(zone)) {
            undivided.entry(zone).or_default().push((denied.apex, denied.server));
        }
    }
    undivided
}
