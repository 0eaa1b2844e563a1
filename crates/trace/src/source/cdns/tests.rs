//! Tests of files by other writers: missing fields, other block parameters, damage.

use ldplayer_core::message::flag;
use ldplayer_core::{Message, Transaction, Transport};

use crate::source::role::Role;
use crate::{Input, OpenOptions, Tally, TraceError};

/// A CBOR item.
#[derive(Clone, Debug)]
enum Item {
    Number(i64),
    Octets(Vec<u8>),
    Array(Vec<Item>),
    Map(Vec<(i64, Item)>),
    /// A map without a length, ended by a break.
    Open(Vec<(i64, Item)>),
    /// Octets as they are.
    Raw(Vec<u8>),
}

use Item::{Array, Map, Number, Octets, Open, Raw};

impl Item {
    fn write(&self, to: &mut Vec<u8>) {
        let head = |to: &mut Vec<u8>, major: u8, number: u64| {
            to.push(major << 5 | 27);
            to.extend_from_slice(&number.to_be_bytes());
        };
        match self {
            Number(number) if *number < 0 => head(to, 1, !*number as u64),
            Number(number) => head(to, 0, *number as u64),
            Octets(octets) => {
                head(to, 2, octets.len() as u64);
                to.extend_from_slice(octets);
            }
            Array(items) => {
                head(to, 4, items.len() as u64);
                items.iter().for_each(|item| item.write(to));
            }
            Map(fields) => {
                head(to, 5, fields.len() as u64);
                write_fields(fields, to);
            }
            Open(fields) => {
                to.push(0xbf);
                write_fields(fields, to);
                to.push(0xff);
            }
            Raw(octets) => to.extend_from_slice(octets),
        }
    }
}

fn write_fields(fields: &[(i64, Item)], to: &mut Vec<u8>) {
    for (key, value) in fields {
        Number(*key).write(to);
        value.write(to);
    }
}

fn numbers(numbers: &[i64]) -> Item {
    Array(numbers.iter().map(|&number| Number(number)).collect())
}

fn fields(fields: &[(i64, i64)]) -> Item {
    Map(fields.iter().map(|&(key, number)| (key, Number(number))).collect())
}

/// A file with these storage parameters and blocks.
fn file(storage: Item, blocks: &[Item]) -> Vec<u8> {
    let mut octets = b"\x83\x65C-DNS".to_vec();
    Map(vec![(0, Number(1)), (1, Number(0)), (3, Array(vec![Map(vec![(0, storage)])]))]).write(&mut octets);
    Array(blocks.to_vec()).write(&mut octets);
    octets
}

/// Storage parameters with everything stored, in microseconds.
fn everything() -> Item {
    Map(vec![(0, Number(1_000_000)), (2, fields(&[(0, 0x3_ffff)]))])
}

const NAME: &[u8] = b"\x03www\x07example\0";

/// What all blocks of the tests have in their tables.
struct Tables {
    signatures: Vec<Item>,
    addresses: Vec<&'static [u8]>,
}

impl Default for Tables {
    fn default() -> Self {
        Self { signatures: vec![signature(&[])], addresses: vec![&[192, 0, 2, 1], &[192, 0, 2, 53]] }
    }
}

/// A whole signature: query and response over UDP, `www.example. A`, with some fields replaced.
fn signature(changes: &[(i64, i64)]) -> Item {
    let mut all = vec![(0, 1), (1, 5_353), (2, 0), (4, 3), (5, 0), (6, 0x1010), (7, 0), (8, 0), (16, 0)];
    for &(key, value) in changes {
        all.retain(|(known, _)| *known != key);
        all.push((key, value));
    }
    fields(&all)
}

impl Tables {
    fn block(self, items: Vec<Item>) -> Item {
        let octets = |all: &[&[u8]]| Array(all.iter().map(|octets| Octets(octets.to_vec())).collect());
        let names: [&[u8]; 6] =
            [NAME, b"\0", b"\x02ns\x07example\0", &[192, 0, 2, 99], &[0, 10, 0, 2, 7, 7], b"\x07example\0"];
        let classtypes = [fields(&[(0, 1), (1, 1)]), fields(&[(0, 41), (1, 1_232)]), fields(&[(0, 2), (1, 1)])];
        // An address, a name server, and OPT with the DO bit.
        let records = [
            fields(&[(0, 0), (1, 0), (2, 300), (3, 3)]),
            fields(&[(0, 5), (1, 2), (2, 60), (3, 2)]),
            fields(&[(0, 1), (1, 1), (2, 0x8000), (3, 4)]),
            fields(&[(0, 0), (1, 0)]),
        ];
        let lists = [numbers(&[0, 0]), numbers(&[1]), numbers(&[2]), numbers(&[3]), numbers(&[9])];
        let tables = Map(vec![
            (0, octets(&self.addresses)),
            (1, Array(classtypes.to_vec())),
            (2, octets(&names)),
            (3, Array(self.signatures)),
            (4, Array(vec![numbers(&[0])])),
            (5, Array(vec![fields(&[(0, 2), (1, 0)])])),
            (6, Array(lists.to_vec())),
            (7, Array(records.to_vec())),
            (
                8,
                Array(vec![
                    Map(vec![
                        (0, Number(1)),
                        (1, Number(53)),
                        (2, Number(2)),
                        (3, Octets(vec![0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x47])),
                    ]),
                    Map(vec![(3, Octets(vec![1, 2]))]),
                    Map(vec![]),
                ]),
            ),
        ]);
        Map(vec![(0, Open(vec![(0, numbers(&[1_000, 500_000])), (-3, Number(1))])), (3, Array(items)), (2, tables)])
    }
}

