//! Moments as options give them: a date, the 14 digits of zone files, or a distance from now.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use ldplayer_core::time::Span;

const SECONDS_A_DAY: i64 = 86_400;

/// A moment, perhaps seen from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Seconds since 1970.
    At(i64),
    /// Seconds from now, negative before it.
    FromNow(i64),
}

impl When {
    /// Seconds since 1970, modulo 2^32 as RRSIG records have them.
    pub fn seconds(self, now: i64) -> u32 {
        let seconds = match self {
            Self::At(seconds) => seconds,
            Self::FromNow(distance) => now + distance,
        };
        seconds as u32
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = match text.as_bytes().first() {
            Some(b'+') => distance(&text[1..]).map(Self::FromNow),
            Some(b'-') => distance(&text[1..]).map(|seconds| Self::FromNow(-seconds)),
            _ => moment(text).map(Self::At),
        };
        found.ok_or_else(|| {
            "expected a time such as 2026-01-31, 2026-01-31T12:00:00Z, 20260131120000, or one from now such as +30d, -1h"
                .to_owned()
        })
    }
}

fn distance(text: &str) -> Option<i64> {
    match text.strip_suffix('d') {
        Some(days) => days.parse::<u32>().ok().map(|days| i64::from(days) * SECONDS_A_DAY),
        None => text.parse::<Span>().ok().and_then(|span| i64::try_from(span.0.as_secs()).ok()),
    }
}

fn moment(text: &str) -> Option<i64> {
    let is_digits = text.bytes().all(|octet| octet.is_ascii_digit());
    let civil = match text.len() {
        14 if is_digits => DateTime::strptime("%Y%m%d%H%M%S", text).ok(),
        10 => text.parse::<Date>().ok().map(|date| date.at(0, 0, 0, 0)),
        _ => None,
    };
    let stamp = civil.and_then(|civil| civil.to_zoned(TimeZone::UTC).ok()).map(|zoned| zoned.timestamp());
    stamp.or_else(|| text.parse::<Timestamp>().ok()).map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_or_distances_from_now() {
        for (text, seconds) in [
            ("2020-01-01", 1_577_836_800),
            ("2020-01-01T01:00:00Z", 1_577_840_400),
            ("20200101010000", 1_577_840_400),
            ("+30d", 1_000 + 30 * 86_400),
            ("-1h", 1_000 - 3_600),
            ("+90", 1_090),
        ] {
            let when: When = text.parse().unwrap();
            assert_eq!(when.seconds(1_000), seconds as u32, "{text}");
        }
        for text in ["", "+", "-x", "2020", "2020-13-01", "20201301000000", "tomorrow", "+1.5d"] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }
}
