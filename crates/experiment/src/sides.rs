//! The two sides of a comparison: runs of directories and experiments, matched cell by cell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_results::compare::{Pair, Side};
use ldplayer_results::{Origin, Quantile, Quantity, ResultsError, RunReport, State, read_document, unpacking, words};
use serde_json::Value;

use crate::error::ExperimentError;
use crate::gate::Gate;
use crate::record::{CellRecord, Record, RunRecord, RunState};

/// A key of the matrix and one of its values.
pub type KeyValue = (String, String);

/// Why there is nothing to compare; each is one line with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum SidesError {
    /// The record of an experiment cannot be read.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A run cannot be read.
    #[error(transparent)]
    Run(#[from] ResultsError),
    /// The path has nothing to compare.
    #[error("{}: neither a run, nor an experiment, nor a directory of runs; give the output of `ldplayer replay -o` or `ldplayer experiment -o`{}", .0.display(), unpacking(.0))]
    Nothing(PathBuf),
    /// One directory was given without a choice of sides.
    #[error("{}: choose the cells to compare with --a and --b; the keys are {keys}", path.display())]
    NoChoice {
        /// The directory.
        path: PathBuf,
        /// The keys with their values.
        keys: String,
    },
    /// No cell matches the choice.
    #[error("{}: no cell has {chosen}; the keys are {keys}", path.display())]
    NoCell {
        /// The directory.
        path: PathBuf,
        /// The choice.
        chosen: String,
        /// The keys with their values.
        keys: String,
    },
    /// A choice of cells was given for something other than an experiment.
    #[error("{}: --a and --b choose cells of an experiment, but this is not one", .0.display())]
    NoKeys(PathBuf),
    /// No cell matches one of the other experiment.
    #[error("{}: no cell matches one in {}, so there is nothing to compare", a.display(), b.display())]
    Unmatched {
        /// One directory.
        a: PathBuf,
        /// The other.
        b: PathBuf,
    },
}

/// How sides are chosen.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Keys and values of the cells of A.
    pub a: Vec<KeyValue>,
    /// Keys and values of the cells of B.
    pub b: Vec<KeyValue>,
    /// Whether to include runs with unfaithful replays.
    pub with_unfaithful: bool,
}

/// Runs under one name, with the keys by which they are matched.
struct Cell {
    keys: BTreeMap<String, String>,
    side: Side,
}

/// The content of a path.
enum Source {
    Runs(Cell),
    Experiment(Box<Record>),
}

/// The sides of a comparison of one experiment, cell by cell.
///
/// # Errors
/// No or unknown cells were chosen, or a run cannot be read.
pub fn within(path: &Path, choice: &Choice) -> Result<Vec<Pair>, SidesError> {
    let Source::Experiment(record) = open(path, choice)? else { return Err(SidesError::NoKeys(path.to_owned())) };
    if !choice.a.is_empty() && !choice.b.is_empty() {
        let (a, b) = (cells(path, &record, &choice.a, choice)?, cells(path, &record, &choice.b, choice)?);
        return matched(path, path, a, b, choice);
    }
    let baseline = Gate::in_text(&record.file).ok().flatten().and_then(|gate| gate.baseline);
    if let Some(baseline) = baseline.filter(|_| choice.a.is_empty() && choice.b.is_empty()) {
        return against(path, &record, &baseline, choice.with_unfaithful);
    }
    match record.cells.as_slice() {
        [a, b] if choice.a.is_empty() && choice.b.is_empty() => {
            let chosen =
                a.keys.iter().filter(|(key, value)| b.keys.get(*key) != Some(*value)).map(|(key, _)| key.clone());
            let chosen = chosen.collect();
            let [a, b] = [side(path, &record, a, choice)?, side(path, &record, b, choice)?];
            Ok(vec![Pair { a, b, interleaved: true, chosen }])
        }
        _ => Err(SidesError::NoChoice { path: path.to_owned(), keys: keys(&record) }),
    }
}

