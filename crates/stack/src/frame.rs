//! Ethernet frames and their headers, read and written in place.
//!
//! Readers take any octets and never panic: they yield what the octets mean or a [`BadFrame`], which the caller counts. Writers
//! fill a buffer of the caller's and return the length; `None` means that the buffer is too small or that the two addresses
//! are of different families.

pub mod arp;
pub mod checksum;
pub mod discovery;
pub mod ethernet;
pub mod icmp;
pub mod ip;
pub mod query;
pub mod segment;
pub mod udp;

use ldplayer_core::ip::extended;
use std::net::IpAddr;

pub use arp::Arp;
pub use discovery::Discovery;
pub use ethernet::{Ethernet, Link, Mac};
pub use icmp::{IcmpError, IcmpKind, Quoted};
pub use ip::{Fragment, Header, Packet};
pub use query::QueryTemplate;
pub use segment::{Cookie, Flags, Options, Sack, Segment, Timestamps};
pub use udp::Datagram;

/// Why octets are no frame that we understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadFrame {
    /// The Ethernet header is cut short.
    #[error("truncated Ethernet header")]
    Ethernet,
    /// More than one VLAN tag.
    #[error("more than one VLAN tag")]
    Tags,
    /// An EtherType other than IPv4, IPv6 and ARP.
    #[error("unknown EtherType")]
    EtherType,
    /// Not an ARP message for IPv4 over Ethernet.
    #[error("malformed ARP message")]
    Arp,
    /// Neither IPv4 nor IPv6, or another one than the EtherType says.
    #[error("wrong IP version")]
    IpVersion,
    /// The IP header is cut short, or its length is impossible.
    #[error("malformed IP header")]
    IpHeader,
    /// The IP packet is longer than the frame, or shorter than its header.
    #[error("wrong IP length")]
    IpLength,
    /// The checksum of the IPv4 header is wrong.
    #[error("wrong IPv4 header checksum")]
    IpChecksum,
    /// IPv6 extension headers are cut short, or too many.
    #[error("malformed IPv6 extension headers")]
    Extensions,
    /// Neither UDP, TCP nor ICMP.
    #[error("unknown transport protocol")]
    Protocol,
    /// The UDP header is cut short, or its length is wrong.
    #[error("malformed UDP header")]
    Udp,
    /// The checksum of UDP is wrong, or missing in IPv6.
    #[error("wrong UDP checksum")]
    UdpChecksum,
    /// The TCP header is cut short, or its length is impossible.
    #[error("malformed TCP header")]
    Tcp,
    /// The checksum of TCP is wrong.
    #[error("wrong TCP checksum")]
    TcpChecksum,
    /// A TCP option is longer than the header, or has another length than its kind.
    #[error("malformed TCP option")]
    TcpOption,
    /// An ICMP message is cut short, or quotes no packet.
    #[error("malformed ICMP message")]
    Icmp,
    /// The checksum of ICMP is wrong.
    #[error("wrong ICMP checksum")]
    IcmpChecksum,
    /// An ICMP message of a type that we have no use for.
    #[error("ICMP message of no interest")]
    IcmpType,
    /// A neighbour message that RFC 4861 section 7.1 has dropped: its hop limit is not 255, or its addresses are wrong.
    #[error("invalid neighbor discovery message")]
    Discovery,
}

impl BadFrame {
    /// All reasons, in the order of their index.
    pub const ALL: [Self; 19] = [
        Self::Ethernet,
        Self::Tags,
        Self::EtherType,
        Self::Arp,
        Self::IpVersion,
        Self::IpHeader,
        Self::IpLength,
        Self::IpChecksum,
        Self::Extensions,
        Self::Protocol,
        Self::Udp,
        Self::UdpChecksum,
        Self::Tcp,
        Self::TcpChecksum,
        Self::TcpOption,
        Self::Icmp,
        Self::IcmpChecksum,
        Self::IcmpType,
        Self::Discovery,
    ];

    /// Whether something is wrong with the frame: not only of a kind that we have no use for.
    pub const fn is_damage(self) -> bool {
        !matches!(self, Self::EtherType | Self::Protocol | Self::IcmpType)
    }

