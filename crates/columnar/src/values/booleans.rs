//! Boolean values.

use parquet::basic::Encoding;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

use crate::bits::Bits;
use crate::chunk::Pages;
use crate::column::{Values, one_page};

/// Values that are true or false, a bit each.
#[derive(Debug, Default)]
pub struct Booleans(Bits);

impl Booleans {
    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: bool) {
        self.0.push(value);
    }

    /// Appends a value this many times.
    pub fn push_many(&mut self, value: bool, count: usize) {
        self.0.push_many(value, count);
    }
}

impl Values for Booleans {
    fn encode(&self, rows: usize, present: Option<&Bits>, pages: &mut Pages) -> Result<()> {
        one_page(rows, present, Encoding::PLAIN, pages, |raw| self.0.pack(0, self.0.len(), raw))
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        let is_any = !self.0.is_empty();
        let (least, most) = (self.0.ones() == self.0.len(), self.0.ones() > 0);
        Statistics::boolean(is_any.then_some(least), is_any.then_some(most), None, Some(nulls), false)
    }

    fn octets(&self) -> usize {
        self.0.len() / 8
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
