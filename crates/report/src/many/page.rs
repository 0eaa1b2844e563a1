//! The page of an experiment: one file with everything in it, that opens by a double click and asks no network.

use std::path::Path;

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::{Cell, Overview};
use crate::curves::{self, Needs, RunCurve};
use crate::page::{D3, FIGURES_SCRIPT, PLOT, STYLE, inside_script};
use crate::page::{environment, not_made};
use ldplayer_results::ResultsError;
use ldplayer_results::compare::{Comparison, Estimate, Outcome, Row as ComparedRow, SideSummary, Verdict, shown};
use ldplayer_results::numbers::counted;
use ldplayer_results::store;
use ldplayer_results::words;

const TEMPLATE: &str = include_str!("../../assets/many.html.j2");
const SCRIPT: &str = include_str!("../../assets/many.js");
/// Figures of the table of cells.
const COLUMNS: [&str; 7] = ["answered", "p50", "p99", "p999", "drift", "cpu", "memory"];

/// Figures that the box of the page may speak of, the one that matters most first.
const HEADLINES: [&str; 6] = ["answered", "lookup_failed", "lookup_p99", "p99", "p50", "cpu"];

/// Writes the page.
pub fn write(overview: &Overview, path: &Path) -> Result<(), ResultsError> {
    let data = Embedded { overview, figures: shown_curves(overview) };
    let data = serde_json::to_string(&data).map_err(ResultsError::json(path))?;
    let html = render(overview, &data).map_err(not_made(path))?;
    store::replace(path, html.as_bytes())
}

fn render(overview: &Overview, data: &str) -> Result<String, minijinja::Error> {
    let mut environment = environment(&(overview, data));
    // The name ends in .html, so everything that is not marked as safe is escaped.
    environment.add_template("many.html", TEMPLATE)?;
    let safe = |text: &str| Value::from_safe_string(text.to_owned());
    let columns: Vec<&str> = COLUMNS.into_iter().filter(|name| has(overview, name)).collect();
    environment.get_template("many.html")?.render(context! {
        style => safe(STYLE),
        scripts => [safe(D3), safe(PLOT), safe(FIGURES_SCRIPT), safe(SCRIPT)],
        data => safe(&inside_script(data)),
        overview => Value::from(Serde(overview)),
        count => overview.cells.len(),
        started => words::to_the_second(&overview.started),
        axes => overview.axes.iter().map(|(key, values)| format!("{key}: {}", values.join(", "))).collect::<Vec<_>>(),
        span => columns.len() + 3,
        gate => gate(overview),
        finding => finding(overview),
        watched => has(overview, "cpu"),
        figures => Value::from(Serde(shown_curves(overview))),
        rows => Value::from(Serde(rows(overview, &columns))),
        columns => columns.iter().map(|name| words::quantity(name)).collect::<Vec<_>>(),
        comparisons => Value::from(Serde(overview.comparisons.iter().map(told).collect::<Vec<_>>())),
    })
}

/// What the script of the page draws.
#[derive(Serialize)]
struct Embedded<'a> {
    #[serde(flatten)]
    overview: &'a Overview,
    figures: Vec<RunCurve>,
}

/// The curves of the page.
fn shown_curves(overview: &Overview) -> Vec<RunCurve> {
    let is_drawn = |id| overview.curves.by_id.get(id).is_some_and(|points| !points.is_empty());
    curves::shown(|needs| match needs {
        Needs::Nothing => true,
        Needs::Connections => is_drawn("connections"),
        Needs::Watched => has(overview, "cpu"),
        Needs::Lookups => is_drawn("retries"),
    })
}

fn has(overview: &Overview, quantity: &str) -> bool {
    overview.quantities.iter().any(|figures| figures.quantity == quantity)
}

/// Whether a quantity is the share of a response code.
fn is_rcode(quantity: &str) -> bool {
    ldplayer_results::rcode::code(quantity).is_some()
}

/// What became of the gate, in a word.
fn gate(overview: &Overview) -> &'static str {
    let is = |outcome| overview.gates.iter().any(|kept| kept.outcome == outcome);
    match (overview.gates.is_empty(), is(Outcome::Broken), is(Outcome::Undecided)) {
        (true, ..) => "none",
        (_, true, _) => "broken",
        (_, false, true) => "undecided",
        (_, false, false) => "held",
    }
}

