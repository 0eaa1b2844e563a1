//! The recursive and the authoritative proxy of the LDplayer paper (ISI-TR-722 §2.4) as rules on the wire.
//!
//! The recursive proxy takes packets from resolvers to port 53 and sets source := original destination, destination := the
//! authoritative server, which thereby sees the address queried as client and can choose the zone by it (BIND's
//! `match-clients`). The authoritative proxy does the same with the responses, which thus reach the resolver from the address
//! that it queried. The address of the resolver is lost on the way; the proxies keep it, and if two resolvers use
//! the same port towards the same address, one of them gets another port towards the server.

use std::net::{IpAddr, SocketAddr};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::shard::client_hash;
use ldplayer_core::time::NS_PER_S;
use serde::{Deserialize, Serialize};

use super::HostId;
use super::packet::{Headers, TCP, UDP};
use super::rewrite::{set_ends, set_quoted_ends};
use ldplayer_core::random::draw;

/// Maximum number of remembered queries and connections.
const MAPPINGS: usize = 262_144;
/// Idle time after which another resolver may take the port, in nanoseconds.
const UDP_IDLE: i64 = 30 * NS_PER_S;
/// The same for TCP.
const TCP_IDLE: i64 = 600 * NS_PER_S;
/// Number of ports tried for a query, the resolver's own first.
const TRIES: u64 = 8;
/// Maximum number of remembered first fragments.
const FRAGMENTS: usize = 256;

/// The settings of the proxies.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// The host of the resolvers.
    pub resolver: HostId,
    /// The host of the authoritative server.
    pub server: HostId,
    /// The server's addresses, at most one per family. Queries over a family without one pass unchanged.
    pub peers: Vec<IpAddr>,
    /// The port of DNS, 53 in the paper.
    pub port: u16,
}

/// One of the two proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyKind {
    /// The one on the resolvers' side: it rewrites queries.
    Recursive,
    /// The one on the server's side: it rewrites responses.
    Authoritative,
}

/// What the proxies did with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxied {
    /// It does not concern them.
    Untouched,
    /// It has new addresses.
    Rewritten,
    /// It concerns them, but belongs to no recent query.
    Unmapped,
}

/// Both proxies and their state.
#[derive(Debug)]
pub struct Proxies {
    settings: ProxySettings,
    /// Whether each of them is on.
    recursive: bool,
    authoritative: bool,
    mappings: HashMap<Asked, Mapping, FixedState>,
    resolvers: Vec<IpAddr>,
    fragments: Vec<(FragmentKey, Ends)>,
    next_fragment: usize,
}

/// The client as seen by the server: protocol, the address queried, and a port.
type Asked = (u8, SocketAddr);
type Ends = (SocketAddr, SocketAddr);
type FragmentKey = (IpAddr, IpAddr, u32, u8);

/// The resolver.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    resolver: SocketAddr,
    last: i64,
}

impl Proxies {
    /// Proxies without any state.
    pub fn new(settings: ProxySettings) -> Self {
        let fragments = Vec::with_capacity(FRAGMENTS);
        let (mappings, resolvers) = (HashMap::default(), Vec::new());
        Self { settings, recursive: true, authoritative: true, mappings, resolvers, fragments, next_fragment: 0 }
    }

    /// Switches one of them on or off. The authoritative one knows no resolvers while the recursive one is off.
    pub const fn switch(&mut self, kind: ProxyKind, is_on: bool) {
        match kind {
            ProxyKind::Recursive => self.recursive = is_on,
            ProxyKind::Authoritative => self.authoritative = is_on,
        }
    }

    /// Whether this is the host of the resolvers.
    pub fn is_asked_from(&self, host: HostId) -> bool {
        host == self.settings.resolver
    }

    /// The host of the server.
    pub const fn server(&self) -> HostId {
        self.settings.server
    }

