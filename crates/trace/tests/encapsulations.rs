//! DNS inside of other headers: what is taken off, what is named, and what is put together.

use std::io::Write;
use std::path::Path;

use ldplayer_core::Message;
use ldplayer_trace::{Input, OpenOptions, Tally, open};
use proptest::prelude::*;

/// Time in microseconds, and octets.
type Record = (u32, Vec<u8>);

fn pcap(link: u32, records: &[Record]) -> Vec<u8> {
    let mut octets: Vec<u8> = Vec::new();
    [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, link].iter().for_each(|word| octets.extend(word.to_be_bytes()));
    for (micros, frame) in records {
        let length = frame.len() as u32;
        [1_700_000_000, *micros, length, length].iter().for_each(|word| octets.extend(word.to_be_bytes()));
        octets.extend(frame);
    }
    octets
}

fn read_file(path: &Path, ports: &[u16]) -> (Vec<String>, Tally) {
    let options = OpenOptions { ports: ports.to_vec(), ..OpenOptions::default() };
    let mut source = open(&[Input::File(path.to_owned())], &options).expect("a capture");
    let mut rows = Vec::new();
    while source.read(&mut rows).expect("readable") {}
    let name = |query: &[u8]| {
        let name = Message::new(query)?.question()?.name;
        Some(String::from_utf8_lossy(&name[1..1 + usize::from(name[0])]).into_owned())
    };
    let names = rows.iter().filter_map(|row| name(row.query.as_ref()?)).collect();
    (names, source.tally().clone())
}

fn read(records: &[Record]) -> (Vec<String>, Tally) {
    read_with(records, &[53])
}

fn read_with(records: &[Record], ports: &[u16]) -> (Vec<String>, Tally) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&pcap(1, records)).expect("space");
    read_file(file.path(), ports)
}

fn frames(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Record> {
    (0..).zip(frames).map(|(at, frame)| (at * 1_000, frame)).collect()
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn query(id: u16, name: &str) -> Vec<u8> {
    let head = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    join(&[&head, &[name.len() as u8], name.as_bytes(), &[0, 0, 1, 0, 1]])
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    join(&[&from.to_be_bytes(), &to.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload])
}

/// An IPv4 packet whose checksum is right, with this identification and field of fragments.
fn ip4_part(protocol: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut header = join(&[&[0x45, 0], &length.to_be_bytes(), &id.to_be_bytes(), &fragment.to_be_bytes()]);
    header.extend([64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 53]);
    let sum: u32 = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    join(&[&header, payload])
}

fn ip4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip4_part(protocol, 1, 0, payload)
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let address = |last| [&[0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[last]].concat();
    let length = (payload.len() as u16).to_be_bytes();
    join(&[&[0x60, 0, 0, 0], &length, &[next, 64], &address(1), &address(53), payload])
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[2; 12], &kind.to_be_bytes(), payload])
}

fn dns4(name: &str) -> Vec<u8> {
    ip4(17, &udp(40_000, 53, &query(7, name)))
}

fn dns6(name: &str) -> Vec<u8> {
    ip6(17, &udp(40_000, 53, &query(7, name)))
}

/// A frame in VXLAN.
fn vxlan(network: u8, frame: &[u8]) -> Vec<u8> {
    ip4(17, &udp(50_000, 4_789, &join(&[&[8, 0, 0, 0, 0, 0, network, 0], frame])))
}

fn counts(tally: &Tally) -> Vec<(&str, u64)> {
    tally.encapsulations.iter().map(|(name, count)| (name.as_ref(), *count)).collect()
}

fn skipped(tally: &Tally) -> Vec<(&str, u64)> {
    tally.skipped.iter().map(|(name, count)| (name.as_ref(), *count)).collect()
}

