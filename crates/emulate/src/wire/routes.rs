//! Maps destinations to hosts.
//!
//! A host owns blocks of addresses. A host of clients also gets replies to addresses that it has sent from: packets from a port
//! that clients have queried on the replying host, to a port that this client may have sent from, and that are not queries. Everything
//! else to such an address goes to the owner of its block, for example if a recorded client is also a name server;
//! without an owner it is a leak.

use std::net::{IpAddr, Ipv4Addr};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use ldplayer_core::Cidr;
use ldplayer_link::Blocks;

use super::packet::Headers;
use super::{Host, HostId};

/// Maximum number of remembered client addresses.
const CLIENTS: usize = 1 << 20;
/// The port of DNS.
const DNS: u16 = 53;
/// Maximum number of remembered first fragments to client addresses.
const FRAGMENTS: usize = 64;

/// A set of hosts, one bit each.
type Hosts = u32;

/// The address blocks owned by hosts. An address may have several owners.
#[derive(Debug, Default)]
pub struct Owners(Blocks<Hosts>);

/// The routing state.
#[derive(Debug)]
pub struct Routes {
    owners: Owners,
    /// Hosts of clients.
    learning: Hosts,
    clients: HashMap<IpAddr, Client, FixedState>,
    /// For each host, the ports that clients have queried there.
    asked: Vec<Ports>,
    fragments: Vec<(FragmentKey, Option<HostId>)>,
    next_fragment: usize,
    unlearned: u64,
}

type FragmentKey = (IpAddr, IpAddr, u32, u8);

/// An address that clients have sent from.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    hosts: Hosts,
    /// The ports that it has sent from, one bit per remainder modulo 64: a client with many ports may have used any.
    ports: u64,
}

#[derive(Clone, Debug)]
struct Ports(Box<[u64; 1_024]>);

/// What a packet replies to, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A packet from the port `client` to the port `server`.
    To {
        /// The port that was queried.
        server: u16,
        /// The port that sent the query.
        client: u16,
    },
    /// An ICMP echo request.
    Echo,
    /// It is not a reply.
    No,
}

impl Routes {
    /// An empty table for this many hosts (at most 32).
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

    /// Sets the owners of the blocks. Returns the previous ones.
    pub const fn replace_owners(&mut self, owners: Owners) -> Owners {
        std::mem::replace(&mut self.owners, owners)
    }

    /// Makes `host` own each address that it sends from.
    pub fn learn(&mut self, host: HostId) {
        self.learning |= host.bit();
    }

    /// Client addresses that were not learnt because there were too many.
    pub const fn unlearned(&self) -> u64 {
        self.unlearned
    }

    /// Whether an address is in a block of this host.
    pub fn owns(&self, host: HostId, address: IpAddr) -> bool {
        self.owners.0.of(address).any(|hosts| hosts & host.bit() != 0)
    }

    /// Whether a packet sent by `from` is a response to a client that has sent queries there.
    pub fn is_response(&self, from: HostId, headers: &Headers, reply: Reply) -> bool {
        let client = self.clients.get(&headers.destination).filter(|client| client.hosts & !from.bit() != 0);
        client.is_some_and(|known| match reply {
            Reply::To { server, client } => known.may_have_used(client) && self.asked[from.index()].contains(server),
            Reply::Echo => true,
            Reply::No => false,
        })
    }

    /// The destination host of a packet from `from`; `None` if no other host owns its address, and it is not a reply.
    pub fn find(&mut self, from: HostId, headers: &Headers, reply: Reply) -> Option<HostId> {
        let others = !from.bit();
        let by_block = self.owners.0.of(headers.destination).find(|&hosts| hosts & others != 0);
        let by_block = by_block.and_then(|hosts| first(hosts & others));
        let client = self.clients.get(&headers.destination).and_then(|client| first(client.hosts & others));
        let to = match client.filter(|&client| by_block != Some(client)) {
            Some(client) => self.choose(from, headers, reply, client, by_block),
            None => by_block,
        }?;
        self.note(from, to, headers);
        Some(to)
    }

    /// Chooses between a client's host and the owner, if there is one.
    fn choose(
        &mut self,
        from: HostId,
        headers: &Headers,
        reply: Reply,
        client: HostId,
        owner: Option<HostId>,
    ) -> Option<HostId> {
        let key = headers.fragment.map(|fragment| (headers.source, headers.destination, fragment.id, headers.protocol));
        if let Some(key) = key.filter(|_| headers.is_later_fragment()) {
            // Without its first fragment the destination is unknown; a leak was already counted there.
            let begun = self.fragments.iter().find(|(known, _)| *known == key);
            return begun.map_or(owner.or(Some(client)), |&(_, to)| to);
        }
        let to = if self.is_response(from, headers, reply) { Some(client) } else { owner };
        if let Some(key) = key {
            match self.fragments.get_mut(self.next_fragment) {
                Some(place) => *place = (key, to),
                None => self.fragments.push((key, to)),
            }
            self.next_fragment = (self.next_fragment + 1) % FRAGMENTS;
        }
        to
    }

