//! UDP (RFC 768; over IPv6, RFC 8200 section 8.1).

use std::net::IpAddr;

use super::checksum::Sum;
use super::ethernet::Link;
use super::ip::{Header, UDP};
use super::{BadFrame, Check};

/// Octets of a header.
pub const HEADER: usize = 8;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// From which port.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// What it carries.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram between two addresses.
    ///
    /// # Errors
    /// A length or the checksum is wrong. Over IPv4, zero means no checksum.
    pub fn read(source: IpAddr, destination: IpAddr, octets: &'a [u8], check: Check) -> Result<Self, BadFrame> {
        let header: &[u8; HEADER] = octets.first_chunk().ok_or(BadFrame::Udp)?;
        let [s0, s1, d0, d1, l0, l1, c0, c1] = *header;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let octets = octets.get(..length).filter(|octets| octets.len() >= HEADER).ok_or(BadFrame::Udp)?;
        let is_unchecked = [c0, c1] == [0, 0] && source.is_ipv4();
        let sum = || Sum::default().pseudo_header(source, destination, UDP).length(length).octets(octets);
        if check == Check::Verify && !is_unchecked && ([c0, c1] == [0, 0] || !sum().is_right()) {
            return Err(BadFrame::UdpChecksum);
        }
        let [source_port, destination_port] = [[s0, s1], [d0, d1]].map(u16::from_be_bytes);
        Ok(Self { source_port, destination_port, payload: &octets[HEADER..] })
    }
}

/// The header of a datagram, with its checksum; `None` if the payload is too long for UDP.
pub fn header(source: (IpAddr, u16), destination: (IpAddr, u16), payload: &[u8]) -> Option<[u8; HEADER]> {
    let length = u16::try_from(HEADER + payload.len()).ok()?;
    let [[s0, s1], [d0, d1], [l0, l1]] = [source.1, destination.1, length].map(u16::to_be_bytes);
    let sum = Sum::default().pseudo_header(source.0, destination.0, UDP).length(length.into());
    let sum = sum.octets(&[s0, s1, d0, d1, l0, l1]).octets(payload);
    let [c0, c1] = sum.finish_udp();
    Some([s0, s1, d0, d1, l0, l1, c0, c1])
}

/// Writes a frame with a datagram; returns its length. [`super::QueryTemplate`] is faster for many of them.
pub fn write(
    frame: &mut [u8],
    link: &Link,
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    payload: &[u8],
) -> Option<usize> {
    let ip = Header::new(source.0, destination.0, UDP);
    let at = link.write(frame, ip.ethertype())?;
    let at = at + ip.write(&mut frame[at..], HEADER + payload.len())?;
    let (to, rest) = frame[at..].split_first_chunk_mut()?;
    *to = header(source, destination, payload)?;
    rest.get_mut(..payload.len())?.copy_from_slice(payload);
    Some(at + HEADER + payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Packet, ethernet};
    use proptest::prelude::*;

    const V4: [IpAddr; 2] =
        [IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 53))];

    fn addresses(v6: bool) -> [IpAddr; 2] {
        if v6 { ["2001:db8::1", "2001:db8::53"].map(|text| text.parse().unwrap()) } else { V4 }
    }

    proptest! {
        #[test]
        fn datagrams_are_read_back_and_a_changed_octet_is_noticed(
            v6: bool, ports: [u16; 2], payload in prop::collection::vec(any::<u8>(), 0..100), at: prop::sample::Index, flip in 1_u8..,
        ) {
            let [source, destination] = addresses(v6);
            let mut frame = [0; 200];
            let link = Link::new([1; 6], [2; 6], None);
            let length = write(&mut frame, &link, (source, ports[0]), (destination, ports[1]), &payload).unwrap();
            let packet = Packet::read(&frame[14..length]).unwrap();
            prop_assert_eq!(ethernet::Ethernet::read(&frame).unwrap().ethertype, super::super::ip::ethertype(source));
            let read = Datagram::read(source, destination, packet.payload, Check::Verify);
            let expected = Datagram { source_port: ports[0], destination_port: ports[1], payload: &payload };
            prop_assert_eq!(read, Ok(expected));
            let mut changed = packet.payload.to_vec();
            let at = at.index(changed.len());
            changed[at] ^= flip;
            // Two octets flipped to a checksum of zero mean that there is none.
            let read = Datagram::read(source, destination, &changed, Check::Verify);
            prop_assert!(read.is_err() || (changed[6..8] == [0, 0] && !v6), "{:?}", read);
            for room in 0..length {
                let [from, to] = [(source, ports[0]), (destination, ports[1])];
                prop_assert_eq!(write(&mut frame[..room], &link, from, to, &payload), None);
            }
        }
    }

    #[test]
    fn rfc_768_no_checksum_is_right_over_ipv4_alone() {
        let octets = [0, 1, 0, 53, 0, 9, 0, 0, 7];
        let read =
            |v6| Datagram::read(addresses(v6)[0], addresses(v6)[1], &octets, Check::Verify).map(|it| it.payload.len());
        assert_eq!((read(false), read(true)), (Ok(1), Err(BadFrame::UdpChecksum)));
    }

    #[test]
    fn a_checksum_that_is_not_ready_is_not_looked_at_when_told() {
        let octets = [0, 1, 0, 53, 0, 9, 0xab, 0xcd, 7];
        let read = |check| Datagram::read(V4[0], V4[1], &octets, check).is_ok();
        assert!(read(Check::Trust) && !read(Check::Verify));
    }

    #[test]
    fn lengths_that_do_not_fit_are_bad() {
        for (length, octets) in [(7, 8), (9, 8), (8, 7)] {
            let header = [0, 1, 0, 53, 0, length, 0, 0];
            assert_eq!(Datagram::read(V4[0], V4[1], &header[..octets], Check::Trust), Err(BadFrame::Udp));
        }
        assert_eq!(header((V4[0], 1), (V4[1], 53), &vec![0; 65_528]), None);
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_all_ones() {
        // The payload that makes the checksum come out as zero: the one that the same datagram with zeros there has.
        let from = (V4[0], 1);
        let to = (V4[1], 53);
        let with = header(from, to, &[0, 0]).unwrap();
        let zero = header(from, to, &with[6..]).unwrap();
        assert_eq!(zero[6..], [0xff, 0xff]);
    }
}
