//! Reads the addresses, transport and fragment fields of an IP packet (RFC 791, RFC 8200, RFC 9293, RFC 768).

use std::net::IpAddr;

use ldplayer_core::ip::{IpHeader, extended};
use ldplayer_link::Ends;

pub use ldplayer_core::ip::{ICMP, ICMPV6 as ICMP_V6, IpFragment as Fragment, TCP, UDP};

/// The headers of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Transport protocol; an unknown extension header counts as one.
    pub protocol: u8,
    /// Offset of the transport header (or of the fragment's data).
    pub transport: usize,
    /// Length of the whole packet.
    pub length: usize,
    /// Set if the packet is a fragment.
    pub fragment: Option<Fragment>,
    /// Source and destination port of TCP and UDP, if the packet has them.
    pub ports: Option<(u16, u16)>,
}

/// Not a valid packet, or truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of its first octet.
    pub sequence: u32,
    /// Sequence numbers used: its octets, and one each for SYN and FIN.
    pub length: u32,
    /// Whether it has SYN.
    pub syn: bool,
    /// Whether it opens a connection: SYN without ACK.
    pub opens: bool,
}

impl Headers {
    /// Parses a complete packet.
    ///
    /// # Errors
    /// It is not an IP packet, or shorter than its header says.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let headers = Self::parse_quoted(packet)?;
        if headers.length > packet.len() { Err(Malformed) } else { Ok(headers) }
    }

    /// Parses the beginning of a packet, as quoted by ICMP errors.
    ///
    /// # Errors
    /// It is not an IP packet, or its headers are truncated.
    pub fn parse_quoted(packet: &[u8]) -> Result<Self, Malformed> {
        let header = IpHeader::read(packet).map_err(|_| Malformed)?;
        if header.length == 0 {
            return Err(Malformed);
        }
        let IpHeader { source, destination, mut protocol, mut payload, length, fragment, .. } = header;
        if source.is_ipv6() && fragment.is_some_and(|fragment| fragment.offset == 0) {
            // Behind the header of a first fragment there may be more, and they are all there but for odd packets.
            let behind = extended(protocol, &packet[..length.min(packet.len())], payload).map_err(|_| Malformed)?;
            (protocol, payload) = (behind.protocol, behind.at);
        }
        let headers = Self { source, destination, protocol, transport: payload, length, fragment, ports: None };
        Ok(headers.with_ports(packet))
    }

    fn with_ports(mut self, packet: &[u8]) -> Self {
        if matches!(self.protocol, TCP | UDP) && !self.is_later_fragment() && self.transport + 4 <= self.length {
            let port = |at| word(packet, self.transport + at).ok();
            self.ports = port(0).zip(port(2));
        }
        self
    }

    /// Who sends it to whom. All fragments of a datagram have the same ends.
    pub fn ends(&self) -> Ends {
        let (from, to) = self.ports.filter(|_| self.fragment.is_none()).unwrap_or((0, 0));
        Ends { from: (self.source, from), to: (self.destination, to), protocol: self.protocol }
    }

    /// Whether this is a fragment other than the first.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset > 0)
    }

    /// Parses the TCP segment in `packet`; `None` if there is none, or its header is truncated or in another fragment.
    pub fn segment(&self, packet: &[u8]) -> Option<Segment> {
        if self.protocol != TCP || self.is_later_fragment() {
            return None;
        }
        let tcp = packet.get(self.transport..self.length)?;
        let (flags, header) = (*tcp.get(13)?, usize::from(*tcp.get(12)? >> 4) * 4);
        let octets = tcp.len().checked_sub(header.max(20))?;
        let (fin, syn, ack) = (u32::from(flags & 1), u32::from(flags >> 1 & 1), flags & 0x10 != 0);
        let length = octets as u32 + fin + syn;
        Some(Segment { sequence: long(tcp, 4).ok()?, length, syn: syn == 1, opens: syn == 1 && !ack })
    }

    /// Whether this is a UDP datagram with a DNS message (or its beginning) that is not a response (RFC 1035 §4.1.1).
    pub fn is_dns_query(&self, packet: &[u8]) -> bool {
        let flags = packet.get(self.transport + 8 + 2);
        self.protocol == UDP && !self.is_later_fragment() && flags.is_some_and(|flags| flags & 0x80 == 0)
    }

    /// Whether this is an ICMP echo reply (RFC 792, RFC 4443 §4.2).
    pub fn is_echo_reply(&self, packet: &[u8]) -> bool {
        let kind = if self.is_later_fragment() { None } else { packet.get(self.transport) };
        matches!((self.protocol, kind), (ICMP, Some(0)) | (ICMP_V6, Some(129)))
    }

    /// The offset of the packet quoted by an ICMP error (RFC 792, RFC 4443 §2.1); `None` if there is none.
    pub fn quote(&self, packet: &[u8]) -> Option<usize> {
        let kind = *packet.get(self.transport)?;
        let is_error = match self.protocol {
            ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
            ICMP_V6 => matches!(kind, 1..=4),
            _ => false,
        };
        (is_error && self.fragment.is_none() && self.transport + 8 < self.length).then_some(self.transport + 8)
    }
}

