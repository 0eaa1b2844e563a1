//! Chooses the source address and socket of a client's queries.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hashbrown::HashMap;
use ldplayer_core::shard::client_hash;
use ldplayer_core::{Attempt, Cidr, Expected, Query, Reason, Transport};
use ldplayer_net::udp::is_local;

use crate::targets::{Directory, Ports, Targets};

/// Maximum number of sockets shared by the clients of one address family in a worker. A server that distributes clients by address and
/// port (SO_REUSEPORT) sees at least as many pairs of them ([`Sources::spread`]). Each socket has 65,536 query IDs, so this also limits the
/// outstanding queries.
pub const SHARED_SOCKETS: u32 = 32;

/// The source addresses of emulated clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Every client keeps its recorded address; all addresses must be local (AnyIP).
    Original,
    /// Every client has its own socket, and thus port, on an address chosen by the kernel.
    Ports,
    /// Every client has a fixed address in these blocks.
    Pool(Vec<Cidr>),
}

/// An unknown value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown sources `{0}`: use original, ports or pool:CIDR,…")]
pub struct BadSources(String);

impl FromStr for Sources {
    type Err = BadSources;

    fn from_str(word: &str) -> Result<Self, BadSources> {
        let bad = || BadSources(word.to_owned());
        match word.split_once(':') {
            None if word == "original" => Ok(Self::Original),
            None if word == "ports" => Ok(Self::Ports),
            Some(("pool", blocks)) => {
                let blocks: Result<Vec<Cidr>, _> = blocks.split(',').map(Cidr::from_str).collect();
                blocks.map(Self::Pool).map_err(|_| bad())
            }
            _ => Err(bad()),
        }
    }
}

/// The syntax that is parsed.
impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original => f.write_str("original"),
            Self::Ports => f.write_str("ports"),
            Self::Pool(blocks) => {
                let blocks: Vec<String> = blocks.iter().map(Cidr::to_string).collect();
                write!(f, "pool:{}", blocks.join(","))
            }
        }
    }
}

impl Sources {
    /// An address of the pool that does not belong to this host, so that nothing can be sent from it. Only the first
    /// and last address of each
    /// block are tried. An address that cannot be tried counts as local.
    pub fn not_local(&self) -> Option<IpAddr> {
        let Self::Pool(pool) = self else { return None };
        let ends = pool.iter().flat_map(|block| [block.nth(0), block.nth(block.size().saturating_sub(1))]);
        ends.into_iter().find(|&address| !is_local(address).unwrap_or(true))
    }

    /// The number of shared sockets over which the clients of a family are spread, each always on the same one: as many as needed for
    /// [`SHARED_SOCKETS`] pairs of address and port. If there are enough client addresses, that is one socket, since more sockets make
    /// smaller batches.
    pub fn spread(&self, v6: bool) -> u32 {
        let Self::Pool(pool) = self else { return 1 };
        let blocks = pool.iter().filter(|block| block.is_ipv4() != v6);
        let addresses = blocks.fold(0_u64, |sum, block| sum.saturating_add(block.size()));
        u64::from(SHARED_SOCKETS).div_ceil(addresses.max(1)) as u32
    }

    /// The only address of all clients of a family, if there is one: its sockets need no source address per
    /// datagram.
    pub fn only(&self, v6: bool) -> Option<IpAddr> {
        let Self::Pool(pool) = self else { return None };
        let mut blocks = pool.iter().filter(|block| block.is_ipv4() != v6);
        let only = blocks.next().filter(|block| block.size() == 1)?;
        blocks.next().is_none().then(|| only.nth(0))
    }
}

/// No number of a client.
const NONE: u32 = u32::MAX;

/// A socket of the worker, identified by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketKey {
    /// A socket shared by the clients of a family.
    Shared {
        /// IPv6 instead of IPv4.
        v6: bool,
        /// From 0 to [`SHARED_SOCKETS`].
        number: u32,
    },
    /// A client's own socket for one family.
    Own(u32),
}

impl SocketKey {
    /// The shared socket of a client for servers of this one's family, out of `spread`. The lowest bits of the hash choose the
    /// client's address in a pool and the highest its worker, so other bits are used here.
    fn shared(client: IpAddr, server: SocketAddr, spread: u32) -> Self {
        Self::Shared { v6: server.is_ipv6(), number: (client_hash(client) >> 20) as u32 % spread }
    }

