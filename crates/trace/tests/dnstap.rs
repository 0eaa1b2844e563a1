//! dnstap says the same as a capture of the same traffic, and damage to it costs what it hits.

use std::path::{Path, PathBuf};

use ldplayer_core::{Transaction, Transport};
use ldplayer_trace::{Input, OpenOptions, Role, Tally, open};
use proptest::prelude::*;

/// The head of a stream of dnstap frames.
const START: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";

fn read_with(path: &Path, options: &OpenOptions) -> (Vec<Transaction>, Tally) {
    let mut source = open(&[Input::File(path.to_owned())], options).unwrap_or_else(|error| panic!("{error}"));
    let mut rows = Vec::new();
    while source.read(&mut rows).unwrap() {}
    let tally = source.tally().clone();
    let queries = rows.iter().filter(|row| row.query.is_some()).count() as u64;
    let responses = rows.iter().filter(|row| row.response.is_some()).count() as u64;
    assert_eq!((tally.queries, tally.responses), (queries, responses), "{}", path.display());
    assert!(rows.is_sorted_by_key(|row| row.time), "{}", path.display());
    (rows, tally)
}

fn read(path: &Path) -> (Vec<Transaction>, Tally) {
    read_with(path, &OpenOptions::default())
}

fn read_octets(octets: &[u8]) -> (Vec<Transaction>, Tally) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), octets).unwrap();
    read(file.path())
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn number(to: &mut Vec<u8>, field: u64, value: u64) {
    varint(to, field << 3);
    varint(to, value);
}

fn octets(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(to, field << 3 | 2);
    varint(to, value.len() as u64);
    to.extend_from_slice(value);
}

fn time(to: &mut Vec<u8>, field: u64, time: i64) {
    number(to, field, (time / 1_000_000_000) as u64);
    varint(to, (field + 1) << 3 | 5);
    to.extend_from_slice(&((time % 1_000_000_000) as u32).to_le_bytes());
}

