//! Lookups for A and AAAA together, before machines that send at once. What glibc 2.36 did before such servers is what is expected.

use super::*;
use crate::test::query;
use ldplayer_core::Expected;
use ldplayer_core::message::QueryParts;
use ldplayer_core::message::{CLASS_IN, flag};
use proptest::prelude::*;

const MS: i64 = 1_000_000;

/// Index of the queries for A and AAAA.
const INDEX: [u64; 2] = [7, 8];

/// An attempt: which of both it is of, the server, milliseconds.
struct Sent {
    attempt: Attempt,
    which: usize,
    server: usize,
    at: i64,
}

struct Both {
    lookups: Lookups,
    sent: Vec<Sent>,
}

fn query_for(which: usize) -> Query {
    let mut wire = Vec::new();
    let qtype = [1, 28][which];
    QueryParts { id: 1, flags: flag::RD, name: b"\x07example\0", qtype, qclass: CLASS_IN, edns: None }
        .compose(&mut wire);
    Query { wire: wire.into(), ..query(INDEX[which], 0) }
}

impl Both {
    /// A client of this model, which has looked nothing up.
    fn new(model: &str) -> Self {
        let policy = Policy { client: model.parse().unwrap(), ..Policy::default() };
        Self { lookups: Lookups::new(&[policy], &Arc::default()).unwrap(), sent: Vec::new() }
    }

    /// Both are looked up, with so many servers.
    fn begun(model: &str, servers: usize) -> Self {
        let mut both = Self::new(model);
        both.begin(0, 0, servers);
        both.begin(1, 0, servers);
        both
    }

    fn begin(&mut self, which: usize, now: i64, servers: usize) {
        self.run_until(now);
        self.lookups.handle_query(RunTime(now * MS), query_for(which), servers);
        self.send(now);
    }

    fn send(&mut self, at: i64) {
        while let Some(Ask { query, server }) = self.lookups.poll_ask() {
            let Expected::Attempt(attempt) = query.expected else { panic!("{query:?}") };
            self.lookups.handle_event(RunTime(at * MS), AttemptEvent::Sent(attempt, RunTime(at * MS)));
            self.sent.push(Sent { attempt, which: usize::from(query.index == INDEX[1]), server, at });
        }
    }

    /// An attempt ends.
    fn end(&mut self, number: usize, now: i64, status: Status, rcode: Option<u16>) {
        self.run_until(now);
        let Sent { attempt, which, at, .. } = self.sent[number];
        let (submitted, answered) = (Some(RunTime(at * MS)), rcode.map(|_| RunTime(now * MS)));
        let row = Outcome { submitted, answered, status, rcode, ..Outcome::unfinished(&query_for(which)) };
        let end = AttemptEnd { attempt, row, found: None };
        self.lookups.handle_event(RunTime(now * MS), AttemptEvent::Ended(end));
        self.send(now);
    }

    fn answer(&mut self, number: usize, now: i64, rcode: u16) {
        self.end(number, now, Status::Answered, Some(rcode));
    }

    fn run_until(&mut self, until: i64) {
        while let Some(at) = self.lookups.poll_timeout().filter(|at| at.0 <= until * MS) {
            self.lookups.handle_timeout(at);
            self.send(at.0 / MS);
        }
    }

    /// Family, server and time of each attempt, and its port where that is not the first.
    fn asked(&self) -> String {
        let asked = self.sent.iter().map(|Sent { attempt, which, server, at }| {
            let port = if attempt.port == 0 { String::new() } else { format!("/{}", attempt.port) };
            format!("{}:{server}{port}@{at}", [4, 6][*which])
        });
        asked.collect::<Vec<_>>().join(" ")
    }

    /// How the lookups that have ended did: family, status, code, attempts, milliseconds of the answer, whether the client gave up.
    fn rows(&mut self) -> Vec<String> {
        let rows = self.lookups.outcomes().drain(..).filter(|row| row.attempt.is_none());
        let mut rows: Vec<String> = rows
            .map(|row| {
                let family = if row.index == INDEX[1] { 6 } else { 4 };
                let answered = row.answered.map_or("-".to_owned(), |at| (at.0 / MS).to_string());
                let code = row.rcode.map_or("-".to_owned(), |code| code.to_string());
                let gave_up = if row.gave_up { " gave up" } else { "" };
                format!("{family} {} {code} {} {answered}{gave_up}", row.status, row.attempts)
            })
            .collect();
        rows.sort();
        rows
    }
}

#[test]
fn a_server_that_is_silent_for_aaaa_is_asked_for_both_in_turn_and_then_from_two_ports() {
    let mut both = Both::begun("glibc:timeout=1s", 2);
    both.answer(0, 1, 0);
    assert!(both.rows().is_empty(), "the answer waits for that of the other");
    both.run_until(1_500);
    both.answer(2, 1_501, 0);
    both.run_until(2_500);
    both.answer(4, 2_501, 0);
    both.run_until(9_000);
    assert_eq!(both.asked(), "4:0@0 6:0@0 4:0@1000 6:0@1501 4:0/5@2000 6:0/10@2501");
    assert_eq!(both.rows(), ["4 answered 0 3 2501", "6 timeout - 3 - gave up"]);
    // It remembers that: a port for each, and it takes one of both.
    both.sent.clear();
    both.begin(0, 9_000, 2);
    both.begin(1, 9_000, 2);
    both.answer(0, 9_001, 0);
    both.run_until(20_000);
    assert_eq!(both.asked(), "4:0@9000 6:0/5@9001");
    assert_eq!(both.rows(), ["4 answered 0 1 9001", "6 timeout - 1 - gave up"]);
}

