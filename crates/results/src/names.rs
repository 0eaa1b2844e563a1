//! Joins the rows of a run with the questions of its trace: which names, types, zones and clients are slow, fail, or get no answer.

use std::collections::BTreeMap;
use std::path::Path;

use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use hashbrown::HashMap;
use ldplayer_core::Status;
use ldplayer_core::client::is_usable;

use crate::analysis::read::{Batch, RowFiles, at};
use crate::analysis::status;
use crate::error::ResultsError;
use crate::model::{Names, StandOut, Summary, Tail, Threshold, Top};
use crate::questions::{Question, Questions};
use crate::store::RunDir;

/// How many of a kind are listed.
const LISTED: usize = 20;
const COLUMNS: [&str; 8] =
    ["index", "client", "intended_ns", "submitted_ns", "sent_ns", "answered_ns", "status", "rcode"];
/// Slow answers, failing queries and timeouts, as counters have them.
const KINDS: usize = 3;
/// A part of a question by its name, and how it is found.
type Part = (&'static str, fn(&Question) -> String);
/// The parts of a question that queries are counted by.
const PARTS: [Part; 4] = [
    ("name", |question| question.name.to_ascii_lowercase()),
    ("domain", |question| question.zone(2)),
    ("tld", |question| question.zone(1)),
    ("type", |question| question.kind.to_string()),
];

/// What is counted of a name, a type, a zone or a client.
#[derive(Clone, Copy, Default)]
struct Counters {
    queries: u64,
    of_kind: [u64; KINDS],
    /// The slowest answer, in nanoseconds.
    slowest: i64,
}

/// Finds what stands out among the rows of a run with this summary.
///
/// # Errors
/// The rows cannot be read.
pub(crate) fn stand_out(dir: &RunDir, questions: &Questions, summary: &Summary) -> Result<Names, ResultsError> {
    let slower_than = threshold(&summary.latency_ms.answered_only);
    let mut counts = Counts {
        slower_than: slower_than.as_ref().map_or(i64::MAX, |threshold| (threshold.ms * 1e6) as i64),
        by_question: vec![Counters::default(); questions.distinct().len()],
        by_client: HashMap::new(),
    };
    RowFiles::open(dir)?.scan(&COLUMNS, &(i64::MIN..i64::MAX), |batch| counts.add(batch, questions))?;
    Ok(counts.names(questions, slower_than))
}

/// Finds what stands out in a run that ended before, and keeps it in its run.json.
///
/// # Errors
/// The directory is no run, or a file of it cannot be read or written.
pub fn join_names(run: &Path, questions: &Questions) -> Result<(), ResultsError> {
    let dir = RunDir::new(run);
    let mut document = dir.read::<serde_json::Value>()?;
    let summary = &mut document.report.summary;
    summary.names = Some(stand_out(&dir, questions, summary)?);
    dir.write(&document)
}

/// The highest percentile that a run of so many queries has, up to the 99th.
fn threshold(tail: &Tail) -> Option<Threshold> {
    let known = [("p99", tail.p99), ("p90", tail.p90), ("p50", tail.p50)];
    known.into_iter().find_map(|(name, ms)| Some(Threshold { percentile: name.to_owned(), ms: ms? }))
}

struct Counts {
    /// In nanoseconds.
    slower_than: i64,
    by_question: Vec<Counters>,
    by_client: HashMap<String, Counters>,
}

impl Counts {
    fn add(&mut self, batch: &Batch<'_>, questions: &Questions) -> Result<(), ResultsError> {
        let index = batch.numbers::<UInt64Type>("index")?;
        let clients = batch.words::<Int32Type, _>("client", |word| word)?;
        let status = batch.words::<Int8Type, _>("status", status)?;
        let rcode = batch.numbers::<UInt16Type>("rcode")?;
        let [intended, submitted, sent, answered] =
            ["intended_ns", "submitted_ns", "sent_ns", "answered_ns"].map(|name| batch.numbers::<Int64Type>(name));
        let (intended, submitted, sent, answered) = (intended?, submitted?, sent?, answered?);
        for row in 0..batch.len() {
            let is_sent = |status: &Status| status.is_query() && *status != Status::NotSent;
            let Some(status) = status.at(row).flatten().filter(is_sent) else { continue };
            let begun = at(sent, row).or_else(|| at(submitted, row));
            let due = at(intended, row).unwrap_or_default();
            let Some(number) = at(index, row).and_then(|index| questions.number_at(index, due)) else { continue };
            let answered = at(answered, row).filter(|_| status == Status::Answered);
            let latency = answered.zip(begun).map(|(answered, begun)| answered - begun);
            let kinds = [
                latency.is_some_and(|latency| latency > self.slower_than),
                status.is_failed() || latency.is_some() && at(rcode, row).is_some_and(|code| !is_usable(code)),
                status == Status::Timeout,
            ];
            self.by_question[number].add(kinds, latency);
            let client = clients.at(row).unwrap_or_default();
            self.by_client.entry_ref(client).or_default().add(kinds, latency);
        }
        Ok(())
    }

    fn names(self, questions: &Questions, slower_than: Option<Threshold>) -> Names {
        let mut all = Counters::default();
        self.by_question.iter().for_each(|counters| all.join(counters));
        let mut groups: Vec<(&str, HashMap<String, Counters>)> = Vec::new();
        for (part, of) in PARTS {
            let mut group: HashMap<String, Counters> = HashMap::new();
            for (question, counters) in questions.distinct().iter().zip(&self.by_question) {
                group.entry(of(question)).or_default().join(counters);
            }
            groups.push((part, group));
        }
        groups.push(("client", self.by_client));
        let stand_out = |kind: usize| {
            let total = all.of_kind[kind];
            let by = groups.iter().map(|(part, group)| ((*part).to_owned(), top(group, kind, total)));
            StandOut { queries: total, by: if total == 0 { BTreeMap::new() } else { by.collect() } }
        };
        Names { joined: all.queries, slow: stand_out(0), failing: stand_out(1), timed_out: stand_out(2), slower_than }
    }
}

impl Counters {
    fn add(&mut self, kinds: [bool; KINDS], latency: Option<i64>) {
        self.queries += 1;
        self.of_kind.iter_mut().zip(kinds).for_each(|(count, is_it)| *count += u64::from(is_it));
        self.slowest = self.slowest.max(latency.unwrap_or(0));
    }

    fn join(&mut self, other: &Self) {
        self.queries += other.queries;
        self.of_kind.iter_mut().zip(other.of_kind).for_each(|(count, more)| *count += more);
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// Those with most queries of a kind; among equals, the slowest, then by name.
fn top(group: &HashMap<String, Counters>, kind: usize, total: u64) -> Vec<Top> {
    let mut found: Vec<_> = group.iter().filter(|(_, counters)| counters.of_kind[kind] > 0).collect();
    let order = |(value, counters): &(&String, &Counters)| {
        (std::cmp::Reverse((counters.of_kind[kind], counters.slowest)), (*value).clone())
    };
    found.sort_by_cached_key(order);
    let top = |(value, counters): (&String, &Counters)| Top {
        value: value.clone(),
        queries: counters.of_kind[kind],
        share: counters.of_kind[kind] as f64 / total as f64,
        of: counters.queries,
        slowest_ms: (counters.slowest > 0).then(|| counters.slowest as f64 / 1e6),
    };
    found.into_iter().take(LISTED).map(top).collect()
}
