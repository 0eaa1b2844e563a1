//! Unpredictable query IDs: a permutation of counters by a key of this process.
//!
//! Counters count up, so that the next one is nearly always free and next to the last one in tables; what is sent is what the permutation
//! makes of them. It is a Feistel network of four rounds on 16 bits, whose round functions are tables filled by a keyed hash.

use std::hash::{BuildHasher, RandomState};

/// Rounds of the network: four make a permutation of random functions look random (Luby and Rackoff, 1988).
const ROUNDS: usize = 4;

/// The permutation of one machine.
#[derive(Clone, Debug)]
pub struct Ids(Box<[[u8; 256]; ROUNDS]>);

impl Ids {
    /// A permutation by a new random key of the system.
    pub fn new() -> Self {
        let key = RandomState::new();
        let mut rounds = Box::new([[0; 256]; ROUNDS]);
        for (number, round) in rounds.iter_mut().enumerate() {
            round.iter_mut().enumerate().for_each(|(at, value)| *value = key.hash_one((number, at)) as u8);
        }
        Self(rounds)
    }

    /// The ID that a counter is sent as.
    pub fn hide(&self, counter: u16) -> u16 {
        let [left, right] = counter.to_be_bytes();
        let rounds = self.0.iter();
        let (left, right) =
            rounds.fold((left, right), |(left, right), round| (right, left ^ round[usize::from(right)]));
        u16::from_be_bytes([left, right])
    }

    /// The counter of an ID.
    pub fn reveal(&self, id: u16) -> u16 {
        let [left, right] = id.to_be_bytes();
        let rounds = self.0.iter().rev();
        let (left, right) = rounds.fold((left, right), |(left, right), round| (right ^ round[usize::from(left)], left));
        u16::from_be_bytes([left, right])
    }
}

impl Default for Ids {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_an_id_of_its_own_and_is_found_by_it() {
        let ids = Ids::new();
        let mut seen = vec![false; 1 << 16];
        for counter in 0..=u16::MAX {
            let id = ids.hide(counter);
            assert_eq!(ids.reveal(id), counter);
            assert!(!std::mem::replace(&mut seen[usize::from(id)], true));
        }
    }

    /// A server that sent the IDs 0 to 299 matched 20 of 20 queries.
    #[test]
    fn ids_are_neither_small_nor_neighbours_nor_those_of_another_machine() {
        let (one, other) = (Ids::new(), Ids::new());
        let sent: Vec<u16> = (0..1_000).map(|counter| one.hide(counter)).collect();
        let few = |count: usize| count < 30;
        assert!(few(sent.iter().filter(|&&id| id < 300).count()), "5 are expected");
        assert!(few(sent.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 300).count()), "9 are expected");
        assert!(few((0..1_000).filter(|&counter| other.hide(counter) == one.hide(counter)).count()));
    }
}
