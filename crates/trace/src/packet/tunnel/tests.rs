//! Tests of tunnels: every header with its fields, what is no tunnel, and octets at random.

use super::*;
use proptest::prelude::*;

/// An IPv4 header with the right checksum.
const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 1, 0, 0, 64, 17, 0xf6, 0xd4, 192, 0, 2, 1, 192, 0, 2, 2];

fn between(protocol: u8) -> ip::Packet<'static> {
    let (source, destination) = ("203.0.113.1".parse().unwrap(), "203.0.113.2".parse().unwrap());
    ip::Packet { source, destination, protocol, payload: &[], missing: 0, fragment: None }
}

fn names(outer: &Outer) -> Vec<&'static str> {
    outer.taken().map(|name| Encapsulation::NAMES[name as usize]).collect()
}

/// The packet inside of what a protocol of IP carries.
fn carried(number: u8, payload: &[u8]) -> (Result<Vec<u8>, Refused>, Vec<&'static str>) {
    let mut outer = Outer::default();
    let inner = protocol(&mut outer, &between(number), payload);
    let packet = inner.and_then(|inner| outer.network(inner).map(<[u8]>::to_vec));
    (packet, names(&outer))
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

/// The packet inside of a datagram, if it is a tunnel's that carries one.
fn opened(to: u16, payload: &[u8], wanted: bool) -> Option<(Vec<u8>, Vec<&'static str>)> {
    let (mut outer, octets) = (Outer::default(), udp(49_152, to, payload));
    let inner = datagram(&mut outer, &between(17), &octets, wanted).ok()??;
    let packet = outer.network(inner).unwrap_or_default().to_vec();
    Some((packet, names(&outer)))
}

fn frame() -> Vec<u8> {
    [&[2; 12][..], &[8, 0], &IP].concat()
}

fn join(header: &[u8], rest: &[u8]) -> Vec<u8> {
    [header, rest].concat()
}

#[test]
fn gre_is_read_with_every_field_that_it_may_have() {
    let frame = frame();
    let cases: [(Vec<u8>, &[&str]); 12] = [
        (join(&[0, 0, 8, 0], &IP), &["gre"]),
        (join(&[0x80, 0, 8, 0, 1, 2, 0, 0], &IP), &["gre"]),
        (join(&[0x20, 0, 8, 0, 0, 0, 0, 9], &IP), &["gre"]),
        (join(&[0x10, 0, 8, 0, 0, 0, 0, 1], &IP), &["gre"]),
        (join(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1], &IP), &["gre"]),
        (join(&[0x20, 0, 0x65, 0x58, 0, 0, 0, 9], &frame), &["gre"]),
        (join(&[0, 0, 0x88, 0x47, 0, 1, 1, 64], &IP), &["gre", "mpls"]),
        // PPTP: version 1, with a sequence number and an acknowledgement.
        (join(&[0x30, 0x81, 0x88, 0x0b, 0, 22, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0x21], &IP), &["gre"]),
        (join(&[0, 0, 0x88, 0xbe], &frame), &["gre", "erspan1"]),
        (join(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 9, 0x10, 1, 0, 5, 0, 0, 0, 0], &frame), &["gre", "erspan2"]),
        (join(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 9, 0x20, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], &frame), &["gre", "erspan3"]),
        // With the platform's eight octets.
        (
            join(
                &[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 9, 0x20, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1][..], &[7; 8]].concat(),
                &frame,
            ),
            &["gre", "erspan3"],
        ),
    ];
    for (octets, names) in cases {
        assert_eq!(carried(47, &octets), (Ok(IP.to_vec()), names.to_vec()), "{octets:x?}");
    }
}

#[test]
fn gre_without_a_packet_is_told_by_its_name() {
    let why = |octets: &[u8]| carried(47, octets).0.unwrap_err();
    assert_eq!(why(&[0, 0, 0, 0]), Refused::Foreign("gre_keepalive"));
    assert_eq!(why(&[0x20, 0x81, 0x88, 0x0b, 0, 0, 0, 9, 0, 0, 0, 1]), Refused::Foreign("gre_keepalive"));
    assert_eq!(why(&join(&[0x40, 0, 8, 0, 0, 0, 0, 0], &IP)), Refused::Foreign("gre_source_route"));
    assert_eq!(why(&join(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 9, 0x30, 1, 0, 5], &IP)), Refused::Foreign("erspan_version"));
    assert_eq!(why(&join(&[0, 0, 0x12, 0x34], &IP)), Refused::Unknown(Unknown::EtherType(0x1234)));
    for cut in 0..8 {
        assert_eq!(why(&[0x20, 0, 8, 0, 0, 0, 0, 9][..cut]), SHORT);
    }
}

#[test]
fn ip_in_ip_is_named_by_both_versions() {
    assert_eq!(carried(4, &IP), (Ok(IP.to_vec()), vec!["ip_in_ip"]));
    assert_eq!(carried(41, &IP).1, ["6in4"]);
    assert_eq!(carried(97, &join(&[0x30, 0], &frame())), (Ok(IP.to_vec()), vec!["etherip"]));
    assert_eq!(carried(137, &join(&[0, 1, 1, 64], &IP)), (Ok(IP.to_vec()), vec!["mpls"]));
    assert_eq!(carried(50, &IP).0, Err(Refused::Foreign("esp")));
    assert_eq!(carried(1, &IP).0, Err(Refused::Foreign("icmp")));
    assert_eq!(carried(200, &IP).0, Err(Refused::Unknown(Unknown::Protocol(200))));
}

