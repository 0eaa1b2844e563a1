//! The overview of an experiment for its page and exports: cells, runs and comparisons.

use std::path::Path;

use ldplayer_report::many::{CellRuns, Overview};
use ldplayer_report::read_curves;
use ldplayer_results::compare::{Pair, compare, keep};

use crate::gate::Gate;
use crate::record::Record;
use crate::sides::{self, Choice, SidesError};

/// Maximum number of comparisons on a page.
const MOST_COMPARED: usize = 50;

/// Reads the runs of an experiment with their rows, and compares its cells with the baseline of its gate, or else with the first value of
/// the first key that has several. Runs with unfaithful replays are included only on request.
///
/// # Errors
/// A run cannot be read.
pub fn overview(directory: &Path, record: &Record, with_unfaithful: bool) -> Result<Overview, SidesError> {
    let gate = Gate::in_text(&record.file).ok().flatten();
    let given = gate.as_ref().and_then(|gate| gate.baseline.clone());
    let first = || {
        let axis = record.axes.iter().find(|axis| axis.values.len() > 1)?;
        Some((axis.key.clone(), axis.values.first()?.clone()))
    };
    let pairs: Vec<Pair> = match given.or_else(first) {
        Some(baseline) => sides::against(directory, record, &baseline, with_unfaithful)?,
        None => Vec::new(),
    };
    let head = Overview {
        name: record.name.clone(),
        ldplayer: record.ldplayer.clone(),
        started: record.started.clone(),
        repeats: record.repeats,
        axes: record.axes.iter().map(|axis| (axis.key.clone(), axis.values.clone())).collect(),
        comparisons: pairs.iter().take(MOST_COMPARED).map(compare).collect(),
        gates: gate.map(|gate| keep(&pairs, &gate.keep)).unwrap_or_default(),
        versions: record.versions.clone(),
        notes: record.notes.clone(),
        file: record.file.clone(),
        ..Overview::default()
    };
    let choice = Choice { with_unfaithful, ..Choice::default() };
    let cells = record.cells.iter().map(|cell| {
        let side = sides::side(directory, record, cell, &choice)?;
        let curves = side.directories.iter().map(|run| read_curves(run)).collect::<Result<_, _>>()?;
        Ok(CellRuns { keys: cell.keys.clone(), side, curves })
    });
    Ok(head.with_cells(&cells.collect::<Result<Vec<_>, SidesError>>()?))
}
