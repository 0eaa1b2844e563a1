//! `telemetry.parquet`: figures of processes and the kernel, sampled during the run.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use ldplayer_core::RunTime;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::{Deserialize, Serialize};

use crate::error::ResultsError;
use crate::schema;

/// Which end a sample was taken at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// One figure at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetrySample {
    /// When it was read.
    pub at: RunTime,
    /// At which end.
    pub side: Side,
    /// What it is, with its unit at the end, such as `cpu_user_s`, `rss_bytes`, `udp_rcvbuf_errors`.
    pub name: Cow<'static, str>,
    /// The figure.
    pub value: f64,
}

/// Writes all samples, also when there are none, so that the file is always there to query.
pub fn write(path: &Path, samples: &[TelemetrySample]) -> Result<(), ResultsError> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("at_ns", DataType::Int64, false),
        Field::new("side", DataType::Utf8, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("value", DataType::Float64, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(samples.iter().map(|sample| sample.at.0).collect::<Int64Array>()),
        Arc::new(StringArray::from_iter_values(samples.iter().map(|sample| sample.side.as_str()))),
        Arc::new(StringArray::from_iter_values(samples.iter().map(|sample| sample.name.as_ref()))),
        Arc::new(samples.iter().map(|sample| sample.value).collect::<Float64Array>()),
    ];
    let file = File::create(path).map_err(ResultsError::file(path))?;
    let write = || {
        let batch = RecordBatch::try_new(schema.clone(), columns)?;
        let mut writer = ArrowWriter::try_new(file, schema, Some(schema::small_file_properties()))?;
        writer.write(&batch)?;
        writer.close().map(drop)
    };
    write().map_err(ResultsError::parquet(path))
}

/// Reads the client's samples back, as time in nanoseconds, name and figure; none where a run never came to write them.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read_client(path: &Path, mut each: impl FnMut(i64, &str, f64)) -> Result<(), ResultsError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(ResultsError::file(path))?,
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(ResultsError::parquet(path))?;
    for batch in builder.build().map_err(ResultsError::parquet(path))? {
        let batch = batch.map_err(|error| ResultsError::parquet(path)(error.into()))?;
        let column = |name| batch.column_by_name(name).map(AsArray::as_string_opt::<i32>);
        let at = batch.column_by_name("at_ns").and_then(|at| at.as_primitive_opt::<Int64Type>());
        let value = batch.column_by_name("value").and_then(|value| value.as_primitive_opt::<Float64Type>());
        let (Some(at), Some(Some(side)), Some(Some(name)), Some(value)) = (at, column("side"), column("name"), value)
        else {
            return Err(ResultsError::Column { path: path.to_owned(), column: "at_ns, side, name, value" });
        };
        let rows = (0..batch.num_rows()).filter(|&row| side.value(row) == Side::Client.as_str());
        rows.for_each(|row| each(at.value(row), name.value(row), value.value(row)));
    }
    Ok(())
}
