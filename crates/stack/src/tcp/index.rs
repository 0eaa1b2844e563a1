//! A hash index of values that are stored elsewhere, which grows by one bucket at a time (linear hashing, Litwin 1980).
//!
//! A table that doubles moves everything at once: with a million connections that is a pause of tens of milliseconds, and
//! the memory of a table that has just doubled. This one splits one bucket for each value that is added, has one bucket for
//! each value, and takes four octets for it; four more are the link in the value.

use super::blocks::Blocks;

/// The end of a chain.
pub const NONE: u32 = u32::MAX;

/// Values that can be chained: each has room for the number of the next.
pub trait Chained {
    /// The hash of a value.
    fn hash(&self, at: u32) -> u64;
    /// The next value of the same bucket.
    fn next(&self, at: u32) -> u32;
    /// Sets the next value of the same bucket.
    fn set_next(&mut self, at: u32, next: u32);
}

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    heads: Blocks<u32>,
    entries: u32,
}

impl Index {
    /// Whether nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The value with this hash that `is` says is the one.
    pub fn find(&self, values: &impl Chained, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        if self.heads.is_empty() {
            return None;
        }
        let mut at = self.heads[self.place(hash)];
        while at != NONE && !is(at) {
            at = values.next(at);
        }
        (at != NONE).then_some(at)
    }

    /// Adds a value.
    pub fn insert(&mut self, values: &mut impl Chained, at: u32) {
        if self.entries >= self.heads.len() {
            self.split(values);
        }
        let place = self.place(values.hash(at));
        values.set_next(at, self.heads[place]);
        self.heads[place] = at;
        self.entries += 1;
    }

    /// Removes a value, which must be in the index.
    pub fn remove(&mut self, values: &mut impl Chained, at: u32) {
        let place = self.place(values.hash(at));
        let next = values.next(at);
        self.entries -= 1;
        let mut before = self.heads[place];
        if before == at {
            self.heads[place] = next;
            return;
        }
        while values.next(before) != at {
            before = values.next(before);
        }
        values.set_next(before, next);
    }

    /// Adds a bucket, and moves what belongs there out of the one bucket that had it.
    fn split(&mut self, values: &mut impl Chained) {
        let new = self.heads.push(NONE);
        let Some(top) = new.checked_ilog2() else { return };
        let old = new - (1 << top);
        let mut at = std::mem::replace(&mut self.heads[old], NONE);
        while at != NONE {
            let next = values.next(at);
            let place = self.place(values.hash(at));
            values.set_next(at, self.heads[place]);
            self.heads[place] = at;
            at = next;
        }
    }

    /// The bucket of a hash.
    fn place(&self, hash: u64) -> u32 {
        let size = self.heads.len().next_power_of_two();
        let place = hash as u32 & (size - 1);
        if place < self.heads.len() { place } else { place & (size / 2 - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::random::draw;
    use proptest::prelude::*;
    use std::collections::HashSet;

    struct Values(Vec<u32>);

    impl Chained for Values {
        fn hash(&self, at: u32) -> u64 {
            draw(1, at.into())
        }
        fn next(&self, at: u32) -> u32 {
            self.0[at as usize]
        }
        fn set_next(&mut self, at: u32, next: u32) {
            self.0[at as usize] = next;
        }
    }

    proptest! {
        #[test]
        fn what_is_in_is_found_and_what_is_not_is_not(steps in prop::collection::vec((0_u32..60, any::<bool>()), 0..300)) {
            let (mut values, mut index, mut expected) = (Values(vec![NONE; 60]), Index::default(), HashSet::new());
            for (at, is_added) in steps {
                if is_added && expected.insert(at) {
                    index.insert(&mut values, at);
                } else if !is_added && expected.remove(&at) {
                    index.remove(&mut values, at);
                }
                for at in 0..60 {
                    let found = index.find(&values, draw(1, at.into()), |other| other == at);
                    prop_assert_eq!(found, expected.contains(&at).then_some(at));
                }
            }
        }
    }

    #[test]
    fn chains_stay_short() {
        let (mut values, mut index) = (Values(vec![NONE; 100_000]), Index::default());
        (0..100_000).for_each(|at| index.insert(&mut values, at));
        let longest = (0..index.heads.len()).map(|place| {
            let mut at = index.heads[place];
            std::iter::from_fn(|| (at != NONE).then(|| at = values.next(at))).count()
        });
        assert!(longest.max().unwrap() < 20);
        assert_eq!(index.heads.len(), 100_000);
    }
}