/// The sides of a comparison of two directories: runs, or experiments cell by cell.
///
/// # Errors
/// As [`within`].
pub fn between(a: &Path, b: &Path, choice: &Choice) -> Result<Vec<Pair>, SidesError> {
    let of = |path: &Path, chosen: &[KeyValue]| match open(path, choice)? {
        Source::Runs(_) if !chosen.is_empty() => Err(SidesError::NoKeys(path.to_owned())),
        Source::Runs(cell) => Ok(vec![cell]),
        Source::Experiment(record) => cells(path, &record, chosen, choice),
    };
    let (mut of_a, mut of_b) = (of(a, &choice.a)?, of(b, &choice.b)?);
    if let ([one], [other]) = (of_a.as_mut_slice(), of_b.as_mut_slice()) {
        let chosen =
            one.keys.iter().filter(|(key, value)| other.keys.get(*key) != Some(*value)).map(|(key, _)| key.clone());
        let chosen: Vec<String> = chosen.collect();
        let sides = (std::mem::take(&mut one.side), std::mem::take(&mut other.side));
        // The runs of an experiment were interleaved.
        let interleaved = a.parent() == b.parent() && a.parent().is_some_and(|parent| parent.join(RECORD).exists());
        return Ok(vec![Pair { a: sides.0, b: sides.1, interleaved, chosen }]);
    }
    matched(a, b, of_a, of_b, choice)
}

