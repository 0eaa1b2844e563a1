//! Copies rows of a run with other clients, for archives that name nobody.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, StringArray};
use ldplayer_net::output;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;

use crate::error::ResultsError;
use crate::{parquet_file, schema};

/// The column of a row's client.
const CLIENT: &str = "client";
/// Rows that are held at a time.
const ROWS: usize = 1 << 16;
/// The entry of a file's metadata that the writer makes itself.
const SCHEMA: &str = "ARROW:schema";

/// Copies a file of rows to a new file, each client replaced by what `replace` makes of its address.
///
/// # Errors
/// A file cannot be read or written, or holds no rows of a run.
pub fn replace_clients(from: &Path, to: &Path, mut replace: impl FnMut(IpAddr) -> IpAddr) -> Result<(), ResultsError> {
    let file = File::open(from).map_err(ResultsError::file(from))?;
    let builder = parquet_file::open(file).map_err(ResultsError::parquet(from))?;
    let known = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let kept: Vec<KeyValue> = known.into_iter().filter(|entry| entry.key != SCHEMA).collect();
    let properties = schema::small_file_properties().into_builder().set_key_value_metadata(Some(kept)).build();
    let out = output::create(to).map_err(ResultsError::file(to))?;
    let rows = builder.schema().clone();
    let mut writer = ArrowWriter::try_new(out, rows, Some(properties)).map_err(ResultsError::parquet(to))?;
    for batch in builder.with_batch_size(ROWS).build().map_err(ResultsError::parquet(from))? {
        let batch = batch.map_err(|error| ResultsError::parquet(from)(error.into()))?;
        let replaced = replaced(&batch, &mut replace)
            .ok_or_else(|| ResultsError::Column { path: from.to_owned(), column: CLIENT })?;
        writer.write(&replaced).map_err(ResultsError::parquet(to))?;
    }
    writer.close().map(drop).map_err(ResultsError::parquet(to))
}

/// The batch with other clients; `None` if it has no such column, or another value than an address in it.
fn replaced(batch: &RecordBatch, replace: &mut impl FnMut(IpAddr) -> IpAddr) -> Option<RecordBatch> {
    let at = batch.schema().index_of(CLIENT).ok()?;
    let clients = batch.column(at).as_any().downcast_ref::<DictionaryArray<Int32Type>>()?;
    let addresses = clients.values().as_any().downcast_ref::<StringArray>()?;
    let pseudonyms: StringArray = addresses
        .iter()
        .map(|address| address.map_or(Some(None), |address| Some(Some(replace(address.parse().ok()?).to_string()))))
        .collect::<Option<_>>()?;
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    columns[at] = Arc::new(clients.with_values(Arc::new(pseudonyms)));
    RecordBatch::try_new(batch.schema(), columns).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, UInt64Array};
    use std::net::Ipv4Addr;

    fn rows(client: &str) -> RecordBatch {
        let words = DictionaryArray::<Int32Type>::new(
            Int32Array::from(vec![1, 0, 1]),
            Arc::new(StringArray::from(vec!["2001:db8::1", client])),
        );
        let index = UInt64Array::from(vec![0, 1, 2]);
        RecordBatch::try_from_iter([("index", Arc::new(index) as ArrayRef), (CLIENT, Arc::new(words))]).unwrap()
    }

    fn copied(client: &str) -> Result<Vec<String>, ResultsError> {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let rows = rows(client);
        let mut writer = ArrowWriter::try_new(File::create(&from).unwrap(), rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        replace_clients(&from, &to, |address| match address {
            IpAddr::V4(_) => Ipv4Addr::new(198, 51, 100, 1).into(),
            v6 @ IpAddr::V6(_) => v6,
        })?;
        let mut read = parquet_file::open(File::open(&to).unwrap()).unwrap().build().unwrap();
        let batch = read.next().unwrap().unwrap();
        let index = batch.column(0).as_any().downcast_ref::<UInt64Array>().unwrap();
        assert_eq!(index.values(), &[0, 1, 2]);
        let clients = batch.column(1).as_any().downcast_ref::<DictionaryArray<Int32Type>>().unwrap();
        let clients = clients.downcast_dict::<StringArray>().unwrap();
        Ok(clients.into_iter().map(|client| client.unwrap().to_owned()).collect())
    }

    #[test]
    fn clients_are_replaced_and_nothing_else() {
        assert_eq!(copied("192.0.2.7").unwrap(), ["198.51.100.1", "2001:db8::1", "198.51.100.1"]);
        let error = copied("a host").unwrap_err().to_string();
        assert!(error.contains("column `client`"), "{error}");
    }
}
