//! Comparisons as text of 80 columns: first what the gates and the verdicts say, then the figures.

use std::io::{self, Write};

use ldplayer_core::text::counted;
use ldplayer_results::AnswersCompared;
use ldplayer_results::compare::{Comparison, GateResult, Outcome, Pair, Row, SideSummary, Verdict, figure};

/// Prints the gates, the broken ones first, and then the comparisons.
pub fn print(pairs: &[Pair], compared: &[Comparison], kept: &[GateResult]) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    gates(&mut out, kept)?;
    if !kept.is_empty() {
        write_line!(out, "")?;
    }
    for (at, (pair, comparison)) in pairs.iter().zip(compared).enumerate() {
        if at > 0 {
            write_line!(out, "")?;
        }
        one(&mut out, pair, comparison)?;
    }
    Ok(())
}

/// Prints a sentence for each gate, the broken ones first.
pub fn gates(out: &mut impl Write, kept: &[GateResult]) -> io::Result<()> {
    for gate in in_order(kept) {
        write_line!(out, "gate       {:9}  {}", word(gate.outcome), gate.words)?;
    }
    Ok(())
}

/// The gates: broken, undecided, held.
pub fn in_order(kept: &[GateResult]) -> Vec<&GateResult> {
    let mut kept: Vec<&GateResult> = kept.iter().collect();
    kept.sort_by_key(|gate| match gate.outcome {
        Outcome::Broken => 0,
        Outcome::Undecided => 1,
        Outcome::Held => 2,
    });
    kept
}

/// The word of an outcome.
pub const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::Broken => "BROKEN",
        Outcome::Undecided => "UNDECIDED",
    }
}

fn one(out: &mut impl Write, pair: &Pair, comparison: &Comparison) -> io::Result<()> {
    write_line!(out, "compared   {}", counts(comparison))?;
    side(out, "A", &comparison.a)?;
    side(out, "B", &comparison.b)?;
    if pair.interleaved {
        write_line!(out, "           repeats were made in turns (A B A B)")?;
    }
    comparison.warnings.iter().try_for_each(|warning| write_line!(out, "warning    {warning}"))?;
    let told = comparison.rows.iter().filter(|row| row.verdict != Verdict::Same);
    told.clone().try_for_each(|row| write_line!(out, "  {}", row.words))?;
    if let Some(answers) = &comparison.answers {
        write_line!(out, "answers    of a run of B against one of A: {}", answered(&answers.of_b))?;
        let again = answers.of_a.iter();
        again.clone().try_for_each(|of_a| write_line!(out, "           of another run of A: {}", answered(of_a)))?;
    }
    write_line!(out, "{:15} {:>12} {:>12}  {:26} verdict", "", "A: median", "B: median", "B against A")?;
    comparison.rows.iter().try_for_each(|row| line(out, row))?;
    comparison.unknown.iter().try_for_each(|line| write_line!(out, "not known  {line}"))
}

/// How many figures are what.
pub fn counts(comparison: &Comparison) -> String {
    let count = |verdict| comparison.rows.iter().filter(|row| row.verdict == verdict).count();
    let [better, worse, same, undecided] =
        [Verdict::Better, Verdict::Worse, Verdict::Same, Verdict::Undecided].map(count);
    format!("{better} better, {worse} worse, {same} the same, {undecided} undecided")
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
    let [a, b] = [row.a, row.b].map(|estimate| figure(row.quantity, estimate.median));
    let change = row.change.map_or_else(|| "-".to_owned(), |change| change.to_string());
    write_line!(out, "{:15} {a:>12} {b:>12}  {change:26} {}", row.quantity.to_string(), verdict(row.verdict))
}

/// The word of a verdict.
pub const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::Same => "same",
        Verdict::Undecided => "undecided",
    }
}
