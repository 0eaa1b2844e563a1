//! Scripted HTTP/2 servers.

use std::collections::HashMap;

use ldplayer_core::{Outcome, Query, Reason, Status};
use proptest::prelude::*;

use super::super::http2::frames::{append_header, append_words, flag, kind, split};
use super::super::http2::{ErrorCode, PREFACE};
use super::super::simulation::{DELAY, Network, Reply, config, number, policy};
use super::{accounts_hold, doh_query, forgets_all, of, queries};
use crate::doh::DohMethod;
use crate::table::Machine;
use crate::test::response;

/// A query as it reached a server.
pub struct Asked {
    pub connection: u64,
    pub stream: u32,
    pub message: Vec<u8>,
}

impl Asked {
    /// The number in the query's name.
    fn number(&self) -> u64 {
        number(&self.message)
    }

    /// The frames of an answer.
    fn answer(&self) -> Vec<u8> {
        let body = response(&self.message, 0);
        [
            frame(kind::HEADERS, flag::END_HEADERS, self.stream, &[0x88]),
            frame(kind::DATA, flag::END_STREAM, self.stream, &body),
        ]
        .concat()
    }

    fn reset(&self, code: u32) -> Vec<u8> {
        words(kind::RST_STREAM, self.stream, &[code])
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    append_header(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

fn words(kind: u8, stream: u32, words: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    append_words(&mut out, kind, stream, words);
    out
}

/// SETTINGS that allow so many streams, and the answer to the client's.
fn greeting(streams: u32) -> Vec<u8> {
    let most = [&[0, 3][..], &streams.to_be_bytes()].concat();
    [frame(kind::SETTINGS, 0, 0, &most), frame(kind::SETTINGS, flag::ACK, 0, &[])].concat()
}

/// A network whose server greets and then does with each query what `script` says.
pub fn scripted(script: impl FnMut(Asked) -> Vec<Reply> + 'static) -> Network {
    scripted_with(greeting(100), script)
}

fn scripted_with(greeting: Vec<u8>, mut script: impl FnMut(Asked) -> Vec<Reply> + 'static) -> Network {
    let mut streams: HashMap<u64, Vec<u8>> = HashMap::new();
    Network::https(of(config(policy()), DohMethod::Post), move |connection, octets| {
        let mut replies = Vec::new();
        if octets.is_empty() {
            return replies;
        }
        if !streams.contains_key(&connection) {
            replies.push(segment(greeting.clone()));
        }
        // The preface comes in one piece with what follows it.
        let octets = octets.strip_prefix(PREFACE).unwrap_or(octets);
        let stream = streams.entry(connection).or_default();
        stream.extend_from_slice(octets);
        let mut rest = stream.as_slice();
        while let Some(frame) = split(&mut rest).unwrap() {
            if frame.kind == kind::DATA {
                replies.extend(script(Asked { connection, stream: frame.stream, message: frame.payload.to_vec() }));
            }
        }
        *stream = rest.to_vec();
        replies
    })
}

fn segment(octets: Vec<u8>) -> Reply {
    Reply::Segments(vec![octets])
}

fn ends(rows: &[Outcome]) -> Vec<(Status, Option<Reason>, bool)> {
    rows.iter().map(|row| (row.status, row.reason, row.resent)).collect()
}

const ANSWERED: (Status, Option<Reason>, bool) = (Status::Answered, None, false);
const ANSWERED_AGAIN: (Status, Option<Reason>, bool) = (Status::Answered, None, true);

#[test]
fn goaway_sends_again_what_was_not_looked_at() {
    let mut network = scripted(|asked| match (asked.connection, asked.number()) {
        // The third of five is the last one that the first connection answers, and it does so later.
        (0, 2) => vec![segment(words(kind::GOAWAY, 0, &[asked.stream, 0])), segment(asked.answer())],
        (0, 3..) => vec![],
        _ => vec![segment(asked.answer())],
    });
    let rows = network.replay(queries(5, 1, 0));
    assert_eq!(ends(&rows), [ANSWERED, ANSWERED, ANSWERED, ANSWERED_AGAIN, ANSWERED_AGAIN]);
    let connections: Vec<_> = rows.iter().map(|row| row.connection.unwrap()).collect();
    assert_eq!(connections, [0, 0, 0, 1, 1]);
    let counts = network.machine.connection_counts();
    assert_eq!((counts.closed_by_server, counts.resent, counts.open), (1, 2, 1));
    accounts_hold(&network, &rows, 5);
    forgets_all(&mut network);
}

#[test]
fn an_idle_connection_that_the_server_leaves_is_closed() {
    let mut network = scripted(|asked| {
        let goaway = words(kind::GOAWAY, 0, &[asked.stream, 0]);
        vec![segment(asked.answer()), segment(goaway)]
    });
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 200)]);
    assert_eq!(ends(&rows), [ANSWERED, ANSWERED]);
    assert_eq!((rows[0].connection, rows[1].connection), (Some(0), Some(1)));
    assert_eq!(
        (network.machine.connection_counts().closed_by_server, network.machine.connection_counts().open),
        (2, 0)
    );
    assert!(network.machine.take_close_notify(0).is_some(), "the client sends GOAWAY and close_notify, too");
    accounts_hold(&network, &rows, 2);
}

