//! Finds the authoritative servers of each zone, from the root down.
//!
//! A server is responsible for a zone if it is one of the zone's authoritative servers. Delegations, and claims to serve a zone, are accepted
//! from servers responsible for a zone above it; addresses from servers responsible for a zone that encloses the host. This is repeated until
//! nothing new is learned. Where the recording resolver's cache was warm, some delegations are missing: then claims are accepted on the
//! claimants' own word ([`word`]).

mod lists;
mod word;

use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use ldplayer_core::name::Presentation;

use super::Facts;
use super::names::{Name, ROOT};
use super::report::Report;
use super::seen::{Server, VersionId};
use crate::hints;
use lists::Lists;

type Map<K, V> = HashMap<K, V, FixedState>;
type Set<T> = HashSet<T, FixedState>;

/// Zones and their servers.
#[derive(Debug, Default)]
pub(super) struct Authority {
    responsible: Set<(Name, Server)>,
    servers: Map<Name, Vec<Server>>,
    /// Apexes of zones: from accepted delegations, or from servers accepted on their own word.
    cuts: Set<Name>,
    hosts: Map<Name, Set<Name>>,
    addresses: Map<Name, Set<IpAddr>>,
    /// Accepted address record sets.
    believed: Set<VersionId>,
    /// Servers accepted for a zone on their own word, without being among its NS records.
    unnamed: Set<(Name, Server)>,
    /// Zones accepted from a server that refers to them, and that server.
    referred: Set<(Name, Server)>,
}

impl Authority {
    /// Determines zones and servers from the facts.
    pub fn find(facts: &Facts, report: &mut Report) -> Self {
        let mut authority = Self::default();
        let lists = Lists::of(facts);
        for server in hints::addresses().filter_map(|address| facts.numbers.get(&address)) {
            authority.make_responsible(ROOT, *server);
        }
        let mut taken = Vec::new();
        loop {
            while authority.learn(facts, &lists) {}
            let more = authority.take_at_their_word(facts, &lists);
            if more.is_empty() {
                break;
            }
            taken.extend(more);
        }
        // The topmost zone has no parent.
        taken.retain(|&zone| zone != ROOT && !authority.is_led_to(facts, &lists, zone));
        let shown = |zone: &Name| Presentation(facts.names.wire(*zone)).to_string();
        report.unverified = taken.iter().map(shown).collect();
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

    /// The closest enclosing zone of a name; `None` if none is known.
    pub fn zone_of(&self, facts: &Facts, name: Name) -> Option<Name> {
        facts.names.upward(name).find(|zone| self.cuts.contains(zone))
    }

    /// The parent zone of a name; `None` for the root, or if none is known.
    pub fn parent_of(&self, facts: &Facts, name: Name) -> Option<Name> {
        (name != ROOT).then(|| self.zone_of(facts, facts.names.parent(name))).flatten()
    }

    /// Whether the name is the apex of a zone.
    pub fn is_cut(&self, name: Name) -> bool {
        self.cuts.contains(&name)
    }

    /// The zone's servers that responded.
    pub fn servers(&self, zone: Name) -> &[Server] {
        self.servers.get(&zone).map_or(&[], Vec::as_slice)
    }

    /// Whether the server's referral to the zone was accepted on its own word.
    pub fn is_referrer(&self, zone: Name, server: Server) -> bool {
        self.referred.contains(&(zone, server))
    }

    /// Whether the server's referral to a zone that encloses the host was accepted on its own word.
    pub fn refers_around(&self, facts: &Facts, host: Name, server: Server) -> bool {
        !self.referred.is_empty() && facts.names.upward(host).any(|zone| self.is_referrer(zone, server))
    }

    /// Servers whose referrals were accepted on their own word.
    pub fn referrers(&self) -> Vec<Server> {
        let mut servers: Vec<Server> = self.referred.iter().map(|&(_, server)| server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
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

    /// The amount of knowledge. Nothing is retracted, so it grows with everything learned.
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
        if believed {
            self.delegated(facts, version);
        }
    }

    /// Notes a zone with these NS records.
    fn delegated(&mut self, facts: &Facts, version: VersionId) {
        let zone = facts.versions.get(version).owner;
        self.cuts.insert(zone);
        let targets = facts.versions.records(version).filter_map(|data| facts.names.find(data));
        self.hosts.entry(zone).or_default().extend(targets);
    }

    fn learn_addresses(&mut self, facts: &Facts, version: VersionId) {
        if self.believed.contains(&version) {
            return;
        }
        let host = facts.versions.get(version).owner;
        let is_believed = |server| self.is_above(facts, host, server) || self.refers_around(facts, host, server);
        if facts.versions.sightings(version).any(|seen| is_believed(seen.server)) {
            self.believed.insert(version);
            let addresses = facts.versions.records(version).filter_map(address);
            self.addresses.entry(host).or_default().extend(addresses);
        }
    }

    fn learn_servers(&mut self, facts: &Facts) {
        let mut found = Vec::new();
        for &zone in self.hosts.keys() {
            let servers = self.delegated_servers(facts, zone).map(|server| (zone, server));
            found.extend(servers.filter(|pair| !self.responsible.contains(pair)));
        }
        found.into_iter().for_each(|(zone, server)| self.make_responsible(zone, server));
    }

    /// The servers named by the zone's NS records that responded.
    fn delegated_servers(&self, facts: &Facts, zone: Name) -> impl Iterator<Item = Server> {
        self.delegated_addresses(zone).filter_map(|address| facts.numbers.get(&address)).copied()
    }

    /// The addresses of the zone's NS records, whether or not they responded.
    pub fn delegated_addresses(&self, zone: Name) -> impl Iterator<Item = IpAddr> {
        let hosts = self.hosts.get(&zone).into_iter().flatten();
        hosts.filter_map(|host| self.addresses.get(host)).flatten().copied()
    }

    pub(super) fn make_responsible(&mut self, zone: Name, server: Server) {
        self.cuts.insert(zone);
        if self.responsible.insert((zone, server)) {
            self.servers.entry(zone).or_default().push(server);
        }
    }
}

/// The address in the data of an A or AAAA record.
pub(super) fn address(data: &[u8]) -> Option<IpAddr> {
    match *data {
        [a, b, c, d] => Some([a, b, c, d].into()),
        _ => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
    }
}
