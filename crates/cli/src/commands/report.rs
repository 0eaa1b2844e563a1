//! `ldplayer report`: says what a run was like, and writes its page again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ldplayer_experiment::{Record, overview};
use ldplayer_report::{rewrite_page, rewrite_pages, without_late};
use ldplayer_results::{Document, join_names, read_document};
use ldplayer_run::questions;
use serde_json::Value;

use super::compare;
use super::replay::print_report;
use super::summary::{self, Form};
use crate::failure::{Failure, VERDICT_FAILED};
use crate::printing;

/// The page of several runs.
const COMPARED: &str = "report-compare.html";

/// Options of `report`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ldplayer report runs/today --json | jq .summary.latency_ms.from_sent
  ldplayer report runs/nsd runs/knot --html nsd-knot.html
  ldplayer report runs/nsd runs/knot --summary csv >figures.csv
  ldplayer report runs/servers --export figures")]
pub struct Args {
    /// Run directories, as made by `replay -o`, whose curves are laid over one another; or the directory of an experiment
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print run.json instead of text, or an array of them for several runs
    #[arg(long)]
    json: bool,
    /// Print the figures of each run in one line instead of text: line, csv or json
    #[arg(long, value_name = "FORM", conflicts_with = "json", hide_possible_values = true)]
    summary: Option<Form>,
    /// Write the page here [default: RUN/report.html; of several runs report-compare.html beside the first]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write figures and tables of an experiment here: JSON, CSV, SVG, PNG
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Show the latency without queries that were late, too: what lateness may have changed
    #[arg(long)]
    without_late: bool,
    /// Read the traces of the runs again for the names that were slow, failed or got no answer, and keep them in run.json. A run
    /// of up to four million queries does so at its end
    #[arg(long)]
    names: bool,
    /// Read the names from this file, where the trace of the run is no longer where it was
    #[arg(long, value_name = "FILE", requires = "names")]
    trace: Option<PathBuf>,
    /// Count runs of an experiment, too, whose replay was not faithful
    #[arg(long)]
    with_unfaithful: bool,
}

/// Runs the command: exit status 1 when a run's verdict is not ok.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if let [directory] = args.runs.as_slice()
        && directory.join("experiment.json").exists()
    {
        if args.names {
            return Err(anyhow::anyhow!(
                "--names reads the trace of a run: give its directory, below that of the experiment"
            )
            .into());
        }
        if args.summary.is_some() {
            return Err(
                anyhow::anyhow!("--summary prints runs: give their directories, below that of the experiment").into()
            );
        }
        return of_experiment(directory, &args);
    }
    if args.export.is_some() {
        return Err(anyhow::anyhow!("--export writes the figures of one experiment: give its directory").into());
    }
    if args.names {
        args.runs.iter().try_for_each(|run| read_names(run, args.trace.as_deref()))?;
    }
    let (reports, laid) = match args.runs.as_slice() {
        [run] => (vec![rewrite_page::<Value>(run, args.html.as_deref())?], None),
        [first, ..] => {
            let page = args.html.clone().unwrap_or_else(|| beside(first));
            (rewrite_pages(&args.runs, &page)?, Some(page))
        }
        [] => (Vec::new(), None),
    };
    match args.summary {
        Some(form) => {
            let reports = reports.iter().map(|document| &document.report);
            summary::print(form, &args.runs.iter().map(PathBuf::as_path).zip(reports).collect::<Vec<_>>())?;
        }
        None if args.json => match reports.as_slice() {
            [only] => printing::json(only)?,
            runs => printing::json(&runs)?,
        },
        None => print_text(&args, &reports)?,
    }
    let is_text = args.summary.is_none() && !args.json;
    match laid {
        Some(page) if is_text => say!("report: {}", page.display())?,
        Some(page) => tell!("report: {}", page.display()),
        None => {}
    }
    Ok(status(&reports))
}

/// Prints what each run was like.
fn print_text(args: &Args, reports: &[Document<Value>]) -> std::io::Result<()> {
    for (run, run_report) in args.runs.iter().zip(reports) {
        let page = args.html.clone().unwrap_or_else(|| run.join("report.html"));
        say!("{}", run.display())?;
        print_report(&run_report.report, &page)?;
        if args.without_late {
            say!("latency    {}", without_late(&run_report.report))?;
        }
    }
    Ok(())
}

/// Joins the rows of a run with the names of its trace.
fn read_names(run: &Path, trace: Option<&Path>) -> Result<(), Failure> {
    let questions = questions(run, &read_document(run)?, trace)?;
    Ok(join_names(run, &questions)?)
}

/// Where the page of several runs goes: beside the first, whatever way it is named.
fn beside(run: &Path) -> PathBuf {
    let whole = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let named = run.parent().filter(|_| run.file_name().is_some());
    named.map_or_else(|| whole.parent().unwrap_or(&whole).to_owned(), Path::to_owned).join(COMPARED)
}

/// Page and figures of an experiment; the exit status is its gate's.
fn of_experiment(directory: &Path, args: &Args) -> Result<ExitCode, Failure> {
    let overview = overview(directory, &Record::read(directory)?, args.with_unfaithful)?;
    let page = args.html.clone().unwrap_or_else(|| directory.join("report.html"));
    overview.write_page(&page)?;
    if let Some(figures) = &args.export {
        overview.export(figures)?;
    }
    let mut out = crate::printing::stdout();
    if args.json {
        printing::json(&overview)?;
    } else {
        compare::gates(&mut out, &overview.gates)?;
        write_line!(out, "report: {}", page.display())?;
        args.export.iter().try_for_each(|figures| write_line!(out, "figures: {}", figures.display()))?;
    }
    let undecided = compare::own_gate(directory).map(|gate| gate.undecided).unwrap_or_default();
    Ok(compare::status(&overview.gates, undecided))
}

fn status(runs: &[Document<Value>]) -> ExitCode {
    match runs.iter().all(|run| run.report.verdict.passes()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(VERDICT_FAILED),
    }
}