#[test]
fn an_answer_for_aaaa_alone_is_lost_where_none_for_a_comes() {
    let mut both = Both::begun("glibc:timeout=1s", 1);
    both.answer(1, 1, 0);
    both.run_until(9_000);
    assert_eq!(both.asked(), "4:0@0 6:0@0 4:0@1000 4:0@2000");
    assert_eq!(both.rows(), ["4 timeout - 3 - gave up", "6 answered 0 1 1 gave up"]);
    both.begin(0, 9_000, 1);
    both.begin(1, 9_000, 1);
    both.run_until(20_000);
    assert_eq!(both.rows(), ["4 timeout - 2 - gave up", "6 not_sent - 0 - gave up"]);
    assert_eq!((both.lookups.counts().taken, both.lookups.counts().sent, both.lookups.counts().not_sent), (4, 3, 1));
}

#[test]
fn a_failure_for_one_of_both_is_taken_with_the_answer_for_the_other() {
    for failing in [0, 1] {
        let mut both = Both::begun("glibc", 2);
        both.answer(failing, 1, 2);
        both.answer(1 - failing, 2, 0);
        let [failed, answered] = [[4, 6][failing], [4, 6][1 - failing]];
        let mut expected = [format!("{failed} answered 2 1 1 gave up"), format!("{answered} answered 0 1 2")];
        expected.sort();
        assert_eq!((both.asked().as_str(), both.rows().as_slice()), ("4:0@0 6:0@0", &expected[..]));
    }
}

#[test]
fn both_go_to_the_next_server_where_none_is_answered() {
    let mut fail = Both::begun("glibc", 2);
    fail.answer(0, 1, 2);
    fail.answer(1, 2, 2);
    assert_eq!(fail.asked(), "4:0@0 6:0@0 4:1/6@2 6:1/6@2");
    let mut half_silent = Both::begun("glibc", 2);
    half_silent.answer(0, 1, 2);
    half_silent.run_until(5_000);
    assert_eq!(half_silent.asked(), "4:0@0 6:0@0 4:1/1@5000 6:1/1@5000");
    let mut closed = Both::begun("glibc", 2);
    closed.end(0, 1, Status::Refused, None);
    closed.end(1, 2, Status::Refused, None);
    assert_eq!(closed.asked(), "4:0@0 6:0@0 4:1/6@1 6:1/6@1");
    // Where it asks in turn, the failure of the first is that of both.
    let mut in_turn = Both::begun("glibc", 2);
    in_turn.answer(1, 1, 0);
    in_turn.run_until(5_000);
    in_turn.answer(2, 5_001, 5);
    assert_eq!(in_turn.asked(), "4:0@0 6:0@0 4:0@5000 4:1/6@5001");
}

#[test]
fn the_other_may_come_within_ten_milliseconds_and_in_either_order() {
    for which in [0, 1] {
        let mut both = Both::new("glibc");
        both.begin(which, 0, 1);
        both.answer(0, 1, 0);
        both.begin(1 - which, 5, 1);
        both.run_until(20);
        assert!(both.rows().is_empty(), "it waits for the other");
        both.answer(1, 21, 3);
        assert_eq!(both.rows().len(), 2);
    }
    let mut late = Both::new("glibc");
    late.begin(0, 0, 1);
    late.answer(0, 1, 0);
    late.run_until(10);
    assert_eq!(late.rows(), ["4 answered 0 1 1"]);
    late.begin(1, 11, 1);
    late.answer(1, 12, 0);
    late.run_until(30);
    assert_eq!(late.rows(), ["6 answered 0 1 12"]);
    assert_eq!((late.lookups.open(), late.lookups.poll_timeout().is_some()), (0, true), "timers of what has ended");
    let mut other_model = Both::begun("go", 1);
    other_model.answer(0, 1, 0);
    assert_eq!(other_model.rows(), ["4 answered 0 1 1"]);
}

proptest! {
    /// Whatever the servers do, each of both has one row, with as many attempts as were sent, and both end in bounded time.
    #[test]
    fn both_end_once_with_all_their_attempts(
        servers in 1..4_usize,
        is_rotated in any::<bool>(),
        gap in 0..20_i64,
        ends in prop::collection::vec((0..8_u8, 0..4_000_i64), 0..40),
    ) {
        let mut both = Both::new(if is_rotated { "glibc:rotate=on" } else { "glibc" });
        both.begin(0, 0, servers);
        both.begin(1, gap, servers);
        let (mut ended, mut now) = (0, gap);
        for (what, after) in ends {
            now += after;
            both.run_until(now);
            if ended >= both.sent.len() {
                continue;
            }
            match what {
                0..=5 => both.answer(ended, now, [0, 2, 3, 4, 5, 0][usize::from(what)]),
                6 => both.end(ended, now, Status::Refused, None),
                _ => both.end(ended, now, Status::Timeout, None),
            }
            ended += 1;
        }
        both.run_until(i64::MAX / MS / 4);
        let rows: Vec<Outcome> = both.lookups.outcomes().drain(..).filter(|row| row.attempt.is_none()).collect();
        prop_assert_eq!(rows.len(), 2);
        for row in rows {
            let sent = both.sent.iter().filter(|sent| INDEX[sent.which] == row.index).count();
            prop_assert_eq!(usize::from(row.attempts), sent);
        }
        let counts = both.lookups.counts();
        prop_assert_eq!(counts.taken, counts.sent + counts.not_sent);
        prop_assert_eq!((both.lookups.open(), both.lookups.poll_ask().is_none()), (0, true));
    }
}
