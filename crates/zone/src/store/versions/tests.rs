//! Which version of a set an answer has.

use std::path::Path;

use ldplayer_core::Message;
use ldplayer_core::message::{HEADER, QueryParts};
use proptest::prelude::*;

use super::*;
use crate::{Scratch, Transport, load, respond};

const TEXT: &str = "$TTL 60\n@ SOA ns mail 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.10\nalias CNAME www\n\
                    mx MX 1 www\nsub NS www\nfix TXT one\n";
const S: i64 = 1_000_000_000;

fn name(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    ldplayer_core::name::parse(text, &mut wire).unwrap();
    wire
}

/// Versions of www.example. with one address each, by its last octet.
fn versions() -> Vec<Version> {
    let version = |last: u8, count, from: &[i64], clients: &[&str]| Version {
        ttl: u32::from(last),
        records: vec![vec![192, 0, 2, last]],
        count,
        from_ns: from.iter().map(|s| s * S).collect(),
        clients: clients.iter().map(|client| client.parse().unwrap()).collect(),
        ..Version::default()
    };
    vec![
        version(10, 1, &[0, 40], &["192.0.2.0/24"]),
        version(11, 3, &[20], &["192.0.2.128/25", "198.51.100.7"]),
        version(12, 0, &[30], &["2001:db8::/32"]),
    ]
}

fn zone() -> Zone {
    let records =
        load::text_of(TEXT.as_bytes(), Path::new("zone"), Some(&name("example.")), &mut |_| unreachable!()).unwrap();
    Zone::from_records(&records).unwrap().0
}

fn varying() -> Zone {
    let mut zone = zone();
    zone.vary(&[VersionedSet { owner: name("www.example."), rtype: rtype::A, versions: versions() }]).unwrap();
    zone
}

fn query(text: &str, qtype: u16) -> Vec<u8> {
    let mut query = Vec::new();
    QueryParts { id: 7, flags: 0, name: &name(text), qtype, qclass: 1, edns: Some((1232, false)) }.compose(&mut query);
    query
}

/// The same with a client's subnet.
fn query_of(text: &str, subnet: &[u8]) -> Vec<u8> {
    let mut query = query(text, rtype::A);
    let length = subnet.len() as u8;
    let at = query.len() - 1;
    query[at] = length + 4;
    query.extend([0, 8, 0, length]);
    query.extend(subnet);
    query
}

fn answer(zone: &Zone, query: &[u8], pick: Pick) -> Vec<u8> {
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    scratch.set_pick(pick);
    respond(zone, query, Transport::Udp, &mut scratch, &mut out);
    out
}

/// The last octets of the addresses 192.0.2.10 and above that an answer has, in any section.
fn addresses(answer: &[u8]) -> Vec<u8> {
    let is_one = |octets: &&[u8]| octets[..5] == [0, 4, 192, 0, 2] && octets[5] >= 10;
    answer[HEADER..].windows(6).filter(is_one).map(|octets| octets[5]).collect()
}

fn asked(zone: &Zone, pick: Pick) -> Vec<u8> {
    addresses(&answer(zone, &query("www.example.", rtype::A), pick))
}

#[test]
fn a_recorded_answer_is_the_one_of_its_moment() {
    let zone = varying();
    let at = |seconds: i64| asked(&zone, Pick::Recorded(seconds * S));
    let found: Vec<u8> = [-5, 0, 19, 20, 29, 30, 39, 40, 9_999].into_iter().flat_map(at).collect();
    assert_eq!(found, [10, 10, 10, 11, 11, 12, 12, 10, 10]);
    assert_eq!(asked(&zone, Pick::Fixed), [10]);
    let octets = answer(&zone, &query("www.example.", rtype::A), Pick::Recorded(20 * S));
    assert!(octets.windows(8).any(|octets| octets == [0, 1, 0, 1, 0, 0, 0, 11]), "its TTL is the version's");
}

#[test]
fn a_version_is_the_same_in_every_section() {
    let zone = varying();
    for (name, qtype) in [("alias.example.", rtype::A), ("mx.example.", rtype::MX), ("x.sub.example.", rtype::A)] {
        let of = |seconds: i64| addresses(&answer(&zone, &query(name, qtype), Pick::Recorded(seconds * S)));
        assert_eq!([of(0), of(25), of(35)], [[10], [11], [12]], "{name}");
    }
}

#[test]
fn versions_rotate_and_all_sets_change_together() {
    let zone = varying();
    let rotated: Vec<u8> = (0..7).flat_map(|_| asked(&zone, Pick::Rotate(1))).collect();
    assert_eq!(rotated, [11, 12, 10, 11, 12, 10, 11]);
    let changed: Vec<u8> = (0..4).flat_map(|step| asked(&zone, Pick::Changing(step))).collect();
    assert_eq!(changed, [10, 11, 12, 10]);
}

