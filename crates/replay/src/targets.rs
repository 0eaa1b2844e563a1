//! Chooses the server of each query: one of a list, or the recorded one.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hashbrown::HashMap;
use ldplayer_core::shard::client_hash;
use ldplayer_core::{Query, Reason, Transport};

/// The port of DNS over UDP and TCP (RFC 1035 §4.2) …
const DNS_PORT: u16 = 53;
/// … and of encrypted DNS (RFC 7858 §3.1, RFC 9250 §4.1.1, RFC 8484).
const ENCRYPTED_PORTS: [u16; 2] = [853, 443];

/// The target servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Each client always uses the same one of these servers, of its address family if there is one. The choice depends only on the client's
    /// address, so that another run or host makes the same one.
    Fixed(Vec<SocketAddr>),
    /// Each query goes to its recorded address and port, or to what these are mapped to; a mapping with a port takes precedence, then the
    /// first one. If a query uses another transport than its port is for, it goes to the usual port of that transport: an unencrypted one
    /// recorded at 853 or 443 goes to 53, and an encrypted one recorded at 53 to
    /// that of the settings.
    Recorded(Vec<Mapping>),
}

impl Targets {
    /// The given servers; none if each query has its own.
    pub fn named(&self) -> &[SocketAddr] {
        match self {
            Self::Fixed(servers) => servers,
            Self::Recorded(_) => &[],
        }
    }

    /// The only server of a family, if there is just one, so that sockets can be connected to it.
    pub fn only(&self, v6: bool) -> Option<SocketAddr> {
        let mut servers = self.named().iter().filter(|server| server.is_ipv6() == v6);
        let only = servers.next()?;
        servers.next().is_none().then_some(*only)
    }

    /// Whether this is a server's address, or what a recorded one is mapped to.
    pub fn names(&self, address: IpAddr) -> bool {
        match self {
            Self::Fixed(servers) => servers.iter().any(|server| server.ip() == address),
            Self::Recorded(mappings) => mappings.iter().any(|mapping| mapping.to == address),
        }
    }

    /// Whether any server is of this family.
    pub fn has_family(&self, v6: bool) -> bool {
        matches!(self, Self::Recorded(_)) || self.named().iter().any(|server| server.is_ipv6() == v6)
    }
}

/// A mapping of servers: `OLD=NEW`, each an address with or without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The recorded address …
    pub from: IpAddr,
    /// … and its port; `None` for any.
    pub from_port: Option<u16>,
    /// The new address …
    pub to: IpAddr,
    /// … and its port; `None` to keep the recorded one.
    pub to_port: Option<u16>,
}

/// The syntax that is parsed.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", Side(self.from, self.from_port), Side(self.to, self.to_port))
    }
}

/// One side of a mapping.
struct Side(IpAddr, Option<u16>);

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(address, Some(port)) => SocketAddr::new(address, port).fmt(f),
            Self(address, None) => address.fmt(f),
        }
    }
}

/// An invalid mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a server mapping: use OLD=NEW, such as 198.41.0.4=127.0.0.1:5300 or [2001:db8::1]:53=::1")]
pub struct BadMapping(String);

impl FromStr for Mapping {
    type Err = BadMapping;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sides = text.split_once('=').and_then(|(from, to)| Some((side(from)?, side(to)?)));
        let ((from, from_port), (to, to_port)) = sides.ok_or_else(|| BadMapping(text.to_owned()))?;
        Ok(Self { from, from_port, to, to_port })
    }
}

/// An address with or without a port.
fn side(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_canonical(), Some(address.port())));
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    Some((bare.parse::<IpAddr>().ok()?.to_canonical(), None))
}

/// The default ports of servers for encrypted DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// For DNS over TLS and QUIC.
    pub tls: u16,
    /// For DNS over HTTPS.
    pub doh: u16,
}

/// An address, and a port if it matters.
type Place = (IpAddr, Option<u16>);

/// The targets, prepared for lookup.
#[derive(Debug)]
pub struct Directory {
    /// The IPv4 servers, and the IPv6 servers.
    fixed: [Vec<SocketAddr>; 2],
    /// The mapping of recorded servers by address and port; `None` if queries do not go to recorded servers.
    recorded: Option<HashMap<Place, Place, foldhash::fast::FixedState>>,
    ports: Ports,
}

