//! Reads user-written TOML: typed values, suggestions for unknown keys, and errors with their line.
//!
//! Used for rules, models, classes, experiments and faults.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::nearest::suggest;
use crate::time::Span;

/// An error in a file of rules, a model, or an experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadSpec {
    /// The line, from 1.
    pub line: usize,
    /// The error, and what to write instead.
    pub what: String,
}

/// A table of the file, and the text that it came from.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    text: &'a str,
    at: usize,
    table: &'a DeTable<'a>,
}

/// A key with its value.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    text: &'a str,
    /// The key.
    pub key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

/// Parses `text` and gives its root table to `read`.
///
/// # Errors
/// The text is not TOML, or `read` fails.
pub fn read<T>(text: &str, read: impl FnOnce(Table<'_>) -> Result<T, BadSpec>) -> Result<T, BadSpec> {
    let parsed = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        BadSpec { line: line_of(text, at), what: error.message().to_owned() }
    })?;
    read(Table { text, at: 0, table: parsed.get_ref() })
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&octet| octet == b'\n').count()
}

impl<'a> Table<'a> {
    /// All entries, whose keys must be among `known`.
    ///
    /// # Errors
    /// An unknown key.
    pub fn items(&self, known: &[&str]) -> Result<Vec<Item<'a>>, BadSpec> {
        let items = self.table.iter().map(|(key, value)| {
            if !known.contains(&key.get_ref().as_ref()) {
                let what = format!("unknown key `{}`{}", key.get_ref(), suggest(key.get_ref(), known));
                return Err(BadSpec { line: line_of(self.text, key.span().start), what });
            }
            Ok(Item { text: self.text, key: key.get_ref(), value })
        });
        items.collect()
    }

    /// The value of a key, if present.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let (key, value) = self.table.iter().find(|(found, _)| found.get_ref() == key)?;
        Some(Item { text: self.text, key: key.get_ref(), value })
    }

    /// An error of the table as a whole.
    pub fn bad(&self, what: impl Into<String>) -> BadSpec {
        BadSpec { line: line_of(self.text, self.at), what: what.into() }
    }

    /// A hash of keys and values, independent of their order and of formatting.
    pub fn canonical(&self) -> String {
        let mut pairs: Vec<String> =
            self.table.iter().map(|(key, value)| format!("{}={}\n", key.get_ref(), &self.text[value.span()])).collect();
        pairs.sort_unstable();
        pairs.concat()
    }
}

impl<'a> Item<'a> {
    /// The offset of its value in the text, in octets, by which entries can be sorted in the order of the file.
    pub fn at(&self) -> usize {
        self.value.span().start
    }

    /// The line of its value, from 1.
    pub fn line(&self) -> usize {
        line_of(self.text, self.at())
    }

