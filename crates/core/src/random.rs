//! Random draws that depend only on a seed, a key and a count, so that no draw affects another.

use std::f64::consts::TAU;

/// The draw `count` of the sequence `key`: 64 even bits (the finalizer of splitmix64).
pub fn draw(key: u64, count: u64) -> u64 {
    mix(key ^ mix(count))
}

/// The sequence of a key within a sequence.
pub fn subkey(key: u64, part: u64) -> u64 {
    mix(key.rotate_left(32) ^ part)
}

/// A draw as a number between 0 and 1, neither of them included.
pub fn unit(draw: u64) -> f64 {
    ((draw >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// A number of the standard normal distribution from two draws (Box and Muller).
pub fn normal(first: u64, second: u64) -> f64 {
    (-2.0 * unit(first).ln()).sqrt() * (TAU * unit(second)).cos()
}

/// The finalizer of splitmix64: numbers that are near each other become numbers that are not.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_sequences_differ() {
        let mean = |key| (0..10_000).map(|count| unit(draw(key, count))).sum::<f64>() / 10_000.0;
        assert!((0.49..0.51).contains(&mean(1)) && (0.49..0.51).contains(&mean(2)));
        assert_ne!(draw(1, 0), draw(2, 0));
        assert_ne!(subkey(1, 2), subkey(2, 1));
        assert!(unit(0) > 0.0 && unit(u64::MAX) < 1.0);
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let numbers: Vec<f64> = (0..20_000).map(|count| normal(draw(3, 2 * count), draw(3, 2 * count + 1))).collect();
        let mean = numbers.iter().sum::<f64>() / 20_000.0;
        let variance = numbers.iter().map(|number| number * number).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (0.96..1.04).contains(&variance), "{mean} {variance}");
    }
}
