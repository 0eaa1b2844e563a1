//! `ldplayer rows`: the rows of a run as text, those that a condition chooses.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ldplayer_core::printable::{Printable, PrintableJson};
use ldplayer_results::{Cell, Selection};
use serde_json::{Map, Value};

use crate::failure::{BAD_INPUT, Failure};

/// Options of `rows`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ldplayer rows runs/today --where 'latency > 100ms'
  ldplayer rows runs/today --format csv \\
    --where 'status == timeout and client in 192.0.2.0/24'
  ldplayer rows runs/today --columns index,latency_ns | sort -k2,2nr | head")]
pub struct Args {
    /// Run directory
    run: PathBuf,
    /// Print only rows for which this holds, such as `latency > 100ms`, `status == timeout`, `rcode in [SERVFAIL, REFUSED]` or
    /// `client in 192.0.2.0/24 and not answered`
    #[arg(long = "where", value_name = "EXPR")]
    condition: Option<String>,
    /// tsv, csv, or json with an object a line
    #[arg(long, value_name = "FORMAT", default_value = "tsv")]
    format: Format,
    /// Columns to print, in this order: those of queries/*.parquet, late_ns and latency_ns; `all` for every one
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    columns: Vec<String>,
    /// Leave out the line with the names of the columns
    #[arg(long)]
    no_header: bool,
}

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Separated by tabs, `-` for nothing.
    Tsv,
    /// Separated by commas, empty for nothing.
    Csv,
    /// An object a line.
    Json,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let selection = Selection::new(args.condition.as_deref(), &args.columns)?;
    let mut out = BufWriter::with_capacity(1 << 16, crate::printing::data());
    if args.format != Format::Json && !args.no_header {
        let separator = if args.format == Format::Csv { "," } else { "\t" };
        writeln!(out, "{}", selection.columns().join(separator))?;
    }
    let unreadable = selection.of(&args.run, |cells| -> anyhow::Result<()> {
        match args.format {
            Format::Tsv => separated(&mut out, cells, "\t", "-"),
            Format::Csv => separated(&mut out, cells, ",", ""),
            Format::Json => object(&mut out, selection.columns(), cells),
        }
    })?;
    out.flush()?;
    for file in &unreadable {
        tell!("ldplayer: {}: damaged; its rows are missing", file.display());
    }
    // With unreadable input, fewer rows are printed than were asked for.
    Ok(if unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(BAD_INPUT) })
}

fn separated(
    out: &mut impl Write,
    cells: &mut dyn Iterator<Item = Cell<'_>>,
    separator: &str,
    nothing: &str,
) -> anyhow::Result<()> {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.write_all(separator.as_bytes())?;
        }
        match cell {
            Cell::Nothing => write!(out, "{nothing}")?,
            Cell::Number(number) => write!(out, "{number}")?,
            Cell::Bit(bit) => write!(out, "{bit}")?,
            // The name of a class is a user's own, and may have a comma in it.
            Cell::Word(word) if separator == "," && word.contains([',', '"']) => {
                write!(out, "\"{}\"", Printable(word.replace('"', "\"\"")))?;
            }
            Cell::Word(word) => write!(out, "{}", Printable(word))?,
        }
    }
    writeln!(out)?;
    Ok(())
}

fn object(
    out: &mut impl Write,
    columns: &[&'static str],
    cells: &mut dyn Iterator<Item = Cell<'_>>,
) -> anyhow::Result<()> {
    let value = |cell| match cell {
        Cell::Nothing => Value::Null,
        Cell::Number(number) => number.into(),
        Cell::Bit(bit) => bit.into(),
        Cell::Word(word) => word.into(),
    };
    let object: Map<String, Value> = columns.iter().map(|&name| name.to_owned()).zip(cells.map(value)).collect();
    writeln!(out, "{}", PrintableJson(serde_json::to_string(&object)?))?;
    Ok(())
}
