//! A dictionary of addresses and numbers in text form.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_columnar::{Bits, Dictionary, Pages, Values};
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

/// A value with a text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Frequent values, in a table of their own that fits a near cache.
    Short(u32),
    /// Addresses of IPv6.
    Long(u128),
}

/// Repeated texts, each stored once per row group.
#[derive(Debug)]
pub(super) struct Texts {
    short: HashMap<u32, u32, FixedState>,
    long: HashMap<u128, u32, FixedState>,
    /// The previous value, which often repeats.
    last: Option<(Key, u32)>,
    dictionary: Dictionary,
}

impl Default for Texts {
    fn default() -> Self {
        // Texts are numbered in order of appearance, so the output does not depend on hashes.
        let hash = || FixedState::with_seed(0);
        let (short, long) = (HashMap::with_hasher(hash()), HashMap::with_hasher(hash()));
        Self { short, long, last: None, dictionary: Dictionary::default() }
    }
}

impl Texts {
    /// Appends a value, whose text `show` appends.
    #[inline]
    pub fn push(&mut self, key: Key, show: impl FnOnce(&mut Vec<u8>)) {
        let index = match self.last {
            Some((last, index)) if last == key => index,
            _ => self.index(key, show),
        };
        self.last = Some((key, index));
        self.dictionary.push(index);
    }

    #[inline]
    fn index(&mut self, key: Key, show: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let add = || self.dictionary.add(show);
        match key {
            Key::Short(key) => *self.short.entry(key).or_insert_with(add),
            Key::Long(key) => *self.long.entry(key).or_insert_with(add),
        }
    }
}

impl Values for Texts {
    fn encode(&self, rows: usize, present: Option<&Bits>, pages: &mut Pages) -> Result<()> {
        self.dictionary.encode(rows, present, pages)
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        self.dictionary.statistics(nulls)
    }

    fn octets(&self) -> usize {
        self.dictionary.octets()
    }

    fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
        self.last = None;
        self.dictionary.clear();
    }
}
