//! Mergeable counts of durations, in the HDR format that other tools read.

use hdrhistogram::Histogram as Hdr;

/// Highest duration kept apart: one hour in nanoseconds; longer ones count as this.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A histogram of durations in nanoseconds with three significant digits.
#[derive(Clone, Debug)]
pub struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        // The bounds are constants inside the range that the constructor accepts.
        Self(Hdr::new_with_bounds(1, HIGHEST_NS, 3).expect("constant bounds are valid"))
    }

    /// Counts one duration; negative ones count as zero, those above an hour as an hour.
    pub fn record(&mut self, ns: i64) {
        self.0.saturating_record(ns.max(0) as u64);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        // Both histograms have the same constant bounds, which is all that can fail.
        self.0.add(&other.0).expect("equal bounds");
    }

    /// How many durations were counted.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The duration in nanoseconds below or at which `quantile` (0 to 1) of the counts lie.
    pub fn quantile(&self, quantile: f64) -> i64 {
        self.0.value_at_quantile(quantile) as i64
    }

    /// The longest duration counted, in nanoseconds.
    pub fn max(&self) -> i64 {
        self.0.max() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_survive_a_merge() {
        let (mut low, mut high) = (Histogram::new(), Histogram::new());
        (1..=500).for_each(|us| low.record(us * 1_000));
        (501..=1_000).for_each(|us| high.record(us * 1_000));
        low.merge(&high);
        assert_eq!(low.len(), 1_000);
        let median = low.quantile(0.5);
        assert!((499_000..=501_000).contains(&median), "{median}");
    }

    #[test]
    fn durations_out_of_range_are_kept_at_the_bounds() {
        let mut histogram = Histogram::new();
        histogram.record(-5);
        histogram.record(i64::MAX);
        assert_eq!(histogram.len(), 2);
        assert!(histogram.max() >= HIGHEST_NS as i64);
    }
}