#[test]
fn a_server_that_leaves_every_connection_fails_the_query() {
    let mut network = scripted(|_| vec![segment(words(kind::GOAWAY, 0, &[0, 0]))]);
    let rows = network.replay(queries(1, 1, 0));
    assert_eq!(ends(&rows), [(Status::Reset, Some(Reason::ClosedByServer), true)]);
    assert_eq!(network.machine.connection_counts().opened, 9);
    accounts_hold(&network, &rows, 1);
}

#[test]
fn what_goaway_moves_keeps_its_repetition() {
    let mut network = scripted(|asked| match asked.connection {
        0 => vec![segment(words(kind::GOAWAY, 0, &[0, 0]))],
        1 => vec![Reply::Close],
        _ => vec![segment(asked.answer())],
    });
    let rows = network.replay(queries(1, 1, 0));
    assert_eq!((ends(&rows), rows[0].connection), (vec![ANSWERED_AGAIN], Some(2)));
    assert_eq!(network.machine.connection_counts().resent, 1);
    accounts_hold(&network, &rows, 1);
    // And no more than that.
    let mut network = scripted(|asked| match asked.connection {
        0 => vec![segment(words(kind::GOAWAY, 0, &[0, 0]))],
        _ => vec![Reply::Close],
    });
    let rows = network.replay(queries(1, 1, 0));
    assert_eq!(ends(&rows), [(Status::Reset, Some(Reason::ClosedByServer), true)]);
    assert_eq!(network.machine.connection_counts().opened, 3);
}

#[test]
fn what_goaway_leaves_unwritten_is_not_sent_again() {
    let mut network = scripted(|asked| match (asked.connection, asked.number()) {
        (0, 0) => vec![segment(words(kind::GOAWAY, 0, &[asked.stream, 0])), segment(asked.answer())],
        (0, _) => vec![],
        _ => vec![segment(asked.answer())],
    });
    // The second query is more than the kernel takes, so that the third waits for room when the server leaves.
    (network.room, network.pause) = (2_000, 10 * DELAY);
    let long = doh_query(1, 1, 45);
    let mut wire = long.wire.to_vec();
    wire.resize(12_000, 7);
    let rows = network.replay([doh_query(0, 1, 0), Query { wire: wire.into(), ..long }, doh_query(2, 1, 55)]);
    assert_eq!(ends(&rows), [ANSWERED, ANSWERED_AGAIN, ANSWERED]);
    assert_eq!(rows.iter().map(|row| row.connection).collect::<Vec<_>>(), [Some(0), Some(1), Some(1)]);
    assert!(rows[2].submitted < rows[0].answered, "it had been on the first connection");
    assert_eq!(network.machine.connection_counts().resent, 1);
    accounts_hold(&network, &rows, 3);
}

