//! Which queries of a run were answered otherwise than expected, out of its rows.

use std::net::IpAddr;
use std::path::Path;

use arrow_array::types::{Int8Type, Int32Type, UInt64Type};
use ldplayer_core::Answer;

use crate::analysis::read::{Batch, RowFiles, at};
use crate::error::ResultsError;
use crate::store::RunDir;

const COLUMNS: [&str; 3] = ["index", "client", "answer"];

/// Names each such query by its row in the trace and its client.
///
/// # Errors
/// The directory's row files cannot be read.
pub fn disagreeing(run: &Path, mut each: impl FnMut(u64, IpAddr)) -> Result<(), ResultsError> {
    let files = RowFiles::open(&RunDir::new(run))?;
    files.scan(&COLUMNS, &(i64::MIN..i64::MAX), |batch| read(batch, &mut each))
}

fn read(batch: &Batch<'_>, each: &mut impl FnMut(u64, IpAddr)) -> Result<(), ResultsError> {
    let index = batch.numbers::<UInt64Type>(COLUMNS[0])?;
    let clients = batch.words::<Int32Type, _>(COLUMNS[1], |word| word.parse::<IpAddr>().ok())?;
    let disagrees = batch.words::<Int8Type, _>(COLUMNS[2], |word| word != Answer::Match.as_str())?;
    for row in (0..batch.len()).filter(|&row| disagrees.at(row) == Some(true)) {
        if let (Some(index), Some(Some(client))) = (at(index, row), clients.at(row)) {
            each(index, client);
        }
    }
    Ok(())
}
