//! Integers, stored as differences.

use parquet::basic::Encoding;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

use crate::bits::Bits;
use crate::chunk::Pages;
use crate::column::{Values, one_page};
use crate::encoding::differences;

/// The type of a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerType {
    /// Sixteen bits without sign, which Parquet has as 32.
    U16,
    /// 64 bits with sign.
    I64,
    /// 64 bits without.
    U64,
}

/// Whole numbers (DELTA_BINARY_PACKED): few bits each where they grow slowly.
#[derive(Debug)]
pub struct Integers {
    kind: IntegerType,
    values: Vec<i64>,
}

impl Integers {
    /// No numbers of this type.
    pub const fn new(kind: IntegerType) -> Self {
        Self { kind, values: Vec::new() }
    }

    /// Appends a number, its 64 bits as they are.
    #[inline]
    pub fn push(&mut self, number: i64) {
        self.values.push(number);
    }
}

impl Values for Integers {
    fn encode(&self, rows: usize, present: Option<&Bits>, pages: &mut Pages) -> Result<()> {
        one_page(rows, present, Encoding::DELTA_BINARY_PACKED, pages, |raw| differences(&self.values, raw))
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        let values = || self.values.iter().copied();
        let nulls = Some(nulls);
        match self.kind {
            IntegerType::U16 => {
                let (least, most) = (values().min().map(|least| least as i32), values().max().map(|most| most as i32));
                Statistics::int32(least, most, None, nulls, false)
            }
            IntegerType::I64 => Statistics::int64(values().min(), values().max(), None, nulls, false),
            IntegerType::U64 => {
                let (least, most) =
                    (values().map(|value| value as u64).min(), values().map(|value| value as u64).max());
                Statistics::int64(least.map(|least| least as i64), most.map(|most| most as i64), None, nulls, false)
            }
        }
    }

    fn octets(&self) -> usize {
        self.values.len() * 2
    }

    fn clear(&mut self) {
        self.values.clear();
    }
}
