//! Signatures that are expired or not yet valid at a time.

use jiff::Timestamp;
use ldplayer_core::name::Presentation;

use crate::finding::{Finding, Oddity};
use crate::records::{Record, Records};
use crate::rtype;

/// Looks for signatures that are expired or not yet valid at a time, in seconds since 1970: they can be served, but validating
/// resolvers reject them. Times are compared modulo 2^32 (RFC 4034 §3.1.5).
pub fn signatures(records: &Records, now: u32) -> Option<Finding> {
    let all = records.iter().filter_map(|record| Some((record, Span::of(&record)?)));
    let (mut total, mut count, mut first) = (0, 0, None);
    for (record, span) in all {
        total += 1;
        if !span.holds(now) {
            count += 1;
            first.get_or_insert((record, span));
        }
    }
    let (record, span) = first?;
    let time = |seconds: u32| {
        Timestamp::from_second(seconds.into()).map_or_else(|_| seconds.to_string(), |time| time.to_string())
    };
    let oddity = Oddity::SignatureTime {
        count,
        total,
        rtype: rtype::name_of(span.covered),
        owner: Presentation(record.owner).to_string(),
        from: time(span.from),
        to: time(span.to),
    };
    Some(Finding { file: records.file(record.place.0).to_owned(), line: record.place.1, oddity })
}

/// When a signature is valid.
struct Span {
    covered: u16,
    from: u32,
    to: u32,
}

impl Span {
    fn of(record: &Record<'_>) -> Option<Self> {
        let data = record.data.first_chunk::<16>().filter(|_| record.rtype == rtype::RRSIG)?;
        let word = |at: usize| u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
        Some(Self { covered: u16::from_be_bytes([data[0], data[1]]), from: word(12), to: word(8) })
    }

    fn holds(&self, now: u32) -> bool {
        let is_after = |a: u32, b: u32| a.wrapping_sub(b) as i32 >= 0;
        is_after(now, self.from) && is_after(self.to, now)
    }
}
