//! The columns of a row group while they are gathered, each by what it holds, and the pages that they become.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

use super::chunk::ChunkWriter;
use super::packed::{Bits, differences, places};

/// Octets of messages or names at which a page of them ends.
const PAGE: usize = 512 * 1024;

/// A column of any kind.
pub(super) trait Chunk {
    /// Writes all pages of `rows` rows, and says what is in them.
    fn write(&self, rows: usize, chunk: &mut ChunkWriter) -> Result<Statistics>;

    /// Makes it empty. Its memory stays.
    fn clear(&mut self);
}

/// The values of a column, without its nulls.
pub(super) trait Values {
    /// Writes all pages. `present` says which rows have a value, where nulls may be.
    fn write(&self, rows: usize, present: Option<&Bits>, chunk: &mut ChunkWriter) -> Result<()>;

    /// What the directory says of so many nulls and these values.
    fn statistics(&self, nulls: Option<u64>) -> Statistics;

    /// Makes it empty.
    fn clear(&mut self);
}

/// A column of a row group.
#[derive(Debug)]
pub(super) struct Column<V> {
    /// Which rows have a value; `None` where all must.
    present: Option<Bits>,
    values: V,
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

    /// Appends rows of which each has a value.
    pub fn extend<T>(&mut self, rows: impl Iterator<Item = T>, mut push: impl FnMut(&mut V, T)) {
        rows.for_each(|value| push(&mut self.values, value));
    }

    /// Appends rows to a column that may have nulls.
    pub fn extend_some<T>(&mut self, rows: impl Iterator<Item = Option<T>>, mut push: impl FnMut(&mut V, T)) {
        let Self { present: Some(present), values } = self else { return self.extend(rows.flatten(), push) };
        for value in rows {
            present.push(value.is_some());
            if let Some(value) = value {
                push(values, value);
            }
        }
    }
}

impl<V: Values> Chunk for Column<V> {
    fn write(&self, rows: usize, chunk: &mut ChunkWriter) -> Result<Statistics> {
        self.values.write(rows, self.present.as_ref(), chunk)?;
        let nulls = self.present.as_ref().map_or(0, |present| present.len() - present.ones());
        Ok(self.values.statistics(Some(nulls as u64)))
    }

    fn clear(&mut self) {
        if let Some(present) = &mut self.present {
            present.clear();
        }
        self.values.clear();
    }
}

/// Writes the only page of a column, whose values `fill` appends.
fn one_page(
    rows: usize,
    present: Option<&Bits>,
    encoding: Encoding,
    chunk: &mut ChunkWriter,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Result<()> {
    if let Some(present) = present {
        present.levels(0, rows, chunk.raw());
    }
    fill(chunk.raw());
    chunk.page(rows, encoding)
}

/// The type of a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// Sixteen bits without sign, which Parquet has as 32.
    U16,
    /// 64 bits with sign.
    I64,
    /// 64 bits without.
    U64,
}

/// Whole numbers, as differences.
#[derive(Debug)]
pub(super) struct Numbers {
    kind: Number,
    values: Vec<i64>,
}

impl Numbers {
    pub const fn new(kind: Number) -> Self {
        Self { kind, values: Vec::new() }
    }

    #[inline]
    pub fn push(&mut self, number: i64) {
        self.values.push(number);
    }
}

impl Values for Numbers {
    fn write(&self, rows: usize, present: Option<&Bits>, chunk: &mut ChunkWriter) -> Result<()> {
        one_page(rows, present, Encoding::DELTA_BINARY_PACKED, chunk, |raw| differences(&self.values, raw))
    }

    fn statistics(&self, nulls: Option<u64>) -> Statistics {
        let values = || self.values.iter().copied();
        match self.kind {
            Number::U16 => {
                let (least, most) = (values().min().map(|least| least as i32), values().max().map(|most| most as i32));
                Statistics::int32(least, most, None, nulls, false)
            }
            Number::I64 => Statistics::int64(values().min(), values().max(), None, nulls, false),
            Number::U64 => {
                let key = |value: &i64| *value as u64;
                Statistics::int64(values().min_by_key(key), values().max_by_key(key), None, nulls, false)
            }
        }
    }

    fn clear(&mut self) {
        self.values.clear();
    }
}

/// True or false.
#[derive(Debug, Default)]
pub(super) struct Truths(Bits);

impl Truths {
    #[inline]
    pub fn push(&mut self, truth: bool) {
        self.0.push(truth);
    }
}

impl Values for Truths {
    fn write(&self, rows: usize, present: Option<&Bits>, chunk: &mut ChunkWriter) -> Result<()> {
        one_page(rows, present, Encoding::PLAIN, chunk, |raw| self.0.pack(0, self.0.len(), raw))
    }

