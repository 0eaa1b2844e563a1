//! The common fields of record data, parsed from text.

use std::net::{Ipv4Addr, Ipv6Addr};

use domain::base::iana::SecurityAlgorithm;
use ldplayer_core::name::{BadName, MAX_LABEL, MAX_NAME};

use crate::error::Problem;
use crate::scan::{Field, Scanner, show, unescaped};

/// Seconds of the units that servers read in times (as in `1h30m`).
const UNITS: [(u8, u64); 5] = [(b's', 1), (b'm', 60), (b'h', 3600), (b'd', 86_400), (b'w', 604_800)];

pub(super) fn expected(expected: &'static str, field: Field<'_>) -> Problem {
    Problem::Expected { expected, found: field.show() }
}

/// The octets of a field without its escapes, appended.
pub(super) fn unescape(field: Field<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    if !field.raw.contains(&b'\\') {
        data.extend_from_slice(field.raw);
        return Ok(());
    }
    for octet in unescaped(field.raw) {
        data.push(octet.ok_or_else(|| expected("\\ with a character or three digits up to 255", field))?);
    }
    Ok(())
}

/// Appends a name in wire format; a relative one is completed by the origin.
#[inline]
pub(crate) fn name(field: Field<'_>, origin: Option<&[u8]>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let start = data.len();
    let is_absolute = match field.raw {
        b"@" => false,
        b"." => true,
        _ => labels(field, data)?,
    };
    if is_absolute {
        data.push(0);
    } else {
        data.extend_from_slice(origin.ok_or_else(|| Problem::NoOrigin(field.show()))?);
    }
    if data.len() - start > MAX_NAME {
        return Err(BadName::LongName(field.show()).into());
    }
    Ok(())
}

/// Appends the labels of a name. Whether a final dot stands behind them.
fn labels(field: Field<'_>, data: &mut Vec<u8>) -> Result<bool, Problem> {
    let mut length_at = data.len();
    data.push(0);
    let mut rest = field.raw;
    while let Some((&octet, behind)) = rest.split_first() {
        rest = behind;
        match octet {
            b'.' => {
                close_label(field, data, length_at)?;
                length_at = data.len();
                data.push(0);
            }
            b'\\' => {
                let taken = if behind.first().is_some_and(u8::is_ascii_digit) { 3 } else { 1 };
                let escape = &field.raw[field.raw.len() - behind.len() - 1..][..1 + taken.min(behind.len())];
                let octet = unescaped(escape).next().flatten();
                data.push(octet.ok_or_else(|| BadName::Escape(field.show()))?);
                rest = &behind[taken..];
            }
            _ => data.push(octet),
        }
    }
    if data.len() - length_at == 1 && !field.raw.is_empty() {
        data.pop();
        return Ok(true);
    }
    close_label(field, data, length_at).map(|()| false)
}

fn close_label(field: Field<'_>, data: &mut [u8], length_at: usize) -> Result<(), Problem> {
    match data.len() - length_at - 1 {
        0 => Err(BadName::EmptyLabel(field.show()).into()),
        length @ 1..=MAX_LABEL => {
            data[length_at] = length as u8;
            Ok(())
        }
        _ => Err(BadName::LongLabel(field.show()).into()),
    }
}

/// A decimal number up to `most`.
pub(super) fn number(scanner: &mut Scanner<'_>, most: u32) -> Result<u32, Problem> {
    let what = match most {
        255 => "a number up to 255",
        65_535 => "a number up to 65535",
        _ => "a number up to 4294967295",
    };
    let field = scanner.need(what)?;
    decimal(field.raw).filter(|&value| value <= most).ok_or_else(|| expected(what, field))
}

