//! Writes row groups to a Parquet file.

use std::io::Write;
use std::sync::Arc;

use arrow_schema::Schema;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, RowGroupMetaData, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;

use crate::chunk::{Compression, EncodedChunk};
use crate::column::Encode;
use crate::group::{EncodedGroup, GroupEncoder};

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// How pages are compressed.
    pub compression: Compression,
    /// The number of a column by whose values the rows of each group are sorted, for the file's directory.
    pub sorted_by: Option<usize>,
}

/// A Parquet file being written.
pub struct FileWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Arc<[ColumnDescPtr]>,
    compression: Compression,
    encoder: GroupEncoder,
}

impl<W: Write + Send> FileWriter<W> {
    /// Begins a file of these columns, which must be flat: numbers, booleans, texts and octets.
    ///
    /// # Errors
    /// When a type has no counterpart in Parquet, or the output refuses the first octets.
    pub fn new(output: W, schema: &Schema, options: FileOptions) -> Result<Self> {
        let FileOptions { compression, sorted_by } = options;
        let described = ArrowSchemaConverter::new().convert(schema)?;
        let sorted = sorted_by
            .map(|column| vec![SortingColumn { column_idx: column as i32, descending: false, nulls_first: false }]);
        let mut properties = WriterProperties::builder().set_sorting_columns(sorted).build();
        add_encoded_arrow_schema_to_metadata(schema, &mut properties);
        let columns = described.columns().into();
        Ok(Self {
            writer: SerializedFileWriter::new(output, described.root_schema_ptr(), Arc::new(properties))?,
            encoder: GroupEncoder::new(&columns, compression)?,
            columns,
            compression,
        })
    }

    /// Another encoder of row groups of this file, for another thread.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn encoder(&self) -> Result<GroupEncoder> {
        GroupEncoder::new(&self.columns, self.compression)
    }

    /// Encodes and writes a row group of `rows` rows, its columns in the order of the schema.
    ///
    /// # Errors
    /// Those of [`GroupEncoder::encode`], or when the output refuses it.
    pub fn write_group(&mut self, rows: usize, columns: &[&dyn Encode]) -> Result<()> {
        let group = self.encoder.encode(rows, columns)?;
        self.append(group)
    }

    /// Writes a row group that an encoder of this file has made.
    ///
    /// # Errors
    /// When the output refuses it.
    pub fn append(&mut self, group: EncodedGroup) -> Result<()> {
        let mut writer = self.writer.next_row_group()?;
        for EncodedChunk { pages, close } in group.chunks {
            writer.append_column(&pages, close)?;
        }
        writer.close().map(drop)
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
