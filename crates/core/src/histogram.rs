//! Mergeable counts of durations, in the HDR format that other tools read.

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

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

    /// The counts in the V2 format of HDR histograms.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Neither a vector nor bounds that are constants give an error.
        V2Serializer::new().serialize(&self.0, &mut bytes).expect("written to memory");
        bytes
    }

    /// The counts that [`Self::to_bytes`] wrote; `None` of anything else, and of a histogram with other bounds.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let read: Hdr<u64> = Deserializer::new().deserialize(&mut bytes).ok()?;
        let mut all = Self::new();
        let fits = read.sigfig() == all.0.sigfig() && read.high() == all.0.high() && read.low() == all.0.low();
        (fits && all.0.add(&read).is_ok()).then_some(all)
    }

    /// Takes off the counts of `earlier`, a state of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        // One that is not earlier has counts that this one lacks: then there is no difference to tell.
        if later.0.subtract(&earlier.0).is_err() { self.clone() } else { later }
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

    /// The mean duration in nanoseconds, of counts with three significant digits.
    pub fn mean(&self) -> f64 {
        self.0.mean()
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
    fn counts_are_what_they_were_after_the_way() {
        let mut histogram = Histogram::new();
        (1..=5_000).for_each(|us| histogram.record(us * 1_000));
        let bytes = histogram.to_bytes();
        let read = Histogram::from_bytes(&bytes).unwrap();
        assert_eq!((read.len(), read.quantile(0.99), read.max()), (5_000, histogram.quantile(0.99), histogram.max()));
        assert!(bytes.len() < 20_000, "{}", bytes.len());
        assert!(
            Histogram::from_bytes(&bytes[..9]).is_none() && Histogram::from_bytes(b"nothing of the kind").is_none()
        );
        let other: Hdr<u64> = Hdr::new_with_bounds(1, 1_000, 2).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&other, &mut bytes).unwrap();
        assert!(Histogram::from_bytes(&bytes).is_none(), "of other bounds");
    }

    #[test]
    fn what_came_since_is_told() {
        let mut histogram = Histogram::new();
        histogram.record(1_000);
        let earlier = histogram.clone();
        histogram.record(9_000);
        let since = histogram.since(&earlier);
        assert_eq!((since.len(), since.quantile(0.5) / 1_000), (1, 9));
        assert_eq!(earlier.since(&histogram).len(), 1, "that is no earlier one");
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
