//! Remembers recently answered queries, to tell a duplicate response from one that belongs to no query.

/// Queries that are remembered.
const REMEMBERED: usize = 1 << 14;

/// The last answered queries of a machine, by keys that say which they were; a later one may take the place of another.
#[derive(Debug)]
pub struct Answered(Box<[u64]>);

impl Default for Answered {
    fn default() -> Self {
        Self(vec![u64::MAX; REMEMBERED].into())
    }
}

impl Answered {
    /// Notes that a query was answered.
    pub fn note(&mut self, key: u64) {
        self.0[place(key)] = key;
    }

    /// Whether it was, as far as is remembered.
    pub fn has(&self, key: u64) -> bool {
        self.0[place(key)] == key
    }
}

const fn place(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize & (REMEMBERED - 1)
}