#[test]
fn labels_and_sessions_of_a_providers_network_are_taken_off() {
    let (names, tally) = read_file(Path::new("tests/data/mpls-pppoe.pcap"), &[53]);
    assert_eq!(names, ["mpls1", "mpls3-v6", "pseudowire", "vlan-mpls", "pppoe4", "pppoe6"]);
    assert_eq!(counts(&tally), [("mpls", 4), ("pppoe", 2), ("pseudowire", 1), ("vlan", 2)]);
    assert!(tally.skipped.is_empty() && tally.damaged.is_empty(), "{tally:?}");
}

#[test]
fn mirrored_packets_are_read() {
    let (names, tally) = read_file(Path::new("tests/data/mirrors.pcap"), &[53]);
    assert_eq!(names, ["vxlan", "geneve", "erspan2", "gtpu", "gtpu-ext"]);
    assert_eq!(counts(&tally), [("erspan2", 1), ("geneve", 1), ("gre", 1), ("gtpu", 2), ("vxlan", 1)]);
    assert!(tally.skipped.is_empty() && tally.damaged.is_empty(), "{tally:?}");
}

#[test]
fn the_innermost_packet_is_the_one_that_is_read() {
    let gre = join(&[&[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1], &dns4("gre")]);
    let snap = join(&[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &dns4("snap")]);
    let nested = ethernet(0x8100, &join(&[&[0, 9, 0x86, 0xdd], &ip6(4, &dns4("nested"))]));
    let (names, tally) = read(&frames([
        ethernet(0x0800, &ip4(47, &gre)),
        ethernet(0x0800, &ip4(4, &dns4("ipip"))),
        ethernet(0x0800, &ip4(41, &dns6("sixinfour"))),
        ethernet(0x86dd, &ip6(41, &dns6("sixinsix"))),
        ethernet(snap.len() as u16, &snap),
        ethernet(0x0800, &vxlan(1, &nested)),
    ]));
    assert_eq!(names, ["gre", "ipip", "sixinfour", "sixinsix", "snap", "nested"]);
    let wanted = [("4in6", 1), ("6in4", 1), ("gre", 1), ("ip_in_ip", 2), ("llc_snap", 1), ("vlan", 1), ("vxlan", 1)];
    assert_eq!(counts(&tally), wanted);
    assert!(tally.skipped.is_empty() && tally.damaged.is_empty(), "{tally:?}");
}

#[test]
fn a_response_in_a_tunnel_answers_the_query_in_another() {
    let mut response = query(7, "both");
    response[2] = 0x84;
    let back = join(&[&ip4(17, &udp(53, 40_000, &response))]);
    // The way back: addresses swapped in the inner packet.
    let mut swapped = back.clone();
    swapped[12..16].copy_from_slice(&back[16..20]);
    swapped[16..20].copy_from_slice(&back[12..16]);
    let records = frames([
        ethernet(0x0800, &vxlan(1, &ethernet(0x0800, &dns4("both")))),
        ethernet(0x0800, &vxlan(2, &ethernet(0x0800, &swapped))),
    ]);
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&pcap(1, &records)).expect("space");
    let mut source = open(&[Input::File(file.path().to_owned())], &OpenOptions::default()).expect("a capture");
    let mut rows = Vec::new();
    while source.read(&mut rows).expect("readable") {}
    assert_eq!((rows.len(), rows[0].response_delay), (1, Some(1_000_000)));
    assert_eq!(rows[0].client.to_string(), "192.0.2.1:40000");
}

/// Translators and broken stacks put such addresses on the wire.
#[test]
fn packets_between_ipv4_mapped_addresses_are_ipv4() {
    let mut packet = dns6("mapped");
    for (at, last) in [(8, 17), (24, 53)] {
        packet[at..at + 16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last]);
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&pcap(1, &frames([ethernet(0x86dd, &packet)]))).expect("space");
    let mut source = open(&[Input::File(file.path().to_owned())], &OpenOptions::default()).expect("a capture");
    let mut rows = Vec::new();
    while source.read(&mut rows).expect("readable") {}
    assert_eq!(
        (rows[0].client.to_string(), rows[0].server.to_string()),
        ("192.0.2.17:40000".into(), "192.0.2.53:53".into())
    );
}

