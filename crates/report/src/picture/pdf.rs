//! Draws into a PDF of one page with the font in it. Every time it has the same octets: there is no date in it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use pdf_writer::types::{CidFontType, FontFlags, LineJoinStyle, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform,
};
use ttf_parser::{Face, GlyphId};

use super::draw::{FONT, LINE};

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

const FONT_NAME: Name<'static> = Name(b"DejaVuSans");
/// The font's name on the page.
const ON_PAGE: Name<'static> = Name(b"F1");
const SYSTEM: SystemInfo<'static> = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };
/// Where the text stands below its anchor, in heights of letters, as in the SVG of the same drawing.
const BELOW_TOP: f32 = 0.76;
const BELOW_MIDDLE: f32 = 0.27;
/// How far from the corner of a square the handles are that make an arc of a quarter of a circle.
const ARC: f32 = 0.552_285;

/// The page that is drawn.
pub struct PdfBackend<'a> {
    document: &'a mut Vec<u8>,
    content: Content,
    font: Option<Face<'static>>,
    /// The glyphs on the page, each with its letter.
    used: BTreeMap<u16, char>,
    /// In units.
    size: (u32, u32),
    /// Points of a unit.
    scale: f64,
}

impl<'a> PdfBackend<'a> {
    /// A page of this size in units; a pixel of 1/96 inch has `units` of them.
    pub fn new(document: &'a mut Vec<u8>, size: (u32, u32), units: f64) -> Self {
        let mut content = Content::new();
        content.set_line_join(LineJoinStyle::RoundJoin);
        let font = Face::parse(FONT, 0).ok();
        Self { document, content, font, used: BTreeMap::new(), size, scale: 72.0 / 96.0 / units }
    }

    /// A place in points from the lower left corner.
    fn place(&self, (x, y): BackendCoord) -> (f32, f32) {
        (self.points(x), self.points(self.size.1 as i32 - y))
    }

    fn points(&self, units: impl Into<f64>) -> f32 {
        (units.into() * self.scale) as f32
    }

    fn path(&mut self, points: impl IntoIterator<Item = BackendCoord>) {
        for (number, point) in points.into_iter().enumerate() {
            let (x, y) = self.place(point);
            match number {
                0 => self.content.move_to(x, y),
                _ => self.content.line_to(x, y),
            };
        }
    }

    fn stroke_with(&mut self, style: &impl BackendStyle) {
        let [red, green, blue] = parts(style.color());
        self.content.set_stroke_rgb(red, green, blue);
        let width = self.points(style.stroke_width());
        self.content.set_line_width(width);
    }

    fn fill_with(&mut self, style: &impl BackendStyle) {
        let [red, green, blue] = parts(style.color());
        self.content.set_fill_rgb(red, green, blue);
    }

    fn paint(&mut self, style: &impl BackendStyle, is_filled: bool) {
        if is_filled {
            self.content.fill_nonzero();
        } else {
            self.stroke_with(style);
            self.content.stroke();
        }
    }

    /// The glyphs of a text, and its width in heights of letters.
    fn glyphs(&mut self, text: &str) -> (Vec<u8>, f32) {
        let (mut octets, mut width) = (Vec::new(), 0.0);
        for letter in text.chars() {
            let Some((glyph, advance)) = self.font.as_ref().and_then(|font| glyph(font, letter)) else { continue };
            octets.extend(glyph.to_be_bytes());
            width += advance / 1_000.0;
            self.used.insert(glyph, letter);
        }
        (octets, width)
    }

    fn write(&mut self) {
        let [catalog, pages, page, content, font, cid, descriptor, file, unicode] =
            std::array::from_fn(|number| Ref::new(number as i32 + 1));
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page]).count(1);
        let (width, height) = (self.points(self.size.0), self.points(self.size.1));
        let mut only = pdf.page(page);
        only.media_box(Rect::new(0.0, 0.0, width, height)).parent(pages).contents(content);
        only.resources().fonts().pair(ON_PAGE, font);
        only.finish();
        pdf.stream(content, &std::mem::replace(&mut self.content, Content::new()).finish());
        let mut letters = pdf.type0_font(font);
        letters.base_font(FONT_NAME).encoding_predefined(Name(b"Identity-H")).descendant_font(cid).to_unicode(unicode);
        letters.finish();
        self.write_font(&mut pdf, [cid, descriptor, file]);
        let mut letters = UnicodeCmap::new(Name(b"Letters"), SYSTEM);
        self.used.iter().for_each(|(glyph, letter)| letters.pair(*glyph, *letter));
        pdf.cmap(unicode, &letters.finish());
        *self.document = pdf.finish();
    }

    fn write_font(&self, pdf: &mut Pdf, [cid, descriptor, file]: [Ref; 3]) {
        let Some(face) = &self.font else { return };
        let mut font = pdf.cid_font(cid);
        font.subtype(CidFontType::Type2).base_font(FONT_NAME).system_info(SYSTEM).font_descriptor(descriptor);
        font.cid_to_gid_map_predefined(Name(b"Identity")).default_width(0.0);
        let mut widths = font.widths();
        for (&glyph, &letter) in &self.used {
            let advance = self::glyph(face, letter).map_or(0.0, |(_, advance)| advance);
            widths.consecutive(glyph, [advance]);
        }
        widths.finish();
        font.finish();
        let thousandth = |units: i16| f32::from(units) * 1_000.0 / f32::from(face.units_per_em());
        let bounds = face.global_bounding_box();
        let [left, low, right, high] = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max].map(thousandth);
        pdf.font_descriptor(descriptor)
            .name(FONT_NAME)
            .flags(FontFlags::NON_SYMBOLIC)
            .bbox(Rect::new(left, low, right, high))
            .italic_angle(0.0)
            .ascent(thousandth(face.ascender()))
            .descent(thousandth(face.descender()))
            .cap_height(thousandth(face.capital_height().unwrap_or(face.ascender())))
            .stem_v(80.0)
            .font_file2(file);
        pdf.stream(file, FONT).pair(Name(b"Length1"), FONT.len() as i32);
    }
}

