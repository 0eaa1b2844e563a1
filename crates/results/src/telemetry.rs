//! `telemetry.parquet`: figures of processes and the kernel, sampled during the run.

mod figure;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use ldplayer_core::RunTime;
use ldplayer_net::output::Pending;
use parquet::arrow::ArrowWriter;
use serde::{Deserialize, Serialize};

pub use self::figure::{Figure, Kind, Scope};

use crate::error::ResultsError;
use crate::schema;

/// Which end a sample was taken at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The host that replays.
    Client,
    /// The server under test.
    Server,
}

impl Side {
    /// The word used in the run directory.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    fn named(word: &str) -> Option<Self> {
        [Self::Client, Self::Server].into_iter().find(|side| side.as_str() == word)
    }
}

/// One figure at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TelemetrySample {
    /// When it was read.
    pub at: RunTime,
    /// At which end.
    pub side: Side,
    /// What it is.
    pub figure: Figure,
    /// Its value; `None` when it could not be read.
    pub value: Option<f64>,
}

/// Writes all samples, also when there are none, so that the file is always there to query.
pub fn write(path: &Path, samples: &[TelemetrySample]) -> Result<(), ResultsError> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("at_ns", DataType::Int64, false),
        Field::new("side", DataType::Utf8, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("value", DataType::Float64, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(samples.iter().map(|sample| sample.at.0).collect::<Int64Array>()),
        Arc::new(StringArray::from_iter_values(samples.iter().map(|sample| sample.side.as_str()))),
        Arc::new(StringArray::from_iter_values(samples.iter().map(|sample| sample.figure.as_str()))),
        Arc::new(samples.iter().map(|sample| sample.value).collect::<Float64Array>()),
    ];
    let mut file = Pending::new(path).map_err(ResultsError::file(path))?;
    let write = || {
        let batch = RecordBatch::try_new(schema.clone(), columns)?;
        let mut writer = ArrowWriter::try_new(&mut file, schema, Some(schema::small_file_properties()))?;
        writer.write(&batch)?;
        writer.close().map(drop)
    };
    write().map_err(ResultsError::parquet(path))?;
    file.finish().map_err(ResultsError::file(path))
}

/// Reads the samples that have a value; empty if the run never wrote them. Names that this release does not know are passed over.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read(path: &Path, mut each: impl FnMut(TelemetrySample)) -> Result<(), ResultsError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(ResultsError::file(path))?,
    };
    let builder = crate::parquet_file::open(file).map_err(ResultsError::parquet(path))?;
    for batch in builder.build().map_err(ResultsError::parquet(path))? {
        let batch = batch.map_err(|error| ResultsError::parquet(path)(error.into()))?;
        let columns = read_batch(&batch, &mut each);
        columns.ok_or_else(|| ResultsError::Column { path: path.to_owned(), column: "at_ns, side, name, value" })?;
    }
    Ok(())
}

/// `None` where a column is missing or of another type.
fn read_batch(batch: &RecordBatch, each: &mut impl FnMut(TelemetrySample)) -> Option<()> {
    let text = |name| batch.column_by_name(name)?.as_string_view_opt();
    let at = batch.column_by_name("at_ns")?.as_primitive_opt::<Int64Type>()?;
    let value = batch.column_by_name("value")?.as_primitive_opt::<Float64Type>()?;
    let (side, name) = (text("side")?, text("name")?);
    let sample = |row: usize| {
        let value = Some(value.value(row)).filter(|value| !batch_is_null(batch, row) && value.is_finite());
        let (side, figure) = (Side::named(side.value(row))?, Figure::named(name.value(row))?);
        Some(TelemetrySample { at: RunTime(at.value(row)), side, figure, value: Some(value?) })
    };
    (0..batch.num_rows()).filter_map(sample).for_each(each);
    Some(())
}

fn batch_is_null(batch: &RecordBatch, row: usize) -> bool {
    batch.columns().iter().any(|column| column.is_null(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn what_could_not_be_read_is_null_and_not_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("telemetry.parquet");
        let sample =
            |at, value| TelemetrySample { at: RunTime(at), side: Side::Server, figure: Figure::PssBytes, value };
        write(&path, &[sample(1, None), sample(2, Some(0.0)), sample(3, Some(7.0))]).unwrap();
        let mut found = Vec::new();
        read(&path, |sample| found.push(sample)).unwrap();
        assert_eq!(found, [sample(2, Some(0.0)), sample(3, Some(7.0))]);
        let batches = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap().build().unwrap();
        let nulls: usize = batches.map(|batch| batch.unwrap().column_by_name("value").unwrap().null_count()).sum();
        assert_eq!(nulls, 1);
    }
}
