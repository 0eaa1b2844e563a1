//! Texts that repeat, each stored once in a dictionary.

use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

use crate::bits::Bits;
use crate::chunk::Pages;
use crate::column::{Values, one_page};
use crate::encoding::indices;

/// Texts that repeat: each once in a dictionary, and its index for each row (RLE_DICTIONARY).
///
/// Whoever fills it finds the index of a text, since that is cheaper by the number or address that the text shows than
/// by hashing the text, which is what the Parquet library does.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// The texts, each behind its length.
    plain: Vec<u8>,
    entries: u32,
    /// Texts that stay when the column is made empty.
    is_fixed: bool,
    indices: Vec<u32>,
}

impl Dictionary {
    /// One of these texts, their indices counting from 0, for all row groups.
    pub fn fixed<'w>(texts: impl IntoIterator<Item = &'w str>) -> Self {
        let mut dictionary = Self { is_fixed: true, ..Self::default() };
        texts.into_iter().for_each(|text| {
            dictionary.add(|plain| plain.extend_from_slice(text.as_bytes()));
        });
        dictionary
    }

    /// Adds the text that `fill` appends, which must not be there yet, and returns its index.
    #[inline]
    pub fn add(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let start = self.plain.len() + 4;
        self.plain.extend_from_slice(&[0; 4]);
        fill(&mut self.plain);
        let length = (self.plain.len() - start) as u32;
        self.plain[start - 4..start].copy_from_slice(&length.to_le_bytes());
        self.entries += 1;
        self.entries - 1
    }

    /// Appends a row that has the text of `index`.
    #[inline]
    pub fn push(&mut self, index: u32) {
        self.indices.push(index);
    }

    /// The texts.
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

impl Values for Dictionary {
    fn encode(&self, rows: usize, present: Option<&Bits>, pages: &mut Pages) -> Result<()> {
        let entries = self.entries as usize;
        if entries == 0 {
            return one_page(rows, present, Encoding::PLAIN, pages, |_| ());
        }
        pages.raw().extend_from_slice(&self.plain);
        pages.dictionary(entries)?;
        one_page(rows, present, Encoding::RLE_DICTIONARY, pages, |raw| indices(&self.indices, entries, raw))
    }

    /// Of a fixed dictionary nothing is said: most of its texts may not occur.
    fn statistics(&self, nulls: u64) -> Statistics {
        let octets = |text: Option<&[u8]>| text.filter(|_| !self.is_fixed).map(|text| ByteArray::from(text.to_vec()));
        Statistics::byte_array(octets(self.texts().min()), octets(self.texts().max()), None, Some(nulls), false)
    }

    fn octets(&self) -> usize {
        self.plain.len() + self.indices.len() * 2
    }

    fn clear(&mut self) {
        self.indices.clear();
        if !self.is_fixed {
            self.plain.clear();
            self.entries = 0;
        }
    }
}