impl Directory {
    /// That of these targets.
    pub fn new(targets: &Targets, ports: Ports) -> Self {
        let of = |v6: bool| targets.named().iter().copied().filter(|server| server.is_ipv6() == v6).collect();
        let recorded = match targets {
            Targets::Fixed(_) => None,
            // The first of several mappings with the same left side counts.
            Targets::Recorded(maps) => {
                Some(maps.iter().rev().map(|map| ((map.from, map.from_port), (map.to, map.to_port))).collect())
            }
        };
        Self { fixed: [of(false), of(true)], recorded, ports }
    }

    /// How many servers a client has for a query: those of its family, or the recorded one.
    pub fn servers(&self, query: &Query) -> usize {
        if self.recorded.is_some() { 1 } else { self.of_family(query.client).len() }
    }

    /// The server of a query, with the port of its transport: the recorded one, or that at a place of the list, or the one that the client keeps.
    ///
    /// # Errors
    /// Why it has none.
    pub fn server(&self, query: &Query, place: Option<usize>) -> Result<SocketAddr, Reason> {
        let Some(maps) = &self.recorded else {
            let listed = place.map(|place| self.of_family(query.client).get(place).copied());
            let mut server = listed.unwrap_or_else(|| self.kept(query.client)).ok_or(Reason::Family)?;
            if query.transport.is_encrypted() {
                server.set_port(self.encrypted_port(query.transport));
            }
            return Ok(server);
        };
        let (ip, port) = (query.server.ip(), query.server.port());
        let mapped = maps.get(&(ip, Some(port))).or_else(|| maps.get(&(ip, None)));
        match mapped.copied().unwrap_or((ip, None)) {
            (ip, _) if ip.is_unspecified() => Err(Reason::NoServer),
            (ip, Some(named)) => Ok(SocketAddr::new(ip, named)),
            (ip, None) => Ok(SocketAddr::new(ip, self.port(query.transport, port))),
        }
    }

    /// The servers of a client: of its address family if there are any.
    fn of_family(&self, client: IpAddr) -> &[SocketAddr] {
        let [own, other] = if client.is_ipv4() { [0, 1] } else { [1, 0] }.map(|family| &self.fixed[family]);
        if own.is_empty() { other } else { own }
    }

    /// The server that a client keeps.
    fn kept(&self, client: IpAddr) -> Option<SocketAddr> {
        let servers = self.of_family(client);
        if let [only] = servers[..] {
            return Some(only);
        }
        // Shards use the upper half of the hash; with the lower one, each shard has clients of all servers.
        let hash = client_hash(client).rotate_left(32);
        servers.get(((u128::from(hash) * servers.len() as u128) >> 64) as usize).copied()
    }

    /// The port for a transport other than the recorded one.
    fn port(&self, transport: Transport, recorded: u16) -> u16 {
        match transport.is_encrypted() {
            true if recorded == DNS_PORT => self.encrypted_port(transport),
            false if ENCRYPTED_PORTS.contains(&recorded) => DNS_PORT,
            _ => recorded,
        }
    }

