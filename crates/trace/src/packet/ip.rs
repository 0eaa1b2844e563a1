//! IPv4 and IPv6 headers (RFC 791, RFC 8200): addresses, protocol, payload without padding, fragments.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ldplayer_core::damage::Flaw;

use super::{long, word};
use crate::refused::Refused;

/// Protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// Protocol number of UDP.
pub(crate) const UDP: u8 = 17;
/// Maximum number of extension headers skipped.
const MAX_EXTENSIONS: usize = 16;

/// A parsed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
    /// Octets at the end of the payload that are missing from the capture.
    pub missing: usize,
    /// The fragment, if the packet is one.
    pub fragment: Option<Fragment>,
}

/// A fragment of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The key shared by all fragments of a datagram.
    pub id: u32,
    /// Fragment offset in octets.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
}

/// Whether octets begin with an IP header that is right: with the checksum of IPv4, if it was filled in (it may be left to the
/// network card), or a protocol that follows a header of IPv6. What follows may be cut.
pub(crate) fn is_sound(octets: &[u8]) -> bool {
    let Ok(packet) = parse(octets) else { return false };
    if packet.source.is_ipv6() {
        return matches!(
            octets[6],
            0 | 4 | 6 | 17 | 41 | 43 | 44 | 47 | 50 | 51 | 58..=60 | 89 | 103 | 132 | 135 | 136
        );
    }
    let header = usize::from(octets[0] & 0xf) * 4;
    word(octets, 10) == Some(0) || octets.get(..header).is_some_and(|header| sum(header) == 0xffff)
}

/// The sum of RFC 1071 over an even number of octets.
fn sum(octets: &[u8]) -> u32 {
    let words = octets.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum = words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum
}

/// Reads the IP header at the start of `octets`.
pub(crate) fn parse(octets: &[u8]) -> Result<Packet<'_>, Refused> {
    match octets.first().map(|first| first >> 4) {
        Some(4) => parse_v4(octets).ok_or(Refused::Damaged(Flaw::BadIpHeader)),
        Some(6) => parse_v6(octets).ok_or(Refused::Damaged(Flaw::BadIpHeader)),
        _ => Err(Refused::Foreign("not_ip")),
    }
}

fn parse_v4(octets: &[u8]) -> Option<Packet<'_>> {
    let header = usize::from(octets[0] & 0xf) * 4;
    // A length of 0 is due to segmentation offload: then the captured length is used.
    let length = Some(usize::from(word(octets, 2)?)).filter(|&length| length != 0).unwrap_or(octets.len());
    if header < 20 || length < header {
        return None;
    }
    let flags = word(octets, 6)?;
    let (more, offset) = (flags & 0x2000 != 0, usize::from(flags & 0x1fff) * 8);
    let fragment = (more || offset != 0).then_some(Fragment { id: u32::from(word(octets, 4)?), offset, more });
    Some(Packet {
        source: IpAddr::V4(Ipv4Addr::from_bits(long(octets, 12)?)),
        destination: IpAddr::V4(Ipv4Addr::from_bits(long(octets, 16)?)),
        protocol: *octets.get(9)?,
        payload: octets.get(header..length.min(octets.len()))?,
        missing: length.saturating_sub(octets.len()),
        fragment,
    })
}

fn parse_v6(octets: &[u8]) -> Option<Packet<'_>> {
    let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets.get(at..at + 16)?).ok()?)));
    let length = 40 + usize::from(word(octets, 4)?);
    let body = octets.get(40..length.min(octets.len()))?;
    let (protocol, payload, fragment) = skip_extensions(*octets.get(6)?, body)?;
    let (source, destination) = (address(8)?, address(24)?);
    Some(Packet { source, destination, protocol, payload, missing: length.saturating_sub(octets.len()), fragment })
}

