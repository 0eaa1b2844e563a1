//! Packets for tests, with full checksums.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::packet::{ICMP, ICMP_V6, TCP, UDP};

/// A packet in the making.
#[derive(Clone, Debug)]
pub struct TestPacket {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub protocol: u8,
    pub sequence: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
}

impl TestPacket {
    pub fn udp(source: &str, destination: &str, payload: &[u8]) -> Self {
        Self { protocol: UDP, ..Self::tcp(source, destination, 0, 0, payload) }
    }

    pub fn tcp(source: &str, destination: &str, sequence: u32, flags: u8, payload: &[u8]) -> Self {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Self { source, destination, protocol: TCP, sequence, flags, payload: payload.to_vec() }
    }

    /// The whole packet.
    pub fn packet(&self) -> Vec<u8> {
        let mut transport = self.source.port().to_be_bytes().to_vec();
        transport.extend_from_slice(&self.destination.port().to_be_bytes());
        if self.protocol == UDP {
            transport.extend_from_slice(&(8 + self.payload.len() as u16).to_be_bytes());
            transport.extend_from_slice(&[0; 2]);
        } else {
            transport.extend_from_slice(&self.sequence.to_be_bytes());
            transport.extend_from_slice(&[0, 0, 0, 0, 0x50, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        }
        transport.extend_from_slice(&self.payload);
        ip(self.source.ip(), self.destination.ip(), self.protocol, transport)
    }
}

/// An ICMP error (destination unreachable) that quotes `quoted`.
pub fn unreachable(source: IpAddr, destination: IpAddr, quoted: &[u8]) -> Vec<u8> {
    let (kind, protocol) = if source.is_ipv4() { (3, ICMP) } else { (1, ICMP_V6) };
    let icmp = [&[kind, 3, 0, 0, 0, 0, 0, 0], quoted].concat();
    ip(source, destination, protocol, icmp)
}

/// The fragments of an IPv4 packet, each with up to `octets` (a multiple of 8) of its payload.
pub fn fragments(packet: &[u8], id: u16, octets: usize) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = packet[20..].chunks(octets).collect();
    let last = parts.len() - 1;
    let one = |(number, part): (usize, &&[u8])| {
        let mut fragment = [&packet[..20], part].concat();
        let place = (number * octets / 8) as u16 | if number < last { 0x2000 } else { 0 };
        let length = fragment.len() as u16;
        fragment[2..4].copy_from_slice(&length.to_be_bytes());
        fragment[4..6].copy_from_slice(&id.to_be_bytes());
        fragment[6..8].copy_from_slice(&place.to_be_bytes());
        fix_header(&mut fragment);
        fragment
    };
    parts.iter().enumerate().map(one).collect()
}

/// Whether all checksums of a packet, and of a packet that it quotes whole, are right.
pub fn is_sound(packet: &[u8]) -> bool {
    let headers = super::packet::Headers::parse(packet).unwrap();
    let mut again = packet.to_vec();
    fill(&mut again, headers.source, headers.destination, headers.protocol, headers.transport);
    let quoted = headers.quote(packet).map(|at| &packet[at..]);
    again == packet && quoted.is_none_or(|quoted| super::packet::Headers::parse(quoted).is_err() || is_sound(quoted))
}

fn ip(source: IpAddr, destination: IpAddr, protocol: u8, transport: Vec<u8>) -> Vec<u8> {
    let mut packet = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = (20 + transport.len() as u16).to_be_bytes();
            let start = [0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
            [&start[..], &source.octets(), &destination.octets()].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let length = (transport.len() as u16).to_be_bytes();
            let start = [0x60, 0, 0, 0, length[0], length[1], protocol, 64];
            [&start[..], &source.octets(), &destination.octets()].concat()
        }
        _ => panic!("both ends are of one family"),
    };
    let at = packet.len();
    packet.extend_from_slice(&transport);
    fill(&mut packet, source, destination, protocol, at);
    packet
}

/// Computes the checksums of the header and of a whole transport anew. A UDP checksum of zero stays over IPv4.
fn fill(packet: &mut [u8], source: IpAddr, destination: IpAddr, protocol: u8, at: usize) {
    if source.is_ipv4() {
        fix_header(packet);
    }
    let (place, pseudo) = match protocol {
        UDP => (6, true),
        TCP => (16, true),
        ICMP => (2, false),
        ICMP_V6 => (2, true),
        _ => return,
    };
    let place = at + place;
    if protocol == UDP && source.is_ipv4() && UNSUMMED.contains(&packet[at + 8..]) {
        return;
    }
    packet[place..place + 2].fill(0);
    let mut summed = Vec::new();
    if pseudo {
        match (source, destination) {
            (IpAddr::V4(a), IpAddr::V4(b)) => summed.extend([a.octets(), b.octets()].concat()),
            (IpAddr::V6(a), IpAddr::V6(b)) => summed.extend([a.octets(), b.octets()].concat()),
            _ => panic!("both ends are of one family"),
        }
        summed.extend_from_slice(&((packet.len() - at) as u32).to_be_bytes());
        summed.extend_from_slice(&u32::from(protocol).to_be_bytes());
    }
    summed.extend_from_slice(&packet[at..]);
    let sum = match checksum(&summed) {
        0 if protocol == UDP => 0xffff,
        sum => sum,
    };
    packet[place..place + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Payloads of UDP over IPv4 that are sent without checksum.
struct Unsummed;
const UNSUMMED: Unsummed = Unsummed;

impl Unsummed {
    fn contains(&self, payload: &[u8]) -> bool {
        payload.starts_with(b"no checksum")
    }
}

fn fix_header(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn checksum(octets: &[u8]) -> u16 {
    let words = octets.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Any UDP datagram or TCP segment between two ends of one family.
pub fn any_packet() -> impl Strategy<Value = TestPacket> {
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        Just(b"no checksum".to_vec()),
        // Sums that come near both zeros of one's complement.
        proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xff)], 0..40),
    ];
    let ends = any_ends();
    (ends, prop_oneof![Just(UDP), Just(TCP)], any::<u32>(), 0..64_u8, payload).prop_map(
        |((source, destination), protocol, sequence, flags, payload)| TestPacket {
            source,
            destination,
            protocol,
            sequence,
            flags,
            payload,
        },
    )
}

/// Two ends of one family.
pub fn any_ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<u16>())
        .prop_map(|(a, b, x, y)| ((a, x).into(), (b, y).into()));
    let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u16>(), any::<u16>())
        .prop_map(|(a, b, x, y)| ((a, x).into(), (b, y).into()));
    prop_oneof![v4, v6]
}
