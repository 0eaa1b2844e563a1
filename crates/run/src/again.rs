//! Answers that disagree with the expected ones are asked for once more after the run, gently: those that agree now flap, and the
//! others are written as a trace.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use ldplayer_core::shard::Shards;
use ldplayer_core::{Answer, Outcome, Query, RunTime, Transaction};
use ldplayer_net::pace::Precision;
use ldplayer_replay::{Drain, Feed, LinkError, Monitor, Ready, Reference, ReplayError, RunStart, Settings};
use ldplayer_results::answers::disagreeing;
use ldplayer_results::{AskedAgain, DISAGREEMENTS, DISAGREEMENTS_NOW, ResultsError, Warning};
use ldplayer_trace::{Format, TraceError, create};
use ldplayer_workload::{FeedOptions, PlanFeed};

use crate::load;
use crate::resolve::Plan;

/// Queries asked again at most.
const MOST: usize = 5_000;
/// Time between two of them in nanoseconds: 500 a second, so that a server that fails under load does not fail for that.
const GAP: i64 = 2_000_000;

/// Which query: its row in the trace, and its client, since copies that rules make share a row.
type Key = (u64, IpAddr);

/// Queries of a run whose answers disagree with the expected ones, as far as they are to be asked again.
#[derive(Debug, Default)]
pub struct Disagreements {
    queries: HashSet<Key>,
    /// Beyond [`MOST`].
    more: u64,
}

/// What became of them.
#[derive(Debug, Default)]
pub struct Again {
    /// The accounts; `None` where there was nothing to ask.
    pub asked: Option<AskedAgain>,
    /// What kept it from being done.
    pub warning: Option<Warning>,
}

impl Disagreements {
    /// Notes those among rows.
    pub fn note(&mut self, rows: &[Outcome]) {
        let disagreeing = rows.iter().filter(|row| row.answer.is_some_and(|answer| answer != Answer::Match));
        disagreeing.for_each(|row| self.add(row.index, row.client));
    }

    /// Those of the runs in these directories, out of their rows.
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

    /// Leaves all of them as they are.
    pub fn leave(&self) -> Again {
        let left_out = AskedAgain { left_out: self.count(), ..AskedAgain::default() };
        Again { asked: (left_out.left_out > 0).then_some(left_out), warning: None }
    }

    /// Asks for them again, in the folder of the run, until `monitor` is asked to stop.
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
        let text =
            format!("{} answers that disagree with the expected ones were not asked for again: {why}", self.count());
        let remedy = "read the trace from a file, and see that the run directory can be written";
        Again { warning: Some(Warning::new("not_asked_again", text, remedy)), ..self.leave() }
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

    /// The queries once more, each with what was recorded of it.
    fn find(&self, options: &FeedOptions) -> Result<Vec<(Query, Transaction)>, AskError> {
        let mut feed = PlanFeed::open(options)?;
        let (mut found, mut left) = (Vec::new(), self.queries.clone());
        let mut more = true;
        // A trace that is gone through for ever has no end, and all that was asked is found before it.
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

/// A replay that compares answers as a plan says.
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

/// The queries with the answers that were expected: those recorded, or what the server says that answers are compared with, which is
/// asked for it.
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

/// Asks one after the other; what each answer is to the expected one, and what was said now.
fn ask(
    queries: VecDeque<Query>,
    plan: &Plan,
    settings: &Settings,
    monitor: &Arc<Monitor>,
) -> Result<(Answers, Receiver<Vec<Transaction>>), AskError> {
    let settings = Settings { fast: false, max_lag: None, precision: Precision::Low, ..settings.clone() };
    let shards = Shards::all(settings.workers);
    // Holds at most as many as are asked.
    let (responses, now) = unbounded();
    let ready = ldplayer_replay::prepare(settings, shards, Gently { queries, next: 0 }, monitor);
    let ready = compared(ready, plan).with_responses(responses);
    let mut answers = Verdicts::default();
    ready.run(RunStart::soon(), &mut answers)?;
    Ok((answers.0, now))
}

/// Queries, so far apart that they are no load.
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

/// Writes what was expected and, row by row, what was said instead. Files of an earlier run are not left beside.
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

/// Transactions with the responses that were said instead of theirs.
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