    /// Rewrites a packet sent by a host, if it concerns the proxies.
    pub fn rewrite(&mut self, now: i64, from: HostId, packet: &mut [u8], headers: &Headers) -> Proxied {
        let ends = if from == self.settings.resolver && self.recursive {
            self.query(now, packet, headers)
        } else if from == self.settings.server && self.authoritative {
            self.response(now, packet, headers)
        } else {
            return Proxied::Untouched;
        };
        match ends {
            Theirs::No => Proxied::Untouched,
            Theirs::Unknown => Proxied::Unmapped,
            Theirs::Ends((source, destination)) => {
                set_ends(packet, headers, source, destination);
                Proxied::Rewritten
            }
        }
    }

    /// The recursive proxy: new addresses for a resolver's packet.
    fn query(&mut self, now: i64, packet: &mut [u8], headers: &Headers) -> Theirs {
        let Some(peer) = self.peer(headers.source) else { return Theirs::No };
        if headers.is_later_fragment() {
            return self.fragment(headers).map_or(Theirs::No, Theirs::Ends);
        }
        if let Some(at) = headers.quote(packet) {
            return self.error_of_resolver(now, packet, headers, at, peer);
        }
        let Some((source_port, port)) = headers.ports.filter(|&(_, port)| port == self.settings.port) else {
            return Theirs::No;
        };
        let resolver = SocketAddr::new(headers.source, source_port);
        let Some(client) = self.ask(now, headers.protocol, resolver, headers.destination) else {
            return Theirs::Unknown;
        };
        self.remember(headers, (client, SocketAddr::new(peer, port)))
    }

    /// The authoritative proxy: new addresses for the server's packet.
    fn response(&mut self, now: i64, packet: &mut [u8], headers: &Headers) -> Theirs {
        let Some(peer) = self.peer(headers.source) else { return Theirs::No };
        if headers.is_later_fragment() && headers.source == peer {
            return self
                .fragment(headers)
                .or_else(|| self.only_resolver(headers))
                .map_or(Theirs::Unknown, Theirs::Ends);
        }
        if let Some(at) = headers.quote(packet) {
            return self.error_of_server(now, packet, headers, at);
        }
        let is_ours = |&(port, _): &(u16, u16)| headers.source == peer && port == self.settings.port;
        let Some((port, asked_port)) = headers.ports.filter(is_ours) else { return Theirs::No };
        let client = SocketAddr::new(headers.destination, asked_port);
        let Some(resolver) = self.resolver(now, headers.protocol, client) else { return Theirs::Unknown };
        self.remember(headers, (SocketAddr::new(headers.destination, port), resolver))
    }

    /// A resolver rejects a response: the server gets the error, with the packet that it sent.
    fn error_of_resolver(&mut self, now: i64, packet: &mut [u8], headers: &Headers, at: usize, peer: IpAddr) -> Theirs {
        let Some((inner, ports)) = quoted(packet, at) else { return Theirs::No };
        if ports.0 != self.settings.port {
            return Theirs::No;
        }
        let resolver = SocketAddr::new(inner.destination, ports.1);
        let Some(client) = self.find(now, inner.protocol, resolver, inner.source) else { return Theirs::Unknown };
        set_quoted_ends(packet, headers, at, SocketAddr::new(peer, ports.0), client);
        Theirs::Ends((SocketAddr::new(headers.destination, 0), SocketAddr::new(peer, 0)))
    }

    /// The server rejects a query: the resolver gets the error from the address that it queried.
    fn error_of_server(&mut self, now: i64, packet: &mut [u8], headers: &Headers, at: usize) -> Theirs {
        let Some((inner, ports)) = quoted(packet, at) else { return Theirs::No };
        if Some(inner.destination) != self.peer(inner.destination) || ports.1 != self.settings.port {
            return Theirs::No;
        }
        let client = SocketAddr::new(inner.source, ports.0);
        let Some(resolver) = self.resolver(now, inner.protocol, client) else { return Theirs::Unknown };
        set_quoted_ends(packet, headers, at, resolver, SocketAddr::new(inner.source, ports.1));
        Theirs::Ends((SocketAddr::new(inner.source, 0), SocketAddr::new(resolver.ip(), 0)))
    }

