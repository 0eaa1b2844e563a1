//! Draws a chart: on top its title and the names of its curves, below them the plot with its axes.

use std::sync::Once;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::pdf::PdfBackend;
use super::{Chart, Look, Picture, Placed, Rule, Shape};

/// Latin letters, digits and signs of DejaVu Sans.
pub const FONT: &[u8] = include_bytes!("../../assets/DejaVuSans-Latin.ttf");
/// What it is called here; programs that show an SVG take the first of these that they have.
const FAMILY: &str = "DejaVu Sans, Arial, sans-serif";
/// The drawing library's size of letters for each pixel of theirs: it counts from line to line.
pub const LINE: f64 = 1.24;
/// Units of a pixel in SVG and PDF: the drawing library knows whole numbers only.
const FINE: f64 = 10.0;
/// Around a picture, in pixels.
const MARGIN: f64 = 8.0;
/// Letters of the title, against others.
const TITLE: f64 = 1.2;
/// How long the line before the name of a curve is, in heights of letters.
const KEY: f64 = 1.8;
const GRID: RGBColor = RGBColor(217, 222, 229);
const INK: RGBColor = RGBColor(28, 36, 48);
const SOFT: RGBColor = RGBColor(91, 102, 117);

type Plot<B> = DrawingArea<B, Cartesian2d<Placed, Placed>>;

impl Chart {
    /// The picture in all forms; `None` where nothing can be drawn.
    pub fn picture(&self, look: &Look) -> Option<Picture> {
        with_font();
        let vector = Pen { look, units: FINE };
        let head = Head::new(self, &vector);
        let size = vector.size(self, &head);
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, size).into_drawing_area(), &vector, &head)?;
        let mut pdf = Vec::new();
        self.draw(&PdfBackend::new(&mut pdf, size, FINE).into_drawing_area(), &vector, &head)?;
        Some(Picture { svg: in_pixels(&svg, size), pdf, png: self.png(look)? })
    }

    fn png(&self, look: &Look) -> Option<Vec<u8>> {
        let pen = Pen { look, units: look.sharpness() };
        let head = Head::new(self, &pen);
        let size = pen.size(self, &head);
        let mut pixels = vec![0; (size.0 * size.1 * 3) as usize];
        self.draw(&BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area(), &pen, &head)?;
        encoded(&pixels, size)
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>, pen: &Pen, head: &Head) -> Option<()> {
        root.fill(&WHITE).ok()?;
        head.draw(root, pen)?;
        let (_, below) = root.split_vertically(head.height);
        let (x, y, beside) = self.fitted(pen, below.dim_in_pixel());
        let mut built = ChartBuilder::on(&below)
            .margin(pen.units(MARGIN))
            .margin_top(pen.units(MARGIN / 2.0))
            // For the half of the last label that is beyond the axis.
            .margin_right(pen.widest(x.all_told()) / 2 + pen.units(MARGIN))
            .x_label_area_size(pen.letters(3.2))
            .y_label_area_size(beside)
            .build_cartesian_2d(x.clone(), y.clone())
            .ok()?;
        let row = |at: f64| self.rows.get(at.round() as usize).cloned();
        built
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(pen.stroke(0.7)))
            .axis_style(SOFT.stroke_width(pen.stroke(0.8)))
            .set_all_tick_mark_size(pen.units(3.0))
            .label_style(pen.font(1.0).color(&INK))
            .axis_desc_style(pen.font(1.0).color(&INK))
            .x_desc(&x.label)
            .y_desc(&y.label)
            .x_label_formatter(&|at| x.told(*at))
            .y_label_formatter(&|at| row(*at).unwrap_or_else(|| y.told(*at)))
            .draw()
            .ok()?;
        let plot = built.plotting_area();
        self.rules.iter().try_for_each(|rule| self.draw_rule(plot, pen, *rule))?;
        self.shapes.iter().try_for_each(|(number, shape)| draw_shape(plot, pen, *number, shape))?;
        root.present().ok()
    }

    /// Both axes with as many ticks as have room in such a plot, and the room that the labels of the vertical one take.
    fn fitted(&self, pen: &Pen, (width, height): (u32, u32)) -> (Placed, Placed, i32) {
        let names = pen.widest(self.rows.iter().cloned());
        let of_ticks = if self.rows.is_empty() { pen.widest(self.y.all_told()) } else { names.min(width as i32 / 2) };
        let of_label = if self.y.label.is_empty() { 0 } else { pen.letters(1.6) };
        let beside = of_ticks + of_label + pen.letters(0.7);
        let across = (width as i32 - beside).max(0) / (pen.widest(self.x.all_told()) + pen.letters(1.0));
        let up = (height as i32 - pen.letters(4.0)).max(0) / pen.letters(2.0);
        let y = if self.rows.is_empty() { self.y.with_ticks(up as usize) } else { self.y.clone() };
        (self.x.with_ticks(across as usize), y, beside)
    }

    fn draw_rule<B: DrawingBackend>(&self, plot: &Plot<B>, pen: &Pen, rule: Rule) -> Option<()> {
        let (x, y) = (self.x.ends(), self.y.ends());
        let ends = match rule {
            Rule::Across(at) => [(self.x.place(at), y.0), (self.x.place(at), y.1)],
            Rule::Along(at) => [(x.0, self.y.place(at)), (x.1, self.y.place(at))],
        };
        let style = SOFT.stroke_width(pen.stroke(0.8));
        plot.draw(&DashedPathElement::new(ends, pen.units(4.0), pen.units(3.0), style)).ok()
    }
}

