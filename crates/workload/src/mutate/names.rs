//! Rewrites query names: by template, suffix or case.

use std::io::Write as _;

use ldplayer_core::name::{self, MAX_LABEL, MAX_NAME};
use ldplayer_core::random::draw;

use super::Origin;
use super::edit::EditError;

/// How a name changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameEdit {
    /// A template, filled in for each query.
    Template(Template),
    /// Replaces the first suffix by the second one. Both are in wire format, the first in lower case.
    Suffix(Box<[u8]>, Box<[u8]>),
    /// To lower case.
    Lower,
    /// Random case of each letter (draft-vixie-dnsext-dns0x20).
    Mixed,
}

impl NameEdit {
    /// Appends the new name for `old` to `new`, both in wire format; `false` if unchanged.
    pub fn apply(&self, old: &[u8], origin: &Origin, new: &mut Vec<u8>) -> Result<bool, EditError> {
        match self {
            Self::Template(template) => template.make(old, origin, new)?,
            Self::Suffix(from, to) => match suffix_at(old, from) {
                Some(at) => {
                    new.extend_from_slice(&old[..at]);
                    new.extend_from_slice(to);
                }
                None => return Ok(false),
            },
            Self::Lower => new.extend(old.iter().map(u8::to_ascii_lowercase)),
            Self::Mixed => mix(old, origin, new),
        }
        if new.len() > MAX_NAME {
            return Err(EditError::LongName);
        }
        Ok(new != old)
    }
}

/// The offset of `suffix` in `name`, at a label.
fn suffix_at(name: &[u8], suffix: &[u8]) -> Option<usize> {
    let start = name.len().checked_sub(suffix.len())?;
    let mut at = 0;
    while at < start {
        at += 1 + usize::from(name[at]);
    }
    (at == start && name[at..].eq_ignore_ascii_case(suffix)).then_some(at)
}

/// Randomises the case of each letter. Length octets are below 64, and so never letters.
fn mix(old: &[u8], origin: &Origin, new: &mut Vec<u8>) {
    for (part, octets) in old.chunks(64).enumerate() {
        let coins = draw(origin.key, origin.number.wrapping_mul(4).wrapping_add(part as u64));
        new.extend(octets.iter().enumerate().map(|(bit, octet)| match coins >> bit & 1 {
            0 => octet.to_ascii_lowercase(),
            _ => octet.to_ascii_uppercase(),
        }));
    }
}

/// A name with placeholders, such as `u{n}.{qname}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    labels: Vec<Label>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Label {
    /// All labels of the recorded name without the root label.
    Recorded,
    /// One label.
    Made(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    /// The number of the transaction in the trace, from 0, which is unique.
    Number,
    /// Sixteen random hexadecimal digits.
    Random,
    /// The client's address with hyphens in place of dots and colons.
    Client,
}

/// The placeholders by name.
const PLACES: [(&str, Part); 3] = [("{n}", Part::Number), ("{random}", Part::Random), ("{client}", Part::Client)];
/// The recorded name.
const RECORDED: &str = "{qname}";

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The error, in words for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        if text == "." {
            return Ok(Self { labels: Vec::new() });
        }
        let labels = bare.split('.').map(|label| match label {
            "" => Err(format!("`{text}` has an empty label")),
            RECORDED => Ok(Label::Recorded),
            _ => Ok(Label::Made(parts(label)?)),
        });
        Ok(Self { labels: labels.collect::<Result<_, _>>()? })
    }

    /// A label with the number of the query before the recorded name, which makes a unique name.
    pub fn fresh() -> Self {
        Self { labels: vec![Label::Made(vec![Part::Text((*b"f").into()), Part::Number]), Label::Recorded] }
    }

    /// Appends the name for `old` to `new`, both in wire format; it may exceed the maximum length of a name.
    ///
    /// # Errors
    /// When a label is longer than 63 octets.
    pub fn make(&self, old: &[u8], origin: &Origin, new: &mut Vec<u8>) -> Result<(), EditError> {
        for label in &self.labels {
            match label {
                Label::Recorded => new.extend_from_slice(&old[..old.len() - 1]),
                Label::Made(parts) => make_label(parts, origin, new)?,
            }
        }
        new.push(0);
        Ok(())
    }
}

fn parts(label: &str) -> Result<Vec<Part>, String> {
    let (mut rest, mut parts) = (label, Vec::new());
    while !rest.is_empty() {
        if let Some((place, part)) = PLACES.iter().find(|(place, _)| rest.starts_with(place)) {
            parts.push(part.clone());
            rest = &rest[place.len()..];
            continue;
        }
        if rest.starts_with('{') {
            return Err(format!(
                "`{rest}`: unknown placeholder; use {{n}}, {{random}}, {{client}}, or {RECORDED} as a whole label"
            ));
        }
        let length = rest.find('{').unwrap_or(rest.len());
        parts.push(Part::Text(literal(&rest[..length])?));
        rest = &rest[length..];
    }
    Ok(parts)
}

