//! The rows of one shard on their way to disk: columns in memory, and files that hold all but the newest of them.
//!
//! A file is written anew, under another name, each time that rows are saved: with the row groups that are full, copied as
//! they are, and with those rows that do not fill one yet. The new one takes the place of the old one in one step. So what is
//! called `.parquet` is whole at any moment and has every row once, and rows that come slowly do not make many files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ldplayer_columnar::{Compression, FileOptions, FileWriter};
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Outcome, RunTime};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;

use ldplayer_net::output;

use crate::columns::Columns;
use crate::error::ResultsError;
use crate::keeper::{Finished, Keeper};
use crate::schema::{self, ROW_GROUP_ROWS};

/// A file takes the rows of this much run time at most.
const PERIOD_NS: i64 = 60 * NS_PER_S;
/// Octets of a file from which on the next rows go to another one: the full row groups of a file are copied whenever it
/// is saved.
const FILE_OCTETS: u64 = 32 << 20;
/// Suffix of a file that is not whole yet, or not yet on the disk for good.
pub const PART: &str = "part";
/// Fact in a file's directory: rows of the shard in the files before it.
pub const ROWS_BEFORE: &str = "ldplayer.rows_before";

/// The rows of one shard.
pub struct RowWriter {
    folder: PathBuf,
    shard: usize,
    /// Number of the file that takes the rows now.
    period: u32,
    /// When its first rows were saved.
    begun: Option<RunTime>,
    /// How often it has been saved.
    versions: u32,
    /// Rows in the files before it, and in its full row groups.
    rows_before: u64,
    full_rows: u64,
    full_groups: usize,
    /// Rows of the group that is not full.
    columns: Columns,
    /// Rows of it that have been saved.
    saved_rows: usize,
    /// The last version, from which full row groups are copied.
    last: Option<File>,
    /// The next version, once a row group of it is full.
    open: Option<OpenFile>,
}

/// A version of a file that is being written.
struct OpenFile {
    path: PathBuf,
    writer: FileWriter<File>,
}

impl RowWriter {
    /// Rows of `shard`, to be written to files in `folder`; their clients' classes have these names.
    pub fn new(folder: &Path, shard: usize, classes: &[String]) -> Self {
        Self {
            folder: folder.to_owned(),
            shard,
            period: 0,
            begun: None,
            versions: 0,
            rows_before: 0,
            full_rows: 0,
            full_groups: 0,
            columns: Columns::new(classes),
            saved_rows: 0,
            last: None,
            open: None,
        }
    }

    /// Adds rows; writes a row group whenever one is full.
    pub fn add(&mut self, outcomes: &[Outcome]) -> Result<(), ResultsError> {
        let mut rest = outcomes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(ROW_GROUP_ROWS - self.columns.rows()));
            self.columns.extend(now);
            if self.columns.rows() == ROW_GROUP_ROWS {
                self.write_group()?;
                self.full_groups += 1;
                self.full_rows += self.columns.rows() as u64;
                self.columns.clear();
                self.saved_rows = 0;
            }
            rest = later;
        }
        Ok(())
    }

    /// Saves all rows added so far: gives a version of the file that has them to `keeper`.
    pub fn save(&mut self, now: RunTime, keeper: &Keeper) -> Result<(), ResultsError> {
        if self.open.is_none() && self.columns.rows() == self.saved_rows {
            return Ok(());
        }
        if self.columns.rows() > 0 || self.open.is_none() {
            self.write_group()?;
        }
        let Some(OpenFile { path, mut writer }) = self.open.take() else { return Ok(()) };
        writer.note(ROWS_BEFORE, self.rows_before.to_string());
        let file = writer.finish().map_err(ResultsError::parquet(&path))?;
        let octets = file.metadata().map_err(ResultsError::file(&path))?.len();
        let kept = file.try_clone().map_err(ResultsError::file(&path))?;
        keeper.keep(Finished { file: kept, path, name: self.path() })?;
        self.versions += 1;
        self.saved_rows = self.columns.rows();
        self.last = Some(file);
        let begun = *self.begun.get_or_insert(now);
        if octets >= FILE_OCTETS || now - begun >= PERIOD_NS {
            self.next_period();
        }
        Ok(())
    }

    /// Takes the file that could not be written out of the way. What was saved before stays.
    pub fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            // It is only in the way, and its name says what it is.
            fs::remove_file(open.path).ok();
        }
    }

    fn next_period(&mut self) {
        self.rows_before += self.full_rows + self.columns.rows() as u64;
        self.period += 1;
        (self.begun, self.last) = (None, None);
        (self.versions, self.full_rows, self.full_groups, self.saved_rows) = (0, 0, 0, 0);
        self.columns.clear();
    }

    /// Writes the rows in memory as the next row group.
    fn write_group(&mut self) -> Result<(), ResultsError> {
        let path = self.path().with_extension(format!("parquet.{}.{PART}", self.versions));
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let full = self.last.as_ref().map(|last| (last, self.full_groups));
                self.open.insert(OpenFile::begin(path, full)?)
            }
        };
        let written = open.writer.write_group(self.columns.rows(), &self.columns.all());
        written.map_err(ResultsError::parquet(&open.path))
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("shard-{:03}-{:06}.parquet", self.shard, self.period))
    }
}

impl OpenFile {
    /// A new file that begins with the first row groups of another one.
    fn begin(path: PathBuf, full: Option<(&File, usize)>) -> Result<Self, ResultsError> {
        let file = output::create(&path).map_err(ResultsError::file(&path))?;
        let begin = || -> Result<_, ParquetError> {
            let options = FileOptions { compression: Compression::None, sorted_by: None };
            let mut writer = FileWriter::new(file, &schema::schema(), options)?;
            if let Some((last, groups)) = full.filter(|(_, groups)| *groups > 0) {
                let directory = ParquetMetaDataReader::new().parse_and_finish(last)?;
                writer.copy_groups(last, &directory.row_groups()[..groups])?;
            }
            Ok(writer)
        };
        let writer = begin().map_err(ResultsError::parquet(&path))?;
        Ok(Self { path, writer })
    }
}
