//! The wire between the hosts of a testbed: delay, loss, rates, address rewriting, and a count of every packet.
//!
//! [`Wire`] makes all decisions, without devices or a clock: time is an argument. [`Forwarder`] moves packets between TUN
//! devices accordingly. The canonical loop of its caller:
//!
//! ```text
//! for each packet that host H sent:  match wire.handle_packet(now, H, packet) { Deliver(to) => write it, … }
//! while let Some(due) = wire.poll_transmit(now):  write due.packet to due.to
//! wait for a packet, or until wire.poll_timeout()
//! ```

mod checksum;
mod counts;
mod forwarder;
mod packet;
mod proxy;
mod rewrite;
mod routes;
mod tap;
#[cfg(test)]
mod test_packet;

use std::net::IpAddr;

use ldplayer_core::Cidr;
use ldplayer_link::{Crossing, Flows, Link, Passage, Schedule};

use packet::Headers;
use proxy::{Proxied, Proxies};
use routes::{Reply, Routes};

pub use counts::{Counts, Dropped, HostCounts, Leak, Reason, Traffic};
pub use forwarder::{Forwarder, Running};
pub use ldplayer_link::{Due, LinkSpec};
pub use ldplayer_net::pace::{Precision, UnknownPrecision};
pub use proxy::{ProxyKind, ProxySettings};
pub use routes::Owners;
pub use tap::Tap;

/// A host on the wire, by its index in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u8);

/// Maximum number of hosts on a wire.
pub const MAX_HOSTS: usize = 16;
/// Default MTU in octets.
pub const MTU: u16 = 1_500;

/// A host and its addresses.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name in statistics.
    pub name: String,
    /// The address blocks that it owns.
    pub owns: Vec<Cidr>,
    /// Whether it also owns each address that it sends from, as a host of clients does.
    pub learns: bool,
}

/// The link between two hosts.
#[derive(Clone, Debug)]
pub struct WirePath {
    /// The host on the far side: each of its addresses has its own line.
    pub far: HostId,
    /// The other host.
    pub near: HostId,
    /// The properties of the link.
    pub link: LinkSpec,
}

/// The settings of a wire.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hosts, at most [`MAX_HOSTS`].
    pub hosts: Vec<Host>,
    /// The links; hosts without one are joined without delay or loss.
    pub paths: Vec<WirePath>,
    /// The paper's proxies, if used.
    pub proxies: Option<ProxySettings>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The MTU in octets.
    pub mtu: u16,
    /// Maximum number of delayed packets.
    pub waiting: usize,
    /// Minimum number of remembered flows.
    pub flows: usize,
}

impl Default for Settings {
    /// No hosts; room for 262,144 packets and 65,536 flows.
    fn default() -> Self {
        let (hosts, paths) = (Vec::new(), Vec::new());
        Self { hosts, paths, proxies: None, seed: 0, mtu: MTU, waiting: 1 << 18, flows: 1 << 16 }
    }
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Deliver it to this host now, as it is in the buffer.
    Deliver(HostId),
    /// It is delayed, and comes out of [`Wire::poll_transmit`] later.
    Wait,
    /// It is dropped.
    Drop(Reason),
}

/// The wire.
#[derive(Debug)]
pub struct Wire {
    routes: Routes,
    links: Vec<Link>,
    /// For each pair of hosts, the link between them, and whether the first host is its far side.
    between: Vec<Option<(usize, bool)>>,
    proxies: Option<Proxies>,
    flows: Flows,
    schedule: Schedule<HostId>,
    counts: Counts,
}

impl HostId {
    const fn index(self) -> usize {
        self.0 as usize
    }

    const fn bit(self) -> u32 {
        1 << self.0
    }
}

impl Wire {
    /// A new wire. Hosts beyond [`MAX_HOSTS`], and paths and proxies of nonexistent hosts, are ignored.
    pub fn new(settings: &Settings) -> Self {
        let hosts = &settings.hosts[..settings.hosts.len().min(MAX_HOSTS)];
        let mut routes = Routes::new(hosts.len());
        routes.replace_owners(Owners::of(hosts));
        hosts.iter().zip(0..).filter(|(host, _)| host.learns).for_each(|(_, number)| routes.learn(HostId(number)));
        let is_there = |host: HostId| host.index() < hosts.len();
        let mut between = vec![None; hosts.len() * hosts.len()];
        for (number, path) in
            settings.paths.iter().enumerate().filter(|(_, path)| is_there(path.far) && is_there(path.near))
        {
            between[path.far.index() * hosts.len() + path.near.index()] = Some((number, true));
            between[path.near.index() * hosts.len() + path.far.index()] = Some((number, false));
        }
        let seeds = (0..).map(|number| ldplayer_core::random::subkey(settings.seed, number));
        let links = settings.paths.iter().zip(seeds).map(|(path, seed)| Link::new(path.link.clone(), seed)).collect();
        Self {
            routes,
            links,
            between,
            proxies: settings.proxies.clone().map(Proxies::new),
            flows: Flows::new(settings.flows, settings.seed),
            schedule: Schedule::new(settings.mtu.into(), settings.waiting),
            counts: Counts::new(hosts.iter().map(|host| host.name.as_str())),
        }
    }

    /// Switches one of the proxies on or off. If none was configured, the other one stays off.
    pub fn switch_proxy(&mut self, settings: ProxySettings, kind: ProxyKind, is_on: bool) {
        let proxies = self.proxies.get_or_insert_with(|| {
            let mut proxies = Proxies::new(settings);
            [ProxyKind::Recursive, ProxyKind::Authoritative].into_iter().for_each(|kind| proxies.switch(kind, false));
            proxies
        });
        proxies.switch(kind, is_on);
    }

