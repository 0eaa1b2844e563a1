//! Tests of tags, labels and sessions: what is taken off, what is named, and octets at random.

use super::*;
use proptest::prelude::*;

/// An IPv4 header with the right checksum.
const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 1, 0, 0, 64, 17, 0xf6, 0xd4, 192, 0, 2, 1, 192, 0, 2, 2];

fn off(inner: Inner<'_>) -> (Result<&[u8], Refused>, Vec<&'static str>) {
    let mut outer = Outer::default();
    let packet = outer.network(inner);
    (packet, outer.taken().map(|name| Encapsulation::NAMES[name as usize]).collect())
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), payload].concat()
}

fn behind(header: &[u8]) -> Vec<u8> {
    [header, &IP].concat()
}

#[test]
fn each_header_is_taken_off_and_named() {
    let pseudowire = [&[0, 1, 0x21, 64, 0, 0, 0, 0][..], &ethernet(0x0800, &IP)].concat();
    let without_control_word = [&[0, 1, 0x21, 64][..], &ethernet(0x0800, &IP)].concat();
    let snap = behind(&[0, 28, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    let cases: [(Vec<u8>, &[&str]); 13] = [
        (ethernet(0x0800, &IP), &[]),
        (ethernet(0x8100, &behind(&[0, 7, 8, 0])), &["vlan"]),
        (ethernet(0x88a8, &behind(&[0, 7, 0x81, 0, 0, 8, 8, 0])), &["vlan"]),
        (ethernet(0x8847, &behind(&[0, 1, 1, 64])), &["mpls"]),
        (ethernet(0x8847, &behind(&[0, 1, 0, 64, 0, 2, 0, 64, 0, 3, 1, 64])), &["mpls"]),
        (ethernet(0x8847, &pseudowire), &["mpls", "pseudowire"]),
        (ethernet(0x8847, &without_control_word), &["mpls", "pseudowire"]),
        (ethernet(0x8864, &behind(&[0x11, 0, 0, 9, 0, 22, 0, 0x21])), &["pppoe"]),
        (ethernet(0x8864, &behind(&[0x11, 0, 0, 9, 0, 26, 2, 0x81, 0, 1, 1, 64])), &["pppoe", "mpls"]),
        ([&[2; 12][..], &snap].concat(), &["llc_snap"]),
        (ethernet(23, &behind(&[6, 6, 3])), &["llc"]),
        (ethernet(0x8100, &[&[0, 7][..], &snap].concat()), &["vlan", "llc_snap"]),
        (ethernet(0x88e7, &[&[0, 0, 0, 1][..], &ethernet(0x0800, &IP)].concat()), &["pbb"]),
    ];
    for (frame, names) in cases {
        assert_eq!(off(Inner::Ethernet(&frame)), (Ok(&IP[..]), names.to_vec()), "{frame:x?}");
    }
}

#[test]
fn padding_behind_a_length_is_no_payload() {
    let llc = [&ethernet(23, &behind(&[6, 6, 3]))[..], &[0; 23]].concat();
    let pppoe = [&ethernet(0x8864, &behind(&[0x11, 0, 0, 9, 0, 22, 0, 0x21]))[..], &[0; 18]].concat();
    for frame in [llc, pppoe] {
        assert_eq!(off(Inner::Ethernet(&frame)).0, Ok(&IP[..]));
    }
}

#[test]
fn what_has_no_ip_packet_is_told_by_its_name() {
    let why = |kind, payload: &[u8]| off(Inner::Ethernet(&ethernet(kind, payload))).0.unwrap_err();
    assert_eq!(why(0x0806, &[0; 28]), Refused::Foreign("arp"));
    assert_eq!(why(0x88cc, &[0; 28]), Refused::Foreign("lldp"));
    assert_eq!(why(0x88e5, &[0; 28]), Refused::Foreign("macsec"));
    assert_eq!(why(0x8863, &[0x11, 9, 0, 0, 0, 0]), Refused::Foreign("pppoe_discovery"));
    assert_eq!(why(0x8864, &[0x11, 0, 0, 9, 0, 4, 0xc0, 0x21, 1, 1]), Refused::Foreign("ppp_control"));
    assert_eq!(why(0x8847, &[0, 1, 1, 64, 0x10, 0, 0, 7]), Refused::Foreign("mpls_oam"));
    assert_eq!(why(38, &[0x42, 0x42, 3, 0]), Refused::Foreign("stp"));
    let unknown = why(0x1234, &[0; 28]);
    assert_eq!(unknown, Refused::Unknown(Unknown::EtherType(0x1234)));
    assert_eq!(Unknown::EtherType(0x1234).to_string(), "ethertype_0x1234");
}

#[test]
fn stacks_without_an_end_are_not_read() {
    let labels = [0, 1, 0, 64].repeat(MAX_LABELS + 1);
    let tags = [0, 7, 0x81, 0].repeat(MAX_TAGS + 1);
    for (kind, stack) in [(0x8847, labels), (0x8100, tags)] {
        let frame = ethernet(kind, &behind(&stack));
        assert_eq!(off(Inner::Ethernet(&frame)).0, Err(Refused::Foreign("nested_too_deep")));
    }
    // A stack that ends with the frame is a frame that is too short.
    assert_eq!(off(Inner::Ethernet(&ethernet(0x8847, &[0, 1, 0, 64]))).0, Err(SHORT));
}

#[test]
fn tags_and_labels_tell_who_is_meant() {
    let identity = |frame: Vec<u8>| {
        let mut outer = Outer::default();
        outer.network(Inner::Ethernet(&frame)).unwrap();
        outer.identity()
    };
    let vlan = |tag: [u8; 2]| identity(ethernet(0x8100, &behind(&[tag[0], tag[1], 8, 0])));
    assert_eq!(identity(ethernet(0x0800, &IP)), 0);
    assert_ne!(vlan([0, 7]), vlan([0, 8]));
    assert_eq!(vlan([0, 7]), vlan([0xe0, 7]), "the same VLAN with another priority");
    let labels = |stack: &[u8]| identity(ethernet(0x8847, &behind(stack)));
    assert_ne!(labels(&[0, 1, 1, 64]), labels(&[0, 2, 1, 64]));
    // Label 7 says that an entropy label follows.
    let entropy = |label| labels(&[0, 1, 0, 64, 0, 0, 0x70, 64, 0, label, 1, 64]);
    assert_eq!(entropy(3), entropy(4));
}

proptest! {
    #[test]
    fn no_octets_make_it_panic(
        kind in prop::sample::select(vec![0x0800_u16, 0x8100, 0x8847, 0x8864, 0x88e7, 0x6558, 8, 60]),
        start in prop::sample::select(vec![vec![], vec![0xaa, 0xaa, 3, 0, 0, 0], vec![0, 1, 1, 64], vec![0x11, 0]]),
        octets in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let frame = ethernet(kind, &[start, octets].concat());
        for inner in [Inner::Ethernet(&frame), Inner::Llc(&frame), Inner::Ppp(&frame), Inner::Mpls(&frame)] {
            let _ = off(inner);
        }
    }
}
