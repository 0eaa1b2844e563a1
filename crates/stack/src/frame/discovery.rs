//! Neighbour solicitations and advertisements (RFC 4861).

use std::net::{IpAddr, Ipv6Addr};

use super::BadFrame;
use super::checksum::Sum;
use super::ethernet::{IPV6, Link, Mac};
use super::ip::{Header, ICMPV6, Packet, V6_HEADER};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Octets before the options.
const FIXED: usize = 24;
/// Octets of an option with a MAC address.
const MAC_OPTION: usize = 8;
/// Option: link-layer address of the source.
const SOURCE: u8 = 1;
/// Option: link-layer address of the target.
const TARGET: u8 = 2;
/// In an advertisement: it answers a solicitation.
const SOLICITED: u8 = 0x40;
/// In an advertisement: it replaces the known address.
const OVERRIDE: u8 = 0x20;
/// The hop limit of messages, which no router lets through (RFC 4861 section 7.1).
const HOP_LIMIT: u8 = 255;
/// Everybody on the link (RFC 4291 section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Whether it is an advertisement; a solicitation otherwise.
    pub is_advertisement: bool,
    /// From whom; unspecified if somebody asks whether an address is free.
    pub source: Ipv6Addr,
    /// To whom.
    pub destination: Ipv6Addr,
    /// The address that is asked for or told of.
    pub target: Ipv6Addr,
    /// The MAC address told: of the source in a solicitation, of the target in an advertisement.
    pub mac: Option<Mac>,
    /// Whether an advertisement answers a solicitation.
    pub is_solicited: bool,
}

impl Discovery {
    /// Whether a message of ICMPv6 is one of these.
    pub fn is_type(octets: &[u8]) -> bool {
        matches!(octets.first(), Some(&(SOLICITATION | ADVERTISEMENT)))
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it breaks a rule of RFC 4861 section 7.1, or its checksum is wrong.
    pub fn read(packet: &Packet<'_>) -> Result<Self, BadFrame> {
        let octets = packet.payload;
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination) else {
            return Err(BadFrame::Discovery);
        };
        let fixed: &[u8; FIXED] = octets.first_chunk().ok_or(BadFrame::Discovery)?;
        let sum = Sum::default().pseudo_header(source.into(), destination.into(), ICMPV6);
        if !sum.length(octets.len()).octets(octets).is_right() {
            return Err(BadFrame::IcmpChecksum);
        }
        let target = Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|at| fixed[8 + at]));
        let is_advertisement = fixed[0] == ADVERTISEMENT;
        let wanted = if is_advertisement { TARGET } else { SOURCE };
        let mac = mac_option(&octets[FIXED..], wanted)?;
        let is_solicited = is_advertisement && fixed[4] & SOLICITED != 0;
        let message = Self { is_advertisement, source, destination, target, mac, is_solicited };
        let is_valid = packet.hop_limit == HOP_LIMIT && fixed[1] == 0 && message.is_valid();
        if is_valid { Ok(message) } else { Err(BadFrame::Discovery) }
    }

    fn is_valid(&self) -> bool {
        let is_probe = self.source.is_unspecified();
        let is_right = if self.is_advertisement {
            !(is_probe || self.is_solicited && self.destination.is_multicast())
        } else {
            !is_probe || (self.destination == solicited_node(self.target) && self.mac.is_none())
        };
        is_right && !self.target.is_multicast()
    }

    /// Who has `target`?
    pub fn solicitation(mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Self {
        let destination = solicited_node(target);
        Self { is_advertisement: false, source, destination, target, mac: Some(mac), is_solicited: false }
    }

    /// The answer to this solicitation from `mac`, which has the target (RFC 4861 section 7.2.4).
    pub const fn advertisement(&self, mac: Mac) -> Self {
        let is_probe = self.source.is_unspecified();
        let destination = if is_probe { ALL_NODES } else { self.source };
        let (source, target, mac, is_solicited) = (self.target, self.target, Some(mac), !is_probe);
        Self { is_advertisement: true, source, destination, target, mac, is_solicited }
    }

    /// Writes the frame over a link to `to`, or to the group's MAC address if the destination is a group; returns its length.
    pub fn write(&self, frame: &mut [u8], link: &Link, to: Mac) -> Option<usize> {
        let length = FIXED + if self.mac.is_some() { MAC_OPTION } else { 0 };
        let to = if self.destination.is_multicast() { group_mac(self.destination) } else { to };
        let at = link.to(to).write(frame, IPV6)?;
        let header = Header::new(self.source.into(), self.destination.into(), ICMPV6);
        Header { hop_limit: HOP_LIMIT, ..header }.write(&mut frame[at..], length)?;
        let at = at + V6_HEADER;
        let octets = frame.get_mut(at..at + length)?;
        octets[..8].fill(0);
        octets[0] = if self.is_advertisement { ADVERTISEMENT } else { SOLICITATION };
        if self.is_advertisement {
            octets[4] = OVERRIDE | if self.is_solicited { SOLICITED } else { 0 };
        }
        octets[8..FIXED].copy_from_slice(&self.target.octets());
        if let Some(mac) = self.mac {
            octets[FIXED..FIXED + 2].copy_from_slice(&[if self.is_advertisement { TARGET } else { SOURCE }, 1]);
            octets[FIXED + 2..].copy_from_slice(&mac);
        }
        let sum = Sum::default().pseudo_header(self.source.into(), self.destination.into(), ICMPV6);
        let checksum = sum.length(length).octets(octets).finish();
        octets[2..4].copy_from_slice(&checksum);
        Some(at + length)
    }
}

