//! How latency changes over a run: the slope of its median, which a few odd slices do not move.

use super::Curve;
use super::figures::LatencyPoint;

/// Slices with a median without which nothing is said.
const FEWEST: usize = 10;

/// The change of the median latency from the first slice to the last, in percent of the median slice: the median of the slopes
/// between all pairs of slices (Theil 1950, Sen 1968).
pub fn percent(latency: &[LatencyPoint]) -> Option<f64> {
    let medians = latency.iter().filter(|point| point.of == Curve::Median);
    let points: Vec<(f64, f64)> = medians.filter_map(|point| Some((point.t, point.ms?))).collect();
    let (first, last) = (points.first()?.0, points.last()?.0);
    if points.len() < FEWEST || last <= first {
        return None;
    }
    let pairs = points.iter().enumerate().flat_map(|(at, a)| points[at + 1..].iter().map(move |b| (a, b)));
    let slope = median(pairs.filter(|(a, b)| b.0 > a.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect())?;
    let middle = median(points.iter().map(|point| point.1).collect()).filter(|ms| *ms > 0.0)?;
    // Never a zero with a sign.
    Some(slope * (last - first) * 100.0 / middle + 0.0)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(p50: impl Fn(f64) -> Option<f64>) -> Vec<LatencyPoint> {
        let point = |t: f64, of, ms| LatencyPoint { t, from: t - 0.05, to: t + 0.05, queries: 100, ms, of };
        let slices = (0..100).map(|at| f64::from(at) / 10.0);
        slices.flat_map(|t| [point(t, Curve::Median, p50(t)), point(t, Curve::P90, Some(1e6 / (t + 1.0)))]).collect()
    }

    #[test]
    fn a_run_that_slows_down_drifts_and_a_few_odd_slices_do_not_make_one_drift() {
        let slower = percent(&slots(|t| Some(1.0 + t / 10.0))).unwrap();
        assert!((slower - 66.2).abs() < 0.1, "from 1 ms to 1.99 ms with 1.5 ms in its midst: {slower}");
        let odd = percent(&slots(|t| Some(if (9.0..9.5).contains(&t) { 50.0 } else { 1.0 }))).unwrap();
        assert_eq!(odd, 0.0);
        let faster = percent(&slots(|t| Some(2.0 - t / 10.0))).unwrap();
        assert!(faster < -60.0, "{faster}");
    }

    #[test]
    fn what_is_not_answered_has_no_drift() {
        assert_eq!(percent(&slots(|_| None)), None);
        assert_eq!(percent(&slots(|t| (t < 0.5).then_some(1.0))), None);
        assert_eq!(percent(&[]), None);
    }
}
