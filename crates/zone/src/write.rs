//! Writes records as a zone file that reads back unchanged (RFC 1035 §5.1, RFC 3597 §5).

use std::fmt::{self, Write as _};
use std::io;

use domain::base::iana::Rtype;
use domain::base::name::ParsedName;
use domain::base::rdata::ParseAnyRecordData;
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::dep::octseq::Parser;
use domain::rdata::{AllRecordData, Rrsig};
use ldplayer_core::name::Presentation;

use crate::rdata;
use crate::records::{Record, Records};
use crate::rtype;
use crate::scan::Scanner;

/// Writes a zone: `$ORIGIN` first, so that whoever reads the file alone knows which zone it is; then its records in their order, one a line, names
/// absolute.
///
/// # Errors
/// What the system says of `out`.
pub fn zone(apex: &[u8], records: &Records, out: &mut impl io::Write) -> io::Result<()> {
    zone_with_notes(apex, &[], records, out)
}

/// The same with notes about the zone, a comment each.
///
/// # Errors
/// What the system says of `out`.
pub fn zone_with_notes(apex: &[u8], notes: &[String], records: &Records, out: &mut impl io::Write) -> io::Result<()> {
    let mut line = Line::default();
    writeln!(out, "$ORIGIN {}", Presentation(apex))?;
    notes.iter().try_for_each(|note| writeln!(out, "; {}", note.escape_debug()))?;
    records.iter().try_for_each(|record| out.write_all(line.of(&record).as_bytes()))
}

/// The data of a record as a zone file has it.
pub fn data(owner: &[u8], rtype: u16, data: &[u8]) -> String {
    let mut line = Line::default();
    let text = line.of(&Record { owner, rtype, ttl: 0, data, place: (0, 0) });
    // Names have their blanks escaped: before the data are owner, TTL and type.
    text.trim_end().splitn(4, ' ').nth(3).unwrap_or_default().to_owned()
}

/// Writes records as lines of a zone file, with buffers that are used again.
#[derive(Debug, Default)]
pub struct Line {
    text: String,
    data: Vec<u8>,
}

impl Line {
    /// The record as a line, its end included. Data are in the form that people read; in generic form (RFC 3597 §5) where
    /// there is none, or where what the library writes would not be read as the same data.
    pub fn of(&mut self, record: &Record<'_>) -> &str {
        self.text.clear();
        let (owner, rtype) = (Presentation(record.owner), rtype::name_of(record.rtype));
        // Writing to a string cannot fail, and what a Display refuses is taken back below.
        let _ = write!(self.text, "{owner}");
        escape(&mut self.text, 0);
        let _ = write!(self.text, " {} {rtype} ", record.ttl);
        let start = self.text.len();
        if presented(record, &mut self.text).is_err() || !self.is_read_back(record, start) {
            self.text.clear();
            let _ = write!(self.text, "{record}");
        }
        self.text.push('\n');
        &self.text
    }

    fn is_read_back(&mut self, record: &Record<'_>, start: usize) -> bool {
        let text = &self.text.as_bytes()[start..];
        let mut scanner = Scanner::new(text);
        self.data.clear();
        // Servers need not read other octets (RFC 1035 §5.1), which the library writes in some types.
        text.iter().all(|octet| matches!(octet, b' '..=b'~'))
            && scanner.next_entry().is_some()
            && rdata::parse(record.rtype, &mut scanner, None, &mut self.data).is_ok()
            && self.data == record.data
            && scanner.next_entry().is_none()
    }
}

fn presented(record: &Record<'_>, text: &mut String) -> fmt::Result {
    let mut parser = Parser::from_ref(record.data);
    let data = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(Rtype::from_int(record.rtype), &mut parser);
    let data = data.map_err(|_| fmt::Error)?;
    if let AllRecordData::Rrsig(signature) = &data {
        return presented_signature(signature, text);
    }
    let start = text.len();
    write!(text, "{}", data.display_zonefile(DisplayKind::Simple))?;
    if OF_NAMES.contains(&record.rtype) {
        escape(text, start);
    }
    Ok(())
}

/// Types whose data are names, numbers and types: NS, CNAME, SOA, MB, MG, MR, PTR, MINFO, MX, RP, AFSDB, RT, PX, SRV, KX, DNAME, NSEC.
const OF_NAMES: [u16; 17] = [2, 5, 6, 7, 8, 9, 12, 14, 15, 17, 18, 21, 26, 33, 36, 39, 47];

/// Escapes what Knot DNS does not read in names as it is: anything printable but letters, digits and `-_*/`.
fn escape(text: &mut String, start: usize) {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b" .\\-_*/".contains(&octet);
    if text.bytes().skip(start).all(is_plain) {
        return;
    }
    let mut is_escaped = false;
    for character in text.split_off(start).chars() {
        if !is_escaped && !u8::try_from(character).is_ok_and(is_plain) {
            text.push('\\');
        }
        is_escaped = character == '\\' && !is_escaped;
        text.push(character);
    }
}

