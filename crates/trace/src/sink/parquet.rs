//! Writes the Parquet trace: one row per transaction, with its messages and their fields as columns.
//!
//! Several threads turn rows into columns and columns into pages, each for its own row group (`ldplayer-columnar`).

mod group;
mod texts;
mod threads;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use ldplayer_core::Transaction;
use parquet::errors::ParquetError;

pub(crate) use self::group::Group;
use self::threads::Threads;
use super::{Output, Sink, Written};
use crate::TraceError;

/// Maximum number of rows in a row group.
const ROWS: usize = 128 * 1024;
/// Size of the messages in a row group, in octets, at which it is closed.
const OCTETS: usize = 32 * 1024 * 1024;

/// A column that some files have behind the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// [`Transaction::index`], in files that record where transactions come from.
    Index,
    /// [`Transaction::retry_of`].
    RetryOf,
}

/// The columns of the trace, in order.
pub(crate) fn schema(extra: Option<Extra>) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let required = |name: &str, kind: DataType| Field::new(name, kind, false);
    let optional = |name: &str, kind: DataType| Field::new(name, kind, true);
    let mut fields = vec![
        required("time", time),
        required("src", DataType::Utf8),
        required("src_port", DataType::UInt16),
        required("dst", DataType::Utf8),
        required("dst_port", DataType::UInt16),
        required("transport", DataType::Utf8),
        optional("stream", DataType::UInt64),
        optional("query", DataType::Binary),
        optional("response", DataType::Binary),
        optional("response_delay", DataType::Int64),
        optional("qname", DataType::Utf8),
        optional("qtype", DataType::Utf8),
        optional("qclass", DataType::Utf8),
        optional("rcode", DataType::Utf8),
        optional("rd", DataType::Boolean),
        optional("do", DataType::Boolean),
        optional("edns_size", DataType::UInt16),
        optional("tc", DataType::Boolean),
        optional("opcode", DataType::Utf8),
        optional("ad", DataType::Boolean),
        optional("cd", DataType::Boolean),
    ];
    fields.extend(extra.map(|extra| match extra {
        Extra::Index => required("index", DataType::UInt64),
        Extra::RetryOf => optional("retry_of", DataType::UInt64),
    }));
    Arc::new(Schema::new(fields))
}

/// A Parquet file being written; decides where row groups end.
pub(crate) struct ParquetSink {
    /// `None` once it has failed.
    threads: Option<Threads>,
    group: Extent,
    path: PathBuf,
    written: Written,
}

/// The size of the current row group.
#[derive(Default)]
struct Extent {
    rows: usize,
    octets: usize,
}

impl Extent {
    /// Counts rows up to the end of the row group; if it ends among them, returns how many belong to it.
    fn fill(&mut self, rows: &[Transaction]) -> Option<usize> {
        let ends = |row: &Transaction| {
            self.rows += 1;
            self.octets += row.message_octets();
            self.rows >= ROWS || self.octets >= OCTETS
        };
        let last = rows.iter().position(ends)?;
        *self = Self::default();
        Some(last + 1)
    }
}

impl ParquetSink {
    /// # Errors
    /// When the system gives no thread, or refuses the first octets.
    pub fn new(output: Output, extra: Option<Extra>) -> Result<Self, TraceError> {
        let path = output.path().to_owned();
        let threads = Threads::start(output, extra).map_err(|error| refusal(&path, error))?;
        Ok(Self { threads: Some(threads), group: Extent::default(), path, written: Written::default() })
    }

    /// Runs `act` with the threads, or returns the error that ended them.
    fn with(&mut self, act: impl FnOnce(&mut Threads) -> bool) -> Result<(), TraceError> {
        if self.threads.as_mut().is_some_and(act) {
            return Ok(());
        }
        // The threads end early only after an error.
        Err(self.end().err().unwrap_or_else(|| refusal(&self.path, failed_before())))
    }

    fn end(&mut self) -> Result<Output, TraceError> {
        let ended = self.threads.take().ok_or_else(failed_before).and_then(Threads::end);
        ended.map_err(|error| refusal(&self.path, error))
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, batch: &mut Vec<Transaction>) -> Result<(), TraceError> {
        self.written.transactions += batch.len() as u64;
        while let Some(end) = self.group.fill(batch) {
            let mut behind = batch.split_off(end);
            self.with(|threads| threads.give(batch) && threads.end_group())?;
            batch.append(&mut behind);
        }
        if batch.is_empty() { Ok(()) } else { self.with(|threads| threads.give(batch)) }
    }

    fn finish(mut self: Box<Self>) -> Result<Written, TraceError> {
        if self.group.rows > 0 {
            self.with(Threads::end_group)?;
        }
        self.end()?.finish()?;
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for ParquetSink {
    /// An unfinished file is deleted.
    fn drop(&mut self) {
        // The error cannot be reported.
        let _ = self.end();
    }
}

fn failed_before() -> ParquetError {
    ParquetError::General("an earlier write failed".to_owned())
}

/// The system's error inside the library's, since the user can act upon it.
pub(crate) fn refusal(path: &std::path::Path, error: ParquetError) -> TraceError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    super::write_error(path, source)
}

#[cfg(test)]
mod tests;
