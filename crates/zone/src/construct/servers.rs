//! Which servers are responsible for which zones, from the root down.
//!
//! A delegation is believed from servers responsible for a zone above it, an address from servers responsible for a zone around the host, and a
//! server's own word from servers responsible for a zone above. That is repeated until nothing new comes of it. A zone that only its own servers
//! speak of, as when the capture began with a full cache, is taken at their word where no delegation says otherwise.

use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use ldplayer_core::name::Presentation;

use super::Facts;
use super::names::{Name, ROOT};
use super::report::Report;
use super::seen::{Kind, Server, VersionId};
use crate::{hints, rtype};

type Map<K, V> = HashMap<K, V, FixedState>;
type Set<T> = HashSet<T, FixedState>;

/// Zones and their servers.
#[derive(Debug, Default)]
pub(super) struct Authority {
    responsible: Set<(Name, Server)>,
    servers: Map<Name, Vec<Server>>,
    /// Zones: delegated by servers that are believed, or taken at their own word.
    cuts: Set<Name>,
    hosts: Map<Name, Set<Name>>,
    addresses: Map<Name, Set<IpAddr>>,
    /// Address sets that were believed.
    believed: Set<VersionId>,
}

impl Authority {
    /// Finds out from everything that was seen.
    pub fn find(facts: &Facts, report: &mut Report) -> Self {
        let mut authority = Self::default();
        let lists = Lists::of(facts);
        for server in hints::addresses().filter_map(|address| facts.numbers.get(&address)) {
            authority.make_responsible(ROOT, *server);
        }
        loop {
            while authority.learn(facts, &lists) {}
            let taken = authority.take_at_their_word(facts, &lists);
            if taken.is_empty() {
                break;
            }
            // The first zone of all is nobody's child.
            let is_start = |zone: &Name| *zone == ROOT;
            let unverified = taken.into_iter().filter(|zone| !is_start(zone));
            report.unverified.extend(unverified.map(|zone| Presentation(facts.names.wire(zone)).to_string()));
        }
        authority.servers.values_mut().for_each(|servers| servers.sort_unstable());
        report.unverified.sort_unstable();
        authority
    }

    /// Whether the server is responsible for the zone.
    pub fn serves(&self, zone: Name, server: Server) -> bool {
        self.responsible.contains(&(zone, server))
    }

    /// Whether the server is responsible for the name or a zone above it.
    pub fn is_above(&self, facts: &Facts, name: Name, server: Server) -> bool {
        facts.names.upward(name).any(|zone| self.serves(zone, server))
    }

    /// The zone that a name is in. `None` when it is in none that is known.
    pub fn zone_of(&self, facts: &Facts, name: Name) -> Option<Name> {
        facts.names.upward(name).find(|zone| self.cuts.contains(zone))
    }

    /// The zone that delegates a name. `None` for the root, and when no zone above is known.
    pub fn parent_of(&self, facts: &Facts, name: Name) -> Option<Name> {
        (name != ROOT).then(|| self.zone_of(facts, facts.names.parent(name))).flatten()
    }

    /// Whether the name is a zone's.
    pub fn is_cut(&self, name: Name) -> bool {
        self.cuts.contains(&name)
    }

    /// Servers of the zone that responded.
    pub fn servers(&self, zone: Name) -> &[Server] {
        self.servers.get(&zone).map_or(&[], Vec::as_slice)
    }

    fn learn(&mut self, facts: &Facts, lists: &Lists) -> bool {
        let before = self.size();
        for &version in &lists.name_servers {
            self.learn_hosts(facts, version);
        }
        for &version in &lists.addresses {
            self.learn_addresses(facts, version);
        }
        self.learn_servers(facts);
        for &(zone, server) in &lists.claims {
            if zone != ROOT && self.is_above(facts, facts.names.parent(zone), server) {
                self.make_responsible(zone, server);
            }
        }
        self.size() != before
    }

    /// Nothing is ever taken back, so this grows with whatever is learned.
    fn size(&self) -> (usize, usize, usize, usize) {
        let hosts = self.hosts.values().map(Set::len).sum();
        (self.responsible.len(), self.cuts.len(), hosts, self.believed.len())
    }

    fn learn_hosts(&mut self, facts: &Facts, version: VersionId) {
        let zone = facts.versions.get(version).owner;
        let believed = facts.versions.sightings(version).any(|seen| {
            let is_own = seen.kind.is_authoritative() && self.serves(zone, seen.server);
            is_own || zone != ROOT && self.is_above(facts, facts.names.parent(zone), seen.server)
        });
        if !believed {
            return;
        }
        self.cuts.insert(zone);
        let targets = facts.versions.records(version).filter_map(|data| facts.names.find(data));
        self.hosts.entry(zone).or_default().extend(targets);
    }

