//! The figures of runs, a line each: to be copied, or read by programs.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use ldplayer_core::printable::PrintableJson;
use ldplayer_report::{csv_field, summary_line, summary_row};
use ldplayer_results::RunReport;
use serde_json::Value;

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// A header, and a line with commas for each run, with nothing for what is not known.
    Csv,
    /// An object for each run.
    Json,
    /// For people.
    Line,
}

/// Prints these runs, which are in these directories.
pub fn print(form: Form, runs: &[(&Path, &RunReport)]) -> io::Result<()> {
    let rows: Vec<Vec<(&str, Value)>> = runs.iter().map(|(path, report)| row(path, report)).collect();
    match form {
        Form::Line => runs.iter().try_for_each(|(_, report)| say!("{}", summary_line(report))),
        Form::Json => rows.iter().try_for_each(|row| say!("{}", PrintableJson(object(row)))),
        Form::Csv => {
            let header = rows.iter().take(1).map(|row| joined(row.iter().map(|(name, _)| (*name).to_owned())));
            let lines = rows.iter().map(|row| joined(row.iter().map(|(_, value)| cell(value))));
            header.chain(lines).try_for_each(|line| say!("{line}"))
        }
    }
}

/// The directory, and the figures.
fn row(path: &Path, report: &RunReport) -> Vec<(&'static str, Value)> {
    let run = ("run", Value::from(path.display().to_string()));
    std::iter::once(run).chain(summary_row(report)).collect()
}

/// An object with its keys in the order of the columns.
fn object(row: &[(&str, Value)]) -> String {
    let mut text = String::new();
    for (at, (name, value)) in row.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}\"{name}\":{value}", if at == 0 { "{" } else { "," });
    }
    text + "}"
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(",")
}

/// A value as a cell of CSV.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(word) => csv_field(word),
        other => other.to_string(),
    }
}
