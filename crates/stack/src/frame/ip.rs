//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, with extension headers and fragment information.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ldplayer_core::ip::{BadIp, FRAGMENT, FRAGMENT_HEADER, IpHeader};

use super::BadFrame;
use super::checksum::Sum;
use super::ethernet::{IPV4, IPV6};

pub use ldplayer_core::ip::{ICMP, ICMPV6, IpFragment as Fragment, TCP, UDP, V4_HEADER, V6_HEADER};

/// Octets of the fragment header of IPv6.
pub const V6_FRAGMENT_HEADER: usize = FRAGMENT_HEADER;

/// Hop limit of packets that we send: what Linux has.
const HOP_LIMIT: u8 = 64;
/// Don't Fragment, in the word that has the fragment offset.
const V4_DO_NOT_FRAGMENT: u16 = 0x4000;
/// More Fragments, in the same word.
const V4_MORE: u16 = 0x2000;

/// A packet that has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// From whom.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// The protocol of the payload, behind all extension headers.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Which fragment it is; `None` if it is whole.
    pub fragment: Option<Fragment>,
    /// What is behind the header, without padding of the link layer.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet of either version.
    ///
    /// # Errors
    /// A length does not fit, or an IPv4 header has a wrong checksum.
    pub fn read(octets: &'a [u8]) -> Result<Self, BadFrame> {
        let header = IpHeader::read(octets)?;
        if header.length > octets.len() || header.length == 0 {
            return Err(BadFrame::IpLength);
        }
        if header.source.is_ipv4() && !Sum::default().octets(&octets[..header.payload]).is_right() {
            return Err(BadFrame::IpChecksum);
        }
        Ok(Self::of(&header, octets))
    }

    /// Reads the beginning of a packet that an ICMP error quotes: it may be cut, and routers may have changed its checksum.
    ///
    /// # Errors
    /// The header is cut.
    pub fn read_quoted(octets: &'a [u8]) -> Result<Self, BadFrame> {
        let header = IpHeader::read(octets)?;
        if header.length == 0 { Err(BadFrame::IpLength) } else { Ok(Self::of(&header, octets)) }
    }

    fn of(header: &IpHeader, octets: &'a [u8]) -> Self {
        let &IpHeader { source, destination, protocol, hop_limit, fragment, payload, length } = header;
        Self { source, destination, protocol, hop_limit, fragment, payload: &octets[payload..length.min(octets.len())] }
    }
}

impl From<BadIp> for BadFrame {
    fn from(bad: BadIp) -> Self {
        match bad {
            BadIp::Version => Self::IpVersion,
            BadIp::Header => Self::IpHeader,
            BadIp::Length => Self::IpLength,
            BadIp::Extensions => Self::Extensions,
        }
    }
}

/// A header to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// From whom.
    pub source: IpAddr,
    /// To whom, of the same family.
    pub destination: IpAddr,
    /// The protocol of the payload.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Which fragment it is; `None` if it is whole, which nobody may cut then (Don't Fragment).
    pub fragment: Option<Fragment>,
}

impl Header {
    /// A whole packet with the hop limit of Linux.
    pub const fn new(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self { source, destination, protocol, hop_limit: HOP_LIMIT, fragment: None }
    }

    /// Octets of the header.
    pub const fn len(&self) -> usize {
        match (self.source, self.fragment) {
            (IpAddr::V4(_), _) => V4_HEADER,
            (IpAddr::V6(_), None) => V6_HEADER,
            (IpAddr::V6(_), Some(_)) => V6_HEADER + V6_FRAGMENT_HEADER,
        }
    }

    /// Never: there is no header without octets.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The EtherType of the packet.
    pub const fn ethertype(&self) -> u16 {
        ethertype(self.source)
    }

    /// Writes the header for a payload of so many octets; returns where the payload begins. `None` if it does not fit, or
    /// source and destination are of two families.
    pub fn write(&self, octets: &mut [u8], payload: usize) -> Option<usize> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.write_v4(octets, source, destination, payload),
            (IpAddr::V6(source), IpAddr::V6(destination)) => self.write_v6(octets, source, destination, payload),
            _ => None,
        }
    }

    fn write_v4(&self, octets: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr, payload: usize) -> Option<usize> {
        let header = octets.first_chunk_mut::<V4_HEADER>()?;
        let total = u16::try_from(V4_HEADER + payload).ok()?;
        let (id, word) = match self.fragment {
            // An ID says nothing where nobody may cut (RFC 6864 section 4.1).
            None => (0, V4_DO_NOT_FRAGMENT),
            Some(Fragment { id, offset, more }) => {
                (id as u16, (offset / 8) as u16 & 0x1fff | if more { V4_MORE } else { 0 })
            }
        };
        header[..2].copy_from_slice(&[0x45, 0]);
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[6..8].copy_from_slice(&word.to_be_bytes());
        header[8..12].copy_from_slice(&[self.hop_limit, self.protocol, 0, 0]);
        header[12..16].copy_from_slice(&source.octets());
        header[16..].copy_from_slice(&destination.octets());
        let checksum = Sum::default().octets(header).finish();
        header[10..12].copy_from_slice(&checksum);
        Some(V4_HEADER)
    }

    fn write_v6(&self, octets: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr, payload: usize) -> Option<usize> {
        let length = self.len();
        let (header, rest) = octets.split_first_chunk_mut::<V6_HEADER>()?;
        let behind = u16::try_from(payload + length - V6_HEADER).ok()?;
        let next = if self.fragment.is_some() { FRAGMENT } else { self.protocol };
        header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
        header[4..6].copy_from_slice(&behind.to_be_bytes());
        header[6..8].copy_from_slice(&[next, self.hop_limit]);
        header[8..24].copy_from_slice(&source.octets());
        header[24..].copy_from_slice(&destination.octets());
        if let Some(Fragment { id, offset, more }) = self.fragment {
            let header = rest.first_chunk_mut::<V6_FRAGMENT_HEADER>()?;
            let word = offset as u16 & 0xfff8 | u16::from(more);
            header[..2].copy_from_slice(&[self.protocol, 0]);
            header[2..4].copy_from_slice(&word.to_be_bytes());
            header[4..].copy_from_slice(&id.to_be_bytes());
        }
        Some(length)
    }
}

