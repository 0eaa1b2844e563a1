//! A Parquet file of row groups, whose columns are encoded on several threads.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_schema::Schema;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{KeyValue, RowGroupMetaData, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;

use crate::chunk::{Compression, EncodedChunk, Pages};
use crate::column::Encode;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// How pages are compressed.
    pub compression: Compression,
    /// Threads that encode columns, the calling one included; the file is the same for any number.
    pub threads: usize,
    /// The number of a column by whose values the rows of each group are sorted, for the file's directory.
    pub sorted_by: Option<usize>,
}

/// A Parquet file being written.
pub struct FileWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<ColumnDescPtr>,
    encoders: Vec<Pages>,
    chunks: Vec<Mutex<Slot>>,
}

/// What becomes of one column of a row group.
#[derive(Default)]
struct Slot {
    encoded: Option<Result<EncodedChunk>>,
    /// Memory for its pages, used again.
    memory: Vec<u8>,
}

impl<W: Write + Send> FileWriter<W> {
    /// Begins a file of these columns, which must be flat: numbers, booleans, texts and octets.
    ///
    /// # Errors
    /// When a type has no counterpart in Parquet, or the output refuses the first octets.
    pub fn new(output: W, schema: &Schema, options: FileOptions) -> Result<Self> {
        let columns = ArrowSchemaConverter::new().convert(schema)?;
        let sorted = options
            .sorted_by
            .map(|column| vec![SortingColumn { column_idx: column as i32, descending: false, nulls_first: false }]);
        let mut properties = WriterProperties::builder().set_sorting_columns(sorted).build();
        add_encoded_arrow_schema_to_metadata(schema, &mut properties);
        let encoders = (0..options.threads.max(1)).map(|_| Pages::new(options.compression));
        Ok(Self {
            writer: SerializedFileWriter::new(output, columns.root_schema_ptr(), Arc::new(properties))?,
            encoders: encoders.collect::<Result<_>>()?,
            chunks: columns.columns().iter().map(|_| Mutex::default()).collect(),
            columns: columns.columns().to_vec(),
        })
    }

    /// Writes a row group of `rows` rows, one column after the other in the order of the schema.
    ///
    /// # Errors
    /// When a column cannot be encoded or the output refuses it, or when there are fewer or more columns than the file has.
    pub fn write_group(&mut self, rows: usize, columns: &[&dyn Encode]) -> Result<()> {
        if columns.len() != self.columns.len() {
            let what = format!("{} columns for a file of {}", columns.len(), self.columns.len());
            return Err(ParquetError::General(what));
        }
        self.encode(rows, columns);
        let mut group = self.writer.next_row_group()?;
        for slot in &mut self.chunks {
            let slot = slot.get_mut().unwrap_or_else(PoisonError::into_inner);
            let Some(encoded) = slot.encoded.take() else { continue };
            let EncodedChunk { pages, close } = encoded?;
            group.append_column(&pages, close)?;
            slot.memory = pages.into();
            slot.memory.clear();
        }
        group.close().map(drop)
    }

    /// Encodes all columns, those of most work first, so that threads end at about the same time.
    fn encode(&mut self, rows: usize, columns: &[&dyn Encode]) {
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(columns[at].octets()));
        let (next, chunks, descriptions) = (AtomicUsize::new(0), &self.chunks, &self.columns);
        let work = |pages: &mut Pages| {
            while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                // Nobody else takes this column; a thread that panicked ends the program's write below.
                let mut slot = chunks[at].lock().unwrap_or_else(PoisonError::into_inner);
                let memory = std::mem::take(&mut slot.memory);
                slot.encoded = Some(pages.chunk(Arc::clone(&descriptions[at]), columns[at], rows, memory));
            }
        };
        let (first, others) = match &mut self.encoders[..] {
            [first, others @ ..] => (first, others),
            [] => return,
        };
        thread::scope(|scope| {
            for pages in others {
                scope.spawn(|| work(pages));
            }
            work(first);
        });
    }

    /// Adds a fact about the file to its directory.
    pub fn note(&mut self, key: &str, value: String) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }

    /// Copies row groups of another file of the same columns, as they are, without looking at a value.
    ///
    /// # Errors
    /// When the other file cannot be read or the output refuses it.
    pub fn copy_groups<R: ChunkReader>(&mut self, file: &R, row_groups: &[RowGroupMetaData]) -> Result<()> {
        for row_group in row_groups {
            let mut group = self.writer.next_row_group()?;
            for column in row_group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size() as u64,
                    rows_written: row_group.num_rows() as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                group.append_column(file, close)?;
            }
            group.close()?;
        }
        Ok(())
    }

    /// Writes the directory and gives the output back.
    ///
    /// # Errors
    /// When the output refuses it.
    pub fn finish(self) -> Result<W> {
        self.writer.into_inner()
    }
}
