//! Tests of the whole wire with a simulated clock.

use ldplayer_link::Rtt;

use super::test_packet::{self, TestPacket};
use super::*;
use proptest::prelude::*;

const CLIENTS: HostId = HostId(0);
const RESOLVER: HostId = HostId(1);
const INTERNET: HostId = HostId(2);
const MS: i64 = 1_000_000;

fn settings(link: LinkSpec) -> Settings {
    let host = |name: &str, owns: &[&str], learns| Host {
        name: name.to_owned(),
        owns: owns.iter().map(|block| block.parse().unwrap()).collect(),
        learns,
    };
    Settings {
        hosts: vec![
            host("clients", &["10.53.0.1"], true),
            host("resolver", &["10.53.0.2", "10.53.0.9", "fd53::2"], false),
            host("internet", &["10.53.0.3", "198.41.0.4", "2001:db8::/32"], false),
        ],
        paths: vec![
            WirePath { far: CLIENTS, near: RESOLVER, link: link.clone() },
            WirePath { far: CLIENTS, near: INTERNET, link },
        ],
        seed: 1,
        ..Settings::default()
    }
}

fn rtt(text: &str) -> LinkSpec {
    LinkSpec { rtt: text.parse().unwrap(), ..LinkSpec::default() }
}

fn send(wire: &mut Wire, now: i64, from: HostId, packet: &[u8]) -> Fate {
    wire.handle_packet(now, from, &mut packet.to_vec())
}

/// What comes out until `now`: when, where, and the payload of UDP over IPv4.
fn received(wire: &mut Wire, now: i64) -> Vec<(i64, HostId, Vec<u8>)> {
    std::iter::from_fn(|| wire.poll_transmit(now).map(|due| (due.due, due.tag, due.packet[28..].to_vec()))).collect()
}

/// Every packet is somewhere.
fn balance(wire: &Wire) {
    let counts = wire.counts();
    assert_eq!(counts.sent(), counts.delivered() + counts.dropped.total() + counts.waiting, "{counts:?}");
}

#[test]
fn question_and_answer_take_the_round_trip_time_exactly() {
    let mut wire = Wire::new(&settings(rtt("20ms")));
    let query = TestPacket::udp("192.0.2.7:4000", "10.53.0.2:53", b"question").packet();
    assert_eq!(send(&mut wire, 1_000, CLIENTS, &query), Fate::Wait);
    assert_eq!(wire.poll_timeout(), Some(1_000 + 10 * MS));
    assert_eq!(received(&mut wire, 999 + 10 * MS), []);
    assert_eq!(received(&mut wire, 1_000 + 10 * MS), [(1_000 + 10 * MS, RESOLVER, b"question".to_vec())]);
    let answer = TestPacket::udp("10.53.0.2:53", "192.0.2.7:4000", b"answer").packet();
    assert_eq!(send(&mut wire, 1_000 + 10 * MS, RESOLVER, &answer), Fate::Wait);
    assert_eq!(received(&mut wire, i64::MAX), [(1_000 + 20 * MS, CLIENTS, b"answer".to_vec())]);
    // Between resolver and Internet there is no link: no delay.
    let upstream = TestPacket::udp("10.53.0.2:4001", "198.41.0.4:53", b"x").packet();
    assert_eq!(send(&mut wire, 0, RESOLVER, &upstream), Fate::Deliver(INTERNET));
    balance(&wire);
}

#[test]
fn each_client_has_its_own_round_trip_time() {
    let table = "192.0.2.0/24,10\n192.0.2.7,30\n";
    let prefixes = Rtt::parse("t.csv", |_| Ok(table.to_owned())).unwrap();
    let mut wire = Wire::new(&settings(LinkSpec { rtt: prefixes, ..LinkSpec::default() }));
    for (client, ms) in [("192.0.2.7", 15), ("192.0.2.8", 5)] {
        send(&mut wire, 0, CLIENTS, &TestPacket::udp(&format!("{client}:1"), "10.53.0.2:53", b"x").packet());
        assert_eq!(received(&mut wire, i64::MAX), [(ms * MS, RESOLVER, b"x".to_vec())], "{client}");
        send(&mut wire, 0, RESOLVER, &TestPacket::udp("10.53.0.2:53", &format!("{client}:1"), b"x").packet());
        assert_eq!(received(&mut wire, i64::MAX), [(ms * MS, CLIENTS, b"x".to_vec())], "{client}");
    }
    assert_eq!(
        send(&mut wire, 0, CLIENTS, &TestPacket::udp("203.0.113.1:1", "10.53.0.2:53", b"x").packet()),
        Fate::Deliver(RESOLVER)
    );
}

