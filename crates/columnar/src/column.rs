//! A column of a row group being filled: values, and which rows have one.

use parquet::basic::Encoding;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

use crate::bits::Bits;
use crate::chunk::Pages;

/// A column of any kind, ready to be encoded.
pub trait Encode: Sync {
    /// Writes all pages of `rows` rows, and describes them.
    ///
    /// # Errors
    /// When a page cannot be compressed.
    fn encode(&self, rows: usize, pages: &mut Pages) -> Result<Statistics>;

    /// About how many octets its pages have before compression; those of most work are encoded first.
    fn octets(&self) -> usize;

    /// Makes it empty. Its memory stays.
    fn clear(&mut self);
}

/// The values of a column, without its nulls.
pub trait Values: Sync {
    /// Writes all pages. `present` says which rows have a value, where nulls may be.
    ///
    /// # Errors
    /// When a page cannot be compressed.
    fn encode(&self, rows: usize, present: Option<&Bits>, pages: &mut Pages) -> Result<()>;

    /// The metadata of this many nulls and these values.
    fn statistics(&self, nulls: u64) -> Statistics;

    /// About how many octets they have before compression.
    fn octets(&self) -> usize;

    /// Makes it empty. Its memory stays.
    fn clear(&mut self);
}

/// A column of a row group.
#[derive(Debug)]
pub struct Column<V> {
    /// Which rows have a value; `None` where all must.
    present: Option<Bits>,
    pub(crate) values: V,
}

impl<V: Values> Column<V> {
    /// Every row has a value.
    pub const fn required(values: V) -> Self {
        Self { present: None, values }
    }

    /// A row may have none.
    pub fn optional(values: V) -> Self {
        Self { present: Some(Bits::default()), values }
    }

    /// Appends rows that all have a value.
    #[inline]
    pub fn extend<T>(&mut self, rows: impl Iterator<Item = T>, mut push: impl FnMut(&mut V, T)) {
        let mut count = 0;
        rows.for_each(|value| {
            push(&mut self.values, value);
            count += 1;
        });
        if let Some(present) = &mut self.present {
            present.push_many(true, count);
        }
    }

    /// Appends rows to a column that may have nulls; in one that may not, rows without a value are skipped.
    #[inline]
    pub fn extend_some<T>(&mut self, rows: impl Iterator<Item = Option<T>>, mut push: impl FnMut(&mut V, T)) {
        let Self { present: Some(present), values } = self else { return self.extend(rows.flatten(), push) };
        for value in rows {
            present.push(value.is_some());
            if let Some(value) = value {
                push(values, value);
            }
        }
    }

    /// Appends this many nulls.
    pub fn extend_nulls(&mut self, rows: usize) {
        if let Some(present) = &mut self.present {
            present.push_many(false, rows);
        }
    }

    /// The values, for what only their kind can do.
    pub const fn values_mut(&mut self) -> &mut V {
        &mut self.values
    }
}

impl<V: Values> Encode for Column<V> {
    fn encode(&self, rows: usize, pages: &mut Pages) -> Result<Statistics> {
        self.values.encode(rows, self.present.as_ref(), pages)?;
        let nulls = self.present.as_ref().map_or(0, |present| present.len() - present.ones());
        Ok(self.values.statistics(nulls as u64))
    }

    fn octets(&self) -> usize {
        self.values.octets()
    }

    fn clear(&mut self) {
        if let Some(present) = &mut self.present {
            present.clear();
        }
        self.values.clear();
    }
}

/// Writes the only page of a column, whose values `fill` appends.
pub(crate) fn one_page(
    rows: usize,
    present: Option<&Bits>,
    encoding: Encoding,
    pages: &mut Pages,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Result<()> {
    if let Some(present) = present {
        present.levels(0, rows, pages.raw());
    }
    fill(pages.raw());
    pages.page(rows, encoding)
}