#[test]
fn a_refused_stream_is_tried_again_once_and_another_reset_is_not() {
    const INTERNAL_ERROR: u32 = 2;
    let mut tried = 0;
    let mut network = scripted(move |asked| match asked.number() {
        0 => vec![segment(asked.reset(INTERNAL_ERROR))],
        1 => vec![segment(asked.reset(ErrorCode::RefusedStream as u32))],
        2 if tried == 0 => {
            tried += 1;
            vec![segment(asked.reset(ErrorCode::RefusedStream as u32))]
        }
        _ => vec![segment(asked.answer())],
    });
    let rows = network.replay(queries(4, 1, 0));
    let reset = |resent| (Status::Reset, Some(Reason::StreamReset), resent);
    assert_eq!(ends(&rows), [reset(false), reset(true), ANSWERED_AGAIN, ANSWERED]);
    assert_eq!((network.machine.connection_counts().opened, network.machine.connection_counts().resent), (1, 2));
    accounts_hold(&network, &rows, 4);
}

#[test]
fn a_broken_protocol_ends_the_connection_and_its_queries_are_sent_again_once() {
    let push = frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2, 0x82]);
    let oversize = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1];
    let table = frame(kind::HEADERS, flag::END_HEADERS, 1, &[0xbe]);
    let http1 = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    for (octets, is_greeted) in [(push, true), (oversize, true), (table, true), (http1, false)] {
        let broken = octets.clone();
        let greeting = if is_greeted { greeting(100) } else { vec![] };
        let mut network = scripted_with(greeting, move |_| vec![segment(broken.clone())]);
        let rows = network.replay(queries(2, 1, 0));
        assert_eq!(ends(&rows), [(Status::Reset, Some(Reason::Protocol), true); 2], "{octets:?}");
        let counts = network.machine.connection_counts();
        assert_eq!((counts.opened, counts.reset, counts.resent), (2, 2, 2));
        accounts_hold(&network, &rows, 2);
        forgets_all(&mut network);
    }
    // Once it is served by a better server, nothing is lost.
    let mut network = scripted(|asked| match asked.connection {
        0 => vec![segment(frame(kind::DATA, 0, 0, b"x"))],
        _ => vec![segment(asked.answer())],
    });
    let rows = network.replay(queries(2, 1, 0));
    assert_eq!(ends(&rows), [ANSWERED_AGAIN; 2]);
    assert!(network.machine.take_close_notify(0).is_some_and(|words| words.len() > 17 + 2 * 22), "GOAWAY is sent");
}

#[test]
fn a_server_that_closes_has_its_queries_sent_again() {
    for (reply, reason) in [(true, Reason::ClosedByServer), (false, Reason::ResetByServer)] {
        let end = move || if reply { Reply::Close } else { Reply::Reset };
        let mut network = scripted(move |asked| match asked.connection {
            0 => vec![segment(asked.answer()[..15].to_vec()), end()],
            _ => vec![segment(asked.answer())],
        });
        let rows = network.replay(queries(2, 1, 0));
        assert_eq!(ends(&rows), [ANSWERED_AGAIN; 2]);
        let mut network = scripted(move |_| vec![end()]);
        assert_eq!(ends(&network.replay(queries(1, 1, 0))), [(Status::Reset, Some(reason), true)]);
    }
}

#[test]
fn a_server_without_room_for_streams_leaves_queries_to_other_connections() {
    let mut network = scripted_with(greeting(1), |asked| vec![segment(asked.answer())]);
    let rows = network.replay(queries(8, 1, 0));
    // All were sent before the limit was known: this server answers all the same.
    assert_eq!(ends(&rows), [ANSWERED; 8]);
    let rows = network.replay((8..12).map(|number| doh_query(number, 2, 500)));
    assert_eq!(ends(&rows), [ANSWERED; 4]);
    assert_eq!(network.machine.connection_counts().opened, 5, "the limit is known now");
    let mut network = scripted_with(greeting(0), |_| vec![]);
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 100)]);
    assert_eq!(ends(&rows), [(Status::Timeout, None, false); 2]);
    accounts_hold(&network, &rows, 2);
    forgets_all(&mut network);
}

#[test]
fn the_first_octet_of_an_answer_is_that_of_its_headers() {
    let mut held: Option<Vec<u8>> = None;
    let mut network = scripted(move |asked| {
        let mut octets = asked.answer();
        match held.take() {
            // But a part of the header of its first frame waits for the next answer.
            None => held = Some(octets.split_off(5)),
            Some(rest) => octets = [rest, octets].concat(),
        }
        vec![segment(octets)]
    });
    let rows = network.replay([doh_query(0, 1, 0), doh_query(1, 1, 200)]);
    assert_eq!(rows[0].first_byte, rows[0].submitted.map(|at| at + 6 * DELAY));
    assert_eq!(rows[0].answered, rows[1].answered);
    assert_eq!(rows[1].first_byte, rows[1].answered);
}