#[test]
fn packets_nobody_owns_are_leaks_and_go_nowhere() {
    let mut wire = Wire::new(&settings(rtt("0")));
    for _ in 0..3 {
        let stray = TestPacket::udp("10.53.0.2:4000", "8.8.8.8:53", b"x").packet();
        assert_eq!(send(&mut wire, 0, RESOLVER, &stray), Fate::Drop(Reason::Leaked));
    }
    let stray = TestPacket::tcp("[fd53::2]:4000", "[2620:fe::fe]:443", 1, 2, b"").packet();
    assert_eq!(send(&mut wire, 0, RESOLVER, &stray), Fate::Drop(Reason::Leaked));
    let report = TestPacket::udp("10.53.0.2:5353", "224.0.0.251:5353", b"x").packet();
    assert_eq!(send(&mut wire, 0, RESOLVER, &report), Fate::Drop(Reason::LinkLocal));
    let counts = wire.counts();
    let leaks: Vec<_> =
        counts.leaks.iter().map(|leak| (leak.destination.to_string(), leak.protocol, leak.port, leak.count)).collect();
    assert_eq!(leaks, [("8.8.8.8".to_owned(), 17, Some(53), 3), ("2620:fe::fe".to_owned(), 6, Some(443), 1)]);
    assert_eq!((counts.dropped.leaked, counts.dropped.link_local, counts.delivered()), (4, 1, 0));
    assert_eq!(counts.leaks[0].host, "resolver");
    balance(&wire);
}

#[test]
fn packets_of_a_flow_stay_in_order_unless_asked_otherwise() {
    for (jitter, in_order) in [("8ms", true), ("8ms,reorder", false)] {
        let link = LinkSpec { jitter: Some(jitter.parse().unwrap()), ..rtt("20ms") };
        let mut wire = Wire::new(&settings(link));
        for number in 0..100_u8 {
            send(
                &mut wire,
                i64::from(number) * MS,
                CLIENTS,
                &TestPacket::udp("192.0.2.7:1", "10.53.0.2:53", &[number]).packet(),
            );
        }
        let order: Vec<u8> = received(&mut wire, i64::MAX).into_iter().map(|(_, _, payload)| payload[0]).collect();
        assert_eq!(order.len(), 100);
        assert_eq!(order.is_sorted(), in_order, "{jitter}");
    }
}

#[test]
fn the_same_seed_gives_the_same_fates() {
    let link =
        LinkSpec { jitter: Some("3ms".parse().unwrap()), loss: Some("20%".parse().unwrap()), ..rtt("normal:20ms,5ms") };
    let fates = |seed| {
        let mut wire = Wire::new(&Settings { seed, ..settings(link.clone()) });
        for number in 0..200 {
            let client = format!("192.0.2.{}:{number}", number % 7);
            send(&mut wire, number, CLIENTS, &TestPacket::udp(&client, "10.53.0.2:53", b"x").packet());
        }
        balance(&wire);
        received(&mut wire, i64::MAX)
    };
    assert_eq!(fates(1), fates(1));
    assert_ne!(fates(1), fates(2));
}

#[test]
fn lost_and_superfluous_packets_are_counted() {
    let loss = LinkSpec { loss: Some("50%".parse().unwrap()), ..rtt("20ms") };
    let mut wire = Wire::new(&Settings { waiting: 10, ..settings(loss) });
    for number in 0..100 {
        send(&mut wire, 0, CLIENTS, &TestPacket::udp(&format!("192.0.2.7:{number}"), "10.53.0.2:53", b"x").packet());
    }
    let counts = wire.counts();
    assert_eq!((counts.waiting, counts.dropped.lost + counts.dropped.wire_full), (10, 90));
    assert!((30..70).contains(&counts.dropped.lost), "{counts:?}");
    let rate = LinkSpec { rate: Some("1Mbit,1ms".parse().unwrap()), ..rtt("20ms") };
    let mut wire = Wire::new(&settings(rate));
    let full = (0..10).filter(|_| {
        send(&mut wire, 0, CLIENTS, &TestPacket::udp("192.0.2.7:1", "10.53.0.2:53", &[0; 97]).packet())
            == Fate::Drop(Reason::QueueFull)
    });
    // 125 octets take 1 ms: one is being sent and one waits.
    assert_eq!(full.count(), 8);
    balance(&wire);
}

#[test]
fn retransmissions_and_fragments_are_counted() {
    let mut wire = Wire::new(&settings(rtt("1ms")));
    let segment =
        |sequence, octets: &[u8]| TestPacket::tcp("192.0.2.7:1", "10.53.0.2:53", sequence, 0x10, octets).packet();
    for packet in [segment(1, b"abc"), segment(4, b"de"), segment(4, b"de"), segment(6, b"")] {
        send(&mut wire, 0, CLIENTS, &packet);
    }
    for fragment in test_packet::fragments(&TestPacket::udp("192.0.2.7:1", "10.53.0.2:53", &[0; 100]).packet(), 1, 40) {
        assert_eq!(send(&mut wire, 0, CLIENTS, &fragment), Fate::Wait);
    }
    let counts = wire.counts();
    assert_eq!((counts.tcp_segments, counts.tcp_retransmissions, counts.fragments), (4, 1, 3));
}

#[test]
fn a_refused_packet_was_not_delivered() {
    let mut wire = Wire::new(&settings(rtt("0")));
    let packet = TestPacket::udp("192.0.2.7:1", "10.53.0.2:53", b"x").packet();
    assert_eq!(send(&mut wire, 0, CLIENTS, &packet), Fate::Deliver(RESOLVER));
    wire.handle_refusal(RESOLVER, packet.len());
    assert_eq!((wire.counts().delivered(), wire.counts().dropped.refused), (0, 1));
    balance(&wire);
}

