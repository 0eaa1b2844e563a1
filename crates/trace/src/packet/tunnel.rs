//! What IP packets carry besides UDP and TCP of their own: IP in IP, GRE, and the tunnels and mirrors over GRE and UDP.
//!
//! A datagram to the port of a tunnel is one only if all of its header is right and leads to something known; otherwise it is
//! what its ports say.

use super::unwrap::{Encapsulation, Inner, Lead, Outer, SHORT, rest};
use super::{ip, long, word};
use crate::refused::{Refused, Unknown};

/// Protocols of IP that carry no DNS, or none that can be read.
const FOREIGN: [(u8, &str); 13] = [
    (1, "icmp"),
    (2, "igmp"),
    (33, "dccp"),
    (50, "esp"),
    (58, "icmp"),
    (59, "no_next_header"),
    (88, "eigrp"),
    (89, "ospf"),
    (103, "pim"),
    (112, "vrrp"),
    (115, "l2tp_v3"),
    (132, "sctp"),
    (136, "udp_lite"),
];

/// Takes off the header of a protocol of IP, other than UDP and TCP.
///
/// # Errors
/// When it is none that carries packets.
pub(crate) fn protocol<'a>(
    outer: &mut Outer,
    packet: &ip::Packet<'_>,
    payload: &'a [u8],
) -> Result<Inner<'a>, Refused> {
    match packet.protocol {
        4 | 41 => {
            within(outer, packet, ip_in_ip(packet))?;
            Ok(Inner::Ip(rest(payload, 0)?))
        }
        47 => {
            within(outer, packet, Encapsulation::Gre)?;
            gre(outer, payload)
        }
        97 if payload.starts_with(&[0x30, 0]) => {
            within(outer, packet, Encapsulation::EtherIp)?;
            Ok(Inner::Ethernet(rest(payload, 2)?))
        }
        137 => Ok(Inner::Mpls(payload)),
        protocol => {
            let known = FOREIGN.iter().find(|(number, _)| *number == protocol);
            Err(known.map_or(Refused::Unknown(Unknown::Protocol(protocol)), |(_, word)| Refused::Foreign(word)))
        }
    }
}

/// Notes a tunnel between the ends of `packet`. Their ports are no part of it: those of the sender are a hash of what is inside.
fn within(outer: &mut Outer, packet: &ip::Packet<'_>, name: Encapsulation) -> Result<(), Refused> {
    outer.enter(name)?;
    outer.identify(&(packet.source, packet.destination));
    Ok(())
}

fn ip_in_ip(packet: &ip::Packet<'_>) -> Encapsulation {
    match (packet.source.is_ipv4(), packet.protocol == 4) {
        (true, false) => Encapsulation::SixInFour,
        (false, true) => Encapsulation::FourInSix,
        _ => Encapsulation::IpInIp,
    }
}

/// GRE with checksum, key and sequence number (RFC 2784, RFC 2890), and its version 1, which carries PPP (RFC 2637 §4.1).
fn gre<'a>(outer: &mut Outer, octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
    let (flags, kind) = word(octets, 0).zip(word(octets, 2)).ok_or(SHORT)?;
    let (version, has) = (flags & 7, |flag: u16| flags & flag != 0);
    if version > 1 || has(0x4000) {
        return Err(Refused::Foreign("gre_source_route"));
    }
    let mut at = if has(0x8000) { 8 } else { 4 };
    if has(0x2000) {
        let key = long(octets, at).ok_or(SHORT)?;
        // In version 1, the upper half is the length of the payload.
        outer.identify(&if version == 1 { key & 0xffff } else { key });
        at += 4;
    }
    at += if has(0x1000) { 4 } else { 0 };
    at += if version == 1 && has(0x0080) { 4 } else { 0 };
    match kind {
        // Without a payload: a keepalive of Cisco's, or an acknowledgement alone.
        0 => Err(Refused::Foreign("gre_keepalive")),
        0x880b if octets.len() <= at => Err(Refused::Foreign("gre_keepalive")),
        0x880b => Ok(Inner::Ppp(rest(octets, at)?)),
        0x88be | 0x22eb => erspan(outer, kind, has(0x1000), rest(octets, at)?),
        1..0x600 => Err(Refused::Unknown(Unknown::EtherType(kind))),
        kind => Ok(Inner::EtherType(kind, rest(octets, at)?)),
    }
}