    /// Learns from a client's packet.
    fn note(&mut self, from: HostId, to: HostId, headers: &Headers) {
        if self.learning & from.bit() == 0 {
            return;
        }
        if let Some((_, port)) = headers.ports {
            self.asked[to.index()].insert(port);
        }
        let is_full = self.clients.len() >= CLIENTS;
        let client = match self.clients.entry(headers.source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => {
                self.unlearned += 1;
                return;
            }
            Entry::Vacant(new) => new.insert(Client::default()),
        };
        client.hosts |= from.bit();
        client.ports |= headers.ports.map_or(0, |(port, _)| port_bit(port));
    }
}

impl Client {
    const fn may_have_used(self, port: u16) -> bool {
        self.ports & port_bit(port) != 0
    }
}

const fn port_bit(port: u16) -> u64 {
    1 << (port % 64)
}

impl Reply {
    /// What a packet replies to, as far as it shows by itself. A SYN opens a connection; a message to the DNS port without
    /// QR is a query, wherever it comes from.
    pub fn of(headers: &Headers, packet: &[u8]) -> Self {
        if let Some((server, client)) = headers.ports {
            let is_question = client == DNS && headers.is_dns_query(packet);
            let is_none = is_question || headers.segment(packet).is_some_and(|segment| segment.opens);
            return if is_none { Self::No } else { Self::To { server, client } };
        }
        let quoted = headers.quote(packet).and_then(|at| Headers::parse_quoted(packet.get(at..)?).ok());
        match quoted.and_then(|quoted| quoted.ports) {
            Some((client, server)) => Self::To { server, client },
            None if headers.is_echo_reply(packet) => Self::Echo,
            None => Self::No,
        }
    }
}

impl Owners {
    /// The blocks owned by these hosts, at most 32.
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

/// Whether an address is link-local, multicast or broadcast: routers do not forward such packets (RFC 3927 §2.7,
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
    use crate::wire::test_packet::{self, TestPacket};

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
        routes.find(from, &headers, Reply::of(&headers, packet))
    }

    fn udp(source: &str, destination: &str) -> Vec<u8> {
        TestPacket::udp(source, destination, &[0; 40]).packet()
    }

    #[test]
    fn clients_are_found_where_they_sent_from() {
        let mut routes = routes();
        let answer = udp("10.53.0.2:53", "203.0.113.5:4000");
        assert_eq!(find(&mut routes, RESOLVER, &answer), None);
        let question = udp("203.0.113.5:4000", "10.53.0.2:53");
        assert_eq!(find(&mut routes, CLIENTS, &question), Some(RESOLVER));
        assert_eq!(find(&mut routes, RESOLVER, &answer), Some(CLIENTS));
        let late = test_packet::unreachable("10.53.0.2".parse().unwrap(), "203.0.113.5".parse().unwrap(), &question);
        assert_eq!(find(&mut routes, RESOLVER, &late), Some(CLIENTS), "an error about its question");
        for fragment in test_packet::fragments(&answer, 9, 24) {
            assert_eq!(find(&mut routes, RESOLVER, &fragment), Some(CLIENTS));
        }
    }

    #[test]
    fn what_is_no_reply_to_a_client_is_nobodys() {
        let mut routes = routes();
        for client in ["203.0.113.5:4000", "203.0.113.5:53"] {
            for syn in [udp(client, "10.53.0.2:53"), TestPacket::tcp(client, "10.53.0.2:53", 1, 2, b"").packet()] {
                find(&mut routes, CLIENTS, &syn);
            }
        }
        let tcp = |flags, to: &str| TestPacket::tcp("10.53.0.2:53", to, 1, flags, b"").packet();
        for (leak, what) in [
            (udp("10.53.0.2:4001", "203.0.113.5:53"), "a question, from a port that nobody asked"),
            (udp("10.53.0.2:53", "203.0.113.5:53"), "a question, from a port that clients ask"),
            (udp("10.53.0.2:53", "203.0.113.5:4001"), "to a port that never asked"),
            (udp("198.41.0.4:53", "203.0.113.5:4000"), "from a host that was not asked"),
            (tcp(2, "203.0.113.5:53"), "a connection of its own"),
        ] {
            let from = if leak[12] == 198 { INTERNET } else { RESOLVER };
            assert_eq!(find(&mut routes, from, &leak), None, "{what}");
            for (fragment, number) in test_packet::fragments(&leak, 3, 24).iter().zip(0..) {
                assert_eq!(find(&mut routes, from, fragment), None, "{what}, fragment {number}");
            }
        }
        let response = TestPacket::udp("10.53.0.2:53", "203.0.113.5:53", &[0, 1, 0x80, 0]).packet();
        for reply in [response, tcp(0x12, "203.0.113.5:53"), tcp(0x10, "203.0.113.5:4000")] {
            assert_eq!(find(&mut routes, RESOLVER, &reply), Some(CLIENTS));
        }
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
        let response = |port| TestPacket::udp(&format!("10.53.0.2:{port}"), "192.0.2.7:53", &[0x80; 40]).packet();
        assert_eq!(find(&mut routes, RESOLVER, &response(53)), Some(CLIENTS));
        assert_eq!(find(&mut routes, RESOLVER, &udp("10.53.0.2:53", "192.0.2.7:53")), Some(INTERNET));
        assert_eq!(find(&mut routes, RESOLVER, &udp("10.53.0.2:4000", "192.0.2.7:53")), Some(INTERNET));
        // Fragments go where the first of them went.
        for (port, to, id) in [(53, CLIENTS, 7), (4_000, INTERNET, 8)] {
            for fragment in test_packet::fragments(&response(port), id, 24) {
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
