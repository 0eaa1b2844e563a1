//! Addresses of name servers: in their own zones, as glue, and invented where none was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use super::Plan;
use super::draft::{self, Draft};
use crate::construct::choose::Chosen;
use crate::construct::names::{Name, ROOT};
use crate::construct::place::Side;
use crate::construct::report::InventionKind;
use crate::construct::seen::Server;
use crate::construct::servers::address;
use crate::rtype;

/// TTL of invented address and NS records, in seconds.
const MADE_TTL: u32 = 3600;
/// The range of invented addresses, for benchmarks of network devices (RFC 2544 §C.2.2): 198.18.0.0/15.
const INVENTED: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// The size of the range.
const MOST_INVENTED: u32 = 1 << 17;

/// Addresses of hosts with their TTLs.
type Known = BTreeMap<Name, BTreeMap<IpAddr, u32>>;

impl Plan<'_> {
    /// Ensures that every zone has a name server with an address in the set.
    pub(super) fn reach(&mut self, others: &[Chosen]) {
        let mut known = self.known(others);
        let zones: Vec<Name> = self.drafts.keys().copied().collect();
        let mut invented = 0;
        let without = if self.report.keeps_lame { &[][..] } else { &zones };
        for &zone in without {
            let hosts = self.hosts_of(zone);
            self.give_addresses(zone, &hosts, &mut known, &mut invented);
        }
        for &zone in &zones {
            self.put_at_home(zone, &known);
        }
        for &zone in &zones {
            self.put_beside_delegations(zone, &known);
        }
    }

    /// All known addresses, from any zone.
    fn known(&self, others: &[Chosen]) -> Known {
        let mut known = Known::new();
        let sets = self.drafts.values().flat_map(Draft::sets).chain(others);
        for set in sets.filter(|set| matches!(set.rtype, rtype::A | rtype::AAAA)) {
            for &id in &set.versions {
                let ttl = self.facts.versions.get(id).ttl;
                let addresses = self.facts.versions.records(id).filter_map(address);
                known.entry(set.owner).or_default().extend(addresses.map(|address| (address, ttl)));
            }
        }
        known
    }

    /// The targets of a zone's NS records, at its apex and at its delegation.
    fn hosts_of(&mut self, zone: Name) -> Vec<Name> {
        let parent = self.parent_of(zone);
        let delegation = parent.and_then(|parent| self.drafts[&parent].name_servers(zone, Side::Delegation));
        let apex = self.drafts[&zone].name_servers(zone, Side::Own);
        let sets: Vec<Chosen> = apex.into_iter().chain(delegation).cloned().collect();
        sets.iter().flat_map(|set| self.targets(set)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn targets(&mut self, set: &Chosen) -> Vec<Name> {
        let data: Vec<Vec<u8>> =
            set.versions.iter().flat_map(|&id| self.facts.versions.records(id)).map(<[u8]>::to_vec).collect();
        data.iter().map(|target| self.facts.names.intern(target)).collect()
    }

    /// If no name server of a zone has an address, assigns those that responded for the zone, or one from the reserved range. Name servers in the
    /// zone itself all need an address, or BIND does not load it.
    fn give_addresses(&mut self, zone: Name, hosts: &[Name], known: &mut Known, invented: &mut u32) {
        let has_some = hosts.iter().any(|host| known.contains_key(host));
        if let Some(&host) = hosts.iter().find(|&&host| self.zone_of(host).is_some()).filter(|_| !has_some) {
            let servers = self.authority.servers(zone).iter();
            let responded: Vec<IpAddr> = servers.map(|&server| self.facts.servers[server as usize]).collect();
            for address in responded {
                self.give(self.kind_of_server(), zone, host, address, known);
            }
        }
        let mut is_first = !hosts.iter().any(|host| known.contains_key(host));
        for &host in hosts {
            let home = self.zone_of(host);
            let needs = home == Some(zone) || is_first && home.is_some();
            if needs && !known.contains_key(&host) && *invented < MOST_INVENTED {
                let address = Ipv4Addr::from_bits(INVENTED + *invented).into();
                *invented += 1;
                is_first = false;
                self.give(InventionKind::InventedAddress, zone, host, address, known);
            }
        }
    }

    fn give(&mut self, kind: InventionKind, zone: Name, host: Name, address: IpAddr, known: &mut Known) {
        known.entry(host).or_default().insert(address, MADE_TTL);
        let line = self.line(host, address, MADE_TTL);
        self.made(kind, zone, line);
    }

    /// Adds a name server's addresses to its own zone if they were seen only in responses of other zones.
    fn put_at_home(&mut self, zone: Name, known: &Known) {
        let mut hosts = self.hosts_of(zone);
        let delegations: Vec<Chosen> = self.drafts[&zone].delegations().cloned().collect();
        hosts.extend(delegations.iter().flat_map(|set| self.targets(set)));
        for host in hosts {
            let (Some(home), Some(addresses)) = (self.zone_of(host), known.get(&host)) else { continue };
            for (&address, &ttl) in addresses {
                let (rtype, data) = record_of(address);
                let is_there = self.drafts[&home].find(host, rtype).is_some()
                    || self.drafts[&home].find(host, rtype::CNAME).is_some();
                if !is_there && self.drafts.entry(home).or_default().add(host, rtype, ttl, &data) {
                    let line = self.line(host, address, ttl);
                    self.made(InventionKind::Address, home, line);
                }
            }
        }
    }

    /// Adds glue to a zone's delegations: the addresses of name servers below zone cuts (RFC 9471).
    fn put_beside_delegations(&mut self, zone: Name, known: &Known) {
        let delegations: Vec<Chosen> = self.drafts[&zone].delegations().cloned().collect();
        for host in delegations.iter().flat_map(|set| self.targets(set)).collect::<BTreeSet<_>>() {
            let is_below = self.facts.names.is_within(host, zone) && self.zone_of(host) != Some(zone);
            for (&address, &ttl) in known.get(&host).into_iter().flatten().filter(|_| is_below) {
                let (rtype, data) = record_of(address);
                self.drafts.entry(zone).or_default().add(host, rtype, ttl, &data);
            }
        }
    }

    /// Invents names for the servers that responded for a zone without NS records.
    pub(super) fn name_servers_of_addresses(&mut self, zone: Name) {
        let addresses = self.addresses_for(zone);
        let apex = self.facts.names.wire(zone).to_vec();
        for (number, address) in (1..).zip(addresses) {
            let label = format!("ldplayer-ns{number}");
            let wire = [&[label.len() as u8], label.as_bytes(), &apex].concat();
            if wire.len() > ldplayer_core::name::MAX_NAME {
                return;
            }
            let host = self.facts.names.intern(&wire);
            let parent = self.parent_of(zone);
            for (place, kind) in [(Some(zone), InventionKind::ApexNs), (parent, InventionKind::Delegation)] {
                let Some(place) = place else { continue };
                let (rtype, data) = record_of(address);
                let draft = self.drafts.entry(place).or_default();
                draft.add(zone, rtype::NS, MADE_TTL, &wire);
                draft.add(host, rtype, MADE_TTL, &data);
                let line = draft::line(self.facts, zone, rtype::NS, MADE_TTL, &wire);
                self.made(kind, place, line);
            }
            let line = self.line(host, address, MADE_TTL);
            self.made(self.kind_of_server(), zone, line);
        }
    }

    /// What the address of a server that responded is: of clients' responses, the server is made up.
    const fn kind_of_server(&self) -> InventionKind {
        if self.report.of_clients { InventionKind::InventedAddress } else { InventionKind::Address }
    }

    /// The addresses that responded for a zone; for an unseen root, those of the root hints, or of servers whose referrals were accepted.
    fn addresses_for(&self, zone: Name) -> Vec<IpAddr> {
        let of = |servers: &[Server]| servers.iter().map(|&server| self.facts.servers[server as usize]).collect();
        match self.authority.servers(zone) {
            [] if zone != ROOT => Vec::new(),
            [] if self.report.resolver_side => crate::hints::addresses().collect(),
            [] => of(&self.authority.referrers()),
            servers => of(servers),
        }
    }

    fn line(&self, host: Name, address: IpAddr, ttl: u32) -> String {
        let (rtype, data) = record_of(address);
        draft::line(self.facts, host, rtype, ttl, &data)
    }
}

fn record_of(address: IpAddr) -> (u16, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (rtype::A, v4.octets().to_vec()),
        IpAddr::V6(v6) => (rtype::AAAA, v6.octets().to_vec()),
    }
}