    /// Another socket of the client for servers of this one's family, and so another port: one of the shared ones for each `port` above 0, up to
    /// [`SHARED_SOCKETS`].
    fn at_port(self, client: IpAddr, server: SocketAddr, port: u8) -> Self {
        let first = match self {
            Self::Shared { number, .. } => number,
            Self::Own(_) => (client_hash(client) >> 20) as u32,
        };
        match port {
            0 => self,
            _ => Self::Shared { v6: server.is_ipv6(), number: (first + u32::from(port)) % SHARED_SOCKETS },
        }
    }

    /// The socket of a single client, by its number, for servers of this one's family.
    fn own(client: u32, server: SocketAddr) -> Self {
        Self::Own(client * 2 + u32::from(server.is_ipv6()))
    }

    /// A number that no other socket of the worker has.
    pub fn index(self) -> u32 {
        match self {
            Self::Shared { v6, number } => number * 2 + u32::from(v6),
            Self::Own(client) => client + 2 * SHARED_SOCKETS,
        }
    }
}

/// Where a query goes and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Socket to use; of shared ones, the first to try.
    pub socket: SocketKey,
    /// Source address to set; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// The server asked.
    pub server: SocketAddr,
}

/// Gives each query its route. A client keeps its address through the run.
#[derive(Debug)]
pub struct Router {
    sources: Sources,
    directory: Directory,
    /// Whether packets come by a link, on which none has an address of loopback.
    over_link: bool,
    /// Shared sockets that clients are spread over, for servers of IPv4 and of IPv6.
    spread: [u32; 2],
    /// Maximum number of clients' own sockets, for servers of IPv4 and of IPv6.
    most: [u32; 2],
    /// Clients that have such a socket or share one, for servers of IPv4 and of IPv6.
    routed: [u32; 2],
    /// The number of each client's socket, for servers of IPv4 and of IPv6.
    clients: HashMap<IpAddr, [u32; 2], foldhash::fast::FixedState>,
    /// Whether the last route has a new socket.
    is_new: bool,
    shared: u64,
}

impl Router {
    /// A router for one worker. Clients beyond `max_sockets` share a socket each with an earlier one, always the same.
    pub fn new(sources: Sources, targets: &Targets, ports: Ports, max_sockets: u32) -> Self {
        let directory = Directory::new(targets, ports);
        let spread = [false, true].map(|v6| sources.spread(v6));
        let most = [max_sockets.max(1); 2];
        let clients = HashMap::default();
        Self { sources, directory, over_link: false, spread, most, routed: [0; 2], clients, is_new: false, shared: 0 }
    }

    /// The same for packets on a link, which come from any address that packets may have.
    #[must_use]
    pub fn over_link(self, over_link: bool) -> Self {
        Self { over_link, ..self }
    }

    /// Whether the last route is the first over a client's own socket, which may fail to open ([`Self::share`]).
    pub const fn is_new(&self) -> bool {
        self.is_new
    }

    /// The number of clients that share the socket of an earlier one; a client of servers of both families may count twice.
    pub const fn shared(&self) -> u64 {
        self.shared
    }

    /// Clients of servers of a family that have a socket of their own, or share one.
    pub const fn routed(&self, v6: bool) -> u32 {
        self.routed[v6 as usize]
    }

    /// Gives clients that are new from now on no socket beyond the first `most`, for servers of a family: they share these.
    pub const fn limit(&mut self, v6: bool, most: u32) {
        self.most[v6 as usize] = most;
    }

    /// Routes a client over the socket of an earlier one, since its own, the newest, cannot be opened. `None` if no other client has one.
    pub fn share(&mut self, client: IpAddr, server: SocketAddr) -> Option<Route> {
        let family = usize::from(server.is_ipv6());
        let most = self.routed[family].checked_sub(1).filter(|&most| most > 0)?;
        self.limit(server.is_ipv6(), most);
        let number = (client_hash(client) >> 20) as u32 % most;
        self.clients.get_mut(&client)?[family] = number;
        self.shared += 1;
        Some(Route { socket: SocketKey::own(number, server), source: None, server })
    }

    /// The route of a query to the server that its client keeps.
    ///
    /// # Errors
    /// Why there is none: no server, or none of the family, or no source address.
    pub fn route(&mut self, query: &Query) -> Result<Route, Reason> {
        self.route_to(query, None)
    }

    /// How many servers a client that reacts has for a query.
    pub fn servers(&self, query: &Query) -> usize {
        self.directory.servers(query)
    }

