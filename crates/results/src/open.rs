//! Opening the directory of an earlier run.

use std::path::Path;

use crate::analysis::{self, Analysis};
use crate::error::ResultsError;
use crate::model::{RunReport, State};
use crate::setup::Warning;
use crate::store::RunDir;
use crate::{page, verdict};

/// Reads what is known of a run. Of a run that never ended, the rows that are whole are counted now.
///
/// # Errors
/// The directory is not that of a run, or a file in it cannot be read.
pub fn read_run(dir: &Path) -> Result<RunReport, ResultsError> {
    let dir = RunDir::new(dir);
    let report = dir.read_report()?;
    match report.state {
        State::Running => Ok(count_again(report, &analysis::analyse(&dir)?)),
        _ => Ok(report),
    }
}

/// Reads a run as [`read_run`] does and writes its page again, to `html` when given, else to `report.html` in the run.
///
/// # Errors
/// As [`read_run`]; or the page cannot be written.
pub fn rewrite_page(dir: &Path, html: Option<&Path>) -> Result<RunReport, ResultsError> {
    let dir = RunDir::new(dir);
    let report = dir.read_report()?;
    let analysis = analysis::analyse(&dir)?;
    let report = if report.state == State::Running { count_again(report, &analysis) } else { report };
    page::write(html.unwrap_or(&dir.page()), &report, &analysis)?;
    Ok(report)
}

fn count_again(mut report: RunReport, analysis: &Analysis) -> RunReport {
    report.summary = analysis.summary.clone();
    report.warnings.push(Warning::new(
        "incomplete_run",
        "run.json says that the run is still going; it crashed, was killed, or is going now",
        "wait for it, or repeat it; end a run early with Ctrl-C to keep everything",
    ));
    verdict::judge(&mut report, analysis);
    report
}