    /// The value as it is, whatever its type.
    ///
    /// # Errors
    /// The value is out of range.
    pub fn value(&self) -> Result<toml::Value, BadSpec> {
        let value = toml::de::ValueDeserializer::from(self.value.clone());
        toml::Value::deserialize(value).map_err(|error| self.bad(error.message()))
    }

    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Array(_))
    }

    /// Whether it is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Table(_))
    }

    /// An error of this value.
    pub fn bad(&self, what: impl std::fmt::Display) -> BadSpec {
        BadSpec { line: line_of(self.text, self.value.span().start), what: format!("`{}`: {what}", self.key) }
    }

    /// An error for a value of the wrong type.
    fn not(&self, wanted: &str) -> BadSpec {
        self.bad(format!("{} is not {wanted}", &self.text[self.value.span()]))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// It is something else.
    pub fn truth(&self) -> Result<bool, BadSpec> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.not("true or false")),
        }
    }

    /// Whether it is `true` or `false`.
    pub fn is_truth(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Boolean(_))
    }

    /// A text in quotes.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self) -> Result<&'a str, BadSpec> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.not("a string in quotes")),
        }
    }

    /// A string or a number, as written.
    ///
    /// # Errors
    /// It is something else.
    pub fn word(&self) -> Result<String, BadSpec> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.as_str().to_owned()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            _ => Err(self.not("a string or a number")),
        }
    }

    /// A string or a number, parsed by `parse`.
    ///
    /// # Errors
    /// It is something else, or `parse` refuses it.
    pub fn parsed<T, E: std::fmt::Display>(&self, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, BadSpec> {
        parse(&self.word()?).map_err(|error| self.bad(error))
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// It is something else.
    pub fn integer(&self, range: std::ops::RangeInclusive<u64>) -> Result<u64, BadSpec> {
        let number = match self.value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let (first, last) = (range.start(), range.end());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.not(&format!("a whole number from {first} to {last}")))
    }

    /// A number above 0.
    ///
    /// # Errors
    /// It is something else.
    pub fn positive(&self) -> Result<f64, BadSpec> {
        let number: Option<f64> = match self.value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        number.filter(|&number| number > 0.0 && number.is_finite()).ok_or_else(|| self.not("a number above 0"))
    }

    /// A duration in nanoseconds.
    ///
    /// # Errors
    /// It is something else.
    pub fn span(&self) -> Result<i64, BadSpec> {
        self.parsed(|word| word.parse::<Span>().map(Span::ns))
    }

    /// A duration in nanoseconds that may be negative.
    ///
    /// # Errors
    /// It is something else.
    pub fn signed_span(&self) -> Result<i64, BadSpec> {
        self.parsed(|word| match word.strip_prefix('-') {
            Some(rest) => rest.parse::<Span>().map(|span| -span.ns()),
            None => word.strip_prefix('+').unwrap_or(word).parse::<Span>().map(Span::ns),
        })
    }

    /// The values of a list, each with the list's key.
    ///
    /// # Errors
    /// It is something else.
    pub fn list(&self) -> Result<Vec<Item<'a>>, BadSpec> {
        match self.value.get_ref() {
            DeValue::Array(values) => {
                Ok(values.iter().map(|value| Item { text: self.text, key: self.key, value }).collect())
            }
            _ => Err(self.not("a list in brackets")),
        }
    }

    /// A table.
    ///
    /// # Errors
    /// It is something else.
    pub fn table(&self) -> Result<Table<'a>, BadSpec> {
        match self.value.get_ref() {
            DeValue::Table(table) => Ok(Table { text: self.text, at: self.value.span().start, table }),
            _ => Err(self.not("a table")),
        }
    }

    /// A table with arbitrary keys.
    ///
    /// # Errors
    /// It is something else.
    pub fn entries(&self) -> Result<Vec<Item<'a>>, BadSpec> {
        let Table { text, table, .. } = self.table()?;
        Ok(table.iter().map(|(key, value)| Item { text, key: key.get_ref(), value }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let all = |table: Table<'_>| {
            for item in table.items(&["share", "count", "on", "wait"])? {
                match item.key {
                    "share" => drop(item.positive()?),
                    "count" => drop(item.integer(1..=10)?),
                    "wait" => drop(item.signed_span()?),
                    _ => drop(item.truth()?),
                }
            }
            Ok(())
        };
        read(text, all).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_line_key_and_remedy() {
        assert_eq!(refusal("share = 1\nshrae = 2"), "line 2: unknown key `shrae`: did you mean `share`?");
        assert_eq!(refusal("\non = 'yes'"), "line 2: `on`: 'yes' is not true or false");
        assert_eq!(refusal("count = 11"), "line 1: `count`: 11 is not a whole number from 1 to 10");
        assert_eq!(refusal("share = -0.5"), "line 1: `share`: -0.5 is not a number above 0");
        assert!(refusal("wait = 'soon'").contains("500ms"));
        assert!(refusal("on = true\non = false").starts_with("line 2: "));
        assert!(refusal("on =").starts_with("line 1: "));
    }

    #[test]
    fn durations_may_be_negative() {
        let wait = |text: &str| read(text, |table| table.get("wait").map(|item| item.signed_span()).transpose());
        assert_eq!(wait("wait = '-1.5s'"), Ok(Some(-1_500_000_000)));
        assert_eq!(wait("wait = 2"), Ok(Some(2_000_000_000)));
        assert_eq!(wait(""), Ok(None));
    }
}
