//! Opens Parquet files of run directories, which somebody else may have made.

use std::fs::File;

use ldplayer_columnar::check_pages;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

/// A reader of a file whose pages are small enough to be decoded.
pub(crate) fn open(file: File) -> Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    let metadata = metadata(&file)?;
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata))
}

/// The metadata of such a file.
pub(crate) fn metadata(file: &File) -> Result<ArrowReaderMetadata, ParquetError> {
    let metadata = ArrowReaderMetadata::load(file, Default::default())?;
    check_pages(file, metadata.metadata())?;
    Ok(metadata)
}
