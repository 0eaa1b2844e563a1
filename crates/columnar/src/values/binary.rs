//! Binary and text values that rarely repeat.

use parquet::basic::Encoding;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

use crate::bits::Bits;
use crate::chunk::Pages;
use crate::column::{Column, Values};
use crate::encoding::differences;

/// Octets of values at which a page of them ends.
const PAGE: usize = 512 * 1024;

/// Octets that hardly repeat, such as messages and names (DELTA_LENGTH_BYTE_ARRAY: all lengths, then all octets).
#[derive(Debug, Default)]
pub struct Binary {
    octets: Vec<u8>,
    lengths: Vec<i64>,
    /// Where pages end.
    ends: Vec<End>,
}

/// Rows, values and octets before the end of a page.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    rows: usize,
    values: usize,
    octets: usize,
}

impl Binary {
    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        self.octets.extend_from_slice(value);
        self.lengths.push(value.len() as i64);
    }

    /// Appends the value that `fill` appends.
    #[inline]
    pub fn push_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.octets.len();
        fill(&mut self.octets);
        self.lengths.push((self.octets.len() - start) as i64);
    }

    const fn end(&self, rows: usize) -> End {
        End { rows, values: self.lengths.len(), octets: self.octets.len() }
    }
}

impl Column<Binary> {
    /// Ends a page behind the row `rows`, a multiple of eight, if it is large enough.
    pub fn end_page(&mut self, rows: usize) {
        let values = &mut self.values;
        let start = values.ends.last().map_or(0, |end| end.octets);
        if values.octets.len() - start >= PAGE {
            values.ends.push(values.end(rows));
        }
    }

    /// Octets gathered.
    pub const fn gathered(&self) -> usize {
        self.values.octets.len()
    }
}

impl Values for Binary {
    fn encode(&self, rows: usize, present: Option<&Bits>, pages: &mut Pages) -> Result<()> {
        let mut start = End::default();
        let last = self.end(rows);
        for &end in self.ends.iter().filter(|end| end.rows < rows).chain([&last]) {
            if let Some(present) = present {
                present.levels(start.rows, end.rows, pages.raw());
            }
            differences(&self.lengths[start.values..end.values], pages.raw());
            pages.raw().extend_from_slice(&self.octets[start.octets..end.octets]);
            pages.page(end.rows - start.rows, Encoding::DELTA_LENGTH_BYTE_ARRAY)?;
            start = end;
        }
        Ok(())
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        Statistics::byte_array(None, None, None, Some(nulls), false)
    }

    fn octets(&self) -> usize {
        self.octets.len()
    }

    fn clear(&mut self) {
        self.octets.clear();
        self.lengths.clear();
        self.ends.clear();
    }
}
