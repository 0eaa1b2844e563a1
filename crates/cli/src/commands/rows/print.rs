//! Rows as lines of text: separated by tabs or commas, or as objects.

use std::io::Write;

use ldplayer_core::printable::{Printable, PrintableJson};
use ldplayer_report::csv_field;
use ldplayer_results::Cell;
use serde_json::{Map, Value};

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Separated by tabs, `-` for nothing.
    Tsv,
    /// Separated by commas, empty for nothing.
    Csv,
    /// An object a line.
    Json,
}

/// Prints rows of these columns.
pub struct Printer<W> {
    out: W,
    format: Format,
    columns: Vec<String>,
}

impl<W: Write> Printer<W> {
    /// Nothing is printed yet.
    pub const fn new(out: W, format: Format, columns: Vec<String>) -> Self {
        Self { out, format, columns }
    }

    /// Prints the names of the columns, where the rows do not have them.
    pub fn header(&mut self) -> anyhow::Result<()> {
        if self.format != Format::Json {
            let separator = if self.format == Format::Csv { "," } else { "\t" };
            writeln!(self.out, "{}", self.columns.join(separator))?;
        }
        Ok(())
    }

    /// Prints a row.
    pub fn row(&mut self, cells: &mut dyn Iterator<Item = Cell<'_>>) -> anyhow::Result<()> {
        match self.format {
            Format::Tsv => separated(&mut self.out, cells, "\t", "-"),
            Format::Csv => separated(&mut self.out, cells, ",", ""),
            Format::Json => object(&mut self.out, &self.columns, cells),
        }
    }

    /// Passes all rows on.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
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
            Cell::Word(word) if separator == "," => write!(out, "{}", Printable(csv_field(word)))?,
            Cell::Word(word) => write!(out, "{}", Printable(word))?,
        }
    }
    writeln!(out)?;
    Ok(())
}

fn object(out: &mut impl Write, columns: &[String], cells: &mut dyn Iterator<Item = Cell<'_>>) -> anyhow::Result<()> {
    let value = |cell| match cell {
        Cell::Nothing => Value::Null,
        Cell::Number(number) => number.into(),
        Cell::Bit(bit) => bit.into(),
        Cell::Word(word) => word.into(),
    };
    let object: Map<String, Value> = columns.iter().cloned().zip(cells.map(value)).collect();
    writeln!(out, "{}", PrintableJson(serde_json::to_string(&object)?))?;
    Ok(())
}
