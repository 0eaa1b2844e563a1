//! The figures of a study as SVG: histogram, scatter with failures beside, and the parts of the response times.

use std::fmt::Write as _;

use ldplayer_results::ratio::figures::percent;
use ldplayer_results::ratio::{Line, Point, Quantiles, Study};

use crate::xml::escaped;

/// Size of a figure, and its margins: left, top, right, bottom.
const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 270.0;
const MARGINS: [f64; 4] = [46.0, 16.0, 14.0, 40.0];
/// Room at the right of a histogram for values beyond its axis.
const ASIDE: f64 = 112.0;
/// Points of a scatter at most, evenly chosen.
const MAX_DOTS: usize = 3_000;
/// Layers of dots.
const LAYERS: usize = 12;
/// Ratios that the axis of a scatter names.
const RATIOS: [f64; 11] = [0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1_000.0];
/// Parts of a response time, in their order.
const PARTS: [(&str, &str); 4] = [
    ("connect", "connect"),
    ("handshake", "handshake"),
    ("first_byte", "query to first byte"),
    ("last_byte", "first to last byte"),
];
/// Height of a bar of the parts with its gap.
const BAR: f64 = 26.0;

/// What the page gets from its style sheet, for a picture that stands alone.
const STYLE: &str = "text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#1c2430}.soft{fill:#5b6675}.grid{stroke:#d9dee5}.bin,.p0{fill:#2f6db3}\
    .dots{stroke:#2f6db3;stroke-opacity:.3;stroke-width:4;stroke-linecap:round}.ticks{stroke:#b3261e;stroke-width:1.5}\
    .failed{fill:#b3261e}.above,.p2{fill:#d9722e}.p1{fill:#7a52a8}.p3{fill:#1a7f4b}.udp{fill:#98a3b3}\
    .mark{stroke:#5b6675;stroke-dasharray:3 3}.head{font-weight:600;font-size:13px}";

/// A figure without its frame, from the origin on.
struct Canvas {
    svg: String,
    width: f64,
    height: f64,
}

impl Canvas {
    fn new(width: f64, height: f64) -> Self {
        Self { svg: String::new(), width, height }
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
        // Writing to a string cannot fail; so below.
        let _ = write!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
            escaped(text)
        );
    }

    fn line(&mut self, from: [f64; 2], to: [f64; 2], class: &str) {
        let _ = write!(
            self.svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from[0], from[1], to[0], to[1]
        );
    }

    fn bar(&mut self, at: [f64; 2], size: [f64; 2], class: &str) {
        let _ = write!(
            self.svg,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" class=\"{class}\"/>",
            at[0],
            at[1],
            size[0].max(0.0),
            size[1].max(0.0)
        );
    }

    /// Many marks as one path, since each as an element would make pages of megabytes.
    fn path(&mut self, class: &str, path: &str) {
        let _ = write!(self.svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    fn framed(&self) -> String {
        let Self { svg, width, height } = self;
        format!("<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">{svg}</svg>")
    }
}

/// Where values are on an axis.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    is_log: bool,
    /// Pixels of both ends.
    ends: [f64; 2],
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let share = (scale(value) - scale(self.from)) / (scale(self.to) - scale(self.from)).max(f64::MIN_POSITIVE);
        self.ends[0] + share.clamp(0.0, 1.0) * (self.ends[1] - self.ends[0])
    }
}

/// A round number of steps of at least this length.
fn step(length: f64, most: f64) -> f64 {
    let raw = (length / most).max(1e-9);
    let ten = 10_f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * ten).find(|step| *step >= raw).unwrap_or(10.0 * ten)
}

/// The round values of an axis from 0 on.
fn ticks(to: f64, most: f64) -> Vec<f64> {
    let step = step(to, most);
    (0..).map(|number| f64::from(number) * step).take_while(|value| *value <= to * 1.000_001).collect()
}

fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The ratio at which the histogram ends; values beyond are counted beside it.
fn histogram_end(line: &Line) -> f64 {
    (line.ratio.p90.unwrap_or(0.0).ceil() + 1.0).clamp(line.expected + 3.0, 12.0)
}

/// Ratios in bins of 1/100, and beside them the share that is beyond the axis and the share that failed.
pub fn histogram(line: &Line) -> String {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    draw_histogram(&mut canvas, line);
    canvas.framed()
}

