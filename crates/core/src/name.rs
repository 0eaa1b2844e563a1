//! Domain names in wire format: limits, presentation form, and back (RFC 1035 §3.1, §5.1).

use std::fmt;
use std::io::Write as _;

use crate::printable::Printable;

/// Longest name in wire format, in octets, the root label included (RFC 1035 §3.1).
pub const MAX_NAME: usize = 255;
/// Longest label in octets.
pub const MAX_LABEL: usize = 63;

/// An invalid domain name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// A label longer than 63 octets.
    #[error("name `{}` has a label longer than 63 bytes", Printable(.0))]
    LongLabel(String),
    /// A name longer than 255 octets.
    #[error("name `{}` is longer than 255 bytes", Printable(.0))]
    LongName(String),
    /// Two dots in a row, or a leading dot.
    #[error("name `{}` has an empty label", Printable(.0))]
    EmptyLabel(String),
    /// A backslash without a character or three digits up to 255 behind it.
    #[error("name `{}` has an invalid escape: use \\. or \\046", Printable(.0))]
    Escape(String),
}

/// Shows an uncompressed wire-format name in presentation form, absolute, with escapes.
///
/// Stops without failing at an invalid label, so that untrusted input can be shown.
#[derive(Clone, Copy, Debug)]
pub struct Presentation<'a>(pub &'a [u8]);

impl fmt::Display for Presentation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut labels = labels(self.0).peekable();
        if labels.peek().is_none() {
            return f.write_str(".");
        }
        for label in labels {
            write_label(f, label)?;
            f.write_str(".")?;
        }
        Ok(())
    }
}

/// Appends what [`Presentation`] shows of a name.
pub fn present(name: &[u8], text: &mut Vec<u8>) {
    let start = text.len();
    for label in labels(name) {
        if label.iter().all(is_plain) {
            text.extend_from_slice(label);
            text.push(b'.');
            continue;
        }
        text.truncate(start);
        // Writing to memory cannot fail.
        let _ = write!(text, "{}", Presentation(name));
        return;
    }
    if text.len() == start {
        text.push(b'.');
    }
}

/// The labels of an uncompressed name, the root label left out.
pub fn labels(mut name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&len, rest) = name.split_first()?;
        if len == 0 || usize::from(len) > MAX_LABEL || rest.len() < usize::from(len) {
            return None;
        }
        let (label, behind) = rest.split_at(usize::from(len));
        name = behind;
        Some(label)
    })
}

/// Reads a name in presentation form, with or without the final dot, and appends its wire format to `wire`.
///
/// # Errors
/// [`BadName`] if the text is not a name; `wire` is then unchanged.
pub fn parse(text: &str, wire: &mut Vec<u8>) -> Result<(), BadName> {
    let start = wire.len();
    parse_labels(text, wire, start).inspect_err(|_| wire.truncate(start))
}

fn parse_labels(text: &str, wire: &mut Vec<u8>, start: usize) -> Result<(), BadName> {
    let named = |error: fn(String) -> BadName| error(text.to_owned());
    if text.is_empty() {
        return Err(named(BadName::EmptyLabel));
    }
    if text == "." {
        wire.push(0);
        return Ok(());
    }
    let mut octets = text.bytes();
    let mut length_at = open_label(wire);
    while let Some(octet) = octets.next() {
        match octet {
            b'.' => {
                close_label(wire, length_at, text)?;
                length_at = open_label(wire);
            }
            b'\\' => {
                let octet = unescape(&mut octets).ok_or_else(|| named(BadName::Escape))?;
                wire.push(octet);
            }
            _ => wire.push(octet),
        }
    }
    if wire.len() > length_at + 1 {
        close_label(wire, length_at, text)?;
        wire.push(0);
    }
    if wire.len() - start > MAX_NAME {
        return Err(named(BadName::LongName));
    }
    Ok(())
}

/// Puts a zero where the length of the next label will stand. After the last label it is the root label.
fn open_label(wire: &mut Vec<u8>) -> usize {
    wire.push(0);
    wire.len() - 1
}

