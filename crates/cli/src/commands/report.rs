//! `ldplayer report`: says what a run was like, and writes its page again.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use ldplayer_results::Document;
use serde_json::Value;

use crate::failure::{Failure, VERDICT_FAILED};

/// Options of `report`.
#[derive(clap::Args)]
#[command(after_help = "Example: ldplayer report runs/today --json | jq .summary.latency_ms.from_sent")]
pub struct Args {
    /// Run directories, as made by `replay -o`
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print run.json instead of text, or an array of them for several runs
    #[arg(long)]
    json: bool,
    /// Write the page here instead of to RUN/report.html; for one run only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command: exit status 1 when a run's verdict is not ok.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.html.is_some() && args.runs.len() > 1 {
        return Err(anyhow::anyhow!(
            "--html takes the page of one run, but {} are given; leave it out",
            args.runs.len()
        )
        .into());
    }
    let rewrite = |run: &PathBuf| ldplayer_results::rewrite_page::<Value>(run, args.html.as_deref());
    let reports = args.runs.iter().map(rewrite).collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        write_json(&mut out, &reports)?;
    } else {
        for (run, run_report) in args.runs.iter().zip(&reports) {
            writeln!(out, "{}\n{}", run.display(), run_report.report)?;
        }
    }
    Ok(status(&reports))
}

fn write_json(out: &mut impl Write, runs: &[Document<Value>]) -> Result<(), Failure> {
    match runs {
        [only] => serde_json::to_writer_pretty(&mut *out, only)?,
        _ => serde_json::to_writer_pretty(&mut *out, runs)?,
    }
    writeln!(out)?;
    Ok(())
}

fn status(runs: &[Document<Value>]) -> ExitCode {
    match runs.iter().all(|run| run.report.verdict.passes()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(VERDICT_FAILED),
    }
}
