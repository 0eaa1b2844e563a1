//! Errors of ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443) about packets that we sent.

use std::net::{IpAddr, SocketAddr};

use super::checksum::Sum;
use super::ip::{ICMPV6, Packet};
use super::{BadFrame, Check};

/// Octets before the quoted packet.
const HEADER: usize = 8;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// Nothing listens on the port.
    PortUnreachable,
    /// There is no way to the destination, or a router may not let it through. The code as in the message.
    Unreachable(u8),
    /// Too long for a link: the MTU of that, in octets; 0 if an old router does not say.
    TooBig(u32),
    /// Too many hops, or fragments that did not come in time.
    TimeExceeded,
}

/// The beginning of the packet that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// UDP, TCP or another.
    pub protocol: u8,
    /// Who sent it: one of ours.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// Its sequence number, if it is of TCP. An error for another one is forged or old (RFC 5927 section 4).
    pub sequence: u32,
    /// The quoted part after the first 8 octets of its payload: over UDP, the data.
    pub rest: &'a [u8],
}

/// An error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError<'a> {
    /// What happened.
    pub kind: IcmpKind,
    /// To what.
    pub quoted: Quoted<'a>,
}

impl<'a> IcmpError<'a> {
    /// Reads an error of ICMP.
    ///
    /// # Errors
    /// If it is cut short, its checksum is wrong, or it is no such error.
    pub fn read_v4(octets: &'a [u8]) -> Result<Self, BadFrame> {
        let header: &[u8; HEADER] = octets.first_chunk().ok_or(BadFrame::Icmp)?;
        // Nobody leaves checksums of ICMP to hardware.
        if !Sum::default().octets(octets).is_right() {
            return Err(BadFrame::IcmpChecksum);
        }
        let kind = match header[..2] {
            [3, 3] => IcmpKind::PortUnreachable,
            [3, 4] => IcmpKind::TooBig(u16::from_be_bytes([header[6], header[7]]).into()),
            [3, code] => IcmpKind::Unreachable(code),
            [11, _] => IcmpKind::TimeExceeded,
            _ => return Err(BadFrame::IcmpType),
        };
        Ok(Self { kind, quoted: Quoted::read(&octets[HEADER..])? })
    }

    /// Reads an error of ICMPv6.
    ///
    /// # Errors
    /// If it is cut short, its checksum is wrong, or it is no such error.
    pub fn read_v6(source: IpAddr, destination: IpAddr, octets: &'a [u8], check: Check) -> Result<Self, BadFrame> {
        let header: &[u8; HEADER] = octets.first_chunk().ok_or(BadFrame::Icmp)?;
        let sum = || Sum::default().pseudo_header(source, destination, ICMPV6).length(octets.len()).octets(octets);
        if check == Check::Verify && !sum().is_right() {
            return Err(BadFrame::IcmpChecksum);
        }
        let kind = match header[..2] {
            [1, 4] => IcmpKind::PortUnreachable,
            [1, code] => IcmpKind::Unreachable(code),
            [2, _] => IcmpKind::TooBig(u32::from_be_bytes([header[4], header[5], header[6], header[7]])),
            [3, _] => IcmpKind::TimeExceeded,
            _ => return Err(BadFrame::IcmpType),
        };
        Ok(Self { kind, quoted: Quoted::read(&octets[HEADER..])? })
    }
}