/// A whole item, with some fields replaced.
fn item(changes: &[(i64, Item)]) -> Item {
    let mut all: Vec<(i64, Item)> = [(0, 10), (1, 0), (2, 1_024), (3, 7), (4, 0), (6, 25), (7, 0), (8, 29), (9, 45)]
        .into_iter()
        .map(|(key, number)| (key, Number(number)))
        .collect();
    for (key, value) in changes {
        all.retain(|(known, _)| known != key);
        all.push((*key, value.clone()));
    }
    Open(all)
}

fn read_with(octets: &[u8], options: &OpenOptions) -> Result<(Vec<Transaction>, Tally), TraceError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), octets).unwrap();
    let mut source = crate::open(&[Input::File(file.path().to_owned())], options)?;
    let mut rows = Vec::new();
    while source.read(&mut rows)? {}
    Ok((rows, source.tally().clone()))
}

fn read(octets: &[u8]) -> (Vec<Transaction>, Tally) {
    read_with(octets, &OpenOptions::default()).unwrap()
}

/// One transaction of a file with everything stored.
fn one(tables: Tables, item: Item) -> (Transaction, Tally) {
    let (mut rows, tally) = read(&file(everything(), &[tables.block(vec![item])]));
    assert_eq!(rows.len(), 1, "{tally:?}");
    (rows.remove(0), tally)
}

#[test]
fn a_whole_transaction_has_all_that_was_stored() {
    let sections = |all: &[(i64, i64)]| fields(all);
    let (row, tally) = one(Tables::default(), item(&[(12, sections(&[(1, 0), (2, 1), (3, 2)]))]));
    assert_eq!((row.time.0, row.response_delay), (1_000_500_010_000, Some(25_000)));
    assert_eq!((row.client.to_string(), row.server.to_string()), ("192.0.2.1:1024".into(), "192.0.2.53:5353".into()));
    assert!(tally.lost.is_empty() && tally.damaged.is_empty(), "{tally:?}");
    let query = row.query.unwrap();
    assert_eq!(query, [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], NAME, &[0, 1, 0, 1]].concat());
    let response = Message::new(row.response.as_ref().unwrap()).unwrap();
    assert_eq!((response.flags(), response.counts()), (flag::QR | flag::RD, [1, 2, 1, 1]));
    assert_eq!(response.edns().map(|edns| (edns.udp_size, edns.dnssec_ok)), Some((1_232, true)));
    // The name in the question is pointed to by both answers.
    let answers: &[u8] = &[0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 99];
    assert_eq!(response.octets()[29..61], [answers, answers].concat());
}

