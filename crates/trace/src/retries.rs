//! Retries in a recording: queries that a client sent again because an earlier one had no answer yet, or a bad one.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Message, TraceTime, Transaction, compare};
use serde::Serialize;

/// A query that comes so long after the last one for the same is a new lookup, also if that had no answer.
const HORIZON: i64 = 30 * NS_PER_S;
/// A query so shortly after an answer was sent before its client had that.
const CROSSED: i64 = 10_000_000;
/// A query with another port or ID that comes so soon is no retry but asked at the same time: by another socket of a resolver, or of all servers at
/// once.
const PARALLEL: i64 = 20_000_000;
/// So long after a failing answer another server is asked in its place.
const NEXT_SERVER: i64 = 100_000_000;
/// Lookups that are open at the same time at most; of more, the oldest are forgotten.
const MOST_OPEN: usize = 1 << 20;
/// SERVFAIL, NOTIMP, REFUSED (RFC 1035 §4.1.1): stubs ask the next server.
const FAILURES: [u16; 3] = [2, 4, 5];

/// What a query is a retry of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The row of the first query of the lookup.
    pub of: u64,
    /// Nanoseconds since the query before it.
    pub interval: i64,
    /// Whether the answer was on its way.
    pub is_crossed: bool,
    /// Whether another server is asked than before.
    pub is_failover: bool,
}

/// Finds retries in a trace that is in the order of time, in bounded memory.
///
/// A lookup is a client's address with the name, in whatever case, the type and the class that it asks for. Port and ID may be the same or not.
#[derive(Debug, Default)]
pub struct Retries {
    open: HashMap<Key, Lookup, FixedState>,
    /// Lookups by the time of their last query, to be forgotten.
    order: VecDeque<(TraceTime, Key)>,
}

/// A client and a hash of what it asks for.
type Key = (IpAddr, u64);

/// A lookup that may be retried.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    first: u64,
    last: TraceTime,
    server: SocketAddr,
    port: u16,
    id: u16,
    /// When the first answer came, and whether it was a failure.
    answered: Option<(TraceTime, bool)>,
}

impl Retries {
    /// What a query is a retry of; `None` of the first query of a lookup, and of a response alone. Rows are numbered by the caller.
    pub fn see(&mut self, row: &Transaction, number: u64) -> Option<Retry> {
        let query = row.query.as_deref().and_then(Message::new)?;
        query.question()?;
        self.forget(row.time);
        let key = (row.client.ip(), compare::question(&query));
        let this = Lookup {
            first: number,
            last: row.time,
            server: row.server,
            port: row.client.port(),
            id: query.id(),
            answered: answered(row),
        };
        self.order.push_back((row.time, key));
        let Some(before) = self.open.get_mut(&key) else {
            self.open.insert(key, this);
            return None;
        };
        let retry = before.retry(&this);
        match retry {
            Some(_) => before.go_on(&this),
            None if before.is_parallel(&this) => before.answered = first_of(before.answered, this.answered),
            None => *before = this,
        }
        retry
    }

    /// Forgets lookups whose last query is long past, and the oldest of too many.
    fn forget(&mut self, now: TraceTime) {
        while let Some(&(time, key)) = self.order.front() {
            if now - time <= HORIZON && self.order.len() <= MOST_OPEN {
                return;
            }
            self.order.pop_front();
            if self.open.get(&key).is_some_and(|lookup| lookup.last <= time) {
                self.open.remove(&key);
            }
        }
    }
}

impl Lookup {
    fn retry(&self, next: &Self) -> Option<Retry> {
        let interval = next.last - self.last;
        if self.is_parallel(next) {
            return None;
        }
        let is_failover = next.server != self.server;
        let retry = |is_crossed| Some(Retry { of: self.first, interval, is_crossed, is_failover });
        match self.answered {
            None => retry(false),
            Some((at, _)) if next.last < at => retry(false),
            Some((at, _)) if next.last - at <= CROSSED && !is_failover => retry(true),
            Some((at, true)) if next.last - at <= NEXT_SERVER && is_failover => retry(false),
            Some(_) => None,
        }
    }

    fn is_parallel(&self, next: &Self) -> bool {
        let is_same_socket = self.port == next.port && self.id == next.id && self.server == next.server;
        let has_failed = self.answered.is_some_and(|(at, is_failure)| is_failure && at <= next.last);
        !is_same_socket && next.last - self.last < PARALLEL && !has_failed
    }

