//! Text that is safe to print on a terminal.

use std::fmt::{self, Write};

/// Shows a value on one line, its control characters escaped (`\n`, `\u{1b}`): names of files, and what is quoted of them, are
/// somebody else's, and a terminal would obey them. Everything that is printed for people goes through this at its end.
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

/// Shows a value of several lines: as [`Printable`], but with its line ends.
#[derive(Clone, Copy, Debug)]
pub struct PrintableLines<T>(pub T);

/// Shows JSON text with its control characters escaped by JSON's own rules (`\u001b`), so that the value is the same. Line ends stay.
#[derive(Clone, Copy, Debug)]
pub struct PrintableJson<T>(pub T);

impl<T: fmt::Display> fmt::Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escape { out: f, keeps_lines: false, is_json: false }, "{}", self.0)
    }
}

impl<T: fmt::Display> fmt::Display for PrintableLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escape { out: f, keeps_lines: true, is_json: false }, "{}", self.0)
    }
}

impl<T: fmt::Display> fmt::Display for PrintableJson<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escape { out: f, keeps_lines: true, is_json: true }, "{}", self.0)
    }
}

struct Escape<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    keeps_lines: bool,
    is_json: bool,
}

impl Write for Escape<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut start = 0;
        let is_escaped = |one: char| is_control(one) && !(self.keeps_lines && one == '\n');
        for (place, one) in text.char_indices().filter(|&(_, one)| is_escaped(one)) {
            self.out.write_str(&text[start..place])?;
            match self.is_json {
                // None of them is above U+FFFF.
                true => write!(self.out, "\\u{:04x}", u32::from(one))?,
                false => write!(self.out, "{}", one.escape_default())?,
            }
            start = place + one.len_utf8();
        }
        self.out.write_str(&text[start..])
    }
}

/// Control characters, those that end lines, and those that change the direction of text (UAX #9, 3.1).
fn is_control(one: char) -> bool {
    one.is_control() || matches!(one, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else() {
        for (text, wanted) in [
            ("zönes/a b\\.zone", "zönes/a b\\.zone"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("a\u{202e}b\u{2028}", "a\\u{202e}b\\u{2028}"),
            ("", ""),
        ] {
            assert_eq!(Printable(text).to_string(), wanted);
            assert_eq!(PrintableLines(text).to_string(), wanted.replace("\\n", "\n"));
        }
        assert_eq!(
            PrintableJson("{\n\"a\": \"\u{1b}\u{9b}\u{202e}é\"}").to_string(),
            "{\n\"a\": \"\\u001b\\u009b\\u202eé\"}"
        );
        assert_eq!(Printable(Path::new("x\u{1b}.zone").display()).to_string(), "x\\u{1b}.zone");
    }
}
