//! Encodes one row group; several can be encoded in parallel.

use std::sync::Arc;

use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescPtr;

use crate::chunk::{Compression, EncodedChunk, Pages};
use crate::column::Encode;

/// Encodes row groups of one file, one after the other; threads each have their own.
pub struct GroupEncoder {
    columns: Arc<[ColumnDescPtr]>,
    pages: Pages,
}

/// A row group that only has to be put into its file.
pub struct EncodedGroup {
    pub(crate) chunks: Vec<EncodedChunk>,
}

impl GroupEncoder {
    pub(crate) fn new(columns: &Arc<[ColumnDescPtr]>, compression: Compression) -> Result<Self> {
        Ok(Self { columns: Arc::clone(columns), pages: Pages::new(compression)? })
    }

    /// Encodes a row group of `rows` rows, its columns in the order of the schema.
    ///
    /// # Errors
    /// When a column cannot be compressed, or when there are fewer or more columns than the file has.
    pub fn encode(&mut self, rows: usize, columns: &[&dyn Encode]) -> Result<EncodedGroup> {
        if columns.len() != self.columns.len() {
            let what = format!("{} columns for a file of {}", columns.len(), self.columns.len());
            return Err(ParquetError::General(what));
        }
        let encode = |(description, column): (&ColumnDescPtr, &&dyn Encode)| {
            self.pages.chunk(Arc::clone(description), |pages| column.encode(rows, pages))
        };
        let chunks = self.columns.iter().zip(columns).map(encode).collect::<Result<_>>()?;
        Ok(EncodedGroup { chunks })
    }
}