    /// The server's address of the family of `like`.
    fn peer(&self, like: IpAddr) -> Option<IpAddr> {
        self.settings.peers.iter().copied().find(|peer| peer.is_ipv4() == like.is_ipv4())
    }

    /// The resolver behind a client seen by the server.
    fn resolver(&mut self, now: i64, protocol: u8, client: SocketAddr) -> Option<SocketAddr> {
        let mapping = self.mappings.get_mut(&(protocol, client))?;
        mapping.last = now;
        Some(mapping.resolver)
    }

    /// The client seen by the server for a resolver that has queried `asked` before.
    fn find(&mut self, now: i64, protocol: u8, resolver: SocketAddr, asked: IpAddr) -> Option<SocketAddr> {
        let mut clients = (0..TRIES).map(|attempt| SocketAddr::new(asked, port(resolver, attempt)));
        let is_its = |client: &SocketAddr| {
            self.mappings.get(&(protocol, *client)).is_some_and(|mapping| mapping.resolver == resolver)
        };
        let client = clients.find(is_its)?;
        if let Some(mapping) = self.mappings.get_mut(&(protocol, client)) {
            mapping.last = now;
        }
        Some(client)
    }

    /// The client that the server will see for a query to `asked`; `None` if all candidate ports are in use.
    fn ask(&mut self, now: i64, protocol: u8, resolver: SocketAddr, asked: IpAddr) -> Option<SocketAddr> {
        if let Some(client) = self.find(now, protocol, resolver, asked) {
            return Some(client);
        }
        let idle = if protocol == TCP { TCP_IDLE } else { UDP_IDLE };
        let mut clients = (0..TRIES).map(|attempt| SocketAddr::new(asked, port(resolver, attempt)));
        let is_free = |client: &SocketAddr| {
            self.mappings.get(&(protocol, *client)).is_none_or(|mapping| now - mapping.last > idle)
        };
        let client = clients.find(is_free)?;
        self.make_room(now);
        self.mappings.insert((protocol, client), Mapping { resolver, last: now });
        if !self.resolvers.contains(&resolver.ip()) && self.resolvers.len() < FRAGMENTS {
            self.resolvers.push(resolver.ip());
        }
        Some(client)
    }

    /// Forgets the least recently used entries if there are too many: at least a quarter, so that this is rare.
    fn make_room(&mut self, now: i64) {
        if self.mappings.len() < MAPPINGS {
            return;
        }
        let mut idle = UDP_IDLE;
        while self.mappings.len() > MAPPINGS / 4 * 3 && idle > 0 {
            self.mappings.retain(|_, mapping| now - mapping.last <= idle);
            idle /= 4;
        }
        if self.mappings.len() >= MAPPINGS {
            self.mappings.clear();
        }
    }

    /// Remembers the addresses of a first fragment for those that follow.
    fn remember(&mut self, headers: &Headers, ends: Ends) -> Theirs {
        if let Some(fragment) = headers.fragment {
            let entry = ((headers.source, headers.destination, fragment.id, headers.protocol), ends);
            match self.fragments.get_mut(self.next_fragment) {
                Some(place) => *place = entry,
                None => self.fragments.push(entry),
            }
            self.next_fragment = (self.next_fragment + 1) % FRAGMENTS;
        }
        Theirs::Ends(ends)
    }

    /// The new addresses of the datagram's first fragment.
    fn fragment(&self, headers: &Headers) -> Option<Ends> {
        let key = (headers.source, headers.destination, headers.fragment?.id, headers.protocol);
        self.fragments.iter().find(|(known, _)| *known == key).map(|&(_, ends)| ends)
    }

    /// A fragment that overtook the first one can only be delivered if there is a single resolver.
    fn only_resolver(&self, headers: &Headers) -> Option<Ends> {
        let mut resolvers = self.resolvers.iter().filter(|resolver| resolver.is_ipv4() == headers.source.is_ipv4());
        let only = resolvers.next().filter(|_| resolvers.next().is_none())?;
        Some((SocketAddr::new(headers.destination, 0), SocketAddr::new(*only, 0)))
    }
}