/// Octets of a text with the escapes of presentation format.
fn literal(text: &str) -> Result<Box<[u8]>, String> {
    let mut wire = Vec::new();
    name::parse(text, &mut wire).map_err(|error| error.to_string())?;
    Ok(wire[1..wire.len() - 1].into())
}

fn make_label(parts: &[Part], origin: &Origin, new: &mut Vec<u8>) -> Result<(), EditError> {
    let length_at = new.len();
    new.push(0);
    for part in parts {
        // Writing to a vector cannot fail.
        let _ = match part {
            Part::Text(text) => new.write_all(text),
            Part::Number => write!(new, "{}", origin.number),
            Part::Random => new.write_all(&hexadecimal(draw(origin.key, origin.number))),
            Part::Client => write!(new, "{}", origin.client),
        };
        if *part == Part::Client {
            new[length_at + 1..].iter_mut().filter(|octet| b".:".contains(octet)).for_each(|octet| *octet = b'-');
        }
    }
    let length = new.len() - length_at - 1;
    if length > MAX_LABEL {
        return Err(EditError::LongLabel);
    }
    new[length_at] = length as u8;
    Ok(())
}

/// The digits of a number.
fn hexadecimal(number: u64) -> [u8; 16] {
    std::array::from_fn(|place| b"0123456789abcdef"[(number >> (60 - 4 * place)) as usize % 16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::name::Presentation;
    use proptest::prelude::*;

    const ORIGIN: Origin = Origin {
        number: 42,
        key: 7,
        client: std::net::IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };

    fn wire(text: &str) -> Vec<u8> {
        let mut wire = Vec::new();
        name::parse(text, &mut wire).unwrap();
        wire
    }

    fn apply(edit: &NameEdit, old: &str) -> Result<String, EditError> {
        let mut new = Vec::new();
        edit.apply(&wire(old), &ORIGIN, &mut new).map(|_| Presentation(&new).to_string())
    }

    fn template(text: &str) -> NameEdit {
        NameEdit::Template(Template::parse(text).unwrap())
    }

    #[test]
    fn templates_fill_their_places() {
        for (text, name) in [
            ("u{n}.{qname}", "u42.Www.example."),
            ("{client}.test.", "2001-db8--1.test."),
            ("{qname}.again.{qname}", "Www.example.again.Www.example."),
            (".", "."),
            ("a-{n}-b.test", "a-42-b.test."),
        ] {
            assert_eq!(apply(&template(text), "Www.example").as_deref(), Ok(name), "{text}");
        }
        let random = apply(&template("{random}.test"), ".").unwrap();
        assert!(
            random.len() == "0123456789abcdef.test.".len()
                && random != apply(&template("{random}a.test"), ".").unwrap()
        );
        assert_eq!(apply(&template("{qname}"), "."), Ok(".".into()));
    }

    #[test]
    fn bad_templates_are_refused() {
        for text in ["{number}.test", "a..b", "", "x{qname}", &"a".repeat(64)] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_grows_too_long_is_kept_for_a_reason() {
        let long = format!("{}.example", "a.".repeat(120).trim_end_matches('.'));
        assert_eq!(apply(&template("unique{n}.{qname}"), &long), Err(EditError::LongName));
        let client = template(&format!("{}{{n}}", "a".repeat(62)));
        assert_eq!(apply(&client, "."), Err(EditError::LongLabel));
    }

    #[test]
    fn suffixes_are_swapped_at_labels_only() {
        let swap = |from: &str, to: &str| NameEdit::Suffix(wire(from).into(), wire(to).into());
        assert_eq!(apply(&swap("example", "test"), "www.EXAMPLE").as_deref(), Ok("www.test."));
        assert_eq!(apply(&swap(".", "test"), "www.example").as_deref(), Ok("www.example.test."));
        let mut new = Vec::new();
        assert_eq!(swap("ample", "test").apply(&wire("www.example"), &ORIGIN, &mut new), Ok(false));
        assert_eq!(swap("a.b.example", "test").apply(&wire("b.example"), &ORIGIN, &mut new), Ok(false));
    }

    #[test]
    fn case_changes_and_nothing_else() {
        assert_eq!(apply(&NameEdit::Lower, "WWW.Example").as_deref(), Ok("www.example."));
        let name = "abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz.example.";
        let mixed = apply(&NameEdit::Mixed, name).unwrap();
        assert!(mixed != name && mixed.eq_ignore_ascii_case(name), "{mixed}");
        assert_eq!(apply(&NameEdit::Mixed, name), Ok(mixed));
    }

    proptest! {
        #[test]
        fn templates_make_names_or_reasons(text in "[a-z{}.n]{0,12}|(u\\{n\\}|\\{qname\\}|\\{random\\}|a)(\\.(\\{qname\\}|b)){0,3}") {
            if let Ok(template) = Template::parse(&text) {
                let mut new = Vec::new();
                if NameEdit::Template(template).apply(&wire("www.example"), &ORIGIN, &mut new).is_ok() {
                    let again = wire(&Presentation(&new).to_string());
                    prop_assert_eq!(again, new);
                }
            }
        }
    }
}
