//! The look of pictures: their size, colours, dashes and letters.

use std::str::FromStr;

use plotters::style::RGBColor;

/// The units of a size, each with its length in pixels of 1/96 inch, as in CSS.
const UNITS: [(&str, f64); 5] =
    [("in", 96.0), ("cm", 96.0 / 2.54), ("mm", 9.6 / 2.54), ("pt", 96.0 / 72.0), ("px", 1.0)];
/// Widths and heights that can be drawn, in pixels.
const POSSIBLE: std::ops::RangeInclusive<f64> = 90.0..=5_000.0;
/// Default height of a picture for a paper, as a part of its width.
const HEIGHT: f64 = 0.62;

/// A word that is neither a size nor a style.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLook {
    /// No size.
    #[error("`{0}` is no size: give a width, or width and height, with a unit, such as 3.3in, 8.5cm, 7x2.5in or 900px")]
    Size(String),
    /// Too small or too large.
    #[error("`{0}` is too small or too large for a picture: 1 to 50 inches are possible")]
    Possible(String),
    /// No style.
    #[error("`{0}` is no style: there are screen and paper")]
    Style(String),
}

/// What pictures are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Screens and slides: with titles, in colours.
    #[default]
    Screen,
    /// Papers: without titles, in small letters; curves differ by dashes, too, for printers without colours.
    Paper,
}

impl FromStr for Style {
    type Err = BadLook;

    fn from_str(text: &str) -> Result<Self, BadLook> {
        match text {
            "screen" => Ok(Self::Screen),
            "paper" => Ok(Self::Paper),
            _ => Err(BadLook::Style(text.to_owned())),
        }
    }
}

/// Width, and height where it is given, in pixels of 1/96 inch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// The width.
    pub width: f64,
    /// The height.
    pub height: Option<f64>,
}

impl FromStr for Size {
    type Err = BadLook;

    fn from_str(text: &str) -> Result<Self, BadLook> {
        let bad = || BadLook::Size(text.to_owned());
        let of_unit = |(unit, pixels): &(&str, f64)| Some((text.strip_suffix(unit)?, *pixels));
        let (numbers, pixels) = UNITS.iter().find_map(of_unit).ok_or_else(bad)?;
        let length = |number: &str| -> Result<f64, BadLook> {
            let length = number.trim().parse::<f64>().map_err(|_| bad())? * pixels;
            if POSSIBLE.contains(&length) { Ok(length) } else { Err(BadLook::Possible(text.to_owned())) }
        };
        match numbers.split_once('x') {
            Some((width, height)) => Ok(Self { width: length(width)?, height: Some(length(height)?) }),
            None => Ok(Self { width: length(numbers)?, height: None }),
        }
    }
}

/// Size and style of pictures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// What they are for.
    pub style: Style,
    /// How large they are; by the style where it is not given.
    pub size: Option<Size>,
}

/// Colours as on pages.
const COLOURS: [RGBColor; 10] = [
    RGBColor(78, 121, 167),
    RGBColor(242, 142, 44),
    RGBColor(225, 87, 89),
    RGBColor(118, 183, 178),
    RGBColor(89, 161, 79),
    RGBColor(237, 201, 73),
    RGBColor(175, 122, 161),
    RGBColor(255, 157, 167),
    RGBColor(156, 117, 95),
    RGBColor(186, 176, 171),
];
/// Colours of Okabe and Ito, which people tell apart who see fewer colours, from dark to light.
const ON_PAPER: [RGBColor; 7] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
/// Lengths of dashes and of the gaps between them, in pixels; none for a line in one piece.
const DASHES: [Option<(f64, f64)>; 5] = [None, Some((5.0, 2.5)), Some((1.5, 2.0)), Some((10.0, 3.0)), Some((3.0, 5.0))];

impl Look {
    /// Width in pixels.
    pub fn width(&self) -> f64 {
        // 3.3 inches are a column of most papers.
        self.size.map_or(if self.style == Style::Paper { 3.3 * 96.0 } else { 900.0 }, |size| size.width)
    }

    /// Height in pixels of a chart that has so many rows, and beside it something as high as this.
    pub fn height(&self, rows: usize, beside: f64) -> f64 {
        let natural = match rows {
            0 => self.width() * if self.style == Style::Paper { HEIGHT } else { 0.5 },
            rows => rows as f64 * self.letters() * 2.4 + 4.0 * self.letters(),
        };
        self.size.and_then(|size| size.height).unwrap_or(natural + beside)
    }

    /// Height of letters in pixels: of papers eight points.
    pub fn letters(&self) -> f64 {
        if self.style == Style::Paper { 8.0 * 96.0 / 72.0 } else { 12.0 }
    }

    /// Whether the title is a part of the picture.
    pub fn has_title(&self) -> bool {
        self.style == Style::Screen
    }

    /// How wide curves are, in pixels.
    pub fn stroke(&self) -> f64 {
        if self.style == Style::Paper { 1.3 } else { 2.0 }
    }

    /// The colour of a number.
    pub fn colour(&self, number: usize) -> RGBColor {
        match self.style {
            Style::Screen => COLOURS[number % COLOURS.len()],
            Style::Paper => ON_PAPER[number % ON_PAPER.len()],
        }
    }

    /// The dashes of a number. On screens they begin where there are no more colours.
    pub fn dashes(&self, number: usize) -> Option<(f64, f64)> {
        let kind = if self.style == Style::Paper { number } else { number / COLOURS.len() };
        DASHES[kind % DASHES.len()]
    }

    /// Pixels of a PNG for each pixel: 300 to an inch on paper.
    pub fn sharpness(&self) -> f64 {
        if self.style == Style::Paper { 300.0 / 96.0 } else { 2.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let size = |text: &str| text.parse::<Size>().map(|size| (size.width.round(), size.height.map(f64::round)));
        assert_eq!(size("3.3in"), Ok((317.0, None)));
        assert_eq!(size("7x2.5in"), Ok((672.0, Some(240.0))));
        assert_eq!(
            (size("8.5cm"), size("240pt"), size("900 px")),
            (Ok((321.0, None)), Ok((320.0, None)), Ok((900.0, None)))
        );
        for text in ["", "3", "in", "3in4", "x3in", "3 feet"] {
            assert_eq!(size(text), Err(BadLook::Size(text.to_owned())));
        }
        for text in ["0.1in", "-3in", "90in", "NaNin"] {
            assert_eq!(size(text), Err(BadLook::Possible(text.to_owned())));
        }
    }

    /// A printer without colours shows dashes.
    #[test]
    fn curves_on_paper_differ_by_dashes() {
        let paper = Look { style: Style::Paper, size: None };
        let of =
            |number| (paper.colour(number).0, paper.colour(number).1, paper.dashes(number).map(|dash| dash.0 as u32));
        let mut all: Vec<_> = (0..35).map(of).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 35);
        assert!(
            (0..5)
                .map(|number| paper.dashes(number).map(|dash| dash.0 as u32))
                .collect::<std::collections::HashSet<_>>()
                .len()
                == 5
        );
        assert_eq!((Look::default().dashes(9), Look::default().dashes(10)), (None, DASHES[1]));
    }
}
