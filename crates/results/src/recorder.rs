//! Takes outcomes while a run lasts and ends it with a complete run directory.

use std::path::Path;

use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Outcome, RunTime, TraceTime};
use serde::Serialize;

use crate::analysis::{self, Analysis};
use crate::error::ResultsError;
use crate::model::{RunReport, State, Telemetry};
use crate::names::stand_out;
use crate::numbers::counted;
use crate::open::Evaluated;
use crate::row_folder::RowFolder;
use crate::setup::{RunEnd, RunSetup};
use crate::store::{Document, RunDir};
use crate::warning::{Warning, WarningCode};
use crate::{telemetry, verdict};

/// Rows are saved after so much time. With the time that they take on their way here and to the disk, no row is lost that
/// was there five seconds before a run is killed.
const SAVE_EVERY_NS: i64 = 2 * NS_PER_S;

/// Writes a run directory. Used by one thread; see [`Recorder::record`].
pub struct Recorder<S> {
    dir: RunDir,
    queries: RowFolder,
    /// Of clients that react; made with the first row.
    attempts: Option<RowFolder>,
    saved: RunTime,
    document: Document<S>,
    classes: Vec<String>,
    recorded: u64,
    lost: u64,
    broken: Option<String>,
}

impl<S: Serialize> Recorder<S> {
    /// Makes the run directory and writes a first `run.json` that says the run is running. `spec` is the run's specification; it is only kept.
    ///
    /// With `force` an older run in `dir` is replaced: only files that a run writes are removed.
    ///
    /// # Errors
    /// The directory exists and `force` is not given, or it holds something other than a run; or it cannot be written.
    pub fn create(dir: &Path, force: bool, setup: RunSetup, spec: S) -> Result<Self, ResultsError> {
        let dir = RunDir::new(dir);
        dir.make(force)?;
        let report = RunReport {
            state: State::Running,
            ldplayer: env!("CARGO_PKG_VERSION").to_owned(),
            started: setup.started.to_string(),
            trace_first: setup.trace_first.to_string(),
            speed_note: setup.speed_note,
            workers: setup.workers,
            config: setup.config,
            environment: setup.environment,
            expect: setup.expect,
            ..RunReport::default()
        };
        let document = Document::new(spec, report);
        dir.write(&document)?;
        let classes = setup.classes;
        let queries = RowFolder::create(dir.queries(), &classes)?;
        let saved = RunTime(0);
        Ok(Self { dir, queries, attempts: None, saved, document, classes, recorded: 0, lost: 0, broken: None })
    }

    /// Notes the wall clock at run time 0, which is known when the workers are ready, so that others can go by the run's clock.
    ///
    /// # Errors
    /// `run.json` cannot be written.
    pub fn begin(&mut self, started: TraceTime) -> Result<(), ResultsError> {
        self.document.report.started = started.to_string();
        self.dir.write(&self.document)
    }

    /// Adds outcomes of one shard, in about the order in which they ended. Called from one thread, in batches of some thousands.
    ///
    /// # Errors
    /// The rows cannot be written. What was saved before stays valid; the run should end now, and rows given after the
    /// first error are counted as lost.
    pub fn record(&mut self, shard: usize, outcomes: &[Outcome]) -> Result<(), ResultsError> {
        if self.broken.is_some() {
            self.lost += count_queries(outcomes);
            return Ok(());
        }
        self.recorded += count_queries(outcomes);
        let added = self.add(shard, outcomes);
        self.noted(added)
    }

    fn add(&mut self, shard: usize, outcomes: &[Outcome]) -> Result<(), ResultsError> {
        if outcomes.iter().all(|row| row.attempt.is_none()) {
            return self.queries.add(shard, outcomes);
        }
        let (attempts, queries): (Vec<_>, Vec<_>) = outcomes.iter().cloned().partition(|row| row.attempt.is_some());
        self.queries.add(shard, &queries)?;
        let folder = match &mut self.attempts {
            Some(folder) => folder,
            None => self.attempts.insert(RowFolder::create(self.dir.attempts(), &self.classes)?),
        };
        folder.add(shard, &attempts)
    }

    /// Saves all rows, if it is time to; to be called once or more a second, whether rows come or not.
    ///
    /// # Errors
    /// As for [`Self::record`].
    pub fn tick(&mut self, now: RunTime) -> Result<(), ResultsError> {
        if self.broken.is_some() || now - self.saved < SAVE_EVERY_NS {
            return Ok(());
        }
        self.saved = now;
        let saved = self.save(now);
        self.noted(saved)
    }

