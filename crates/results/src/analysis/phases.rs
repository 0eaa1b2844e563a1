//! What the parts of a query over a connection took: to connect, to shake hands, until the first octet of the answer, until
//! its last one.

use std::collections::BTreeMap;

use arrow_array::types::{Int8Type, Int64Type};
use ldplayer_core::Status;

use super::read::{Batch, at};
use super::spread::Censored;
use crate::error::ResultsError;
use crate::model::Tail;

/// The parts, as they are called in `run.json`.
const NAMES: [&str; 4] = ["connect", "handshake", "first_byte", "last_byte"];

/// The durations of each part, of answered queries.
#[derive(Debug, Default)]
pub struct Phases([Censored; NAMES.len()]);

impl Phases {
    /// Adds the rows of queries over connections.
    pub fn add(&mut self, batch: &Batch<'_>) -> Result<(), ResultsError> {
        let Some(first) = batch.later_numbers::<Int64Type>("first_byte_ns")? else { return Ok(()) };
        let status = batch.words::<Int8Type, _>("status", |word| word == Status::Answered.as_str())?;
        let submitted = batch.numbers::<Int64Type>("submitted_ns")?;
        let answered = batch.numbers::<Int64Type>("answered_ns")?;
        let paid = [batch.numbers::<Int64Type>("connect_ns")?, batch.numbers::<Int64Type>("handshake_ns")?];
        for row in (0..batch.len()).filter(|&row| status.at(row) == Some(true)) {
            let (Some(first), Some(submitted), Some(answered)) =
                (at(first, row), at(submitted, row), at(answered, row))
            else {
                continue;
            };
            let [connect, handshake] = paid.map(|column| at(column, row));
            self.push([connect, handshake, Some(first - submitted), Some(answered - first)]);
        }
        Ok(())
    }

    fn push(&mut self, parts: [Option<i64>; NAMES.len()]) {
        for (part, took) in self.0.iter_mut().zip(parts).filter(|(_, took)| took.is_some()) {
            part.push(took);
        }
    }

    /// The slow side of each part that some query had.
    pub fn tails(&mut self) -> BTreeMap<String, Tail> {
        super::tails(&NAMES, &mut self.0)
    }
}
