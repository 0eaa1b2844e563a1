//! Figures of connections over time, from what the client sampled of them.

use std::path::Path;

use ldplayer_core::time::NS_PER_S;

use super::figures::{self, Figures, Point, TIME_POINTS};
use crate::error::ResultsError;
use crate::telemetry;

/// What is drawn as it was at a moment, and how it is called.
const LEVELS: [(&str, &str); 2] = [("connections_open", "open"), ("tcp_time_wait", "TIME_WAIT")];
/// What is drawn per second, from totals.
const TOTALS: [(&str, &str); 5] = [
    ("connections_opened", "new"),
    ("connections_resumed", "of them resumed"),
    ("connections_failed", "failed"),
    ("connections_closed_by_client", "closed by clients"),
    ("connections_closed_by_server", "closed by the server"),
];
/// Seconds kept at most, whatever the times in the file say: ten days.
const MOST_SECONDS: usize = 864_000;

/// The client's samples of connections.
#[derive(Debug, Default)]
pub struct Sampled {
    /// Time in seconds and figure, for each of [`LEVELS`].
    levels: [Vec<(f64, f64)>; LEVELS.len()],
    /// The last total of each second that has one, for each of [`TOTALS`].
    totals: [Vec<Option<f64>>; TOTALS.len()],
}

impl Sampled {
    /// Reads the samples of a run.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        let mut sampled = Self::default();
        telemetry::read_client(path, |at, name, value| sampled.add(at, name, value))?;
        Ok(sampled)
    }

    fn add(&mut self, at: i64, name: &str, value: f64) {
        let place = |names: &[(&str, &str)]| names.iter().position(|(known, _)| *known == name);
        if let Some(place) = place(&LEVELS) {
            self.levels[place].push((at as f64 / NS_PER_S as f64, value));
        }
        let second = (at / NS_PER_S).max(0) as usize;
        if let Some(place) = place(&TOTALS).filter(|_| second < MOST_SECONDS) {
            let totals = &mut self.totals[place];
            totals.resize(totals.len().max(second + 1), None);
            totals[second] = Some(value);
        }
    }

    /// Adds the figures; none where there were no connections.
    pub fn draw(&self, figures: &mut Figures) {
        let levels = LEVELS.iter().zip(&self.levels);
        figures.connections_time = levels.flat_map(|((_, of), samples)| level(samples, of)).collect();
        let totals =
            TOTALS.iter().zip(&self.totals).filter(|(_, totals)| totals.iter().flatten().any(|&total| total > 0.0));
        figures.handshakes = totals.flat_map(|((_, of), totals)| figures::per_second(&rates(totals), of)).collect();
    }
}

/// Samples over time. Of those that share a point the highest is shown, so that no peak is lost.
fn level(samples: &[(f64, f64)], of: &str) -> Vec<Point> {
    let step = samples.len().div_ceil(TIME_POINTS).max(1);
    let highest = |chunk: &[(f64, f64)]| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    samples.chunks(step).filter_map(highest).map(|(x, y)| Point { x, y, of: of.to_owned() }).collect()
}

/// What was added in each second. A second without a sample adds nothing, and the next one with a sample what both had.
fn rates(totals: &[Option<f64>]) -> Vec<u64> {
    let mut before = 0.0;
    let rate = |total: &Option<f64>| {
        let total = total.unwrap_or(before);
        (total - std::mem::replace(&mut before, total)).max(0.0) as u64
    };
    totals.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_become_rates_and_levels_keep_their_peaks() {
        let mut sampled = Sampled::default();
        for at in 0..1_300 {
            let open = if at == 701 { 99.0 } else { 5.0 };
            sampled.add(at * NS_PER_S / 5, "connections_open", open);
            sampled.add(at * NS_PER_S / 5, "connections_opened", (at / 5 * 3) as f64);
            sampled.add(at * NS_PER_S / 5, "connections_failed", 0.0);
        }
        let mut figures = Figures::default();
        sampled.draw(&mut figures);
        let peak = figures.connections_time.iter().max_by(|a, b| a.y.total_cmp(&b.y)).unwrap();
        assert_eq!((peak.x, peak.y, figures.connections_time.len()), (140.2, 99.0, 434));
        assert!(figures.handshakes.iter().all(|point| point.of == "new"), "what never happened is not drawn");
        assert_eq!(figures.handshakes.iter().map(|point| point.y).collect::<Vec<_>>()[..3], [0.0, 3.0, 3.0]);
    }

    #[test]
    fn a_second_without_a_sample_loses_nothing() {
        assert_eq!(rates(&[Some(4.0), None, Some(10.0), Some(9.0)]), [4, 0, 6, 0]);
    }
}
