//! The two clocks of a replay: the trace's wall time and the run's own time, both in nanoseconds.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

/// Nanoseconds in a second.
pub const NS_PER_S: i64 = 1_000_000_000;

/// A moment of the recording: nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TraceTime(pub i64);

/// A moment of the run: nanoseconds since its start; negative before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunTime(pub i64);

/// A text that is no time or duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTime {
    /// Not seconds with up to nine decimals.
    #[error("`{0}` is not a time in seconds such as 1475762100.123456789")]
    Seconds(String),
    /// Not a duration with unit.
    #[error("`{0}` is not a duration such as 500ms, 20s, 1.5 (seconds), 2m or 1h")]
    Duration(String),
    /// A number that could be milliseconds or seconds.
    #[error("`{0}` has no unit: write {0}ms or {0}s")]
    Unit(String),
}

impl TraceTime {
    /// From whole seconds and nanoseconds, as captures give them; `None` when out of range (years 1678 to 2262).
    pub fn from_parts(seconds: i64, nanoseconds: i64) -> Option<Self> {
        seconds.checked_mul(NS_PER_S)?.checked_add(nanoseconds).map(Self)
    }

    /// This moment in seconds with nine decimals, as text traces have it.
    pub fn seconds(self) -> impl fmt::Display {
        Seconds(self.0)
    }

    /// Reads seconds with up to nine decimals.
    ///
    /// # Errors
    /// The text when it is not such a number or out of range.
    pub fn from_seconds(text: &str) -> Result<Self, BadTime> {
        parse_seconds(text).map(Self).ok_or_else(|| BadTime::Seconds(text.to_owned()))
    }
}

/// RFC 3339 in UTC with nine decimals.
impl fmt::Display for TraceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(stamp) => write!(f, "{stamp:.9}"),
            Err(_) => write!(f, "{}", self.seconds()),
        }
    }
}

impl Sub for TraceTime {
    type Output = i64;
    fn sub(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<i64> for TraceTime {
    type Output = Self;
    fn add(self, ns: i64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Sub for RunTime {
    type Output = i64;
    fn sub(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<i64> for RunTime {
    type Output = Self;
    fn add(self, ns: i64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// A duration as a user types it: `500ms`, `20s`, `1.5` (seconds), `2m`, `1h`. Fractions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// A span of this many nanoseconds; zero if negative.
    pub fn from_ns(ns: i64) -> Self {
        Self(Duration::from_nanos(ns.max(0) as u64))
    }

    /// Reads a duration where a bare number could be taken for milliseconds or for seconds: only 0 goes without a unit.
    ///
    /// # Errors
    /// The text is no duration, or a number without a unit.
    pub fn with_unit(text: &str) -> Result<Self, BadTime> {
        let span: Self = text.parse()?;
        match text.trim() {
            number if span.0.is_zero() || number.parse::<f64>().is_err() => Ok(span),
            number => Err(BadTime::Unit(number.to_owned())),
        }
    }

    /// The span in nanoseconds.
    pub fn ns(self) -> i64 {
        i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX)
    }
}

impl FromStr for Span {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Self, BadTime> {
        let bad = || BadTime::Duration(text.to_owned());
        let text = text.trim();
        let unit_at = text.find(|c: char| c.is_alphabetic() || c == 'µ').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let seconds: f64 = number.trim().parse().map_err(|_| bad())?;
        let scale = unit_seconds(unit).ok_or_else(bad)?;
        Duration::try_from_secs_f64(seconds * scale).map(Self).map_err(|_| bad())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Whether the word is a unit of durations.
pub fn is_unit(word: &str) -> bool {
    !word.is_empty() && unit_seconds(word).is_some()
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    })
}

crate::serde_as_text!(Span);

struct Seconds(i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:09}", ns / NS_PER_S as u64, ns % NS_PER_S as u64)
    }
}

fn parse_seconds(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let mut nanoseconds = fraction.bytes().fold(0, |sum, b| sum * 10 + i64::from(b - b'0'));
    (fraction.len()..9).for_each(|_| nanoseconds *= 10);
    let ns = whole.parse::<i64>().ok()?.checked_mul(NS_PER_S)?.checked_add(nanoseconds)?;
    Some(if negative { -ns } else { ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_back_exactly() {
        for ns in [0, 1, 999_999_999, 1_475_762_100_123_456_789, -1, -1_500_000_000] {
            let text = TraceTime(ns).seconds().to_string();
            assert_eq!(TraceTime::from_seconds(&text), Ok(TraceTime(ns)), "{text}");
        }
        assert_eq!(TraceTime::from_seconds("12.5"), Ok(TraceTime(12_500_000_000)));
        for bad in ["", ".", "1.0000000001", "1e9", "x", "1.-5", "99999999999999999999"] {
            assert!(TraceTime::from_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rfc_3339_has_nine_decimals() {
        assert_eq!(TraceTime(1_475_762_100_000_000_001).to_string(), "2016-10-06T13:55:00.000000001Z");
    }

    #[test]
    fn spans_take_units_and_fractions() {
        let ns = |text: &str| text.parse::<Span>().map(Span::ns).ok();
        assert_eq!(ns("500ms"), Some(500_000_000));
        assert_eq!(ns("1.5"), Some(1_500_000_000));
        assert_eq!(ns("0.25s"), Some(250_000_000));
        assert_eq!(ns("2m"), Some(120_000_000_000));
        assert_eq!(ns("10us"), Some(10_000));
        assert_eq!(ns("-1s"), None);
        assert_eq!(ns("5 parsecs"), None);
        assert_eq!(ns("ms"), None);
    }

    #[test]
    fn a_blank_before_the_unit_changes_nothing() {
        for (tight, apart) in [("10ms", "10 ms"), ("1.5s", " 1.5  s "), ("2m", "2 min"), ("3", " 3 ")] {
            assert_eq!(tight.parse::<Span>(), apart.parse::<Span>(), "{tight}");
        }
    }

    /// 50 was taken for 50 seconds of round-trip time.
    #[test]
    fn a_number_without_a_unit_is_asked_for_one() {
        let read = |text: &str| Span::with_unit(text).map(Span::ns).map_err(|error| error.to_string());
        assert_eq!(read("50ms"), Ok(50_000_000));
        assert_eq!(read("50 ms"), Ok(50_000_000));
        assert_eq!(read("0"), Ok(0));
        assert_eq!(read("50"), Err("`50` has no unit: write 50ms or 50s".to_owned()));
        assert_eq!(read("0.5"), Err("`0.5` has no unit: write 0.5ms or 0.5s".to_owned()));
        assert!(read("soon").unwrap_err().contains("not a duration"));
    }
}
