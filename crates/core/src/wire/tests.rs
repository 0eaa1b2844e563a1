//! Tests: batches round-trip, and arbitrary octets give rows or an error.

use super::*;
use crate::compare::Answer;
use crate::outcome::{Reason, Segments, Status};
use crate::{Dependency, Differs, Expected, Follows, Message, Outcome, Query, RunTime, Transport};
use bytes::Bytes;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

const HEAD: BatchHeader = BatchHeader { run: 7, shard: 3, sequence: 41 };

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)]
}

fn server() -> impl Strategy<Value = SocketAddr> {
    (address(), any::<u16>()).prop_map(SocketAddr::from)
}

fn transport() -> impl Strategy<Value = Transport> {
    prop::sample::select(Transport::ALL.to_vec())
}

fn dependency() -> impl Strategy<Value = Option<Box<Dependency>>> {
    let follows = (any::<u64>(), -1_000_i64..1 << 61, any::<i64>()).prop_map(|(index, think, scheduled)| Follows {
        index,
        think,
        scheduled: RunTime(scheduled),
    });
    let also = prop::collection::vec(any::<u64>(), 0..4);
    (prop::option::of(follows), also, 0..9_u32).prop_map(|(follows, also, followers)| {
        let dependency = Dependency { follows, also, followers };
        (dependency != Dependency::default()).then(|| Box::new(dependency))
    })
}

fn some_query() -> impl Strategy<Value = Query> {
    let wire = prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    let expected = prop::collection::vec(any::<u8>(), 12..40).prop_map(|octets| {
        let message = Message::new(&octets);
        message.map_or(Expected::Nothing, |message| Expected::Response(Bytes::copy_from_slice(message.octets())))
    });
    let class = (any::<Option<u8>>(), prop_oneof![Just(Expected::Nothing), expected]);
    (any::<(u64, i64, u16)>(), address(), server(), transport(), class, (wire, dependency())).prop_map(
        |((index, due, client_port), client, server, transport, (class, expected), (wire, dependency))| Query {
            index,
            due: RunTime(due),
            client,
            client_port,
            server,
            transport,
            class,
            expected,
            dependency,
            wire,
        },
    )
}

fn some_outcome() -> impl Strategy<Value = Outcome> {
    let times = any::<(i64, Option<i64>, Option<i64>, Option<i64>, Option<i64>)>();
    let numbers = any::<(u64, u16, u16, u16, Option<u64>, Option<i64>, Option<i64>)>();
    let words = (
        prop::sample::select(Status::ALL.to_vec()),
        prop::option::of(prop::sample::select(Reason::ALL.to_vec())),
        prop::option::of((prop::sample::select(Answer::ALL.to_vec()), 0..Differs::COMBINATIONS)),
        any::<(Option<u16>, Option<u8>, Option<(u16, u16)>)>(),
    );
    (some_query(), times, numbers, words, any::<[bool; 9]>()).prop_map(|(query, times, numbers, words, flags)| {
        Outcome {
            intended: RunTime(times.0),
            submitted: times.1.map(RunTime),
            sent: times.2.map(RunTime),
            first_byte: times.3.map(RunTime),
            answered: times.4.map(RunTime),
            index: numbers.0,
            client_port: numbers.1,
            query_bytes: numbers.2,
            response_bytes: numbers.3,
            connection: numbers.4,
            connect_ns: numbers.5,
            handshake_ns: numbers.6,
            status: words.0,
            reason: words.1,
            answer: words.2.map(|(answer, _)| answer),
            differs: words.2.and_then(|(_, bits)| Differs::from_bits(bits)).unwrap_or_default(),
            rcode: words.3.0,
            class: words.3.1,
            segments: words.3.2.map(|(arrived, resent)| Segments { arrived, resent }),
            length_apart: flags[8],
            tc: flags[0],
            ad: flags[1],
            aa: flags[2],
            reused: flags[3],
            resumed: flags[4],
            early_data: flags[5],
            resent: flags[6],
            fell_back: flags[7],
            ..Outcome::unfinished(&query)
        }
    })
}

fn batch<R: Row>(rows: &[R]) -> Bytes {
    let mut writer = BatchWriter::new(HEAD);
    rows.iter().for_each(|row| assert!(!writer.push(row).unwrap()));
    writer.take()
}

