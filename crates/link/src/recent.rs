//! A fixed-size table of recently seen keys: a new key replaces the least recently seen one.

/// Number of slots that a key may be in.
const WAYS: usize = 4;

/// The table. A key is found by its hash, which must be even, and by equality.
#[derive(Debug)]
pub struct Recent<K, V> {
    places: Vec<Option<Place<K, V>>>,
    /// The number of keys evicted from each group of slots.
    lost: Vec<u32>,
    forgotten: u64,
}

#[derive(Clone, Debug)]
struct Place<K, V> {
    last: i64,
    key: K,
    value: V,
}

impl<K: Clone + Eq, V: Clone> Recent<K, V> {
    /// A table of at least `size` slots, of constant memory.
    pub fn new(size: usize) -> Self {
        let groups = size.div_ceil(WAYS).next_power_of_two();
        Self { places: vec![None; groups * WAYS], lost: vec![0; groups], forgotten: 0 }
    }

    /// The value of `key`, made by `new` if it is missing. `new` gets the number of keys evicted from its group, so that a key that
    /// comes back does not start as it did before.
    pub fn at(&mut self, hash: u64, key: &K, now: i64, new: impl FnOnce(u32) -> V) -> &mut V {
        let group = hash as usize & (self.lost.len() - 1);
        let places = &mut self.places[group * WAYS..(group + 1) * WAYS];
        let found = places.iter().position(|place| place.as_ref().is_some_and(|place| place.key == *key));
        let at = found.unwrap_or_else(|| oldest(places));
        let place = &mut places[at];
        if found.is_none() && place.is_some() {
            self.lost[group] = self.lost[group].wrapping_add(1);
            self.forgotten += 1;
            *place = None;
        }
        let lost = self.lost[group];
        let place = place.get_or_insert_with(|| Place { last: now, key: key.clone(), value: new(lost) });
        place.last = now;
        &mut place.value
    }

    /// The number of evicted keys.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

fn oldest<K, V>(places: &[Option<Place<K, V>>]) -> usize {
    let age = |at: &usize| places[*at].as_ref().map_or(i64::MIN, |place| place.last);
    (0..places.len()).min_by_key(age).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_longest_ago_makes_room() {
        let mut recent = Recent::new(4);
        for key in 0..4 {
            assert_eq!(*recent.at(0, &key, i64::from(key), |lost| lost), 0);
        }
        recent.at(0, &0, 10, |_| unreachable!());
        assert_eq!(*recent.at(0, &4, 11, |lost| lost), 1);
        assert_eq!((recent.forgotten(), *recent.at(0, &0, 12, |_| 77)), (1, 0));
        assert_eq!(*recent.at(0, &1, 13, |lost| lost), 2);
    }
}
