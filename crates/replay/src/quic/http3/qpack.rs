//! QPACK without a dynamic table (RFC 9204): reads fields of responses, writes fields of requests.

use super::{Fault, code};
use crate::connections::http2::huffman::Text;
use crate::doh::integer::{append_integer, take_integer};
use crate::doh::{Block, BlockReader, Meaning};

/// Entries of the static table (RFC 9204, Appendix A).
const ENTRIES: usize = 99;
/// Those that are statuses, with their values.
const STATUSES: [(usize, u16); 14] = [
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];
/// The entry of `content-length`, whose value is 0.
const LENGTH: usize = 4;
/// Static-table entries of `content-type`; the first is `application/dns-message`.
const TYPES: std::ops::RangeInclusive<usize> = 44..=54;
/// Those of the pseudo-headers of requests.
const OF_REQUESTS: [std::ops::RangeInclusive<usize>; 2] = [0..=1, 15..=23];

const FAILED: Fault = Fault::Connection(code::DECOMPRESSION_FAILED);

/// What a field section is.
///
/// # Errors
/// When it cannot be read.
pub fn read(mut octets: &[u8]) -> Result<Block, Fault> {
    // No entry of a dynamic table is needed, so that the base means nothing (§4.5.1).
    if take_integer(&mut octets, 8).ok_or(FAILED)? != 0 || take_integer(&mut octets, 7).is_none() {
        return Err(FAILED);
    }
    let mut reader = BlockReader::default();
    while !octets.is_empty() {
        reader.take(take_line(&mut octets).ok_or(FAILED)?);
    }
    Ok(reader.end())
}

/// Takes a field line.
fn take_line(octets: &mut &[u8]) -> Option<Meaning> {
    let first = *octets.first()?;
    match first {
        0x80.. => take_entry(octets, first & 0x40 != 0, 6).map(meaning_of),
        0x40.. => {
            let named = take_entry(octets, first & 0x10 != 0, 4).map(meaning_of)?;
            Some(named.with(take_text(octets, 7)?.bytes()))
        }
        0x20.. => {
            let name = take_text(octets, 3)?;
            Some(Meaning::of(name.bytes(), take_text(octets, 7)?.bytes()))
        }
        // References to entries behind the base, which are dynamic.
        _ => None,
    }
}

/// What an entry of the static table means.
fn meaning_of(entry: usize) -> Meaning {
    if let Some((_, status)) = STATUSES.iter().find(|(place, _)| *place == entry) {
        return Meaning::Status(*status);
    }
    match entry {
        LENGTH => Meaning::Length(Some(0)),
        entry if TYPES.contains(&entry) => Meaning::IsMessage(entry == *TYPES.start()),
        entry if OF_REQUESTS.iter().any(|entries| entries.contains(&entry)) => Meaning::Malformed,
        _ => Meaning::Plain,
    }
}

fn take_entry(octets: &mut &[u8], is_static: bool, bits: u32) -> Option<usize> {
    take_integer(octets, bits).map(|entry| entry as usize).filter(|&entry| is_static && entry < ENTRIES)
}

/// Reads a string whose length is in the last `bits` of an octet, with the mark of the Huffman code before them (§4.1.2).
fn take_text<'a>(octets: &mut &'a [u8], bits: u32) -> Option<Text<'a>> {
    let is_coded = octets.first()? & (1 << bits) != 0;
    let length = take_integer(octets, bits)? as usize;
    let (text, rest) = octets.split_at_checked(length)?;
    *octets = rest;
    Text::new(text, is_coded)
}

/// Appends a whole entry of the static table.
pub fn append_entry(out: &mut Vec<u8>, entry: usize) {
    append_integer(out, 0xc0, 6, entry);
}

/// Appends the name of an entry of the static table, and the length of a value that follows.
pub fn append_name(out: &mut Vec<u8>, entry: usize, length: usize) {
    append_integer(out, 0x50, 4, entry);
    append_integer(out, 0, 7, length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn status(section: &[u8]) -> Option<u16> {
        match read(section).unwrap() {
            Block::Response(head) => Some(head.status),
            Block::Trailers | Block::Malformed => None,
        }
    }

    #[test]
    fn a_status_is_read_in_every_form() {
        for (section, expected) in [
            (&[0, 0, 0xc0 | 25][..], Some(200)),
            (&[0, 0, 0xff, 1], Some(204)),
            // The name of an entry beyond four bits, and a plain value.
            (&[0, 0, 0x5f, 9, 3, b'4', b'2', b'9'], Some(429)),
            (&[0, 0, 0x27, 0, b':', b's', b't', b'a', b't', b'u', b's', 3, b'2', b'0', b'0'], Some(200)),
            // Other fields behind.
            (&[0, 0, 0xc0 | 25, 0xc0 | 44, 0x52, 1, b'/', 0x21, b'x', 0], Some(200)),
            (&[0, 0, 0xc0 | 44, 0xc0 | 25], None),
            (&[0, 0, 0x50 | 9, 0x80 | 2, 0x10, 0x01], None),
            // The same value, "502", in the Huffman code: 5 is 011011, 0 is 00000, 2 is 00010.
            (&[0, 0, 0x5f, 9, 0x82, 0b0110_1100, 0b0000_0010], Some(502)),
            (&[0, 0, 0x5f, 9, 0x82, 0b0110_1100, 0b0000_0000], Some(500)),
        ] {
            assert_eq!(status(section), expected, "{section:?}");
        }
    }

    #[test]
    fn what_needs_a_dynamic_table_or_is_cut_cannot_be_read() {
        for section in [
            &[][..],
            &[0],
            &[1, 0, 0xd9],
            &[0, 0, 0x80],
            &[0, 0, 0x40, 0],
            &[0, 0, 0x10],
            &[0, 0, 0x00, 0],
            &[0, 0, 0xff, 36],
            &[0, 0, 0x5f],
            &[0, 0, 0x5f, 9, 3, b'2'],
            &[0, 0, 0x5f, 9, 0x81, 0xff],
            &[0, 0, 0x27, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(read(section), Err(FAILED), "{section:?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_come_to_an_end(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&octets);
        }
    }
}
