//! Reading rows back: whole files only, chosen columns, chosen stretches of intended time.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_array::types::{ArrowDictionaryKeyType, ArrowPrimitiveType};
use arrow_array::{Array, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::file::statistics::Statistics;

use crate::error::ResultsError;
use crate::store::RunDir;

/// Rows of a batch while reading.
const BATCH: usize = 16 * 1024;

/// The row files of a run that can be read.
pub struct RowFiles {
    files: Vec<RowFile>,
    /// Files that were whole once and are damaged; their rows are lost.
    pub unreadable: Vec<PathBuf>,
}

struct RowFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

/// One batch of rows with the file it is from.
pub struct Batch<'a> {
    path: &'a Path,
    rows: RecordBatch,
}

impl RowFiles {
    /// Opens the row files of a run.
    pub fn open(dir: &RunDir) -> Result<Self, ResultsError> {
        Self::of(dir.row_files()?.0)
    }

    /// Opens the files of a run's attempts.
    pub fn open_attempts(dir: &RunDir) -> Result<Self, ResultsError> {
        Self::of(dir.attempt_files()?)
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn of(whole: Vec<PathBuf>) -> Result<Self, ResultsError> {
        let mut unreadable = Vec::new();
        let mut files = Vec::new();
        for path in whole {
            match RowFile::open(&path) {
                Ok(file) => files.push(file),
                Err(ResultsError::Parquet { .. }) => unreadable.push(path),
                Err(error) => return Err(error),
            }
        }
        Ok(Self { files, unreadable })
    }

    /// Gives every batch that may hold rows due within `due`, with `columns` only.
    pub fn scan(
        &self,
        columns: &[&str],
        due: &Range<i64>,
        mut each: impl FnMut(&Batch<'_>) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        self.files.iter().try_for_each(|file| file.scan(columns, due, &mut each))
    }
}

/// The row files of a run, and those of attempts, that were whole once and are damaged.
///
/// # Errors
/// The folder cannot be read.
pub fn damaged_rows(run: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let dir = RunDir::new(run);
    let (queries, attempts) = (RowFiles::open(&dir)?, RowFiles::open_attempts(&dir)?);
    Ok([queries.unreadable, attempts.unreadable].concat())
}

impl RowFile {
    fn open(path: &Path) -> Result<Self, ResultsError> {
        let file = File::open(path).map_err(ResultsError::file(path))?;
        let metadata = crate::parquet_file::metadata(&file).map_err(ResultsError::parquet(path))?;
        Ok(Self { path: path.to_owned(), metadata })
    }

    fn scan(
        &self,
        columns: &[&str],
        due: &Range<i64>,
        each: &mut impl FnMut(&Batch<'_>) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        let groups = self.groups(due);
        if groups.is_empty() {
            return Ok(());
        }
        let file = File::open(&self.path).map_err(ResultsError::file(&self.path))?;
        let wanted = ProjectionMask::columns(self.metadata.parquet_schema(), columns.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(wanted)
            .with_row_groups(groups)
            .with_batch_size(BATCH)
            .build()
            .map_err(ResultsError::parquet(&self.path))?;
        for rows in reader {
            let rows = rows.map_err(|error| ResultsError::parquet(&self.path)(error.into()))?;
            each(&Batch { path: &self.path, rows })?;
        }
        Ok(())
    }

    /// Row groups that may hold rows due within `due`; a group without statistics may.
    fn groups(&self, due: &Range<i64>) -> Vec<usize> {
        let metadata = self.metadata.metadata();
        let column =
            metadata.file_metadata().schema_descr().columns().iter().position(|column| column.name() == "intended_ns");
        let overlaps = |group: &usize| {
            let statistics = column.and_then(|column| metadata.row_group(*group).column(column).statistics());
            match statistics {
                Some(Statistics::Int64(bounds)) => {
                    bounds.min_opt().is_none_or(|&min| min < due.end)
                        && bounds.max_opt().is_none_or(|&max| max >= due.start)
                }
                _ => true,
            }
        };
        (0..metadata.num_row_groups()).filter(overlaps).collect()
    }
}

impl Batch<'_> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// A column of numbers.
    pub fn numbers<T: ArrowPrimitiveType>(&self, column: &'static str) -> Result<&PrimitiveArray<T>, ResultsError> {
        self.column(column)
    }

    /// A column of numbers that earlier versions did not write.
    pub fn later_numbers<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<Option<&PrimitiveArray<T>>, ResultsError> {
        self.rows.column_by_name(column).map(|_| self.numbers(column)).transpose()
    }

    /// A column of bits.
    pub fn bits(&self, column: &'static str) -> Result<&BooleanArray, ResultsError> {
        self.column(column)
    }

    /// A column of bits that earlier versions did not write.
    pub fn later_bits(&self, column: &'static str) -> Result<Option<&BooleanArray>, ResultsError> {
        self.rows.column_by_name(column).map(|_| self.bits(column)).transpose()
    }

    /// A column of words, each replaced by what `meaning` makes of it; `None` for a null.
    pub fn words<'s, K, M>(
        &'s self,
        column: &'static str,
        mut meaning: impl FnMut(&'s str) -> M,
    ) -> Result<Words<'s, K, M>, ResultsError>
    where
        K: ArrowDictionaryKeyType,
    {
        let array: &DictionaryArray<K> = self.column(column)?;
        let values = array.values().as_any().downcast_ref::<StringArray>().ok_or_else(|| self.odd(column))?;
        let meanings = values.iter().map(|value| meaning(value.unwrap_or_default())).collect();
        Ok(Words { array, meanings })
    }

    /// A column of words that earlier versions did not write.
    pub fn later_words<'s, K, M>(
        &'s self,
        column: &'static str,
        meaning: impl FnMut(&'s str) -> M,
    ) -> Result<Option<Words<'s, K, M>>, ResultsError>
    where
        K: ArrowDictionaryKeyType,
    {
        self.rows.column_by_name(column).map(|_| self.words(column, meaning)).transpose()
    }

    fn column<A: 'static>(&self, column: &'static str) -> Result<&A, ResultsError> {
        let array = self.rows.column_by_name(column).and_then(|array| array.as_any().downcast_ref());
        array.ok_or_else(|| self.odd(column))
    }

    fn odd(&self, column: &'static str) -> ResultsError {
        ResultsError::Column { path: self.path.to_owned(), column }
    }
}

/// A column of words, looked up once per distinct word and batch.
pub struct Words<'a, K: ArrowDictionaryKeyType, M> {
    array: &'a DictionaryArray<K>,
    meanings: Vec<M>,
}

impl<K: ArrowDictionaryKeyType, M: Copy> Words<'_, K, M> {
    /// The meaning of the word in `row`; `None` for a null.
    pub fn at(&self, row: usize) -> Option<M> {
        self.meanings.get(self.array.key(row)?).copied()
    }
}

/// The number in `row`; `None` for a null.
pub fn at<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    column.is_valid(row).then(|| column.value(row))
}
