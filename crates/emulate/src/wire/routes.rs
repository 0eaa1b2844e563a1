//! Which host a destination belongs to.
//!
//! A host owns blocks of addresses; a host of clients also owns each address that it has sent from. Where both give different
//! answers, as when a recorded client is a name server too, the source port tells: what comes from a port that clients
//! have asked is a response to them.

use std::net::{IpAddr, Ipv4Addr};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::Cidr;

use super::packet::Headers;
use super::prefixes::Blocks;
use super::{Host, HostId};

/// Source addresses of clients that are kept at most.
const CLIENTS: usize = 1 << 20;
/// First fragments whose way is kept for those that follow, where the destination has two owners.
const FRAGMENTS: usize = 64;

/// A set of hosts, one bit each.
type Hosts = u32;

/// The blocks of addresses that hosts own. An address may have several owners.
#[derive(Debug, Default)]
pub struct Owners(Blocks<Hosts>);

/// The ways of packets.
#[derive(Debug)]
pub struct Routes {
    owners: Owners,
    /// Hosts of clients.
    learning: Hosts,
    clients: HashMap<IpAddr, Hosts, FixedState>,
    /// For each host, the ports that clients have asked there.
    asked: Vec<Ports>,
    fragments: Vec<(FragmentKey, HostId)>,
    next_fragment: usize,
    unlearned: u64,
}

type FragmentKey = (IpAddr, IpAddr, u32, u8);

#[derive(Clone, Debug)]
struct Ports(Box<[u64; 1_024]>);

impl Routes {
    /// No routes yet, between so many hosts (at most 32).
    pub fn new(hosts: usize) -> Self {
        Self {
            owners: Owners::default(),
            learning: 0,
            clients: HashMap::default(),
            asked: vec![Ports(Box::new([0; 1_024])); hosts],
            fragments: Vec::with_capacity(FRAGMENTS),
            next_fragment: 0,
            unlearned: 0,
        }
    }

    /// From now on these own the blocks. Returns those that did.
    pub const fn replace_owners(&mut self, owners: Owners) -> Owners {
        std::mem::replace(&mut self.owners, owners)
    }

    /// Makes each address that `host` sends from its own.
    pub fn learn(&mut self, host: HostId) {
        self.learning |= host.bit();
    }

    /// Addresses of clients that were not learnt, as there were too many.
    pub const fn unlearned(&self) -> u64 {
        self.unlearned
    }

    /// Whether a packet that `from` sends is a response to a client that has asked there.
    pub fn is_response(&self, from: HostId, headers: &Headers, source_port: Option<u16>) -> bool {
        let is_client = self.clients.get(&headers.destination).is_some_and(|hosts| hosts & !from.bit() != 0);
        is_client && source_port.is_some_and(|port| self.asked[from.index()].contains(port))
    }

    /// The host that a packet from `from` goes to; `None` when no other host owns its destination. `source_port` is that of
    /// the packet, or of the answer that an ICMP error is given for.
    pub fn find(&mut self, from: HostId, headers: &Headers, source_port: Option<u16>) -> Option<HostId> {
        let others = !from.bit();
        let by_block = self.owners.0.of(headers.destination).find(|&hosts| hosts & others != 0);
        let by_block = by_block.and_then(|hosts| first(hosts & others));
        let client = self.clients.get(&headers.destination).and_then(|hosts| first(hosts & others));
        let to = match (client, by_block) {
            (Some(client), Some(owner)) if client != owner => self.choose(from, headers, source_port, client, owner),
            (client, owner) => client.or(owner)?,
        };
        self.note(from, to, headers);
        Some(to)
    }

    fn choose(&mut self, from: HostId, headers: &Headers, port: Option<u16>, client: HostId, owner: HostId) -> HostId {
        let key = headers.fragment.map(|fragment| (headers.source, headers.destination, fragment.id, headers.protocol));
        if let Some(key) = key.filter(|_| headers.is_later_fragment()) {
            return self.fragments.iter().find(|(known, _)| *known == key).map_or(owner, |&(_, to)| to);
        }
        let to = if self.is_response(from, headers, port) { client } else { owner };
        if let Some(key) = key {
            match self.fragments.get_mut(self.next_fragment) {
                Some(place) => *place = (key, to),
                None => self.fragments.push((key, to)),
            }
            self.next_fragment = (self.next_fragment + 1) % FRAGMENTS;
        }
        to
    }

    /// Learns from a packet of a client.
    fn note(&mut self, from: HostId, to: HostId, headers: &Headers) {
        if self.learning & from.bit() == 0 {
            return;
        }
        if let Some((_, port)) = headers.ports {
            self.asked[to.index()].insert(port);
        }
        let known = self.clients.get(&headers.source).is_some_and(|hosts| hosts & from.bit() != 0);
        if !known && self.clients.len() >= CLIENTS {
            self.unlearned += 1;
        } else if !known {
            *self.clients.entry(headers.source).or_default() |= from.bit();
        }
    }
}

