//! Charts as pictures that stand alone: SVG, PDF and PNG of the same drawing.
//!
//! `picture/placed.rs` places values on an axis, `look.rs` says how large and for what a picture is, `draw.rs` draws a chart through plotters, and
//! `pdf.rs` is what plotters lacks.

mod draw;
mod look;
mod pdf;
mod placed;

pub use look::{BadLook, Look, Size, Style};
pub use placed::{Placed, Unit};

/// A picture in all forms.
pub struct Picture {
    /// As SVG, whose letters are text.
    pub svg: String,
    /// As PDF, with its font.
    pub pdf: Vec<u8>,
    /// As PNG.
    pub png: Vec<u8>,
}

/// Something drawn, in the units of both axes.
pub enum Shape {
    /// A line through points; a single one is a dot.
    Curve(Vec<(f64, f64)>),
    /// A dot.
    Dot((f64, f64)),
    /// A filled range from one corner to the other.
    Box((f64, f64), (f64, f64)),
    /// A thick line.
    Mark((f64, f64), (f64, f64)),
    /// A thin line.
    Whisker((f64, f64), (f64, f64)),
    /// A text behind a place.
    Text((f64, f64), String),
}

/// A straight line across the chart that belongs to no data.
#[derive(Clone, Copy)]
pub enum Rule {
    /// At a value of the horizontal axis.
    Across(f64),
    /// At a value of the vertical axis.
    Along(f64),
}

/// What a picture shows.
pub struct Chart {
    /// The title, which pictures for papers leave to their captions.
    pub title: String,
    /// The horizontal axis.
    pub x: Placed,
    /// The vertical axis.
    pub y: Placed,
    /// Names of rows, where the vertical axis has rows.
    pub rows: Vec<String>,
    /// Lines across it.
    pub rules: Vec<Rule>,
    /// The shapes with the number of their colour.
    pub shapes: Vec<(usize, Shape)>,
    /// Names of colours with their numbers.
    pub legend: Vec<(usize, String)>,
}

/// A curve: its name, and its points, without a second value where it is interrupted.
pub type Named = (String, Vec<(f64, Option<f64>)>);

impl Chart {
    /// A chart of curves.
    pub fn of_curves(title: String, x: Placed, y: Placed, curves: &[Named]) -> Self {
        let drawn = curves.iter().enumerate().filter(|(_, (_, points))| !points.is_empty());
        let legend = drawn.map(|(at, (name, _))| (at, name.clone())).collect();
        let mut shapes = Vec::new();
        for (at, (_, points)) in curves.iter().enumerate() {
            let parts = points.split(|(_, value)| value.is_none()).filter(|part| !part.is_empty());
            shapes.extend(parts.map(|part| {
                let placed = part.iter().map(|&(across, value)| (x.place(across), y.place(value.unwrap_or_default())));
                (at, Shape::Curve(placed.collect()))
            }));
        }
        Self { title, x, y, rows: Vec::new(), rules: Vec::new(), shapes, legend }
    }

    /// A chart with rows, the first on top.
    pub fn of_rows(title: String, x: Placed, rows: Vec<String>, shapes: Vec<(usize, Shape)>) -> Self {
        let y = Placed::rows(rows.len());
        Self { title, x, y, rows, rules: Vec::new(), shapes, legend: Vec::new() }
    }
}
