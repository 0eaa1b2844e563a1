//! Reading an expectation; any text ends in a value or in an error with its column.

use ldplayer_core::nearest;

use super::{Bound, Expectation, Origin, Quantile, Quantity, Relation, Resident};
use crate::rcode;

/// Most nanoseconds or octets that can be expected: up to here every whole number is one of `f64`.
const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;
/// Longest text that is looked at.
const LONGEST: usize = 256;

/// Why a text is no expectation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {what}")]
pub struct ExpectError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong there, and what would be right.
    pub what: String,
}

/// Reads `QUANTITY RELATION BOUND`.
pub fn expectation(text: &str) -> Result<Expectation, ExpectError> {
    if text.len() > LONGEST {
        return Err(ExpectError { column: LONGEST, what: format!("longer than {LONGEST} bytes") });
    }
    let mut text = Cursor { text, at: 0 };
    let quantity = quantity(&mut text)?;
    text.skip_spaces();
    let Some(&(_, relation)) = Relation::NAMED.iter().find(|(sign, _)| text.take(sign)) else {
        return text.fail(format!("expected >=, <=, >, < or = after `{quantity}`"));
    };
    text.skip_spaces();
    let begin = text.at;
    let bound = bound(&mut text)?;
    if let Some(wanted) = unfit(quantity, bound) {
        text.at = begin;
        return text.fail(format!("`{quantity}` is held against {wanted}"));
    }
    text.skip_spaces();
    match text.rest() {
        "" => Ok(Expectation { quantity, relation, bound }),
        // As one line, whatever it is.
        rest => text.fail(format!("`{}` is too much here", rest.escape_debug())),
    }
}

fn quantity(text: &mut Cursor<'_>) -> Result<Quantity, ExpectError> {
    text.skip_spaces();
    let begin = text.at;
    let word = text.word().to_ascii_lowercase();
    let word = if word == "p99.9" { "p999" } else { &word };
    if let Some(&(_, quantile)) = Quantile::NAMED.iter().find(|(name, _)| *name == word) {
        let from = inside(text, &Origin::NAMED, Origin::Sent, "expected sent) or intended)")?;
        return Ok(Quantity::Latency { quantile, from });
    }
    let of_lookup = word.strip_prefix(Quantity::LOOKUP).map(|rest| if rest == "p99.9" { "p999" } else { rest });
    if let Some(&(_, quantile)) = of_lookup.and_then(|word| Quantile::NAMED.iter().find(|(name, _)| *name == word)) {
        return Ok(Quantity::Lookup(quantile));
    }
    if let Some(&(_, quantity)) = Quantity::NAMED.iter().find(|(name, _)| *name == word) {
        return Ok(quantity);
    }
    if word == Quantity::MEMORY {
        let counted = inside(text, &Resident::NAMED, Resident::Rss, "expected rss) or pss)")?;
        return Ok(Quantity::Memory(counted));
    }
    rcode::code(word)
        .map(Quantity::Rcode)
        .ok_or_else(|| ExpectError { column: text.column(begin), what: unknown(word) })
}

fn unknown(word: &str) -> String {
    let known: Vec<String> = words().collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match nearest::meant(word, &known) {
        _ if word.is_empty() => "expected a quantity, as in `answered >= 99 %`".to_owned(),
        Some((near, _)) => format!("`{word}` is no quantity; did you mean `{near}`?"),
        None => format!("`{word}` is no quantity; there are {}, memory, p50 to max, and RCODEs", listed()),
    }
}

