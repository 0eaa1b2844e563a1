//! Field sections that use no dynamic table (RFC 9204): the status of a response read, fields of requests written.

use super::{Fault, code};
use crate::connections::http2::huffman;
use ldplayer_core::Reason;

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
/// The name of the status.
const STATUS: &[u8] = b":status";

const FAILED: Fault = Fault::Connection(code::DECOMPRESSION_FAILED);

/// The status in the field section of a response.
///
/// # Errors
/// When the section cannot be read, or has no status.
pub fn status(mut octets: &[u8]) -> Result<u16, Fault> {
    let mut status = None;
    // No entry of a dynamic table is needed, so that the base means nothing (§4.5.1).
    if take_integer(&mut octets, 8).ok_or(FAILED)? != 0 || take_integer(&mut octets, 7).is_none() {
        return Err(FAILED);
    }
    while !octets.is_empty() {
        status = take_line(&mut octets).ok_or(FAILED)?.or(status);
    }
    status.ok_or(Fault::Stream(Reason::Garbage))
}

/// Takes a field line, and returns its value where it is the status; 0 stands for one that is no number.
fn take_line(octets: &mut &[u8]) -> Option<Option<u16>> {
    let first = *octets.first()?;
    match first {
        0x80.. => {
            let entry = take_entry(octets, first & 0x40 != 0, 6)?;
            Some(STATUSES.iter().find(|(place, _)| *place == entry).map(|(_, status)| *status))
        }
        0x40.. => {
            let entry = take_entry(octets, first & 0x10 != 0, 4)?;
            let value = take_text(octets, 7)?;
            Some(STATUSES.iter().any(|(place, _)| *place == entry).then(|| number(&value)))
        }
        0x20.. => {
            let name = take_text(octets, 3)?;
            let value = take_text(octets, 7)?;
            Some((name == STATUS).then(|| number(&value)))
        }
        // References to entries behind the base, which are dynamic.
        _ => None,
    }
}

fn take_entry(octets: &mut &[u8], is_static: bool, bits: u32) -> Option<usize> {
    take_integer(octets, bits).filter(|&entry| is_static && entry < ENTRIES)
}

fn number(value: &[u8]) -> u16 {
    std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Reads a number in the last `bits` of an octet, and in the following ones where they do not suffice (RFC 7541 §5.1).
fn take_integer(octets: &mut &[u8], bits: u32) -> Option<usize> {
    /// More than any length that there can be.
    const MOST: usize = 1 << 28;
    let full = (1_usize << bits) - 1;
    let (first, mut rest) = octets.split_first()?;
    let mut number = usize::from(*first) & full;
    let mut shift = 0;
    while number >= full || shift > 0 {
        let (next, behind) = rest.split_first()?;
        rest = behind;
        number += usize::from(next & 0x7f) << shift;
        shift += 7;
        if number > MOST || shift > 28 {
            return None;
        }
        if next & 0x80 == 0 {
            break;
        }
    }
    *octets = rest;
    Some(number)
}

/// Reads a string whose length is in the last `bits` of an octet, with the mark of the Huffman code before them (§4.1.2).
fn take_text(octets: &mut &[u8], bits: u32) -> Option<Vec<u8>> {
    let is_coded = octets.first()? & (1 << bits) != 0;
    let length = take_integer(octets, bits)?;
    let (text, rest) = octets.split_at_checked(length)?;
    *octets = rest;
    match is_coded {
        true if !huffman::is_valid(text) => None,
        true => Some(huffman::decode(text).collect()),
        false => Some(text.to_vec()),
    }
}

/// Appends a number in the last `bits` of an octet whose other bits are those of `head`, and in the following ones.
pub fn append_integer(out: &mut Vec<u8>, head: u8, bits: u32, mut number: usize) {
    let full = (1_usize << bits) - 1;
    if number < full {
        return out.push(head | number as u8);
    }
    out.push(head | full as u8);
    number -= full;
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
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

    #[test]
    fn a_status_is_read_in_every_form() {
        let coded = [&[0, 0, 0x50 | 9, 0x80 | 2][..], &[0x10, 0x01]].concat();
        for (section, expected) in [
            (&[0, 0, 0xc0 | 25][..], 200),
            (&[0, 0, 0xff, 1], 204),
            // The name of an entry beyond four bits, and a plain value.
            (&[0, 0, 0x5f, 9, 3, b'4', b'2', b'9'], 429),
            (&[0, 0, 0x27, 0, b':', b's', b't', b'a', b't', b'u', b's', 3, b'2', b'0', b'0'], 200),
            // Other fields before and behind.
            (&[0, 0, 0xc0 | 44, 0xc0 | 25, 0x51, 1, b'/', 0x21, b'x', 0], 200),
        ] {
            assert_eq!(status(section), Ok(expected), "{section:?}");
        }
        assert_eq!(status(&coded), Err(Fault::Stream(Reason::Garbage)), "another field");
        // The same value, "502", in the Huffman code: 5 is 011011, 0 is 00000, 2 is 00010.
        assert_eq!(status(&[0, 0, 0x5f, 9, 0x82, 0b0110_1100, 0b0000_0010]), Ok(502));
        assert_eq!(status(&[0, 0, 0x5f, 9, 0x82, 0b0110_1100, 0b0000_0000]), Ok(500));
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
            assert_eq!(status(section), Err(FAILED), "{section:?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_come_to_an_end(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = status(&octets);
        }

        #[test]
        fn integers_are_read_as_written(number in 0usize..1 << 20, bits in 3u32..8) {
            let mut out = Vec::new();
            append_integer(&mut out, 0, bits, number);
            prop_assert_eq!(take_integer(&mut out.as_slice(), bits), Some(number));
        }
    }
}
