//! `responses.parquet`, as far as comparing needs it: which query, and what the response to it says.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::types::UInt64Type;
use arrow_array::{Array, BinaryViewArray, PrimitiveArray, RecordBatch};
use ldplayer_core::{Fingerprint, Ignore, Message, compare};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::error::ResultsError;

/// Rows read at a time.
const BATCH: usize = 4 * 1024;
/// The columns that are read.
const COLUMNS: [&str; 3] = ["index", "query", "response"];

/// A file that is read batch after batch.
pub struct KeptResponses {
    path: PathBuf,
    rows: ParquetRecordBatchReader,
    with_messages: bool,
}

/// A query with its response.
pub struct Row {
    /// Its row in the trace.
    pub index: u64,
    /// A hash of its question, whatever the case of its name.
    pub question: u64,
    /// What was kept of its response.
    pub kept: KeptResponse,
}

/// The response to a query, as far as it was kept.
pub struct KeptResponse {
    /// What it says, if there is one.
    pub response: Option<Fingerprint>,
    /// The query in wire format, where messages are wanted.
    pub query: Option<Box<[u8]>>,
    /// The response in wire format, the same.
    pub message: Option<Box<[u8]>>,
}

impl KeptResponses {
    /// Opens a file; with messages, they come beside what they say.
    pub fn open(path: &Path, with_messages: bool) -> Result<Self, ResultsError> {
        let file = File::open(path).map_err(ResultsError::file(path))?;
        let builder = crate::parquet_file::open(file).map_err(ResultsError::parquet(path))?;
        let wanted = ProjectionMask::columns(builder.parquet_schema(), COLUMNS);
        let rows = builder.with_projection(wanted).with_batch_size(BATCH).build();
        Ok(Self { path: path.to_owned(), rows: rows.map_err(ResultsError::parquet(path))?, with_messages })
    }

    /// The next rows; `None` at the end.
    pub fn next(&mut self, ignore: &Ignore) -> Result<Option<Vec<Row>>, ResultsError> {
        let Some(batch) = self.rows.next() else { return Ok(None) };
        let batch = batch.map_err(|error| ResultsError::parquet(&self.path)(error.into()))?;
        let index: &PrimitiveArray<UInt64Type> = self.column(&batch, COLUMNS[0])?;
        let query: &BinaryViewArray = self.column(&batch, COLUMNS[1])?;
        let response: &BinaryViewArray = self.column(&batch, COLUMNS[2])?;
        let octets = |cells: &BinaryViewArray, row: usize| {
            (self.with_messages && cells.is_valid(row)).then(|| cells.value(row).into())
        };
        let row = |row: usize| Row {
            index: index.value(row),
            question: message(query, row).map_or(0, |query| compare::question(&query)),
            kept: KeptResponse {
                response: message(response, row).map(|response| Fingerprint::of(&response, ignore)),
                query: octets(query, row),
                message: octets(response, row),
            },
        };
        Ok(Some((0..batch.num_rows()).map(row).collect()))
    }

    fn column<'b, A: 'static>(&self, batch: &'b RecordBatch, column: &'static str) -> Result<&'b A, ResultsError> {
        let array = batch.column_by_name(column).and_then(|array| array.as_any().downcast_ref());
        array.ok_or_else(|| ResultsError::Column { path: self.path.clone(), column })
    }
}

/// The message in a cell.
fn message(cells: &BinaryViewArray, row: usize) -> Option<Message<'_>> {
    cells.is_valid(row).then(|| Message::new(cells.value(row))).flatten()
}
