//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, as captures, frames and the wire between hosts read them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// Octets of an IPv4 header without options.
pub const V4_HEADER: usize = 20;
/// Octets of an IPv6 header without extension headers.
pub const V6_HEADER: usize = 40;
/// Octets of the fragment header (RFC 8200 §4.5).
pub const FRAGMENT_HEADER: usize = 8;

/// Extension headers: hop-by-hop options, routing, fragment, authentication (RFC 4302), destination options, mobility (RFC 6275).
pub const HOP_BY_HOP: u8 = 0;
/// Routing.
pub const ROUTING: u8 = 43;
/// Fragment.
pub const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
/// Destination options.
pub const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
/// Maximum number of extension headers; RFC 8200 §4.1 has six.
const MAX_EXTENSIONS: usize = 16;

/// Why octets have no IP header that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadIp {
    /// The version is neither 4 nor 6.
    Version,
    /// The header is cut, or shorter than a header can be.
    Header,
    /// The stated length is less than the header, or the packet is cut within its extension headers.
    Length,
    /// An extension header is cut, or there are too many.
    Extensions,
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of the payload, behind all extension headers up to that of a fragment.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// The fragment, if the packet is one.
    pub fragment: Option<IpFragment>,
    /// Offset of the payload.
    pub payload: usize,
    /// Length of the packet as stated in its header, in octets, which may be more than there are; 0 in IPv4 with segmentation offload.
    pub length: usize,
}

/// The place of a fragment in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFragment {
    /// The identification shared by the fragments of a datagram: 16 bits in IPv4.
    pub id: u32,
    /// Where its data begins, in octets: a multiple of 8, up to 65,528.
    pub offset: u32,
    /// Whether more fragments follow.
    pub more: bool,
}

/// What stands behind extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Protocol of what follows.
    pub protocol: u8,
    /// Its offset.
    pub at: usize,
    /// The fragment, if there was the header of one; behind it, nothing is skipped.
    pub fragment: Option<IpFragment>,
}

impl IpHeader {
    /// Reads the header at the beginning of a packet, which may be cut behind it. Checksums are not looked at.
    ///
    /// # Errors
    /// Why there is no header.
    #[inline]
    pub fn read(octets: &[u8]) -> Result<Self, BadIp> {
        match octets.first().map(|first| first >> 4) {
            Some(4) => Self::read_v4(octets),
            Some(6) => Self::read_v6(octets),
            _ => Err(BadIp::Version),
        }
    }

    fn read_v4(octets: &[u8]) -> Result<Self, BadIp> {
        let fixed: &[u8; V4_HEADER] = octets.first_chunk().ok_or(BadIp::Header)?;
        let payload = usize::from(fixed[0] & 15) * 4;
        if payload < V4_HEADER || payload > octets.len() {
            return Err(BadIp::Header);
        }
        let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if length < payload && length != 0 {
            return Err(BadIp::Length);
        }
        let place = u16::from_be_bytes([fixed[6], fixed[7]]);
        let (offset, more) = (u32::from(place & 0x1fff) * 8, place & 0x2000 != 0);
        let id = u16::from_be_bytes([fixed[4], fixed[5]]).into();
        let [s0, s1, s2, s3, d0, d1, d2, d3] = *fixed.last_chunk().ok_or(BadIp::Header)?;
        Ok(Self {
            source: Ipv4Addr::new(s0, s1, s2, s3).into(),
            destination: Ipv4Addr::new(d0, d1, d2, d3).into(),
            protocol: fixed[9],
            hop_limit: fixed[8],
            fragment: (more || offset != 0).then_some(IpFragment { id, offset, more }),
            payload,
            length,
        })
    }

    fn read_v6(octets: &[u8]) -> Result<Self, BadIp> {
        let fixed: &[u8; V6_HEADER] = octets.first_chunk().ok_or(BadIp::Header)?;
        let length = V6_HEADER + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let [mut source, mut destination] = [[0; 16]; 2];
        source.copy_from_slice(&fixed[8..24]);
        destination.copy_from_slice(&fixed[24..]);
        let extended = extended(fixed[6], &octets[..length.min(octets.len())], V6_HEADER);
        let is_cut = length > octets.len();
        let Extended { protocol, at, fragment } = extended.map_err(|bad| if is_cut { BadIp::Length } else { bad })?;
        Ok(Self {
            source: Ipv6Addr::from(source).into(),
            destination: Ipv6Addr::from(destination).into(),
            protocol,
            hop_limit: fixed[7],
            fragment,
            payload: at,
            length,
        })
    }
}