fn word(octets: &[u8], at: usize) -> Result<u16, Malformed> {
    let octets = octets.get(at..at + 2).and_then(|octets| octets.try_into().ok());
    octets.map(u16::from_be_bytes).ok_or(Malformed)
}

fn long(octets: &[u8], at: usize) -> Result<u32, Malformed> {
    let octets = octets.get(at..at + 4).and_then(|octets| octets.try_into().ok());
    octets.map(u32::from_be_bytes).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::test_packet::{self, TestPacket};
    use ldplayer_core::ip::{DESTINATION_OPTIONS, FRAGMENT};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(packet in proptest::collection::vec(any::<u8>(), 0..120), version in 0..16_u8) {
            let mut packet = packet;
            if let Some(first) = packet.first_mut() { *first = version << 4 | (*first & 0x0f); }
            for headers in [Headers::parse(&packet), Headers::parse_quoted(&packet)].into_iter().flatten() {
                prop_assert!(headers.transport <= packet.len());
                let (_, _) = (headers.segment(&packet), headers.quote(&packet));
            }
        }

        #[test]
        fn packets_that_were_made_are_read_back(made in test_packet::any_packet()) {
            let packet = made.packet();
            let headers = Headers::parse(&packet).unwrap();
            prop_assert_eq!((headers.source, headers.destination), (made.source.ip(), made.destination.ip()));
            prop_assert_eq!(headers.ports, Some((made.source.port(), made.destination.port())));
            prop_assert_eq!((headers.protocol, headers.length), (made.protocol, packet.len()));
        }
    }

    #[test]
    fn extension_headers_and_fragments_of_ipv6() {
        let made = TestPacket::udp("[2001:db8::1]:5", "[2001:db8::2]:53", b"0123456789abcdef");
        let whole = made.packet();
        let mut packet = whole[..40].to_vec();
        packet[6] = DESTINATION_OPTIONS;
        packet.extend_from_slice(&[FRAGMENT, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend_from_slice(&[UDP, 0, 0, 1, 0, 0, 0, 9]);
        packet.extend_from_slice(&whole[40..]);
        let length = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!(headers.fragment, Some(Fragment { id: 9, offset: 0, more: true }));
        assert_eq!((headers.ports, headers.transport), (Some((5, 53)), 56));
        packet[50..52].copy_from_slice(&[0, 8]);
        let headers = Headers::parse(&packet).unwrap();
        assert_eq!(headers.fragment, Some(Fragment { id: 9, offset: 8, more: false }));
        assert_eq!((headers.ports, headers.is_later_fragment()), (None, true));
    }

    #[test]
    fn all_fragments_of_a_datagram_have_the_same_ends() {
        let packet = TestPacket::udp("192.0.2.1:5", "192.0.2.2:53", &[0; 60]).packet();
        let ends = |packet: &[u8]| Headers::parse(packet).unwrap().ends();
        let fragments = test_packet::fragments(&packet, 1, 24);
        assert!(fragments.iter().all(|fragment| ends(fragment) == ends(&fragments[0])));
        assert_eq!((ends(&fragments[0]).from.1, ends(&packet).from.1), (0, 5));
    }

    #[test]
    fn a_packet_that_is_cut_off_can_be_quoted_only() {
        let packet = TestPacket::udp("192.0.2.1:5", "192.0.2.2:53", b"0123456789").packet();
        assert_eq!(Headers::parse(&packet[..28]), Err(Malformed));
        assert_eq!(Headers::parse_quoted(&packet[..28]).unwrap().ports, Some((5, 53)));
        assert_eq!(Headers::parse_quoted(&packet[..19]), Err(Malformed));
    }

    #[test]
    fn syn_and_fin_take_a_sequence_number_each() {
        let mut made = TestPacket::tcp("192.0.2.1:5", "192.0.2.2:53", 100, 0x02, b"");
        let segment = |made: &TestPacket| Headers::parse(&made.packet()).unwrap().segment(&made.packet()).unwrap();
        assert_eq!(segment(&made), Segment { sequence: 100, length: 1, syn: true, opens: true });
        (made.flags, made.payload) = (0x11, vec![0; 7]);
        assert_eq!(segment(&made), Segment { sequence: 100, length: 8, syn: false, opens: false });
    }
}