fn draw_shape<B: DrawingBackend>(plot: &Plot<B>, pen: &Pen, number: usize, shape: &Shape) -> Option<()> {
    let colour = pen.look.colour(number);
    let line =
        |ends: &[(f64, f64)], pixels: f64| PathElement::new(ends.to_vec(), colour.stroke_width(pen.stroke(pixels)));
    let dot = |at: (f64, f64)| Circle::new(at, pen.units(pen.look.stroke() * 1.6), colour.filled());
    match shape {
        Shape::Curve(points) => match (points.as_slice(), pen.look.dashes(number)) {
            ([only], _) => plot.draw(&dot(*only)),
            (_, None) => plot.draw(&line(points, pen.look.stroke())),
            (_, Some((dash, gap))) => {
                let style = colour.stroke_width(pen.stroke(pen.look.stroke()));
                plot.draw(&DashedPathElement::new(points.clone(), pen.units(dash), pen.units(gap), style))
            }
        },
        Shape::Dot(at) => plot.draw(&dot(*at)),
        Shape::Box(from, to) => plot.draw(&Rectangle::new([*from, *to], pale(colour).filled())),
        Shape::Mark(from, to) => plot.draw(&line(&[*from, *to], pen.look.stroke() * 1.5)),
        Shape::Whisker(from, to) => plot.draw(&line(&[*from, *to], pen.look.stroke() / 2.0)),
        Shape::Text(at, text) => {
            let font = pen.font(1.0).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
            plot.draw(&(EmptyElement::at(*at) + Text::new(text.clone(), (pen.letters(0.5), 0), font)))
        }
    }
    .ok()
}

/// The pale colour of an area, mixed here: SVG, PDF and PNG would each mix a transparent one in a way of its own.
fn pale(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let mixed = |part: u8| (f64::from(part) * 0.4 + 255.0 * 0.6).round() as u8;
    RGBColor(mixed(red), mixed(green), mixed(blue))
}

/// Sizes in the units of a form.
struct Pen<'a> {
    look: &'a Look,
    /// Units of a pixel.
    units: f64,
}

impl Pen<'_> {
    fn units(&self, pixels: f64) -> i32 {
        (pixels * self.units).round() as i32
    }

    /// A length in heights of letters.
    fn letters(&self, count: f64) -> i32 {
        self.units(self.look.letters() * count)
    }

    fn stroke(&self, pixels: f64) -> u32 {
        self.units(pixels).max(1) as u32
    }

    fn font(&self, factor: f64) -> FontDesc<'static> {
        (FAMILY, self.look.letters() * factor * self.units * LINE).into_font()
    }

    fn width(&self, text: &str, factor: f64) -> i32 {
        self.font(factor).box_size(text).map_or(0, |(width, _)| width as i32)
    }

    fn widest(&self, texts: impl Iterator<Item = String>) -> i32 {
        texts.map(|text| self.width(&text, 1.0)).max().unwrap_or(0)
    }

    /// Width and height of a picture with this head.
    fn size(&self, chart: &Chart, head: &Head) -> (u32, u32) {
        let height = self.look.height(chart.rows.len(), f64::from(head.height) / self.units);
        (self.units(self.look.width()) as u32, self.units(height) as u32)
    }
}