    /// Takes the next query of the same lookup.
    fn go_on(&mut self, next: &Self) {
        // A failure is past when another server is asked.
        let before = self.answered.filter(|(at, is_failure)| !(*is_failure && *at <= next.last));
        *self = Self { first: self.first, answered: first_of(before, next.answered), ..*next };
    }
}

/// When the response to a row came, and whether it was a failure.
fn answered(row: &Transaction) -> Option<(TraceTime, bool)> {
    let response = row.response.as_deref().and_then(Message::new)?;
    Some((row.time + row.response_delay?, FAILURES.contains(&response.rcode())))
}

fn first_of(a: Option<(TraceTime, bool)>, b: Option<(TraceTime, bool)>) -> Option<(TraceTime, bool)> {
    a.into_iter().chain(b).min()
}

/// Retries of a trace, with the keys of `inspect --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RetryCounts {
    /// Queries that are retries.
    pub n: u64,
    /// Their share of all queries, from 0 to 1.
    pub share: f64,
    /// Those of them that crossed the answer on its way.
    pub crossed: u64,
    /// Those that asked another server than the query before.
    pub failovers: u64,
    /// By the time since the query before, to two digits: `5.0s`, `400ms`.
    pub by_interval: BTreeMap<String, u64>,
}

impl RetryCounts {
    /// Counts a retry.
    pub fn add(&mut self, retry: Retry) {
        self.n += 1;
        self.crossed += u64::from(retry.is_crossed);
        self.failovers += u64::from(retry.is_failover);
        *self.by_interval.entry(in_two_digits(retry.interval)).or_default() += 1;
    }

    /// With the share of so many queries.
    pub fn of(&self, queries: u64) -> Self {
        let share = if queries == 0 { 0.0 } else { self.n as f64 / queries as f64 };
        Self { share, ..self.clone() }
    }
}

