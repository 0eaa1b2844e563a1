//! Zones that are accepted from servers without a known delegation.

use std::net::IpAddr;

use super::lists::Lists;
use super::{Authority, Map, Set, address};
use crate::construct::Facts;
use crate::construct::names::{Name, ROOT};
use crate::construct::seen::{Kind, Server, VersionId};

/// The zones of a list that have the fewest labels, with their servers.
fn nearest(facts: &Facts, list: Vec<(Name, Server)>) -> Map<Name, Vec<Server>> {
    let depth_of = |&(zone, _): &(Name, Server)| facts.names.depth(zone);
    let least = list.iter().map(depth_of).min();
    let mut zones: Map<Name, Vec<Server>> = Map::default();
    for (zone, server) in list.into_iter().filter(|one| Some(depth_of(one)) == least) {
        zones.entry(zone).or_default().push(server);
    }
    zones
}

impl Authority {
    /// Takes the zones nearest to the root that servers speak of and that nobody else is responsible for, and says which. Who refers to a zone is
    /// heard where nobody claims one any more: caches that are asked for what is not theirs refer, too.
    pub(super) fn take_at_their_word(&mut self, facts: &Facts, lists: &Lists) -> Vec<Name> {
        let open = |list: &[(Name, Server)]| -> Vec<(Name, Server)> {
            list.iter().copied().filter(|&(zone, server)| self.is_open(facts, lists, zone, server)).collect()
        };
        let claims = open(&lists.claims);
        if !claims.is_empty() {
            return self.take_claims(facts, lists, &nearest(facts, claims));
        }
        let mut referrals = open(&lists.referrals);
        referrals.retain(|&(zone, _)| self.zone_of(facts, zone).is_none());
        self.take_referrals(facts, lists, &nearest(facts, referrals))
    }

    /// Whether a server's word can be taken for a zone: it has no other servers, and nobody else is responsible for its name.
    fn is_open(&self, facts: &Facts, lists: &Lists, zone: Name, server: Server) -> bool {
        !self.servers.contains_key(&zone)
            && !self.is_above(facts, zone, server)
            && !facts.names.upward(zone).any(|name| self.is_silent(facts, lists, name))
            && !self.is_refuted(facts, lists, zone)
            && (zone != ROOT || self.may_be_root(facts, lists, server))
    }

    /// Whether a server that speaks for the root may be one of its servers. Some that are asked for what is not theirs deny it in the name of the root: a
    /// root server refers, or names itself, or nobody speaks for anything else.
    fn may_be_root(&self, facts: &Facts, lists: &Lists, server: Server) -> bool {
        lists.referrals.iter().any(|&(_, sender)| sender == server)
            || lists.claims.iter().all(|&(zone, _)| zone == ROOT)
            || !self.named_by_themselves(facts, lists, ROOT, &[server]).is_empty()
    }

    /// Whether a delegation leads to servers that did not respond: whoever else responded is not responsible. Where none of the name servers had an
    /// address, it may have been one of them.
    fn is_silent(&self, facts: &Facts, lists: &Lists, zone: Name) -> bool {
        let mut hosts = self.hosts.get(&zone).into_iter().flatten();
        !self.servers.contains_key(&zone)
            && hosts.any(|&host| !lists.of_owner(&lists.addresses, facts, host).is_empty())
    }

    /// Whether a responsible server answered for the zone's names itself, or denied with the SOA record of a zone above that there is a cut. Of servers
    /// that were taken at their word, those count that NS records of the zone lead to.
    fn is_refuted(&self, facts: &Facts, lists: &Lists, zone: Name) -> bool {
        let is_named = |name, server| self.serves(name, server) && !self.unnamed.contains(&(name, server));
        let answered = lists.answered.get(&zone).into_iter().flatten();
        let undivided = lists.undivided.get(&zone).into_iter().flatten();
        answered.copied().any(|server| facts.names.upward(zone).any(|name| is_named(name, server)))
            || undivided.copied().any(|(apex, server)| is_named(apex, server))
    }

