//! One curve of the curves of several repeats: at each place their median.

use super::{CellCurves, CellRuns, LatencyBox, Point, TIME_POINTS};
use crate::axis::Axis;
use crate::curves::{CURVES, Curves};
use ldplayer_results::compare::median;

/// The curves of all cells.
pub fn curves(cells: &[CellRuns]) -> CellCurves {
    let by_id = CURVES.iter().map(|curve| (curve.id, Vec::new())).collect();
    let mut found = CellCurves { by_id, ..CellCurves::default() };
    for (cell, runs) in cells.iter().enumerate().filter(|(_, runs)| !runs.curves.is_empty()) {
        for curve in CURVES {
            let repeats: Vec<Vec<(f64, f64)>> = runs.curves.iter().map(|curves| known(curves, curve.id)).collect();
            let points = if curve.x == Axis::TIME { by_time(&repeats) } else { by_place(&repeats) };
            if curve.id == "cdf" {
                // It has a point for each percentage.
                let at = |percent: usize| points.get(percent).map(|point| point.0);
                found.boxes.push(LatencyBox { cell, p5: at(5), p25: at(25), p50: at(50), p75: at(75), p95: at(95) });
            }
            let points = points.into_iter().map(|(x, y)| Point { cell, x, y });
            found.by_id.entry(curve.id).or_default().extend(points);
        }
    }
    found
}

/// The points of a run's curve where it is not interrupted.
fn known(curves: &Curves, id: &str) -> Vec<(f64, f64)> {
    curves.get(id).into_iter().flatten().filter_map(|&(x, y)| Some((x, y?))).collect()
}

/// Curves whose points of one place belong together. The curve ends where half of the repeats do.
fn by_place(curves: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let at = |place: usize| {
        let points = || curves.iter().map(|curve| curve.get(place));
        Some((half(points().map(|point| Some(point?.0)))?, half(points().map(|point| Some(point?.1)))?))
    };
    (0..).map_while(at).collect()
}

/// The median of those that are there, if that is half of them or more.
fn half(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let all = values.len();
    let there: Vec<f64> = values.flatten().collect();
    (there.len() * 2 >= all && all > 0).then(|| median(there))
}

/// Curves over time as one, by slices of it.
fn by_time(curves: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let points = || curves.iter().flat_map(|curve| curve.iter());
    let end = points().map(|point| point.0).fold(0.0, f64::max);
    let most = curves.iter().map(Vec::len).max().unwrap_or_default();
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
