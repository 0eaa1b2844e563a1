//! Link layers: the header before the IP header, by the link type of the capture (LINKTYPE_ registry).

use ldplayer_core::damage::Flaw;

use super::word;
use crate::refused::Refused;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags: 802.1Q, 802.1ad and older forms.
const VLAN: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// Maximum number of tags skipped.
const MAX_TAGS: usize = 4;
/// PPP protocol numbers (RFC 1661 §2).
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// The IP packet inside a frame of the given link type.
pub(crate) fn network(link: u32, frame: &[u8]) -> Result<&[u8], Refused> {
    match link {
        0 | 108 => null(frame),
        1 => ethernet_type(frame, 12),
        9 | 50 => ppp(frame),
        12 | 14 | 101 | 228 | 229 => rest(frame, 0),
        113 => ethernet_type(frame, 14),
        276 => sll2(frame),
        _ => Err(Refused::Foreign("link_type")),
    }
}

/// BSD loopback: four octets of address family, in the byte order of the capturing host.
fn null(frame: &[u8]) -> Result<&[u8], Refused> {
    rest(frame, 4)
}

/// An EtherType at `at`, after any VLAN tags.
fn ethernet_type(frame: &[u8], mut at: usize) -> Result<&[u8], Refused> {
    for _ in 0..=MAX_TAGS {
        match word(frame, at).ok_or(Refused::Damaged(Flaw::ShortFrame))? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return rest(frame, at + 2),
            tag if VLAN.contains(&tag) => at += 4,
            _ => return Err(Refused::Foreign("not_ip")),
        }
    }
    Err(Refused::Foreign("not_ip"))
}

/// PPP, with or without HDLC address and control, protocol of one or two octets.
fn ppp(frame: &[u8]) -> Result<&[u8], Refused> {
    let at = if frame.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    let protocol = word(frame, at).ok_or(Refused::Damaged(Flaw::ShortFrame))?;
    match (protocol, protocol >> 8) {
        (PPP_IPV4 | PPP_IPV6, _) => rest(frame, at + 2),
        (_, PPP_IPV4 | PPP_IPV6) => rest(frame, at + 1),
        _ => Err(Refused::Foreign("not_ip")),
    }
}

/// Linux cooked capture v2: the protocol comes first, the payload after 20 octets.
fn sll2(frame: &[u8]) -> Result<&[u8], Refused> {
    match word(frame, 0).ok_or(Refused::Damaged(Flaw::ShortFrame))? {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => rest(frame, 20),
        // The tag control follows the header.
        tag if VLAN.contains(&tag) => ethernet_type(frame, 22),
        _ => Err(Refused::Foreign("not_ip")),
    }
}

fn rest(frame: &[u8], at: usize) -> Result<&[u8], Refused> {
    frame.get(at..).filter(|packet| !packet.is_empty()).ok_or(Refused::Damaged(Flaw::ShortFrame))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let sll2 = frame(&[&[8, 0][..], &[0; 18]].concat());
        let cases: [(u32, &[u8]); 12] = [
            (1, &ethernet),
            (1, &vlan),
            (1, &qinq),
            (113, &sll),
            (276, &sll2),
            (0, &frame(&[2, 0, 0, 0])),
            (108, &frame(&[0, 0, 0, 2])),
            (101, &frame(&[])),
            (228, &frame(&[])),
            (9, &frame(&[0xff, 3, 0, 0x21])),
            (9, &frame(&[0, 0x57])),
            (50, &frame(&[0x21])),
        ];
        for (link, frame) in cases {
            assert_eq!(network(link, frame), Ok(&[0x45][..]), "link type {link}");
        }
    }

    #[test]
    fn other_frames_are_foreign_and_short_ones_damaged() {
        assert_eq!(network(1, &frame(&[&[0; 12][..], &[8, 6]].concat())), Err(Refused::Foreign("not_ip")));
        assert_eq!(network(147, &[0; 60]), Err(Refused::Foreign("link_type")));
        for link in [0, 1, 9, 101, 113, 276] {
            assert_eq!(network(link, &[]), Err(Refused::Damaged(Flaw::ShortFrame)), "link type {link}");
        }
    }
}