    fn save(&mut self, now: RunTime) -> Result<(), ResultsError> {
        self.folders().try_for_each(|folder| folder.save(now))
    }

    fn folders(&mut self) -> impl Iterator<Item = &mut RowFolder> {
        std::iter::once(&mut self.queries).chain(&mut self.attempts)
    }

    /// Keeps the first error.
    fn noted(&mut self, result: Result<(), ResultsError>) -> Result<(), ResultsError> {
        result.inspect_err(|error| {
            self.broken.get_or_insert_with(|| error.to_string());
        })
    }

    /// Ends the run: closes the files, reads the rows back for summary and verdict, writes `telemetry.parquet` and `run.json`.
    ///
    /// # Errors
    /// A file cannot be written or read back. As much of the directory as possible is complete then.
    pub fn finish(mut self, mut end: RunEnd) -> Result<Evaluated<S>, ResultsError> {
        self.dir.release_reserve();
        self.close_files();
        let telemetry = telemetry::write(&self.dir.telemetry(), &end.telemetry);
        let analysis = analysis::analyse(&self.dir, self.document.report.config.query_timeout_ns(), &end.limits)?;
        let lost = self.own_warning(analysis.summary.queries.sent + analysis.summary.queries.not_sent);
        let questions = end.questions.take();
        end.complete(&mut self.document.report, &analysis);
        let summary = &mut self.document.report.summary;
        summary.names = questions.map(|questions| stand_out(&self.dir, &questions, summary)).transpose()?;
        self.document.report.warnings.extend(lost);
        verdict::judge(&mut self.document.report, &analysis);
        self.dir.write(&self.document)?;
        telemetry?;
        Ok(Evaluated { document: self.document, analysis })
    }

    /// Says how many workers played the run, where they were on other hosts.
    pub(crate) const fn set_workers(&mut self, workers: usize) {
        self.document.report.workers = workers;
    }

    /// Saves the remaining rows, and waits until all are on the disk.
    fn close_files(&mut self) {
        let saved = if self.broken.is_none() { self.save(self.saved) } else { Ok(()) };
        // The error is kept in mind, and told with the rows that are lost.
        let _ = self.noted(saved);
        let closed: Vec<_> = self.folders().map(RowFolder::close).collect();
        for result in closed {
            let _ = self.noted(result);
        }
    }

    /// What happened to rows on their way to the disk. `kept` is how many queries were read back.
    fn own_warning(&self, kept: u64) -> Option<Warning> {
        let lost = (self.recorded + self.lost).saturating_sub(kept);
        let error = self.broken.as_deref()?;
        Some(Warning::new(
            WarningCode::RowsLost,
            format!("writing rows failed ({error}): {} no row", counted(lost, "query has", "queries have")),
        ))
    }
}

fn count_queries(outcomes: &[Outcome]) -> u64 {
    outcomes.iter().filter(|row| row.status.is_query() && row.attempt.is_none()).count() as u64
}

impl RunEnd {
    /// Completes the report with the facts known at the end of the run, besides the rows.
    fn complete(self, report: &mut RunReport, rows: &Analysis) {
        report.state = if self.interrupted { State::Interrupted } else { State::Complete };
        report.started = self.started.to_string();
        report.limits = self.limits;
        report.stalls = self.stalls;
        report.tally = Some(self.tally);
        report.summary = rows.summary.clone();
        if let (Some(unanswered), Some(first)) = (self.last_unanswered, rows.first_due) {
            let last = rows.last_answered.map_or(unanswered.0, |answered| answered.max(unanswered.0));
            report.summary.elapsed_s = last.saturating_sub(first).max(0) as f64 / NS_PER_S as f64;
        }
        report.summary.telemetry = Telemetry { replay: self.load, ..rows.telemetry(&report.summary) };
        report.summary.responses.receive_drops = self.receive_drops;
        report.summary.queries.add_unlisted(self.strays_unlisted);
        report.summary.link.clone_from(&self.link);
        report.summary.responses.kept = self.responses_kept;
        report.summary.nsid = self.nsid;
        report.summary.recorded = self.recorded;
        if let Some(compared) = &mut report.summary.answers_compared {
            compared.again = self.asked_again;
        }
        report.summary.queries.trace = Some(self.trace_queries);
        report.summary.queries.lost = self.lost.values().sum();
        report.summary.queries.lost_by_reason = self.lost;
        report.agents = self.agents;
        report.traces = self.traces;
        report.summary.clients.by_class = self.class_clients;
        if let Some(connections) = self.connections {
            report.summary.connections = connections;
        }
        report.config.keep_used(&report.summary.queries.sent_by_transport);
        report.warnings = self.warnings;
    }
}
