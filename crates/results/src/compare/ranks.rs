//! Exact intervals of a shift by ranks (Hodges and Lehmann 1963): of two samples by the distribution of Mann and Whitney's U, of pairs by that of
//! Wilcoxon's signed ranks. They suppose nothing of how repeats are distributed, which suits the tails of latency.

/// Repeats up to which the distributions are counted; more are resampled.
pub const MOST: usize = 60;

/// Sorted differences. Their median estimates the shift.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    differences: Vec<f64>,
    /// How often each value of the statistic occurs, as a part of all, from 0 on.
    law: Vec<f64>,
}

impl Ranked {
    /// How far `b` is above `a`.
    pub fn of_two(a: &[f64], b: &[f64]) -> Self {
        let differences = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
        Self::new(differences, mann_whitney(a.len(), b.len()))
    }

    /// How far the differences of pairs are above 0, by the averages of each two of them (Walsh averages).
    pub fn of_pairs(pairs: &[f64]) -> Self {
        let average = |(at, one): (usize, &f64)| {
            pairs[at..].iter().map(move |other| f64::midpoint(*one, *other)).collect::<Vec<_>>()
        };
        Self::new(pairs.iter().enumerate().flat_map(average).collect(), wilcoxon(pairs.len()))
    }

    fn new(mut differences: Vec<f64>, law: Vec<f64>) -> Self {
        differences.sort_unstable_by(f64::total_cmp);
        Self { differences, law }
    }

    /// The median of the differences.
    pub fn centre(&self) -> f64 {
        super::contrast::median(self.differences.clone())
    }

    /// What the shift is below with this probability at most; `None` where there are too few repeats to say.
    pub fn low(&self, outside: f64) -> Option<f64> {
        self.differences.get(self.beyond(outside)?).copied()
    }

    /// What the shift is above with this probability at most.
    pub fn high(&self, outside: f64) -> Option<f64> {
        let last = self.differences.len() - 1;
        self.differences.get(last - self.beyond(outside)?).copied()
    }

    /// How many differences more than one lie outside of the end of an interval; `None` if not even the last may.
    fn beyond(&self, outside: f64) -> Option<usize> {
        let mut sum = 0.0;
        let within = self.law.iter().take_while(|part| {
            sum += **part;
            sum <= outside
        });
        within.count().checked_sub(1)
    }

    /// The same the other way round.
    pub fn negated(mut self) -> Self {
        self.differences.iter_mut().for_each(|difference| *difference = -*difference);
        self.differences.reverse();
        self
    }

    /// The same less a known figure.
    pub fn less(mut self, figure: f64) -> Self {
        self.differences.iter_mut().for_each(|difference| *difference -= figure);
        self
    }
}

/// The distribution of U under no shift, by its generating function: the product of (1 − x^(m+i)) / (1 − x^i).
fn mann_whitney(n: usize, m: usize) -> Vec<f64> {
    let mut counts = vec![0.0; n * m + 1];
    counts[0] = 1.0;
    for i in 1..=n {
        (m + i..counts.len()).rev().for_each(|at| counts[at] -= counts[at - m - i]);
        (i..counts.len()).for_each(|at| counts[at] += counts[at - i]);
    }
    parts(counts)
}

/// The distribution of the sum of the ranks of positive differences under no shift: the product of (1 + x^i).
fn wilcoxon(n: usize) -> Vec<f64> {
    let mut counts = vec![0.0; n * (n + 1) / 2 + 1];
    counts[0] = 1.0;
    (1..=n).for_each(|i| (i..counts.len()).rev().for_each(|at| counts[at] += counts[at - i]));
    parts(counts)
}

fn parts(counts: Vec<f64>) -> Vec<f64> {
    let all: f64 = counts.iter().sum();
    counts.into_iter().map(|count| count / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(law: &[f64], most: usize) -> f64 {
        law[..=most].iter().sum()
    }

    #[test]
    fn distributions_are_those_of_the_tables() {
        // Critical values for 5 % in two tails: U of 8 and 8 is 13, of 10 and 10 is 23, W of 10 is 8, W of 8 is 3.
        let (eight, ten) = (mann_whitney(8, 8), mann_whitney(10, 10));
        assert!(up_to(&eight, 13) <= 0.025 && up_to(&eight, 14) > 0.025);
        assert!(up_to(&ten, 23) <= 0.025 && up_to(&ten, 24) > 0.025);
        let (eight, ten) = (wilcoxon(8), wilcoxon(10));
        assert!(up_to(&eight, 3) <= 0.025 && up_to(&eight, 4) > 0.025);
        assert!(up_to(&ten, 8) <= 0.025 && up_to(&ten, 9) > 0.025);
        assert!((mann_whitney(MOST, MOST).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_shift_is_found_and_one_outlier_does_not_hide_it() {
        let a: Vec<f64> = (0..8).map(f64::from).collect();
        let mut b: Vec<f64> = a.iter().map(|value| value + 20.0).collect();
        b[7] = 10_000.0;
        let found = Ranked::of_two(&a, &b);
        let (low, high) = (found.low(0.025).unwrap(), found.high(0.025).unwrap());
        assert!((15.0..=20.0).contains(&low) && high < 30.0 && (19.0..22.0).contains(&found.centre()), "{low} {high}");
        assert_eq!(found.clone().negated().high(0.025), Some(-low));
        assert_eq!(found.less(5.0).low(0.025), Some(low - 5.0));
        // One in 12,870 is the least that 8 and 8 can say.
        let all = Ranked::of_two(&a, &b);
        assert!(all.low(1.0 / 12_000.0).is_some() && all.low(1.0 / 13_000.0).is_none());
        let pairs = Ranked::of_pairs(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!((pairs.centre(), pairs.low(1.0 / 256.0), pairs.low(1.0 / 300.0)), (4.5, Some(1.0), None));
    }
}