/// The glyph of a letter, and how far behind it the next one stands, in thousandths of the height of letters.
fn glyph(font: &Face, letter: char) -> Option<(u16, f32)> {
    let GlyphId(glyph) = font.glyph_index(letter)?;
    let advance = font.glyph_hor_advance(GlyphId(glyph))?;
    Some((glyph, f32::from(advance) * 1_000.0 / f32::from(font.units_per_em())))
}

fn parts(colour: BackendColor) -> [f32; 3] {
    let (red, green, blue) = colour.rgb;
    [red, green, blue].map(|part| f32::from(part) / 255.0)
}

fn is_seen(style: &impl BackendStyle) -> bool {
    style.color().alpha > 0.0
}

impl DrawingBackend for PdfBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        self.write();
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Drawn {
        self.draw_rect((x, y), (x + 1, y + 1), &colour, true)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        is_filled: bool,
    ) -> Drawn {
        if is_seen(style) {
            self.fill_with(style);
            let ((left, top), (right, bottom)) = (self.place(from), self.place(to));
            self.content.rect(left, bottom, right - left, top - bottom);
            self.paint(style, is_filled);
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        if is_seen(style) {
            self.stroke_with(style);
            self.path(path);
            self.content.stroke();
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, centre: BackendCoord, radius: u32, style: &S, is_filled: bool) -> Drawn {
        if !is_seen(style) {
            return Ok(());
        }
        self.fill_with(style);
        let ((x, y), r) = (self.place(centre), self.points(radius));
        let far = r * ARC;
        self.content.move_to(x + r, y);
        self.content.cubic_to(x + r, y + far, x + far, y + r, x, y + r);
        self.content.cubic_to(x - far, y + r, x - r, y + far, x - r, y);
        self.content.cubic_to(x - r, y - far, x - far, y - r, x, y - r);
        self.content.cubic_to(x + far, y - r, x + r, y - far, x + r, y);
        self.paint(style, is_filled);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, corners: I, style: &S) -> Drawn {
        if is_seen(style) {
            self.fill_with(style);
            self.path(corners);
            self.content.fill_nonzero();
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        if style.color().alpha == 0.0 {
            return Ok(());
        }
        let (glyphs, width) = self.glyphs(text);
        let high = self.points(style.size() / LINE);
        let before = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -width / 2.0,
            HPos::Right => -width,
        } * high;
        let below = match style.anchor().v_pos {
            VPos::Top => BELOW_TOP,
            VPos::Center => BELOW_MIDDLE,
            VPos::Bottom => -BELOW_MIDDLE,
        } * high;
        // Cosine and sine of how far it is turned, clockwise.
        let (cos, sin) = match style.transform() {
            FontTransform::None => (1.0, 0.0),
            FontTransform::Rotate90 => (0.0, 1.0),
            FontTransform::Rotate180 => (-1.0, 0.0),
            FontTransform::Rotate270 => (0.0, -1.0),
        };
        let (x, y) = self.place(at);
        let place = [x + before * cos - below * sin, y - before * sin - below * cos];
        self.fill_with(&style.color());
        self.content.begin_text();
        self.content.set_font(ON_PAGE, high).set_text_matrix([cos, -sin, sin, cos, place[0], place[1]]);
        self.content.show(Str(&glyphs)).end_text();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter that the font lacks would be left out of PDFs.
    #[test]
    fn the_font_has_what_figures_say() {
        let face = Face::parse(FONT, 0).unwrap();
        let missing: String =
            "Az09 %.,;:()/·→−–µ±×≤≥äé<>&\"'".chars().filter(|&letter| glyph(&face, letter).is_none()).collect();
        assert_eq!(missing, "");
    }
}