    const fn encrypted_port(&self, transport: Transport) -> u16 {
        if transport.is_https() { self.ports.doh } else { self.ports.tls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test;
    use ldplayer_core::shard::shard;

    const PORTS: Ports = Ports { tls: 853, doh: 443 };

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn query(client: &str, server: &str, transport: Transport) -> Query {
        Query { client: client.parse().unwrap(), server: address(server), transport, ..test::query(0, 0) }
    }

    fn recorded(maps: &[&str]) -> Directory {
        let maps = maps.iter().map(|map| map.parse().unwrap()).collect();
        Directory::new(&Targets::Recorded(maps), PORTS)
    }

    #[test]
    fn several_servers_of_a_family_share_its_clients_evenly_in_each_shard() {
        let servers = ["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53", "[2001:db8::1]:53"].map(address).to_vec();
        let directory = Directory::new(&Targets::Fixed(servers.clone()), PORTS);
        let mut counts = [[0_usize; 3]; 4];
        for host in 0..12_000_u32 {
            let client = std::net::Ipv4Addr::from_bits(0x0a00_0000 + host).to_string();
            let query = query(&client, "198.51.100.1:53", Transport::Udp);
            let server = directory.server(&query, None).unwrap();
            assert_eq!(directory.server(&query, None), Ok(server), "a client keeps its server");
            let at = servers.iter().position(|&one| one == server).unwrap();
            counts[shard(query.client, 4)][at] += 1;
        }
        assert!(counts.iter().flatten().all(|count| (850..1_150).contains(count)), "{counts:?}");
        let v6 = query("2001:db8::7", "198.51.100.1:53", Transport::Udp);
        assert_eq!(directory.server(&v6, None), Ok(servers[3]));
    }

    #[test]
    fn a_family_without_a_server_asks_one_of_the_other() {
        let directory = Directory::new(&Targets::Fixed(vec![address("192.0.2.1:5300")]), PORTS);
        let of = |transport| directory.server(&query("2001:db8::7", "198.51.100.1:53", transport), None);
        assert_eq!(of(Transport::Tcp), Ok(address("192.0.2.1:5300")));
        assert_eq!(of(Transport::Doq), Ok(address("192.0.2.1:853")));
        assert_eq!(of(Transport::Doh2), Ok(address("192.0.2.1:443")));
        let none = Directory::new(&Targets::Fixed(Vec::new()), PORTS);
        assert_eq!(none.server(&query("192.0.2.9", "198.51.100.1:53", Transport::Udp), None), Err(Reason::Family));
    }

    #[test]
    fn recorded_servers_are_asked_as_they_were_or_as_they_are_mapped() {
        let directory = recorded(&["198.41.0.4=127.0.0.1", "198.41.0.4:5353=127.0.0.2:5300", "198.41.0.4=127.0.0.9"]);
        let of =
            |server, transport| directory.server(&query("192.0.2.9", server, transport), None).map(|it| it.to_string());
        assert_eq!(of("199.9.14.201:53", Transport::Udp).as_deref(), Ok("199.9.14.201:53"));
        assert_eq!(of("198.41.0.4:53", Transport::Udp).as_deref(), Ok("127.0.0.1:53"));
        assert_eq!(of("198.41.0.4:5353", Transport::Tcp).as_deref(), Ok("127.0.0.2:5300"));
        assert_eq!(of("198.41.0.4:53", Transport::Dot).as_deref(), Ok("127.0.0.1:853"));
        assert_eq!(of("198.41.0.4:53", Transport::Doh3).as_deref(), Ok("127.0.0.1:443"));
        assert_eq!(of("198.41.0.4:853", Transport::Udp).as_deref(), Ok("127.0.0.1:53"));
        assert_eq!(of("198.41.0.4:8853", Transport::Dot).as_deref(), Ok("127.0.0.1:8853"));
        assert_eq!(of("0.0.0.0:53", Transport::Udp), Err(Reason::NoServer), "nobody knows whom it was for");
    }

    #[test]
    fn mappings_are_read_with_and_without_ports() {
        let map: Mapping = "[2001:db8::1]:53=::1".parse().unwrap();
        assert_eq!((map.from_port, map.to, map.to_port), (Some(53), "::1".parse().unwrap(), None));
        let map: Mapping = "::ffff:192.0.2.1=[::ffff:127.0.0.1]:5300".parse().unwrap();
        assert_eq!(map.to_string(), "192.0.2.1=127.0.0.1:5300");
        let map: Mapping = "2001:db8::1=[::1]:5300".parse().unwrap();
        assert_eq!((map.from_port, map.to_port), (None, Some(5_300)));
        for bad in ["198.41.0.4", "a.root=127.0.0.1", "198.41.0.4=", "198.41.0.4:x=127.0.0.1", "=127.0.0.1"] {
            assert!(bad.parse::<Mapping>().unwrap_err().to_string().contains("OLD=NEW"), "{bad}");
        }
    }

    #[test]
    fn only_one_server_of_a_family_is_the_only_one() {
        let servers = ["192.0.2.1:53", "[2001:db8::1]:53", "[2001:db8::2]:53"].map(address).to_vec();
        let targets = Targets::Fixed(servers.clone());
        assert_eq!((targets.only(false), targets.only(true)), (Some(servers[0]), None));
        assert!(targets.has_family(true) && !Targets::Fixed(servers[..1].to_vec()).has_family(true));
        assert_eq!(
            (Targets::Recorded(Vec::new()).only(false), Targets::Recorded(Vec::new()).has_family(true)),
            (None, true)
        );
    }
}
