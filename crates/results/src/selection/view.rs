//! The columns of a batch of rows, each by its type, and single cells of them.

use std::net::{IpAddr, SocketAddr};

use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type, UInt64Type};
use arrow_array::{Array, BooleanArray, PrimitiveArray};

use super::{COMPUTED, JOINED};
use crate::analysis::read::{Batch, Words, at};
use crate::error::ResultsError;
use crate::questions::{Question, Questions};

/// Columns of addresses.
const ADDRESSES: [&str; 2] = ["client", "server"];
/// Columns of words.
const WORDS: [&str; 6] = ["transport", "status", "reason", "answer", "class", "differs"];
/// Columns of bits.
const BITS: [&str; 10] =
    ["tc", "ad", "aa", "reused", "resumed", "early_data", "resent", "fell_back", "length_apart", "gave_up"];
/// Columns of times and durations in nanoseconds.
const NANOSECONDS: [&str; 8] = [
    "intended_ns",
    "submitted_ns",
    "sent_ns",
    "answered_ns",
    "connect_ns",
    "handshake_ns",
    "first_byte_ns",
    "scheduled_ns",
];
/// Columns of counts that may be large; all others have small ones.
const LARGE: [&str; 3] = ["index", "connection", "follows"];

/// What stands in a row and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// Nothing: the query has no such figure.
    Nothing,
    /// A number; durations are in nanoseconds.
    Number(i64),
    /// True or false.
    Bit(bool),
    /// A word or an address.
    Word(&'a str),
}

/// The columns of a batch that were asked for.
pub struct Views<'b> {
    columns: Vec<(&'static str, View<'b>)>,
    questions: Option<&'b Questions>,
}

enum View<'b> {
    Large(&'b PrimitiveArray<UInt64Type>),
    Small(&'b PrimitiveArray<UInt16Type>),
    Nanoseconds(&'b PrimitiveArray<Int64Type>),
    Bits(&'b BooleanArray),
    Words(Words<'b, Int8Type, &'b str>),
    Addresses(Words<'b, Int32Type, (&'b str, Option<IpAddr>)>),
    /// An earlier version wrote the file and had no such column.
    Missing,
}

impl<'b> Views<'b> {
    /// Looks at columns of a batch.
    ///
    /// # Errors
    /// One is of another type.
    pub fn of(
        batch: &'b Batch<'_>,
        columns: &[&'static str],
        questions: Option<&'b Questions>,
    ) -> Result<Self, ResultsError> {
        let columns = columns.iter().map(|&name| Ok((name, View::of(batch, name)?)));
        Ok(Self { columns: columns.collect::<Result<_, ResultsError>>()?, questions })
    }

    /// The cell of a column that may be a computed one.
    pub fn cell(&self, column: &str, row: usize) -> Cell<'_> {
        match COMPUTED.iter().find(|(name, ..)| *name == column) {
            Some((_, end, begin)) => {
                let span = self.number(end, row).zip(self.number(begin, row));
                span.map_or(Cell::Nothing, |(end, begin)| Cell::Number(end - begin))
            }
            None if JOINED.contains(&column) => self.question(row).map_or(Cell::Nothing, |question| {
                Cell::Word(if column == JOINED[0] { &question.name } else { &question.kind })
            }),
            None => self.view(column).map_or(Cell::Nothing, |view| view.cell(row)),
        }
    }

    /// What a row's query asked, out of the trace.
    pub fn question(&self, row: usize) -> Option<&Question> {
        let (index, due) = (self.number("index", row)?, self.number("intended_ns", row)?);
        self.questions?.at(index as u64, due)
    }

    /// The number in a column; `None` where there is none.
    pub fn number(&self, column: &str, row: usize) -> Option<i64> {
        match self.cell(column, row) {
            Cell::Number(number) => Some(number),
            Cell::Nothing | Cell::Bit(_) | Cell::Word(_) => None,
        }
    }

    /// The address in a column.
    pub fn address(&self, column: &str, row: usize) -> Option<IpAddr> {
        match self.view(column)? {
            View::Addresses(words) => words.at(row)?.1,
            _ => None,
        }
    }

    fn view(&self, column: &str) -> Option<&View<'b>> {
        self.columns.iter().find(|(name, _)| *name == column).map(|(_, view)| view)
    }
}

impl<'b> View<'b> {
    fn of(batch: &'b Batch<'_>, name: &'static str) -> Result<Self, ResultsError> {
        let view = match name {
            _ if ADDRESSES.contains(&name) => {
                batch.later_words(name, |word| (word, address(word)))?.map(Self::Addresses)
            }
            _ if WORDS.contains(&name) => batch.later_words(name, |word| word)?.map(Self::Words),
            _ if BITS.contains(&name) => batch.later_bits(name)?.map(Self::Bits),
            _ if NANOSECONDS.contains(&name) => batch.later_numbers(name)?.map(Self::Nanoseconds),
            _ if LARGE.contains(&name) => batch.later_numbers(name)?.map(Self::Large),
            _ => batch.later_numbers(name)?.map(Self::Small),
        };
        Ok(view.unwrap_or(Self::Missing))
    }

    fn cell(&self, row: usize) -> Cell<'b> {
        let cell = match self {
            // A row number beyond 2^63 is none that a trace has.
            Self::Large(column) => at(column, row).map(|number| Cell::Number(number as i64)),
            Self::Small(column) => at(column, row).map(|number| Cell::Number(i64::from(number))),
            Self::Nanoseconds(column) => at(column, row).map(Cell::Number),
            Self::Bits(column) => column.is_valid(row).then(|| Cell::Bit(column.value(row))),
            Self::Words(words) => words.at(row).map(Cell::Word),
            Self::Addresses(words) => words.at(row).map(|(word, _)| Cell::Word(word)),
            Self::Missing => None,
        };
        cell.unwrap_or(Cell::Nothing)
    }
}

/// The address of a client, or of a server with its port.
fn address(word: &str) -> Option<IpAddr> {
    word.parse().ok().or_else(|| word.parse().map(|server: SocketAddr| server.ip()).ok())
}
