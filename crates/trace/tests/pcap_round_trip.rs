//! What is written as a capture is read back as the same transactions: both families, UDP and TCP, answers of any size.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use ldplayer_core::message::{CLASS_IN, QueryParts};
use ldplayer_core::{TraceTime, Transaction, Transport};
use ldplayer_trace::{Format, Input, OpenOptions, create, open};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
/// The longest message in a UDP packet.
const LONGEST: usize = 65_507;

/// What a row is made of: gap to the row before, client, over TCP, parts that were seen, length of the answer, its delay.
type Row = (i64, u8, bool, Parts, usize, i64);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Parts {
    Query,
    Response,
    Both,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let parts = prop_oneof![1 => Just(Parts::Query), 1 => Just(Parts::Response), 4 => Just(Parts::Both)];
    let length = prop_oneof![8 => 0..600_usize, 1 => 600..LONGEST - 100, 1 => Just(LONGEST)];
    let delay = prop_oneof![6 => 0..SECOND, 1 => -SECOND..0, 1 => Just(9 * SECOND)];
    prop::collection::vec((1..2 * SECOND, 0..6_u8, any::<bool>(), parts, length, delay), 1..60)
}

/// Clients 0 to 2 have IPv4 addresses, the others IPv6 ones.
fn ends(client: u8, tcp: bool) -> (SocketAddr, SocketAddr) {
    let port = 1_024 + 2 * u16::from(client) + u16::from(tcp);
    let addresses: [IpAddr; 2] = if client < 3 {
        [Ipv4Addr::new(192, 0, 2, client).into(), Ipv4Addr::new(198, 51, 100, 53).into()]
    } else {
        let block = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
        [block(u16::from(client)).into(), block(53).into()]
    };
    (SocketAddr::new(addresses[0], port), SocketAddr::new(addresses[1], 53))
}

fn message(id: u16, response: bool, length: usize) -> Bytes {
    let (flags, name) = (if response { 0x8400 } else { 0x0100 }, b"\x03www\x07example\0");
    let mut wire = Vec::new();
    QueryParts { id, flags, name, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut wire);
    wire.resize(length.max(wire.len()), 0xa5);
    wire.into()
}

fn transactions(rows: &[Row]) -> Vec<Transaction> {
    let mut time = 1_700_000_000 * SECOND;
    let transaction = |(at, &(gap, client, tcp, parts, length, delay)): (usize, &Row)| {
        time += gap;
        let (client_end, server) = ends(client, tcp);
        Transaction {
            index: 0,
            time: TraceTime(time),
            client: client_end,
            server,
            transport: if tcp { Transport::Tcp } else { Transport::Udp },
            stream: tcp.then_some(u64::from(client)),
            query: (parts != Parts::Response).then(|| message(at as u16, false, 0)),
            response: (parts != Parts::Query).then(|| message(at as u16, true, length)),
            response_delay: (parts == Parts::Both).then_some(delay),
            retry_of: None,
        }
    };
    rows.iter().enumerate().map(transaction).collect()
}

/// Numbers connections anew, in the order of their rows: which number one has is the reader's affair.
fn renumber(rows: &mut [Transaction]) {
    let mut known = BTreeMap::new();
    for row in rows {
        let next = known.len() as u64;
        row.stream = row.stream.map(|stream| *known.entry(stream).or_insert(next));
    }
}

fn write_and_read(rows: &[Transaction]) -> Vec<Transaction> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcap");
    let mut sink = create(&path, Format::Pcap, false).unwrap();
    rows.chunks(7).for_each(|batch| sink.write(&mut batch.to_vec()).unwrap());
    assert_eq!(sink.finish().unwrap().transactions, rows.len() as u64);
    let mut source = open(&[Input::File(path)], &OpenOptions::default()).unwrap();
    let mut all = Vec::new();
    while source.read(&mut all).unwrap() {}
    assert!(source.tally().damaged.is_empty(), "{:?}", source.tally());
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_written_capture_reads_back_the_same(rows in rows()) {
        let mut written = transactions(&rows);
        let mut read = write_and_read(&written);
        renumber(&mut written);
        renumber(&mut read);
        prop_assert_eq!(read.len(), written.len());
        for (read, written) in read.iter().zip(&written) {
            prop_assert_eq!(read, written);
        }
    }
}