/// ERSPAN (draft-foschiano-erspan-03 §4): type I has no header, type II eight octets, type III twelve and, by its last bit, eight
/// more.
fn erspan<'a>(outer: &mut Outer, kind: u16, in_sequence: bool, octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
    if kind == 0x88be && !in_sequence {
        outer.enter(Encapsulation::Erspan1)?;
        return Ok(Inner::Ethernet(octets));
    }
    let (first, second) = word(octets, 0).zip(word(octets, 2)).ok_or(SHORT)?;
    let (name, length) = match (kind, first >> 12) {
        (0x88be, 1) => (Encapsulation::Erspan2, 8),
        (0x22eb, 2) => (Encapsulation::Erspan3, if octets.get(11).ok_or(SHORT)? & 1 == 1 { 20 } else { 12 }),
        _ => return Err(Refused::Foreign("erspan_version")),
    };
    outer.enter(name)?;
    // The mirrored VLAN and the session.
    outer.identify(&(first & 0x0fff, second & 0x03ff));
    let frame = rest(octets, length)?;
    // Type III may carry IP packets: frame type 2.
    let is_ip = length > 8 && word(octets, 10).is_some_and(|word| word >> 10 & 0x1f == 2);
    Ok(if is_ip { Inner::Ip(frame) } else { Inner::Ethernet(frame) })
}

/// What is inside of a datagram, and the number of its tunnel; `None` if the header is not right.
type Opened<'a> = Option<(Inner<'a>, u32)>;

/// A kind of tunnel over UDP.
struct Tunnel {
    port: u16,
    name: Encapsulation,
    open: for<'a> fn(&'a [u8]) -> Opened<'a>,
}

/// Tunnels by the port to which their datagrams go.
const TUNNELS: [Tunnel; 8] = [
    Tunnel { port: 1_701, name: Encapsulation::L2tp, open: l2tp },
    Tunnel { port: 2_152, name: Encapsulation::Gtpu, open: gtpu },
    Tunnel { port: 4_789, name: Encapsulation::Vxlan, open: vxlan },
    Tunnel { port: 4_790, name: Encapsulation::VxlanGpe, open: vxlan_gpe },
    Tunnel { port: 6_081, name: Encapsulation::Geneve, open: geneve },
    Tunnel { port: 6_635, name: Encapsulation::Mpls, open: |octets| Some((Inner::Mpls(octets), 0)) },
    Tunnel { port: 8_472, name: Encapsulation::Vxlan, open: vxlan },
    Tunnel { port: 37_008, name: Encapsulation::Tzsp, open: tzsp },
];

/// Takes off the header of a tunnel over UDP, if the datagram is one. One to or from a port of DNS (`wanted`) is a tunnel's only
/// if an IP packet is inside.
///
/// # Errors
/// When it is one that carries no packet, or there were too many headers before it.
pub(crate) fn datagram<'a>(
    outer: &mut Outer,
    packet: &ip::Packet<'_>,
    datagram: &'a [u8],
    wanted: bool,
) -> Result<Option<Inner<'a>>, Refused> {
    let port = word(datagram, 2);
    let Some(tunnel) = TUNNELS.iter().find(|tunnel| Some(tunnel.port) == port) else { return Ok(None) };
    let Some(payload) = payload(datagram, packet.missing > 0) else { return Ok(None) };
    let Some((inner, number)) = (tunnel.open)(payload) else {
        let control = control(tunnel.name, payload).filter(|_| !wanted);
        return control.map_or(Ok(None), |word| Err(Refused::Foreign(word)));
    };
    match outer.lead(inner) {
        Lead::Ip => {}
        // Labels have no header that could be right.
        Lead::Known if !wanted && tunnel.name != Encapsulation::Mpls => {}
        _ => return Ok(None),
    }
    // Labels in UDP are noted where they are taken off.
    match tunnel.name {
        Encapsulation::Mpls => outer.identify(&(packet.source, packet.destination)),
        name => within(outer, packet, name)?,
    }
    outer.identify(&number);
    Ok(Some(inner))
}

/// What a datagram of a tunnel is that carries no packet, or none that is read, by its first octets.
fn control(tunnel: Encapsulation, octets: &[u8]) -> Option<&'static str> {
    let length = |at, more| word(octets, at).is_some_and(|length| usize::from(length) + more == octets.len());
    match (tunnel, octets) {
        // Echo requests and responses, error indications, extension headers, end markers.
        (Encapsulation::Gtpu, [0x30..=0x37, 1 | 2 | 26 | 31 | 254, ..]) if length(2, 8) => Some("gtpu_control"),
        // Control messages have a length and sequence numbers.
        (Encapsulation::L2tp, [0xc8, 2, ..]) if length(2, 0) => Some("l2tp_control"),
        (Encapsulation::Tzsp, [1, 4, 0, 0, ..]) => Some("tzsp_keepalive"),
        // Frames of wireless networks.
        (Encapsulation::Tzsp, [1, 0 | 1, 0, 18 | 119 | 127, ..]) => Some("tzsp_wireless"),
        _ => None,
    }
}