/// Which field of a signature is the name of its signer.
const SIGNER: usize = 7;

/// A signature with its times as dates (RFC 4034 §3.2): NSD reads no seconds, which the library writes.
fn presented_signature(signature: &Rrsig<&[u8], ParsedName<&[u8]>>, text: &mut String) -> fmt::Result {
    let shown = signature.display_zonefile(DisplayKind::Simple).to_string();
    for (place, field) in shown.split(' ').enumerate() {
        let blank = if place == 0 { "" } else { " " };
        match (place, field.parse()) {
            (4 | 5, Ok(seconds)) => write!(text, "{blank}{}", date(seconds)?)?,
            (SIGNER, _) => {
                let start = text.len() + blank.len();
                write!(text, "{blank}{field}")?;
                escape(text, start);
            }
            _ => write!(text, "{blank}{field}")?,
        }
    }
    Ok(())
}

/// Seconds since 1970 as YYYYMMDDHHmmSS.
fn date(seconds: u32) -> Result<impl fmt::Display, fmt::Error> {
    let time = jiff::Timestamp::from_second(seconds.into()).map_err(|_| fmt::Error)?;
    Ok(time.strftime("%Y%m%d%H%M%S").to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::load;

    fn read(text: &str) -> Records {
        load::text_of(text.as_bytes(), Path::new("z"), None, &mut |_| unreachable!()).unwrap()
    }

    fn lines(records: &Records) -> String {
        let mut text = Vec::new();
        zone(b"\x07example\0", records, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.strip_prefix("$ORIGIN example.\n").unwrap().to_owned()
    }

    fn plain(records: &Records) -> Vec<(Vec<u8>, u16, u32, Vec<u8>)> {
        records.iter().map(|one| (one.owner.to_vec(), one.rtype, one.ttl, one.data.to_vec())).collect()
    }

    /// Knot DNS refused a zone with the mailbox `ms[b`.
    #[test]
    fn odd_characters_of_names_are_escaped_and_read_back() {
        for (line, written) in [
            ("a[b.example. 60 NS c+d.example.\n", "a\\[b.example. 60 NS c\\+d.example.\n"),
            ("x\\;y\\\\.example. 60 MX 5 ms[b.example.\n", "x\\;y\\\\.example. 60 MX 5 ms\\[b.example.\n"),
            ("a.example. 60 TXT \"[1+2]\"\n", "a.example. 60 TXT \"[1+2]\"\n"),
            ("*.a/b.example. 60 CNAME _c.example.\n", "*.a/b.example. 60 CNAME _c.example.\n"),
        ] {
            assert_eq!(lines(&read(line)), written);
            assert_eq!(plain(&read(written)), plain(&read(line)));
        }
    }

    #[test]
    fn lines_are_what_people_read() {
        for line in [
            ". 86400 SOA a.root-servers.net. nstld.verisign-grs.com. 2016100801 1800 900 604800 86400\n",
            "a\\.b.example. 60 A 192.0.2.1\n",
            "example. 60 AAAA 2001:db8::1\n",
            "example. 60 MX 10 mail.example.\n",
            "example. 60 RRSIG A 13 1 60 20300101000000 20200101000000 1 example. AAAA\n",
            "example. 60 NSEC a.example. NS SOA RRSIG NSEC DNSKEY\n",
        ] {
            assert_eq!(lines(&read(line)), line);
        }
    }

    #[test]
    fn zone_files_begin_with_their_origin() {
        let (records, mut text) = (read("a\\;b. 60 SOA a. b. 1 2 3 4 5\n"), Vec::new());
        let notes = ["made: this\nx A 192.0.2.1".to_owned()];
        zone_with_notes(b"\x03a;b\0", &notes, &records, &mut text).unwrap();
        let wanted = "$ORIGIN a\\;b.\n; made: this\\nx A 192.0.2.1\na\\;b. 60 SOA a. b. 1 2 3 4 5\n";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
        assert_eq!(plain(&read(wanted)), plain(&records));
    }

    #[test]
    fn data_that_the_library_cannot_write_is_generic() {
        let text = "example. 60 TYPE65280 \\# 2 0102\n";
        assert_eq!(plain(&read(&lines(&read(text)))), plain(&read(text)));
    }

    proptest! {
        #[test]
        fn whatever_is_written_reads_back(rtype in 1u16..300, data in proptest::collection::vec(any::<u8>(), 0..40), label in "[ -~]{1,20}") {
            let mut records = Records::default();
            let owner = [&[label.len() as u8], label.as_bytes(), &[0]].concat();
            let is_record = !matches!(rtype, rtype::OPT | 128..=255);
            if is_record && records.push(&owner, rtype, 60, &data).is_ok() {
                let text = lines(&records);
                prop_assert_eq!(plain(&read(&text)), plain(&records), "{}", text);
            }
        }
    }
}
