//! Shows what a run came to: as a page, as text, and while it lasts as metrics; several runs and an experiment side by side.
//!
//! ```text
//! Evaluated (run.json, figures of the rows) ─► page ─► report.html     RunReport ─► text
//!                        several of them ─► overlay ─► one page         Snapshot ─► metrics ─► GET /metrics
//!   cells of an experiment ─► many ─► report.html, tables                  Study ─► ratio ─► ratio.html, ratio.svg, text
//! ```
//!
//! Nothing here computes a figure: [`ldplayer_results`] computes all of them from the rows.
//!
//! # Files
//!
//! `figures.rs` is the table of the figures of a run's page, `curves.rs` the table of the curves that compare runs,
//! `axis.rs` what both draw them over. `export.rs` writes figures as files; `picture.rs` and `picture/` draw them. `page.rs` fills the template of a run's page with the parts in `page/` (`head.rs` what stands on top, `tables.rs`, `usage.rs`, `agents.rs`
//! and `answers.rs` its tables, `settings.rs` what was asked for); `page/overlay.rs` is the page of several runs, and `rewrite.rs` writes
//! pages of runs that ended before. `many.rs` gathers the cells of an experiment, `many/` shows them. `ratio.rs` and `ratio/` show the
//! study of response times over UDP and connections. `text.rs` is a run for a terminal, `summary.rs` a run in one line, `methods.rs` a run in sentences for a paper, `metrics.rs` a run that still goes on. `assets/` has
//! templates, styles and scripts of pages.

#![forbid(unsafe_code)]

pub mod axis;
mod curves;
mod export;
pub mod figures;
pub mod many;
mod methods;
pub mod metrics;
mod page;
pub mod picture;
pub mod ratio;
mod rewrite;
mod summary;
mod text;
pub mod xml;

use std::path::Path;

use ldplayer_results::store::RunDir;
use ldplayer_results::{Evaluated, ResultsError};

pub use curves::{Curves, read_curves};
pub use export::{Export, ExportError, Exported, csv_field, export_runs};
pub use methods::methods;
pub use rewrite::{rewrite_page, rewrite_pages};
pub use summary::{summary_line, summary_row};
pub use text::{AnswersText, RunText, without_late};

/// Writes `report.html` into the directory of a run that has just ended.
///
/// # Errors
/// The page cannot be written.
pub fn write_page<S>(dir: &Path, run: &Evaluated<S>) -> Result<(), ResultsError> {
    page::write(&RunDir::new(dir).page(), &run.document.report, &run.analysis)
}
