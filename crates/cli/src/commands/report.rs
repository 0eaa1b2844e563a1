//! `ldplayer report`: says what a run was like, and writes its page again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ldplayer_experiment::{Record, overview};
use ldplayer_report::picture::{Look, Size, Style};
use ldplayer_report::{Export, Exported, export_runs, methods, rewrite_page, rewrite_pages, without_late};
use ldplayer_results::numbers::counted;
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
  ldplayer report runs/today --export figures --figure latency_time,rcodes \\
    --style paper --size 3.3in
  ldplayer report runs/today --methods
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
    /// Print what was run, how it was measured and what is left out, in sentences for the methods of a paper
    #[arg(long, conflicts_with_all = ["json", "summary"])]
    methods: bool,
    /// Write the page here [default: RUN/report.html; of several runs report-compare.html beside the first]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the figures here as SVG, PDF, PNG and CSV, with captions; of an experiment its tables, too
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Write these figures only, by the names of their files [default: all that have something to show]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "export")]
    figure: Vec<String>,
    /// Pictures for a screen, with titles, or for a paper: small letters, no titles, dashes beside colours
    #[arg(long, value_name = "STYLE", requires = "export", default_value = "screen")]
    style: Style,
    /// Width of pictures, or width and height, such as 3.3in, 8.5cm or 7x2.5in [default: 900px; for papers 3.3in]
    #[arg(long, value_name = "SIZE", requires = "export")]
    size: Option<Size>,
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
        None if args.methods => {
            for (number, run) in reports.iter().enumerate() {
                if number > 0 {
                    say!("")?;
                }
                say!("{}", methods(&run.report))?;
            }
        }
        None if args.json => match reports.as_slice() {
            [only] => printing::json(only)?,
            runs => printing::json(&runs)?,
        },
        None => print_text(&args, &reports)?,
    }
    let is_text = args.summary.is_none() && !args.json && !args.methods;
    match laid {
        Some(page) if is_text => say!("report: {}", page.display())?,
        Some(page) => tell!("report: {}", page.display()),
        None => {}
    }
    if let Some(directory) = &args.export {
        let line = told(directory, &export_runs(&args.runs, directory, &args.wanted())?);
        if is_text {
            say!("{line}")?;
        } else {
            tell!("{line}");
        }
    }
    Ok(status(&reports))
}

impl Args {
    /// The figures that are wanted, and how.
    fn wanted(&self) -> Export {
        Export { figures: self.figure.clone(), look: Look { style: self.style, size: self.size } }
    }
}

/// Where figures were written. Those that were asked for and have nothing to show are told at once.
fn told(directory: &Path, exported: &Exported) -> String {
    for (name, why) in &exported.empty {
        tell!("{name}: {why}");
    }
    format!("figures: {} ({})", directory.display(), counted(exported.written.len() as u64, "figure", "figures"))
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
    let exported = args.export.as_ref().map(|figures| overview.export(figures, &args.wanted())).transpose()?;
    let mut out = crate::printing::stdout();
    if args.json {
        printing::json(&overview)?;
    } else if args.methods {
        write_line!(out, "{}", overview.methods())?;
    } else {
        compare::gates(&mut out, &overview.gates)?;
        write_line!(out, "report: {}", page.display())?;
        let told = args.export.iter().zip(&exported).map(|(figures, exported)| told(figures, exported));
        told.into_iter().try_for_each(|line| write_line!(out, "{line}"))?;
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