#[test]
fn weighted_versions_come_as_often_as_they_were_seen() {
    let zone = varying();
    let drawn: Vec<u8> = (0..4_000).flat_map(|_| asked(&zone, Pick::Weighted(7))).collect();
    let count = |wanted: u8| drawn.iter().filter(|&&octet| octet == wanted).count();
    // One in four of 4,000: 1,000, and three standard deviations are 82.
    assert!((918..=1_082).contains(&count(10)) && count(12) == 0 && count(10) + count(11) == 4_000, "{}", count(10));
    let again = varying();
    let same: Vec<u8> = (0..4_000).flat_map(|_| asked(&again, Pick::Weighted(7))).collect();
    assert_eq!(drawn, same, "the seed says which");
}

#[test]
fn a_client_gets_the_version_of_its_longest_prefix_and_is_told_what_that_depends_on() {
    let zone = varying();
    let asker = Pick::BySubnet("198.51.100.7".parse().unwrap());
    let by_query = |subnet: &[u8]| {
        let octets = answer(&zone, &query_of("www.example.", subnet), asker);
        let subnet = Message::new(&octets).unwrap().client_subnet().unwrap();
        (addresses(&octets)[0], subnet.subnet.to_string(), subnet.scope)
    };
    assert_eq!(by_query(&[0, 1, 32, 0, 192, 0, 2, 200]), (11, "192.0.2.200/32".into(), 25));
    assert_eq!(by_query(&[0, 1, 24, 0, 192, 0, 2]), (10, "192.0.2.0/24".into(), 24));
    assert_eq!(by_query(&[0, 2, 48, 0, 0x20, 1, 0xd, 0xb8, 0, 0]), (12, "2001:db8::/48".into(), 32));
    // Nobody there was seen: the answer holds for this subnet alone.
    assert_eq!(by_query(&[0, 1, 16, 0, 192, 0]), (10, "192.0.0.0/16".into(), 16));
    assert_eq!(asked(&zone, asker), [11], "without a subnet, the asker's address");
    assert_eq!(asked(&zone, Pick::BySubnet("203.0.113.1".parse().unwrap())), [10]);
}

#[test]
fn an_answer_that_is_the_same_for_all_has_scope_0() {
    let (zone, pick) = (varying(), Pick::BySubnet("198.51.100.7".parse().unwrap()));
    let octets = answer(&zone, &query_of("ns.example.", &[0, 1, 24, 0, 192, 0, 2]), pick);
    assert_eq!(Message::new(&octets).unwrap().client_subnet().unwrap().scope, 0);
    let plain = answer(&zone, &query_of("www.example.", &[0, 1, 24, 0, 192, 0, 2]), Pick::Fixed);
    assert_eq!(Message::new(&plain).unwrap().client_subnet(), None, "a server that goes by no subnet repeats none");
}

#[test]
fn a_subnet_that_is_not_well_formed_is_formerr() {
    let (zone, pick) = (varying(), Pick::BySubnet("198.51.100.7".parse().unwrap()));
    let octets = answer(&zone, &query_of("www.example.", &[0, 1, 24, 0, 192, 0]), pick);
    assert_eq!(Message::new(&octets).unwrap().rcode(), 1);
    let passed_over = answer(&zone, &query_of("www.example.", &[0, 1, 24, 0, 192, 0]), Pick::Fixed);
    assert_eq!(addresses(&passed_over), [10]);
}

#[test]
fn what_cannot_vary_is_told() {
    let refused = |owner: &str, rtype, versions: Vec<Version>| {
        let set = VersionedSet { owner: name(owner), rtype, versions };
        zone().vary(&[set]).unwrap_err().1
    };
    assert_eq!(refused("none.example.", rtype::A, versions()), VersionsError::Missing);
    assert_eq!(refused("fix.example.", rtype::A, versions()), VersionsError::Missing);
    assert_eq!(refused("example.", rtype::NS, versions()), VersionsError::Fixed);
    assert_eq!(refused("www.example.", rtype::A, vec![Version::default()]), VersionsError::Records);
    let two = Version { records: vec![name("a."), name("b.")], ..Version::default() };
    assert_eq!(refused("alias.example.", rtype::CNAME, vec![two]), VersionsError::Records);
    let set = VersionedSet { owner: name("www.example."), rtype: rtype::A, versions: versions() };
    assert_eq!(zone().vary(&[set.clone(), set]), Err((1, VersionsError::Twice)));
}

proptest! {
    #[test]
    fn versions_change_no_octet_of_other_answers(
        name in prop_oneof!["ns", "fix", "none", "x.sub", "sub"], qtype in prop_oneof![Just(1_u16), Just(16), Just(2), Just(255)],
        at in any::<i64>(),
    ) {
        let query = query(&format!("{name}.example."), qtype);
        let plain = answer(&zone(), &query, Pick::Fixed);
        prop_assert_eq!(&answer(&varying(), &query, Pick::Fixed), &plain);
        if !name.contains("sub") {
            prop_assert_eq!(&answer(&varying(), &query, Pick::Recorded(at)), &plain);
        }
    }
}
