//! One run out of the parts that several hosts played: the rows of all in one directory, and what each host said in one end.
//!
//! Each part is a run directory of its own, made by its host, whose shards are numbered from 0 or from wherever. Here they are numbered
//! through, so that no two have one number.

mod telemetry;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_net::output;
use serde::Serialize;

use crate::error::ResultsError;
use crate::model::{AgentShare, Connections, ReplayLoad, RunReport, State, Summary};
use crate::open::Evaluated;
use crate::recorder::Recorder;
use crate::setup::RunEnd;
use crate::store::RunDir;
use crate::telemetry::Scope;
use crate::warning::Warning;

pub use telemetry::sum as sum_telemetry;

/// What one host played.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// The host and the part of its share that is known without its files.
    pub share: AgentShare,
    /// Its run directory, whose rows are moved out of it; `None` where it was lost.
    pub directory: Option<PathBuf>,
    /// Where it was played.
    pub place: Place,
}

/// Where a part was played: parts of one place have its figures in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// A word for the program that no other one has.
    pub program: String,
    /// A number for the network namespace that no other one of the machine has.
    pub network: u64,
    /// A word for the machine that no other one has.
    pub machine: String,
}

impl Place {
    /// What tells the things of a scope apart; of a part, its number does.
    pub(crate) fn key(&self, scope: Scope, part: usize) -> (&str, u64) {
        match scope {
            Scope::Replay => ("", part as u64),
            Scope::Program => (&self.program, 0),
            Scope::Network => (&self.machine, self.network),
            Scope::Machine => (&self.machine, 0),
        }
    }
}

/// Puts parts together. `end` is what the one who dealt the queries knows of the whole: when it started, how many queries there were, what was
/// recorded in the trace, what they kept and used together. What the rest of their reports says is added to it.
///
/// # Errors
/// A file cannot be read, moved or written.
pub fn unite<S: Serialize>(
    mut recorder: Recorder<S>,
    directory: &Path,
    parts: Vec<Part>,
    mut end: RunEnd,
) -> Result<Evaluated<S>, ResultsError> {
    let whole = RunDir::new(directory);
    let mut shards = 0;
    for Part { mut share, directory, .. } in parts {
        if let Some(directory) = directory {
            let of_part = RunDir::new(&directory);
            let report = of_part.read::<serde_json::Value>()?.report;
            adopt(&of_part, &whole, shards)?;
            // Other agents have played the rest of a share that was taken over; the rest of a share whose agent ended by itself counts as lost.
            let is_ended =
                report.state != State::Complete && share.replaced_by.is_none() && share.ended_early.is_none();
            end.interrupted |= is_ended;
            add(&mut end, &share.name, &report, shards);
            tell(&mut share, &report, shards);
            shards += report.workers;
        }
        end.agents.push(share);
    }
    recorder.set_workers(shards);
    recorder.finish(end)
}

/// Fills in what the report of an agent says of its share.
fn tell(share: &mut AgentShare, report: &RunReport, first_worker: usize) {
    let Summary { queries, timing, latency_ms, .. } = &report.summary;
    (share.sent, share.answered, share.timed_out) = (queries.sent, queries.answered, queries.timed_out);
    (share.failed, share.not_sent) = (queries.failed, queries.not_sent);
    (share.first_worker, share.workers) = (first_worker, report.workers);
    share.timing_p99_us = timing.error_us.map(|error| error.p99);
    (share.latency_p50_ms, share.latency_p99_ms) = (latency_ms.from_sent.p50, latency_ms.from_sent.p99);
}

/// Moves row files, of queries and of attempts, whose shards get the numbers from `first` on.
fn adopt(from: &RunDir, to: &RunDir, first: usize) -> Result<(), ResultsError> {
    let (queries, attempts) = (from.row_files()?.0, from.attempt_files()?);
    let lowest = queries.iter().filter_map(|file| numbers(file)).map(|(shard, _)| shard).min().unwrap_or(0);
    if !attempts.is_empty() {
        output::refuse_link(&to.attempts()).map_err(ResultsError::file(&to.attempts()))?;
        fs::create_dir_all(to.attempts()).map_err(ResultsError::file(&to.attempts()))?;
    }
    for (files, folder) in [(queries, to.queries()), (attempts, to.attempts())] {
        for (file, (shard, period)) in files.iter().filter_map(|file| Some((file, numbers(file)?))) {
            let shard = first + shard.saturating_sub(lowest);
            let into = folder.join(format!("shard-{shard:03}-{period:06}.parquet"));
            fs::rename(file, &into).or_else(|_| fs::copy(file, &into).map(drop)).map_err(ResultsError::file(&into))?;
        }
    }
    Ok(())
}

