//! Made-up runs with their pages.
#![allow(dead_code, unused_imports, reason = "every test uses another part")]

#[path = "../../../results/tests/common/mod.rs"]
mod made_up;

use std::path::Path;

use ldplayer_core::Outcome;
use ldplayer_report::write_page;
use ldplayer_results::{Recorder, RunEnd, RunReport};

pub use made_up::*;

/// As [`made_up::run`], with a page.
pub fn run(dir: &Path, rows: Vec<Outcome>) -> RunReport {
    with_page(dir, made_up::run(dir, rows))
}

/// As [`made_up::run_to`], with a page.
pub fn run_to(dir: &Path, rows: Vec<Outcome>, end: RunEnd) -> RunReport {
    with_page(dir, made_up::run_to(dir, rows, end))
}

/// Ends a run and writes its page.
pub fn finish(dir: &Path, recorder: Recorder<&str>, end: RunEnd) -> RunReport {
    let evaluated = recorder.finish(end).expect("the run ends well");
    write_page(dir, &evaluated).expect("a page");
    evaluated.document.report
}

fn with_page(dir: &Path, report: RunReport) -> RunReport {
    ldplayer_report::rewrite_page::<String>(dir, None).expect("a page");
    report
}
