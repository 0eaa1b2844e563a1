//! The clients of a worker: where each of their queries goes from and to, and the sockets that new ones get.

use ldplayer_core::{Query, Reason, RunTime, Transport};
use ldplayer_net::refusal::Refusal;

use super::clock::RunClock;
use super::network::Network;
use super::pairs::{Pairs, Reference, ReferenceCounts};
use super::transports::Transports;
use crate::lookups::{Ask, Lookups};
use crate::route::{Route, Router};
use crate::settings::Settings;

/// Ports run out when this many sockets in a row take longer than [`SLOW_OPEN`] to open: the kernel tries ports at random, and finds one within
/// microseconds while many are free.
const SLOW_OPENS: u32 = 8;
/// In nanoseconds.
const SLOW_OPEN: i64 = 150_000;

/// What became of the socket of a new client.
enum Opened {
    Quickly,
    /// Like those before it: clients to come would be late.
    Slowly,
    /// There are no ports or descriptors left.
    Not,
}

/// The clients.
pub struct Clients {
    clock: RunClock,
    router: Router,
    /// The pairs, if answers are compared with those of another server.
    pairs: Option<Pairs>,
    /// Sockets of clients that took long to open, in a row up to the last.
    slow_opens: u32,
}

impl Clients {
    /// No clients, whose sockets are `own_sockets` at most. With `reference`, their queries go to that server, too.
    pub fn new(clock: RunClock, settings: &Settings, own_sockets: u32, reference: Option<&Reference>) -> Self {
        let over_link = settings.path.packets().is_some();
        let router =
            |targets, ports| Router::new(settings.sources.clone(), targets, ports, own_sockets).over_link(over_link);
        let pairs = reference.map(|other| Pairs::new(router(&other.targets, other.ports()), other));
        Self { clock, router: router(&settings.targets, settings.ports()), pairs, slow_opens: 0 }
    }

    /// Hands a query to its machine, and the same one for the reference server if there is one. A client that reacts looks it up.
    pub fn ask(&mut self, now: RunTime, query: Query, network: &mut Network, transports: &mut Transports) {
        if let Some(lookups) = transports.lookups.as_mut().filter(|lookups| lookups.is_for(&query)) {
            let servers = self.router.servers(&query);
            lookups.handle_query(now, query, servers);
            self.react(now, network, transports);
            return;
        }
        match (self.route(&query, None, network), &mut self.pairs) {
            (Ok(route), Some(pairs)) => pairs.ask(now, query, route, transports),
            (Ok(route), None) => transports.handle_query(now, query, route),
            (Err(reason), _) => transports.handle_unroutable(&query, reason),
        }
    }

    /// Opens the socket of a query to come. A client that reacts chooses its server when it asks.
    pub fn prepare(&mut self, query: &Query, network: &mut Network, transports: &Transports) {
        if transports.lookups.as_ref().is_none_or(|lookups| !lookups.is_for(query)) {
            // What stands in its way is met again when it is sent.
            let _ = self.route(query, None, network);
        }
    }

    /// Sends the attempts of clients that react. Returns their number.
    pub fn react(&mut self, now: RunTime, network: &mut Network, transports: &mut Transports) -> usize {
        transports.tell_lookups(now);
        let mut sent = 0;
        while let Some(Ask { query, server }) = transports.lookups.as_mut().and_then(Lookups::poll_ask) {
            match self.route(&query, Some(server), network) {
                Ok(route) => transports.handle_query(now, query, route),
                Err(reason) => transports.handle_unroutable(&query, reason),
            }
            // What cannot be sent has ended already, and may have the client ask another server.
            transports.tell_lookups(now);
            sent += 1;
        }
        sent
    }

    /// Makes rows of the pairs that have ended.
    pub fn pair_up(&mut self, transports: &mut Transports) {
        if let Some(pairs) = &mut self.pairs {
            pairs.pair_up(transports);
        }
    }

    /// Counters of queries to the reference server.
    pub fn reference_counts(&self) -> ReferenceCounts {
        self.pairs.as_ref().map(Pairs::counts).unwrap_or_default()
    }

    /// Clients that share the sockets of others for want of ports or descriptors.
    pub const fn shared(&self) -> u64 {
        self.router.shared()
    }

    /// The route of a query, to the server at a place of the client's list, or to the one that the client keeps. A client whose socket cannot be opened, for want of ports or descriptors, shares the socket of another client.
    fn route(&mut self, query: &Query, server: Option<usize>, network: &mut Network) -> Result<Route, Reason> {
        let route = self.router.route_to(query, server)?;
        if !self.router.is_new() {
            return Ok(route);
        }
        let routed = self.router.routed(route.server.is_ipv6());
        match self.open(&route, query.transport, network) {
            Opened::Quickly => Ok(route),
            Opened::Slowly => {
                self.limit_sockets(&route, routed);
                Ok(route)
            }
            Opened::Not => {
                let shared = self.router.share(query.client, route.server).ok_or(Reason::NoSource)?;
                self.limit_sockets(&route, self.router.routed(route.server.is_ipv6()) - 1);
                Ok(shared)
            }
        }
    }

    /// Opens the socket of a new client.
    fn open(&mut self, route: &Route, transport: Transport, network: &mut Network) -> Opened {
        let began = self.clock.now();
        let opened = network.open(route, transport);
        let is_slow = self.clock.now() - began > SLOW_OPEN;
        self.slow_opens = if is_slow { self.slow_opens + 1 } else { 0 };
        match opened {
            Err(error) if Refusal::of(&error) == Refusal::NoSource => Opened::Not,
            Ok(()) if self.slow_opens >= SLOW_OPENS => Opened::Slowly,
            // Other errors are met again when the query is sent.
            _ => Opened::Quickly,
        }
    }

    /// Gives new clients no socket beyond the first `most`, neither to the server nor to the reference server.
    fn limit_sockets(&mut self, route: &Route, most: u32) {
        let v6 = route.server.is_ipv6();
        self.router.limit(v6, most);
        if let Some(pairs) = &mut self.pairs {
            pairs.limit(v6, most);
        }
    }
}
