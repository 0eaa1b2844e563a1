//! `ldplayer experiment`: a matrix of runs from one file.

mod print;
pub mod screen;
pub mod searches;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ldplayer_core::Cidr;
use ldplayer_core::text::counted;
use ldplayer_emulate::stock::Kind;
use ldplayer_experiment::find::Ended;
use ldplayer_experiment::gate::Undecided;
use ldplayer_experiment::{
    CellSummary, Experiment, ExperimentError, MANY_RUNS, Options, Plan, Record, Replayer, RunState, ServerTable,
    Watcher, Workspace, execute, overview, summary,
};
use ldplayer_net::signals::INTERRUPTED;
use ldplayer_results::compare::{GateResult, Outcome};
use screen::{Screen, Shown};

use super::compare;
use super::replay::ClusterArgs;
use crate::failure::{Failure, VERDICT_FAILED};
use crate::printing::{self, to_stderr};

/// Options of `experiment`.
#[derive(clap::Args)]
#[command(after_help = "\
The file has the keys of a run (`ldplayer replay --print-spec`), servers that are started for each
run and stopped after it, and a matrix whose cross product is the set of runs. Repeats are
interleaved (A B A B). Finished runs are not repeated: the same command resumes the experiment.

  trace = \"capture.pcap.xz\"
  repeats = 5
  [server.nsd]
  kind = \"nsd\"
  zones = \"zones/\"
  [server.knot]
  kind = \"knot\"
  zones = \"zones/\"
  [matrix]
  transport = [\"udp\", \"tcp\"]
  [expect]
  all = [\"answered >= 99.9 %\", \"p99 <= 20ms\"]

With [find], each cell searches for the highest load at which its criteria hold (MLRsearch):

  [find]
  what = \"qps\"                       # or \"clients\", \"connections\"
  while = [\"answered >= 99.9 %\", \"p99 <= 50ms\"]
  width = \"2 %\"

Example: what it will take, and then the runs
  ldplayer experiment servers.toml --dry-run
  ldplayer experiment servers.toml -o runs/servers")]
pub struct Args {
    /// The experiment (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory for the record and the runs [default: runs/ and the experiment's name]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Allow sending to these addresses of other hosts; permission in the file does not count
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    allow_target: Vec<Cidr>,
    /// Print the plan and how long it will take, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before more than a thousand runs
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value = "auto")]
    progress: Shown,
    /// Print errors only: no progress, no summary
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let experiment = Experiment::load(&args.file).map_err(failure)?;
    let directory = args.output.clone().unwrap_or_else(|| Path::new("runs").join(&experiment.name));
    if args.dry_run {
        return dry_run(experiment, &directory, args.json);
    }
    ask_about_many(&experiment, args.yes)?;
    let shown = if args.quiet { Shown::Off } else { args.progress };
    if experiment.find.is_some() {
        return searched(experiment, &directory, shown, args);
    }
    let mut screen = Screen::new(shown).map_err(Failure::environment)?;
    let workspace = Workspace::open(&directory).map_err(failure)?;
    let mut plan = Plan::make(experiment, &directory, &directory.join("traces")).map_err(failure)?;
    let added = workspace.before.as_ref().map_or(0, |before| added(&plan, before));
    plan.repeat(added);
    tell_what_starts(&plan);
    let options = options(&args.allow_target, args.replayer()?)?;
    let mut record = execute(&plan, workspace, &options, &mut screen).map_err(failure)?;
    let mut page = overview(&plan.directory, &record, false);
    let undecided = plan.experiment.gate.as_ref().map(|gate| gate.undecided).unwrap_or_default();
    let gates = page.as_ref().map_or(&[][..], |page| &page.gates);
    let counting = least_share_that_counts(&record);
    if let Some(more) = more_repeats(undecided, gates, counting).filter(|_| added == 0 && !screen.is_stopped()) {
        screen.tell(&format!("undecided: {} of each cell", counted(more.into(), "more repeat", "more repeats")));
        plan.repeat(more);
        let workspace = Workspace::open(&directory).map_err(failure)?;
        record = execute(&plan, workspace, &options, &mut screen).map_err(failure)?;
        page = overview(&plan.directory, &record, false);
    }
    let cells = summary(&plan, &record).map_err(failure)?;
    let written = page.as_ref().map_or(Ok(()), |page| page.write_page(&plan.directory.join("report.html")));
    let kept = page.as_ref().map_or(&[][..], |page| &page.gates);
    if args.json {
        printing::json(&print::summary_json(&plan, &record, &cells, kept))?;
    } else if !args.quiet {
        print::summary(&plan, &record, &cells, kept)?;
    }
    let ended = match status(&plan, &record, &cells) {
        made if made == ExitCode::SUCCESS => compare::status(kept, undecided),
        failed => failed,
    };
    // Results are printed before errors about their figures.
    page?;
    written?;
    Ok(ended)
}

/// Repeats that an earlier call added to those of the file. They are not added to once more: to repeat until a gate holds, and to stop then, would
/// favour that it holds.
fn added(plan: &Plan, before: &Record) -> u32 {
    match &plan.experiment.gate {
        Some(gate) if gate.undecided.repeats > 0 => before.repeats_made().saturating_sub(plan.experiment.repeats),
        _ => 0,
    }
}

/// How many repeats would decide the undecided conditions, if only this share of them counts, as far as they may be added.
fn more_repeats(undecided: Undecided, gates: &[GateResult], counting: f64) -> Option<u32> {
    let open = gates.iter().filter(|gate| gate.outcome == Outcome::Undecided).filter_map(|gate| gate.more_repeats);
    let to_make = |more: u32| (f64::from(more) / counting - 1e-9).ceil() as u32;
    open.max().map(|more| to_make(more).min(undecided.repeats)).filter(|&more| more > 0)
}

/// The share of the repeats whose replay was faithful, of the cell where it is least.
fn least_share_that_counts(record: &Record) -> f64 {
    let shares = record.cells.iter().map(|cell| {
        let made = record.counted_of(cell);
        let done = made.values().filter(|run| run.state == RunState::Done).count();
        if made.is_empty() { 1.0 } else { done as f64 / made.len() as f64 }
    });
    shares.fold(1.0, f64::min)
}

impl Args {
    /// Who makes the replays: this process, or agents.
    fn replayer(&self) -> Result<Option<Arc<dyn Replayer>>, Failure> {
        let cluster = self.cluster.resolved(false)?;
        if cluster.nats.is_none() {
            return Ok(None);
        }
        Ok(Some(Arc::new(cluster.replayer(cluster.hosts(&self.allow_target)?)?)))
    }
}

/// Says which programs and commands the file starts, before any of them is started.
fn tell_what_starts(plan: &Plan) {
    let mut all: Vec<String> = Vec::new();
    for cell in &plan.experiment.cells {
        let servers = cell.stage.server.iter().chain(&cell.stage.backend).filter(|server| server.kind != Kind::ADDRESS);
        let program = |server: &ServerTable| match (&server.command, &server.program) {
            (Some(command), _) if server.ready_made.is_none() => format!("`{command}`"),
            (_, Some(program)) => format!("{} ({})", server.kind_name(), program.display()),
            _ => server.kind_name().to_owned(),
        };
        all.extend(servers.map(program));
        all.extend(cell.spec.start_server.iter().map(|command| format!("`{command}`")));
    }
    all.sort_unstable();
    all.dedup();
    if !all.is_empty() {
        tell!("ldplayer: {} starts {}", plan.experiment.name, all.join(", "));
    }
}

/// What a call allows, and who replays.
pub fn options(allow_target: &[Cidr], replayer: Option<Arc<dyn Replayer>>) -> Result<Options, Failure> {
    Ok(Options {
        ldplayer: std::env::current_exe().context("experiment: this program's own file")?,
        replace: false,
        command_line: crate::arguments::given(),
        allow_target: allow_target.to_vec(),
        replayer,
    })
}

/// Makes the searches of an experiment.
pub fn search(
    experiment: Experiment,
    directory: &Path,
    shown: Shown,
    options: &Options,
) -> Result<(Plan, Record), Failure> {
    let mut screen = Screen::new(shown).map_err(Failure::environment)?;
    let workspace = Workspace::open(directory).map_err(failure)?;
    let plan = Plan::make(experiment, directory, &directory.join("traces")).map_err(failure)?;
    tell_what_starts(&plan);
    let record = execute(&plan, workspace, options, &mut screen).map_err(failure)?;
    Ok((plan, record))
}

/// Makes searches and prints their results.
fn searched(experiment: Experiment, directory: &Path, shown: Shown, args: &Args) -> Result<ExitCode, Failure> {
    let options = options(&args.allow_target, args.replayer()?)?;
    let (plan, record) = search(experiment, directory, shown, &options)?;
    if args.json {
        printing::json(&searches::json(&plan, &record))?;
    } else if !args.quiet {
        searches::print(&plan, &record)?;
    }
    Ok(found(&record))
}

/// The exit status of searches: 0 if each found its limit.
pub fn found(record: &Record) -> ExitCode {
    let mut ends = record.searches.iter().map(|search| &search.result.ended);
    if ends.clone().any(|ended| *ended == Ended::Interrupted) {
        return ExitCode::from(INTERRUPTED);
    }
    if ends.all(Ended::is_answer) { ExitCode::SUCCESS } else { ExitCode::from(VERDICT_FAILED) }
}

/// The exit status that follows from the runs.
fn status(plan: &Plan, record: &Record, cells: &[CellSummary]) -> ExitCode {
    if plan.slots.iter().any(|slot| record.counted(plan, *slot).is_none_or(|run| run.state == RunState::Interrupted)) {
        return ExitCode::from(INTERRUPTED);
    }
    let is_fine = |cell: &CellSummary| {
        cell.runs == cell.repeats && cell.replay.passed == cell.replay.of && cell.server.passed == cell.server.of
    };
    if cells.iter().all(is_fine) { ExitCode::SUCCESS } else { ExitCode::from(VERDICT_FAILED) }
}

/// Asks whether so many runs are meant, on a terminal; elsewhere `--yes` says so.
fn ask_about_many(experiment: &Experiment, yes: bool) -> Result<(), Failure> {
    let runs = experiment.cells.len() * experiment.repeats as usize;
    if runs <= MANY_RUNS || yes {
        return Ok(());
    }
    let cells = counted(experiment.cells.len() as u64, "cell", "cells");
    let what =
        format!("the matrix makes {runs} runs ({cells} x {})", counted(experiment.repeats.into(), "repeat", "repeats"));
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(anyhow!("{what}: add --yes if all of them are meant, or see them with --dry-run").into());
    }
    to_stderr(format_args!("{what}: make all of them? [y/N] "));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(anyhow!("{what}: not made").into()),
    }
}

