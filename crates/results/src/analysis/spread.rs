//! Distributions: exact up to a million figures, three significant digits above.

use ldplayer_core::histogram::Histogram;

use crate::model;

/// Figures kept as they are; above this they are counted in histograms.
const EXACT: usize = 1_000_000;

/// A distribution of signed durations in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    exact: Vec<i64>,
    counts: Option<Box<Counts>>,
    sorted: bool,
    sum: i128,
}

/// Two histograms, since the HDR format has no negative figures.
#[derive(Clone, Debug)]
struct Counts {
    negative: Histogram,
    positive: Histogram,
    min: i64,
    max: i64,
}

impl Spread {
    /// Adds one figure.
    pub fn push(&mut self, ns: i64) {
        self.sorted = false;
        self.sum += i128::from(ns);
        match &mut self.counts {
            Some(counts) => counts.push(ns),
            None => self.exact.push(ns),
        }
        if self.exact.len() > EXACT {
            let mut counts = Box::new(Counts::new());
            std::mem::take(&mut self.exact).into_iter().for_each(|ns| counts.push(ns));
            self.counts = Some(counts);
        }
    }

    /// Adds the figures of another.
    pub fn absorb(&mut self, mut other: Self) {
        if self.len() == 0 || (self.counts.is_none() && other.counts.is_some()) {
            std::mem::swap(self, &mut other);
        }
        match (&mut self.counts, &other.counts) {
            (Some(counts), Some(more)) => {
                counts.merge(more);
                self.sum += other.sum;
            }
            _ => other.exact.into_iter().for_each(|ns| self.push(ns)),
        }
    }

    /// How many figures there are.
    pub fn len(&self) -> u64 {
        self.counts.as_ref().map_or(self.exact.len() as u64, |counts| counts.len())
    }

    /// The mean of the figures; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        let len = self.len();
        (len > 0).then(|| self.sum as f64 / len as f64)
    }

    /// The figure at `rank`, from 1 (lowest) to [`Self::len`]; `None` outside of that.
    pub fn at_rank(&mut self, rank: u64) -> Option<i64> {
        if rank == 0 || rank > self.len() {
            return None;
        }
        if let Some(counts) = &self.counts {
            return Some(counts.at_rank(rank));
        }
        if !self.sorted {
            self.exact.sort_unstable();
            self.sorted = true;
        }
        self.exact.get(rank as usize - 1).copied()
    }

    /// How many figures are at most `ns`.
    pub fn up_to(&mut self, ns: i64) -> u64 {
        let (mut within, mut all) = (0, self.len());
        while within < all {
            let middle = within.midpoint(all) + 1;
            match self.at_rank(middle) {
                Some(figure) if figure <= ns => within = middle,
                _ => all = middle - 1,
            }
        }
        within
    }

    /// The figure below or at which `quantile` (0 to 1) of the figures lie (nearest rank).
    pub fn quantile(&mut self, quantile: f64) -> Option<i64> {
        self.at_rank(rank(quantile, self.len()))
    }

    /// The figures of `run.json`, in microseconds.
    pub fn summary_us(&mut self) -> Option<model::Spread> {
        let mut us = |quantile| self.quantile(quantile).map(|ns| ns as f64 / 1e3);
        Some(model::Spread {
            min: us(0.0)?,
            p1: us(0.01)?,
            p25: us(0.25)?,
            p50: us(0.5)?,
            p75: us(0.75)?,
            p90: us(0.9)?,
            p99: us(0.99)?,
            p999: us(0.999)?,
            max: us(1.0)?,
        })
    }
}

impl Counts {
    fn new() -> Self {
        Self { negative: Histogram::new(), positive: Histogram::new(), min: i64::MAX, max: i64::MIN }
    }