    /// The route of a query to the server at a place of the list, or to the one that its client keeps.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub fn route_to(&mut self, query: &Query, place: Option<usize>) -> Result<Route, Reason> {
        let route = self.first_route(query, place)?;
        Ok(match query.expected {
            Expected::Attempt(Attempt { port, .. }) if query.transport == Transport::Udp => {
                Route { socket: route.socket.at_port(query.client, route.server, port), ..route }
            }
            _ => route,
        })
    }

    /// The route of a query, or of an attempt from the first port of its lookup.
    fn first_route(&mut self, query: &Query, place: Option<usize>) -> Result<Route, Reason> {
        let server = self.directory.server(query, place)?;
        self.is_new = false;
        let spread = self.spread[usize::from(server.is_ipv6())];
        let shared = |source| Route { socket: SocketKey::shared(query.client, server, spread), source, server };
        match &self.sources {
            Sources::Original => original(query.client, server, self.over_link).map(shared),
            Sources::Pool(pool) => {
                let source = pick(pool, query.client, server).ok_or(Reason::NoSource)?;
                Ok(shared(Some(source)))
            }
            // Connections have sockets of their own.
            Sources::Ports if !query.transport.is_over_udp() => {
                Ok(Route { socket: SocketKey::own(0, server), source: None, server })
            }
            Sources::Ports => Ok(self.own(query.client, server)),
        }
    }

    fn own(&mut self, client: IpAddr, server: SocketAddr) -> Route {
        let family = usize::from(server.is_ipv6());
        let number = &mut self.clients.entry(client).or_insert([NONE; 2])[family];
        let is_first = *number == NONE;
        if is_first {
            *number = self.routed[family] % self.most[family];
            self.routed[family] += 1;
        }
        self.is_new = is_first && self.routed[family] <= self.most[family];
        self.shared += u64::from(is_first && !self.is_new);
        Route { socket: SocketKey::own(*number, server), source: None, server }
    }
}

/// The client's own address, to be set. One that only stands for "this host", as in a file of queries, reaches no other host, and
/// nothing `over_link`: the kernel chooses in its place, or the link has an address for it.
fn original(client: IpAddr, server: SocketAddr, over_link: bool) -> Result<Option<IpAddr>, Reason> {
    let is_of_family = server.is_ipv4() == client.is_ipv4();
    let stays_here = is_of_family && server.ip().is_loopback() && !over_link;
    if client.is_unspecified() || (client.is_loopback() && !stays_here) {
        return Ok(None);
    }
    is_of_family.then_some(Some(client)).ok_or(Reason::Family)
}