/// A text of the head.
struct Word {
    at: (i32, i32),
    text: String,
    factor: f64,
    /// The number of what it names, and whether that has dashes.
    of: Option<(usize, bool)>,
}

/// What stands above the plot.
struct Head {
    words: Vec<Word>,
    height: i32,
}

impl Head {
    fn new(chart: &Chart, pen: &Pen) -> Self {
        let (left, width) = (pen.units(MARGIN), pen.units(pen.look.width() - 2.0 * MARGIN));
        let mut head = Self { words: Vec::new(), height: left };
        if pen.look.has_title() {
            head.write(&chart.title, TITLE, pen, width);
        }
        let mut x = left;
        for (number, name) in &chart.legend {
            let long = pen.letters(KEY + 1.8) + pen.width(name, 1.0);
            if x > left && x + long > left + width {
                (x, head.height) = (left, head.height + pen.letters(1.5));
            }
            head.words.push(Word {
                at: (x, head.height),
                text: name.clone(),
                factor: 1.0,
                of: Some((*number, is_curve(chart, *number))),
            });
            x += long;
        }
        head.height += if chart.legend.is_empty() { 0 } else { pen.letters(1.5) };
        head
    }

    /// Writes a text in as many lines as it needs.
    fn write(&mut self, text: &str, factor: f64, pen: &Pen, width: i32) {
        let mut line = String::new();
        let mut end = |line: &str| {
            let at = (pen.units(MARGIN), self.height);
            self.words.push(Word { at, text: line.to_owned(), factor, of: None });
            self.height += pen.letters(factor * 1.5);
        };
        for word in text.split_whitespace() {
            let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            if !line.is_empty() && pen.width(&longer, factor) > width {
                end(&line);
                word.clone_into(&mut line);
            } else {
                line = longer;
            }
        }
        if !line.is_empty() {
            end(&line);
        }
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>, pen: &Pen) -> Option<()> {
        self.words.iter().try_for_each(|word| {
            let (x, y) = word.at;
            let x = match word.of {
                Some(number) => {
                    draw_key(root, pen, number, (x, y + pen.letters(0.6)))?;
                    x + pen.letters(KEY + 0.5)
                }
                None => x,
            };
            root.draw(&Text::new(word.text.clone(), (x, y), pen.font(word.factor).color(&INK))).ok()
        })
    }
}

/// Only curves have dashes.
fn is_curve(chart: &Chart, number: usize) -> bool {
    chart.shapes.iter().any(|(of, shape)| *of == number && matches!(shape, Shape::Curve(_)))
}

/// The line before the name of a curve.
fn draw_key<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    pen: &Pen,
    (number, has_dashes): (usize, bool),
    (x, y): (i32, i32),
) -> Option<()> {
    let ends = [(x, y), (x + pen.letters(KEY), y)];
    let style = pen.look.colour(number).stroke_width(pen.stroke(pen.look.stroke() * 1.2));
    match pen.look.dashes(number).filter(|_| has_dashes) {
        None => root.draw(&PathElement::new(ends.to_vec(), style)).ok(),
        Some((dash, gap)) => root.draw(&DashedPathElement::new(ends, pen.units(dash), pen.units(gap), style)).ok(),
    }
}

/// The size of an SVG in pixels; its contents are in finer units.
fn in_pixels(svg: &str, (width, height): (u32, u32)) -> String {
    let fine = format!("width=\"{width}\" height=\"{height}\"");
    let [width, height] = [width, height].map(|units| f64::from(units) / FINE);
    svg.replacen(&fine, &format!("width=\"{width}\" height=\"{height}\""), 1)
}

/// Gives the drawing library its font, once.
fn with_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A font that cannot be read is found by the test of it; text is left out then.
        let _ = register_font(FAMILY, FontStyle::Normal, FONT);
    });
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