    fn push(&mut self, ns: i64) {
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        match ns {
            ..0 => self.negative.record(ns.saturating_neg()),
            _ => self.positive.record(ns),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.negative.merge(&other.negative);
        self.positive.merge(&other.positive);
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    fn len(&self) -> u64 {
        self.negative.len() + self.positive.len()
    }

    fn at_rank(&self, rank: u64) -> i64 {
        let negatives = self.negative.len();
        // Half a rank below, so that rounding cannot reach the next one.
        let of = |rank: u64, histogram: &Histogram| histogram.quantile((rank as f64 - 0.5) / histogram.len() as f64);
        let near = if rank <= negatives {
            // The most negative figure is the largest in its histogram.
            -of(negatives - rank + 1, &self.negative)
        } else {
            of(rank - negatives, &self.positive)
        };
        near.clamp(self.min, self.max)
    }
}

/// Durations of which some are known only to be longer than any other (unanswered queries).
#[derive(Clone, Debug, Default)]
pub struct Censored {
    known: Spread,
    endless: u64,
}

impl Censored {
    /// Adds a duration, or `None` for one that has no end.
    pub fn push(&mut self, ns: Option<i64>) {
        match ns {
            Some(ns) => self.known.push(ns),
            None => self.endless += 1,
        }
    }

    /// Adds the durations of another.
    pub fn absorb(&mut self, other: Self) {
        self.known.absorb(other.known);
        self.endless += other.endless;
    }

    /// How many there are, with and without end.
    pub fn len(&self) -> u64 {
        self.known.len() + self.endless
    }

    /// The known ones alone.
    pub fn known(&self) -> Self {
        Self { known: self.known.clone(), endless: 0 }
    }

    /// The spread of the known ones.
    pub const fn known_mut(&mut self) -> &mut Spread {
        &mut self.known
    }

    /// As [`Spread::quantile`] over all; `None` where that falls among the endless ones.
    pub fn quantile_ms(&mut self, quantile: f64) -> Option<f64> {
        self.known.at_rank(rank(quantile, self.len())).map(|ns| ns as f64 / 1e6)
    }

    /// The mean over all; `None` where one is endless.
    pub fn mean_ms(&self) -> Option<f64> {
        self.known.mean().filter(|_| self.endless == 0).map(|ns| ns / 1e6)
    }

    /// The figures of `run.json`.
    pub fn tail(&mut self) -> model::Tail {
        model::Tail {
            queries: self.len(),
            mean: self.mean_ms(),
            p50: self.quantile_ms(0.5),
            p90: self.quantile_ms(0.9),
            p95: self.quantile_ms(0.95),
            p99: self.quantile_ms(0.99),
            p999: self.quantile_ms(0.999),
            max: self.quantile_ms(1.0),
            good: None,
        }
    }
}

/// The nearest rank of a quantile among `len` figures; 0 when there are none.
pub fn rank(quantile: f64, len: u64) -> u64 {
    // A hair less, so that 0.99 × 100 is rank 99 and not 100 for the sake of a rounding error.
    ((quantile * len as f64 - 1e-9).ceil() as u64).clamp(u64::from(len > 0), len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unanswered_queries_push_percentiles_out_of_sight() {
        let mut latency = Censored::default();
        (1..=98).for_each(|ms| latency.push(Some(ms * 1_000_000)));
        latency.push(None);
        latency.push(None);
        assert_eq!(latency.quantile_ms(0.5), Some(50.0));
        assert_eq!(latency.quantile_ms(0.98), Some(98.0));
        assert_eq!((latency.tail().p95, latency.tail().p99), (Some(95.0), None));
        let known = latency.known().tail();
        assert_eq!((known.max, known.mean, latency.tail().mean), (Some(98.0), Some(49.5), None));
    }

    #[test]
    fn figures_up_to_a_bound_are_counted() {
        let mut spread = Spread::default();
        assert_eq!(spread.up_to(5), 0);
        [9, 3, 3, -4, 7].into_iter().for_each(|ns| spread.push(ns));
        assert_eq!([-5, -4, 2, 3, 8, 9, 100].map(|ns| spread.up_to(ns)), [0, 1, 1, 3, 4, 5, 5]);
    }

    #[test]
    fn nothing_has_no_quantiles() {
        assert_eq!(Spread::default().summary_us(), None);
        assert_eq!(Censored::default().tail(), model::Tail::default());
    }

    #[test]
    fn ranks_are_the_nearest_ones() {
        assert_eq!([0.0, 0.01, 0.5, 0.99, 0.999, 1.0].map(|q| rank(q, 100)), [1, 1, 50, 99, 100, 100]);
        assert_eq!(rank(0.5, 0), 0);
    }

    #[test]
    fn distributions_are_joined_whether_they_are_exact_or_counted() {
        let of = |from: i64, to: i64| {
            let mut spread = Spread::default();
            (from..to).for_each(|ns| spread.push(ns));
            spread
        };
        let big = EXACT as i64 + 10;
        for (one, other) in
            [((0, 5), (5, 20)), ((0, 0), (0, 20)), ((0, big), (-20, 0)), ((-9, 0), (0, big)), ((0, big), (0, big))]
        {
            let mut both = of(one.0, one.1);
            both.absorb(of(other.0, other.1));
            assert_eq!(both.len() as i64, one.1 - one.0 + other.1 - other.0);
            let sum: i64 = (one.0..one.1).chain(other.0..other.1).sum();
            assert_eq!(both.mean(), Some(sum as f64 / both.len() as f64));
            let ends = (both.quantile(0.0), both.quantile(1.0));
            assert_eq!(ends, (Some(one.0.min(other.0)), Some(one.1.max(other.1) - 1)));
        }
        let mut latency = Censored::default();
        latency.push(Some(7));
        let mut silent = Censored::default();
        silent.push(None);
        latency.absorb(silent);
        assert_eq!((latency.len(), latency.tail().p50, latency.tail().max), (2, Some(7e-6), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Histograms keep three significant digits of what the exact figures say, on both sides of zero.
        #[test]
        fn counts_agree_with_exact_figures(figures in prop::collection::vec(-10_000_000_000i64..10_000_000_000, 1..300)) {
            let (mut exact, mut counts) = (Spread::default(), Counts::new());
            figures.iter().for_each(|&ns| { exact.push(ns); counts.push(ns); });
            for rank in 1..=figures.len() as u64 {
                let (want, got) = (exact.at_rank(rank).unwrap(), counts.at_rank(rank));
                prop_assert!((want - got).abs() as f64 <= want.abs() as f64 * 1e-3 + 1.0, "{want} {got}");
            }
        }
    }
}
