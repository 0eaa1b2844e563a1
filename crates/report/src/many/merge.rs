//! One curve of the curves of several repeats: at each place their median.

use super::{CellCurves, CellRuns, LatencyBox, Point, TIME_POINTS};
use ldplayer_results::Curves;
use ldplayer_results::compare::median;

/// Least latency that has a place on a logarithmic axis, in milliseconds.
const LEAST_MS: f64 = 1e-3;

/// The curves of all cells.
pub fn curves(cells: &[CellRuns]) -> CellCurves {
    let mut found = CellCurves::default();
    for (cell, runs) in cells.iter().enumerate().filter(|(_, runs)| !runs.curves.is_empty()) {
        let shares = shares(&runs.curves);
        let at = |percent: usize| shares.get(percent).copied();
        found.boxes.push(LatencyBox { cell, p5: at(5), p25: at(25), p50: at(50), p75: at(75), p95: at(95) });
        found.cdf.extend(shares.iter().enumerate().map(|(percent, ms)| Point { cell, x: *ms, y: percent as f64 }));
        found.tail.extend(tail(&runs.curves).map(|(x, y)| Point { cell, x, y }));
        let over_time = |of: fn(&Curves) -> &[(f64, f64)]| {
            let all: Vec<&[(f64, f64)]> = runs.curves.iter().map(of).collect();
            by_time(&all).into_iter().map(move |(x, y)| Point { cell, x, y })
        };
        found.p50.extend(over_time(|curves| &curves.p50));
        found.p99.extend(over_time(|curves| &curves.p99));
        found.answers.extend(over_time(|curves| &curves.answers));
        found.cores.extend(over_time(|curves| &curves.cores));
        found.memory.extend(over_time(|curves| &curves.memory));
    }
    found
}

/// Latency at each percentage; it ends where half of the repeats do.
fn shares(curves: &[Curves]) -> Vec<f64> {
    let at = |percent: usize| half(curves.iter().map(|curves| curves.shares.get(percent).copied()));
    (0..=100).map_while(at).map(|ms| ms.max(LEAST_MS)).collect()
}

/// The slow side. Repeats of one trace have their points at the same places.
fn tail(curves: &[Curves]) -> impl Iterator<Item = (f64, f64)> {
    let longest = curves.iter().map(|curves| curves.tail.as_slice()).max_by_key(|tail| tail.len()).unwrap_or_default();
    let at = |place: usize| {
        let ms = half(curves.iter().map(|curves| curves.tail.get(place).map(|point| point.1)))?;
        Some((longest[place].0, ms.max(LEAST_MS)))
    };
    (0..longest.len()).map_while(at)
}

/// The median of those that are there, if that is half of them or more.
fn half(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let all = values.len();
    let there: Vec<f64> = values.flatten().collect();
    (there.len() * 2 >= all && all > 0).then(|| median(there))
}

/// Curves over time as one, by slices of it.
fn by_time(curves: &[&[(f64, f64)]]) -> Vec<(f64, f64)> {
    let points = || curves.iter().flat_map(|curve| curve.iter());
    let end = points().map(|point| point.0).fold(0.0, f64::max);
    let most = curves.iter().map(|curve| curve.len()).max().unwrap_or_default();
    let slices = most.clamp(1, TIME_POINTS);
    let mut found: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); slices];
    for (at, value) in points() {
        let slice = if end > 0.0 { (at / end * slices as f64) as usize } else { 0 };
        let (times, values) = &mut found[slice.min(slices - 1)];
        times.push(*at);
        values.push(*value);
    }
    let filled = found.into_iter().filter(|(times, _)| !times.is_empty());
    filled.map(|(times, values)| (median(times), median(values))).collect()
}
