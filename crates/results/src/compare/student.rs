//! Student's t distribution, for whole degrees of freedom.

use std::f64::consts::FRAC_2_PI;

/// Degrees of freedom from which on more of them make intervals narrower by 1 % at most, and are not counted.
const MOST: u32 = 100;
/// Halvings by which a quantile is found, to nine digits.
const HALVINGS: u32 = 40;

/// The probability of more than `t` (Abramowitz and Stegun, 26.7.3 and 26.7.4).
pub fn upper_tail(t: f64, freedom: u32) -> f64 {
    let tail = two_sided(t.abs(), freedom.clamp(1, MOST)) / 2.0;
    if t < 0.0 { 1.0 - tail } else { tail }
}

/// The `t` that is exceeded with this probability, which is above 0 and at most one half.
pub fn exceeded(probability: f64, freedom: u32) -> f64 {
    let mut high = 1.0;
    while upper_tail(high, freedom) > probability && high < 1e9 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if upper_tail(middle, freedom) > probability { low = middle } else { high = middle }
    }
    high
}

fn two_sided(t: f64, freedom: u32) -> f64 {
    let nu = f64::from(freedom);
    let angle = (t / nu.sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum) = if is_odd { (cosine, 0.0) } else { (1.0, 0.0) };
    for at in 1..=freedom / 2 {
        sum += term;
        let at = f64::from(2 * at);
        term *= cosine * cosine * if is_odd { at / (at + 1.0) } else { (at - 1.0) / at };
    }
    let within = if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    (1.0 - within).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the tables in any textbook.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table = [
            (0.025, 1, 12.706),
            (0.025, 2, 4.303),
            (0.025, 3, 3.182),
            (0.025, 4, 2.776),
            (0.025, 10, 2.228),
            (0.005, 9, 3.250),
            (0.0005, 8, 5.041),
            (0.05, 30, 1.697),
            (0.025, 1_000, 1.984),
        ];
        for (probability, freedom, t) in table {
            let found = exceeded(probability, freedom);
            assert!((found - t).abs() < 6e-4, "{probability} {freedom}: {found}");
            assert!((upper_tail(t, freedom) - probability).abs() < probability * 0.01);
        }
    }

    #[test]
    fn it_is_symmetric_and_has_ends() {
        assert!((upper_tail(1.3, 7) + upper_tail(-1.3, 7) - 1.0).abs() < 1e-12);
        assert_eq!((upper_tail(f64::INFINITY, 4), upper_tail(0.0, 5)), (0.0, 0.5));
    }
}