    fn take_claims(&mut self, facts: &Facts, lists: &Lists, claims: &Map<Name, Vec<Server>>) -> Vec<Name> {
        let mut taken: Vec<Name> = claims.keys().copied().collect();
        taken.sort_unstable();
        for &zone in &taken {
            let claimants = &claims[&zone];
            let named = self.named_by_themselves(facts, lists, zone, claimants);
            let accepted = if named.is_empty() { claimants } else { &named };
            for &server in accepted {
                self.make_responsible(zone, server);
            }
            if named.is_empty() {
                self.unnamed.extend(accepted.iter().map(|&server| (zone, server)));
            }
        }
        taken
    }

    /// Believes delegations by servers of which nothing else is known, and their glue. What zone those serve, nobody says.
    fn take_referrals(&mut self, facts: &Facts, lists: &Lists, referrals: &Map<Name, Vec<Server>>) -> Vec<Name> {
        let mut taken: Vec<Name> = referrals.keys().copied().collect();
        taken.sort_unstable();
        for &zone in &taken {
            let senders = &referrals[&zone];
            self.referred.extend(senders.iter().map(|&server| (zone, server)));
            for &version in lists.of_owner(&lists.name_servers, facts, zone) {
                if facts.versions.sightings(version).any(|seen| senders.contains(&seen.server)) {
                    self.delegated(facts, version);
                }
            }
        }
        taken
    }

    /// Of servers that claim a zone, those that they name as its servers, with addresses, in their own responses.
    fn named_by_themselves(&self, facts: &Facts, lists: &Lists, zone: Name, claimants: &[Server]) -> Vec<Server> {
        let by_claimant = |version: VersionId| {
            facts.versions.sightings(version).any(|seen| seen.kind != Kind::Glue && claimants.contains(&seen.server))
        };
        let known = self.hosts.get(&zone).into_iter().flatten().copied();
        let mut hosts: Set<Name> = known.collect();
        for &version in lists.of_owner(&lists.name_servers, facts, zone) {
            if by_claimant(version) {
                hosts.extend(facts.versions.records(version).filter_map(|data| facts.names.find(data)));
            }
        }
        let mut addresses: Set<IpAddr> = Set::default();
        for host in hosts {
            addresses.extend(self.addresses.get(&host).into_iter().flatten());
            for &version in lists.of_owner(&lists.addresses, facts, host) {
                if by_claimant(version) {
                    addresses.extend(facts.versions.records(version).filter_map(address));
                }
            }
        }
        claimants.iter().copied().filter(|&server| addresses.contains(&facts.servers[server as usize])).collect()
    }

    /// Whether a believed delegation names hosts of which somebody other than the zone's servers gave an address that responded: the word of those
    /// servers was not needed after all.
    pub(super) fn is_led_to(&self, facts: &Facts, lists: &Lists, zone: Name) -> bool {
        let from = |version: VersionId| facts.versions.sightings(version).map(|seen| seen.server);
        let is_delegation = |&&version: &&VersionId| {
            zone != ROOT && from(version).any(|server| self.is_above(facts, facts.names.parent(zone), server))
        };
        let is_address = |host: Name, version: VersionId| {
            let is_believed = |server| !self.serves(zone, server) && self.is_above(facts, host, server);
            let mut servers = facts.versions.records(version).filter_map(address);
            from(version).any(is_believed)
                && servers.any(|one| facts.numbers.get(&one).is_some_and(|&server| self.serves(zone, server)))
        };
        let delegations = lists.of_owner(&lists.name_servers, facts, zone).iter().filter(is_delegation);
        let mut hosts =
            delegations.flat_map(|&id| facts.versions.records(id)).filter_map(|data| facts.names.find(data));
        hosts.any(|host| lists.of_owner(&lists.addresses, facts, host).iter().any(|&id| is_address(host, id)))
    }
}
