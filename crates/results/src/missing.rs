//! What is not in the row files of a run that was killed, as far as their directories tell.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use parquet::arrow::ProjectionMask;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;

use crate::error::ResultsError;
use crate::numbers::counted;
use crate::rows::ROWS_BEFORE;
use crate::store::RunDir;
use crate::warning::{Warning, WarningCode};

/// Shards that are named one by one in a warning.
const NAMED: usize = 8;
/// Rows of a trace up to which those with a row here are counted: a bit of memory for each.
const COUNTED: u64 = 1 << 30;

/// The rows of a shard.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shard {
    /// Rows in its files.
    rows: u64,
    /// The last moment that a row speaks of, in nanoseconds of run time.
    last: i64,
    /// Rows that other files know of and that are in none: the file behind the gap, and how many are missing.
    gaps: Vec<(String, u64)>,
}

/// Says of a run that never ended which rows are there.
pub fn warning(dir: &RunDir) -> Result<Warning, ResultsError> {
    let (whole, parts) = dir.row_files()?;
    let (mut shards, mut newest): (BTreeMap<String, Shard>, Option<u64>) = Default::default();
    for path in &whole {
        // Unreadable files are reported elsewhere, and leave a gap here.
        let Some(directory) = directory(path) else { continue };
        shards.entry(shard_of(path)).or_default().add(path, &directory);
        newest = newest.max(greatest(&directory, "index").map(|index| index as u64));
    }
    let absent = newest.and_then(|newest| absent(&whole, newest));
    let text = describe(&shards, absent, parts.len());
    Ok(Warning::new(WarningCode::RowsMissing, text))
}

impl Shard {
    fn add(&mut self, path: &Path, directory: &ParquetMetaData) {
        let before = rows_before(directory).unwrap_or(self.known());
        if before > self.known() {
            self.gaps.push((name(path).to_owned(), before - self.known()));
        }
        self.rows += directory.file_metadata().num_rows() as u64;
        let times = ["intended_ns", "submitted_ns", "answered_ns"];
        let last = times.iter().filter_map(|column| greatest(directory, column)).max();
        self.last = self.last.max(last.unwrap_or_default());
    }

    /// Rows that are there, and those that are known to be missing.
    fn known(&self) -> u64 {
        self.rows + self.gaps.iter().map(|(_, rows)| rows).sum::<u64>()
    }
}

fn describe(shards: &BTreeMap<String, Shard>, absent: Option<(u64, u64)>, parts: usize) -> String {
    let rows: u64 = shards.values().map(|shard| shard.rows).sum();
    let rows = counted(rows, "row is", "rows are");
    let until = |shard: &Shard| shard.last as f64 / 1e9;
    let mut text = match (shards.values().map(until).reduce(f64::min), shards.values().map(until).reduce(f64::max)) {
        (Some(first), Some(last)) if shards.len() > NAMED => {
            format!("{rows} there, of {} shards, until {first:.1} to {last:.1} s", shards.len())
        }
        (Some(_), Some(_)) => {
            let each = shards.iter().map(|(name, shard)| format!("{name} {} until {:.1} s", shard.rows, until(shard)));
            format!("{rows} there ({})", each.collect::<Vec<_>>().join(", "))
        }
        _ => "no row is there".to_owned(),
    };
    if let Some((absent, of)) = absent.filter(|&(absent, _)| absent > 0) {
        text += &format!("; {absent} of the first {of} rows of the trace have none: not saved, or not sent at all");
    }
    for (file, missing) in shards.values().flat_map(|shard| &shard.gaps).take(NAMED) {
        text += &format!("; {} lost before {file}", counted(*missing, "row is", "rows are"));
    }
    if parts > 0 {
        text += &format!("; {} not finished", counted(parts as u64, "file was", "files were"));
    }
    text
}

/// How many rows of the trace up to the newest one that is known have no row in these files, and how many they are. Rules leave
/// rows of the trace out and copy others, so that only a count of the different ones tells.
fn absent(files: &[PathBuf], newest: u64) -> Option<(u64, u64)> {
    if newest >= COUNTED {
        return None;
    }
    let mut seen = vec![0_u64; newest as usize / 64 + 1];
    files.iter().try_for_each(|path| mark(path, &mut seen))?;
    let present: u64 = seen.iter().map(|word| u64::from(word.count_ones())).sum();
    Some((newest + 1 - present.min(newest + 1), newest + 1))
}

/// Marks the rows of the trace that a file has a row of; `None` where it cannot be read.
fn mark(path: &Path, seen: &mut [u64]) -> Option<()> {
    let builder = crate::parquet_file::open(File::open(path).ok()?).ok()?;
    let column = ProjectionMask::columns(builder.parquet_schema(), ["index"]);
    for batch in builder.with_projection(column).build().ok()? {
        let batch = batch.ok()?;
        for index in batch.column(0).as_primitive_opt::<UInt64Type>()?.iter().flatten() {
            if let Some(word) = usize::try_from(index / 64).ok().and_then(|at| seen.get_mut(at)) {
                *word |= 1 << (index % 64);
            }
        }
    }
    Some(())
}

fn directory(path: &Path) -> Option<ParquetMetaData> {
    ParquetMetaDataReader::new().parse_and_finish(&File::open(path).ok()?).ok()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The part of a file's name that says whose rows it has, such as `shard-003`.
fn shard_of(path: &Path) -> String {
    name(path).rsplit_once('-').map_or("", |(shard, _)| shard).to_owned()
}

fn rows_before(directory: &ParquetMetaData) -> Option<u64> {
    let facts = directory.file_metadata().key_value_metadata()?;
    facts.iter().find(|fact| fact.key == ROWS_BEFORE)?.value.as_ref()?.parse().ok()
}

/// The greatest value of a column, by the directory of a file.
fn greatest(directory: &ParquetMetaData, column: &str) -> Option<i64> {
    let columns = directory.row_groups().iter().flat_map(|group| group.columns());
    let found = columns.filter(|found| found.column_path().string() == column);
    let most = found.filter_map(|column| match column.statistics() {
        Some(Statistics::Int64(statistics)) => statistics.max_opt().copied(),
        _ => None,
    });
    most.max()
}