/// The cells of an experiment, each against the otherwise equal cell with the baseline value.
///
/// # Errors
/// A run cannot be read.
pub fn against(
    path: &Path,
    record: &Record,
    (key, value): &KeyValue,
    with_unfaithful: bool,
) -> Result<Vec<Pair>, SidesError> {
    let mut others: Vec<&str> = Vec::new();
    for cell in &record.cells {
        match cell.keys.get(key) {
            Some(other) if other != value && !others.contains(&other.as_str()) => others.push(other),
            _ => {}
        }
    }
    let mut pairs = Vec::new();
    for other in others {
        let of = |value: &str| vec![(key.clone(), value.to_owned())];
        let choice = Choice { a: of(value), b: of(other), with_unfaithful };
        let both = cells(path, record, &choice.a, &choice)
            .and_then(|a| Ok((a, cells(path, record, &choice.b, &choice)?)))
            .and_then(|(a, b)| matched(path, path, a, b, &choice));
        match both {
            Ok(found) => pairs.extend(found),
            // Cells removed by `exclude` have no counterpart.
            Err(SidesError::NoCell { .. } | SidesError::Unmatched { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pairs)
}

const RECORD: &str = "experiment.json";

fn open(path: &Path, choice: &Choice) -> Result<Source, SidesError> {
    if path.join(RECORD).exists() {
        return Ok(Source::Experiment(Box::new(Record::read(path)?)));
    }
    let name = name_of(path);
    if path.join("run.json").exists() {
        return Ok(Source::Runs(plain(name, &[(1, path.to_owned())], choice)?));
    }
    if let Some(parent) = path.parent().filter(|parent| parent.join(RECORD).exists()) {
        let record = Record::read(parent)?;
        if let Some(cell) = record.cells.iter().find(|cell| cell.name == name) {
            return Ok(Source::Runs(Cell { keys: cell.keys.clone(), side: side(parent, &record, cell, choice)? }));
        }
    }
    let runs = runs_in(path);
    if runs.is_empty() {
        return Err(SidesError::Nothing(path.to_owned()));
    }
    Ok(Source::Runs(plain(name, &runs, choice)?))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The run directories in a directory, sorted by number or name.
fn runs_in(path: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(|path| path.join("run.json").exists()).collect();
    let number = |path: &Path| name_of(path).parse::<u32>().unwrap_or(u32::MAX);
    runs.sort_by_key(|path| (number(path), name_of(path)));
    (1..).zip(runs).collect()
}

/// Runs outside of any experiment.
fn plain(name: String, runs: &[(u32, PathBuf)], choice: &Choice) -> Result<Cell, SidesError> {
    let mut side = Side { name, ..Side::default() };
    for (number, path) in runs {
        add(&mut side, *number, &name_of(path), path, choice)?;
    }
    Ok(Cell { keys: BTreeMap::new(), side })
}

/// Reads a run and adds it if it is complete and was a faithful replay.
fn add(side: &mut Side, number: u32, name: &str, path: &Path, choice: &Choice) -> Result<(), SidesError> {
    let report: RunReport = read_document::<Value>(path)?.report;
    if report.state != State::Complete {
        side.left_out.push(format!("{name}: {}", report.state));
        return Ok(());
    }
    if !report.verdict.ok && !choice.with_unfaithful {
        let failed = report.verdict.checks.iter().filter(|check| !check.ok).map(|check| words::check(&check.name));
        let failed = failed.collect::<Vec<_>>().join(", ");
        let good: Vec<String> = latencies().filter(|one| report.is_good(*one)).map(|one| one.to_string()).collect();
        if good.is_empty() || !report.is_late_only() {
            side.left_out
                .push(format!("{name}: the replay was not faithful ({failed}); --with-unfaithful takes it in"));
            return Ok(());
        }
        side.partly.push(format!(
            "{name} counts for {} only, since its replay was disturbed ({failed}); --with-unfaithful takes all",
            good.join(", ")
        ));
    }
    side.is_strict = !choice.with_unfaithful;
    side.runs.push((number, report));
    side.directories.push(path.to_owned());
    Ok(())
}

/// The percentiles that carry a mark.
fn latencies() -> impl Iterator<Item = Quantity> {
    Quantile::MARKED.into_iter().map(|quantile| Quantity::Latency { quantile, from: Origin::Sent })
}

/// The runs of a cell that count.
pub(crate) fn side(path: &Path, record: &Record, cell: &CellRecord, choice: &Choice) -> Result<Side, SidesError> {
    let mut side = Side { name: cell.name.clone(), ..Side::default() };
    for (number, run) in record.counted_of(cell) {
        match &run.directory {
            Some(directory) if matches!(run.state, RunState::Done | RunState::Disturbed) => {
                add(&mut side, number, &format!("repeat {number}"), &path.join(directory), choice)?;
            }
            _ => side.left_out.push(format!("repeat {number}: {}", why(run))),
        }
    }
    Ok(side)
}

fn why(run: &RunRecord) -> String {
    run.reason.clone().unwrap_or_else(|| "the run was not finished".to_owned())
}

/// The cells that match the choice.
fn cells(path: &Path, record: &Record, chosen: &[KeyValue], choice: &Choice) -> Result<Vec<Cell>, SidesError> {
    let has = |cell: &&CellRecord| chosen.iter().all(|(key, value)| cell.keys.get(key) == Some(value));
    let found: Vec<Cell> = record
        .cells
        .iter()
        .filter(has)
        .map(|cell| Ok(Cell { keys: cell.keys.clone(), side: side(path, record, cell, choice)? }))
        .collect::<Result<_, SidesError>>()?;
    if found.is_empty() {
        let chosen: Vec<String> = chosen.iter().map(|(key, value)| format!("{key}={value}")).collect();
        return Err(SidesError::NoCell { path: path.to_owned(), chosen: chosen.join(" and "), keys: keys(record) });
    }
    Ok(found)
}

/// The keys of an experiment with their values.
fn keys(record: &Record) -> String {
    record.axes.iter().map(|axis| format!("{}={}", axis.key, axis.values.join("|"))).collect::<Vec<_>>().join(", ")
}

/// Pairs cells that are equal in all keys but the chosen ones.
fn matched(a: &Path, b: &Path, of_a: Vec<Cell>, of_b: Vec<Cell>, choice: &Choice) -> Result<Vec<Pair>, SidesError> {
    let chosen: BTreeSet<&String> = choice.a.iter().chain(&choice.b).map(|(key, _)| key).collect();
    let rest = |cell: &Cell| {
        let rest = cell.keys.iter().filter(|(key, _)| !chosen.contains(key));
        rest.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    let mut of_b: Vec<Option<Cell>> = of_b.into_iter().map(Some).collect();
    let mut pairs = Vec::new();
    for cell in of_a {
        let own = rest(&cell);
        let like = of_b.iter_mut().find(|other| other.as_ref().is_some_and(|other| rest(other) == own));
        if let Some(other) = like.and_then(Option::take) {
            let chosen = chosen.iter().map(|key| (*key).clone()).collect();
            pairs.push(Pair { a: cell.side, b: other.side, interleaved: a == b, chosen });
        }
    }
    if pairs.is_empty() { Err(SidesError::Unmatched { a: a.to_owned(), b: b.to_owned() }) } else { Ok(pairs) }
}
