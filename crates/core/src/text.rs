//! Text for values: counts in words, and values that files hold as on the command line (serde by `Display` and `FromStr`).

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::Range;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

/// Implements `Serialize` by `Display`, and `Deserialize` by `FromStr` from a string, a number or a boolean.
///
/// The type's crate needs serde.
#[macro_export]
macro_rules! serde_as_text {
    ($($type:ty),* $(,)?) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::deserialize(deserializer)
            }
        }
    )*};
}

/// Where user and password stand in a text with a URL, such as `nats://user:password@host`, in octets: between the scheme and the last `@`, so
/// that of several URLs all are covered, and a password with odd characters, too.
pub fn userinfo(text: &[u8]) -> Option<Range<usize>> {
    between(text, b"://")
}

/// From behind `mark` to the last `@`.
fn between(text: &[u8], mark: &[u8]) -> Option<Range<usize>> {
    let start = text.windows(mark.len()).position(|octets| octets == mark)? + mark.len();
    let end = text.iter().rposition(|&octet| octet == b'@').filter(|&end| end > start)?;
    Some(start..end)
}

/// A text with `***` in the place of user and password ([`userinfo`]).
pub fn without_userinfo(text: &str) -> String {
    without(text, userinfo(text.as_bytes()))
}

/// A message in which no word has user and password of a URL. One that was taken for a path has lost a slash.
pub fn without_secrets(message: &str) -> String {
    let word = |word: &str| {
        let secret = userinfo(word.as_bytes()).or_else(|| between(word.as_bytes(), b":/"));
        without(word, secret)
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn without(text: &str, secret: Option<Range<usize>>) -> String {
    match secret {
        Some(Range { start, end }) => format!("{}***{}", &text[..start], &text[end..]),
        None => text.to_owned(),
    }
}

/// A count with its noun: `1 query`, `7 queries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// How often something happened: `once`, or `7 times`.
pub fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Reads a value from a string, a number or a boolean by the `FromStr` of its type.
///
/// # Errors
/// The error of `FromStr`.
pub fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    deserializer.deserialize_any(Scalar(PhantomData))
}

struct Scalar<T>(PhantomData<T>);

impl<T: FromStr> Visitor<'_> for Scalar<T>
where
    T::Err: Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number, true or false")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        self.visit_str(if value { "true" } else { "false" })
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        value.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::time::Span;
    use crate::{Cidr, Transport};

    #[test]
    fn user_and_password_of_a_url_are_covered() {
        for (text, shown) in [
            ("nats://user:pass@host:4222", "nats://***@host:4222"),
            ("--nats=tls://token@host", "--nats=tls://***@host"),
            ("nats://u:p@one,nats://u:p,@x@two", "nats://***@two"),
            ("nats://host:4222", "nats://host:4222"),
            ("@file", "@file"),
            ("a@b://c", "a@b://c"),
        ] {
            assert_eq!(super::without_userinfo(text), shown);
        }
        let message = "invalid value 'nats://u:p@host', /x/nats:/u:p@host: see https://docs.test/ or ask a@b";
        assert_eq!(super::without_secrets(message), message.replace("u:p", "***"));
    }

    #[test]
    fn one_time_is_once() {
        assert_eq!([0, 1, 2].map(super::times), ["0 times", "once", "2 times"]);
    }

    #[test]
    fn one_is_singular() {
        let queries = [0, 1, 2].map(|count| super::counted(count, "query", "queries"));
        assert_eq!(queries, ["0 queries", "1 query", "2 queries"]);
    }

    #[test]
    fn values_are_written_as_on_the_command_line() {
        let span: Span = serde_json::from_str("1.5").unwrap();
        assert_eq!(serde_json::to_string(&span).unwrap(), r#""1.5s""#);
        let block: Cidr = serde_json::from_str(r#""192.0.2.0/24""#).unwrap();
        assert_eq!(serde_json::to_string(&block).unwrap(), r#""192.0.2.0/24""#);
        assert_eq!(serde_json::from_str::<Transport>(r#""dot""#).unwrap(), Transport::Dot);
        assert!(serde_json::from_str::<Transport>("7").unwrap_err().to_string().contains("unknown transport `7`"));
        assert!(serde_json::from_str::<Span>("[1]").unwrap_err().to_string().contains("a string, a number"));
    }
}
