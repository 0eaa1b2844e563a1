//! Writes the Parquet trace: one row a transaction, with its messages and their readable columns.
//!
//! Rows become columns in the thread that writes, columns become pages on others (`ldplayer-columnar`).

mod group;
mod texts;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use ldplayer_columnar::{Compression, FileOptions, FileWriter, default_threads};
use ldplayer_core::Transaction;
use parquet::errors::ParquetError;

use self::group::Group;
use super::{Output, Sink, Written};
use crate::TraceError;

/// Row groups that are full and wait for the thread that writes them.
const WAITING: usize = 1;

/// The columns of the trace, in order.
pub(crate) fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let required = |name: &str, kind: DataType| Field::new(name, kind, false);
    let optional = |name: &str, kind: DataType| Field::new(name, kind, true);
    Arc::new(Schema::new(vec![
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
    ]))
}

/// A Parquet file being written: rows become columns here, and columns become pages on threads of their own.
pub(crate) struct ParquetSink {
    group: Box<Group>,
    /// `None` once it has failed.
    encoder: Option<Encoder>,
    path: PathBuf,
    written: Written,
}

/// The thread that writes.
struct Encoder {
    full: SyncSender<Box<Group>>,
    /// What comes back to be filled again.
    empty: Receiver<Box<Group>>,
    thread: JoinHandle<Result<Output, ParquetError>>,
}

impl Encoder {
    fn start(output: Output) -> io::Result<Self> {
        let (full, waiting) = sync_channel(WAITING);
        let (done, empty) = channel();
        // A channel whose other end is here takes it.
        let _ = done.send(Box::new(Group::new()));
        let thread = thread::Builder::new().name("parquet".to_owned());
        Ok(Self { full, empty, thread: thread.spawn(move || encode(output, &waiting, &done))? })
    }

    /// Gives away what is full for what is empty; `None` where the thread has ended.
    fn exchange(&self, full: Box<Group>) -> Option<Box<Group>> {
        self.full.send(full).ok()?;
        self.empty.recv().ok()
    }

    /// Waits until all is written.
    fn end(self) -> Result<Output, ParquetError> {
        drop(self.full);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn encode(output: Output, full: &Receiver<Box<Group>>, empty: &Sender<Box<Group>>) -> Result<Output, ParquetError> {
    let options = FileOptions { compression: Compression::Zstd, threads: default_threads(), sorted_by: Some(0) };
    let mut file = FileWriter::new(output, &schema(), options)?;
    for mut group in full {
        file.write_group(group.rows(), &group.columns())?;
        group.clear();
        // Nobody needs it once all rows are here.
        let _ = empty.send(group);
    }
    file.finish()
}

impl ParquetSink {
    /// # Errors
    /// When the system gives no thread.
    pub fn new(output: Output) -> Result<Self, TraceError> {
        let path = output.path().to_owned();
        let encoder = Encoder::start(output).map_err(|error| super::write_error(&path, error))?;
        Ok(Self { group: Box::new(Group::new()), encoder: Some(encoder), path, written: Written::default() })
    }

    /// Has the rows so far written.
    fn flush(&mut self) -> Result<(), TraceError> {
        let full = std::mem::replace(&mut self.group, Box::new(Group::new()));
        match self.encoder.as_ref().and_then(|encoder| encoder.exchange(full)) {
            Some(empty) => self.group = empty,
            // The thread ends before it is told to for an error only, which is told here.
            None => drop(self.end()?),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Output, TraceError> {
        let failed_before = || ParquetError::General("writing has failed before".to_owned());
        let ended = self.encoder.take().ok_or_else(failed_before).and_then(Encoder::end);
        ended.map_err(|error| refusal(&self.path, error))
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, batch: &[Transaction]) -> Result<(), TraceError> {
        let mut left = batch;
        while let (rows @ [_, ..], behind) = left.split_at(left.len().min(self.group.room())) {
            self.group.push(rows);
            if self.group.is_full() {
                self.flush()?;
            }
            left = behind;
        }
        self.written.transactions += batch.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written, TraceError> {
        if self.group.rows() > 0 {
            self.flush()?;
        }
        self.end()?.finish()?;
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for ParquetSink {
    /// What is not finished is gone when this returns.
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.end();
    }
}

/// The system's error inside that of the library, which is what the user can act upon.
fn refusal(path: &std::path::Path, error: ParquetError) -> TraceError {
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