/// Prints the plan. A generated trace is made elsewhere, so that nothing is left.
fn dry_run(experiment: Experiment, directory: &Path, json: bool) -> Result<ExitCode, Failure> {
    let scratch = tempfile::tempdir().context("cannot make a scratch directory; set TMPDIR to one with space")?;
    let plan = Plan::make(experiment, directory, scratch.path()).map_err(failure)?;
    if json {
        printing::json(&print::plan_json(&plan))?;
    } else {
        print::plan(&plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit status of an experiment that could not be made.
fn failure(error: ExperimentError) -> Failure {
    if error.is_of_environment() { Failure::environment(error) } else { Failure::from(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where two of six replays counted, one more was made, and the gate stayed undecided for want of a third.
    #[test]
    fn more_repeats_are_made_where_some_do_not_count() {
        let gate = |more| GateResult {
            keep: "p99 <= 1.3 x".parse().unwrap(),
            a: String::new(),
            b: String::new(),
            outcome: Outcome::Undecided,
            change: None,
            more_repeats: Some(more),
            words: String::new(),
        };
        let undecided = Undecided { is_allowed: true, repeats: 10 };
        let made = |more, counting| more_repeats(undecided, &[gate(more)], counting);
        assert_eq!((made(1, 1.0), made(1, 2.0 / 6.0)), (Some(1), Some(3)));
        assert_eq!((made(2, 0.0), made(40, 1.0), made(0, 1.0)), (Some(10), Some(10), None));
    }
}
