//! The samples of a run by figure, and their growth or peak between two moments.

use std::collections::BTreeMap;
use std::path::Path;

use ldplayer_core::time::NS_PER_S;

use crate::error::ResultsError;
use crate::telemetry::{self, Figure, Side, TelemetrySample};

/// A figure over time: run time in nanoseconds and value, in the order of time.
pub type Series = [(i64, f64)];

/// All samples that have a value.
#[derive(Debug, Default)]
pub struct Sampled {
    series: BTreeMap<(Side, Figure), Vec<(i64, f64)>>,
}

impl Sampled {
    /// Reads the samples of a run.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        let mut sampled = Self::default();
        telemetry::read(path, |sample| sampled.add(&sample))?;
        sampled.series.values_mut().for_each(|series| series.sort_by_key(|&(at, _)| at));
        Ok(sampled)
    }

    /// Adds a sample; one without a value is none.
    pub fn add(&mut self, sample: &TelemetrySample) {
        if let Some(value) = sample.value {
            self.series.entry((sample.side, sample.figure)).or_default().push((sample.at.0, value));
        }
    }

    /// A figure of one side.
    pub fn of(&self, side: Side, figure: Figure) -> &Series {
        self.series.get(&(side, figure)).map_or(&[], Vec::as_slice)
    }
}

/// The samples that tell of the time from `from` to `to`: the last one before it begins, where there is one, up to the first after it has
/// ended.
pub fn between(series: &Series, from: i64, to: i64) -> &Series {
    let first = series.partition_point(|&(at, _)| at <= from).saturating_sub(1);
    let last = series.partition_point(|&(at, _)| at < to);
    series.get(first..=last.min(series.len().saturating_sub(1))).unwrap_or_default()
}

/// How much a total has grown; `None` of less than two samples. Where it fell, as when a socket with its count is closed, nothing was
/// added.
pub fn growth(series: &Series) -> Option<f64> {
    (series.len() > 1).then(|| steps(series).sum())
}

/// The highest level.
pub fn peak(series: &Series) -> Option<f64> {
    series.iter().map(|&(_, value)| value).max_by(f64::total_cmp)
}

/// The growth per second between two samples that are at least so far apart (nanoseconds), at the time of the later. Where a total fell,
/// as when a thread with its count has ended, it is not known how much was added: there is no rate.
pub fn rates(series: &Series, apart: i64) -> Vec<(i64, f64)> {
    let mut rates = Vec::new();
    let Some(&(mut since, mut total)) = series.first() else { return rates };
    let mut fell = false;
    for pair in series.windows(2) {
        let (at, value) = pair[1];
        fell |= value < pair[0].1;
        if at - since >= apart.max(1) {
            if !fell {
                rates.push((at, (value - total) * NS_PER_S as f64 / (at - since) as f64));
            }
            (since, total, fell) = (at, value, false);
        }
    }
    rates
}

/// By how much it grew between two samples.
fn steps(series: &Series) -> impl Iterator<Item = f64> {
    series.windows(2).map(|pair| (pair[1].1 - pair[0].1).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: [(i64, f64); 4] = [(-5, 1.0), (0, 2.0), (5, 8.0), (10, 7.0)];

    #[test]
    fn a_time_begins_with_the_sample_before_it() {
        assert_eq!(between(&SERIES, 1, 4), &SERIES[1..3]);
        assert_eq!(between(&SERIES, 0, 5), &SERIES[1..3]);
        assert_eq!(between(&SERIES, -9, 99), &SERIES);
        assert_eq!(between(&SERIES, 50, 60), &SERIES[3..]);
        assert_eq!(between(&[], 0, 9), &[]);
    }

    #[test]
    fn growth_does_not_count_what_fell_and_a_rate_is_not_known_then() {
        assert_eq!((growth(&SERIES), growth(&SERIES[..1]), growth(&[])), (Some(7.0), None, None));
        assert_eq!((peak(&SERIES), peak(&[])), (Some(8.0), None));
        let seconds = SERIES.map(|(at, value)| (at * NS_PER_S, value));
        assert_eq!(rates(&seconds, NS_PER_S).iter().map(|&(_, rate)| rate).collect::<Vec<_>>(), [0.2, 1.2]);
        // Of ten seconds each.
        assert_eq!(rates(&seconds, 10 * NS_PER_S), [(5 * NS_PER_S, 0.7)]);
        assert_eq!(rates(&seconds, 15 * NS_PER_S), [], "it fell meanwhile");
    }
}
