//! What the wire has done: every packet that came is delivered, dropped for a reason, or waits.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::HostId;
use super::packet::Headers;

/// Leaks that are told apart at most; more are only counted.
const LEAKS: usize = 64;

/// Why a packet was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Lost by the link, as asked for.
    Lost,
    /// The queue before the limited rate was full.
    QueueFull,
    /// Too many packets were on their way.
    WireFull,
    /// No IP packet, or cut off.
    Malformed,
    /// Nobody owns its destination.
    Leaked,
    /// Its destination is of one link only, or for many.
    LinkLocal,
    /// A proxy did not know which resolver it is for.
    Unmapped,
    /// The receiving host refused it.
    Refused,
}

/// Packets and octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// IP packets.
    pub packets: u64,
    /// Their octets, IP headers included.
    pub bytes: u64,
}

/// What a host sent and got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCounts {
    /// Its name.
    pub host: String,
    /// What came from it.
    pub sent: Traffic,
    /// What was delivered to it.
    pub delivered: Traffic,
}

/// Packets not delivered, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Lost by a link, as asked for.
    pub lost: u64,
    /// The queue before a limited rate was full.
    pub queue_full: u64,
    /// Too many packets were on their way.
    pub wire_full: u64,
    /// No IP packet, or cut off.
    pub malformed: u64,
    /// Nobody owns the destination.
    pub leaked: u64,
    /// The destination is of one link only, or for many.
    pub link_local: u64,
    /// A proxy did not know which resolver it is for.
    pub unmapped: u64,
    /// The receiving host refused it.
    pub refused: u64,
}

/// Packets to a destination that nobody owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// The host that sent them.
    pub host: String,
    /// Source of the first.
    pub source: IpAddr,
    /// Where they were to go.
    pub destination: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Destination port of TCP and UDP.
    pub port: Option<u16>,
    /// How many.
    pub count: u64,
}

/// All counts of a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// By host.
    pub hosts: Vec<HostCounts>,
    /// Not delivered.
    pub dropped: Dropped,
    /// Packets on their way.
    pub waiting: u64,
    /// TCP segments that came.
    pub tcp_segments: u64,
    /// Those that repeat octets sent before.
    pub tcp_retransmissions: u64,
    /// IP fragments that came.
    pub fragments: u64,
    /// Packets whose addresses were rewritten by a proxy.
    pub rewritten: u64,
    /// Flows and lines whose state made room for others: their random sequences begin anew.
    pub forgotten: u64,
    /// Packets of clients whose addresses were not learnt, as there were too many.
    pub unlearned: u64,
    /// The first destinations that nobody owns.
    pub leaks: Vec<Leak>,
}

impl Counts {
    /// Nothing counted, for these hosts.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let hosts = names.map(|name| HostCounts { host: name.to_owned(), ..HostCounts::default() });
        Self { hosts: hosts.collect(), ..Self::default() }
    }

    /// Packets that came.
    pub fn sent(&self) -> u64 {
        self.hosts.iter().map(|host| host.sent.packets).sum()
    }

    /// Packets that were delivered.
    pub fn delivered(&self) -> u64 {
        self.hosts.iter().map(|host| host.delivered.packets).sum()
    }

    pub(super) fn drop(&mut self, reason: Reason) {
        *self.dropped.of(reason) += 1;
    }

    pub(super) fn leak(&mut self, from: HostId, headers: &Headers) {
        let port = headers.ports.map(|(_, destination)| destination);
        let host = &self.hosts[from.index()].host;
        let is_same = |leak: &&mut Leak| {
            (leak.destination, leak.protocol, leak.port) == (headers.destination, headers.protocol, port)
                && leak.host == *host
        };
        if let Some(leak) = self.leaks.iter_mut().find(is_same) {
            leak.count += 1;
        } else if self.leaks.len() < LEAKS {
            let (source, destination, protocol) = (headers.source, headers.destination, headers.protocol);
            self.leaks.push(Leak { host: host.clone(), source, destination, protocol, port, count: 1 });
        }
    }
}

impl Dropped {
    /// All together.
    pub const fn total(&self) -> u64 {
        self.lost
            + self.queue_full
            + self.wire_full
            + self.malformed
            + self.leaked
            + self.link_local
            + self.unmapped
            + self.refused
    }

    const fn of(&mut self, reason: Reason) -> &mut u64 {
        match reason {
            Reason::Lost => &mut self.lost,
            Reason::QueueFull => &mut self.queue_full,
            Reason::WireFull => &mut self.wire_full,
            Reason::Malformed => &mut self.malformed,
            Reason::Leaked => &mut self.leaked,
            Reason::LinkLocal => &mut self.link_local,
            Reason::Unmapped => &mut self.unmapped,
            Reason::Refused => &mut self.refused,
        }
    }
}

impl Traffic {
    pub(super) const fn add(&mut self, octets: usize) {
        self.packets += 1;
        self.bytes += octets as u64;
    }

    pub(super) const fn remove(&mut self, octets: usize) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(octets as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::made::Made;

    #[test]
    fn leaks_are_told_apart_up_to_a_limit_and_counted_all() {
        let mut counts = Counts::new(["resolver"].into_iter());
        let headers = |destination: &str| Headers::parse(&Made::udp("10.53.0.2:9", destination, b"").packet()).unwrap();
        for port in 1..=100 {
            counts.leak(HostId(0), &headers(&format!("8.8.8.8:{port}")));
        }
        counts.leak(HostId(0), &headers("8.8.8.8:1"));
        assert_eq!((counts.leaks.len(), counts.leaks[0].count, counts.leaks[1].count), (LEAKS, 2, 1));
    }
}
