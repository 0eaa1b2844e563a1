//! The runs whose rows are printed: one run, or all runs of an experiment with the columns that its record adds.

use std::path::{Path, PathBuf};

use ldplayer_experiment::{Record, RunRecord, RunState};
use ldplayer_results::{Cell, Selection};

use crate::failure::Failure;

/// Columns that a run of an experiment has beside the keys of its cell.
const OF_RUNS: [&str; 2] = ["repeat", "counted"];

/// A run.
pub struct Run {
    /// Its directory.
    pub directory: PathBuf,
    /// What the experiment's record says of it; `None` for a run that belongs to no experiment.
    record: Option<OfRecord>,
}

/// What the record of an experiment says of a run.
struct OfRecord {
    keys: Vec<String>,
    repeat: i64,
    is_counted: bool,
}

/// The names of the columns that the record adds, and the runs.
pub fn runs_of(directory: &Path) -> Result<(Vec<String>, Vec<Run>), Failure> {
    if !directory.join("experiment.json").exists() {
        return Ok((Vec::new(), vec![Run { directory: directory.to_owned(), record: None }]));
    }
    let record = Record::read(directory)?;
    let keys: Vec<&String> = record.axes.iter().map(|axis| &axis.key).collect();
    let counted: Vec<&RunRecord> = record.cells.iter().flat_map(|cell| record.counted_of(cell).into_values()).collect();
    let made = record.runs.iter().filter(|run| run.state != RunState::Planned);
    let run = |run: &RunRecord| {
        let value = |key: &&String| run.keys.get(*key).cloned().unwrap_or_default();
        let of_record = OfRecord {
            keys: keys.iter().map(value).collect(),
            repeat: run.repeat.into(),
            is_counted: counted.iter().any(|counted| std::ptr::eq(*counted, run)),
        };
        Some(Run { directory: directory.join(run.directory.as_ref()?), record: Some(of_record) })
    };
    let names = keys.iter().map(|key| key.as_str()).chain(OF_RUNS).map(str::to_owned).collect();
    Ok((names, made.filter_map(run).collect()))
}

/// What is printed of each row, in order.
pub struct Columns {
    order: Vec<Column>,
    /// The columns of rows among them, as they were asked for.
    pub of_rows: Vec<String>,
}

/// A column by its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    OfRecord(usize),
    OfRow(usize),
}

impl Columns {
    /// The columns that were asked for, where the record adds these; none for all that it adds, and the usual ones of rows.
    pub fn new(added: &[String], asked: &[String]) -> Self {
        let mut columns = Self { order: Vec::new(), of_rows: Vec::new() };
        for name in asked {
            match added.iter().position(|added| added == name) {
                Some(at) => columns.order.push(Column::OfRecord(at)),
                None => {
                    columns.order.push(Column::OfRow(columns.of_rows.len()));
                    columns.of_rows.push(name.clone());
                }
            }
        }
        if asked.is_empty() {
            columns.order = (0..added.len()).map(Column::OfRecord).collect();
        } else if columns.of_rows.is_empty() {
            // No row column is to be printed, and none named would be the usual ones.
            columns.of_rows.push("index".to_owned());
        }
        columns
    }

    /// The same with the columns of a selection, where none or `all` were asked for; a column of the record hides one of its name.
    pub fn with(mut self, added: &[String], selection: &Selection) -> Self {
        if self.of_rows.len() != selection.columns().len() {
            self.order.retain(|column| matches!(column, Column::OfRecord(_)));
            let is_shown = |(_, name): &(usize, &&str)| !added.iter().any(|added| added == **name);
            let shown = selection.columns().iter().enumerate().filter(is_shown);
            self.order.extend(shown.map(|(at, _)| Column::OfRow(at)));
        }
        self
    }

    /// Their names.
    pub fn names(&self, added: &[String], selection: &Selection) -> Vec<String> {
        let name = |column: &Column| match *column {
            Column::OfRecord(at) => added[at].clone(),
            Column::OfRow(at) => selection.columns()[at].to_owned(),
        };
        self.order.iter().map(name).collect()
    }

    /// Whether nothing is of the record.
    pub fn has_only_rows(&self) -> bool {
        self.order.iter().all(|column| matches!(column, Column::OfRow(_)))
    }

    /// The cells of a row of a run.
    pub fn of<'c>(&'c self, run: &'c Run, cells: &'c [Cell<'c>]) -> impl Iterator<Item = Cell<'c>> {
        self.order.iter().map(move |column| match *column {
            Column::OfRow(at) => cells[at],
            Column::OfRecord(at) => run.record.as_ref().map_or(Cell::Nothing, |record| record.cell(at)),
        })
    }
}

impl OfRecord {
    fn cell(&self, at: usize) -> Cell<'_> {
        match at.checked_sub(self.keys.len()) {
            None => Cell::Word(&self.keys[at]),
            Some(0) => Cell::Number(self.repeat),
            Some(_) => Cell::Bit(self.is_counted),
        }
    }
}
