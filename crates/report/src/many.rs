//! What many runs came to: cells of an experiment with their figures over repeats, for its page and for its exports.

mod charts;
mod export;
mod merge;
mod methods;
mod page;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::curves::{Curves, RunCurve};
use crate::export::{Export, ExportError, Exported};
use ldplayer_results::ResultsError;
use ldplayer_results::compare::{Comparison, Estimate, GateResult, Side, estimate_of, quantities_of, unit, warned};
use ldplayer_results::words;

/// Points of a curve over time.
const TIME_POINTS: usize = 120;

/// What an experiment came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// Its name.
    pub name: String,
    /// Version of ldplayer that made it.
    pub ldplayer: String,
    /// When it was begun, RFC 3339.
    pub started: String,
    /// How often each cell was to be run.
    pub repeats: u32,
    /// The keys of the matrix with their values, in the order of the file.
    pub axes: Vec<(String, Vec<String>)>,
    /// The cells.
    pub cells: Vec<Cell>,
    /// Figures over repeats.
    pub quantities: Vec<QuantityFigures>,
    /// Curves over all repeats of a cell.
    pub curves: CellCurves,
    /// Cells held against others.
    pub comparisons: Vec<Comparison>,
    /// What became of the gate.
    pub gates: Vec<GateResult>,
    /// Versions of servers by their names.
    pub versions: BTreeMap<String, String>,
    /// What was told of the experiment as a whole.
    pub notes: Vec<String>,
    /// The text of its file.
    pub file: String,
}

/// A cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// Its name.
    pub name: String,
    /// The values by which it differs from others, for legends.
    pub label: String,
    /// The keys of the matrix with its values.
    pub keys: BTreeMap<String, String>,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not, and why.
    pub left_out: Vec<String>,
    /// What was told of those that count.
    pub warnings: Vec<String>,
    /// Runs in which the server did what was expected, and runs with expectations.
    pub as_expected: (usize, usize),
}

/// A figure of all cells.
#[derive(Clone, Debug, Serialize)]
pub struct QuantityFigures {
    /// Its word in the language of expectations.
    pub quantity: String,
    /// What people call it.
    pub words: String,
    /// Its unit.
    pub unit: &'static str,
    /// Over the repeats of each cell that has it.
    pub cells: Vec<CellFigure>,
}

/// A figure over the repeats of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellFigure {
    /// The cell's place among the cells.
    pub cell: usize,
    /// Median and interval.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Each repeat with its figure.
    pub values: Vec<(u32, f64)>,
}

/// Curves by cell: at each place the median over its repeats.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CellCurves {
    /// Quantiles of latency in milliseconds.
    pub boxes: Vec<LatencyBox>,
    /// The others, by their ids.
    #[serde(flatten)]
    pub by_id: BTreeMap<&'static str, Vec<Point>>,
}

/// A point of a cell's curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The cell's place among the cells.
    pub cell: usize,
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
}

/// A box of latency over all queries of a cell, in milliseconds; `null` among the unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "percentiles are called what they are")]
pub struct LatencyBox {
    pub cell: usize,
    pub p5: Option<f64>,
    pub p25: Option<f64>,
    pub p50: Option<f64>,
    pub p75: Option<f64>,
    pub p95: Option<f64>,
}

/// A cell with its runs.
#[derive(Clone, Debug, Default)]
pub struct CellRuns {
    /// The keys of the matrix with its values.
    pub keys: BTreeMap<String, String>,
    /// Its runs.
    pub side: Side,
    /// The curves of those that count.
    pub curves: Vec<Curves>,
}

impl CellCurves {
    /// The points of a curve of all cells.
    fn points(&self, of: &RunCurve) -> &[Point] {
        self.by_id.get(of.id).map_or(&[], Vec::as_slice)
    }
}

impl Overview {
    /// Adds the cells of an experiment with its axes.
    #[must_use]
    pub fn with_cells(self, cells: &[CellRuns]) -> Self {
        let varying: Vec<&String> =
            self.axes.iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| key).collect();
        let of = |runs: &CellRuns| {
            let judged: Vec<bool> = runs.side.runs.iter().filter_map(|(_, run)| run.verdict.server.ok).collect();
            let label: Vec<&str> = varying.iter().filter_map(|key| runs.keys.get(*key)).map(String::as_str).collect();
            Cell {
                name: runs.side.name.clone(),
                label: if label.is_empty() { runs.side.name.clone() } else { label.join(" · ") },
                keys: runs.keys.clone(),
                runs: runs.side.runs.len(),
                left_out: runs.side.left_out.clone(),
                warnings: [
                    warned(&runs.side.runs.iter().map(|(_, run)| run).collect::<Vec<_>>()),
                    runs.side.partly.clone(),
                ]
                .concat(),
                as_expected: (judged.iter().filter(|ok| **ok).count(), judged.len()),
            }
        };
        Self {
            cells: cells.iter().map(of).collect(),
            quantities: quantities(cells),
            curves: merge::curves(cells),
            ..self
        }
    }

    /// Writes the page: one file that opens offline.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_page(&self, path: &Path) -> Result<(), ResultsError> {
        page::write(self, path)
    }

    /// What was run how often, and what counts, in sentences for a paper.
    pub fn methods(&self) -> String {
        methods::methods(self)
    }

    /// Writes figures and tables into a directory: JSON, CSV, and pictures with their captions.
    ///
    /// # Errors
    /// A figure is not known, or a file cannot be written.
    pub fn export(&self, directory: &Path, export: &Export) -> Result<Exported, ExportError> {
        export::export(self, directory, export)
    }
}

fn quantities(cells: &[CellRuns]) -> Vec<QuantityFigures> {
    let sides: Vec<&Side> = cells.iter().map(|cell| &cell.side).collect();
    let all = quantities_of(&sides).into_iter().map(|quantity| {
        let of = |(cell, side): (usize, &&Side)| {
            let (estimate, values) = estimate_of(quantity, side)?;
            Some(CellFigure { cell, estimate, values })
        };
        let (name, cells) = (quantity.to_string(), sides.iter().enumerate().filter_map(of).collect());
        QuantityFigures { words: words::quantity(&name), quantity: name, unit: unit(quantity), cells }
    });
    all.filter(|figures| !figures.cells.is_empty()).collect()
}

#[cfg(test)]
mod tests;
