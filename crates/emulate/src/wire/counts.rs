//! Counters of the wire: every packet is delivered, dropped for a reason, or waiting.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::HostId;
use super::packet::Headers;

/// Maximum number of leaks listed; more are only counted.
const LEAKS: usize = 64;

/// Why a packet was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Lost by the link as configured.
    Lost,
    /// The queue of the limited rate was full.
    QueueFull,
    /// The limit of delayed packets was reached.
    WireFull,
    /// Not an IP packet, or truncated.
    Malformed,
    /// No host owns its destination.
    Leaked,
    /// Its destination is link-local or multicast.
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
    /// Their octets, including IP headers.
    pub bytes: u64,
}

/// Traffic of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCounts {
    /// Its name.
    pub host: String,
    /// Packets sent by it.
    pub sent: Traffic,
    /// Packets delivered to it.
    pub delivered: Traffic,
}

/// Packets not delivered, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Lost by a link as configured.
    pub lost: u64,
    /// The queue of a limited rate was full.
    pub queue_full: u64,
    /// The limit of delayed packets was reached.
    pub wire_full: u64,
    /// Not an IP packet, or truncated.
    pub malformed: u64,
    /// No host owns the destination.
    pub leaked: u64,
    /// The destination is link-local or multicast.
    pub link_local: u64,
    /// A proxy did not know which resolver it is for.
    pub unmapped: u64,
    /// The receiving host refused it.
    pub refused: u64,
}

/// Packets to a destination that no host owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// The host that sent them.
    pub host: String,
    /// Source address of the first.
    pub source: IpAddr,
    /// Their destination.
    pub destination: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Destination port of TCP and UDP.
    pub port: Option<u16>,
    /// Number of packets.
    pub count: u64,
}

/// The statistics of a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// By host.
    pub hosts: Vec<HostCounts>,
    /// Packets not delivered.
    pub dropped: Dropped,
    /// Packets in transit.
    pub waiting: u64,
    /// TCP segments received.
    pub tcp_segments: u64,
    /// Segments with octets sent before.
    pub tcp_retransmissions: u64,
    /// IP fragments received.
    pub fragments: u64,
    /// Packets whose addresses were rewritten by a proxy.
    pub rewritten: u64,
    /// Flows and lines whose state was evicted: their random sequences start again.
    pub forgotten: u64,
    /// Client packets whose source addresses were not learnt because there were too many.
    pub unlearned: u64,
    /// The first leaks.
    pub leaks: Vec<Leak>,
}

impl Counts {
    /// Zero counts for these hosts.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let hosts = names.map(|name| HostCounts { host: name.to_owned(), ..HostCounts::default() });
        Self { hosts: hosts.collect(), ..Self::default() }
    }

    /// Packets received.
    pub fn sent(&self) -> u64 {
        self.hosts.iter().map(|host| host.sent.packets).sum()
    }

    /// Packets delivered.
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
    /// The total.
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
    use crate::wire::test_packet::TestPacket;

    #[test]
    fn leaks_are_told_apart_up_to_a_limit_and_counted_all() {
        let mut counts = Counts::new(["resolver"].into_iter());
        let headers =
            |destination: &str| Headers::parse(&TestPacket::udp("10.53.0.2:9", destination, b"").packet()).unwrap();
        for port in 1..=100 {
            counts.leak(HostId(0), &headers(&format!("8.8.8.8:{port}")));
        }
        counts.leak(HostId(0), &headers("8.8.8.8:1"));
        assert_eq!((counts.leaks.len(), counts.leaks[0].count, counts.leaks[1].count), (LEAKS, 2, 1));
    }
}
