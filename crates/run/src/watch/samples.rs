//! Telemetry samples in bounded memory; costly ones are taken less often.

use ldplayer_core::RunTime;
use ldplayer_results::{Figure, Kind, Side, TelemetrySample};

/// Moments kept at most, some 30 MB: an hour at the interval of half a second.
const MOST_MOMENTS: usize = 7_200;

/// Samples in the order of time.
#[derive(Debug, Default)]
pub struct Samples {
    samples: Vec<TelemetrySample>,
    /// Where each moment begins.
    moments: Vec<usize>,
}

impl Samples {
    /// Begins a moment. Where there are as many as may be, every other one is left out first: returns whether they were, so that
    /// moments can be taken half as often from now on.
    pub fn begin(&mut self) -> bool {
        let is_full = self.moments.len() >= MOST_MOMENTS;
        if is_full {
            self.thin();
        }
        self.moments.push(self.samples.len());
        is_full
    }

    /// Adds a figure to the moment.
    pub fn add(&mut self, at: RunTime, side: Side, figure: Figure, value: Option<f64>) {
        self.samples.push(TelemetrySample { at, side, figure, value });
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<TelemetrySample> {
        self.samples
    }

    /// Leaves out the first of every two moments. The second keeps the higher of two levels, so that no peak is lost.
    fn thin(&mut self) {
        let old = std::mem::take(&mut self.samples);
        let starts = std::mem::take(&mut self.moments);
        for pair in starts.chunks(2) {
            let second = pair.get(1).copied().unwrap_or(pair[0]);
            let end = starts.get(starts.partition_point(|&start| start <= second)).copied().unwrap_or(old.len());
            self.moments.push(self.samples.len());
            let (first, kept) = (&old[pair[0]..second], &old[second..end]);
            self.samples.extend(kept.iter().map(|sample| higher(sample, first)));
            let lost = first.iter().filter(|sample| kept.iter().all(|kept| !is_same(kept, sample)));
            self.samples.extend(lost.copied());
        }
    }
}

fn is_same(a: &TelemetrySample, b: &TelemetrySample) -> bool {
    (a.side, a.figure) == (b.side, b.figure)
}

fn higher(sample: &TelemetrySample, earlier: &[TelemetrySample]) -> TelemetrySample {
    let before = earlier.iter().find(|before| is_same(before, sample)).and_then(|before| before.value);
    let is_level = sample.figure.kind() != Kind::Total;
    match (sample.value, before) {
        (Some(value), Some(before)) if is_level => TelemetrySample { value: Some(value.max(before)), ..*sample },
        _ => *sample,
    }
}

/// Something that costs so much to read that it is read less often: it may take a share of one core.
#[derive(Debug)]
pub struct Costly {
    /// The reading rests for so many times what it took.
    rest: i64,
    next: RunTime,
}

impl Costly {
    /// What may take a `rest`-th of a core; it is due at once.
    pub const fn resting(rest: i64) -> Self {
        Self { rest, next: RunTime(i64::MIN) }
    }

    /// Whether it is to be read.
    pub fn is_due(&self, now: RunTime) -> bool {
        now >= self.next
    }

    /// Notes that it was read from `began` to `ended`.
    pub fn took(&mut self, began: RunTime, ended: RunTime) {
        self.next = RunTime(ended.0.saturating_add((ended - began).max(0).saturating_mul(self.rest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_costly_rests_in_proportion() {
        let mut costly = Costly::resting(100);
        assert!(costly.is_due(RunTime(-5)));
        costly.took(RunTime(1_000), RunTime(1_007));
        assert!(!costly.is_due(RunTime(1_706)) && costly.is_due(RunTime(1_707)));
        costly.took(RunTime(0), RunTime(i64::MAX / 2));
        assert!(!costly.is_due(RunTime(i64::MAX / 2)));
    }

    #[test]
    fn a_long_run_keeps_its_peaks_and_its_last_totals_in_bounded_memory() {
        let mut samples = Samples::default();
        let mut times_thinned = 0;
        for moment in 0..MOST_MOMENTS as i64 * 3 {
            let at = RunTime(moment);
            times_thinned += usize::from(samples.begin());
            let level = if moment == 4_000 { 1_000_000.0 } else { moment as f64 };
            samples.add(at, Side::Server, Figure::RssBytes, Some(level));
            samples.add(at, Side::Client, Figure::RssBytes, None);
            samples.add(at, Side::Server, Figure::CpuSeconds, Some(moment as f64));
            if moment == 6 {
                // Read at this moment only.
                samples.add(at, Side::Server, Figure::PssBytes, Some(77.0));
            }
        }
        let last = MOST_MOMENTS as i64 * 3 - 1;
        let samples = samples.into_vec();
        assert!(times_thinned >= 2 && samples.len() <= 3 * MOST_MOMENTS + 1, "{times_thinned} {}", samples.len());
        let of = |figure| samples.iter().filter(move |sample| sample.figure == figure && sample.side == Side::Server);
        assert_eq!(of(Figure::RssBytes).filter_map(|sample| sample.value).fold(0.0, f64::max), 1_000_000.0);
        assert_eq!(of(Figure::PssBytes).count(), 1);
        assert_eq!(of(Figure::CpuSeconds).next_back().map(|sample| sample.at), Some(RunTime(last)));
        assert!(
            of(Figure::CpuSeconds).all(|sample| sample.value == Some(sample.at.0 as f64)),
            "totals are of their time"
        );
    }
}
