//! Comparisons as Markdown, for the summary of a step in continuous integration.

use std::io::{self, Write};

use ldplayer_core::text::counted;
use ldplayer_results::Quantity;
use ldplayer_results::compare::{Comparison, Estimate, GateResult, Row, figure};

use super::text::{counts, in_order, verdict, word};

/// Prints the gates, and a table for each comparison.
pub fn print(compared: &[Comparison], kept: &[GateResult]) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    if !kept.is_empty() {
        write_line!(out, "| gate | |")?;
        write_line!(out, "|---|---|")?;
        in_order(kept)
            .iter()
            .try_for_each(|gate| write_line!(out, "| {} | {} |", word(gate.outcome), cell(&gate.words)))?;
        write_line!(out, "")?;
    }
    compared.iter().try_for_each(|comparison| one(&mut out, comparison))
}

fn one(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    let (a, b) = (&comparison.a, &comparison.b);
    let runs = |count: usize| counted(count as u64, "run", "runs");
    write_line!(
        out,
        "**{}** — A: {} ({}), B: {} ({})",
        counts(comparison),
        cell(&a.name),
        runs(a.runs),
        cell(&b.name),
        runs(b.runs)
    )?;
    write_line!(out, "")?;
    write_line!(out, "| figure | A: median [95 %] | B: median [95 %] | B against A | A against A | verdict |")?;
    write_line!(out, "|---|---|---|---|---|---|")?;
    comparison.rows.iter().try_for_each(|row| line(out, row))?;
    write_line!(out, "")?;
    let left_out = [a, b].into_iter().flat_map(|side| side.left_out.iter().map(|run| format!("left out: {run}")));
    let unknown = comparison.unknown.iter().map(|line| format!("not known: {line}"));
    let warnings = comparison.warnings.iter().map(|line| format!("warning: {line}"));
    let mut lines = warnings.chain(left_out).chain(unknown);
    lines.try_for_each(|line| write_line!(out, "- {}", cell(&line)))?;
    write_line!(out, "")
}

fn line(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let [a, b] = [row.a, row.b].map(|estimate| estimated(row.quantity, estimate));
    let change = row.change.map_or_else(|| "-".to_owned(), |change| change.to_string());
    let is_ratio = row.change.is_some_and(|change| change.is_ratio);
    let noise = row.noise_floor.map_or_else(
        || "-".to_owned(),
        |floor| if is_ratio { format!("{:.1} %", (floor - 1.0) * 100.0) } else { format!("{floor:.2} points") },
    );
    write_line!(out, "| {} | {a} | {b} | {change} | {noise} | {} |", row.quantity, verdict(row.verdict))
}

/// A median with its interval.
fn estimated(quantity: Quantity, estimate: Estimate) -> String {
    let median = figure(quantity, estimate.median);
    match estimate.interval {
        None => median,
        Some((low, high)) => format!("{median} [{}, {}]", figure(quantity, low), figure(quantity, high)),
    }
}

/// Text that ends no cell and begins no markup.
fn cell(text: &str) -> String {
    let is_markup = |c: char| "|<>*_`[]\\".contains(c);
    text.chars()
        .flat_map(|c| is_markup(c).then_some('\\').into_iter().chain([if c.is_control() { ' ' } else { c }]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cells_cannot_become_markup() {
        assert_eq!(cell("a|b <script> *c*\n"), "a\\|b \\<script\\> \\*c\\* ");
        assert_eq!(cell("p99 <= 1.1 x"), "p99 \\<= 1.1 x");
    }
}