/// A duration in milliseconds or seconds, rounded to two significant digits.
fn in_two_digits(ns: i64) -> String {
    let ms = (ns.max(0) as f64 / 1e6).max(1.0);
    let step = 10f64.powf(ms.log10().floor() - 1.0);
    let ms = (ms / step).round() * step;
    match ms {
        1_000.0.. => format!("{:.1}s", ms / 1e3),
        _ => format!("{ms:.0}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::Transport;
    use ldplayer_core::message::{CLASS_IN, QueryParts};
    use ldplayer_core::name;
    use proptest::prelude::*;

    /// A query at a time in milliseconds, answered after so many with a code.
    struct Asked {
        at_ms: i64,
        name: &'static str,
        qtype: u16,
        port: u16,
        id: u16,
        server: u8,
        answer: Option<(i64, u8)>,
    }

    const FIRST: Asked =
        Asked { at_ms: 0, name: "www.example.org", qtype: 1, port: 4_000, id: 7, server: 1, answer: None };

    fn row(asked: &Asked) -> Transaction {
        let (mut wire, mut query) = (Vec::new(), Vec::new());
        name::parse(asked.name, &mut wire).unwrap();
        let parts =
            QueryParts { id: asked.id, flags: 0, name: &wire, qtype: asked.qtype, qclass: CLASS_IN, edns: None };
        parts.compose(&mut query);
        let response = asked.answer.map(|(_, rcode)| {
            let mut response = query.clone();
            (response[2], response[3]) = (0x80, rcode);
            response.into()
        });
        Transaction {
            index: 0,
            time: TraceTime(asked.at_ms * 1_000_000),
            client: ([192, 0, 2, 1], asked.port).into(),
            server: ([198, 51, 100, asked.server], 53).into(),
            transport: Transport::Udp,
            stream: None,
            query: Some(query.into()),
            response,
            response_delay: asked.answer.map(|(after, _)| after * 1_000_000),
        }
    }

    /// What each of these queries is: `-` for a first one, or the row that it is a retry of, with `x` if it crossed and `f` for another server.
    fn found(all: &[Asked]) -> String {
        let mut retries = Retries::default();
        let word = |(number, asked): (usize, &Asked)| match retries.see(&row(asked), number as u64) {
            None => "-".to_owned(),
            Some(retry) => {
                let mark = |is_it: bool, mark: &'static str| if is_it { mark } else { "" };
                format!("{}{}{}", retry.of, mark(retry.is_crossed, "x"), mark(retry.is_failover, "f"))
            }
        };
        all.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_query_is_a_retry_while_an_earlier_one_is_unanswered_or_just_answered() {
        let again = |at_ms: i64| Asked { at_ms, ..FIRST };
        assert_eq!(found(&[FIRST, again(5_000), again(10_000)]), "- 0 0");
        assert_eq!(found(&[FIRST, again(31_000)]), "- -", "a new lookup");
        let slow = Asked { answer: Some((6_000, 0)), ..FIRST };
        assert_eq!(found(&[slow, again(5_000), again(6_005), again(6_020)]), "- 0 0x -");
        let quick = Asked { answer: Some((10, 0)), ..FIRST };
        assert_eq!(found(&[quick, again(5_000)]), "- -");
    }

    #[test]
    fn ports_and_ids_may_change_and_names_are_caseless_but_types_are_not_the_same() {
        let other = Asked { at_ms: 1_000, port: 4_001, id: 8, ..FIRST };
        assert_eq!(found(&[FIRST, other]), "- 0");
        let case = Asked { at_ms: 400, name: "wWw.eXample.ORG", ..FIRST };
        assert_eq!(found(&[FIRST, case]), "- 0");
        let pair = Asked { at_ms: 1_000, qtype: 28, ..FIRST };
        assert_eq!(found(&[FIRST, pair]), "- -");
    }

    #[test]
    fn several_sockets_of_a_resolver_that_ask_at_once_are_no_retries() {
        let beside = |at_ms: i64, port: u16| Asked { at_ms, port, id: port, ..FIRST };
        assert_eq!(found(&[FIRST, beside(1, 5_000), beside(2, 5_001), beside(3_000, 5_002)]), "- - - 0");
        let quick = || Asked { answer: Some((1, 0)), ..FIRST };
        assert_eq!(found(&[quick(), beside(3, 5_000)]), "- -", "nor just behind the answer");
        // The same datagram again is sent again, however soon.
        assert_eq!(found(&[FIRST, Asked { at_ms: 5, ..FIRST }]), "- 0");
    }

    #[test]
    fn another_server_is_a_failover_after_silence_and_after_a_failure() {
        let next = |at_ms: i64, server: u8| Asked { at_ms, server, ..FIRST };
        assert_eq!(found(&[FIRST, next(5_000, 2), next(10_000, 1)]), "- 0f 0f");
        let refused = Asked { answer: Some((20, 5)), ..FIRST };
        assert_eq!(found(&[refused, next(21, 2), next(5_021, 1)]), "- 0f 0f");
        let at_once = Asked { answer: Some((1, 2)), ..FIRST };
        assert_eq!(found(&[at_once, next(2, 2)]), "- 0f");
        let answered = Asked { answer: Some((20, 0)), ..FIRST };
        assert_eq!(found(&[answered, next(21, 2)]), "- -");
    }

    #[test]
    fn intervals_show_the_stubs_behind_them() {
        let words = [4_999, 5_003, 1_000, 401, 47, 0].map(|ms| in_two_digits(ms * 1_000_000));
        assert_eq!(words, ["5.0s", "5.0s", "1.0s", "400ms", "47ms", "1ms"]);
    }

    proptest! {
        /// Whatever comes, a retry is of an earlier row of the same question, and every other query begins a lookup.
        #[test]
        fn a_retry_is_of_an_earlier_query_for_the_same(
            asked in prop::collection::vec((0..40_000_i64, 0..3_usize, 0..2_u16, 0..3_u16, prop::option::of((0..9_000_i64, 0..6_u8))), 1..60)
        ) {
            const NAMES: [&str; 3] = ["a.example", "b.example", "A.EXAMPLE"];
            let mut all: Vec<Asked> = asked.into_iter().map(|(at_ms, name, qtype, port, answer)| Asked {
                at_ms, name: NAMES[name], qtype: 1 + qtype, port: 4_000 + port, id: port, server: 1, answer,
            }).collect();
            all.sort_by_key(|asked| asked.at_ms);
            let mut retries = Retries::default();
            for (number, asked) in all.iter().enumerate() {
                if let Some(retry) = retries.see(&row(asked), number as u64) {
                    let first = &all[retry.of as usize];
                    prop_assert!(retry.of < number as u64 && retry.interval <= HORIZON);
                    prop_assert!(first.name.eq_ignore_ascii_case(asked.name) && first.qtype == asked.qtype);
                }
            }
        }
    }
}