/// The MAC address in the option `wanted`. Every option must have a length other than zero and fit.
fn mac_option(mut octets: &[u8], wanted: u8) -> Result<Option<Mac>, BadFrame> {
    let mut found = None;
    while let Some(&kind) = octets.first() {
        let length = octets.get(1).map_or(0, |&length| usize::from(length) * 8);
        let option = octets.get(..length).filter(|option| !option.is_empty()).ok_or(BadFrame::Discovery)?;
        if let (true, &[_, 1, a, b, c, d, e, f]) = (kind == wanted, option) {
            found = Some([a, b, c, d, e, f]);
        }
        octets = &octets[length..];
    }
    Ok(found)
}

/// The group that an address asks about itself in (RFC 4291 section 2.7.1).
fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = target.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a & 0xff, b)
}

/// The MAC address of a group (RFC 2464 section 7).
fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Check, Content, Ethernet, Transport};

    const MAC: Mac = [2, 0, 0, 0, 0, 9];

    fn source() -> Ipv6Addr {
        "2001:db8::1".parse().unwrap()
    }

    fn target() -> Ipv6Addr {
        "2001:db8::12:3456".parse().unwrap()
    }

    fn read(frame: &[u8]) -> Result<Discovery, BadFrame> {
        let ethernet = Ethernet::read(frame)?;
        match Content::read(ethernet.ethertype, ethernet.payload, Check::Verify)? {
            Content::Transport(_, _, Transport::Discovery(message)) => Ok(message),
            other => panic!("{other:?}"),
        }
    }

    fn written(message: &Discovery) -> Vec<u8> {
        let mut frame = vec![0; 100];
        let length = message.write(&mut frame, &Link::new([1; 6], [0; 6], None), [7; 6]).unwrap();
        frame.truncate(length);
        frame
    }

    #[test]
    fn a_solicitation_goes_to_the_group_of_its_target_and_the_answer_back() {
        let asked = Discovery::solicitation([1; 6], source(), target());
        let frame = written(&asked);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(read(&frame), Ok(asked));
        let answer = asked.advertisement(MAC);
        assert_eq!(written(&answer)[..6], [7; 6]);
        assert_eq!(read(&written(&answer)), Ok(answer));
        assert!(answer.is_solicited && answer.mac == Some(MAC) && answer.destination == source());
    }

    #[test]
    fn a_probe_for_a_free_address_is_answered_to_all_nodes() {
        let mut probe = Discovery::solicitation([1; 6], Ipv6Addr::UNSPECIFIED, target());
        assert_eq!(read(&written(&probe)), Err(BadFrame::Discovery), "RFC 4861 section 7.1.1: with a MAC address");
        probe.mac = None;
        assert_eq!(read(&written(&probe)), Ok(probe));
        let answer = probe.advertisement(MAC);
        assert_eq!((answer.destination, answer.is_solicited), (ALL_NODES, false));
        assert_eq!(read(&written(&answer)), Ok(answer));
    }

    #[test]
    fn rfc_4861_section_7_1_invalid_messages_are_dropped() {
        let asked = Discovery::solicitation([1; 6], source(), target());
        let with = |at: usize, octet: u8, fix: bool| {
            let mut frame = written(&asked);
            frame[at] = octet;
            let payload = 14 + V6_HEADER;
            frame[payload + 2..payload + 4].fill(0);
            let sum = Sum::default().pseudo_header(source().into(), asked.destination.into(), ICMPV6);
            let checksum = sum.length(frame.len() - payload).octets(&frame[payload..]).finish();
            frame[payload + 2..payload + 4].copy_from_slice(&checksum);
            frame[payload + 2] ^= u8::from(!fix);
            read(&frame)
        };
        let payload = 14 + V6_HEADER;
        assert_eq!(with(14 + 7, 254, true), Err(BadFrame::Discovery), "hop limit");
        assert_eq!(with(payload + 1, 1, true), Err(BadFrame::Discovery), "code");
        assert_eq!(with(payload + FIXED + 1, 0, true), Err(BadFrame::Discovery), "option without a length");
        assert_eq!(with(payload + FIXED + 1, 2, true), Err(BadFrame::Discovery), "option that is cut");
        assert_eq!(with(payload + 8, 0xff, true), Err(BadFrame::Discovery), "target is a group");
        assert_eq!(with(payload, SOLICITATION, false), Err(BadFrame::IcmpChecksum));
        assert_eq!(with(payload, SOLICITATION, true), Ok(asked));
        let answer = Discovery { destination: ALL_NODES, ..asked.advertisement(MAC) };
        assert_eq!(read(&written(&answer)), Err(BadFrame::Discovery), "solicited, to a group");
    }
}