#[test]
fn data_behind_the_end_and_unknown_streams_change_nothing() {
    let mut network = scripted(|asked| {
        let again = frame(kind::DATA, flag::END_STREAM, asked.stream, b"more");
        let unknown = frame(0x99, 0xff, asked.stream, b"grease");
        vec![segment([unknown, asked.answer(), again, asked.reset(0)].concat())]
    });
    let rows = network.replay(queries(3, 1, 0));
    assert_eq!(ends(&rows), [ANSWERED; 3]);
}

/// The stream before this one; 0 is none.
const fn below(stream: u32) -> u32 {
    if stream < 3 { 0 } else { stream - 2 }
}

/// What a server of the property test does with a query.
fn misbehave(choice: u8, asked: &Asked) -> Vec<Reply> {
    match choice {
        0 => vec![],
        1 => vec![Reply::Close],
        2 => vec![Reply::Reset],
        3 => vec![segment(asked.reset(7))],
        4 => vec![segment(asked.reset(1))],
        5 => vec![segment(words(kind::GOAWAY, 0, &[asked.stream, 0]))],
        6 => vec![segment(words(kind::GOAWAY, 0, &[below(asked.stream), 0])), segment(asked.answer())],
        7 => vec![segment(frame(kind::CONTINUATION, 0, 1, &[]))],
        8 => vec![segment(asked.answer()[..20].to_vec()), Reply::Close],
        9 => vec![segment(asked.answer()), Reply::Close],
        10 => vec![segment(frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, asked.stream, &[0x8d]))],
        11 => vec![segment(greeting(2)), segment(asked.answer())],
        12 => vec![segment(greeting(0)), segment(asked.answer())],
        _ => vec![segment(asked.answer())],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_server_does_each_query_ends_once_and_is_sent_twice_at_most(
        choices in prop::collection::vec(0u8..18, 1..60),
        dues in prop::collection::vec((0i64..3_000, 1u8..4), 1..40),
    ) {
        let mut choice = choices.into_iter().cycle();
        let seen = std::sync::Arc::new(std::sync::Mutex::new(HashMap::<u64, u32>::new()));
        let kept = std::sync::Arc::clone(&seen);
        let mut last = HashMap::<u64, u32>::new();
        let mut network = scripted(move |asked| {
            let choice = choice.next().unwrap();
            let last = last.entry(asked.connection).or_insert(u32::MAX);
            *last = (*last).min(match choice {
                5 => asked.stream,
                6 => below(asked.stream),
                _ => u32::MAX,
            });
            // A server that leaves looks at nothing above the stream that it names.
            if asked.stream <= *last {
                *kept.lock().unwrap().entry(asked.number()).or_default() += 1;
            } else if choice != 6 {
                return vec![];
            }
            misbehave(choice, &asked)
        });
        let queries = dues.len() as u64;
        let dues = dues.into_iter().zip(0..);
        let rows = network.replay(dues.map(|((due, client), number)| doh_query(number, client, due)).collect::<Vec<_>>());
        accounts_hold(&network, &rows, queries);
        for row in rows.iter().filter(|row| row.status.is_query()) {
            let times = seen.lock().unwrap().get(&row.index).copied().unwrap_or(0);
            prop_assert!(times <= 1 + u32::from(row.resent), "{times} times {row:?}");
        }
        forgets_all(&mut network);
    }

    #[test]
    fn any_octets_from_the_server_do_no_harm(
        octets in prop::collection::vec(any::<u8>(), 0..200),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut network = scripted(move |asked| {
            let mut answer = asked.answer();
            for (at, octet) in &mutations {
                let at = at.index(answer.len());
                answer[at] = *octet;
            }
            vec![segment(answer), segment(octets.clone())]
        });
        let rows = network.replay((0..3).map(|number| doh_query(number, 1, 10 * number as i64)));
        accounts_hold(&network, &rows, 3);
    }
}