/// Skips extension headers from offset `at` on, the first of type `protocol`, up to the payload or behind the header of a fragment: what
/// follows that may be cut anywhere. A fragment that is the whole datagram is a packet like others (RFC 6946).
///
/// # Errors
/// One is cut, or there are too many.
pub fn extended(mut protocol: u8, octets: &[u8], mut at: usize) -> Result<Extended, BadIp> {
    for _ in 0..=MAX_EXTENSIONS {
        let header = octets.get(at..).ok_or(BadIp::Extensions)?;
        let length = match (protocol, header) {
            (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY, &[_, units, ..]) => (usize::from(units) + 1) * 8,
            (AUTHENTICATION, &[_, units, ..]) => (usize::from(units) + 2) * 4,
            (FRAGMENT, &[next, _, high, low, a, b, c, d, ..]) => {
                let place = u16::from_be_bytes([high, low]);
                let (offset, more) = (u32::from(place & 0xfff8), place & 1 != 0);
                if offset != 0 || more {
                    let fragment = Some(IpFragment { id: u32::from_be_bytes([a, b, c, d]), offset, more });
                    return Ok(Extended { protocol: next, at: at + FRAGMENT_HEADER, fragment });
                }
                FRAGMENT_HEADER
            }
            (HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS | MOBILITY | AUTHENTICATION, _) => {
                return Err(BadIp::Extensions);
            }
            _ => return Ok(Extended { protocol, at, fragment: None }),
        };
        (protocol, at) = (header[0], at + length);
    }
    Err(BadIp::Extensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(next: u8, body: &[u8]) -> Vec<u8> {
        [&[0x60, 0, 0, 0, 0, body.len() as u8, next, 64][..], &[1; 32], body].concat()
    }

    #[test]
    fn all_extension_headers_up_to_that_of_a_fragment_are_skipped() {
        let mut body = Vec::new();
        for (next, length) in [(ROUTING, 8), (AUTHENTICATION, 8), (MOBILITY, 12), (DESTINATION_OPTIONS, 8), (UDP, 8)] {
            let units = if length == 12 { 1 } else { 0 };
            body.extend([next, units]);
            body.resize(body.len() + length - 2, 0);
        }
        let header = IpHeader::read(&v6(HOP_BY_HOP, &body)).unwrap();
        assert_eq!((header.protocol, header.payload, header.fragment), (UDP, V6_HEADER + body.len(), None));
        let fragment = [UDP, 0, 0, 9, 0, 0, 0, 7, 0xaa];
        let header = IpHeader::read(&v6(FRAGMENT, &fragment)).unwrap();
        let expected = IpFragment { id: 7, offset: 8, more: true };
        assert_eq!((header.protocol, header.payload, header.fragment), (UDP, V6_HEADER + 8, Some(expected)));
    }

    #[test]
    fn what_is_cut_or_endless_is_no_header() {
        let whole = v6(ROUTING, &[UDP, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(IpHeader::read(&whole[..44]), Err(BadIp::Length));
        assert_eq!(IpHeader::read(&whole[..30]), Err(BadIp::Header));
        assert_eq!(IpHeader::read(&v6(ROUTING, &[ROUTING, 0, 0, 0, 0, 0, 0, 0].repeat(20))), Err(BadIp::Extensions));
        assert_eq!((IpHeader::read(&[]), IpHeader::read(&[0x50; 60])), (Err(BadIp::Version), Err(BadIp::Version)));
        let offloaded = [&[0x45, 0, 0, 0][..], &[0; 16]].concat();
        assert_eq!(IpHeader::read(&offloaded).map(|header| (header.length, header.payload)), Ok((0, V4_HEADER)));
    }
}
