//! Opening the directory of an earlier run.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::analysis::{self, Analysis};
use crate::error::ResultsError;
use crate::model::{RunReport, State, Telemetry};
use crate::store::{Document, RunDir};
use crate::warning::{Warning, WarningCode};
use crate::{missing, verdict};

/// Reads what is known of a run that was asked for as an `S`; any JSON will do as one. Of a run that never ended, the rows that are
/// whole are counted now.
///
/// # Errors
/// The directory is not a run directory, or a file in it cannot be read.
pub fn read_document<S: DeserializeOwned>(dir: &Path) -> Result<Document<S>, ResultsError> {
    let dir = RunDir::new(dir);
    let mut document = dir.read::<S>()?;
    if document.report.state == State::Running {
        let analysis = analysis::analyse(&dir, document.report.config.query_timeout_ns(), &document.report.limits)?;
        count_again(&dir, &mut document.report, &analysis)?;
    }
    Ok(document)
}

/// A run with what its rows say.
#[derive(Debug)]
pub struct Evaluated<S> {
    /// `run.json`.
    pub document: Document<S>,
    /// What the rows say, figures included.
    pub analysis: Analysis,
}

/// Reads a run as [`read_document`] does, and its rows in any case.
///
/// # Errors
/// As [`read_document`].
pub fn evaluate<S: DeserializeOwned>(dir: &Path) -> Result<Evaluated<S>, ResultsError> {
    let dir = RunDir::new(dir);
    let mut document = dir.read::<S>()?;
    let analysis = analysis::analyse(&dir, document.report.config.query_timeout_ns(), &document.report.limits)?;
    if document.report.state == State::Running {
        count_again(&dir, &mut document.report, &analysis)?;
    }
    // A run of an earlier version has samples and no sum of them.
    if document.report.summary.telemetry == Telemetry::default() {
        document.report.summary.telemetry = analysis.telemetry(&document.report.summary);
    }
    Ok(Evaluated { document, analysis })
}

fn count_again(dir: &RunDir, report: &mut RunReport, analysis: &Analysis) -> Result<(), ResultsError> {
    report.summary = analysis.summary.clone();
    report.summary.telemetry = analysis.telemetry(&report.summary);
    report.config.keep_used(&report.summary.queries.sent_by_transport);
    report.warnings.push(Warning::new(
        WarningCode::IncompleteRun,
        "run.json says that the run is still going; it crashed, was killed, or is going now",
    ));
    report.warnings.push(missing::warning(dir)?);
    verdict::judge(report, analysis);
    Ok(())
}