    fn statistics(&self, nulls: Option<u64>) -> Statistics {
        let is_any = self.0.len() > 0;
        let (least, most) = (self.0.ones() == self.0.len(), self.0.ones() > 0);
        Statistics::boolean(is_any.then_some(least), is_any.then_some(most), None, nulls, false)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Octets that hardly repeat.
#[derive(Debug, Default)]
pub(super) struct Octets {
    plain: Vec<u8>,
    /// Where pages end: rows and octets before that.
    ends: Vec<(usize, usize)>,
}

impl Octets {
    #[inline]
    pub fn push(&mut self, octets: &[u8]) {
        self.plain.extend_from_slice(&(octets.len() as u32).to_le_bytes());
        self.plain.extend_from_slice(octets);
    }

    /// Appends the octets that `fill` appends.
    #[inline]
    pub fn push_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        behind_length(&mut self.plain, fill);
    }
}

/// Appends a value that `fill` appends, and its length before it.
#[inline]
fn behind_length(plain: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = plain.len() + 4;
    plain.extend_from_slice(&[0; 4]);
    fill(plain);
    let length = (plain.len() - start) as u32;
    plain[start - 4..start].copy_from_slice(&length.to_le_bytes());
}

impl Column<Octets> {
    /// Ends a page behind the row `rows`, a multiple of eight, if it is large enough.
    pub fn end_page(&mut self, rows: usize) {
        let Octets { plain, ends } = &mut self.values;
        let start = ends.last().map_or(0, |(_, octets)| *octets);
        if plain.len() - start >= PAGE {
            ends.push((rows, plain.len()));
        }
    }

    /// Octets gathered, with their lengths.
    pub const fn octets(&self) -> usize {
        self.values.plain.len()
    }
}

impl Values for Octets {
    fn write(&self, rows: usize, present: Option<&Bits>, chunk: &mut ChunkWriter) -> Result<()> {
        let mut start = (0, 0);
        let last = (rows, self.plain.len());
        for &end in self.ends.iter().filter(|end| end.0 < rows).chain([&last]) {
            if let Some(present) = present {
                present.levels(start.0, end.0, chunk.raw());
            }
            chunk.raw().extend_from_slice(&self.plain[start.1..end.1]);
            chunk.page(end.0 - start.0, Encoding::PLAIN)?;
            start = end;
        }
        Ok(())
    }

    fn statistics(&self, nulls: Option<u64>) -> Statistics {
        Statistics::byte_array(None, None, None, nulls, false)
    }

    fn clear(&mut self) {
        self.plain.clear();
        self.ends.clear();
    }
}

/// What a text stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Most of them; apart from the others, since a small table is found in a near cache.
    Short(u32),
    /// Addresses of IPv6.
    Long(u128),
}

/// Texts that repeat, each shown and stored once.
#[derive(Debug)]
pub(super) struct Words {
    short: HashMap<u32, u32, FixedState>,
    long: HashMap<u128, u32, FixedState>,
    entries: u32,
    /// The value before, which is often the next one, too.
    last: Option<(Key, u32)>,
    /// The texts, each behind its length.
    plain: Vec<u8>,
    places: Vec<u32>,
}

impl Default for Words {
    fn default() -> Self {
        // The place of an entry is that of its first row, so the hash does not show.
        let hash = || FixedState::with_seed(0);
        let (short, long) = (HashMap::with_hasher(hash()), HashMap::with_hasher(hash()));
        Self { short, long, entries: 0, last: None, plain: Vec::new(), places: Vec::new() }
    }
}

impl Words {
    /// Appends a value, whose text `show` appends.
    #[inline]
    pub fn push(&mut self, key: Key, show: impl FnOnce(&mut Vec<u8>)) {
        let place = match self.last {
            Some((last, place)) if last == key => place,
            _ => self.place(key, show),
        };
        self.last = Some((key, place));
        self.places.push(place);
    }

    #[inline]
    fn place(&mut self, key: Key, show: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let (plain, next) = (&mut self.plain, self.entries);
        let new = || {
            behind_length(plain, show);
            next
        };
        let place = match key {
            Key::Short(key) => *self.short.entry(key).or_insert_with(new),
            Key::Long(key) => *self.long.entry(key).or_insert_with(new),
        };
        self.entries = next.max(place + 1);
        place
    }

    /// The texts of the dictionary.
    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.plain[..];
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            Some(text)
        })
    }
}

impl Values for Words {
    fn write(&self, rows: usize, present: Option<&Bits>, chunk: &mut ChunkWriter) -> Result<()> {
        let entries = self.entries as usize;
        if entries == 0 {
            return one_page(rows, present, Encoding::PLAIN, chunk, |_| ());
        }
        chunk.raw().extend_from_slice(&self.plain);
        chunk.dictionary(entries)?;
        one_page(rows, present, Encoding::RLE_DICTIONARY, chunk, |raw| places(&self.places, entries, raw))
    }

    fn statistics(&self, nulls: Option<u64>) -> Statistics {
        let octets = |text: Option<&[u8]>| text.map(|text| ByteArray::from(text.to_vec()));
        Statistics::byte_array(octets(self.texts().min()), octets(self.texts().max()), None, nulls, false)
    }

    fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
        (self.entries, self.last) = (0, None);
        self.plain.clear();
        self.places.clear();
    }
}
