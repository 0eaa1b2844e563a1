//! Repeats queries with unexpected answers after the run, slowly: answers that are now as expected flap, and the others are written as a
//! trace.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use ldplayer_core::shard::Shards;
use ldplayer_core::text::counted;
use ldplayer_core::{Answer, Outcome, Query, RunTime, Transaction};
use ldplayer_net::pace::Precision;
use ldplayer_replay::{Drain, Feed, LinkError, Monitor, Ready, Reference, ReplayError, RunStart, Settings};
use ldplayer_results::answers::disagreeing;
use ldplayer_results::{AskedAgain, DISAGREEMENTS, DISAGREEMENTS_NOW, ResultsError, Warning, WarningCode};
use ldplayer_trace::{Dependencies, Format, TraceError, create};
use ldplayer_workload::{FeedOptions, PlanFeed};

use crate::load;
use crate::resolve::Plan;

/// Maximum number of repeated queries.
const MOST: usize = 5_000;
/// Interval in nanoseconds: 500 queries a second, so that a server that fails under load does not fail because of them.
const GAP: i64 = 2_000_000;

/// Identifies a query by its row in the trace and its client, since copies made by rules share a row.
type Key = (u64, IpAddr);

/// Queries of a run with unexpected answers, to be repeated.
#[derive(Debug, Default)]
pub struct Disagreements {
    queries: HashSet<Key>,
    /// Queries beyond [`MOST`].
    more: u64,
}

/// The result.
#[derive(Debug, Default)]
pub struct Again {
    /// The accounts; `None` if there was nothing to repeat.
    pub asked: Option<AskedAgain>,
    /// Why it was not done.
    pub warning: Option<Warning>,
}

impl Disagreements {
    /// Collects the queries with unexpected answers among rows.
    pub fn note(&mut self, rows: &[Outcome]) {
        let disagreeing = rows.iter().filter(|row| row.answer.is_some_and(|answer| answer != Answer::Match));
        disagreeing.for_each(|row| self.add(row.index, row.client));
    }

    /// Collects them from the rows of the runs in these directories.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn of<'p>(runs: impl Iterator<Item = &'p Path>) -> Result<Self, ResultsError> {
        let mut found = Self::default();
        for run in runs {
            disagreeing(run, |index, client| found.add(index, client))?;
        }
        Ok(found)
    }

    fn add(&mut self, index: u64, client: IpAddr) {
        if self.queries.len() < MOST {
            self.queries.insert((index, client));
        } else {
            self.more += 1;
        }
    }

    fn count(&self) -> u64 {
        self.queries.len() as u64 + self.more
    }

    /// Repeats none of them.
    pub fn leave(&self) -> Again {
        let left_out = AskedAgain { left_out: self.count(), ..AskedAgain::default() };
        Again { asked: (left_out.left_out > 0).then_some(left_out), warning: None }
    }

    /// Repeats them in the folder of the run, until `monitor` says to stop.
    pub fn ask(&self, plan: &Plan, folder: &Path, monitor: &Arc<Monitor>) -> Again {
        if self.queries.is_empty() {
            return Again::default();
        }
        if !load::can_be_read_twice(&plan.feed) {
            return self.failed("the trace can be read only once");
        }
        match self.try_asking(plan, folder, monitor) {
            Ok(asked) => Again { asked: Some(asked), warning: None },
            Err(error) => self.failed(&error.to_string()),
        }
    }

    fn failed(&self, why: &str) -> Again {
        let text = format!("{} with unexpected answers not repeated: {why}", counted(self.count(), "query", "queries"));
        Again { warning: Some(Warning::new(WarningCode::NotAskedAgain, text)), ..self.leave() }
    }

    fn try_asking(&self, plan: &Plan, folder: &Path, monitor: &Arc<Monitor>) -> Result<AskedAgain, AskError> {
        let found = self.find(&plan.feed)?;
        let (answers, now) = ask(queries_of(&found), plan, &plan.settings, monitor)?;
        let answer = |query: &Query| answers.get(&(query.index, query.client)).copied().flatten();
        let asked = found.iter().filter(|(query, _)| answer(query).is_some());
        let (flapped, confirmed): (Vec<_>, Vec<_>) = asked.partition(|(query, _)| answer(query) == Some(Answer::Match));
        let counts = AskedAgain {
            asked: (flapped.len() + confirmed.len()) as u64,
            flapped: flapped.len() as u64,
            confirmed: confirmed.len() as u64,
            left_out: self.more + (found.len() - flapped.len() - confirmed.len()) as u64,
        };
        let expected = expected(confirmed.into_iter().cloned().collect(), plan, monitor)?;
        write(folder, expected, now)?;
        Ok(counts)
    }

    /// The queries, each with its recorded transaction.
    fn find(&self, options: &FeedOptions) -> Result<Vec<(Query, Transaction)>, AskError> {
        // Queries that wait come in another order than their transactions.
        let mut feed = PlanFeed::open(&FeedOptions { dependencies: Dependencies::None, ..options.clone() })?;
        let (mut found, mut left) = (Vec::new(), self.queries.clone());
        let mut more = true;
        // An endless trace need not be read to an end: every query is found before.
        while more && !left.is_empty() {
            let begin = found.len();
            more = feed.find(|query| self.queries.contains(&(query.index, query.client)), &mut found)?;
            for (query, _) in &found[begin..] {
                left.remove(&(query.index, query.client));
            }
        }
        // Copies share a row and a client.
        found.truncate(MOST);
        Ok(found)
    }
}