    fn learn_addresses(&mut self, facts: &Facts, version: VersionId) {
        if self.believed.contains(&version) {
            return;
        }
        let host = facts.versions.get(version).owner;
        if facts.versions.sightings(version).any(|seen| self.is_above(facts, host, seen.server)) {
            self.believed.insert(version);
            let addresses = facts.versions.records(version).filter_map(address);
            self.addresses.entry(host).or_default().extend(addresses);
        }
    }

    fn learn_servers(&mut self, facts: &Facts) {
        let mut found = Vec::new();
        for (&zone, hosts) in &self.hosts {
            let addresses = hosts.iter().filter_map(|host| self.addresses.get(host)).flatten();
            let servers = addresses.filter_map(|address| facts.numbers.get(address));
            found.extend(servers.map(|&server| (zone, server)).filter(|pair| !self.responsible.contains(pair)));
        }
        found.into_iter().for_each(|(zone, server)| self.make_responsible(zone, server));
    }

    fn make_responsible(&mut self, zone: Name, server: Server) {
        self.cuts.insert(zone);
        if self.responsible.insert((zone, server)) {
            self.servers.entry(zone).or_default().push(server);
        }
    }

    /// Takes the zones nearest to the root that have no server yet and that servers claim, and says which.
    fn take_at_their_word(&mut self, facts: &Facts, lists: &Lists) -> Vec<Name> {
        let is_open = |&&(zone, server): &&(Name, Server)| {
            !self.servers.contains_key(&zone) && !self.is_above(facts, zone, server)
        };
        let open: Vec<(Name, Server)> = lists.claims.iter().filter(is_open).copied().collect();
        let Some(depth) = open.iter().map(|&(zone, _)| facts.names.depth(zone)).min() else { return Vec::new() };
        let mut claims: Map<Name, Vec<Server>> = Map::default();
        for (zone, server) in open.into_iter().filter(|&(zone, _)| facts.names.depth(zone) == depth) {
            claims.entry(zone).or_default().push(server);
        }
        let mut taken: Vec<Name> = claims.keys().copied().collect();
        taken.sort_unstable();
        for &zone in &taken {
            let claimants = &claims[&zone];
            let named = self.named_by_themselves(facts, lists, zone, claimants);
            let accepted = if named.is_empty() { claimants } else { &named };
            accepted.iter().for_each(|&server| self.make_responsible(zone, server));
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
}

/// What the search goes through again and again, in an order that does not depend on hashes.
struct Lists {
    /// NS record sets by owner.
    name_servers: Vec<VersionId>,
    /// A and AAAA record sets by owner.
    addresses: Vec<VersionId>,
    claims: Vec<(Name, Server)>,
}

impl Lists {
    fn of(facts: &Facts) -> Self {
        let of_types = |types: &[u16]| {
            let wanted = facts.versions.iter().filter(|(_, version)| types.contains(&version.rtype));
            let mut ids: Vec<VersionId> = wanted.map(|(id, _)| id).collect();
            ids.sort_unstable_by_key(|&id| (facts.versions.get(id).owner, id));
            ids
        };
        let mut claims: Vec<(Name, Server)> = facts.claims.keys().copied().collect();
        claims.extend(referring(facts));
        claims.sort_unstable();
        claims.dedup();
        let hosts: Set<Name> = of_types(&[rtype::NS])
            .iter()
            .flat_map(|&id| facts.versions.records(id))
            .filter_map(|data| facts.names.find(data))
            .collect();
        let mut addresses = of_types(&[rtype::A, rtype::AAAA]);
        addresses.retain(|&id| hosts.contains(&facts.versions.get(id).owner));
        Self { name_servers: of_types(&[rtype::NS]), addresses, claims }
    }

    fn of_owner<'a>(&self, ids: &'a [VersionId], facts: &Facts, owner: Name) -> &'a [VersionId] {
        let start = ids.partition_point(|&id| facts.versions.get(id).owner < owner);
        let count = ids[start..].partition_point(|&id| facts.versions.get(id).owner == owner);
        &ids[start..start + count]
    }
}

/// Servers that refer to a zone, with the name above it: what a referral's sender serves is at least that, where nothing better is known.
fn referring(facts: &Facts) -> impl Iterator<Item = (Name, Server)> {
    let name_servers = facts.versions.iter().filter(|(_, version)| version.rtype == rtype::NS && version.owner != ROOT);
    name_servers.flat_map(|(id, version)| {
        let referrals = facts.versions.sightings(id).filter(|seen| seen.kind == Kind::Referral);
        referrals.map(|seen| (facts.names.parent(version.owner), seen.server))
    })
}

/// The address in the data of an A or AAAA record.
pub(super) fn address(data: &[u8]) -> Option<IpAddr> {
    match *data {
        [a, b, c, d] => Some([a, b, c, d].into()),
        _ => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
    }
}
