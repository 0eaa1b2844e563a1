//! `ldplayer compare`: what differs between runs, and whether a gate is broken.

mod answers;
mod junit;
mod markdown;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use ldplayer_experiment::Record;
use ldplayer_experiment::gate::{Gate, Undecided};
use ldplayer_experiment::sides::{self, Choice, KeyValue};
use ldplayer_results::ResultsError;
use ldplayer_results::compare::{self as comparing, Comparison, GateResult, Outcome};
use serde_json::json;

pub use self::text::gates;
use crate::failure::{Failure, UNDECIDED, VERDICT_FAILED};

/// Options of `compare`.
#[derive(clap::Args)]
#[command(after_help = "\
A and B are run directories, directories that hold repeats of a run, or experiments, which are
compared cell by cell. Within one experiment, --a and --b choose the cells; all other keys are
the same on both sides. Differences are judged by the spread of the repeats: a single run proves
nothing.

A gate is TOML, as in an experiment:
  [gate]
  keep = [\"p99 <= 1.10 x\", \"cpu <= 1.05 x\", \"nxdomain = 1.00 x +- 0.1 %\", \"answered >= 99 %\"]

Exit status: 0 every gate holds, or there is none; 1 a gate is broken; 4 no gate is broken, but
at least one is undecided because of noise: the output says how many more repeats it needs. With
undecided = \"warn\" in the gate that is 0, too.

Examples:
  ldplayer compare runs/old runs/new
  ldplayer compare runs/old runs/new --answers
  ldplayer compare runs/old runs/new --markdown --junit gates.xml >>summary.md
  ldplayer compare runs/servers --gate gate.toml \\
    --a server=nsd --b server=knot")]
pub struct Args {
    /// Baseline; or an experiment that has both sides
    #[arg(value_name = "A")]
    a: PathBuf,
    /// What to compare with it
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Cells of A: KEY=VALUE of the matrix; several must all hold
    #[arg(long = "a", value_name = "KEY=VALUE", value_parser = key_value)]
    of_a: Vec<KeyValue>,
    /// Cells of B
    #[arg(long = "b", value_name = "KEY=VALUE", value_parser = key_value)]
    of_b: Vec<KeyValue>,
    /// File with a `[gate]` that B must pass [default: the experiment's]
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// List the answers that changed, by domain, name and type, where both sides kept responses (replay --keep-responses)
    #[arg(long)]
    answers: bool,
    /// Include runs whose replay was not faithful
    #[arg(long)]
    with_unfaithful: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print Markdown, for the summary of a step in continuous integration
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Also write the gates to FILE as JUnit XML: a test for each
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

fn key_value(text: &str) -> Result<KeyValue, String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE, such as server=old")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let gate = match (&args.gate, &args.b) {
        (Some(file), _) => Some(Gate::load(file)?),
        (None, None) => own_gate(&args.a),
        (None, Some(_)) => None,
    };
    let choice = Choice { a: args.of_a.clone(), b: args.of_b.clone(), with_unfaithful: args.with_unfaithful };
    let pairs = match &args.b {
        Some(b) => sides::between(&args.a, b, &choice)?,
        None => sides::within(&args.a, &choice)?,
    };
    let compared =
        pairs.iter().map(|pair| Ok(Comparison { answers: comparing::answers(pair)?, ..comparing::compare(pair) }));
    let compared: Vec<Comparison> = compared.collect::<Result<_, ResultsError>>()?;
    let changes = pairs.iter().filter(|_| args.answers).map(answers::of).collect::<Result<Vec<_>, _>>()?;
    let undecided = gate.as_ref().map(|gate| gate.undecided).unwrap_or_default();
    let kept = gate.map(|gate| comparing::keep(&pairs, &gate.keep)).unwrap_or_default();
    if let Some(file) = &args.junit {
        let written = ldplayer_net::output::write(file, junit::document(&kept, undecided));
        written.with_context(|| format!("{}: cannot be written; choose another --junit FILE", file.display()))?;
    }
    match (args.json, args.markdown) {
        (true, _) => {
            let mut all = json!({ "comparisons": compared, "gates": kept });
            if args.answers {
                all["answers"] = serde_json::to_value(&changes)?;
            }
            crate::printing::json(&all)?;
        }
        (false, true) => markdown::print(&compared, &kept)?,
        (false, false) => text::print(&pairs, &compared, &kept)?,
    }
    if args.answers && !args.json {
        print_changes(&changes)?;
    }
    Ok(status(&kept, undecided))
}

/// Prints the answers that changed in each pair.
fn print_changes(changes: &[Option<answers::Changes>]) -> std::io::Result<()> {
    changes.iter().try_for_each(|changes| match changes {
        Some(changes) => answers::print(changes),
        None => {
            tell!("ldplayer: --answers: not both sides kept responses; replay with --keep-responses");
            Ok(())
        }
    })
}

/// The gate of an experiment.
pub fn own_gate(directory: &Path) -> Option<Gate> {
    // The reader of its runs has the error of the directory.
    let record = Record::read(directory).ok()?;
    Gate::in_text(&record.file).ok().flatten()
}

/// The exit status that follows from the gates.
pub fn status(kept: &[GateResult], undecided: Undecided) -> ExitCode {
    let has = |outcome| kept.iter().any(|kept| kept.outcome == outcome);
    match (has(Outcome::Broken), has(Outcome::Undecided)) {
        (true, _) => ExitCode::from(VERDICT_FAILED),
        (false, true) if !undecided.is_allowed => ExitCode::from(UNDECIDED),
        (false, _) => ExitCode::SUCCESS,
    }
}