/// What stands in parentheses behind a quantity, or `usual` where nothing does.
fn inside<T: Copy>(
    text: &mut Cursor<'_>,
    named: &[(&'static str, T)],
    usual: T,
    wanted: &str,
) -> Result<T, ExpectError> {
    if !text.take("(") {
        return Ok(usual);
    }
    let begin = text.at;
    let word = text.word().to_ascii_lowercase();
    match named.iter().find(|(name, _)| *name == word) {
        Some(&(_, value)) if text.take(")") => Ok(value),
        _ => {
            text.at = begin;
            text.fail(wanted.to_owned())
        }
    }
}

fn bound(text: &mut Cursor<'_>) -> Result<Bound, ExpectError> {
    let begin = text.at;
    let number = text.number()?;
    text.skip_spaces();
    if text.take("%") {
        return Ok(Bound::Percent(number));
    }
    let unit_at = text.at;
    match text.word() {
        "" => Ok(Bound::Number(number)),
        "queries" | "answers" => Ok(Bound::Count(number)),
        "x" => Ok(Bound::Times { factor: number, tolerance: tolerance(text)? }),
        unit => match (nanoseconds(unit), octets(unit)) {
            (Some(length), _) => match (number * length).round() {
                ns if ns <= MOST_WHOLE => Ok(Bound::Time(ns as u64)),
                _ => Err(text.at(begin, "longer than 104 days".to_owned())),
            },
            (None, Some(size)) => match (number * size).round() {
                octets if octets <= MOST_WHOLE => Ok(Bound::Octets(octets as u64)),
                _ => Err(text.at(begin, "more than 9 PB".to_owned())),
            },
            (None, None) => {
                let what = format!("`{unit}` is no unit; use %, queries, ns, us, ms, s, m, h, B, kB, MB, GB or x");
                Err(text.at(unit_at, what))
            }
        },
    }
}

/// `+- 0.1 %`, where it is there.
fn tolerance(text: &mut Cursor<'_>) -> Result<f64, ExpectError> {
    text.skip_spaces();
    if !text.take("+-") && !text.take("±") {
        return Ok(0.0);
    }
    text.skip_spaces();
    let percent = text.number()?;
    text.skip_spaces();
    if text.take("%") { Ok(percent) } else { text.fail("a tolerance is in %".to_owned()) }
}

fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        _ => return None,
    })
}

fn octets(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1_024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    })
}

/// What the quantity can be held against, where the bound is something else.
fn unfit(quantity: Quantity, bound: Bound) -> Option<&'static str> {
    match (quantity, bound) {
        (Quantity::Drift, Bound::Percent(_)) => None,
        (Quantity::Drift, _) => Some("a share of the latency, such as 10 %"),
        (_, Bound::Times { .. }) => None,
        (Quantity::Latency { .. } | Quantity::Lookup(_) | Quantity::Cpu, Bound::Time(_)) => None,
        (Quantity::Memory(_), Bound::Octets(_)) => None,
        (Quantity::Qps | Quantity::Cores | Quantity::Attempts, Bound::Number(_)) => None,
        (Quantity::Latency { .. } | Quantity::Lookup(_), _) => Some("a duration with its unit, such as 20ms"),
        (Quantity::Cpu, _) => Some("processor time for a query, such as 30us"),
        (Quantity::Memory(_), _) => Some("a size with its unit, such as 100 MB"),
        (Quantity::Qps, _) => Some("queries per second, such as 1000"),
        (Quantity::Attempts, _) => Some("attempts for each lookup, such as 1.05"),
        (Quantity::Cores, _) => Some("a number of cores, such as 1.5"),
        (_, Bound::Percent(percent)) if percent > 100.0 => Some("at most 100 %"),
        // Zero needs no unit.
        (_, Bound::Percent(_) | Bound::Count(_) | Bound::Number(0.0)) => None,
        (_, Bound::Number(_) | Bound::Time(_) | Bound::Octets(_)) => {
            Some("a share or a count: write 99 % or 99 queries")
        }
    }
}

fn words() -> impl Iterator<Item = String> {
    let own = Quantity::NAMED.iter().map(|&(name, _)| name).chain([Quantity::MEMORY]);
    let own = own.chain(Quantile::NAMED.iter().map(|&(name, _)| name));
    let of_lookups = Quantile::NAMED.iter().map(|(name, _)| format!("{}{name}", Quantity::LOOKUP));
    own.map(str::to_owned).chain(of_lookups).chain(rcode::names().map(str::to_ascii_lowercase))
}

fn listed() -> String {
    Quantity::NAMED.map(|(name, _)| name).join(", ")
}

/// A place in the text; always on the border of a character.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn word(&mut self) -> &'a str {
        self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '.')
    }

    /// A finite number that is not negative.
    fn number(&mut self) -> Result<f64, ExpectError> {
        let begin = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '.');
        match digits.parse::<f64>().ok().filter(|number| number.is_finite()) {
            Some(number) => Ok(number),
            None => {
                self.at = begin;
                self.fail("expected a number, such as 99 or 0.5".to_owned())
            }
        }
    }

    fn column(&self, at: usize) -> usize {
        self.text[..at].chars().count() + 1
    }

    fn fail<T>(&self, what: String) -> Result<T, ExpectError> {
        Err(self.at(self.at, what))
    }

    fn at(&self, at: usize, what: String) -> ExpectError {
        ExpectError { column: self.column(at), what }
    }
}
