//! Latencies of the last second, out of a histogram that only grows.

use std::time::{Duration, Instant};

use ldplayer_core::histogram::Histogram;

/// How often the latencies are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Median and 99th percentile of the latencies counted between two looks.
#[derive(Debug)]
pub struct LastSecond {
    /// When the latencies were looked at, and their counts then.
    before: (Instant, Histogram),
    quantiles: Option<(i64, i64)>,
}

impl Default for LastSecond {
    fn default() -> Self {
        Self { before: (Instant::now(), Histogram::new()), quantiles: None }
    }
}

impl LastSecond {
    /// Whether it is time for another look.
    pub fn is_due(&self) -> bool {
        self.before.0.elapsed() >= EVERY
    }

    /// Takes all latencies so far.
    pub fn look(&mut self, all: Histogram) {
        let last = all.since(&self.before.1);
        self.quantiles = (!last.is_empty()).then(|| (last.quantile(0.5), last.quantile(0.99)));
        self.before = (Instant::now(), all);
    }

    /// Median and 99th percentile in nanoseconds, where there was an answer.
    pub const fn quantiles(&self) -> Option<(i64, i64)> {
        self.quantiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_the_last_look_does_not_count() {
        let (mut last, mut all) = (LastSecond::default(), Histogram::new());
        assert_eq!(last.quantiles(), None);
        (0..100).for_each(|_| all.record(1_000_000));
        last.look(all.clone());
        let near = |found: Option<(i64, i64)>, ns: i64| found.is_some_and(|(p50, _)| (p50 - ns).abs() < ns / 500);
        assert!(near(last.quantiles(), 1_000_000), "{:?}", last.quantiles());
        (0..10).for_each(|_| all.record(9_000_000));
        last.look(all.clone());
        assert!(near(last.quantiles(), 9_000_000), "{:?}", last.quantiles());
        last.look(all);
        assert_eq!(last.quantiles(), None, "nothing came");
    }
}