/// A datagram of every tunnel over UDP.
fn tunnels() -> Vec<(u16, Vec<u8>, &'static str)> {
    let (frame, length) = (frame(), IP.len() as u8);
    vec![
        (4_789, join(&[8, 0, 0, 0, 0, 0, 42, 0], &frame), "vxlan"),
        (8_472, join(&[0x88, 0x48, 0, 7, 0, 0, 42, 0], &frame), "vxlan"),
        (4_790, join(&[0x0c, 0, 0, 1, 0, 0, 42, 0], &IP), "vxlan_gpe"),
        (4_790, join(&[0x0c, 0, 0, 3, 0, 0, 42, 0], &frame), "vxlan_gpe"),
        (6_081, join(&[0, 0, 0x65, 0x58, 0, 0, 43, 0], &frame), "geneve"),
        (6_081, join(&[3, 0x40, 8, 0, 0, 0, 43, 0, 1, 2, 0, 1, 9, 9, 9, 9, 1, 3, 0, 0], &IP), "geneve"),
        (2_152, join(&[0x30, 0xff, 0, length, 0, 0, 0, 77], &IP), "gtpu"),
        (2_152, join(&[0x32, 0xff, 0, length + 4, 0, 0, 0, 77, 0, 9, 0, 0], &IP), "gtpu"),
        (2_152, join(&[0x34, 0xff, 0, length + 8, 0, 0, 0, 77, 0, 0, 0, 0x85, 1, 0, 9, 0], &IP), "gtpu"),
        (2_152, join(&[0x30, 0xff, 0, 34, 0, 0, 0, 77], &frame), "gtpu"),
        (37_008, join(&[1, 0, 0, 1, 1], &frame), "tzsp"),
        (37_008, join(&[1, 0, 0, 1, 10, 1, 0x55, 0, 1], &frame), "tzsp"),
        (1_701, join(&[0x00, 0x02, 0, 1, 0, 2, 0xff, 3, 0, 0x21], &IP), "l2tp"),
        (1_701, join(&[0x4a, 0x02, 0, 38, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 7, 7, 0, 0x21], &IP), "l2tp"),
        (6_635, join(&[0, 1, 1, 64], &IP), "mpls"),
    ]
}

#[test]
fn tunnels_over_udp_are_opened_and_named() {
    for (port, octets, name) in tunnels() {
        // Whether DNS was said to be on this port makes no difference: an IP packet is inside.
        for wanted in [false, true] {
            assert_eq!(opened(port, &octets, wanted), Some((IP.to_vec(), vec![name])), "{port}: {octets:x?}");
        }
        assert_eq!(opened(5_300, &octets, false), None, "another port");
    }
}

#[test]
fn a_dns_message_to_the_port_of_a_tunnel_is_no_tunnel() {
    // The ID and flags are those of VXLAN, and the counts are a network of it.
    let mut query = vec![8, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(b"\x07example\x03com\0\0\x01\0\x01");
    for id in [[8, 0], [0x30, 0xff], [1, 0], [0, 0], [0, 2]] {
        query[..2].copy_from_slice(&id);
        for flags in [[0, 0], [1, 0], [0, 1], [0x65, 0x58]] {
            query[2..4].copy_from_slice(&flags);
            for tunnel in &TUNNELS {
                assert_eq!(opened(tunnel.port, &query, false), None, "{} {query:x?}", tunnel.port);
            }
        }
    }
}

#[test]
fn a_tunnels_own_messages_are_told_by_their_name() {
    let cases: [(u16, &[u8], &str); 4] = [
        (2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0], "gtpu_control"),
        (1_701, &[0xc8, 2, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0], "l2tp_control"),
        (37_008, &[1, 4, 0, 0, 1], "tzsp_keepalive"),
        (37_008, &[1, 0, 0, 18, 1, 8, 0], "tzsp_wireless"),
    ];
    for (port, octets, name) in cases {
        let octets = udp(49_152, port, octets);
        let read = |wanted| datagram(&mut Outer::default(), &between(17), &octets, wanted);
        assert_eq!(read(false), Err(Refused::Foreign(name)));
        assert_eq!(read(true), Ok(None));
    }
}

#[test]
fn a_tunnel_whose_header_or_content_is_wrong_is_none() {
    for (port, octets, name) in tunnels() {
        // The address of the inner packet changed, so that its checksum is wrong.
        let mut wrong = octets.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(opened(port, &wrong, false).map(|_| name), None, "{port}");
        for cut in 0..octets.len() - 1 {
            assert_eq!(opened(port, &octets[..cut], false), None, "{name} cut to {cut}");
        }
    }
}

#[test]
fn a_tunnel_with_something_else_than_ip_gives_way_to_dns() {
    let arp = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &[2; 12], &[8, 6], &[0; 28]].concat();
    assert_eq!(opened(4_789, &arp, false), Some((vec![], vec!["vxlan"])));
    assert_eq!(opened(4_789, &arp, true), None);
}

proptest! {
    #[test]
    fn no_octets_make_it_panic(
        number in prop::sample::select(vec![4_u8, 41, 47, 97, 137, 200]),
        port in prop::sample::select(TUNNELS.iter().map(|tunnel| tunnel.port).collect::<Vec<_>>()),
        octets in prop::collection::vec(any::<u8>(), 0..100),
        flip in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let _ = carried(number, &octets);
        let _ = opened(port, &octets, false);
        for (port, mut octets, _) in tunnels() {
            let at = flip.index(octets.len());
            octets[at] = to;
            let _ = opened(port, &octets, false);
        }
    }
}
