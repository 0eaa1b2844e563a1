//! Outcomes to Parquet: the columns of one worker and the file they go to.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ldplayer_core::Outcome;
use ldplayer_core::time::NS_PER_S;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use crate::columns::Columns;
use crate::error::ResultsError;
use crate::schema::{self, ROW_GROUP_ROWS};

/// A file is closed after this much run time, so that a crash loses no more than that.
const PERIOD_NS: i64 = 60 * NS_PER_S;
/// Suffix of a file that has no footer yet.
pub const PART: &str = "part";

/// The rows of one worker: columns in memory, then row groups in a file, then the next file.
pub struct RowWriter {
    folder: PathBuf,
    worker: usize,
    period: u32,
    period_ends: i64,
    columns: Columns,
    open: Option<OpenFile>,
}

struct OpenFile {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: ArrowRowGroupWriterFactory,
}

impl RowWriter {
    /// Rows of `worker`, to be written to files in `folder`; their clients' classes have these names.
    pub fn new(folder: &Path, worker: usize, classes: Arc<[String]>) -> Self {
        Self {
            folder: folder.to_owned(),
            worker,
            period: 0,
            period_ends: PERIOD_NS,
            columns: Columns::new(classes),
            open: None,
        }
    }

    /// Adds rows; writes a row group whenever one is full and ends the file when its period is over.
    pub fn add(&mut self, outcomes: &[Outcome]) -> Result<(), ResultsError> {
        let mut rest = outcomes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(ROW_GROUP_ROWS - self.columns.rows()));
            self.columns.extend(now);
            if self.columns.rows() == ROW_GROUP_ROWS {
                self.write_row_group()?;
            }
            rest = later;
        }
        match outcomes.last() {
            Some(last) if last_event(last) >= self.period_ends => self.end_period(last_event(last)),
            _ => Ok(()),
        }
    }

    /// Writes what is left and closes the file.
    pub fn close(&mut self) -> Result<(), ResultsError> {
        if self.columns.rows() > 0 {
            self.write_row_group()?;
        }
        let Some(open) = self.open.take() else { return Ok(()) };
        open.writer.close().map_err(ResultsError::parquet(&open.path))?;
        let whole = open.path.with_extension("");
        fs::rename(&open.path, &whole).map_err(ResultsError::file(&whole))?;
        self.period += 1;
        Ok(())
    }

    /// After a write error: closes the file with the row groups that are whole. Rows still in memory are given up.
    ///
    /// Returns how many rows are lost at least (those in memory).
    pub fn salvage(&mut self) -> u64 {
        let lost = self.columns.rows() as u64;
        self.columns.clear();
        if let Some(open) = &self.open
            && open.writer.flushed_row_groups().is_empty()
        {
            // Nothing in it is whole, so the file is only in the way.
            let path = open.path.clone();
            self.open = None;
            fs::remove_file(path).ok();
        }
        // A footer that cannot be written leaves the part file, which the reader passes over.
        self.close().ok();
        lost
    }

    fn end_period(&mut self, now: i64) -> Result<(), ResultsError> {
        self.period_ends = now.saturating_add(PERIOD_NS);
        self.close()
    }

    fn write_row_group(&mut self) -> Result<(), ResultsError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(OpenFile::create(&self.folder, self.worker, self.period)?),
        };
        let written = open.write(&mut self.columns);
        written.map_err(ResultsError::parquet(&open.path))
    }
}

impl OpenFile {
    fn create(folder: &Path, worker: usize, period: u32) -> Result<Self, ResultsError> {
        let path = folder.join(format!("worker-{worker}-{period:03}.parquet.{PART}"));
        let file = File::create(&path).map_err(ResultsError::file(&path))?;
        let writer = ArrowWriter::try_new(file, schema::schema(), Some(schema::properties()));
        // Only its columns are asked for: those of words are laid out here.
        let parts = writer.and_then(ArrowWriter::into_serialized_writer);
        let (writer, columns) = parts.map_err(ResultsError::parquet(&path))?;
        Ok(Self { path, writer, columns })
    }

    fn write(&mut self, columns: &mut Columns) -> Result<(), ParquetError> {
        let number = self.writer.flushed_row_groups().len();
        let descriptions = self.writer.schema_descr().columns().to_vec();
        let writers = self.columns.create_column_writers(number)?;
        let fields = schema::schema().fields().iter().cloned().collect::<Vec<_>>();
        let places = fields.into_iter().zip(descriptions).zip(writers);
        let places = places.map(|((field, description), writer)| (field, description, writer)).collect();
        let mut group = self.writer.next_row_group()?;
        columns.write(places, &mut group)?;
        group.close().map(drop)
    }
}

/// The latest moment that a row speaks of, which is about when it was recorded.
fn last_event(outcome: &Outcome) -> i64 {
    let times = [Some(outcome.intended), outcome.submitted, outcome.answered];
    times.into_iter().flatten().map(|time| time.0).max().unwrap_or_default()
}
