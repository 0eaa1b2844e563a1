//! Zones that are accepted from servers without a known delegation.

use std::net::IpAddr;

use super::lists::Lists;
use super::{Authority, Map, Set, address};
use crate::construct::Facts;
use crate::construct::names::{Name, ROOT};
use crate::construct::seen::{SectionKind, Server, VersionId};

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
    /// Accepts, on the servers' own word, the claimed zones nearest to the root that have no other server, and returns them. Referrals are only
    /// considered when no claims are left: caches refer, too, when they are asked for names that are not theirs.
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

    /// Whether a server may be accepted for a zone on its own word: the zone has no other server, and nothing contradicts it.
    fn is_open(&self, facts: &Facts, lists: &Lists, zone: Name, server: Server) -> bool {
        !self.servers.contains_key(&zone)
            && !self.is_above(facts, zone, server)
            && !facts.names.upward(zone).any(|name| self.is_silent(facts, lists, name))
            && !self.is_refuted(facts, lists, zone)
            && (zone != ROOT || self.may_be_root(facts, lists, server))
    }

    /// Whether a server that claims the root may be a root server. Some servers deny names that are not theirs with the root's SOA record. A root
    /// server sends referrals or lists itself; or else no server claims any other zone.
    fn may_be_root(&self, facts: &Facts, lists: &Lists, server: Server) -> bool {
        lists.referrals.iter().any(|&(_, sender)| sender == server)
            || lists.claims.iter().all(|&(zone, _)| zone == ROOT)
            || !self.named_by_themselves(facts, lists, ROOT, &[server]).is_empty()
    }

    /// Whether a zone is delegated to known addresses, none of which responded: then no other server is responsible. Without any known address, a
    /// server that responded may be one of the delegated ones.
    fn is_silent(&self, facts: &Facts, lists: &Lists, zone: Name) -> bool {
        let mut hosts = self.hosts.get(&zone).into_iter().flatten();
        !self.servers.contains_key(&zone)
            && hosts.any(|&host| !lists.of_owner(&lists.addresses, facts, host).is_empty())
    }

    /// Whether a responsible server contradicts the zone: it answered for names of the zone itself, or ruled out the zone cut by a denial with the SOA
    /// record of a zone above. Servers accepted on their own word count only if NS records name them.
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

    /// Accepts delegations, with their glue, from servers whose own zone is unknown.
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

    /// The claimants of a zone that their own responses list among its name servers, with addresses.
    fn named_by_themselves(&self, facts: &Facts, lists: &Lists, zone: Name, claimants: &[Server]) -> Vec<Server> {
        let by_claimant = |version: VersionId| {
            facts
                .versions
                .sightings(version)
                .any(|seen| seen.kind != SectionKind::Glue && claimants.contains(&seen.server))
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

    /// Whether an accepted delegation leads to a server of the zone, by an address from servers other than the zone's own: then the zone does not
    /// depend on its servers' word.
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
