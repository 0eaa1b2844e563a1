//! `ldplayer experiment`: a matrix of runs from one file.

mod print;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ldplayer_experiment::{Experiment, ExperimentError, Plan};

use crate::failure::Failure;

/// Options of `experiment`.
#[derive(clap::Args)]
#[command(after_help = "\
The file has the keys of a run (`ldplayer replay --print-spec`), servers that are started for each run
and ended with it, and a matrix: its cross product is the set of runs. Repeats are interleaved
(A B A B). Finished runs are not made again: the same command goes on where it was interrupted.

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

Example: what it will take, and then the runs
  ldplayer experiment servers.toml --dry-run
  ldplayer experiment servers.toml -o runs/servers")]
pub struct Args {
    /// The experiment, in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory of the experiment: its record and a directory for each run [default: runs/ and its name]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the plan and what it will take, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Make more than a thousand runs without being asked
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let experiment = Experiment::load(&args.file).map_err(failure)?;
    let directory = args.output.clone().unwrap_or_else(|| Path::new("runs").join(&experiment.name));
    if args.dry_run {
        return dry_run(experiment, &directory, args.json);
    }
    Err(anyhow!("experiment: only --dry-run is there yet").into())
}

/// Prints the plan. A generated trace is made elsewhere, so that nothing is left.
fn dry_run(experiment: Experiment, directory: &Path, json: bool) -> Result<ExitCode, Failure> {
    let scratch = tempfile::tempdir().context("cannot make a scratch directory; set TMPDIR to one with space")?;
    let plan = Plan::make(experiment, directory, scratch.path()).map_err(failure)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&print::plan_json(&plan))?);
    } else {
        print::plan(&plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The exit status of an experiment that could not be made.
fn failure(error: ExperimentError) -> Failure {
    if error.is_of_environment() { Failure::environment(error) } else { Failure::from(error) }
}