impl Owners {
    /// What these hosts own, which are at most 32.
    pub fn of(hosts: &[Host]) -> Self {
        let mut owners = Self::default();
        for (host, number) in hosts.iter().zip(0..) {
            host.owns.iter().for_each(|&block| owners.own(HostId(number), block));
        }
        owners
    }

    fn own(&mut self, host: HostId, block: Cidr) {
        if let Some(before) = self.0.insert(block, host.bit()) {
            self.0.insert(block, before | host.bit());
        }
    }
}

impl Ports {
    fn insert(&mut self, port: u16) {
        self.0[usize::from(port) / 64] |= 1 << (port % 64);
    }

    fn contains(&self, port: u16) -> bool {
        self.0[usize::from(port) / 64] & 1 << (port % 64) != 0
    }
}

fn first(hosts: Hosts) -> Option<HostId> {
    (hosts != 0).then(|| HostId(hosts.trailing_zeros() as u8))
}

/// Whether an address is for the hosts of one link only, or for many: no router passes such packets on (RFC 3927 §2.7,
/// RFC 4291 §2.5.6, RFC 5771 §4, RFC 919 §7).
pub fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_link_local() || v4 == Ipv4Addr::BROADCAST,
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::made::{self, Made};

    const CLIENTS: HostId = HostId(0);
    const RESOLVER: HostId = HostId(1);
    const INTERNET: HostId = HostId(2);

    fn routes() -> Routes {
        let mut routes = Routes::new(3);
        routes.learn(CLIENTS);
        let mut owners = Owners::default();
        owners.own(RESOLVER, "10.53.0.2".parse().unwrap());
        for block in ["198.41.0.0/24", "192.0.2.0/24"] {
            owners.own(INTERNET, block.parse().unwrap());
        }
        routes.replace_owners(owners);
        routes
    }

    fn find(routes: &mut Routes, from: HostId, packet: &[u8]) -> Option<HostId> {
        let headers = Headers::parse(packet).unwrap();
        routes.find(from, &headers, headers.ports.map(|(source, _)| source))
    }

    fn udp(source: &str, destination: &str) -> Vec<u8> {
        Made::udp(source, destination, &[0; 40]).packet()
    }

    #[test]
    fn clients_are_found_where_they_sent_from() {
        let mut routes = routes();
        let answer = udp("10.53.0.2:53", "203.0.113.5:4000");
        assert_eq!(find(&mut routes, RESOLVER, &answer), None);
        assert_eq!(find(&mut routes, CLIENTS, &udp("203.0.113.5:4000", "10.53.0.2:53")), Some(RESOLVER));
        assert_eq!(find(&mut routes, RESOLVER, &answer), Some(CLIENTS));
        assert_eq!(find(&mut routes, INTERNET, &udp("198.41.0.4:53", "203.0.113.5:4000")), Some(CLIENTS));
    }

    #[test]
    fn nobody_owns_an_address_for_itself() {
        let mut routes = routes();
        assert_eq!(find(&mut routes, INTERNET, &udp("198.41.0.4:53", "198.41.0.5:53")), None);
        assert_eq!(find(&mut routes, RESOLVER, &udp("10.53.0.2:4000", "8.8.8.8:53")), None);
    }

    #[test]
    fn a_client_that_is_a_name_server_too_gets_its_answers_and_its_questions() {
        let mut routes = routes();
        find(&mut routes, CLIENTS, &udp("192.0.2.7:53", "10.53.0.2:53"));
        assert_eq!(find(&mut routes, RESOLVER, &udp("10.53.0.2:53", "192.0.2.7:53")), Some(CLIENTS));
        assert_eq!(find(&mut routes, RESOLVER, &udp("10.53.0.2:4000", "192.0.2.7:53")), Some(INTERNET));
        // Fragments go where the first of them went.
        for (port, to, id) in [(53, CLIENTS, 7), (4_000, INTERNET, 8)] {
            for fragment in made::fragments(&udp(&format!("10.53.0.2:{port}"), "192.0.2.7:53"), id, 24) {
                assert_eq!(find(&mut routes, RESOLVER, &fragment), Some(to));
            }
        }
    }

    #[test]
    fn addresses_of_one_link_are_told() {
        for address in ["224.0.0.22", "169.254.1.1", "255.255.255.255", "ff02::16", "fe80::1"] {
            assert!(is_link_local(address.parse().unwrap()), "{address}");
        }
        assert!(!is_link_local("8.8.8.8".parse().unwrap()) && !is_link_local("2001:db8::1".parse().unwrap()));
    }
}