/// Protocol and payload of a reassembled datagram: that of IPv6 may begin with extension headers.
pub(crate) fn whole<'a>(parts: &Packet<'_>, payload: &'a [u8]) -> Option<(u8, &'a [u8])> {
    if parts.source.is_ipv4() {
        return Some((parts.protocol, payload));
    }
    skip_extensions(parts.protocol, payload).map(|(protocol, payload, _)| (protocol, payload))
}

/// Protocol, payload and fragment behind the extension headers (RFC 8200 §4).
fn skip_extensions(mut next: u8, mut body: &[u8]) -> Option<(u8, &[u8], Option<Fragment>)> {
    let mut fragment = None;
    for _ in 0..MAX_EXTENSIONS {
        let length = match next {
            // Hop-by-hop, routing, destination options, mobility.
            0 | 43 | 60 | 135 => (usize::from(*body.get(1)?) + 1) * 8,
            // Authentication header (RFC 4302 §2.2).
            51 => (usize::from(*body.get(1)?) + 2) * 4,
            44 => {
                let flags = word(body, 2)?;
                let (offset, more) = (usize::from(flags & 0xfff8), flags & 1 != 0);
                // An atomic fragment is a whole datagram (RFC 6946).
                fragment = (more || offset != 0).then_some(Fragment { id: long(body, 4)?, offset, more });
                8
            }
            _ => return Some((next, body, fragment)),
        };
        next = *body.first()?;
        body = body.get(length..)?;
        // What follows may be a fragmented extension header, which is parsed after reassembly.
        if fragment.is_some() {
            return Some((next, body, fragment));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(flags: u16, payload: &[u8]) -> Vec<u8> {
        let length = (20 + payload.len()) as u16;
        let mut packet = vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 9, (flags >> 8) as u8, flags as u8];
        packet.extend_from_slice(&[64, UDP, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        packet.extend_from_slice(payload);
        packet
    }

    fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 64];
        packet.extend_from_slice(&[0; 15]);
        packet.push(1);
        packet.extend_from_slice(&[0; 15]);
        packet.push(2);
        packet.extend_from_slice(payload);
        packet
    }

    #[test]
    fn ethernet_padding_is_no_payload() {
        let padded = [v4(0, b"data"), vec![0; 18]].concat();
        let packet = parse(&padded).unwrap();
        assert_eq!((packet.payload, packet.missing, packet.fragment), (&b"data"[..], 0, None));
        assert_eq!(packet.source.to_string(), "192.0.2.1");
    }

    #[test]
    fn a_packet_cut_by_the_snap_length_says_so() {
        let whole = v4(0, b"data");
        assert!(parse(&whole[..22]).unwrap().missing > 0);
    }

    #[test]
    fn fragments_tell_their_place() {
        let fragment = parse(&v4(0x2002, b"part")).unwrap().fragment;
        assert_eq!(fragment, Some(Fragment { id: 9, offset: 16, more: true }));
        let body = [&[UDP, 0, 0, 0x19, 0, 0, 0, 5][..], b"part"].concat();
        let packet = v6(44, &body);
        let packet = parse(&packet).unwrap();
        assert_eq!(packet.fragment, Some(Fragment { id: 5, offset: 24, more: true }));
        assert_eq!((packet.protocol, packet.payload), (UDP, &b"part"[..]));
    }

    #[test]
    fn extension_headers_are_skipped() {
        let hop_by_hop = [60, 0, 1, 4, 0, 0, 0, 0];
        let options = [UDP, 0, 1, 4, 0, 0, 0, 0];
        let packet = v6(0, &[&hop_by_hop[..], &options, b"data"].concat());
        let packet = parse(&packet).unwrap();
        assert_eq!((packet.protocol, packet.payload), (UDP, &b"data"[..]));
    }

    #[test]
    fn an_atomic_fragment_is_whole() {
        let packet = v6(44, &[&[UDP, 0, 0, 0, 0, 0, 0, 5][..], b"data"].concat());
        assert_eq!(parse(&packet).unwrap().fragment, None);
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic(first in 0x40_u8..0x70, rest in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&[&[first], &rest[..]].concat());
        }
    }
}
