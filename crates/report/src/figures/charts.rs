//! The figures of a run as charts: curves and bars by their rows of the table, and the four that have a look of their own.

use ldplayer_results::figures::{Bar, Box5, Bucket, Curve, LatencyPoint, Point, RatePoint};
use ldplayer_results::numbers::grouped;

use super::{Data, Figure};
use crate::axis::{Axis, Scale};
use crate::picture::{Chart, Placed, Rule, Shape, Unit};

/// The rate difference up to which a second is like its trace, in percent.
const SAME_RATE: f64 = 0.1;
/// Least latency that a logarithmic axis shows, in milliseconds.
const LEAST_MS: f64 = 1e-3;

/// A curve with its points; `None` where it is interrupted.
type Named = (Curve, Vec<(f64, Option<f64>)>);

/// The chart of a figure; without shapes where there is nothing to draw.
pub fn chart(figure: &Figure, data: &Data) -> Chart {
    let (x, y) = figure.axes();
    let title = figure.words();
    match data {
        Data::Curves(points) => curves(title, x, y, &by_curve(points, x.scale)),
        Data::Percentiles(points) => curves(title, x, y, &percentiles(points)),
        Data::Bars(all) => bars(title, x.label, all),
        Data::Boxes(all) => boxes(title, x, y, all),
        Data::Rates(points) => rates(title, x, y, points),
        Data::Histogram(buckets) => histogram(title, x, y, buckets),
    }
}

fn curves(title: String, x: Axis, y: Axis, curves: &[Named]) -> Chart {
    let known = || curves.iter().flat_map(|(_, points)| points).filter_map(|&(x, y)| Some((x, y?)));
    let across = Placed::new(x, known().map(|point| point.0));
    let up = Placed::new(y, known().map(|point| point.1));
    let has_steps = matches!(x.scale, Scale::Error | Scale::Difference);
    let named =
        curves.iter().map(|(of, points)| (of.legend(), if has_steps { stepped(points) } else { points.clone() }));
    let chart = Chart::of_curves(title, across, up, &named.collect::<Vec<_>>());
    Chart { rules: rules(x.scale), ..chart }
}

/// Where values are as they should be.
fn rules(scale: Scale) -> Vec<Rule> {
    match scale {
        Scale::Error => vec![Rule::Across(0.0)],
        Scale::Difference => vec![Rule::Across(-SAME_RATE), Rule::Across(SAME_RATE)],
        _ => Vec::new(),
    }
}

/// Curves in the order of their first points. What was sampled before the first query is left out.
fn by_curve(points: &[Point], scale: Scale) -> Vec<Named> {
    let mut found: Vec<Named> = Vec::new();
    for point in points.iter().filter(|point| scale != Scale::UsageTime || point.x >= 0.0) {
        let at = found.iter().position(|(of, _)| *of == point.of).unwrap_or_else(|| {
            found.push((point.of, Vec::new()));
            found.len() - 1
        });
        found[at].1.push((point.x, Some(point.y)));
    }
    found
}

fn percentiles(points: &[LatencyPoint]) -> Vec<Named> {
    [Curve::Median, Curve::P90, Curve::P99]
        .into_iter()
        .map(|of| {
            let points = points.iter().filter(|point| point.of == of);
            (of, points.map(|point| (point.t, point.ms.map(|ms| ms.max(LEAST_MS)))).collect())
        })
        .collect()
}

/// A curve that keeps its value up to the next point.
fn stepped(points: &[(f64, Option<f64>)]) -> Vec<(f64, Option<f64>)> {
    let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    corners.chain(points.last().copied()).collect()
}

fn bars(title: String, label: &str, bars: &[Bar]) -> Chart {
    let total: u64 = bars.iter().map(|bar| bar.n).sum();
    // Behind the longest bar its number has room.
    let x = Placed::from_zero(label, Unit::Plain, bars.iter().map(|bar| bar.n as f64 * 1.75));
    let mut shapes = Vec::new();
    for (row, bar) in bars.iter().enumerate() {
        let (at, end) = (row as f64, x.place(bar.n as f64));
        let colour = usize::from(!bar.answered);
        shapes.push((colour, Shape::Box((x.place(0.0), at - 0.32), (end, at + 0.32))));
        let share = bar.n as f64 * 100.0 / total.max(1) as f64;
        shapes.push((colour, Shape::Text((end, at), format!("{} ({share:.2} %)", grouped(bar.n)))));
    }
    Chart::of_rows(title, x, bars.iter().map(|bar| bar.name.clone()).collect(), shapes)
}

fn boxes(title: String, x: Axis, y: Axis, boxes: &[Box5]) -> Chart {
    let ends = boxes.iter().flat_map(|of| [of.p1.unwrap_or(of.p25), of.p99.unwrap_or(of.p75)]);
    let (across, up) = (Placed::new(x, boxes.iter().map(|of| of.to)), Placed::new(y, ends));
    let mut shapes = Vec::new();
    for of in boxes {
        let (edge, middle) = ((of.to - of.from) * 0.14, f64::midpoint(of.from, of.to));
        let (left, right) = (of.from + edge, of.to - edge);
        if let (Some(p1), Some(p99)) = (of.p1, of.p99) {
            shapes.push((0, Shape::Whisker((middle, up.place(p1)), (middle, up.place(p99)))));
        }
        shapes.push((0, Shape::Box((left, up.place(of.p25)), (right, up.place(of.p75)))));
        shapes.push((1, Shape::Mark((left, up.place(of.p50)), (right, up.place(of.p50)))));
    }
    let has_whiskers = boxes.first().is_some_and(|of| of.p99.is_some());
    let quartiles = if has_whiskers { "quartiles, 1st and 99th percentile" } else { "quartiles" };
    Chart {
        rules: vec![Rule::Along(0.0)],
        shapes,
        legend: vec![(1, "median".to_owned()), (0, quartiles.to_owned())],
        ..Chart::of_curves(title, across, up, &[])
    }
}

fn rates(title: String, x: Axis, y: Axis, points: &[RatePoint]) -> Chart {
    let far = points.iter().map(|point| point.percent.abs()).fold(SAME_RATE * 1.5, f64::max) * 1.1;
    let (across, up) = (Placed::new(x, points.iter().map(|point| point.t)), Placed::even(y.label, far));
    let dots = points.iter().map(|point| (0, Shape::Dot((across.place(point.t), up.place(point.percent)))));
    Chart {
        shapes: dots.collect(),
        rules: [-SAME_RATE, 0.0, SAME_RATE].map(Rule::Along).to_vec(),
        ..Chart::of_curves(title, across.clone(), up.clone(), &[])
    }
}

fn histogram(title: String, x: Axis, y: Axis, buckets: &[Bucket]) -> Chart {
    let across = Placed::new(x, buckets.iter().flat_map(|bucket| [bucket.from, bucket.to]));
    let up = Placed::new(y, buckets.iter().map(|bucket| bucket.n as f64));
    let filled = buckets.iter().filter(|bucket| bucket.n > 0);
    let bars = filled.map(|bucket| {
        let (from, to) = (across.place(bucket.from), across.place(bucket.to));
        (0, Shape::Box((from, up.place(0.0)), (to, up.place(bucket.n as f64))))
    });
    Chart { shapes: bars.collect(), ..Chart::of_curves(title, across.clone(), up.clone(), &[]) }
}
