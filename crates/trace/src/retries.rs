//! Retries in a recording: queries that a client sent again because an earlier one had no answer yet, or a bad one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Message, TraceTime, Transaction, compare};
use serde::Serialize;

use crate::{Source, Tally, TraceError};

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
/// What retries that are left out are called among what was skipped.
const DROPPED: &str = "recorded_retry";
/// SERVFAIL, NOTIMP, REFUSED (RFC 1035 §4.1.1): stubs ask again, or the next server.
pub(crate) const FAILURES: [u16; 3] = [2, 4, 5];

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
/// Before the first response of the trace there are none: where no responses are recorded, nobody knows which queries had no answer.
#[derive(Debug, Default)]
pub struct Retries {
    open: HashMap<Key, Lookup, FixedState>,
    /// Lookups by the time of their last query, to be forgotten.
    order: VecDeque<(TraceTime, Key)>,
    has_responses: bool,
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
        let had_responses = self.has_responses;
        self.has_responses |= row.response.is_some();
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
        retry.filter(|_| had_responses)
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

/// What becomes of the retries that a trace has recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedRetries {
    /// They are queries as any other.
    #[default]
    Keep,
    /// They are left out: clients that react make their own.
    Drop,
    /// They are kept, and marked by [`Transaction::retry_of`].
    Mark,
}

/// A word that is no treatment of retries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is nothing to do with recorded retries: use keep, drop or mark")]
pub struct UnknownTreatment(String);

impl RecordedRetries {
    const ALL: [(Self, &str); 3] = [(Self::Keep, "keep"), (Self::Drop, "drop"), (Self::Mark, "mark")];
}

impl FromStr for RecordedRetries {
    type Err = UnknownTreatment;

    fn from_str(word: &str) -> Result<Self, UnknownTreatment> {
        let known = Self::ALL.iter().find(|(_, name)| *name == word);
        known.map(|(treatment, _)| *treatment).ok_or_else(|| UnknownTreatment(word.to_owned()))
    }
}

impl fmt::Display for RecordedRetries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].1)
    }
}

/// A source without retries, or with marked ones. Rows must have been numbered.
pub struct RetryFilter {
    inner: Box<dyn Source>,
    retries: Retries,
    drops: bool,
    /// How many were left out.
    dropped: u64,
    /// What was read, once all is.
    tally: Option<Tally>,
}

impl RetryFilter {
    /// Does this to the retries of `inner`.
    pub fn over(inner: Box<dyn Source>, treatment: RecordedRetries) -> Box<dyn Source> {
        match treatment {
            RecordedRetries::Keep => inner,
            RecordedRetries::Drop | RecordedRetries::Mark => {
                let drops = treatment == RecordedRetries::Drop;
                Box::new(Self { inner, retries: Retries::default(), drops, dropped: 0, tally: None })
            }
        }
    }
}

impl Source for RetryFilter {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let begin = batch.len();
        let more = self.inner.read(batch);
        for row in &mut batch[begin..] {
            row.retry_of = self.retries.see(row, row.index).map(|retry| retry.of);
        }
        if self.drops {
            let (before, mut at) = (batch.len(), 0);
            batch.retain(|row| {
                at += 1;
                at <= begin || row.retry_of.is_none()
            });
            self.dropped += (before - batch.len()) as u64;
        }
        if matches!(more, Ok(false)) && self.dropped > 0 {
            let mut tally = self.inner.tally().clone();
            *tally.skipped.entry(DROPPED.into()).or_default() += self.dropped;
            self.tally = Some(tally);
        }
        more
    }

    fn tally(&self) -> &Tally {
        self.tally.as_ref().unwrap_or_else(|| self.inner.tally())
    }

    fn is_list(&self) -> bool {
        self.inner.is_list()
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
            retry_of: None,
        }
    }

    /// What each of these queries is: `-` for a first one, or the row that it is a retry of, with `x` if it crossed and `f` for another server.
    fn found(all: &[Asked]) -> String {
        let mut retries = Retries { has_responses: true, ..Retries::default() };
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
    fn a_trace_without_responses_tells_no_retries() {
        let mut retries = Retries::default();
        let mut is_retry = |asked: &Asked| retries.see(&row(asked), 0).is_some();
        assert!(![0, 1_000, 5_000].map(|at_ms| is_retry(&Asked { at_ms, ..FIRST })).contains(&true));
        let other = Asked { at_ms: 6_000, name: "other.example", answer: Some((1, 0)), ..FIRST };
        assert!(!is_retry(&other));
        assert!(is_retry(&Asked { at_ms: 7_000, ..FIRST }), "this one has no answer");
    }

    #[test]
    fn retries_are_dropped_or_marked() {
        struct Rows(Vec<Transaction>, Tally);
        impl Source for Rows {
            fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
                batch.append(&mut self.0);
                Ok(false)
            }

            fn tally(&self) -> &Tally {
                &self.1
            }
        }
        let asked = [
            Asked { name: "other.example", answer: Some((1, 0)), ..FIRST },
            FIRST,
            Asked { at_ms: 5_000, ..FIRST },
            Asked { at_ms: 6_000, name: "third.example", ..FIRST },
        ];
        let numbered = || (10..).zip(&asked).map(|(index, asked)| Transaction { index, ..row(asked) }).collect();
        let after = |treatment: RecordedRetries| {
            let mut batch = vec![row(&FIRST)];
            RetryFilter::over(Box::new(Rows(numbered(), Tally::default())), treatment).read(&mut batch).unwrap();
            batch.iter().map(|row| (row.index, row.retry_of)).collect::<Vec<_>>()
        };
        let all = |mark| vec![(0, None), (10, None), (11, None), (12, mark), (13, None)];
        assert_eq!(after(RecordedRetries::Keep), all(None));
        assert_eq!(after(RecordedRetries::Mark), all(Some(11)));
        assert_eq!(after(RecordedRetries::Drop), [(0, None), (10, None), (11, None), (13, None)]);
        for treatment in [RecordedRetries::Keep, RecordedRetries::Drop, RecordedRetries::Mark] {
            assert_eq!(treatment.to_string().parse(), Ok(treatment));
        }
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
