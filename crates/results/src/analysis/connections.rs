//! Figures of connections over time, from what the client sampled of them.

use ldplayer_core::time::NS_PER_S;

use super::Curve;
use super::figures::{self, Figures, Point, TIME_POINTS};
use super::sampled::{Sampled, Series};
use crate::telemetry::{Figure, Side};

/// What is drawn as it was at a moment.
const LEVELS: [Figure; 2] = [Figure::ConnectionsOpen, Figure::TcpTimeWait];
/// What is drawn per second, from totals.
const TOTALS: [Figure; 5] = [
    Figure::ConnectionsOpened,
    Figure::ConnectionsResumed,
    Figure::ConnectionsFailed,
    Figure::ConnectionsClosedByClient,
    Figure::ConnectionsClosedByServer,
];
/// Seconds kept at most, whatever the times in the file say: ten days.
const MOST_SECONDS: usize = 864_000;

/// Adds the figures; leaves them empty if there were no connections.
pub fn draw(sampled: &Sampled, figures: &mut Figures) {
    let of = |figure| sampled.of(Side::Client, figure);
    let curve = |figure| Curve::Sampled(Side::Client, figure);
    if of(Figure::ConnectionsOpen).is_empty() {
        return;
    }
    figures.connections_time = LEVELS.iter().flat_map(|&figure| level(of(figure), curve(figure))).collect();
    let totals = TOTALS.iter().map(|&figure| (by_second(of(figure)), curve(figure)));
    let totals = totals.filter(|(totals, _)| totals.iter().flatten().any(|&total| total > 0.0));
    figures.handshakes = totals.flat_map(|(totals, of)| figures::per_second(&rates(&totals), of)).collect();
}

/// The last total of each second that has one.
fn by_second(series: &Series) -> Vec<Option<f64>> {
    let mut totals = Vec::new();
    for &(at, value) in series {
        let second = (at / NS_PER_S).max(0) as usize;
        if second < MOST_SECONDS {
            totals.resize(totals.len().max(second + 1), None);
            totals[second] = Some(value);
        }
    }
    totals
}

/// Samples over time. Of those that share a point the highest is shown, so that no peak is lost.
pub fn level(series: &Series, of: Curve) -> Vec<Point> {
    let step = series.len().div_ceil(TIME_POINTS).max(1);
    let highest = |chunk: &Series| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let point = |(at, y)| Point { x: at as f64 / NS_PER_S as f64, y, of };
    series.chunks(step).filter_map(highest).map(point).collect()
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
    use crate::telemetry::TelemetrySample;
    use ldplayer_core::RunTime;

    #[test]
    fn totals_become_rates_and_levels_keep_their_peaks() {
        let mut sampled = Sampled::default();
        for at in 0..1_300 {
            let mut add = |figure, value: f64| {
                let at = RunTime(at * NS_PER_S / 5);
                sampled.add(&TelemetrySample { at, side: Side::Client, figure, value: Some(value) });
            };
            add(Figure::ConnectionsOpen, if at == 701 { 99.0 } else { 5.0 });
            add(Figure::ConnectionsOpened, (at / 5 * 3) as f64);
            add(Figure::ConnectionsFailed, 0.0);
        }
        let mut figures = Figures::default();
        draw(&sampled, &mut figures);
        let peak = figures.connections_time.iter().max_by(|a, b| a.y.total_cmp(&b.y)).unwrap();
        assert_eq!((peak.x, peak.y, figures.connections_time.len()), (140.2, 99.0, 434));
        assert!(
            figures.handshakes.iter().all(|point| point.of == Curve::Sampled(Side::Client, Figure::ConnectionsOpened)),
            "what never happened is not drawn"
        );
        assert_eq!(figures.handshakes.iter().map(|point| point.y).collect::<Vec<_>>()[..3], [0.0, 3.0, 3.0]);
    }

    #[test]
    fn a_second_without_a_sample_loses_nothing() {
        assert_eq!(rates(&[Some(4.0), None, Some(10.0), Some(9.0)]), [4, 0, 6, 0]);
    }
}