fn draw_histogram(canvas: &mut Canvas, line: &Line) {
    let [left, top, right, bottom] = MARGINS;
    let end = histogram_end(line);
    let tallest = line.histogram.iter().map(|&(_, share)| share).fold(0.1, f64::max);
    let x = Axis { from: 0.0, to: end, is_log: false, ends: [left, WIDTH - right - ASIDE] };
    let y = Axis { from: 0.0, to: tallest * 1.05, is_log: false, ends: [HEIGHT - bottom, top] };
    for value in ticks(y.to, 5.0) {
        canvas.line([left, y.at(value)], [x.ends[1], y.at(value)], "grid");
        canvas.text(left - 6.0, y.at(value) + 4.0, "end", "soft", &number(value));
    }
    for value in ticks(end, 8.0) {
        canvas.text(x.at(value), y.ends[0] + 16.0, "middle", "soft", &number(value));
    }
    canvas.line([x.at(line.expected), top], [x.at(line.expected), y.ends[0]], "mark");
    let (width, base) = ((x.at(0.01) - x.at(0.0)).max(1.2), y.ends[0]);
    let mut bins = String::new();
    for &(bin, share) in line.histogram.iter().filter(|&&(bin, _)| bin < end) {
        let _ = write!(bins, "M{:.1} {base}V{:.1}h{width:.1}V{base}z", x.at(bin), y.at(share));
    }
    canvas.path("bin", &bins);
    canvas.text(f64::midpoint(x.ends[0], x.ends[1]), HEIGHT - 6.0, "middle", "soft", "ratio, in bins of 1/100");
    canvas.text(left, top - 5.0, "start", "soft", "% of pairs");
    draw_aside(canvas, line, end);
}

/// What has no place on the axis: shares of all pairs in which UDP was answered.
fn draw_aside(canvas: &mut Canvas, line: &Line, end: f64) {
    let [_, top, right, bottom] = MARGINS;
    let with_udp = line.pairs.valid + line.pairs.only_udp;
    let beyond = line.histogram.iter().filter(|&&(bin, _)| bin >= end).fold(0.0, |sum, &(_, share)| sum + share);
    let beyond = beyond * line.pairs.valid as f64 / with_udp.max(1) as f64;
    let failed = percent(line.pairs.only_udp, with_udp);
    let y = Axis { from: 0.0, to: 100.0, is_log: false, ends: [HEIGHT - bottom, top + 14.0] };
    let bars = [(beyond, "above", format!("> {}", number(end))), (failed, "failed", "failed".to_owned())];
    for (place, (share, class, name)) in bars.into_iter().enumerate() {
        let at = WIDTH - right - ASIDE + 28.0 + place as f64 * 48.0;
        canvas.bar([at, y.at(share)], [26.0, y.ends[0] - y.at(share)], class);
        canvas.text(at + 13.0, y.at(share) - 4.0, "middle", class, &format!("{share:.1} %"));
        canvas.text(at + 13.0, y.ends[0] + 16.0, "middle", "soft", &name);
    }
    canvas.line([WIDTH - right - ASIDE + 18.0, y.ends[0]], [WIDTH - right, y.ends[0]], "grid");
}

/// Each pair: its ratio against the response time over UDP, or against the time of the run where that is the same for all; pairs that
/// failed above them.
pub fn scatter(line: &Line) -> String {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    draw_scatter(&mut canvas, line);
    canvas.framed()
}

fn draw_scatter(canvas: &mut Canvas, line: &Line) {
    let [left, top, right, bottom] = MARGINS;
    let by_rtt = line.parts_ms.get("udp").is_some_and(varies);
    let place = |point: &Point| if by_rtt { point.1 } else { Some(point.0) };
    let (from, to) = bounds(line.points.iter().filter_map(place));
    let x = Axis { from, to, is_log: by_rtt, ends: [left, WIDTH - right] };
    let y = ratio_axis(line, [HEIGHT - bottom, top + 26.0]);
    for value in RATIOS.into_iter().filter(|value| (y.from..=y.to).contains(value)) {
        canvas.line([left, y.at(value)], [x.ends[1], y.at(value)], "grid");
        canvas.text(left - 6.0, y.at(value) + 4.0, "end", "soft", &number(value));
    }
    draw_places(canvas, &x, y.ends[0]);
    canvas.line([left, y.at(line.expected)], [x.ends[1], y.at(line.expected)], "mark");
    canvas.text(left - 6.0, top + 9.0, "end", "failed", "failed");
    canvas.text(left, top - 5.0, "start", "soft", "ratio");
    draw_points(canvas, line, top, |point| place(point).map(|at| x.at(at)), |ratio| y.at(ratio));
    let name = if by_rtt { "response time over UDP, ms" } else { "seconds into the run" };
    canvas.text(f64::midpoint(left, x.ends[1]), HEIGHT - 6.0, "middle", "soft", name);
}

/// The pairs. Dots are in several layers: those of one path do not add up where they overlap.
fn draw_points(canvas: &mut Canvas, line: &Line, top: f64, x: impl Fn(&Point) -> Option<f64>, y: impl Fn(f64) -> f64) {
    let (mut layers, mut failed) = ([const { String::new() }; LAYERS], String::new());
    let step = line.points.len().div_ceil(MAX_DOTS).max(1);
    for (number, point) in line.points.iter().step_by(step).enumerate() {
        let _ = match (x(point), point.1, point.2) {
            (Some(at), Some(udp), Some(other)) => {
                write!(layers[number % LAYERS], "M{at:.1} {:.1}h0", y(other / udp.max(1e-6)))
            }
            (Some(at), Some(_), None) => write!(failed, "M{at:.1} {top}v12"),
            _ => Ok(()),
        };
    }
    layers.iter().filter(|dots| !dots.is_empty()).for_each(|dots| canvas.path("dots", dots));
    canvas.path("ticks", &failed);
}

