//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, with extension headers and fragment information.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::BadFrame;
use super::checksum::Sum;
use super::ethernet::{IPV4, IPV6};

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// Extension headers of one packet. RFC 8200 section 4.1 has six, the destination options twice.
const EXTENSIONS: usize = 8;

/// Octets of an IPv4 header without options.
pub const V4_HEADER: usize = 20;
/// Octets of an IPv6 header without extensions.
pub const V6_HEADER: usize = 40;
/// Octets of the fragment header (RFC 8200 section 4.5).
pub const V6_FRAGMENT_HEADER: usize = 8;

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

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// What all fragments of a datagram have in common: 16 bits in IPv4.
    pub id: u32,
    /// Where it begins, in octets: a multiple of 8, 0 to 65,528.
    pub offset: u32,
    /// Whether others follow it.
    pub more: bool,
}

impl<'a> Packet<'a> {
    /// Reads a packet of either version.
    ///
    /// # Errors
    /// If a length does not fit, or an IPv4 header has a wrong checksum.
    pub fn read(octets: &'a [u8]) -> Result<Self, BadFrame> {
        match octets.first().map(|first| first >> 4) {
            Some(4) => Self::read_v4(octets, true),
            Some(6) => Self::read_v6(octets, true),
            _ => Err(BadFrame::IpVersion),
        }
    }

    /// Reads the beginning of a packet that an ICMP error quotes: it may be cut, and routers may have changed its checksum.
    ///
    /// # Errors
    /// If the header is not all there.
    pub fn read_quoted(octets: &'a [u8]) -> Result<Self, BadFrame> {
        match octets.first().map(|first| first >> 4) {
            Some(4) => Self::read_v4(octets, false),
            Some(6) => Self::read_v6(octets, false),
            _ => Err(BadFrame::IpVersion),
        }
    }

    fn read_v4(octets: &'a [u8], is_whole: bool) -> Result<Self, BadFrame> {
        let fixed: &[u8; V4_HEADER] = octets.first_chunk().ok_or(BadFrame::IpHeader)?;
        let header = usize::from(fixed[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if header < V4_HEADER || header > octets.len() {
            return Err(BadFrame::IpHeader);
        }
        if total < header || (is_whole && total > octets.len()) {
            return Err(BadFrame::IpLength);
        }
        if is_whole && !Sum::default().octets(&octets[..header]).is_right() {
            return Err(BadFrame::IpChecksum);
        }
        let word = u16::from_be_bytes([fixed[6], fixed[7]]);
        let (offset, more) = (u32::from(word & 0x1fff) * 8, word & V4_MORE != 0);
        let id = u16::from_be_bytes([fixed[4], fixed[5]]).into();
        let [s0, s1, s2, s3, d0, d1, d2, d3] = *fixed.last_chunk().ok_or(BadFrame::IpHeader)?;
        Ok(Self {
            source: Ipv4Addr::new(s0, s1, s2, s3).into(),
            destination: Ipv4Addr::new(d0, d1, d2, d3).into(),
            protocol: fixed[9],
            hop_limit: fixed[8],
            fragment: (more || offset != 0).then_some(Fragment { id, offset, more }),
            payload: &octets[header..total.min(octets.len())],
        })
    }

    fn read_v6(octets: &'a [u8], is_whole: bool) -> Result<Self, BadFrame> {
        let (fixed, rest) = octets.split_first_chunk::<V6_HEADER>().ok_or(BadFrame::IpHeader)?;
        let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        if is_whole && length > rest.len() {
            return Err(BadFrame::IpLength);
        }
        let [mut source, mut destination] = [[0; 16]; 2];
        source.copy_from_slice(&fixed[8..24]);
        destination.copy_from_slice(&fixed[24..]);
        let walked = Extensions::walk(fixed[6], &rest[..length.min(rest.len())])?;
        Ok(Self {
            source: Ipv6Addr::from(source).into(),
            destination: Ipv6Addr::from(destination).into(),
            protocol: walked.protocol,
            hop_limit: fixed[7],
            fragment: walked.fragment,
            payload: walked.payload,
        })
    }
}

/// What is behind extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extensions<'a> {
    pub protocol: u8,
    pub fragment: Option<Fragment>,
    pub payload: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// Goes over the extension headers from the first, whose number is `protocol`, up to the payload or that of a fragment.
    pub fn walk(mut protocol: u8, mut payload: &'a [u8]) -> Result<Self, BadFrame> {
        for _ in 0..=EXTENSIONS {
            match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    let &[next, length, ..] = payload else { return Err(BadFrame::Extensions) };
                    let length = (usize::from(length) + 1) * 8;
                    payload = payload.get(length..).ok_or(BadFrame::Extensions)?;
                    protocol = next;
                }
                FRAGMENT => {
                    let &[next, _, high, low, a, b, c, d, ..] = payload else { return Err(BadFrame::Extensions) };
                    let word = u16::from_be_bytes([high, low]);
                    let (offset, more) = (u32::from(word & 0xfff8), word & 1 != 0);
                    payload = &payload[V6_FRAGMENT_HEADER..];
                    protocol = next;
                    // A fragment that is the whole datagram is a packet like others (RFC 6946).
                    if offset != 0 || more {
                        let fragment = Some(Fragment { id: u32::from_be_bytes([a, b, c, d]), offset, more });
                        return Ok(Self { protocol, fragment, payload });
                    }
                }
                _ => return Ok(Self { protocol, fragment: None, payload }),
            }
        }
        Err(BadFrame::Extensions)
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
