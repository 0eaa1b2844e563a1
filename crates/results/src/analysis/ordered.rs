//! The second pass: rows in the order in which they were due, for whatever depends on order.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow_array::Array;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Answer, Reason, Status, Transport};

use super::accounts::{self, Activity, ActivityClass, UNSENT_BY_DESIGN};
use super::compared;
use super::read::{Batch, RowFiles, at};
use crate::error::ResultsError;

/// Columns that this pass reads.
const COLUMNS: [&str; 17] = [
    "client",
    "transport",
    "connection",
    "intended_ns",
    "submitted_ns",
    "sent_ns",
    "answered_ns",
    "status",
    "reason",
    "rcode",
    "query_bytes",
    "response_bytes",
    "reused",
    "resumed",
    "early_data",
    "class",
    "answer",
];
/// How a query came by its connection, as keys of the summary. Queries without one have no class.
pub const CONNECTIONS: [&str; 4] = ["fresh", "fresh_resumed", "fresh_early_data", "reused"];
/// Rows held and sorted at a time (about 50 MB), unless a single second has more.
const SLICE_ROWS: u64 = 1_000_000;

/// A query of the trace that was sent, or should have been.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// When it was due.
    pub intended: i64,
    /// When it was handed to the kernel; `None` when it was not sent.
    pub submitted: Option<i64>,
    /// The kernel's stamp of the sending, else as `submitted`.
    pub sent: Option<i64>,
    /// When its answer came.
    pub answered: Option<i64>,
    /// Its transport, an index of [`Transport::ALL`].
    pub transport: u8,
    /// How busy its client is.
    pub activity: ActivityClass,
    /// How it came by its connection, an index of [`CONNECTIONS`] or beyond.
    pub connection: u8,
    /// The class of its client, an index of [`ClassNames`].
    pub class: Option<u8>,
    /// How its answer compares with the expected one.
    pub answer: Option<Answer>,
    /// How it ended.
    pub status: Status,
    /// Response code of its answer.
    pub rcode: Option<u16>,
    /// Octets of the query.
    pub query_bytes: u16,
    /// Octets of its answer.
    pub response_bytes: u16,
}

/// Names of the classes of clients, in the order in which rows have them.
#[derive(Debug, Default)]
pub struct ClassNames(pub Vec<String>);

impl ClassNames {
    /// The number of a name; `None` beyond what a run can have.
    fn number(&mut self, name: &str) -> Option<u8> {
        let known = self.0.iter().position(|known| known == name);
        u8::try_from(known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        }))
        .ok()
    }
}

/// Gives the rows slice by slice, each sorted by due time; memory is bounded by the slice.
///
/// `due_by_second` says how many rows are due in each second, so that slices can be cut beforehand.
pub fn scan(
    files: &RowFiles,
    due_by_second: &BTreeMap<i64, u64>,
    activity: &Activity,
    mut each: impl FnMut(&[Row]),
) -> Result<ClassNames, ResultsError> {
    let (mut rows, mut names) = (Vec::new(), ClassNames::default());
    for due in slices(due_by_second, SLICE_ROWS) {
        rows.clear();
        files.scan(&COLUMNS, &due, |batch| collect(batch, &due, activity, &mut names, &mut rows))?;
        rows.sort_unstable_by_key(|row| (row.intended, row.submitted));
        each(&rows);
    }
    Ok(names)
}

/// Stretches of whole seconds with at most `limit` rows each, or one second.
fn slices(due_by_second: &BTreeMap<i64, u64>, limit: u64) -> Vec<Range<i64>> {
    let mut slices: Vec<Range<i64>> = Vec::new();
    let mut filled = 0;
    for (&second, &count) in due_by_second {
        let end = (second + 1).saturating_mul(NS_PER_S);
        match slices.last_mut() {
            Some(slice) if filled + count <= limit => {
                slice.end = end;
                filled += count;
            }
            _ => {
                slices.push(second.saturating_mul(NS_PER_S)..end);
                filled = count;
            }
        }
    }
    slices
}

fn collect(
    batch: &Batch<'_>,
    due: &Range<i64>,
    activity: &Activity,
    names: &mut ClassNames,
    rows: &mut Vec<Row>,
) -> Result<(), ResultsError> {
    let classes = batch.later_words::<Int8Type, _>("class", |name| names.number(name))?;
    let status = batch.words::<Int8Type, _>("status", accounts::status)?;
    let reason = batch.words::<Int8Type, _>("reason", accounts::reason)?;
    let client = batch.words::<Int32Type, _>("client", |address| activity.class(address))?;
    let transport = batch.words::<Int8Type, _>("transport", |word| word.parse().unwrap_or(Transport::Udp) as u8)?;
    let intended = batch.numbers::<Int64Type>("intended_ns")?;
    let submitted = batch.numbers::<Int64Type>("submitted_ns")?;
    let sent = batch.numbers::<Int64Type>("sent_ns")?;
    let answered = batch.numbers::<Int64Type>("answered_ns")?;
    let connection = batch.numbers::<UInt64Type>("connection")?;
    let (reused, resumed, early) = (batch.bits("reused")?, batch.bits("resumed")?, batch.bits("early_data")?);
    let rcode = batch.numbers::<UInt16Type>("rcode")?;
    let (query, response) =
        (batch.numbers::<UInt16Type>("query_bytes")?, batch.numbers::<UInt16Type>("response_bytes")?);
    let compared = batch.words::<Int8Type, _>("answer", compared::answer)?;
    let class = |row: usize| match (connection.is_valid(row), reused.value(row)) {
        (false, _) => u8::MAX,
        (_, true) => 3,
        (_, false) if early.value(row) => 2,
        (_, false) => u8::from(resumed.value(row)),
    };
    for row in 0..batch.len() {
        let ended = status.at(row).flatten().filter(|&status| counts(status, reason.at(row).flatten()));
        let Some(status) = ended.filter(|_| due.contains(&intended.value(row))) else { continue };
        let is_answered = status == Status::Answered;
        rows.push(Row {
            intended: intended.value(row),
            submitted: at(submitted, row),
            sent: at(sent, row).or(at(submitted, row)),
            answered: at(answered, row).filter(|_| is_answered),
            transport: transport.at(row).unwrap_or_default(),
            activity: client.at(row).unwrap_or_default(),
            connection: class(row),
            answer: compared.at(row).flatten(),
            status,
            rcode: at(rcode, row).filter(|_| is_answered),
            query_bytes: query.value(row),
            response_bytes: response.value(row),
            class: classes.as_ref().and_then(|classes| classes.at(row)).flatten(),
        });
    }
    Ok(())
}

/// Whether the row is of a query that this run should have sent.
fn counts(status: Status, reason: Option<Reason>) -> bool {
    let by_design = status == Status::NotSent && reason.is_some_and(|reason| UNSENT_BY_DESIGN.contains(&reason));
    status.is_query() && !by_design
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_hold_no_more_rows_than_allowed_unless_one_second_does() {
        let due = BTreeMap::from([(-1, 4), (0, 4), (1, 4), (5, 20), (6, 1)]);
        let seconds: Vec<(i64, i64)> =
            slices(&due, 10).iter().map(|slice| (slice.start / NS_PER_S, slice.end / NS_PER_S)).collect();
        assert_eq!(seconds, [(-1, 1), (1, 2), (5, 6), (6, 7)]);
    }
}
