//! The values of policy keys: how each kind is written, read, bounded and described.

use std::fmt;
use std::str::FromStr;

use super::{MAX_PADDING, QUERY_BLOCK};
use crate::client::{self, BadClient, ClientModel};
use crate::time::Span;

/// What a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A duration of at least this many nanoseconds.
    Span {
        /// The least.
        least: i64,
    },
    /// A whole number in a range; `u32::MAX` as the most is no limit, and is written `unlimited`.
    Count {
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// `on` or `off`.
    Switch,
    /// `1.2` or `1.3`.
    TlsVersion,
    /// `on`, `off` or octets.
    Padding,
    /// A model of clients.
    Client,
}

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nanoseconds.
    Span(i64),
    /// A count; `u32::MAX` is no limit.
    Count(u32),
    /// On or off.
    Switch(bool),
    /// A version of TLS.
    TlsVersion(TlsVersion),
    /// Block size in octets; 0 for none.
    Padding(u16),
    /// A model of clients.
    Client(ClientModel),
}

/// A text that is no value of its key: what may be written instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct BadValue {
    /// What was given.
    pub text: String,
    /// What is allowed.
    pub wanted: String,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    #[default]
    Tls13,
}

impl TlsVersion {
    /// How it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}

impl FromStr for TlsVersion {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let found = [Self::Tls12, Self::Tls13].into_iter().find(|version| version.as_str() == text);
        found.ok_or_else(|| ValueKind::TlsVersion.refuse(text))
    }
}

impl ValueKind {
    /// Reads a value.
    ///
    /// # Errors
    /// What is allowed, where the text is something else or out of range.
    pub fn parse(self, text: &str) -> Result<Value, BadValue> {
        let value = match self {
            Self::Span { least } => text.parse().ok().map(Span::ns).filter(|&ns| ns >= least).map(Value::Span),
            Self::Count { most: u32::MAX, .. } if text == UNLIMITED => Some(Value::Count(u32::MAX)),
            Self::Count { least, most } => {
                text.parse().ok().filter(|count| (least..=most).contains(count)).map(Value::Count)
            }
            Self::Switch => switch(text).map(Value::Switch),
            Self::TlsVersion => return text.parse().map(Value::TlsVersion),
            Self::Padding => padding(text).map(Value::Padding),
            Self::Client => {
                let refused =
                    |error: BadClient| BadValue { text: text.to_owned(), wanted: format!("a client: {error}") };
                return text.parse().map(Value::Client).map_err(refused);
            }
        };
        value.ok_or_else(|| self.refuse(text))
    }

    /// The nearest value that is allowed.
    pub(super) fn clamp(self, value: Value) -> Value {
        match (self, value) {
            (Self::Span { least }, Value::Span(ns)) => Value::Span(ns.max(least)),
            (Self::Count { least, most }, Value::Count(count)) => Value::Count(count.clamp(least, most)),
            (Self::Padding, Value::Padding(octets)) => Value::Padding(octets.min(MAX_PADDING)),
            _ => value,
        }
    }

    /// What stands for the value in a line of usage.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Span { .. } => "DURATION",
            Self::Count { .. } => "N",
            Self::Switch => "on|off",
            Self::TlsVersion => "1.2|1.3",
            Self::Padding => "on|off|N",
            Self::Client => "MODEL",
        }
    }

    fn refuse(self, text: &str) -> BadValue {
        BadValue { text: text.to_owned(), wanted: self.to_string() }
    }
}

/// No limit, as counts are written.
const UNLIMITED: &str = "unlimited";

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

fn padding(text: &str) -> Option<u16> {
    match switch(text) {
        Some(true) => Some(QUERY_BLOCK),
        Some(false) => Some(0),
        None => text.parse().ok().filter(|&octets| octets <= MAX_PADDING),
    }
}

/// What is allowed, as the end of "is not …".
impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span { least: 0 } => f.write_str("a duration such as 500ms, 20s or 1.5 (seconds)"),
            Self::Span { .. } => f.write_str("a duration above 0 such as 500ms, 20s or 1.5 (seconds)"),
            Self::Count { least, most: u32::MAX } => write!(f, "a whole number of at least {least}, or {UNLIMITED}"),
            Self::Count { least, most } => write!(f, "a whole number from {least} to {most}"),
            Self::Switch => f.write_str("on or off"),
            Self::TlsVersion => f.write_str("a TLS version: use 1.2 or 1.3"),
            Self::Padding => write!(f, "on, off or a whole number from 0 to {MAX_PADDING}"),
            Self::Client => write!(f, "a client: use {}", client::known()),
        }
    }
}

/// As it is read back.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(ns) => Span::from_ns(*ns).fmt(f),
            Self::Count(u32::MAX) => f.write_str(UNLIMITED),
            Self::Count(count) => count.fmt(f),
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::TlsVersion(version) => f.write_str(version.as_str()),
            Self::Padding(0) => f.write_str("off"),
            Self::Padding(octets) => octets.fmt(f),
            Self::Client(model) => model.fmt(f),
        }
    }
}

/// Conversions between the type of a field and its value.
macro_rules! field {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
        impl TryFrom<Value> for $type {
            type Error = ();

            fn try_from(value: Value) -> Result<Self, ()> {
                match value {
                    Value::$variant(value) => Ok(value),
                    _ => Err(()),
                }
            }
        }
    )*};
}

field!(i64 => Span, u32 => Count, bool => Switch, TlsVersion => TlsVersion, u16 => Padding, ClientModel => Client);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_say_what_is_allowed() {
        let said = |kind: ValueKind, text: &str| kind.parse(text).unwrap_err().to_string();
        assert_eq!(said(ValueKind::Count { least: 1, most: 9 }, "0"), "`0` is not a whole number from 1 to 9");
        assert_eq!(said(ValueKind::Padding, "4097"), "`4097` is not on, off or a whole number from 0 to 4096");
        assert_eq!(said(ValueKind::TlsVersion, "1.1"), "`1.1` is not a TLS version: use 1.2 or 1.3");
        assert!(said(ValueKind::Span { least: 1 }, "0").contains("above 0"));
        assert!(said(ValueKind::Switch, "yes").contains("on or off"));
    }

    #[test]
    fn switches_and_padding_take_the_words_of_files_and_options() {
        assert_eq!(
            ["on", "true", "off"].map(|text| ValueKind::Switch.parse(text)),
            [true, true, false].map(|on| Ok(Value::Switch(on)))
        );
        assert_eq!(["on", "off", "0", "468"].map(padding), [Some(128), Some(0), Some(0), Some(468)]);
        assert_eq!(ValueKind::Count { least: 1, most: u32::MAX }.parse("unlimited"), Ok(Value::Count(u32::MAX)));
    }
}
