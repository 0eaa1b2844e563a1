//! The figures as pictures that stand alone: SVG and PNG, drawn by the same code.

use std::sync::Once;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::register_font;

use super::{CellFigure, Overview, QuantityFigures};
use crate::axis::{self, Scale};
use crate::curves::{CURVES, RunCurve};
use ldplayer_results::compare::shown;

/// Latin letters, digits and signs of DejaVu Sans.
const FONT: &[u8] = include_bytes!("../../assets/DejaVuSans-Latin.ttf");
/// What it is called here.
const FONT_NAME: &str = "dejavu";
/// Width of a picture, and of the legend in it.
const WIDTH: u32 = 900;
const LEGEND: u32 = 220;
/// Height of a picture of curves.
const HEIGHT: u32 = 460;
/// Height of a row of boxes or dots, with its margins.
const ROW: u32 = 34;
const AROUND: u32 = 90;
/// Rows of a picture at most; more cells are left out of it, not of the other files.
const MOST_ROWS: usize = 60;
/// How much larger a PNG is, so that it is sharp on paper.
const PNG_SCALE: u32 = 2;
/// Colours of cells, as on the page.
const COLORS: [(u8, u8, u8); 10] = [
    (78, 121, 167),
    (242, 142, 44),
    (225, 87, 89),
    (118, 183, 178),
    (89, 161, 79),
    (237, 201, 73),
    (175, 122, 161),
    (255, 157, 167),
    (156, 117, 95),
    (186, 176, 171),
];

/// A picture in both forms.
pub struct Picture {
    /// The name of its files.
    pub name: String,
    /// As SVG.
    pub svg: String,
    /// As PNG.
    pub png: Vec<u8>,
}

/// An axis: its label, its ends, its ticks and their labels. Logarithmic ones have powers of ten.
#[derive(Clone)]
struct Axis {
    label: String,
    range: (f64, f64),
    ticks: Vec<f64>,
    unit: &'static str,
    is_log: bool,
}

/// What is drawn, in the units of its axes.
enum Shape {
    Curve(Vec<(f64, f64)>),
    Dot((f64, f64)),
    /// A filled range from one corner to the other.
    Box((f64, f64), (f64, f64)),
    /// A thick line.
    Mark((f64, f64), (f64, f64)),
}

/// A figure that is drawn on any backend.
struct Chart {
    title: String,
    x: Axis,
    y: Axis,
    height: u32,
    /// Names of rows, where the vertical axis has rows.
    rows: Vec<String>,
    /// Shapes with the number of their colour.
    shapes: Vec<(usize, Shape)>,
    /// Names of curves with the number of their colour.
    legend: Vec<(usize, String)>,
}

/// All figures that there are.
pub fn all(overview: &Overview) -> Vec<Picture> {
    let boxes = [("latency-boxes".to_owned(), boxes(overview))];
    let curves = CURVES.iter().map(|of| (of.file.to_owned(), lines(overview, of)));
    let plain = |name: &str| name.replace('(', "-").replace(')', "");
    let dots = overview.quantities.iter().map(|of| (format!("figure-{}", plain(&of.quantity)), dots(overview, of)));
    let charts = boxes.into_iter().chain(curves).chain(dots);
    let drawn = charts.filter(|(_, chart)| !chart.shapes.is_empty());
    drawn.filter_map(|(name, chart)| chart.picture(name)).collect()
}

/// The title and caption of a curve on one line.
fn title(of: &RunCurve) -> String {
    format!("{} {}", of.title, of.caption).trim().trim_end_matches('.').to_owned()
}

/// Curves by cell.
fn lines(overview: &Overview, curve: &RunCurve) -> Chart {
    let points = overview.curves.points(curve);
    let x = Axis::new(curve.x, points.iter().map(|point| point.x));
    let y = Axis::new(curve.y, points.iter().map(|point| point.y));
    let of = |cell: usize| points.iter().filter(move |point| point.cell == cell);
    let cells = (0..overview.cells.len()).filter(|cell| of(*cell).next().is_some());
    let cells: Vec<usize> = cells.collect();
    let placed = |cell: &usize| {
        let placed = of(*cell).map(|point| (x.place(point.x), y.place(point.y)));
        (*cell, Shape::Curve(placed.collect()))
    };
    Chart {
        title: title(curve),
        height: HEIGHT,
        rows: Vec::new(),
        shapes: cells.iter().map(placed).collect(),
        legend: cells.iter().map(|cell| (*cell, overview.cells[*cell].label.clone())).collect(),
        x: x.clone(),
        y: y.clone(),
    }
}

