//! Opens Parquet files of run directories, which somebody else may have made.

use std::fs::File;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use ldplayer_columnar::check_pages;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

/// A reader of a file whose pages are small enough to be decoded. Text and octets are views.
pub(crate) fn open(file: File) -> Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    let metadata = metadata(&file)?;
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata))
}

/// The metadata of such a file.
pub(crate) fn metadata(file: &File) -> Result<ArrowReaderMetadata, ParquetError> {
    let found = ArrowReaderMetadata::load(file, ArrowReaderOptions::new())?;
    check_pages(file, found.metadata())?;
    let fields: Vec<Field> = found.schema().fields().iter().map(|field| shared(field)).collect();
    let schema = Schema::new_with_metadata(fields, found.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(found.metadata().clone(), options)
}

/// A column whose rows share a value that its pages have once: otherwise each row of a batch would have a copy.
fn shared(field: &Field) -> Field {
    let kind = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    };
    field.clone().with_data_type(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_writer::ArrowWriterOptions;

    #[test]
    fn a_long_value_of_many_rows_is_held_once() {
        let (rows, long) = (400, "x".repeat(512 << 10));
        let words =
            DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; rows]), Arc::new(StringArray::from(vec![long])));
        let batch = RecordBatch::try_from_iter([("side", Arc::new(words) as ArrayRef)]).unwrap();
        let file = tempfile::tempfile().unwrap();
        // The file does not say that the column was a dictionary.
        let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
        let mut writer = ArrowWriter::try_new_with_options(file.try_clone().unwrap(), batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let batches: Vec<RecordBatch> = open(file).unwrap().build().unwrap().map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
        let octets: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        assert!(octets < 4 << 20, "{octets} bytes, where a copy for each row is 200 MB");
    }
}