#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Workload(#[from] ldplayer_workload::WorkloadError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

type Answers = HashMap<Key, Option<Answer>>;

/// A replay that compares answers as a plan does.
pub fn compared<F>(ready: Ready<F>, plan: &Plan) -> Ready<F> {
    let ready = ready.with_comparison(plan.ignore.clone());
    match &plan.reference {
        Some(reference) => ready.with_reference(reference.clone()),
        None => ready,
    }
}

fn queries_of(found: &[(Query, Transaction)]) -> VecDeque<Query> {
    found.iter().map(|(query, _)| query.clone()).collect()
}

/// The queries with their expected answers: the recorded ones, or the reference server's, which is queried first.
fn expected(
    found: Vec<(Query, Transaction)>,
    plan: &Plan,
    monitor: &Arc<Monitor>,
) -> Result<Vec<Transaction>, AskError> {
    let recorded = |found: Vec<(Query, Transaction)>| found.into_iter().map(|(_, transaction)| transaction).collect();
    let Some(Reference { targets, tls_port, doh_port }) = plan.reference.clone().filter(|_| !found.is_empty()) else {
        return Ok(recorded(found));
    };
    let other = Settings { targets, tls_port, doh_port, ..plan.settings.clone() };
    let alone = Plan { reference: None, ..plan.clone() };
    let (_, said) = ask(queries_of(&found), &alone, &other, monitor)?;
    Ok(with_responses(&recorded(found), said))
}

/// Sends them one after the other. Returns how each answer compares with the expected one, and the answers.
fn ask(
    queries: VecDeque<Query>,
    plan: &Plan,
    settings: &Settings,
    monitor: &Arc<Monitor>,
) -> Result<(Answers, Receiver<Vec<Transaction>>), AskError> {
    let settings = Settings { fast: false, max_lag: None, precision: Precision::Low, ..settings.clone() };
    let settings = settings.asking_once();
    let shards = Shards::all(settings.workers);
    // Bounded by the number of queries.
    let (responses, now) = unbounded();
    let ready = ldplayer_replay::prepare(settings, shards, Gently { queries, next: 0 }, monitor);
    let ready = compared(ready, plan).with_responses(responses);
    let mut answers = Verdicts::default();
    ready.run(RunStart::soon(), &mut answers)?;
    Ok((answers.0, now))
}

/// A feed of queries, spaced so far apart that they are no load.
struct Gently {
    queries: VecDeque<Query>,
    next: i64,
}

impl Feed for Gently {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        let Some(query) = self.queries.pop_front() else { return Ok(false) };
        batch.push(Query { due: RunTime(self.next), ..query });
        self.next += GAP;
        Ok(!self.queries.is_empty())
    }
}

#[derive(Default)]
struct Verdicts(Answers);

impl Drain for Verdicts {
    fn outcomes(&mut self, _: usize, rows: &[Outcome]) -> Result<(), LinkError> {
        let of_queries = rows.iter().filter(|row| row.status.is_query());
        self.0.extend(of_queries.map(|row| ((row.index, row.client), row.answer)));
        Ok(())
    }
}

/// Writes the expected answers and, row by row, the actual ones. Files of an earlier run are removed.
fn write(folder: &Path, expected: Vec<Transaction>, now: Receiver<Vec<Transaction>>) -> Result<(), TraceError> {
    if expected.is_empty() {
        return Ok(());
    }
    let now = with_responses(&expected, now);
    for (name, mut rows) in [(DISAGREEMENTS, expected), (DISAGREEMENTS_NOW, now)] {
        let mut sink = create(&folder.join(name), Format::Parquet, true)?;
        sink.write(&mut rows)?;
        sink.finish()?;
    }
    Ok(())
}

/// Transactions with their actual responses in place of the expected ones.
fn with_responses(transactions: &[Transaction], said: Receiver<Vec<Transaction>>) -> Vec<Transaction> {
    let key = |transaction: &Transaction| (transaction.index, transaction.client.ip());
    let said: HashMap<Key, Transaction> = said.into_iter().flatten().map(|row| (key(&row), row)).collect();
    let with = |transaction: &Transaction| {
        let said = said.get(&key(transaction)).cloned();
        let (response, response_delay) = said.map_or((None, None), |said| (said.response, said.response_delay));
        Transaction { response, response_delay, ..transaction.clone() }
    };
    transactions.iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_kept_in_mind_and_the_others_are_told() {
        let mut disagreements = Disagreements::default();
        let row = |index, answer| Outcome { index, answer, ..Outcome::EMPTY };
        let rows: Vec<Outcome> = (0..MOST as u64 + 3).map(|index| row(index, Some(Answer::Changed))).collect();
        disagreements.note(&[row(0, Some(Answer::Match)), row(1, None)]);
        assert_eq!(disagreements.leave().asked, None);
        disagreements.note(&rows);
        let left = disagreements.leave().asked.unwrap();
        assert_eq!((left.asked, left.left_out), (0, MOST as u64 + 3));
    }
}
