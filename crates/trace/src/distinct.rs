//! Counts distinct values: exactly up to a bound, and above it by an estimate with known error.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

/// Maximum number of values counted exactly, in at most 16 MB.
pub const EXACT_LIMIT: usize = 1 << 20;
/// Bits of the hash that select a register; the standard error of 2^14 registers is 0.8 % (Flajolet et al., HyperLogLog, 2007).
const REGISTER_BITS: u32 = 14;
const REGISTERS: usize = 1 << REGISTER_BITS;
/// Bias correction for many registers, from the same paper.
const ALPHA: f64 = 0.7213 / (1.0 + 1.079 / REGISTERS as f64);

/// Counts distinct values by their 64-bit hashes. The seed is fixed, so that the count of a trace is reproducible.
#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    state: FixedState,
    counted: Counted,
}

#[derive(Clone, Debug)]
enum Counted {
    Hashes(HashTable<u64>),
    Registers(Box<[u8; REGISTERS]>),
}

impl Default for Distinct {
    fn default() -> Self {
        Self { state: FixedState::with_seed(0), counted: Counted::Hashes(HashTable::new()) }
    }
}

impl Distinct {
    /// Counts a value.
    pub fn insert(&mut self, value: impl Hash) {
        self.insert_hash(self.state.hash_one(value));
    }

    /// Counts octets, ignoring the case of ASCII letters (RFC 4343).
    pub fn insert_caseless(&mut self, octets: &[u8]) {
        let mut hasher = self.state.build_hasher();
        let mut lower = [0; 64];
        for part in octets.chunks(lower.len()) {
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            hasher.write(lower);
        }
        self.insert_hash(hasher.finish());
    }

    fn insert_hash(&mut self, hash: u64) {
        match &mut self.counted {
            Counted::Hashes(hashes) => {
                hashes.entry(hash, |&known| known == hash, |&known| known).or_insert(hash);
                if hashes.len() > EXACT_LIMIT {
                    self.counted = estimated(hashes.iter().copied());
                }
            }
            Counted::Registers(registers) => register(registers, hash),
        }
    }

    /// The number of distinct values.
    pub fn count(&self) -> u64 {
        match &self.counted {
            Counted::Hashes(hashes) => hashes.len() as u64,
            Counted::Registers(registers) => {
                let sum: f64 = registers.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
                (ALPHA * (REGISTERS * REGISTERS) as f64 / sum).round() as u64
            }
        }
    }

    /// Whether [`Self::count`] is exact.
    pub fn is_exact(&self) -> bool {
        matches!(self.counted, Counted::Hashes(_))
    }
}

fn estimated(hashes: impl Iterator<Item = u64>) -> Counted {
    let mut registers = Box::new([0; REGISTERS]);
    hashes.for_each(|hash| register(&mut registers, hash));
    Counted::Registers(registers)
}

/// Updates a register: the longest run of leading zeros of its hashes.
fn register(registers: &mut [u8; REGISTERS], hash: u64) {
    let at = (hash >> (64 - REGISTER_BITS)) as usize;
    let rank = ((hash << REGISTER_BITS) | 1 << (REGISTER_BITS - 1)).leading_zeros() as u8 + 1;
    registers[at] = registers[at].max(rank);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_counted_exactly() {
        let mut distinct = Distinct::default();
        (0..50_000u32).for_each(|value| distinct.insert(value % 10_000));
        assert_eq!((distinct.count(), distinct.is_exact()), (10_000, true));
    }

    #[test]
    fn many_are_estimated_within_three_standard_errors() {
        let mut distinct = Distinct::default();
        let all = 2 * EXACT_LIMIT as u64;
        (0..all).for_each(|value| distinct.insert(value));
        assert!(!distinct.is_exact());
        let error = (distinct.count() as f64 - all as f64).abs() / all as f64;
        assert!(error < 0.025, "{error}");
    }

    #[test]
    fn names_differ_but_not_by_case() {
        let mut distinct = Distinct::default();
        let long = [b'a'; 100];
        for name in [&b"\x03www\0"[..], b"\x03WwW\0", b"\x03wwx\0", &long, &long[1..]] {
            distinct.insert_caseless(name);
        }
        assert_eq!(distinct.count(), 4);
    }
}