/// A number of ASCII digits only.
pub(super) fn decimal(raw: &[u8]) -> Option<u32> {
    if raw.is_empty() {
        return None;
    }
    raw.iter().try_fold(0_u32, |value, &octet| {
        let digit = octet.is_ascii_digit().then(|| u32::from(octet - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Seconds: a number, or numbers with units as in `1w2d`.
pub(crate) fn ttl(field: Field<'_>) -> Result<u32, Problem> {
    seconds(field.raw).ok_or_else(|| expected("seconds, such as 3600 or 1h", field))
}

/// What [`ttl`] reads, where it is one.
pub(crate) fn seconds(raw: &[u8]) -> Option<u32> {
    if let Some(value) = decimal(raw) {
        return Some(value);
    }
    let mut sum = 0_u64;
    for part in raw.split_inclusive(u8::is_ascii_alphabetic) {
        let (unit, digits) = part.split_last()?;
        let (_, factor) = UNITS.into_iter().find(|&(letter, _)| letter == unit.to_ascii_lowercase())?;
        sum += u64::from(decimal(digits)?) * factor;
    }
    u32::try_from(sum).ok().filter(|_| !raw.is_empty())
}

/// A time of a signature (RFC 4034 §3.2): `YYYYMMDDHHmmSS`, or seconds since 1970, modulo 2^32.
pub(super) fn time(scanner: &mut Scanner<'_>) -> Result<u32, Problem> {
    const WHAT: &str = "a time as YYYYMMDDHHmmSS";
    let field = scanner.need(WHAT)?;
    if field.raw.len() != 14 {
        return decimal(field.raw).ok_or_else(|| expected(WHAT, field));
    }
    date(field.raw).ok_or_else(|| expected(WHAT, field))
}

fn date(raw: &[u8]) -> Option<u32> {
    let part = |from: usize, to: usize| decimal(&raw[from..to]).and_then(|value| i16::try_from(value).ok());
    let small = |from: usize| part(from, from + 2).and_then(|value| i8::try_from(value).ok());
    let date = jiff::civil::DateTime::new(part(0, 4)?, small(4)?, small(6)?, small(8)?, small(10)?, small(12)?, 0);
    let stamp = date.ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    Some(stamp.as_second() as u32)
}

pub(super) fn ipv4(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let field = scanner.need("an IPv4 address")?;
    let address = std::str::from_utf8(field.raw).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
    data.extend(address.ok_or_else(|| expected("an IPv4 address", field))?.octets());
    Ok(())
}

pub(super) fn ipv6(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let field = scanner.need("an IPv6 address")?;
    let address = std::str::from_utf8(field.raw).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
    data.extend(address.ok_or_else(|| expected("an IPv6 address", field))?.octets());
    Ok(())
}

/// Appends a character string with its length before it.
pub(super) fn text(field: Field<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let length_at = data.len();
    data.push(0);
    unescape(field, data)?;
    let length = data.len() - length_at - 1;
    data[length_at] = u8::try_from(length).map_err(|_| Problem::LongString(length))?;
    Ok(())
}

pub(super) fn texts(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    text(scanner.need("a character string")?, data)?;
    while let Some(field) = scanner.field()? {
        text(field, data)?;
    }
    Ok(())
}

pub(super) fn long_text(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    unescape(scanner.need("a string")?, data)
}

pub(super) fn rtype(scanner: &mut Scanner<'_>) -> Result<u16, Problem> {
    let field = scanner.need("a record type")?;
    crate::rtype::parse(field.raw).ok_or_else(|| expected("a record type", field))
}

pub(super) fn algorithm(scanner: &mut Scanner<'_>) -> Result<u8, Problem> {
    const WHAT: &str = "a DNSSEC algorithm";
    let field = scanner.need(WHAT)?;
    let number = decimal(field.raw).and_then(|value| u8::try_from(value).ok());
    let named = || SecurityAlgorithm::from_mnemonic(field.raw).map(SecurityAlgorithm::to_int);
    number.or_else(named).ok_or_else(|| expected(WHAT, field))
}

pub(super) fn certificate(scanner: &mut Scanner<'_>) -> Result<u16, Problem> {
    const TYPES: [(&str, u16); 10] = [
        ("PKIX", 1),
        ("SPKI", 2),
        ("PGP", 3),
        ("IPKIX", 4),
        ("ISPKI", 5),
        ("IPGP", 6),
        ("ACPKIX", 7),
        ("IACPKIX", 8),
        ("URI", 253),
        ("OID", 254),
    ];
    const WHAT: &str = "a certificate type";
    let field = scanner.need(WHAT)?;
    let number = decimal(field.raw).and_then(|value| u16::try_from(value).ok());
    let named =
        || TYPES.iter().find(|(name, _)| field.raw.eq_ignore_ascii_case(name.as_bytes())).map(|&(_, type_)| type_);
    number.or_else(named).ok_or_else(|| expected(WHAT, field))
}

/// Appends the octets of base 16 up to the end of the entry, which may be nothing.
pub(super) fn hex(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let mut half = None;
    while let Some(field) = scanner.field()? {
        for &octet in field.raw {
            let digit = hex_digit(octet).ok_or_else(|| expected("hexadecimal digits", field))?;
            half = match half {
                None => Some(digit),
                Some(high) => {
                    data.push(high << 4 | digit);
                    None
                }
            };
        }
    }
    if half.is_some() { Err(Problem::Ends("another hexadecimal digit")) } else { Ok(()) }
}

pub(super) fn hex_digit(octet: u8) -> Option<u8> {
    match octet {
        b'0'..=b'9' => Some(octet - b'0'),
        b'a'..=b'f' => Some(octet - b'a' + 10),
        b'A'..=b'F' => Some(octet - b'A' + 10),
        _ => None,
    }
}

/// The octets of base 16 in one field.
pub(super) fn hex_octets(field: Field<'_>) -> Option<Vec<u8>> {
    let pairs = field.raw.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?)).collect()
}

pub(super) fn salt(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    const WHAT: &str = "a salt: - or hexadecimal digits";
    let field = scanner.need(WHAT)?;
    let octets = if field.raw == b"-" { Some(Vec::new()) } else { hex_octets(field) };
    octets.and_then(|octets| counted(octets, data)).ok_or_else(|| expected(WHAT, field))
}

/// Appends octets behind a length octet, when they are no more than one can tell.
fn counted(octets: Vec<u8>, data: &mut Vec<u8>) -> Option<()> {
    data.push(u8::try_from(octets.len()).ok()?);
    data.extend(octets);
    Some(())
}

pub(super) fn hash(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    const WHAT: &str = "a hash in base32hex";
    let field = scanner.need(WHAT)?;
    let octets = base32(field.raw).filter(|octets| !octets.is_empty());
    octets.and_then(|octets| counted(octets, data)).ok_or_else(|| expected(WHAT, field))
}

/// Octets of base 32 with extended hex alphabet, without padding (RFC 4648 §7).
pub(crate) fn base32(raw: &[u8]) -> Option<Vec<u8>> {
    let (mut octets, mut bits, mut held) = (Vec::with_capacity(raw.len() * 5 / 8), 0_u32, 0);
    for &octet in raw {
        let value = match octet {
            b'0'..=b'9' => octet - b'0',
            b'a'..=b'v' => octet - b'a' + 10,
            b'A'..=b'V' => octet - b'A' + 10,
            _ => return None,
        };
        bits = bits << 5 | u32::from(value);
        held += 5;
        if held >= 8 {
            held -= 8;
            octets.push((bits >> held) as u8);
        }
    }
    (held < 5).then_some(octets)
}

/// Appends the octets of base 64 up to the end of the entry (RFC 4648 §4).
pub(super) fn base64(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    const WHAT: &str = "base 64";
    let (mut bits, mut digits, mut padding) = (0_u32, 0_u32, 0_u32);
    while let Some(field) = scanner.field()? {
        for &octet in field.raw {
            if octet == b'=' {
                padding += 1;
                continue;
            }
            let digit = BASE64[usize::from(octet)];
            if digit > 63 || padding > 0 {
                return Err(expected(WHAT, field));
            }
            bits = bits << 6 | u32::from(digit);
            digits += 1;
            if digits % 4 == 0 {
                data.extend_from_slice(&bits.to_be_bytes()[1..]);
            }
        }
    }
    base64_tail(bits, digits % 4, padding, data).ok_or_else(|| Problem::Expected {
        expected: "base64 of whole bytes",
        found: show(b"=".repeat(padding.min(4) as usize).as_slice()),
    })
}

fn base64_tail(bits: u32, left: u32, padding: u32, data: &mut Vec<u8>) -> Option<()> {
    match (left, padding) {
        (0, 0) => {}
        (2, 0 | 2) => data.push((bits >> 4) as u8),
        (3, 0 | 1) => data.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(())
}

/// The value of each base64 digit; 255 if invalid.
const BASE64: [u8; 256] = {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [255; 256];
    let mut value = 0;
    while value < 64 {
        table[digits[value] as usize] = value as u8;
        value += 1;
    }
    table
};

/// Appends a bitmap of the types up to the end of the entry (RFC 4034 §4.1.2).
pub(super) fn types(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let mut types = Vec::with_capacity(16);
    while let Some(field) = scanner.field()? {
        types.push(crate::rtype::parse(field.raw).ok_or_else(|| expected("a record type", field))?);
    }
    types.sort_unstable();
    bitmap(&types, data);
    Ok(())
}

/// Appends the windows of sorted types.
pub(crate) fn bitmap(types: &[u16], data: &mut Vec<u8>) {
    for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
        let mut bits = [0_u8; 32];
        for &rtype in window {
            bits[usize::from(rtype & 255) / 8] |= 0x80 >> (rtype & 7);
        }
        let length = window.last().map_or(0, |&rtype| usize::from(rtype & 255) / 8 + 1);
        data.extend_from_slice(&[(window[0] >> 8) as u8, length as u8]);
        data.extend_from_slice(&bits[..length]);
    }
}