/// Shard and period of a row file, by its name.
fn numbers(file: &Path) -> Option<(usize, u32)> {
    let (shard, period) = file.file_stem()?.to_str()?.strip_prefix("shard-")?.split_once('-')?;
    Some((shard.parse().ok()?, period.parse().ok()?))
}

/// Adds what a host says of its part.
fn add(end: &mut RunEnd, agent: &str, report: &RunReport, first: usize) {
    let summary = &report.summary;
    end.stalls.merge(&report.stalls);
    end.receive_drops = both(end.receive_drops, summary.responses.receive_drops);
    for (reason, count) in &summary.queries.stray_unlisted {
        *end.strays_unlisted.entry(reason.clone()).or_default() += count;
    }
    end.link = either(end.link.take(), summary.link.clone(), |one, other| one.and(&other));
    end.load = either(
        end.load,
        summary.telemetry.replay.map(|load| ReplayLoad { worker: first + load.worker, ..load }),
        worse,
    );
    let connections = end.connections.take();
    end.connections = either(connections, Some(summary.connections.clone()), opened_by_both);
    let told = report.warnings.iter().map(|warning| Warning { agent: Some(agent.to_owned()), ..warning.clone() });
    end.warnings.extend(told);
}

/// The sum, where both are known.
fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other?)
}

/// What there is of both.
fn either<T>(one: Option<T>, other: Option<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(join(one, other)),
        (one, other) => one.or(other),
    }
}

/// The worker that could keep up least, and what all of them met with.
fn worse(one: ReplayLoad, other: ReplayLoad) -> ReplayLoad {
    let worst = if other.saturated_s > one.saturated_s { other } else { one };
    ReplayLoad {
        blocked_s: one.blocked_s.max(other.blocked_s),
        postponed: one.postponed + other.postponed,
        fed_late: one.fed_late + other.fed_late,
        ..worst
    }
}

fn opened_by_both(one: Connections, other: Connections) -> Connections {
    let mut closed: BTreeMap<String, u64> = one.closed;
    other.closed.into_iter().for_each(|(why, count)| *closed.entry(why).or_default() += count);
    Connections {
        opened: one.opened + other.opened,
        failed: one.failed + other.failed,
        resumed: one.resumed + other.resumed,
        peak_open: one.peak_open + other.peak_open,
        open_at_end: one.open_at_end + other.open_at_end,
        closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_row_files_tell_shard_and_period() {
        assert_eq!(numbers(Path::new("/a/shard-012-000003.parquet")), Some((12, 3)));
        assert_eq!(numbers(Path::new("/a/worker-1.parquet")), None);
    }

    #[test]
    fn what_one_host_did_not_count_is_not_known_of_both() {
        let report = |drops| RunReport {
            summary: crate::model::Summary {
                responses: crate::model::Responses { receive_drops: drops, ..Default::default() },
                ..Default::default()
            },
            ..RunReport::default()
        };
        let mut end = RunEnd { receive_drops: Some(0), ..RunEnd::default() };
        add(&mut end, "a", &report(Some(3)), 0);
        add(&mut end, "b", &report(Some(4)), 2);
        assert_eq!(end.receive_drops, Some(7));
        add(&mut end, "c", &report(None), 4);
        assert_eq!(end.receive_drops, None);
    }

    #[test]
    fn the_worst_worker_keeps_its_host() {
        let load = |worker, saturated_s| ReplayLoad { worker, saturated_s, postponed: 2, ..ReplayLoad::default() };
        let worst = worse(load(0, 1.0), load(3, 2.0));
        assert_eq!((worst.worker, worst.saturated_s, worst.postponed), (3, 2.0, 4));
    }
}
