//! Checks that the signatures of a zone are valid now; signatures of a recorded zone have usually expired.

use jiff::Timestamp;
use ldplayer_core::name::Presentation;

use crate::finding::{Finding, Oddity};
use crate::records::{Record, Records};
use crate::rtype;

/// The type covered and validity of a signature (RFC 4034 §3.1), the latter in seconds since 1970.
struct Validity {
    covered: u16,
    from: i64,
    to: i64,
}

/// Reports signatures that are expired or not yet valid at `now` (seconds since 1970), if any.
pub fn signatures(records: &Records, now: i64) -> Option<Finding> {
    let all = || records.iter().filter_map(|record| Some((record, Validity::read(&record, now)?)));
    let outside = || all().filter(|(_, validity)| !(validity.from..=validity.to).contains(&now));
    let (first, validity) = outside().next()?;
    let oddity = Oddity::SignatureTime {
        count: outside().count(),
        total: all().count(),
        rtype: rtype::name_of(validity.covered),
        owner: Presentation(first.owner).to_string(),
        from: shown(validity.from),
        to: shown(validity.to),
    };
    Some(Finding { file: records.file(first.place.0).to_owned(), line: first.place.1, oddity })
}

impl Validity {
    fn read(record: &Record<'_>, now: i64) -> Option<Self> {
        let number = |at: usize| record.data.get(at..at + 4)?.first_chunk().map(|&octets| u32::from_be_bytes(octets));
        // A 32-bit time is the one closest to now (RFC 4034 §3.1.5, RFC 1982).
        let time = |at: usize| Some(now + i64::from(number(at)?.wrapping_sub(now as u32).cast_signed()));
        let covered = u16::from_be_bytes(*record.data.first_chunk()?);
        (record.rtype == rtype::RRSIG).then_some(())?;
        Some(Self { covered, from: time(12)?, to: time(8)? })
    }
}

fn shown(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const ZONE: &str = "$TTL 1\n@ RRSIG SOA 13 1 60 20160101000000 20150101000000 1 example. AAAA\n\
        www RRSIG A 13 2 60 20160201000000 20150101000000 1 example. AAAA\n";

    fn found(now: &str) -> Option<String> {
        let mut none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
        let origin = Some(&b"\x07example\0"[..]);
        let records = crate::load::text_of(ZONE.as_bytes(), Path::new("zone"), origin, &mut none).unwrap();
        let now = now.parse::<Timestamp>().unwrap().as_second();
        signatures(&records, now).map(|finding| finding.to_string())
    }

    #[test]
    fn signatures_outside_of_their_time_are_counted_and_one_is_shown() {
        assert_eq!(found("2015-06-01T00:00:00Z"), None);
        assert_eq!(found("2016-01-01T00:00:00Z"), None);
        let some = found("2016-01-15T00:00:00Z").unwrap();
        assert!(
            some.starts_with("zone:2: signatures expired or not yet valid: 1 of 2, such as that of SOA at `example.`"),
            "{some}"
        );
        assert!(some.contains("from 2015-01-01T00:00:00Z to 2016-01-01T00:00:00Z"), "{some}");
        let early = found("2014-01-01T00:00:00Z").unwrap();
        assert!(early.contains("expired or not yet valid: 2 of 2"), "{early}");
    }
}
