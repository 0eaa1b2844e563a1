//! A dictionary of addresses and numbers in text form.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_columnar::{Bits, Dictionary, Pages, Values};
use parquet::errors::Result;
use parquet::file::statistics::Statistics;

/// What a text shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Most of them; apart from the others, since a small table is found in a near cache.
    Short(u32),
    /// Addresses of IPv6.
    Long(u128),
}

/// Texts that repeat, each written out once in a row group.
#[derive(Debug)]
pub(super) struct Texts {
    short: HashMap<u32, u32, FixedState>,
    long: HashMap<u128, u32, FixedState>,
    /// The value before, which is often the next one, too.
    last: Option<(Key, u32)>,
    dictionary: Dictionary,
}

impl Default for Texts {
    fn default() -> Self {
        // The index of a text is that of its first row, so the hash does not show.
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