impl<'a> Quoted<'a> {
    fn read(octets: &'a [u8]) -> Result<Self, BadFrame> {
        let packet = Packet::read_quoted(octets)?;
        if packet.fragment.is_some_and(|fragment| fragment.offset != 0) {
            // Ports are in the first fragment alone.
            return Err(BadFrame::Icmp);
        }
        // All errors quote at least 8 octets of the payload (RFC 792).
        let &[s0, s1, d0, d1, q0, q1, q2, q3, ref rest @ ..] = packet.payload else { return Err(BadFrame::Icmp) };
        Ok(Self {
            protocol: packet.protocol,
            source: SocketAddr::new(packet.source, u16::from_be_bytes([s0, s1])),
            destination: SocketAddr::new(packet.destination, u16::from_be_bytes([d0, d1])),
            sequence: u32::from_be_bytes([q0, q1, q2, q3]),
            rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::ip::{Header, ICMP, TCP};
    use crate::frame::{Content, Transport, ip};

    fn addresses(v6: bool) -> [IpAddr; 2] {
        let texts = if v6 { ["2001:db8::1", "2001:db8::53"] } else { ["192.0.2.1", "192.0.2.53"] };
        texts.map(|text| text.parse().unwrap())
    }

    /// An error from a router about a segment, of which `quoted` octets are in it.
    fn packet(v6: bool, head: [u8; 8], quoted: usize) -> Vec<u8> {
        let [client, server] = addresses(v6);
        let mut segment = vec![0; 100];
        let at = Header::new(client, server, TCP).write(&mut segment, 60).unwrap();
        segment[at..at + 8].copy_from_slice(&[0x12, 0x34, 0, 53, 1, 2, 3, 4]);
        let message = [&head[..], &segment[..quoted]].concat();
        let header = Header::new(server, client, if v6 { ICMPV6 } else { ICMP });
        let mut packet = vec![0; header.len()];
        header.write(&mut packet, message.len()).unwrap();
        let sum = if v6 {
            Sum::default().pseudo_header(server, client, ICMPV6).length(message.len())
        } else {
            Sum::default()
        };
        let checksum = sum.octets(&message).finish();
        packet.extend(message);
        packet[header.len() + 2..header.len() + 4].copy_from_slice(&checksum);
        packet
    }

    fn read(packet: &[u8], v6: bool) -> Result<IcmpError<'_>, BadFrame> {
        match Content::read(ip::ethertype(addresses(v6)[0]), packet, Check::Verify)? {
            Content::Transport(_, _, Transport::Icmp(error)) => Ok(error),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn errors_say_what_happened_to_which_packet() {
        let cases = [
            (false, [3, 1, 0, 0, 0, 0, 0, 0], IcmpKind::Unreachable(1)),
            (false, [3, 3, 0, 0, 0, 0, 0, 0], IcmpKind::PortUnreachable),
            (false, [3, 4, 0, 0, 0, 0, 5, 0], IcmpKind::TooBig(1_280)),
            (false, [11, 0, 0, 0, 0, 0, 0, 0], IcmpKind::TimeExceeded),
            (true, [1, 3, 0, 0, 0, 0, 0, 0], IcmpKind::Unreachable(3)),
            (true, [1, 4, 0, 0, 0, 0, 0, 0], IcmpKind::PortUnreachable),
            (true, [2, 0, 0, 0, 0, 0, 5, 0], IcmpKind::TooBig(1_280)),
            (true, [3, 0, 0, 0, 0, 0, 0, 0], IcmpKind::TimeExceeded),
        ];
        for (v6, head, kind) in cases {
            let [client, server] = addresses(v6);
            let quoted = Quoted {
                protocol: TCP,
                source: (client, 0x1234).into(),
                destination: (server, 53).into(),
                sequence: 0x0102_0304,
                rest: &[],
            };
            assert_eq!(read(&packet(v6, head, if v6 { 48 } else { 28 }), v6), Ok(IcmpError { kind, quoted }));
        }
    }

    #[test]
    fn what_is_no_error_or_damaged_has_its_reason() {
        for v6 in [false, true] {
            let header = if v6 { 40 } else { 20 };
            let echo = if v6 { 128 } else { 8 };
            assert_eq!(read(&packet(v6, [echo, 0, 0, 0, 0, 0, 0, 0], 0), v6), Err(BadFrame::IcmpType));
            let unreachable = [if v6 { 1 } else { 3 }, 1, 0, 0, 0, 0, 0, 0];
            assert_eq!(read(&packet(v6, unreachable, header + 7), v6), Err(BadFrame::Icmp));
            assert_eq!(read(&packet(v6, unreachable, header - 1), v6), Err(BadFrame::IpHeader));
            let mut damaged = packet(v6, unreachable, header + 8);
            damaged[header + 7] ^= 1;
            assert_eq!(read(&damaged, v6), Err(BadFrame::IcmpChecksum));
        }
    }
}