/// The frame of one message of a transaction, as a server writes it.
fn frame(row: &Transaction, is_response: bool) -> Vec<u8> {
    let address = |end: std::net::SocketAddr| match end.ip() {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut message = Vec::new();
    number(&mut message, 1, if is_response { 2 } else { 1 });
    number(&mut message, 2, if row.client.is_ipv4() { 1 } else { 2 });
    number(&mut message, 3, if row.transport == Transport::Tcp { 2 } else { 1 });
    octets(&mut message, 4, &address(row.client));
    octets(&mut message, 5, &address(row.server));
    number(&mut message, 6, row.client.port().into());
    number(&mut message, 7, row.server.port().into());
    time(&mut message, 8, row.time.0);
    match is_response {
        true => {
            time(&mut message, 12, row.time.0 + row.response_delay.unwrap());
            octets(&mut message, 14, row.response.as_ref().unwrap());
        }
        false => octets(&mut message, 10, row.query.as_ref().unwrap()),
    }
    let mut frame = Vec::new();
    octets(&mut frame, 14, &message);
    number(&mut frame, 15, 1);
    [&(frame.len() as u32).to_be_bytes(), &*frame].concat()
}

/// What is damaged, how often.
fn reasons(tally: &Tally) -> Vec<(&'static str, u64)> {
    tally.damaged.iter().map(|damage| (damage.reason.as_str(), damage.count)).collect()
}

/// Transactions as a capture has them, without the numbers of connections, which dnstap does not have.
fn without_streams(mut rows: Vec<Transaction>) -> Vec<Transaction> {
    rows.iter_mut().for_each(|row| row.stream = None);
    rows.sort_by_key(|row| (row.time, row.client, row.query.clone()));
    rows
}

#[test]
fn dnstap_of_the_bundled_root_server_traffic_is_the_capture() {
    let (rows, tally) = read(&here("../../data/l-root-20161006.pcap.xz"));
    let frames = rows.iter().flat_map(|row| [frame(row, false), frame(row, true)]).flatten();
    let (tapped, accounts) = read_octets(&[START.to_vec(), frames.collect()].concat());
    assert_eq!((accounts.queries, accounts.responses), (tally.queries, tally.responses));
    assert_eq!(accounts.kinds, [("AUTH_QUERY".into(), 10_432), ("AUTH_RESPONSE".into(), 10_432)].into());
    // Three questions of the capture are damaged as they were sent.
    assert_eq!(reasons(&accounts), reasons(&tally));
    assert!(accounts.lost.is_empty(), "{accounts:?}");
    assert!(without_streams(tapped) == without_streams(rows));
}

/// What other programs wrote: Knot DNS (which tells no server), dnsdist over UDP, TLS and HTTPS, and dnsdist again.
#[test]
fn files_of_other_writers_are_read() {
    let (rows, tally) = read(&here("tests/data/compactor-test.dnstap"));
    // The name in the last response is damaged in the file, so that it answers another question.
    assert_eq!((tally.packets, tally.queries, tally.responses, rows.len()), (10, 5, 5, 6));
    assert_eq!((reasons(&tally), tally.damaged[0].first.packet), (vec![("bad_question", 1)], 10));
    assert_eq!(tally.lost, [("server_address".into(), 10)].into());
    let (rows, tally) = read(&here("tests/data/dotdoh.dnstap"));
    assert_eq!((tally.packets, tally.queries, tally.responses), (7, 4, 3));
    let transports: Vec<&str> = rows.iter().map(|row| row.transport.as_str()).collect();
    assert_eq!(transports, ["udp", "dot", "doh2", "udp"]);
    let (rows, tally) = read(&here("tests/data/dnstap.fstrm"));
    assert_eq!((tally.kinds["CLIENT_RESPONSE"], rows.len()), (1, 1));
    assert_eq!(rows[0].server.to_string(), "172.19.0.2:53");
}

/// Beside the repository there may be larger files, and the captures that they were made of.
#[test]
fn the_files_of_the_collection_are_their_captures() {
    let collection = here("../../../shared/data");
    let root = collection.join("dnstap/lroot-20161006-nsd.dnstap.xz");
    if !root.exists() {
        eprintln!("{} is not there: not compared", root.display());
        return;
    }
    let (rows, tally) = read(&root);
    let (captured, accounts) = read(&collection.join("pcap-root/nsd-live.raw.pcap.xz"));
    assert_eq!((tally.queries, tally.responses), (accounts.queries, accounts.responses));
    assert_eq!(reasons(&tally), reasons(&accounts));
    assert!(tally.lost.is_empty(), "{tally:?}");
    assert!(without_streams(rows) == without_streams(captured));
    let upstream = collection.join("dnstap/zonemaster-resolver-2022-11.dnstap.xz");
    let (rows, tally) = read(&upstream);
    assert_eq!((tally.packets, tally.kinds.len()), (5_736, 2));
    let clients = OpenOptions { roles: vec![Role::Client], ..OpenOptions::default() };
    assert_eq!(read_with(&upstream, &clients).1.skipped["other_role"], 5_736);
    assert!(rows.iter().all(|row| row.query.is_some()));
}

#[test]
fn a_stream_cut_off_anywhere_keeps_what_came_before() {
    let whole = std::fs::read(here("tests/data/dnstap.fstrm")).unwrap();
    for end in START.len() + 1..whole.len() {
        let (rows, tally) = read_octets(&whole[..end]);
        assert!(rows.len() <= 1 && tally.packets <= 2, "{end}");
        let complete = [START.len() + 115, whole.len() - 12].contains(&end) || whole.len() <= end;
        assert_eq!(tally.damaged.len(), usize::from(!complete), "{end}: {tally:?}");
        assert!(complete || tally.damaged[0].reason.as_str() == "truncated_capture", "{end}: {tally:?}");
    }
}

#[test]
fn ipv4_mapped_addresses_are_ipv4() {
    for file in ["mapped-coredns.dnstap", "mapped-dual-stack.dnstap"] {
        let (rows, tally) = read(&here("tests/data").join(file));
        let mut clients: Vec<String> = rows.iter().map(|row| row.client.ip().to_string()).collect();
        clients.sort();
        assert_eq!(clients, ["192.0.2.17", "192.0.2.18", "2001:db8::17"], "{file}");
        assert_eq!((tally.queries, tally.responses), (3, 3), "{file}");
        assert!(rows.iter().all(|row| row.client.is_ipv4() == row.server.is_ipv4()), "{file}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn octets_changed_anywhere_cost_no_more_than_a_few_frames(
        changes in prop::collection::vec((START.len()..1_406_usize, any::<u8>()), 1..4),
    ) {
        let mut octets = std::fs::read(here("tests/data/compactor-test.dnstap")).unwrap();
        for &(at, octet) in &changes {
            octets[at] = octet;
        }
        let (_, tally) = read_octets(&octets);
        prop_assert!(tally.dns_messages + 2 * changes.len() as u64 >= 10, "{:?}", tally);
    }

    #[test]
    fn any_octets_behind_a_head_are_read_to_the_end(octets: Vec<u8>) {
        read_octets(&[START, &octets].concat());
    }
}