/// A message to the port of a tunnel, whose first octets are those of the tunnel's header.
fn like_a_tunnel(first: [u8; 4], name: &str) -> Vec<u8> {
    let mut message = query(7, name);
    message[..4].copy_from_slice(&first);
    message
}

#[test]
fn a_dns_message_on_a_port_of_a_tunnel_is_no_tunnel() {
    let to = |port, first| ethernet(0x0800, &ip4(17, &udp(40_000, port, &like_a_tunnel(first, "server"))));
    let records = frames([
        to(4_789, [8, 0, 0, 0]),
        to(6_081, [0, 0, 1, 0]),
        to(2_152, [0x30, 0xff, 1, 0]),
        to(37_008, [1, 0, 0, 1]),
    ]);
    let (names, tally) = read(&records);
    assert!(names.is_empty());
    assert_eq!(skipped(&tally), [("not_dns_port", 4)]);
    // Nor is it where DNS is on that port, or where a client's port is one.
    let (names, tally) = read_with(&records, &[4_789, 6_081, 2_152, 37_008]);
    assert_eq!((names, tally.encapsulations.len()), (vec!["server".to_owned(); 4], 0));
    let from = ethernet(0x0800, &ip4(17, &udp(4_789, 53, &query(7, "client"))));
    assert_eq!(read(&frames([from])).0, ["client"]);
    // A tunnel is one even then.
    let tunnel = ethernet(0x0800, &vxlan(1, &ethernet(0x0800, &dns4("inside"))));
    assert_eq!(read_with(&frames([tunnel]), &[53, 4_789]).0, ["inside"]);
}

#[test]
fn what_cannot_be_read_is_skipped_by_its_own_name() {
    let (names, tally) = read(&frames([
        ethernet(0x0806, &[0; 28]),
        ethernet(0x1234, &[0; 28]),
        ethernet(0x0800, &ip4(50, &[0; 40])),
        ethernet(0x0800, &ip4(200, &[0; 40])),
        ethernet(0x0800, &ip4(47, &[0, 0, 0x12, 0x35, 0, 0])),
        ethernet(0x0800, &vxlan(1, &ethernet(0x0806, &[0; 28]))),
    ]));
    assert!(names.is_empty());
    let wanted = [("arp", 2), ("esp", 1), ("ethertype_0x1234", 1), ("ethertype_0x1235", 1), ("ip_protocol_200", 1)];
    assert_eq!(skipped(&tally), wanted);
}

#[test]
fn a_packet_nested_too_deep_is_not_read() {
    let nested = |depth, name: &str| ethernet(0x0800, &(0..depth).fold(dns4(name), |packet, _| ip4(4, &packet)));
    let (names, tally) =
        read(&frames([nested(8, "eight"), nested(16, "sixteen"), nested(17, "more"), nested(60, "far")]));
    assert_eq!(names, ["eight", "sixteen"]);
    assert_eq!((skipped(&tally), tally.damaged.len()), (vec![("nested_too_deep", 2)], 0));
}

/// The halves of a datagram of `name`, long enough for two fragments.
fn halves(name: &str) -> [Vec<u8>; 2] {
    let datagram = udp(40_000, 53, &query(7, name));
    let (first, second) = datagram.split_at(24);
    [ip4_part(17, 99, 0x2000, first), ip4_part(17, 99, 3, second)]
}

/// Fragments of two datagrams with the same addresses and identification, one by one, each in what `carry` makes around it.
fn interleaved(carry: impl Fn(u8, &[u8]) -> Vec<u8>) -> Vec<Record> {
    let [one, two] = [halves("first-datagram"), halves("other-datagram")];
    frames([carry(1, &one[0]), carry(2, &two[0]), carry(2, &two[1]), carry(1, &one[1])])
}

