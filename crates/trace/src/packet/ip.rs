//! IPv4 and IPv6 headers (RFC 791, RFC 8200): addresses, protocol, payload without padding, fragments.

use std::net::IpAddr;

use ldplayer_core::damage::Flaw;
use ldplayer_core::ip::{BadIp, Extended, IpHeader, extended};

use super::word;
use crate::refused::Refused;

pub(crate) use ldplayer_core::ip::{IpFragment as Fragment, TCP, UDP};

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
    let header = IpHeader::read(octets).map_err(|bad| match bad {
        BadIp::Version => Refused::Foreign("not_ip"),
        BadIp::Header | BadIp::Length | BadIp::Extensions => Refused::Damaged(Flaw::BadIpHeader),
    })?;
    // A length of 0 is due to segmentation offload: then the captured length is used.
    let length = if header.length == 0 { octets.len() } else { header.length };
    let IpHeader { source, destination, protocol, fragment, payload, .. } = header;
    let missing = length.saturating_sub(octets.len());
    Ok(Packet { source, destination, protocol, payload: &octets[payload..length.min(octets.len())], missing, fragment })
}

/// Protocol and payload of a reassembled datagram: an IPv6 payload may begin with extension headers.
pub(crate) fn whole<'a>(parts: &Packet<'_>, payload: &'a [u8]) -> Option<(u8, &'a [u8])> {
    if parts.source.is_ipv4() {
        return Some((parts.protocol, payload));
    }
    let Extended { protocol, at, .. } = extended(parts.protocol, payload, 0).ok()?;
    Some((protocol, &payload[at..]))
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