/// The address of the pool that belongs to `client`, of the server's family.
fn pick(pool: &[Cidr], client: IpAddr, server: SocketAddr) -> Option<IpAddr> {
    let blocks = || pool.iter().filter(|block| block.is_ipv4() == server.is_ipv4());
    let size = blocks().fold(0_u64, |sum, block| sum.saturating_add(block.size()));
    let mut offset = client_hash(client).checked_rem(size)?;
    for block in blocks() {
        if offset < block.size() {
            return Some(block.nth(offset));
        }
        offset -= block.size();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use ldplayer_core::RunTime;

    fn query(client: &str) -> Query {
        Query {
            index: 0,
            due: RunTime(0),
            client: client.parse().unwrap(),
            client_port: 0,
            server: "192.0.2.1:53".parse().unwrap(),
            transport: Transport::Udp,
            class: None,
            expected: Default::default(),
            dependency: None,
            wire: Bytes::new(),
        }
    }

    fn router(sources: Sources, servers: &[&str], max_sockets: u32) -> Router {
        let targets = Targets::Fixed(servers.iter().map(|server| server.parse().unwrap()).collect());
        Router::new(sources, &targets, Ports { tls: 853, doh: 443 }, max_sockets)
    }

    #[test]
    fn sources_are_read_back_from_what_they_say() {
        for word in ["original", "ports", "pool:127.0.1.0/24,::1/128"] {
            assert_eq!(word.parse::<Sources>().unwrap().to_string(), word);
        }
        assert!("pool:".parse::<Sources>().is_err() && "spoof".parse::<Sources>().is_err());
    }

    #[test]
    fn original_clients_keep_address_and_family() {
        let mut router = router(Sources::Original, &["127.0.0.1:53"], 1_000);
        let route = router.route(&query("198.51.100.7")).unwrap();
        assert_eq!(route.source, Some("198.51.100.7".parse().unwrap()));
        assert_eq!(router.route(&query("2001:db8::7")), Err(Reason::Family));
    }

    #[test]
    fn every_client_has_one_port_of_its_own() {
        let mut router = router(Sources::Ports, &["127.0.0.1:53"], 1_000);
        let mut socket = |client| router.route(&query(client)).unwrap().socket;
        let (a, b) = (socket("198.51.100.7"), socket("2001:db8::7"));
        assert_ne!(a, b);
        assert_eq!((socket("198.51.100.7"), socket("2001:db8::7")), (a, b));
    }

    #[test]
    fn attempts_come_from_other_ports_where_their_model_says_so() {
        for sources in [Sources::Ports, Sources::Original] {
            let mut router = router(sources, &["127.0.0.1:53"], 1_000);
            let mut socket = |port| {
                let attempt =
                    Attempt { lookup: 0, serial: 1, number: 0, server: 0, port, id: None, is_compared: false };
                let query = Query { expected: Expected::Attempt(attempt), ..query("198.51.100.7") };
                router.route_to(&query, Some(0)).unwrap().socket
            };
            let mut sockets: Vec<u32> = (0..32).map(|port| socket(port).index()).collect();
            sockets.sort_unstable();
            sockets.dedup();
            assert_eq!((sockets.len(), socket(3)), (32, socket(3)));
        }
    }

    #[test]
    fn a_client_gets_one_address_of_the_pool() {
        let pool: Vec<Cidr> = ["127.0.1.0/24", "::2", "127.0.3.0/24"].map(|a| a.parse().unwrap()).to_vec();
        let mut router = router(Sources::Pool(pool.clone()), &["127.0.0.1:53"], 1_000);
        for client in ["198.51.100.7", "198.51.100.8", "2001:db8::1", "2001:db8::2"] {
            let source = router.route(&query(client)).unwrap().source.unwrap();
            assert!(source.is_ipv4() && pool.iter().any(|block| block.contains(source)));
            assert_eq!(router.route(&query(client)).unwrap().source, Some(source));
        }
    }

    #[test]
    fn a_loopback_client_goes_to_other_hosts_from_the_address_that_the_kernel_chooses() {
        let route = |client: &str, server| {
            let query = query(client);
            router(Sources::Original, &[server], 1).route(&query).map(|route| route.source)
        };
        assert_eq!(route("127.0.0.1", "192.0.2.1:53"), Ok(None));
        assert_eq!(route("127.0.0.1", "[2001:db8::1]:53"), Ok(None));
        assert_eq!(route("::", "[::1]:53"), Ok(None));
        assert_eq!(route("127.0.0.1", "127.0.0.2:53"), Ok(Some("127.0.0.1".parse().unwrap())));
        assert_eq!(route("192.0.2.9", "[2001:db8::1]:53"), Err(Reason::Family));
    }

    #[test]
    fn a_client_on_loopback_has_another_address_on_a_link() {
        let mut on_link = Router { over_link: true, ..router(Sources::Original, &["127.0.0.1:53"], 1) };
        let mut source = |client| on_link.route(&query(client)).map(|route| route.source);
        assert_eq!((source("127.0.0.1"), source("192.0.2.9")), (Ok(None), Ok(Some("192.0.2.9".parse().unwrap()))));
    }

    #[test]
    fn a_pool_that_this_host_has_not_is_known_by_its_ends() {
        let pool = |blocks: &[&str]| Sources::Pool(blocks.iter().map(|block| block.parse().unwrap()).collect());
        assert_eq!(pool(&["127.0.0.0/8", "::1"]).not_local(), None);
        assert_eq!(pool(&["127.0.0.1", "192.0.2.0/24"]).not_local(), Some("192.0.2.0".parse().unwrap()));
        assert_eq!(pool(&["126.0.0.0/7"]).not_local(), Some("126.0.0.0".parse().unwrap()));
        assert_eq!((Sources::Original.not_local(), Sources::Ports.not_local()), (None, None));
    }

    #[test]
    fn a_pool_of_one_address_is_known_as_such() {
        let pool = |blocks: &[&str]| Sources::Pool(blocks.iter().map(|block| block.parse().unwrap()).collect());
        let only = pool(&["127.0.0.9", "2001:db8::/64"]);
        assert_eq!((only.only(false), only.only(true)), (Some("127.0.0.9".parse().unwrap()), None));
        assert_eq!(pool(&["127.0.0.9", "127.0.0.10"]).only(false), None);
        assert_eq!((Sources::Original.only(false), Sources::Ports.only(true)), (None, None));
    }

    #[test]
    fn clients_beyond_the_limit_share_a_socket_for_good() {
        let mut router = router(Sources::Ports, &["127.0.0.1:53"], 2);
        let mut socket = |client| router.route(&query(client)).unwrap().socket;
        let (a, b, c) = (socket("192.0.2.1"), socket("192.0.2.2"), socket("192.0.2.3"));
        assert!(a != b && a == c);
        assert_eq!(socket("192.0.2.3"), c);
    }

    #[test]
    fn a_client_that_finds_no_port_shares_that_of_an_earlier_one_and_so_do_those_behind_it() {
        let mut router = router(Sources::Ports, &["127.0.0.1:53"], 1_000);
        let route = |router: &mut Router, host: u32| router.route(&query(&format!("192.0.2.{host}"))).unwrap();
        let first = route(&mut router, 1);
        assert!(
            router.is_new() && router.share("192.0.2.1".parse().unwrap(), first.server).is_none(),
            "nobody has a port"
        );
        route(&mut router, 1);
        assert!(!router.is_new());
        route(&mut router, 2);
        let third = route(&mut router, 3);
        let shared = router.share("192.0.2.3".parse().unwrap(), third.server).unwrap();
        assert!(shared.socket != third.socket && route(&mut router, 3) == shared && !router.is_new());
        let sockets: Vec<_> = (4..40).map(|host| route(&mut router, host).socket).collect();
        let distinct: std::collections::BTreeSet<_> = sockets.iter().map(|socket| socket.index()).collect();
        assert_eq!((distinct.len(), router.is_new(), router.shared()), (2, false, 37));
    }

    #[test]
    fn clients_of_connections_take_no_port_of_udp() {
        let mut router = router(Sources::Ports, &["127.0.0.1:53"], 1);
        for host in 1..9 {
            router.route(&Query { transport: Transport::Dot, ..query(&format!("192.0.2.{host}")) }).unwrap();
        }
        router.route(&query("192.0.2.9")).unwrap();
        assert!(router.is_new() && router.shared() == 0);
    }

    #[test]
    fn clients_of_one_address_are_spread_over_all_shared_sockets_and_keep_theirs() {
        let mut router = router(Sources::Pool(vec!["127.0.0.1".parse().unwrap()]), &["127.0.0.1:53"], 1);
        let mut counts = std::collections::HashMap::new();
        for host in 0..3_200_u32 {
            let client = std::net::Ipv4Addr::from_bits(0x0a00_0000 + host).to_string();
            let socket = router.route(&query(&client)).unwrap().socket;
            assert_eq!(router.route(&query(&client)).unwrap().socket, socket);
            *counts.entry(socket).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), SHARED_SOCKETS as usize);
        assert!(counts.values().all(|count| (50..150).contains(count)), "{counts:?}");
    }

    #[test]
    fn clients_with_addresses_enough_share_one_socket() {
        let pool = |blocks: &[&str]| Sources::Pool(blocks.iter().map(|block| block.parse().unwrap()).collect());
        let spread = |sources: Sources| [false, true].map(|v6| sources.spread(v6));
        assert_eq!(spread(Sources::Original), [1, 1]);
        assert_eq!(spread(pool(&["127.0.0.0/8", "::1"])), [1, SHARED_SOCKETS]);
        assert_eq!(spread(pool(&["127.0.0.8/30", "127.0.1.1"])), [7, SHARED_SOCKETS]);
        assert_eq!(spread(pool(&["127.0.0.32/27"]))[0], 1);
    }

    #[test]
    fn a_client_of_both_families_of_servers_has_a_socket_for_each() {
        let targets = Targets::Recorded(vec!["192.0.2.2=::1".parse().unwrap()]);
        let mut router = Router::new(Sources::Ports, &targets, Ports { tls: 853, doh: 443 }, 10);
        let mapped = Query { server: "192.0.2.2:53".parse().unwrap(), ..query("198.51.100.7") };
        let [v4, v6] = [query("198.51.100.7"), mapped].map(|query| router.route(&query).unwrap());
        assert!(v4.socket != v6.socket && v6.server.is_ipv6() && v4.server.is_ipv4());
    }

    #[test]
    fn socket_numbers_do_not_collide() {
        let shared = (0..SHARED_SOCKETS).flat_map(|number| [false, true].map(|v6| SocketKey::Shared { v6, number }));
        let mut numbers: Vec<u32> = shared.chain((0..100).map(SocketKey::Own)).map(SocketKey::index).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 2 * SHARED_SOCKETS as usize + 100);
    }
}
