//! Link layers: what a frame begins with, by the link type of the capture (LINKTYPE_ registry).

use super::unwrap::{Inner, rest};
use super::word;
use crate::refused::{Refused, Unknown};

/// The protocol of Linux cooked captures for 802.2.
const COOKED_LLC: u16 = 4;
/// The attribute of NFLOG that holds the packet.
const NFLOG_PAYLOAD: u16 = 9;

/// What is inside a frame of the given link type.
pub(crate) fn inner(link: u32, frame: &[u8]) -> Result<Inner<'_>, Refused> {
    Ok(match link {
        1 => Inner::Ethernet(rest(frame, 0)?),
        // BSD loopback: four octets of address family, in the byte order of the capturing host.
        0 | 108 => Inner::Ip(rest(frame, 4)?),
        9 | 50 => Inner::Ppp(rest(frame, 0)?),
        12 | 14 | 101 | 228 | 229 => Inner::Ip(rest(frame, 0)?),
        // PPPoE without Ethernet.
        51 => Inner::EtherType(0x8864, rest(frame, 0)?),
        // LLC over ATM (RFC 2684).
        100 => Inner::Llc(rest(frame, 0)?),
        // Cisco HDLC: address, control, EtherType.
        104 => Inner::EtherType(type_at(frame, 2)?, rest(frame, 4)?),
        // IPsec as OpenBSD captures it: family, index, flags.
        109 => Inner::Ip(rest(frame, 12)?),
        113 => cooked(type_at(frame, 14)?, rest(frame, 16)?),
        // PF's log: the first octet is the length of the header, without its padding.
        117 => Inner::Ip(rest(frame, usize::from(rest(frame, 0)?[0]).next_multiple_of(4))?),
        // PPP behind an octet of direction.
        204 => Inner::Ppp(rest(frame, 1)?),
        219 => Inner::Mpls(rest(frame, 0)?),
        239 => Inner::Ip(nflog(frame)?),
        // The protocol comes first, the payload after 20 octets.
        276 => cooked(type_at(frame, 0)?, rest(frame, 20)?),
        link => return Err(Refused::Unknown(Unknown::LinkType(link))),
    })
}

/// What the protocol of a Linux cooked capture says.
fn cooked(protocol: u16, octets: &[u8]) -> Inner<'_> {
    if protocol == COOKED_LLC { Inner::Llc(octets) } else { Inner::EtherType(protocol, octets) }
}

/// The packet of a record of Linux' NFLOG: four octets, then attributes of length, type and value in the byte order of the
/// capturing host, of which the length tells: it is small.
fn nflog(frame: &[u8]) -> Result<&[u8], Refused> {
    let mut at = 4;
    loop {
        let (length, kind) = (type_at(frame, at)?, type_at(frame, at + 2)?);
        let little = kind & 0xff == 0;
        let swap = |word: u16| if little { word.swap_bytes() } else { word };
        let (length, kind) = (usize::from(swap(length)).max(4), swap(kind));
        if kind == NFLOG_PAYLOAD {
            let packet = rest(frame, at + 4)?;
            return Ok(packet.get(..length - 4).unwrap_or(packet));
        }
        at += length.next_multiple_of(4);
    }
}

fn type_at(frame: &[u8], at: usize) -> Result<u16, Refused> {
    word(frame, at).ok_or(super::unwrap::SHORT)
}

#[cfg(test)]
mod tests {
    use super::super::unwrap::Outer;
    use super::*;
    use ldplayer_core::damage::Flaw;

    fn network(link: u32, frame: &[u8]) -> Result<&[u8], Refused> {
        Outer::default().network(inner(link, frame)?)
    }

    fn frame(header: &[u8]) -> Vec<u8> {
        [header, &[0x45]].concat()
    }

    #[test]
    fn ip_is_found_behind_every_header() {
        let mac = [0; 12];
        let ethernet = frame(&[&mac[..], &[8, 0]].concat());
        let vlan = frame(&[&mac[..], &[0x81, 0, 0, 7, 8, 0]].concat());
        let qinq = frame(&[&mac[..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd]].concat());
        let sll = frame(&[&[0; 14][..], &[8, 0]].concat());
        let sll_llc = frame(&[&[0; 14][..], &[0, 4, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat());
        let sll2 = frame(&[&[8, 0][..], &[0; 18]].concat());
        let sll2_vlan = frame(&[&[0x81, 0][..], &[0; 18], &[0, 7, 8, 0]].concat());
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let nflog = [2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 1, 1, 5, 0, 10, 0, b'x', 0, 0, 0, 5, 0, 9, 0];
        let cases: [(u32, &[u8]); 22] = [
            (1, &ethernet),
            (1, &vlan),
            (1, &qinq),
            (113, &sll),
            (113, &sll_llc),
            (276, &sll2),
            (276, &sll2_vlan),
            (0, &frame(&[2, 0, 0, 0])),
            (108, &frame(&[0, 0, 0, 2])),
            (101, &frame(&[])),
            (228, &frame(&[])),
            (9, &frame(&[0xff, 3, 0, 0x21])),
            (9, &frame(&[0, 0x57])),
            (50, &frame(&[0x21])),
            (51, &frame(&[0x11, 0, 0, 1, 0, 3, 0, 0x21])),
            (100, &frame(&snap)),
            (104, &frame(&[0x0f, 0, 8, 0])),
            (109, &frame(&[0; 12])),
            (117, &frame(&[&[61][..], &[0; 63]].concat())),
            (204, &frame(&[1, 0xff, 3, 0, 0x21])),
            (219, &frame(&[0, 1, 1, 64])),
            (239, &frame(&nflog)),
        ];
        for (link, frame) in cases {
            assert_eq!(network(link, frame), Ok(&[0x45][..]), "link type {link}, {frame:x?}");
        }
    }

    #[test]
    fn other_frames_are_foreign_and_short_ones_damaged() {
        assert_eq!(network(1, &frame(&[&[0; 12][..], &[8, 6]].concat())), Err(Refused::Foreign("arp")));
        assert_eq!(network(147, &[0; 60]), Err(Refused::Unknown(Unknown::LinkType(147))));
        assert_eq!(Unknown::LinkType(147).to_string(), "link_type_147");
        for link in [0, 1, 9, 51, 100, 101, 104, 109, 113, 117, 204, 219, 239, 276] {
            assert_eq!(network(link, &[]), Err(Refused::Damaged(Flaw::ShortFrame)), "link type {link}");
        }
    }
}
