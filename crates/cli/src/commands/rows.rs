//! `ldplayer rows`: the rows of a run or of an experiment's runs as text, those that a condition chooses.

mod print;
mod runs;

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ldplayer_results::{Cell, Selection, read_document};
use ldplayer_run::questions;

pub use self::print::Format;
use self::print::Printer;
use self::runs::{Columns, Run, runs_of};
use crate::failure::{BAD_INPUT, Failure};

/// Options of `rows`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ldplayer rows runs/today --where 'latency > 100ms'
  ldplayer rows runs/today --columns index,qname,qtype,latency_ns \\
    --where 'qname under example.org and rcode == SERVFAIL'
  ldplayer rows runs/today --format csv \\
    --where 'status == timeout and client in 192.0.2.0/24'
  ldplayer rows runs/today --columns index,latency_ns | sort -k2,2nr | head")]
pub struct Args {
    /// Run directory, or the directory of an experiment: its rows begin with the keys of the cell, the repeat, and whether the run
    /// counts
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print only rows for which this holds, such as `latency > 100ms`, `status == timeout`, `rcode in [SERVFAIL, REFUSED]`,
    /// `qname under example.org` or `client in 192.0.2.0/24 and not answered`
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// tsv, csv, or json with an object a line
    #[arg(long, value_name = "FORMAT", default_value = "tsv")]
    format: Format,
    /// Columns to print, in this order: those of queries/*.parquet, late_ns and latency_ns, and qname and qtype out of the trace;
    /// `all` for every one but these two
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    columns: Vec<String>,
    /// Read names and types from this file, where the trace of the run is no longer where it was
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Leave out the line with the names of the columns
    #[arg(long)]
    no_header: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (keys, runs) = runs_of(&args.run)?;
    let columns = Columns::new(&keys, &args.columns);
    let selection = Selection::new(args.condition.as_deref(), &columns.of_rows)?;
    let columns = columns.with(&keys, &selection);
    let out = BufWriter::with_capacity(1 << 16, crate::printing::data());
    let mut printer = Printer::new(out, args.format, columns.names(&keys, &selection));
    if !args.no_header {
        printer.header()?;
    }
    let mut unreadable = Vec::new();
    for run in &runs {
        unreadable.extend(rows_of(args, run, &selection, &columns, &mut printer)?);
    }
    printer.flush()?;
    for file in &unreadable {
        tell!("ldplayer: {}: damaged; its rows are missing", file.display());
    }
    // With unreadable input, fewer rows are printed than were asked for.
    Ok(if unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(BAD_INPUT) })
}

/// Prints the rows of one run; the files that could not be read.
fn rows_of<W: Write>(
    args: &Args,
    run: &Run,
    selection: &Selection,
    columns: &Columns,
    printer: &mut Printer<W>,
) -> Result<Vec<PathBuf>, Failure> {
    let joined = selection.needs_questions().then(|| -> Result<_, Failure> {
        Ok(questions(&run.directory, &read_document(&run.directory)?, args.trace.as_deref())?)
    });
    let joined = joined.transpose()?;
    let unreadable = selection.of(&run.directory, joined.as_ref(), |cells| -> anyhow::Result<()> {
        if columns.has_only_rows() {
            return printer.row(cells);
        }
        let cells: Vec<Cell<'_>> = cells.collect();
        printer.row(&mut columns.of(run, &cells))
    })?;
    Ok(unreadable)
}