/// What the box of the page says where no gate was given: of the differences that are not chance, the largest of the figure that matters most.
fn finding(overview: &Overview) -> String {
    let certain = || {
        let rows = overview.comparisons.iter().flat_map(|one| one.rows.iter().map(move |row| (one, row)));
        rows.filter(|(_, row)| matches!(row.verdict, Verdict::Better | Verdict::Worse))
    };
    let largest = |quantity: &&str| {
        let of = certain().filter(|(_, row)| row.quantity.to_string() == **quantity);
        of.max_by(|(_, one), (_, other)| factor(one).ln().abs().total_cmp(&factor(other).ln().abs()))
    };
    let label = |side: &SideSummary| {
        let cell = overview.cells.iter().find(|cell| cell.name == side.name);
        cell.map_or_else(|| side.name.clone(), |cell| cell.label.clone())
    };
    match HEADLINES.iter().find_map(largest) {
        Some((one, row)) => {
            let (figure, median) = (words::quantity(&row.quantity.to_string()), shown(row.unit, row.b.median));
            let by = match factor(row) {
                factor if factor.is_finite() && factor > 0.0 => format!("{factor:.2} × that of {}", label(&one.a)),
                _ => format!("{} has {}", label(&one.a), shown(row.unit, row.a.median)),
            };
            format!("{}: {figure} {median}, {by}", label(&one.b))
        }
        None if certain().next().is_some() => format!("{} figures differ", certain().count()),
        None if overview.comparisons.is_empty() => "nothing is compared".to_owned(),
        None => "no difference is certain".to_owned(),
    }
}

/// B's figure in A's.
fn factor(row: &ComparedRow) -> f64 {
    row.b.median / row.a.median
}

/// A row of the table of cells.
#[derive(Serialize)]
struct Row {
    name: String,
    runs: String,
    expected: String,
    /// Medians, and the ranges that hold them.
    cells: Vec<(String, String)>,
    /// Shares of response codes.
    rcodes: String,
    left_out: Vec<String>,
    warnings: Vec<String>,
}

fn rows(overview: &Overview, columns: &[&str]) -> Vec<Row> {
    let row = |(at, cell): (usize, &Cell)| Row {
        name: cell.label.clone(),
        runs: format!("{} of {}", cell.runs, cell.runs + cell.left_out.len()),
        expected: match cell.as_expected {
            (_, 0) => "—".to_owned(),
            (fine, of) => format!("{fine} of {of}"),
        },
        cells: columns.iter().map(|column| figure(overview, column, at)).collect(),
        rcodes: rcodes(overview, at),
        left_out: cell.left_out.clone(),
        warnings: cell.warnings.clone(),
    };
    overview.cells.iter().enumerate().map(row).collect()
}

/// The shares of the response codes that a cell has.
fn rcodes(overview: &Overview, cell: usize) -> String {
    let shares = overview.quantities.iter().filter(|figures| is_rcode(&figures.quantity)).filter_map(|figures| {
        let of = figures.cells.iter().find(|of| of.cell == cell)?;
        Some(format!("{} {}", figures.quantity.to_ascii_uppercase(), shown(figures.unit, of.estimate.median)))
    });
    shares.collect::<Vec<_>>().join(", ")
}

/// A figure of a cell, and the range that holds it.
fn figure(overview: &Overview, quantity: &str, cell: usize) -> (String, String) {
    let figures = overview.quantities.iter().find(|figures| figures.quantity == quantity);
    let found = figures.and_then(|figures| Some((figures.unit, figures.cells.iter().find(|of| of.cell == cell)?)));
    found.map_or(("—".to_owned(), String::new()), |(unit, of)| estimated(unit, of.estimate))
}

fn estimated(unit: &str, estimate: Estimate) -> (String, String) {
    let median = shown(unit, estimate.median);
    match estimate.interval {
        None => (median, String::new()),
        Some((low, high)) => (median, format!("{} to {}", shown(unit, low), shown(unit, high))),
    }
}

/// A side by its name, and its runs.
fn side(of: &SideSummary) -> String {
    format!("{} ({})", of.name, counted(of.runs as u64, "run", "runs"))
}

/// A comparison in words: its lines, and how many figures are the same or undecided.
#[derive(Serialize)]
struct ComparisonText {
    a: String,
    b: String,
    warnings: Vec<String>,
    lines: Vec<(&'static str, String)>,
    same: usize,
    undecided: usize,
}

fn told(comparison: &Comparison) -> ComparisonText {
    let class = |verdict| match verdict {
        Verdict::Better => Some("ok"),
        Verdict::Worse => Some("failed"),
        Verdict::Same | Verdict::Undecided => None,
    };
    let count = |verdict| comparison.rows.iter().filter(|row| row.verdict == verdict).count();
    ComparisonText {
        a: side(&comparison.a),
        b: side(&comparison.b),
        warnings: comparison.warnings.clone(),
        lines: comparison.rows.iter().filter_map(|row| Some((class(row.verdict)?, row.words.clone()))).collect(),
        same: count(Verdict::Same),
        undecided: count(Verdict::Undecided),
    }
}