proptest! {
    #[test]
    fn queries_come_back_as_they_were(rows in prop::collection::vec(some_query(), 0..20)) {
        prop_assert_eq!(read::<Query>(&batch(&rows)), Ok((HEAD, rows)));
    }

    #[test]
    fn outcomes_come_back_as_they_were(rows in prop::collection::vec(some_outcome(), 0..20)) {
        prop_assert_eq!(read::<Outcome>(&batch(&rows)), Ok((HEAD, rows)));
    }

    #[test]
    fn a_cut_batch_is_known_as_such(rows in prop::collection::vec(some_outcome(), 1..5), cut in any::<prop::sample::Index>()) {
        let whole = batch(&rows);
        let part = whole.slice(..cut.index(whole.len()));
        prop_assert_eq!(split(&part), Ok(None));
        prop_assert_eq!(read::<Outcome>(&part), Err(WireError::Short));
    }

    #[test]
    fn damage_ends_in_rows_or_an_error(
        rows in prop::collection::vec(some_query(), 1..5),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut octets = batch(&rows).to_vec();
        damage.into_iter().for_each(|(at, octet)| *at.get_mut(&mut octets) = octet);
        let octets = Bytes::from(octets);
        let (_, _) = (read::<Query>(&octets), read::<Outcome>(&octets));
    }

    #[test]
    fn any_octets_end_in_rows_or_an_error(tail in prop::collection::vec(any::<u8>(), 0..200), count in any::<u32>()) {
        let mut octets = batch::<Query>(&[]).to_vec();
        octets[28..32].copy_from_slice(&count.to_le_bytes());
        octets[32..36].copy_from_slice(&(tail.len() as u32).to_le_bytes());
        octets.extend_from_slice(&tail);
        prop_assert!(read::<Query>(&Bytes::from(octets)).map_or(true, |(_, rows)| rows.len() <= tail.len()));
    }
}

fn long_query() -> Query {
    let wire = Bytes::from(vec![0; usize::from(u16::MAX)]);
    let (client, server) = ([192, 0, 2, 1].into(), ([192, 0, 2, 2], 53).into());
    Query {
        index: 1,
        due: RunTime(2),
        client,
        client_port: 3,
        server,
        transport: Transport::Udp,
        class: None,
        expected: Expected::Nothing,
        dependency: None,
        wire,
    }
}

#[test]
fn a_full_batch_is_never_longer_than_the_most() {
    let mut writer = BatchWriter::new(HEAD);
    while !writer.push(&long_query()).unwrap() {}
    assert!((BATCH_FULL..=BATCH_MOST).contains(&writer.take().len()));
}

#[test]
fn batches_are_numbered_and_told_apart_in_one_buffer() {
    let mut writer = BatchWriter::new(HEAD);
    let mut stream = Vec::new();
    for _ in 0..3 {
        writer.push(&long_query()).unwrap();
        stream.extend_from_slice(&writer.take());
    }
    assert!(writer.is_empty());
    let mut numbers = Vec::new();
    while let Some(length) = split(&stream).unwrap().filter(|_| !stream.is_empty()) {
        let first: Vec<u8> = stream.drain(..length).collect();
        numbers.push(read::<Query>(&first.into()).unwrap().0.sequence);
    }
    assert_eq!(numbers, [41, 42, 43]);
}

#[test]
fn a_message_too_long_for_dns_leaves_the_batch_as_it_was() {
    let mut writer = BatchWriter::new(HEAD);
    let query = Query { wire: Bytes::from(vec![0; 65_536]), ..long_query() };
    assert_eq!(writer.push(&query), Err(WireError::Message(65_536)));
    let response = Expected::Response(Bytes::from(vec![0; 65_537]));
    let query = Query { expected: response, ..long_query() };
    assert_eq!(writer.push(&query), Err(WireError::Message(65_537)));
    assert_eq!(read::<Query>(&writer.take()), Ok((HEAD, Vec::new())));
}

#[test]
fn what_is_no_batch_of_this_kind_and_version_is_refused() {
    let queries = batch(&[long_query()]);
    assert_eq!(read::<Outcome>(&queries), Err(WireError::Kind { found: 0, expected: 1 }));
    let changed = |at: usize, octet: u8| {
        let mut octets = queries.to_vec();
        octets[at] = octet;
        read::<Query>(&octets.into())
    };
    assert_eq!(changed(0, b'X'), Err(WireError::Magic));
    assert_eq!(changed(4, 9), Err(WireError::Version(9)));
    assert_eq!(changed(28, 2), Err(WireError::Short));
    assert_eq!(changed(35, 1), Err(WireError::Length));
}
