//! `ldplayer compare`: what differs between runs, and whether a gate is broken.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ldplayer_core::text::counted;
use ldplayer_experiment::Record;
use ldplayer_experiment::gate::{Gate, Undecided};
use ldplayer_experiment::sides::{self, Choice, KeyValue};
use ldplayer_results::compare::{
    self as comparing, Comparison, Estimate, GateResult, Outcome, Pair, Row, SideSummary, Verdict, figure,
};
use ldplayer_results::{AnswersCompared, Quantity, ResultsError};
use serde_json::json;

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
    /// File with a `[gate]` that B must pass [default: that of the experiment]
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Include runs whose replay was not faithful
    #[arg(long)]
    with_unfaithful: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
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
    let undecided = gate.as_ref().map(|gate| gate.undecided).unwrap_or_default();
    let kept = gate.map(|gate| comparing::keep(&pairs, &gate.keep)).unwrap_or_default();
    if args.json {
        crate::printing::json(&json!({ "comparisons": compared, "gates": kept }))?;
    } else {
        print(&pairs, &compared, &kept)?;
    }
    Ok(status(&kept, undecided))
}

/// The gate of an experiment.
pub fn own_gate(directory: &Path) -> Option<Gate> {
    // What is wrong with the directory is told by what reads its runs.
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

/// Prints a sentence for each gate.
pub fn gates(out: &mut impl Write, kept: &[GateResult]) -> io::Result<()> {
    for gate in kept {
        let word = match gate.outcome {
            Outcome::Held => "held",
            Outcome::Broken => "BROKEN",
            Outcome::Undecided => "UNDECIDED",
        };
        write_line!(out, "gate       {word:9}  {}", gate.words)?;
    }
    Ok(())
}

fn print(pairs: &[Pair], compared: &[Comparison], kept: &[GateResult]) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    for (pair, comparison) in pairs.iter().zip(compared) {
        one(&mut out, pair, comparison)?;
    }
    gates(&mut out, kept)
}

fn one(out: &mut impl Write, pair: &Pair, comparison: &Comparison) -> io::Result<()> {
    side(out, "A", &comparison.a)?;
    side(out, "B", &comparison.b)?;
    if pair.interleaved {
        write_line!(out, "           repeats were made in turns (A B A B)")?;
    }
    comparison.warnings.iter().try_for_each(|warning| write_line!(out, "warning    {warning}"))?;
    comparison.unknown.iter().try_for_each(|line| write_line!(out, "not known  {line}"))?;
    let (of_a, of_b) = ("A: median [95 %]", "B: median [95 %]");
    write_line!(out, "{:15} {of_a:30} {of_b:30} {:28} {:10} verdict", "", "B against A", "A against A")?;
    comparison.rows.iter().try_for_each(|row| line(out, row))?;
    let told = comparison.rows.iter().filter(|row| row.verdict != Verdict::Same);
    told.clone().try_for_each(|row| write_line!(out, "  {}", row.words))?;
    if let Some(answers) = &comparison.answers {
        write_line!(out, "answers    of a run of B against one of A: {}", answered(&answers.of_b))?;
        let again = answers.of_a.iter();
        again.clone().try_for_each(|of_a| write_line!(out, "           of another run of A: {}", answered(of_a)))?;
    }
    let count = |verdict| comparison.rows.iter().filter(|row| row.verdict == verdict).count();
    let [better, worse, same, undecided] =
        [Verdict::Better, Verdict::Worse, Verdict::Same, Verdict::Undecided].map(count);
    write_line!(out, "compared   {better} better, {worse} worse, {same} the same, {undecided} undecided")?;
    write_line!(out, "")
}

/// How answers are to others, in words.
fn answered(found: &AnswersCompared) -> String {
    let AnswersCompared { compared, matching, better, worse, changed, not_comparable, .. } = found;
    format!(
        "{compared} compared: {matching} match, {better} better, {worse} worse, {changed} changed; {not_comparable} could not be compared"
    )
}

fn side(out: &mut impl Write, word: &str, side: &SideSummary) -> io::Result<()> {
    write_line!(out, "{word:10} {}: {}", side.name, counted(side.runs as u64, "run", "runs"))?;
    side.left_out.iter().try_for_each(|run| write_line!(out, "           left out: {run}"))
}

fn line(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let [a, b] = [row.a, row.b].map(|estimate| estimated(row.quantity, estimate));
    let change = row.change.map_or_else(|| "-".to_owned(), |change| change.to_string());
    let is_ratio = row.change.is_some_and(|change| change.is_ratio);
    let noise = row.noise_floor.map_or_else(
        || "-".to_owned(),
        |floor| if is_ratio { format!("{:.1} %", (floor - 1.0) * 100.0) } else { format!("{floor:.2} points") },
    );
    let verdict = match row.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::Same => "same",
        Verdict::Undecided => "undecided",
    };
    write_line!(out, "{:15} {a:30} {b:30} {change:28} {noise:10} {verdict}", row.quantity.to_string())
}

/// A median with its interval.
fn estimated(quantity: Quantity, estimate: Estimate) -> String {
    let median = figure(quantity, estimate.median);
    match estimate.interval {
        None => median,
        Some((low, high)) => format!("{median} [{}, {}]", figure(quantity, low), figure(quantity, high)),
    }
}