/// The payload of a datagram, as far as it was captured.
fn payload(datagram: &[u8], cut: bool) -> Option<&[u8]> {
    let length = usize::from(word(datagram, 4)?);
    let length = if length == 0 { datagram.len() } else { length };
    if length > datagram.len() && !cut {
        return None;
    }
    datagram.get(8..length.min(datagram.len()))
}

/// VXLAN (RFC 7348 §5), with the flags of its group policy: the rest of the first four octets is 0 without them.
fn vxlan(octets: &[u8]) -> Opened<'_> {
    let (flags, network) = (long(octets, 0)?, long(octets, 4)?);
    let plain = flags == 0x0800_0000;
    let policy = flags >> 24 == 0x88 && flags & 0x00b7_0000 == 0;
    ((plain || policy) && network & 0xff == 0).then_some((Inner::Ethernet(octets.get(8..)?), network >> 8))
}

/// VXLAN with a protocol in its header (draft-ietf-nvo3-vxlan-gpe §3): version 0, flags I and P.
fn vxlan_gpe(octets: &[u8]) -> Opened<'_> {
    let (flags, network, packet) = (long(octets, 0)?, long(octets, 4)?, octets.get(8..)?);
    let inner = match flags {
        0x0c00_0001 | 0x0c00_0002 => Inner::Ip(packet),
        0x0c00_0003 | 0x0800_0000 => Inner::Ethernet(packet),
        0x0c00_0005 => Inner::Mpls(packet),
        _ => return None,
    };
    (network & 0xff == 0).then_some((inner, network >> 8))
}

/// GENEVE (RFC 8926 §3.4): version 0, the length of the options in units of four octets, and flags O and C. Options are passed over
/// whatever their own lengths say.
fn geneve(octets: &[u8]) -> Opened<'_> {
    let (head, network) = (long(octets, 0)?, long(octets, 4)?);
    if head >> 30 != 0 || head & 0x003f_0000 != 0 || network & 0xff != 0 {
        return None;
    }
    let end = 8 + usize::from(octets[0] & 0x3f) * 4;
    let inner = Inner::EtherType(head as u16, octets.get(end..)?);
    (head as u16 >= 0x600).then_some((inner, network >> 8))
}

/// User data of GTP version 1 (3GPP TS 29.281 §5.1): flags, type 255, the length of what follows the first eight octets, and, by
/// the flags, four more octets and extension headers.
fn gtpu(octets: &[u8]) -> Opened<'_> {
    let (flags, length, tunnel) = (*octets.first()?, usize::from(word(octets, 2)?), long(octets, 4)?);
    if flags & 0xf8 != 0x30 || octets[1] != 0xff {
        return None;
    }
    let whole = octets.get(..8 + length.min(octets.len() - 8))?;
    let mut at = if flags & 7 == 0 { 8 } else { 12 };
    let mut next = if flags & 4 == 0 { 0 } else { *whole.get(11)? };
    while next != 0 {
        let units = usize::from(*whole.get(at)?);
        if units == 0 {
            return None;
        }
        at += 4 * units;
        next = *whole.get(at - 1)?;
    }
    let packet = whole.get(at..)?;
    // A session may be one of Ethernet.
    let is_ip = matches!(packet.first()? >> 4, 4 | 6);
    Some((if is_ip { Inner::Ip(packet) } else { Inner::Ethernet(packet) }, tunnel))
}

/// TZSP: version 1, a type (0 and 1 have a frame), what the frame is (1 is Ethernet), and tagged fields up to tag 1.
fn tzsp(octets: &[u8]) -> Opened<'_> {
    let [1, 0 | 1, 0, 1, ..] = octets else { return None };
    let mut at = 4;
    loop {
        match *octets.get(at)? {
            0 => at += 1,
            1 => return Some((Inner::Ethernet(octets.get(at + 1..)?), 0)),
            _ => at += 2 + usize::from(*octets.get(at + 1)?),
        }
    }
}

/// Data of L2TP version 2 (RFC 2661 §3.1), which is PPP: length, sequence numbers and an offset by its flags.
fn l2tp(octets: &[u8]) -> Opened<'_> {
    let flags = word(octets, 0)?;
    // The flags T (control) and those that are reserved are clear.
    if flags & 0xb4ff != 2 {
        return None;
    }
    let mut at = 2;
    if flags & 0x4000 != 0 {
        if usize::from(word(octets, 2)?) != octets.len() {
            return None;
        }
        at += 2;
    }
    let session = long(octets, at)?;
    at += if flags & 0x0800 != 0 { 8 } else { 4 };
    if flags & 0x0200 != 0 {
        at += 2 + usize::from(word(octets, at)?);
    }
    Some((Inner::Ppp(octets.get(at..)?), session))
}

#[cfg(test)]
mod tests;