fn close_label(wire: &mut [u8], length_at: usize, text: &str) -> Result<(), BadName> {
    match wire.len() - length_at - 1 {
        0 => Err(BadName::EmptyLabel(text.to_owned())),
        length @ 1..=MAX_LABEL => {
            wire[length_at] = length as u8;
            Ok(())
        }
        _ => Err(BadName::LongLabel(text.to_owned())),
    }
}

fn unescape(octets: &mut impl Iterator<Item = u8>) -> Option<u8> {
    let first = octets.next()?;
    if !first.is_ascii_digit() {
        return Some(first);
    }
    let digit = |octet: u8| octet.is_ascii_digit().then(|| u16::from(octet - b'0'));
    let value = digit(first)? * 100 + digit(octets.next()?)? * 10 + digit(octets.next()?)?;
    u8::try_from(value).ok()
}

/// Writes a label without special characters in one call: names are written by the million.
fn write_label(f: &mut fmt::Formatter<'_>, label: &[u8]) -> fmt::Result {
    match std::str::from_utf8(label) {
        Ok(text) if label.iter().all(is_plain) => f.write_str(text),
        _ => label.iter().try_for_each(|&octet| write_octet(f, octet)),
    }
}

/// Whether an octet of a label is shown as it is, wherever it stands.
fn is_plain(octet: &u8) -> bool {
    PLAIN[usize::from(*octet)]
}

/// Letters, digits, hyphens and underscores.
const PLAIN: [bool; 256] = {
    let (mut plain, mut octet) = ([false; 256], 0);
    while octet < 256 {
        plain[octet] = (octet as u8).is_ascii_alphanumeric() || matches!(octet as u8, b'-' | b'_');
        octet += 1;
    }
    plain
};

fn write_octet(f: &mut fmt::Formatter<'_>, octet: u8) -> fmt::Result {
    use fmt::Write;
    match octet {
        b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => write!(f, "\\{}", char::from(octet)),
        0x21..=0x7e => f.write_char(char::from(octet)),
        _ => write!(f, "\\{octet:03}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire(text: &str) -> Result<Vec<u8>, BadName> {
        let mut wire = Vec::new();
        parse(text, &mut wire).map(|()| wire)
    }

    #[test]
    fn the_final_dot_is_optional() {
        assert_eq!(wire("www.example").unwrap(), b"\x03www\x07example\0");
        assert_eq!(wire("www.example.").unwrap(), b"\x03www\x07example\0");
        assert_eq!(wire(".").unwrap(), b"\0");
    }

    /// Found by fuzzing the versions of record sets: the message had two lines.
    #[test]
    fn a_bad_name_is_told_on_one_line() {
        let said = wire("a\n\\07\u{1b}b").unwrap_err().to_string();
        assert_eq!(said, r"name `a\n\07\u{1b}b` has an invalid escape: use \. or \046");
    }

    #[test]
    fn bad_names_are_refused_by_reason() {
        assert!(matches!(wire(""), Err(BadName::EmptyLabel(_))));
        assert!(matches!(wire("a..b"), Err(BadName::EmptyLabel(_))));
        assert!(matches!(wire(".a"), Err(BadName::EmptyLabel(_))));
        assert!(matches!(wire(&"a".repeat(64)), Err(BadName::LongLabel(_))));
        assert!(matches!(wire(&"a.".repeat(128)), Err(BadName::LongName(_))));
        assert!(wire(&"a.".repeat(127)).is_ok());
        assert!(matches!(wire("a\\"), Err(BadName::Escape(_))));
        assert!(matches!(wire("a\\256"), Err(BadName::Escape(_))));
    }

    proptest! {
        #[test]
        fn any_labels_survive_the_presentation_form(labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=63), 0..4)) {
            let mut name = Vec::new();
            for label in &labels {
                name.push(label.len() as u8);
                name.extend_from_slice(label);
            }
            name.push(0);
            prop_assume!(name.len() <= MAX_NAME);
            let text = Presentation(&name).to_string();
            let mut presented = b"before".to_vec();
            present(&name, &mut presented);
            prop_assert_eq!(presented.strip_prefix(b"before"), Some(text.as_bytes()));
            prop_assert_eq!(wire(&text).unwrap(), name);
        }
    }
}