#[test]
fn two_resolvers_ask_a_root_server_through_the_proxies_at_its_distance() {
    let proxies =
        ProxySettings { resolver: RESOLVER, server: INTERNET, peers: vec!["10.53.0.3".parse().unwrap()], port: 53 };
    let table = Rtt::parse("t.csv", |_| Ok("198.41.0.4,30".to_owned())).unwrap();
    let path = WirePath { far: INTERNET, near: RESOLVER, link: LinkSpec { rtt: table, ..LinkSpec::default() } };
    let mut wire = Wire::new(&Settings { proxies: Some(proxies), paths: vec![path], ..settings(rtt("0")) });
    for resolver in ["10.53.0.2:4000", "10.53.0.9:4000"] {
        assert_eq!(
            send(&mut wire, 0, RESOLVER, &TestPacket::udp(resolver, "198.41.0.4:53", resolver.as_bytes()).packet()),
            Fate::Wait
        );
        let seen = wire.poll_transmit(15 * MS).unwrap();
        assert_eq!((seen.due, seen.tag), (15 * MS, INTERNET));
        let headers = Headers::parse(seen.packet).unwrap();
        assert_eq!(
            (headers.source.to_string(), headers.destination.to_string()),
            ("198.41.0.4".to_owned(), "10.53.0.3".to_owned())
        );
        let client = format!("198.41.0.4:{}", headers.ports.unwrap().0);
        assert_eq!(
            send(&mut wire, 0, INTERNET, &TestPacket::udp("10.53.0.3:53", &client, resolver.as_bytes()).packet()),
            Fate::Wait
        );
        let answer = wire.poll_transmit(15 * MS).unwrap();
        assert_eq!((answer.due, answer.tag), (15 * MS, RESOLVER));
        assert_eq!(answer.packet, TestPacket::udp("198.41.0.4:53", resolver, resolver.as_bytes()).packet());
    }
    // A client that sends from port 53 gets its answer unchanged.
    send(&mut wire, 0, CLIENTS, &TestPacket::udp("192.0.2.7:53", "10.53.0.2:53", b"x").packet());
    let answer = TestPacket::udp("10.53.0.2:53", "192.0.2.7:53", b"x").packet();
    assert_eq!(send(&mut wire, 0, RESOLVER, &answer), Fate::Deliver(CLIENTS));
    assert_eq!(wire.counts().rewritten, 4);
    balance(&wire);
}

#[test]
fn the_proxies_hide_no_leak() {
    let proxies =
        ProxySettings { resolver: RESOLVER, server: INTERNET, peers: vec!["10.53.0.3".parse().unwrap()], port: 53 };
    let mut wire = Wire::new(&Settings { proxies: Some(proxies), ..settings(rtt("0")) });
    send(&mut wire, 0, CLIENTS, &TestPacket::udp("9.9.9.9:53", "10.53.0.2:53", b"x").packet());
    for outside in ["8.8.8.8:53", "9.9.9.9:53"] {
        let query = TestPacket::udp("10.53.0.2:4000", outside, &[0; 12]).packet();
        assert_eq!(send(&mut wire, 0, RESOLVER, &query), Fate::Drop(Reason::Leaked), "{outside}");
    }
    let query = TestPacket::udp("10.53.0.2:4000", "198.41.0.4:53", &[0; 12]).packet();
    assert_eq!(send(&mut wire, 0, RESOLVER, &query), Fate::Deliver(INTERNET));
    assert_eq!((wire.counts().dropped.leaked, wire.counts().rewritten), (2, 1));
}

proptest! {
    #[test]
    fn any_octets_are_carried_or_dropped(
        packets in proptest::collection::vec((0..3_u8, proptest::collection::vec(any::<u8>(), 0..90), 0..3_usize), 0..30),
    ) {
        let proxies = ProxySettings { resolver: RESOLVER, server: INTERNET, peers: vec!["10.53.0.3".parse().unwrap()], port: 53 };
        let link = LinkSpec { jitter: Some("1ms".parse().unwrap()), loss: Some("ge:10%,10%".parse().unwrap()), ..rtt("uniform:0ms,3ms") };
        let mut wire = Wire::new(&Settings { proxies: Some(proxies), ..settings(link) });
        for (from, mut packet, shape) in packets {
            if let Some(first) = packet.first_mut() {
                *first = [*first, 0x45, 0x60][shape];
            }
            let length = packet.len() as u16;
            if shape == 1 && packet.len() >= 20 {
                packet[2..4].copy_from_slice(&length.to_be_bytes());
                packet[9] = [1, 6, 17][usize::from(packet[9]) % 3];
                packet[16..20].copy_from_slice(&[198, 41, 0, 4]);
            }
            wire.handle_packet(0, HostId(from), &mut packet);
            balance(&wire);
        }
        while wire.poll_transmit(i64::MAX).is_some() {}
        balance(&wire);
    }
}
