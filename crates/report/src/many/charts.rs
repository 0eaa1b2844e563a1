//! The figures of an experiment as charts: curves by cell, boxes of latency, and each figure with a dot a run.

use super::{CellFigure, Overview, QuantityFigures};
use crate::curves::{CURVES, RunCurve};
use crate::picture::{Chart, Placed, Shape, Unit};

/// Rows of a chart at most; more cells are left out of it, not of the other files.
const MOST_ROWS: usize = 60;

/// All that there are, with the names of their files.
pub fn all(overview: &Overview) -> Vec<(String, Chart)> {
    let boxes = [("latency-boxes".to_owned(), boxes(overview))];
    let curves = CURVES.iter().map(|of| (of.file.to_owned(), lines(overview, of)));
    let plain = |name: &str| name.replace('(', "-").replace(')', "");
    let dots = overview.quantities.iter().map(|of| (format!("figure-{}", plain(&of.quantity)), dots(overview, of)));
    boxes.into_iter().chain(curves).chain(dots).filter(|(_, chart)| !chart.shapes.is_empty()).collect()
}

/// Curves by cell.
fn lines(overview: &Overview, curve: &RunCurve) -> Chart {
    let points = overview.curves.points(curve);
    let of = |cell: usize| -> Vec<(f64, Option<f64>)> {
        points.iter().filter(|point| point.cell == cell).map(|point| (point.x, Some(point.y))).collect()
    };
    let cells = overview.cells.iter().enumerate().map(|(at, cell)| (cell.label.clone(), of(at)));
    curve.chart(&cells.collect::<Vec<_>>())
}

/// A chart with a row a cell.
fn in_rows(overview: &Overview, title: String, cells: &[usize], x: Placed, shapes: Vec<(usize, Shape)>) -> Chart {
    Chart::of_rows(title, x, cells.iter().map(|cell| overview.cells[*cell].label.clone()).collect(), shapes)
}

/// Latency of all queries: quartiles, median, 5th and 95th percentile.
fn boxes(overview: &Overview) -> Chart {
    let boxes: Vec<_> = overview.curves.boxes.iter().filter(|found| found.p5.is_some()).take(MOST_ROWS).collect();
    let values = boxes.iter().flat_map(|found| [found.p5, found.p25, found.p50, found.p75, found.p95]).flatten();
    let x = Placed::logarithmic("latency", Unit::Time(1e-3), values);
    let mut shapes = Vec::new();
    for (row, found) in boxes.iter().enumerate() {
        let (row, cell) = (row as f64, found.cell);
        if let (Some(p5), Some(p95)) = (found.p5, found.p95) {
            shapes.push((cell, Shape::Whisker((x.place(p5), row), (x.place(p95), row))));
        }
        if let (Some(p25), Some(p75)) = (found.p25, found.p75) {
            shapes.push((cell, Shape::Box((x.place(p25), row - 0.3), (x.place(p75), row + 0.3))));
        }
        if let Some(p50) = found.p50 {
            shapes.push((cell, Shape::Mark((x.place(p50), row - 0.3), (x.place(p50), row + 0.3))));
        }
    }
    let cells: Vec<usize> = boxes.iter().map(|found| found.cell).collect();
    let title = "Latency of all queries: quartiles, median, 5th and 95th percentile".to_owned();
    in_rows(overview, title, &cells, x, shapes)
}

/// A figure of each run, with median and interval of each cell.
fn dots(overview: &Overview, figures: &QuantityFigures) -> Chart {
    let found: Vec<&CellFigure> = figures.cells.iter().take(MOST_ROWS).collect();
    let values = || found.iter().flat_map(|of| of.values.iter().map(|(_, value)| *value));
    let (least, most) = values().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let (label, unit) = labelled(figures);
    let x = match least > 0.0 && most / least > 20.0 {
        true => Placed::logarithmic(&label, unit, values()),
        false => Placed::around(&label, unit, least, most),
    };
    let mut shapes = Vec::new();
    for (row, of) in found.iter().enumerate() {
        let at = row as f64;
        if let Some((low, high)) = of.estimate.interval {
            shapes.push((of.cell, Shape::Box((x.place(low), at - 0.12), (x.place(high), at + 0.12))));
        }
        let median = x.place(of.estimate.median);
        shapes.push((of.cell, Shape::Mark((median, at - 0.3), (median, at + 0.3))));
        shapes.extend(of.values.iter().map(|(_, value)| (of.cell, Shape::Dot((x.place(*value), at)))));
    }
    let cells: Vec<usize> = found.iter().map(|of| of.cell).collect();
    in_rows(overview, format!("{} of each run, median and its 95 % range", figures.quantity), &cells, x, shapes)
}

/// The label of a figure's axis, with its unit where the ticks do not have it.
fn labelled(figures: &QuantityFigures) -> (String, Unit) {
    let plain = format!("{} ({})", figures.quantity, figures.unit);
    match figures.unit {
        "ms" => (figures.quantity.clone(), Unit::Time(1e-3)),
        "µs" => (figures.quantity.clone(), Unit::Time(1e-6)),
        "B" => (figures.quantity.clone(), Unit::Bytes),
        "" => (figures.quantity.clone(), Unit::Plain),
        _ => (plain, Unit::Plain),
    }
}