#[test]
fn fragments_in_two_vlans_or_tunnels_are_not_mixed() {
    type Carry = fn(u8, &[u8]) -> Vec<u8>;
    let carriers: [(&str, Carry); 6] = [
        ("vlan", |number, packet| ethernet(0x8100, &join(&[&[0, number, 8, 0], packet]))),
        ("mpls", |number, packet| ethernet(0x8847, &join(&[&[0, number, 1, 64], packet]))),
        ("pppoe", |number, packet| {
            let length = (packet.len() as u16 + 2).to_be_bytes();
            ethernet(0x8864, &join(&[&[0x11, 0, 0, number], &length, &[0, 0x21], packet]))
        }),
        ("vxlan", |number, packet| ethernet(0x0800, &vxlan(number, &ethernet(0x0800, packet)))),
        ("gre", |number, packet| ethernet(0x0800, &ip4(47, &join(&[&[0x20, 0, 8, 0, 0, 0, 0, number], packet])))),
        ("gtpu", |number, packet| {
            let length = (packet.len() as u16).to_be_bytes();
            let datagram = join(&[&[0x30, 0xff], &length, &[0, 0, 0, number], packet]);
            ethernet(0x0800, &ip4(17, &udp(50_000, 2_152, &datagram)))
        }),
    ];
    for (name, carry) in carriers {
        let (names, tally) = read(&interleaved(carry));
        assert_eq!(names, ["other-datagram", "first-datagram"], "{name}: {tally:?}");
        assert!(tally.damaged.is_empty(), "{name}: {tally:?}");
        assert_eq!(counts(&tally), [(name, 4)]);
    }
}

#[test]
fn fragments_of_a_tunnels_datagrams_are_put_together_first() {
    let tunnel = vxlan(1, &ethernet(0x0800, &dns4("whole")));
    let (first, second) = tunnel[20..].split_at(48);
    let parts = [ip4_part(17, 5, 0x2000, first), ip4_part(17, 5, 6, second)];
    let (names, tally) = read(&frames(parts.map(|part| ethernet(0x0800, &part))));
    assert_eq!((names, counts(&tally)), (vec!["whole".to_owned()], vec![("vxlan", 1)]));
}

/// A frame with each kind of header, and DNS in it.
fn samples() -> Vec<Vec<u8>> {
    let gre = |head: &[u8], inner: &[u8]| ethernet(0x0800, &ip4(47, &join(&[head, inner])));
    let frame = ethernet(0x0800, &dns4("a"));
    vec![
        ethernet(0x0800, &vxlan(1, &frame)),
        ethernet(0x0800, &ip4(17, &udp(50_000, 6_081, &join(&[&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 0, 0], &frame])))),
        ethernet(0x0800, &ip4(17, &udp(50_000, 37_008, &join(&[&[1, 0, 0, 1, 10, 1, 0, 1], &frame])))),
        gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 9, 0x10, 1, 0, 5, 0, 0, 0, 0], &frame),
        gre(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 9, 0x20, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], &frame),
        gre(&[0, 0, 0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64], &dns4("a")),
        ethernet(0x8864, &join(&[&[0x11, 0, 0, 1, 0, 60, 0, 0x21], &dns4("a")])),
    ]
}

#[test]
fn a_tunnel_cut_short_gives_no_query() {
    for frame in samples() {
        assert_eq!(read(&frames([frame.clone()])).0, ["a"], "{frame:x?}");
        let cuts = frames((0..frame.len()).map(|cut| frame[..cut].to_vec()));
        let (names, tally) = read(&cuts);
        assert!(names.is_empty(), "{tally:?}");
        assert_eq!(tally.packets, cuts.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changed_headers_never_panic_and_accounts_add_up(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..200),
    ) {
        let samples = samples();
        let changed = changes.iter().map(|(which, place, octet)| {
            let mut frame = which.get(&samples).clone();
            let at = place.index(frame.len());
            frame[at] = *octet;
            frame
        });
        let (names, tally) = read(&frames(changed));
        prop_assert!(names.len() as u64 <= tally.dns_messages);
        prop_assert_eq!(tally.packets, changes.len() as u64);
    }
}
