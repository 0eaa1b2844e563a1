//! Takes outcomes while a run lasts and ends it with a complete run directory.

use std::path::Path;
use std::sync::Arc;

use ldplayer_core::{Outcome, Status};
use serde::Serialize;

use crate::analysis;
use crate::error::ResultsError;
use crate::model::{RunReport, State};
use crate::rows::RowWriter;
use crate::setup::{RunEnd, RunSetup, Warning};
use crate::store::{Document, RunDir};
use crate::{page, telemetry, verdict};

/// Writes a run directory. Used by one thread; see [`Recorder::record`].
pub struct Recorder<S> {
    dir: RunDir,
    workers: Vec<RowWriter>,
    document: Document<S>,
    classes: Arc<[String]>,
    recorded: u64,
    lost: u64,
    broken: Option<String>,
}

impl<S: Serialize> Recorder<S> {
    /// Makes the run directory and writes a first `run.json` that says the run is running. `spec` is what was asked for; it is only kept.
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
        let classes: Arc<[String]> = setup.classes.into();
        let workers = (0..setup.workers).map(|worker| RowWriter::new(&dir.queries(), worker, Arc::clone(&classes)));
        let workers = workers.collect();
        Ok(Self { dir, workers, document, classes, recorded: 0, lost: 0, broken: None })
    }

    /// Adds outcomes of one worker, in about the order in which they ended. Called from one thread, in batches of some thousands.
    ///
    /// # Errors
    /// The rows cannot be written. What was written before stays valid; the run should end now, and rows given after the
    /// first error are counted as lost.
    pub fn record(&mut self, worker: usize, outcomes: &[Outcome]) -> Result<(), ResultsError> {
        if self.broken.is_some() {
            self.lost += count_queries(outcomes);
            return Ok(());
        }
        while self.workers.len() <= worker {
            let classes = Arc::clone(&self.classes);
            self.workers.push(RowWriter::new(&self.dir.queries(), self.workers.len(), classes));
        }
        self.recorded += count_queries(outcomes);
        self.workers[worker].add(outcomes).inspect_err(|error| self.broken = Some(error.to_string()))
    }

    /// The first error of writing rows, as one line; `None` while all is well.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Ends the run: closes the files, reads the rows back for summary and verdict, writes `telemetry.parquet`, `run.json` and `report.html`.
    ///
    /// # Errors
    /// A file cannot be written or read back. As much of the directory as possible is complete then.
    pub fn finish(mut self, end: RunEnd) -> Result<Document<S>, ResultsError> {
        self.dir.release_reserve();
        self.close_files();
        let telemetry = telemetry::write(&self.dir.telemetry(), &end.telemetry);
        let analysis = analysis::analyse(&self.dir, self.document.report.config.query_timeout_ns())?;
        let lost = self.own_warning(analysis.summary.queries.sent + analysis.summary.queries.not_sent);
        end.complete(&mut self.document.report, &analysis);
        self.document.report.warnings.extend(lost);
        verdict::judge(&mut self.document.report, &analysis);
        self.dir.write(&self.document)?;
        page::write(&self.dir.page(), &self.document.report, &analysis)?;
        telemetry?;
        Ok(self.document)
    }

    fn close_files(&mut self) {
        for worker in &mut self.workers {
            let closed = if self.broken.is_none() { worker.close() } else { Ok(()) };
            if let Err(error) = closed {
                self.broken = Some(error.to_string());
            }
            if self.broken.is_some() {
                worker.salvage();
            }
        }
    }

    /// What happened to rows on their way to the disk. `kept` is how many queries were read back.
    fn own_warning(&self, kept: u64) -> Option<Warning> {
        let lost = (self.recorded + self.lost).saturating_sub(kept);
        let error = self.broken.as_deref()?;
        Some(Warning::new(
            "rows_lost",
            format!("writing rows failed ({error}): {lost} queries have no row"),
            "free space or give another directory with -o, then repeat the run",
        ))
    }
}

fn count_queries(outcomes: &[Outcome]) -> u64 {
    outcomes.iter().filter(|outcome| Status::is_query(outcome.status)).count() as u64
}