    /// Sets the only addresses to which packets are no leaks; delayed packets still arrive. The hosts must be
    /// the same, in the same order. Returns the previous owners.
    pub const fn replace_owners(&mut self, owners: Owners) -> Owners {
        self.routes.replace_owners(owners)
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.counts.hosts.len()
    }

    /// Handles a packet sent by `from` at `now` (nanoseconds of any monotonic clock); its addresses may be rewritten.
    ///
    /// # Panics
    /// There is no host `from`.
    pub fn handle_packet(&mut self, now: i64, from: HostId, packet: &mut [u8]) -> Fate {
        self.counts.hosts[from.index()].sent.add(packet.len());
        let (to, due) = match self.pass(now, from, packet) {
            Ok(passed) => passed,
            Err(reason) => {
                self.counts.drop(reason);
                return Fate::Drop(reason);
            }
        };
        if due <= now {
            self.counts.hosts[to.index()].delivered.add(packet.len());
            return Fate::Deliver(to);
        }
        if !self.schedule.push(due, to, packet) {
            self.counts.drop(Reason::WireFull);
            return Fate::Drop(Reason::WireFull);
        }
        Fate::Wait
    }

    /// The next packet due at `now`.
    pub fn poll_transmit(&mut self, now: i64) -> Option<Due<'_, HostId>> {
        let due = self.schedule.pop(now)?;
        self.counts.hosts[due.tag.index()].delivered.add(due.packet.len());
        Some(due)
    }

    /// When the next packet is due.
    pub fn poll_timeout(&self) -> Option<i64> {
        self.schedule.next_due()
    }

    /// Corrects the statistics: a delivered packet of this length was refused by the host.
    pub fn handle_refusal(&mut self, to: HostId, octets: usize) {
        self.counts.hosts[to.index()].delivered.remove(octets);
        self.counts.drop(Reason::Refused);
    }

    /// The statistics so far.
    pub fn counts(&self) -> Counts {
        let lines: u64 = self.links.iter().map(Link::forgotten).sum();
        Counts {
            waiting: self.schedule.len() as u64,
            forgotten: self.flows.forgotten() + lines,
            unlearned: self.routes.unlearned(),
            ..self.counts.clone()
        }
    }

    /// The destination of a packet, and when it arrives.
    fn pass(&mut self, now: i64, from: HostId, packet: &mut [u8]) -> Result<(HostId, i64), Reason> {
        let mut headers = Headers::parse(packet).map_err(|_| Reason::Malformed)?;
        self.counts.fragments += u64::from(headers.fragment.is_some());
        let asked = headers.destination;
        let reply = Reply::of(&headers, packet);
        if self.proxy(now, from, packet, &headers, reply)? {
            headers = Headers::parse(packet).map_err(|_| Reason::Malformed)?;
        }
        let Some(to) = self.routes.find(from, &headers, reply) else {
            return Err(self.refuse(from, &headers));
        };
        let hosts = self.hosts();
        let link = self.between[from.index() * hosts + to.index()];
        self.cross(now, packet, &headers, link, asked).map(|due| (to, due))
    }

    /// Lets the proxies rewrite a packet; returns whether they did.
    fn proxy(
        &mut self,
        now: i64,
        from: HostId,
        packet: &mut [u8],
        headers: &Headers,
        reply: Reply,
    ) -> Result<bool, Reason> {
        let Some(proxies) = &mut self.proxies else { return Ok(false) };
        // A query to an address without a name server is a leak; the server, which answers for all addresses, would hide it.
        let is_elsewhere = proxies.is_asked_from(from) && !self.routes.owns(proxies.server(), headers.destination);
        if is_elsewhere || self.routes.is_response(from, headers, reply) {
            return Ok(false);
        }
        match proxies.rewrite(now, from, packet, headers) {
            Proxied::Untouched => Ok(false),
            Proxied::Unmapped => Err(Reason::Unmapped),
            Proxied::Rewritten => {
                self.counts.rewritten += 1;
                Ok(true)
            }
        }
    }

    fn refuse(&mut self, from: HostId, headers: &Headers) -> Reason {
        if routes::is_link_local(headers.destination) {
            return Reason::LinkLocal;
        }
        self.counts.leak(from, headers);
        Reason::Leaked
    }

    /// Counts a packet in its flow and sends it over the link. `asked` is its destination before rewriting.
    fn cross(
        &mut self,
        now: i64,
        packet: &[u8],
        headers: &Headers,
        link: Option<(usize, bool)>,
        asked: IpAddr,
    ) -> Result<i64, Reason> {
        let segment = headers.segment(packet);
        let link = link.map(|(link, up)| (&mut self.links[link], up));
        let draws = link.as_ref().is_some_and(|(link, _)| link.draws());
        let mut flow = (segment.is_some() || draws).then(|| self.flows.of(&headers.ends(), now));
        if let (Some(flow), Some(segment)) = (&mut flow, segment) {
            self.counts.tcp_segments += 1;
            self.counts.tcp_retransmissions += u64::from(flow.repeats(segment.sequence, segment.length, segment.syn));
        }
        let Some((link, up)) = link else { return Ok(now) };
        let line = if up { headers.source } else { asked };
        match link.cross_in_flow(&Crossing { now, line, up, length: packet.len(), flow: 0, number: 0 }, flow) {
            Passage::At(due) => Ok(due),
            Passage::Lost => Err(Reason::Lost),
            Passage::QueueFull => Err(Reason::QueueFull),
        }
    }
}

#[cfg(test)]
mod tests;