    /// The place of the reason in [`Self::ALL`], for tables of counts.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What is known of the checksum of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing: it is verified.
    #[default]
    Verify,
    /// It is right, or it is not complete yet, as on a veth device of the same host, which leaves it to hardware that is not
    /// there: it is not looked at.
    Trust,
}

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// An ARP message.
    Arp(Arp),
    /// A part of a datagram, for [`crate::fragments::Reassembler`].
    Fragment(Packet<'a>),
    /// What an IP packet carries.
    Transport(IpAddr, IpAddr, Transport<'a>),
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    /// A datagram of UDP.
    Udp(Datagram<'a>),
    /// A segment of TCP.
    Tcp(Segment<'a>),
    /// An error about a packet of ours.
    Icmp(IcmpError<'a>),
    /// A neighbour solicitation or advertisement.
    Discovery(Discovery),
}

impl<'a> Content<'a> {
    /// Reads the payload of an Ethernet frame.
    ///
    /// # Errors
    /// If something is wrong with it, or nothing that we have a use for.
    pub fn read(ethertype: u16, payload: &'a [u8], check: Check) -> Result<Self, BadFrame> {
        match ethertype {
            ethernet::ARP => Arp::read(payload).map(Self::Arp),
            ethernet::IPV4 | ethernet::IPV6 => Self::read_ip(Packet::read(payload)?, ethertype, check),
            _ => Err(BadFrame::EtherType),
        }
    }

    fn read_ip(packet: Packet<'a>, ethertype: u16, check: Check) -> Result<Self, BadFrame> {
        if ip::ethertype(packet.source) != ethertype {
            return Err(BadFrame::IpVersion);
        }
        if packet.fragment.is_some() {
            return Ok(Self::Fragment(packet));
        }
        Ok(Self::Transport(packet.source, packet.destination, Transport::read(&packet, check)?))
    }
}

impl<'a> Transport<'a> {
    /// Reads what a whole packet, or one put together from fragments, carries.
    ///
    /// # Errors
    /// If something is wrong with it, or nothing that we have a use for.
    pub fn read(packet: &Packet<'a>, check: Check) -> Result<Self, BadFrame> {
        let Packet { source, destination, .. } = *packet;
        let (mut protocol, mut payload) = (packet.protocol, packet.payload);
        if source.is_ipv6() {
            // Extensions may be behind the fragment header, which only shows in the whole.
            let rest = extended(protocol, payload, 0)?;
            if rest.fragment.is_some() {
                return Err(BadFrame::Extensions);
            }
            (protocol, payload) = (rest.protocol, &payload[rest.at..]);
        }
        match (protocol, source.is_ipv6()) {
            (ip::UDP, _) => Datagram::read(source, destination, payload, check).map(Self::Udp),
            (ip::TCP, _) => Segment::read(source, destination, payload, check).map(Self::Tcp),
            (ip::ICMP, false) => IcmpError::read_v4(payload).map(Self::Icmp),
            (ip::ICMPV6, true) if Discovery::is_type(payload) => {
                Discovery::read(&Packet { payload, ..*packet }).map(Self::Discovery)
            }
            (ip::ICMPV6, true) => IcmpError::read_v6(source, destination, payload, check).map(Self::Icmp),
            _ => Err(BadFrame::Protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_reason_has_its_place_and_its_words() {
        for (index, reason) in BadFrame::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert!(!reason.to_string().is_empty());
        }
    }

    #[test]
    fn the_ethertype_must_fit_the_version() {
        let addresses = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut octets = [0; 100];
        let length = udp::write(&mut octets, &Link::none(), (addresses.0, 1), (addresses.1, 53), b"x").unwrap();
        let read = |ethertype| Content::read(ethertype, &octets[..length], Check::Verify);
        assert!(matches!(read(ethernet::IPV4), Ok(Content::Transport(_, _, Transport::Udp(_)))));
        assert_eq!(read(ethernet::IPV6), Err(BadFrame::IpVersion));
        assert_eq!(read(0x88cc), Err(BadFrame::EtherType));
    }

    proptest! {
        #[test]
        fn any_octets_are_a_frame_or_a_reason(octets in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..3) {
            let ethertype = [ethernet::IPV4, ethernet::IPV6, ethernet::ARP][at];
            for check in [Check::Verify, Check::Trust] {
                if let Err(reason) = Content::read(ethertype, &octets, check) {
                    prop_assert!(BadFrame::ALL.contains(&reason));
                }
            }
        }
    }
}