#[test]
fn edns_of_a_query_comes_back_with_its_options() {
    let tables = Tables {
        signatures: vec![signature(&[(4, 7), (6, 0x90), (13, 0), (14, 4_096), (15, 4)])],
        ..Tables::default()
    };
    // Its OPT record may stand in the additional section as well, and is written once.
    for additional in [None, Some((11, fields(&[(3, 2)])))] {
        let tables = Tables { signatures: tables.signatures.clone(), ..Tables::default() };
        let (row, _) = one(tables, item(additional.as_slice()));
        let opt: &[u8] = &[0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 6, 0, 10, 0, 2, 7, 7];
        let query = row.query.unwrap();
        assert_eq!(query[..12], [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(query[29..], *opt);
    }
}

#[test]
fn questions_beyond_the_first_and_none_at_all() {
    let (row, _) = one(Tables::default(), item(&[(11, fields(&[(0, 0)]))]));
    assert_eq!(Message::new(&row.query.unwrap()).unwrap().counts(), [2, 0, 0, 0]);
    let none = Tables { signatures: vec![signature(&[(4, 0x33)])], ..Tables::default() };
    let (row, tally) = one(none, item(&[]));
    assert_eq!(row.query.unwrap().len() + row.response.unwrap().len(), 24);
    assert!(tally.lost.is_empty());
}

#[test]
fn one_message_may_be_missing() {
    for (parts, delay) in [(1, (true, false)), (2, (false, true))] {
        let tables = Tables { signatures: vec![signature(&[(4, parts)])], ..Tables::default() };
        let (row, _) = one(tables, item(&[]));
        assert_eq!((row.query.is_some(), row.response.is_some(), row.response_delay), (delay.0, delay.1, None));
    }
}

#[test]
fn what_was_not_stored_has_a_default_and_is_counted() {
    let storage = Map(vec![(0, Number(1_000_000_000)), (2, fields(&[(0, 0x7fff)])), (5, Number(7))]);
    let block = Tables { signatures: vec![Map(vec![])], ..Tables::default() };
    let (rows, tally) = read(&file(storage, &[block.block(vec![Map(vec![(4, Number(0)), (6, Number(3))])])]));
    assert_eq!((rows[0].client.to_string(), rows[0].server.to_string()), ("0.0.0.0:0".into(), "0.0.0.0:53".into()));
    assert_eq!((rows[0].transport, rows[0].response_delay), (Transport::Udp, Some(3)));
    let lost: Vec<&str> = tally.lost.keys().map(AsRef::as_ref).collect();
    assert_eq!(
        lost,
        [
            "case_of_names",
            "client_address",
            "client_port",
            "header_flags",
            "message_id",
            "opcode",
            "query_name",
            "response_additionals",
            "response_answers",
            "response_authorities",
            "response_rcode",
            "server_address",
            "server_port",
            "time",
            "transport",
            "true_addresses",
            "unsampled_traffic",
        ]
    );
    assert!(tally.lost.values().all(|&count| count == 1));
}

#[test]
fn records_without_ttl_and_data_are_counted() {
    let (row, tally) = one(Tables::default(), item(&[(12, fields(&[(1, 3)]))]));
    assert_eq!(tally.lost, [("rdata".into(), 1), ("ttl".into(), 1)].into());
    assert_eq!(row.response.unwrap()[29..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
    // An OPT record that is told of but not kept: the upper bits of the code are all that is known.
    let tables = Tables { signatures: vec![signature(&[(4, 11), (16, 16)])], ..Tables::default() };
    let (row, tally) = one(tables, item(&[]));
    assert_eq!(Message::new(row.response.as_ref().unwrap()).unwrap().rcode(), 16);
    assert_eq!(tally.lost, [("response_opt".into(), 1)].into());
}

#[test]
fn addresses_may_be_prefixes_and_transports_others() {
    let tables =
        |flags| Tables { signatures: vec![signature(&[(2, flags)])], addresses: vec![&[0x20, 1, 0xd, 0xb8], &[0x20]] };
    let (row, tally) = one(tables(1 | 1 << 1), item(&[]));
    assert_eq!((row.client.to_string(), row.server.to_string()), ("[2001:db8::]:1024".into(), "[2000::]:5353".into()));
    assert_eq!((row.transport, tally.lost["address_suffix"]), (Transport::Tcp, 1));
    for (number, transport) in [(2, Transport::Dot), (3, Transport::Dot), (4, Transport::Doh2)] {
        let (row, tally) = one(tables(1 | number << 1), item(&[]));
        assert_eq!((row.transport, tally.lost.contains_key("dtls")), (transport, number == 3));
    }
    let (_, tally) = read(&file(everything(), &[tables(1 | 9 << 1).block(vec![item(&[])])]));
    assert_eq!(tally.damaged[0].reason.as_str(), "bad_transport");
}

#[test]
fn ipv4_mapped_addresses_are_ipv4_whatever_end_is_known() {
    const MAPPED: [&[u8]; 2] = [
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 17],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 53],
    ];
    let ends = |flags, item: Item| {
        let tables = Tables { signatures: vec![signature(&[(2, flags)])], addresses: MAPPED.to_vec() };
        let (row, _) = one(tables, item);
        (row.client.to_string(), row.server.to_string())
    };
    let both = ("192.0.2.17:1024".to_owned(), "192.0.2.53:5353".to_owned());
    // The flags say IPv6, or IPv4.
    assert_eq!(ends(1, item(&[])), both);
    assert_eq!(ends(0, item(&[])), both);
    let without = |keys: &[i64]| {
        let Open(mut fields) = item(&[]) else { unreachable!() };
        fields.retain(|(key, _)| !keys.contains(key));
        Open(fields)
    };
    assert_eq!(ends(1, without(&[1])), ("0.0.0.0:1024".into(), both.1));
    let Map(mut unnamed) = signature(&[(2, 1)]) else { unreachable!() };
    unnamed.retain(|(key, _)| *key != 0);
    let tables = Tables { signatures: vec![Map(unnamed)], addresses: MAPPED.to_vec() };
    let (row, tally) = one(tables, item(&[]));
    assert_eq!((row.client.to_string(), row.server.to_string()), (both.0, "0.0.0.0:5353".into()));
    assert_eq!(tally.lost, [("server_address".into(), 1)].into());
}

#[test]
fn roles_are_told_apart() {
    let tables = || Tables { signatures: vec![signature(&[(3, 1)]), signature(&[(3, 2)])], ..Tables::default() };
    let octets = file(everything(), &[tables().block(vec![item(&[]), item(&[(4, Number(1))])])]);
    let (rows, tally) = read(&octets);
    assert_eq!((rows.len(), &tally.kinds), (2, &[("client".into(), 1), ("resolver".into(), 1)].into()));
    let options = OpenOptions { roles: vec![Role::Resolver], ..OpenOptions::default() };
    let (rows, tally) = read_with(&octets, &options).unwrap();
    assert_eq!((rows.len(), tally.skipped["other_role"]), (1, 1));
}

#[test]
fn messages_that_the_writer_could_not_read_are_kept_if_their_octets_were() {
    let Map(mut block) = Tables::default().block(vec![item(&[])]) else { unreachable!() };
    let malformed = |data| fields(&[(0, 5), (1, 0), (2, 99), (3, data)]);
    block.push((5, Array((0..3).map(malformed).collect())));
    let (rows, tally) = read(&file(everything(), &[Map(block)]));
    assert_eq!((rows.len(), rows[0].client.port(), rows[0].transport), (2, 99, Transport::Tcp));
    assert_eq!(rows[0].query.as_ref().unwrap().len(), 13);
    let reasons: Vec<&str> = tally.damaged.iter().map(|damage| damage.reason.as_str()).collect();
    assert_eq!(
        (reasons, &tally.skipped),
        (vec!["bad_question", "short_message"], &[("malformed_message".into(), 1)].into())
    );
}

#[test]
fn damage_costs_its_item_or_its_block() {
    let cases = [
        (item(&[(7, Number(99))]), "bad_name"),
        (item(&[(7, Number(3))]), "bad_name"),
        (item(&[(4, Number(99))]), "bad_index"),
        (item(&[(1, Number(99))]), "bad_index"),
        (item(&[(12, fields(&[(1, 99)]))]), "bad_index"),
        (item(&[(12, fields(&[(1, 4)]))]), "bad_index"),
        (item(&[(0, Number(i64::MAX))]), "bad_time"),
        (item(&[(2, Number(70_000))]), "bad_item"),
        (Number(1), "bad_item"),
    ];
    for (damaged, reason) in cases {
        let block = Tables::default().block(vec![item(&[]), damaged, item(&[(0, Number(90))])]);
        let (rows, tally) = read(&file(everything(), &[block]));
        assert_eq!((rows.len(), tally.damaged.len(), tally.packets), (2, 1, 3), "{reason}: {tally:?}");
        assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[0].first.packet), (reason, 2));
    }
    let sound = || Tables::default().block(vec![item(&[])]);
    let preamble = file(everything(), &[]).len() as u64;
    for damaged in [Map(vec![(2, Number(1))]), Map(vec![(0, fields(&[(1, 7)]))]), Number(3)] {
        let (rows, tally) = read(&file(everything(), &[damaged.clone(), sound(), damaged, sound()]));
        assert_eq!((rows.len(), tally.damaged[0].reason.as_str(), tally.damaged[0].count), (2, "bad_block", 2));
        assert_eq!((tally.damaged[0].first.packet, tally.damaged[0].first.offset), (1, preamble));
    }
    let (rows, tally) = read(&file(everything(), &[sound(), Raw(vec![0xff]), sound()]));
    assert_eq!((rows.len(), tally.damaged[0].reason.as_str()), (1, "bad_block"));
}

#[test]
fn a_preamble_that_makes_no_sense_is_refused() {
    for storage in [Map(vec![(0, Number(0))]), Number(1)] {
        let refusal = read_with(&file(storage, &[]), &OpenOptions::default()).err().unwrap().to_string();
        assert!(refusal.contains("the preamble of this C-DNS file is damaged; write the file again"), "{refusal}");
    }
}

#[test]
fn an_answer_that_fits_no_message_is_counted() {
    let Map(mut block) = Tables::default().block(vec![item(&[(12, fields(&[(1, 5)]))])]) else { unreachable!() };
    let Some((_, Map(tables))) = block.iter_mut().find(|(key, _)| *key == 2) else { unreachable!() };
    let Some((_, Array(lists))) = tables.iter_mut().find(|(key, _)| *key == 6) else { unreachable!() };
    lists.push(numbers(&vec![0; 70_000]));
    let (rows, tally) = read(&file(everything(), &[Map(block)]));
    assert_eq!((rows.len(), tally.damaged[0].reason.as_str()), (0, "long_message"));
}
