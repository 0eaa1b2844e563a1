//! The summary of an experiment: median, minimum and maximum over the repeats of each cell.

use std::collections::BTreeMap;
use std::path::Path;

use ldplayer_results::compare::warned;
use ldplayer_results::{RunReport, Summary, read_document};
use serde::Serialize;
use serde_json::Value;

use crate::error::ExperimentError;
use crate::plan::{Plan, Slot};
use crate::record::{Record, RunRecord, RunState};

/// A figure over repeats. It is infinite, in JSON `null`, where it falls among unanswered queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

/// How many of something are good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// The good ones.
    pub passed: usize,
    /// All.
    pub of: usize,
}

/// The summary of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// Its name.
    pub cell: String,
    /// The keys of the matrix with its values.
    pub keys: BTreeMap<String, String>,
    /// Runs that count.
    pub runs: usize,
    /// Planned runs.
    pub repeats: usize,
    /// Other attempts by state: disturbed and repeated, failed, without server, or interrupted.
    pub not_counted: BTreeMap<&'static str, usize>,
    /// Answered share of the sent queries, in percent.
    pub answered_percent: Option<Figure>,
    /// Queries sent per second.
    pub sent_qps: Option<Figure>,
    /// Those of them per second that were answered.
    pub answered_qps: Option<Figure>,
    /// Shares of the response codes among the answers, in percent.
    pub rcodes_percent: BTreeMap<String, Figure>,
    /// Median latency, in milliseconds.
    pub p50_ms: Option<Figure>,
    /// 99th percentile of the latency.
    pub p99_ms: Option<Figure>,
    /// Runs with faithful replays.
    pub replay: Passed,
    /// Runs that met the expectations, of those with expectations.
    pub server: Passed,
    /// What was told of the runs that count: a warning is a line, with the number of runs that have it.
    pub warnings: Vec<String>,
    /// Why other runs do not count, each reason once.
    pub reasons: Vec<String>,
}

/// Summarises each cell of a plan from its record. All figures over repeats are computed here.
///
/// # Errors
/// A run that counts cannot be read.
pub fn summary(plan: &Plan, record: &Record) -> Result<Vec<CellSummary>, ExperimentError> {
    let cells = (0..plan.experiment.cells.len()).map(|cell| {
        let slots: Vec<Slot> = plan.slots.iter().copied().filter(|slot| slot.cell == cell).collect();
        let counted: Vec<&RunRecord> = slots.iter().filter_map(|slot| record.counted(plan, *slot)).collect();
        // A run that was disturbed on every retry counts, too: its verdict tells its quality.
        let is_whole = |run: &&&RunRecord| matches!(run.state, RunState::Done | RunState::Disturbed);
        let done: Vec<&&RunRecord> = counted.iter().filter(is_whole).collect();
        let runs = done.iter().map(|run| read(&plan.directory, run)).collect::<Result<Vec<_>, _>>()?;
        let verdicts = || done.iter().filter_map(|run| run.verdict);
        let judged: Vec<bool> = verdicts().filter_map(|verdict| verdict.server).collect();
        let attempts = slots.iter().flat_map(|slot| record.attempts(plan, *slot));
        let attempts: Vec<&RunRecord> =
            attempts.filter(|run| done.iter().all(|counted| !std::ptr::eq(**counted, *run))).collect();
        let of = |figure: fn(&Summary) -> f64| figures(runs.iter().map(|run| figure(&run.summary)));
        let known = |figure: fn(&Summary) -> Option<f64>| figures(runs.iter().filter_map(|run| figure(&run.summary)));
        Ok(CellSummary {
            cell: plan.experiment.cells[cell].name.clone(),
            keys: plan.experiment.cells[cell].keys.iter().cloned().collect(),
            runs: runs.len(),
            repeats: slots.len(),
            not_counted: not_counted(&attempts),
            answered_percent: of(answered),
            sent_qps: known(|run| run.rate.sent_qps),
            answered_qps: known(|run| run.rate.answered_qps),
            rcodes_percent: rcodes(&runs),
            p50_ms: of(|run| run.latency_ms.from_sent.p50.unwrap_or(f64::INFINITY)),
            p99_ms: of(|run| run.latency_ms.from_sent.p99.unwrap_or(f64::INFINITY)),
            replay: Passed { passed: verdicts().filter(|verdict| verdict.replay).count(), of: runs.len() },
            server: Passed { passed: judged.iter().filter(|ok| **ok).count(), of: judged.len() },
            warnings: warned(&runs.iter().collect::<Vec<_>>()),
            reasons: reasons(&attempts),
        })
    });
    cells.collect()
}

fn read(directory: &Path, run: &RunRecord) -> Result<RunReport, ExperimentError> {
    let path = directory.join(run.directory.as_deref().unwrap_or(Path::new("")));
    let failed = |error: ldplayer_results::ResultsError| ExperimentError::Record {
        file: path.clone(),
        what: format!("cannot read a run of the experiment: {error}"),
    };
    Ok(read_document::<Value>(&path).map_err(failed)?.report)
}

fn answered(run: &Summary) -> f64 {
    run.queries.answered as f64 * 100.0 / run.queries.sent.max(1) as f64
}

/// The share of each response code that a run has, over all runs.
fn rcodes(runs: &[RunReport]) -> BTreeMap<String, Figure> {
    let names = runs.iter().flat_map(|run| run.summary.rcodes.keys());
    let of = |name: &String| {
        let share = |run: &RunReport| {
            let count = run.summary.rcodes.get(name).copied().unwrap_or(0);
            count as f64 * 100.0 / run.summary.queries.answered.max(1) as f64
        };
        Some((name.clone(), figures(runs.iter().map(share))?))
    };
    names.filter_map(of).collect()
}

fn figures(values: impl Iterator<Item = f64>) -> Option<Figure> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let middle = |at: usize| values[at.min(values.len() - 1)];
    let (low, high) = (middle((values.len() - 1) / 2), middle(values.len() / 2));
    Some(Figure { median: low + (high - low).max(0.0) / 2.0, min, max })
}

/// Attempts that do not count, by state.
fn not_counted(attempts: &[&RunRecord]) -> BTreeMap<&'static str, usize> {
    let words = attempts.iter().filter_map(|run| match run.state {
        RunState::Disturbed => Some("disturbed"),
        RunState::Failed => Some("failed"),
        RunState::ServerDied => Some("server_died"),
        RunState::Interrupted => Some("interrupted"),
        RunState::Done | RunState::Planned => None,
    });
    words.fold(BTreeMap::new(), |mut counts, word| {
        *counts.entry(word).or_default() += 1;
        counts
    })
}

fn reasons(attempts: &[&RunRecord]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for reason in attempts.iter().filter_map(|run| run.reason.clone()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle_and_an_unanswered_percentile_stays_infinite() {
        let of = |values: &[f64]| figures(values.iter().copied());
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(Figure { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(of(&[1.0, 4.0]).map(|figure| figure.median), Some(2.5));
        let censored = of(&[1.0, f64::INFINITY, f64::INFINITY]).unwrap();
        assert_eq!((censored.median, censored.min), (f64::INFINITY, 1.0));
        assert_eq!(of(&[]), None);
    }
}