/// The EtherType of packets from an address.
pub const fn ethertype(source: IpAddr) -> u16 {
    match source {
        IpAddr::V4(_) => IPV4,
        IpAddr::V6(_) => IPV6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::ip::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING};
    use proptest::prelude::*;

    fn pair(v6: bool) -> (IpAddr, IpAddr) {
        let texts = if v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "198.51.100.2"] };
        (texts[0].parse().unwrap(), texts[1].parse().unwrap())
    }

    fn written(header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; header.len() + payload.len()];
        let at = header.write(&mut octets, payload.len()).unwrap();
        octets[at..].copy_from_slice(payload);
        octets
    }

    proptest! {
        #[test]
        fn headers_are_read_back_with_padding_behind_them(
            v6: bool, protocol in 100_u8.., hop_limit: u8, payload in prop::collection::vec(any::<u8>(), 0..40),
            fragment in prop::option::of((1_u32..8_191, any::<bool>(), any::<u16>())), padding in 0_usize..20,
        ) {
            // The extension header of mobility is no protocol of a packet (RFC 6275 §6.1).
            prop_assume!(!(v6 && protocol == 135));
            let (source, destination) = pair(v6);
            let fragment = fragment.map(|(offset, more, id)| Fragment { id: id.into(), offset: offset * 8, more });
            let header = Header { source, destination, protocol, hop_limit, fragment };
            let mut octets = written(&header, &payload);
            octets.resize(octets.len() + padding, 0xee);
            let expected = Packet { source, destination, protocol, hop_limit, fragment, payload: &payload };
            prop_assert_eq!(Packet::read(&octets), Ok(expected));
        }

        #[test]
        fn any_octets_are_a_packet_or_a_reason(octets in prop::collection::vec(any::<u8>(), 0..120), v6: bool) {
            let mut octets = octets;
            if let Some(first) = octets.first_mut() {
                *first = if v6 { 0x60 } else { 0x40 | *first & 15 };
            }
            for read in [Packet::read(&octets), Packet::read_quoted(&octets)].into_iter().flatten() {
                prop_assert!(read.payload.len() <= octets.len());
            }
        }
    }

    #[test]
    fn options_of_ipv4_are_skipped() {
        let (source, destination) = pair(false);
        let plain = written(&Header::new(source, destination, UDP), &[1, 2, 3, 4, 9]);
        let mut octets = plain.clone();
        octets[0] = 0x46;
        octets[10..12].fill(0);
        let checksum = Sum::default().octets(&octets[..24]).finish();
        octets[10..12].copy_from_slice(&checksum);
        assert_eq!(Packet::read(&octets).unwrap().payload, [9]);
    }

    #[test]
    fn extension_headers_are_walked() {
        let (source, destination) = pair(true);
        let extensions = [
            &[ROUTING, 0, 0, 0, 0, 0, 0, 0][..],
            &[DESTINATION_OPTIONS, 1],
            &[0; 14],
            &[FRAGMENT, 0, 0, 0, 0, 0, 0, 0],
        ];
        let atomic = [&extensions.concat()[..], &[UDP, 0, 0, 0, 0, 0, 0, 1, 0xaa]].concat();
        let mut octets = written(&Header::new(source, destination, HOP_BY_HOP), &atomic);
        let read = Packet::read(&octets).unwrap();
        assert_eq!((read.protocol, read.fragment, read.payload), (UDP, None, &[0xaa][..]), "RFC 6946");
        octets[V6_HEADER + 32 + 3] = 1;
        let read = Packet::read(&octets).unwrap();
        assert_eq!(read.fragment, Some(Fragment { id: 1, offset: 0, more: true }));
    }

    #[test]
    fn what_is_wrong_has_its_reason() {
        let (source, destination) = pair(false);
        let good = written(&Header::new(source, destination, UDP), &[0; 8]);
        let with = |at: usize, octet: u8| {
            let mut octets = good.clone();
            octets[at] = octet;
            Packet::read(&octets).map(|_| ()).unwrap_err()
        };
        assert_eq!(with(0, 0x55), BadFrame::IpVersion);
        assert_eq!(with(0, 0x44), BadFrame::IpHeader);
        assert_eq!(with(0, 0x4f), BadFrame::IpHeader);
        assert_eq!(with(3, 200), BadFrame::IpLength);
        assert_eq!(with(3, 19), BadFrame::IpLength);
        assert_eq!(with(8, 1), BadFrame::IpChecksum);
        assert_eq!(Packet::read(&[]), Err(BadFrame::IpVersion));
        let (source, destination) = pair(true);
        let octets = written(&Header::new(source, destination, ROUTING), &[6, 9, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Packet::read(&octets), Err(BadFrame::Extensions));
        let endless = written(&Header::new(source, destination, ROUTING), &[ROUTING, 0, 0, 0, 0, 0, 0, 0].repeat(20));
        assert_eq!(Packet::read(&endless), Err(BadFrame::Extensions));
        assert_eq!(Packet::read(&octets[..44]), Err(BadFrame::IpLength));
        assert_eq!(Header::new(source, pair(false).0, UDP).write(&mut [0; 60], 0), None);
    }
}