/// A chart with a row a cell.
fn in_rows(overview: &Overview, title: String, cells: &[usize], x: Axis, shapes: Vec<(usize, Shape)>) -> Chart {
    let rows: Vec<String> = cells.iter().map(|cell| overview.cells[*cell].label.clone()).collect();
    let ticks = (0..rows.len()).map(|row| row as f64).collect();
    let y = Axis { label: String::new(), range: (rows.len() as f64 - 0.4, -0.6), ticks, unit: "", is_log: false };
    Chart { title, x, y, height: AROUND + ROW * rows.len() as u32, rows, shapes, legend: Vec::new() }
}

/// Latency of all queries: quartiles, median, 5th and 95th percentile.
fn boxes(overview: &Overview) -> Chart {
    let boxes: Vec<_> = overview.curves.boxes.iter().filter(|found| found.p5.is_some()).take(MOST_ROWS).collect();
    let values = boxes.iter().flat_map(|found| [found.p5, found.p25, found.p50, found.p75, found.p95]).flatten();
    let x = Axis::logarithmic("latency", "ms", values);
    let mut shapes = Vec::new();
    for (row, found) in boxes.iter().enumerate() {
        let (row, cell) = (row as f64, found.cell);
        if let (Some(p5), Some(p95)) = (found.p5, found.p95) {
            shapes.push((cell, Shape::Curve(vec![(x.place(p5), row), (x.place(p95), row)])));
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
    let label = figures.quantity.as_str();
    let x = match least > 0.0 && most / least > 20.0 {
        true => Axis::logarithmic(label, figures.unit, values()),
        false => Axis::around(label, figures.unit, least, most),
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
    in_rows(overview, format!("{label} of each run, median and its 95 % range"), &cells, x, shapes)
}

impl Axis {
    /// The axis of a figure for these values.
    fn new(axis: axis::Axis, values: impl Iterator<Item = f64>) -> Self {
        match axis.scale {
            Scale::Latency => Self::logarithmic(axis.label, "ms", values),
            Scale::Slowest => Self::logarithmic(axis.label, "", values),
            Scale::Percent => Self { range: (0.0, 100.0), ..Self::from_zero(axis.label, "", [100.0].into_iter()) },
            Scale::Bytes => Self::from_zero(axis.label, "B", values),
            Scale::Time | Scale::UsageTime | Scale::Count | Scale::Short => Self::from_zero(axis.label, "", values),
        }
    }

    /// From the power of ten below the least value to the one above the most.
    fn logarithmic(label: &str, unit: &'static str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.filter(|value| *value > 0.0).map(f64::log10).fold((f64::MAX, f64::MIN), extended);
        let (low, high) = if low > high { (0.0, 1.0) } else { (low.floor(), high.ceil().max(low.floor() + 1.0)) };
        let ticks = (low as i32..=high as i32).map(f64::from).collect();
        Self { label: label.to_owned(), range: (low, high), ticks, unit, is_log: true }
    }

    fn from_zero(label: &str, unit: &'static str, values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max);
        let most = if most > 0.0 { most * 1.05 } else { 1.0 };
        Self { label: label.to_owned(), range: (0.0, most), ticks: even(0.0, most), unit, is_log: false }
    }

    fn around(label: &str, unit: &'static str, least: f64, most: f64) -> Self {
        let room = if most > least { (most - least) * 0.2 } else { most.abs().max(1.0) * 0.1 };
        let range = (least - room, most + room);
        Self { label: label.to_owned(), range, ticks: even(range.0, range.1), unit, is_log: false }
    }

    /// Where a value is on the axis; values beyond an end are drawn at it.
    fn place(&self, value: f64) -> f64 {
        let at = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        at.clamp(self.range.0.min(self.range.1), self.range.0.max(self.range.1))
    }

    fn told(&self, at: f64) -> String {
        let value = if self.is_log { 10_f64.powf(at) } else { at };
        match (self.unit, self.is_log) {
            ("B", _) => shown("B", value),
            ("ms", true) if value >= 1e3 => format!("{} s", value / 1e3),
            ("ms", true) if value < 1.0 => format!("{} µs", (value * 1e6).round() / 1e3),
            ("ms", true) => format!("{value} ms"),
            (unit, _) => format!("{} {unit}", (value * 1e6).round() / 1e6).trim().to_owned(),
        }
    }
}

/// The drawing library's view of an axis.
impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let (low, high) = self.range;
        from + ((value - low) / (high - low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

fn extended((low, high): (f64, f64), value: f64) -> (f64, f64) {
    (low.min(value), high.max(value))
}

/// Ticks at whole multiples of one, two or five times a power of ten.
fn even(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|at| at as f64 * step).collect()
}

/// Gives the drawing library its font, once.
fn with_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A font that cannot be read is found by the test of it; text is left out then.
        let _ = register_font(FONT_NAME, FontStyle::Normal, FONT);
    });
}

impl Chart {
    /// Both forms; `None` where nothing can be drawn.
    fn picture(&self, name: String) -> Option<Picture> {
        with_font();
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, (WIDTH, self.height)).into_drawing_area(), 1)?;
        let size = (WIDTH * PNG_SCALE, self.height * PNG_SCALE);
        let mut pixels = vec![0; (size.0 * size.1 * 3) as usize];
        self.draw(&BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area(), PNG_SCALE)?;
        Some(Picture { name, svg, png: encoded(&pixels, size)? })
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>, scale: u32) -> Option<()> {
        root.fill(&WHITE).ok()?;
        let legend = if self.legend.is_empty() { 0 } else { LEGEND };
        let (plot, side) = root.split_horizontally((WIDTH - legend) * scale);
        let text = |size: u32| (FONT_NAME, size * scale).into_font();
        let left = if self.rows.is_empty() { 78 } else { 24 + 7 * self.longest_row() };
        let mut chart = ChartBuilder::on(&plot)
            .caption(&self.title, text(16))
            .margin(12 * scale)
            // For the half of the last label that is beyond the axis.
            .margin_right(36 * scale)
            .x_label_area_size(48 * scale)
            .y_label_area_size(left * scale)
            .build_cartesian_2d(self.x.clone(), self.y.clone())
            .ok()?;
        let (x, y) = (&self.x, &self.y);
        let row = |at: f64| self.rows.get(at.round() as usize).cloned();
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(217, 222, 229))
            .label_style(text(12))
            .axis_desc_style(text(13))
            .x_desc(&x.label)
            .y_desc(&y.label)
            .x_label_formatter(&|at| x.told(*at))
            .y_label_formatter(&|at| row(*at).unwrap_or_else(|| y.told(*at)))
            .draw()
            .ok()?;
        for (color, shape) in &self.shapes {
            let color = tint(*color);
            let drawn = match shape {
                Shape::Curve(points) => {
                    chart.plotting_area().draw(&PathElement::new(points.clone(), color.stroke_width(2 * scale)))
                }
                Shape::Mark(from, to) => {
                    chart.plotting_area().draw(&PathElement::new(vec![*from, *to], color.stroke_width(3 * scale)))
                }
                Shape::Box(from, to) => {
                    chart.plotting_area().draw(&Rectangle::new([*from, *to], color.mix(0.35).filled()))
                }
                Shape::Dot(at) => chart.plotting_area().draw(&Circle::new(*at, 4 * scale, color.filled())),
            };
            drawn.ok()?;
        }
        self.draw_legend(&side, scale)?;
        root.present().ok()
    }

    fn draw_legend<B: DrawingBackend>(&self, side: &DrawingArea<B, Shift>, scale: u32) -> Option<()> {
        let at = |value: i32| value * scale as i32;
        for (row, (color, name)) in self.legend.iter().enumerate() {
            let y = at(52 + 19 * row as i32);
            let line = PathElement::new(vec![(at(0), y), (at(18), y)], tint(*color).stroke_width(3 * scale));
            side.draw(&line).ok()?;
            let font = (FONT_NAME, 12 * scale).into_font();
            side.draw(&Text::new(name.clone(), (at(24), y - at(6)), font)).ok()?;
        }
        Some(())
    }

    fn longest_row(&self) -> u32 {
        self.rows.iter().map(|row| row.chars().count()).max().unwrap_or_default().min(60) as u32
    }
}

fn tint(number: usize) -> RGBColor {
    let (red, green, blue) = COLORS[number % COLORS.len()];
    RGBColor(red, green, blue)
}

fn encoded(pixels: &[u8], (width, height): (u32, u32)) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    let mut encoder = png::Encoder::new(&mut octets, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(pixels).ok()?;
    writer.finish().ok()?;
    Some(octets)
}