/// Properties of a packet.
enum Theirs {
    No,
    Unknown,
    Ends(Ends),
}

/// Candidate ports towards the server: the resolver's own, then some above 1023.
fn port(resolver: SocketAddr, attempt: u64) -> u16 {
    let other = draw(client_hash(resolver.ip()) ^ u64::from(resolver.port()), attempt);
    if attempt == 0 { resolver.port() } else { 1_024 + (other % 64_512) as u16 }
}

/// Headers and ports of the packet quoted at `at`, if it is UDP or TCP.
fn quoted(packet: &[u8], at: usize) -> Option<(Headers, (u16, u16))> {
    let inner = Headers::parse_quoted(packet.get(at..)?).ok()?;
    matches!(inner.protocol, UDP | TCP).then_some((inner, inner.ports?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::test_packet::{self, TestPacket};

    const RESOLVER: HostId = HostId(1);
    const SERVER: HostId = HostId(2);

    fn proxies() -> Proxies {
        let peers = vec!["10.53.0.3".parse().unwrap(), "fd53::3".parse().unwrap()];
        Proxies::new(ProxySettings { resolver: RESOLVER, server: SERVER, peers, port: 53 })
    }

    fn rewrite(proxies: &mut Proxies, from: HostId, packet: &mut [u8]) -> Proxied {
        let headers = Headers::parse(packet).unwrap();
        proxies.rewrite(0, from, packet, &headers)
    }

    fn ends(packet: &[u8]) -> (String, String) {
        let headers = Headers::parse(packet).unwrap();
        let (source, destination) = headers.ports.unwrap();
        let end = |ip, port| SocketAddr::new(ip, port).to_string();
        (end(headers.source, source), end(headers.destination, destination))
    }

    #[test]
    fn question_and_answer_as_in_figure_2_of_the_paper() {
        for (resolver, root, server, client) in [
            ("10.53.0.2:4000", "198.41.0.4:53", "10.53.0.3:53", "198.41.0.4:4000"),
            ("[fd53::2]:4000", "[2001:503:ba3e::2:30]:53", "[fd53::3]:53", "[2001:503:ba3e::2:30]:4000"),
        ] {
            for make in [TestPacket::udp, |a: &str, b: &str, octets: &[u8]| TestPacket::tcp(a, b, 1, 0x10, octets)] {
                let mut proxies = proxies();
                let mut query = make(resolver, root, b"question").packet();
                assert_eq!(rewrite(&mut proxies, RESOLVER, &mut query), Proxied::Rewritten);
                assert_eq!(query, make(client, server, b"question").packet());
                let mut answer = make(server, client, b"the answer").packet();
                assert_eq!(rewrite(&mut proxies, SERVER, &mut answer), Proxied::Rewritten);
                assert_eq!(answer, make(root, resolver, b"the answer").packet());
            }
        }
    }

    #[test]
    fn resolvers_with_one_port_get_their_own_answers() {
        let mut proxies = proxies();
        let resolvers: Vec<String> = (1..=6).map(|number| format!("10.53.0.{}:4000", 10 + number)).collect();
        let seen: Vec<String> = resolvers
            .iter()
            .map(|resolver| {
                let mut query = TestPacket::udp(resolver, "198.41.0.4:53", b"").packet();
                assert_eq!(rewrite(&mut proxies, RESOLVER, &mut query), Proxied::Rewritten);
                assert!(test_packet::is_sound(&query));
                ends(&query).0
            })
            .collect();
        for (resolver, client) in resolvers.iter().zip(&seen) {
            let mut answer = TestPacket::udp("10.53.0.3:53", client, b"answer").packet();
            assert_eq!(rewrite(&mut proxies, SERVER, &mut answer), Proxied::Rewritten);
            assert_eq!(answer, TestPacket::udp("198.41.0.4:53", resolver, b"answer").packet());
        }
        // A further packet of each keeps the port that the server knows.
        let mut again = TestPacket::udp(&resolvers[3], "198.41.0.4:53", b"").packet();
        rewrite(&mut proxies, RESOLVER, &mut again);
        assert_eq!(ends(&again).0, seen[3]);
    }

    #[test]
    fn fragments_of_an_answer_follow_the_first() {
        let mut proxies = proxies();
        for resolver in ["10.53.0.2:4000", "10.53.0.9:4001"] {
            rewrite(&mut proxies, RESOLVER, &mut TestPacket::udp(resolver, "198.41.0.4:53", b"").packet());
        }
        for (number, resolver) in ["10.53.0.2:4000", "10.53.0.9:4001"].into_iter().enumerate() {
            let port = 4_000 + number;
            let answer = TestPacket::udp("10.53.0.3:53", &format!("198.41.0.4:{port}"), &[5; 100]).packet();
            let expected = TestPacket::udp("198.41.0.4:53", resolver, &[5; 100]).packet();
            let expected = test_packet::fragments(&expected, number as u16, 48);
            for (mut fragment, expected) in test_packet::fragments(&answer, number as u16, 48).into_iter().zip(expected)
            {
                assert_eq!(rewrite(&mut proxies, SERVER, &mut fragment), Proxied::Rewritten);
                assert_eq!(fragment, expected);
            }
        }
        let mut orphan =
            test_packet::fragments(&TestPacket::udp("10.53.0.3:53", "198.41.0.4:4000", &[5; 100]).packet(), 99, 48)
                .remove(1);
        assert_eq!(rewrite(&mut proxies, SERVER, &mut orphan), Proxied::Unmapped);
    }

    #[test]
    fn errors_come_from_the_address_that_was_asked_and_quote_what_was_sent() {
        let mut proxies = proxies();
        let query = TestPacket::udp("10.53.0.2:4000", "198.41.0.4:53", b"question").packet();
        let mut seen = query.clone();
        rewrite(&mut proxies, RESOLVER, &mut seen);
        let (root, server, resolver) =
            ("198.41.0.4".parse().unwrap(), "10.53.0.3".parse().unwrap(), "10.53.0.2".parse().unwrap());
        let mut error = test_packet::unreachable(server, root, &seen);
        assert_eq!(rewrite(&mut proxies, SERVER, &mut error), Proxied::Rewritten);
        assert_eq!(error, test_packet::unreachable(root, resolver, &query));
        // And the other way: the resolver refuses a late answer.
        let sent = TestPacket::udp("10.53.0.3:53", "198.41.0.4:4000", b"late").packet();
        let mut late = sent.clone();
        rewrite(&mut proxies, SERVER, &mut late);
        let mut error = test_packet::unreachable(resolver, root, &late);
        assert_eq!(rewrite(&mut proxies, RESOLVER, &mut error), Proxied::Rewritten);
        assert_eq!(error, test_packet::unreachable(root, server, &sent));
    }

    #[test]
    fn others_pass_unchanged() {
        let mut proxies = proxies();
        for (from, source, destination) in [
            (RESOLVER, "10.53.0.2:53", "192.0.2.7:4000"),
            (SERVER, "10.53.0.3:4000", "192.0.2.7:53"),
            (SERVER, "198.41.0.4:53", "10.53.0.2:4000"),
            (HostId(0), "192.0.2.7:4000", "10.53.0.2:53"),
        ] {
            let packet = TestPacket::udp(source, destination, b"x").packet();
            let mut after = packet.clone();
            assert_eq!(rewrite(&mut proxies, from, &mut after), Proxied::Untouched);
            assert_eq!(after, packet);
        }
        let mut unasked = TestPacket::udp("10.53.0.3:53", "192.0.2.7:4000", b"x").packet();
        assert_eq!(rewrite(&mut proxies, SERVER, &mut unasked), Proxied::Unmapped);
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut proxies = proxies();
        for number in 0..300_000_u32 {
            let resolver = format!("10.53.{}.2:{}", number >> 16, number & 0xffff).parse().unwrap();
            assert!(proxies.ask(number.into(), UDP, resolver, std::net::Ipv4Addr::from_bits(number).into()).is_some());
        }
        assert!(proxies.mappings.len() <= MAPPINGS);
    }
}
