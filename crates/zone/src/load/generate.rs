//! `$GENERATE`: many numbered records on one line, as in BIND.
//!
//! `$GENERATE FIRST-LAST[/STEP] OWNER [TTL] [CLASS] TYPE DATA`: in each field `$` is the number and `\$` a dollar;
//! `${OFFSET[,WIDTH[,BASE]]}` is the number with an offset added, filled with zeros up to a width, in base `d`, `o`, `x` or `X`, or with its
//! digits in base 16 from the last on between dots (`n`, `N`), as names below ip6.arpa have them. Data of several fields may stand in quotes, as BIND
//! asks for.

use crate::error::Problem;
use crate::scan::{Field, Scanner};

/// Records that the lines of a zone and its included files make at most.
pub(super) const MAX_GENERATED: u64 = 1 << 22;
/// Characters that a number is filled up to at most: a name has no more.
const MAX_WIDTH: usize = 255;

/// What a line says.
pub(super) struct Generate {
    first: u32,
    last: u32,
    step: u32,
    /// The owner and everything after it, including quotes.
    template: Vec<u8>,
}

impl Generate {
    /// Reads the fields behind the directive, up to the end of the entry.
    pub fn read(scanner: &mut Scanner<'_>) -> Result<Self, Problem> {
        let range = scanner.need("a range of numbers")?;
        let (first, last, step) = read_range(range.raw)
            .ok_or_else(|| Problem::Expected { expected: "a range such as 1-100 or 0-30/2", found: range.show() })?;
        let mut fields = Vec::new();
        while let Some(field) = scanner.field()? {
            fields.push(field);
        }
        // Data of several fields are one in quotes, which are not the data's.
        if let [.., rtype, data] = fields.as_mut_slice()
            && crate::rtype::parse(rtype.raw).is_some()
        {
            data.quoted = false;
        }
        let mut template = Vec::new();
        fields.into_iter().for_each(|field| push(field, &mut template));
        if template.is_empty() { Err(Problem::Ends("an owner name")) } else { Ok(Self { first, last, step, template }) }
    }

    /// How many lines it makes.
    pub fn count(&self) -> u64 {
        u64::from((self.last - self.first) / self.step) + 1
    }

    /// The numbers of its lines.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(self.step as usize)
    }

    /// The line of a number.
    pub fn line(&self, number: u32, line: &mut Vec<u8>) -> Result<(), Problem> {
        line.clear();
        let mut rest = self.template.as_slice();
        while let Some((&octet, behind)) = rest.split_first() {
            rest = behind;
            match (octet, behind.first()) {
                (b'\\', Some(b'$')) => {
                    line.push(b'$');
                    rest = &behind[1..];
                }
                (b'\\', Some(&next)) => {
                    line.extend([b'\\', next]);
                    rest = &behind[1..];
                }
                (b'$', Some(b'{')) => {
                    let end = behind.iter().position(|&octet| octet == b'}').ok_or_else(|| bad(behind))?;
                    let form = Form::read(&behind[1..end]).ok_or_else(|| bad(&behind[..=end]))?;
                    form.write(number, line).ok_or_else(|| bad(&behind[..=end]))?;
                    rest = &behind[end + 1..];
                }
                // As BIND's older form of `\$`.
                (b'$', Some(b'$')) => {
                    line.push(b'$');
                    rest = &behind[1..];
                }
                (b'$', _) => line.extend(number.to_string().into_bytes()),
                _ => line.push(octet),
            }
        }
        Ok(())
    }
}

fn bad(raw: &[u8]) -> Problem {
    Problem::Expected { expected: "${OFFSET,WIDTH,BASE}", found: format!("${}", crate::scan::show(raw)) }
}

fn push(field: Field<'_>, template: &mut Vec<u8>) {
    if !template.is_empty() && field.apart {
        template.push(b' ');
    }
    let quote: &[u8] = if field.quoted { b"\"" } else { b"" };
    template.extend([quote, field.raw, quote].concat());
}

fn read_range(raw: &[u8]) -> Option<(u32, u32, u32)> {
    let text = std::str::from_utf8(raw).ok()?;
    let (range, step) = text.split_once('/').map_or((text, Some(1)), |(range, step)| (range, read_number(step)));
    let (first, last) = range.split_once('-')?;
    let (first, last, step) = (read_number(first)?, read_number(last)?, step?);
    (first <= last && step > 0).then_some((first, last, step))
}

fn read_number(text: &str) -> Option<u32> {
    text.bytes().all(|octet| octet.is_ascii_digit()).then(|| text.parse().ok())?
}

/// How a number is written.
struct Form {
    offset: i64,
    width: usize,
    base: u8,
}

impl Form {
    fn read(raw: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(raw).ok()?.split(',');
        let offset = parts.next()?.parse::<i32>().ok()?.into();
        let width = parts.next().map_or(Some(0), |width| width.parse().ok())?;
        let base = parts.next().unwrap_or("d");
        let is_known = matches!(base, "d" | "o" | "x" | "X" | "n" | "N") && parts.next().is_none();
        (is_known && width <= MAX_WIDTH).then(|| Self { offset, width, base: base.as_bytes()[0] })
    }

    /// `None` for a number below zero.
    fn write(&self, number: u32, line: &mut Vec<u8>) -> Option<()> {
        let value = u64::try_from(i64::from(number) + self.offset).ok()?;
        let width = self.width;
        line.extend(match self.base {
            b'o' => format!("{value:0width$o}").into_bytes(),
            b'x' => format!("{value:0width$x}").into_bytes(),
            b'X' => format!("{value:0width$X}").into_bytes(),
            b'n' => nibbles(&format!("{value:x}"), width),
            b'N' => nibbles(&format!("{value:X}"), width),
            _ => format!("{value:0width$}").into_bytes(),
        });
        Some(())
    }
}

/// Digits in reverse order, separated by dots and padded with zeros to this width.
fn nibbles(digits: &str, width: usize) -> Vec<u8> {
    let filled = digits.bytes().rev().chain(std::iter::repeat(b'0'));
    let count = digits.len().max(width.div_ceil(2));
    let mut text: Vec<u8> = filled.take(count).flat_map(|digit| [digit, b'.']).collect();
    // A width that is even ends in a dot.
    if text.len() > width.max(1) {
        text.pop();
    }
    text
}