fn draw_places(canvas: &mut Canvas, x: &Axis, y: f64) {
    let values = if x.is_log {
        let tens = (-3..=5).map(|power| 10_f64.powi(power));
        tens.flat_map(|ten| [ten, 2.0 * ten, 5.0 * ten]).filter(|value| (x.from..=x.to).contains(value)).collect()
    } else {
        ticks(x.to, 8.0)
    };
    for value in values {
        canvas.text(x.at(value), y + 16.0, "middle", "soft", &number(value));
    }
}

/// Whether clients have round-trip times of their own.
fn varies(udp: &Quantiles) -> bool {
    udp.p90.zip(udp.p10).is_some_and(|(high, low)| high > low * 1.5)
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0), |(low, high), value| (f64::min(low, value), f64::max(high, value)));
    if low.is_finite() { (low * 0.95, (high * 1.05).max(low * 0.95 + 1e-3)) } else { (0.0, 1.0) }
}

fn ratio_axis(line: &Line, ends: [f64; 2]) -> Axis {
    let to = line.ratio.max.unwrap_or(0.0).clamp(12.0, 1_000.0) * 1.1;
    let from = line.ratio.p10.map_or(0.9, |low| (low * 0.8).clamp(0.1, 0.9));
    Axis { from, to, is_log: true, ends }
}

/// Medians of the parts of the response times of all lines, each beside that over UDP.
pub fn parts(study: &Study) -> String {
    let height = MARGINS[1] + study.lines.len() as f64 * 2.0 * BAR + 58.0;
    let mut canvas = Canvas::new(2.0 * WIDTH, height);
    draw_parts(&mut canvas, study);
    canvas.framed()
}

fn draw_parts(canvas: &mut Canvas, study: &Study) {
    let median = |line: &Line, part: &str| line.parts_ms.get(part).and_then(|part| part.p50).unwrap_or(0.0);
    let sum = |line: &Line| PARTS.iter().map(|(part, _)| median(line, part)).sum::<f64>();
    let longest = study.lines.iter().map(|line| sum(line).max(median(line, "udp"))).fold(0.001, f64::max);
    let x = Axis { from: 0.0, to: longest * 1.08, is_log: false, ends: [230.0, canvas.width - 20.0] };
    let bottom = canvas.height - 42.0;
    for value in ticks(x.to, 10.0) {
        canvas.line([x.at(value), MARGINS[1]], [x.at(value), bottom], "grid");
        canvas.text(x.at(value), bottom + 15.0, "middle", "soft", &number(value));
    }
    for (place, line) in study.lines.iter().enumerate() {
        let y = MARGINS[1] + place as f64 * 2.0 * BAR + 4.0;
        canvas.text(x.ends[0] - 10.0, y + 13.0, "end", "soft", &format!("{} udp", line.server));
        canvas.bar([x.ends[0], y], [x.at(median(line, "udp")) - x.ends[0], BAR - 8.0], "udp");
        canvas.text(x.ends[0] - 10.0, y + BAR + 9.0, "end", "soft", line.transport);
        let mut from = x.ends[0];
        for (number, (part, _)) in PARTS.iter().enumerate() {
            let width = x.at(median(line, part)) - x.ends[0];
            canvas.bar([from, y + BAR - 4.0], [width, BAR - 8.0], &format!("p{number}"));
            from += width;
        }
    }
    draw_legend(canvas, x.ends[0]);
}

fn draw_legend(canvas: &mut Canvas, from: f64) {
    let y = canvas.height - 8.0;
    canvas.text(from - 10.0, y, "end", "soft", "median, ms");
    for (number, (_, name)) in PARTS.iter().enumerate() {
        let x = from + number as f64 * 170.0;
        canvas.bar([x, y - 10.0], [12.0, 10.0], &format!("p{number}"));
        canvas.text(x + 18.0, y, "start", "soft", name);
    }
}

/// A picture of the whole study, which stands alone: a row for each line with its histogram and scatter.
pub fn picture(study: &Study) -> String {
    let row = HEIGHT + 34.0;
    let (width, height) = (2.0 * WIDTH + 20.0, row * study.lines.len().max(1) as f64 + 10.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\
         <style>{STYLE}</style><rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
    );
    for (place, line) in study.lines.iter().enumerate() {
        let (mut head, mut left, mut right) =
            (Canvas::new(width, row), Canvas::new(WIDTH, HEIGHT), Canvas::new(WIDTH, HEIGHT));
        let code = line.findings.first().map_or("", |finding| finding.code);
        head.text(MARGINS[0], 16.0, "start", "head", &format!("{} · {} ÷ udp · {code}", line.server, line.transport));
        draw_histogram(&mut left, line);
        draw_scatter(&mut right, line);
        let y = row * place as f64 + 6.0;
        let _ = write!(
            svg,
            "<g transform=\"translate(0 {y})\">{}<g transform=\"translate(0 26)\">{}</g><g transform=\"translate({} 26)\">{}</g></g>",
            head.svg,
            left.svg,
            WIDTH + 20.0,
            right.svg
        );
    }
    svg + "</svg>\n"
}
