//! Record data in zone files: the fields of each type.

mod content;
mod fields;
mod historic;
mod special;

use std::ops::Range;

use crate::error::Problem;
use crate::rtype;
use crate::scan::Scanner;

pub(crate) use content::{Fault, judge};
pub(crate) use fields::{base32, bitmap, name, ttl};

/// Most octets of record data (RFC 1035 §3.2.1).
const MAX_DATA: usize = 65_535;

/// A field of record data as zone files write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    Name,
    U8,
    U16,
    U32,
    /// Seconds, with units allowed.
    Ttl,
    /// Seconds of an epoch, or a date of 14 digits (RFC 4034 §3.2).
    Time,
    Ipv4,
    Ipv6,
    /// One character string.
    Text,
    /// Character strings up to the end, at least one.
    Texts,
    /// The octets of one field without a length before them (CAA, URI).
    LongText,
    /// Base 16 up to the end.
    Hex,
    /// Base16 in one field, with a length prefix; `-` for empty (RFC 5155 §3.3).
    Salt,
    /// Base32hex in one field, with a length prefix (RFC 5155 §3.3).
    Hash,
    /// Base 64 up to the end.
    Base64,
    /// A type's mnemonic.
    Type,
    /// A DNSSEC algorithm: a number or a mnemonic.
    Algorithm,
    /// A certificate type: a number or a mnemonic (RFC 4398 §2.1).
    Certificate,
    /// Types up to the end, as bitmap (RFC 4034 §4.1.2).
    Types,
    /// 64 bits in four groups (RFC 6742).
    Groups,
    /// Octets in base 16 between hyphens: 48 bits (RFC 7043).
    Eui48,
    /// The same of 64 bits.
    Eui64,
    /// All of LOC (RFC 1876 §3).
    Location,
    /// All of APL (RFC 3123 §5).
    Prefixes,
    /// All of IPSECKEY (RFC 4025 §3).
    Gateway,
    /// All of HIP (RFC 8005 §6).
    Host,
    /// All of SVCB and HTTPS (RFC 9460 §2.1).
    Service,
    /// All of WKS (RFC 1035 §3.4.2).
    Ports,
    /// All of NSAP (RFC 1706 §5).
    Nsap,
    /// All of AMTRELAY (RFC 8777 §4).
    Relay,
}

/// The fields of a type's data, or `None` for a type that can only be written in generic form.
fn grammar(rtype: u16) -> Option<&'static [FieldKind]> {
    use FieldKind::*;
    Some(match rtype {
        rtype::A => &[Ipv4],
        rtype::AAAA => &[Ipv6],
        // MD, MF, MB, MG, MR, PTR, NSAP-PTR, DNAME.
        rtype::NS | 3 | 4 | rtype::CNAME | 7 | 8 | 9 | 12 | 23 | rtype::DNAME => &[Name],
        rtype::SOA => &[Name, Name, U32, Ttl, Ttl, Ttl, Ttl],
        11 => &[Ports],
        22 => &[Nsap],
        // GPOS (RFC 1712).
        27 => &[Text, Text, Text],
        // HINFO, MINFO, RP, TALINK.
        13 => &[Text, Text],
        14 | 17 | 58 => &[Name, Name],
        // MX, AFSDB, RT, KX, LP.
        rtype::MX | 18 | rtype::RT | rtype::KX | 107 => &[U16, Name],
        // TXT, ISDN, NINFO, SPF, AVC, RESINFO, WALLET.
        16 | 20 | 56 | 99 | 258 | 261 | 262 => &[Texts],
        rtype::X25 => &[Text],
        26 => &[U16, Name, Name],
        29 => &[Location],
        rtype::SRV => &[U16, U16, U16, Name],
        35 => &[U16, U16, Text, Text, Text, Name],
        37 => &[Certificate, U16, Algorithm, Base64],
        42 => &[Prefixes],
        // DS, CDS, DLV, TA.
        rtype::DS | 59 | 32769 | 32768 => &[U16, Algorithm, U8, Hex],
        44 => &[U8, U8, Hex],
        45 => &[Gateway],
        rtype::RRSIG | 24 => &[Type, Algorithm, U8, Ttl, Time, Time, U16, Name, Base64],
        rtype::NSEC => &[Name, Types],
        // KEY, DNSKEY, CDNSKEY, RKEY.
        rtype::DNSKEY | 25 | 57 | 60 => &[U16, U8, Algorithm, Base64],
        // DHCID, OPENPGPKEY.
        49 | 61 => &[Base64],
        rtype::NSEC3 => &[U8, U8, U16, Salt, Hash, Types],
        rtype::NSEC3PARAM => &[U8, U8, U16, Salt],
        // TLSA, SMIMEA.
        52 | 53 => &[U8, U8, U8, Hex],
        55 => &[Host],
        62 => &[U32, U16, Types],
        63 => &[U32, U8, U8, Hex],
        64 | 65 => &[Service],
        104 | 106 => &[U16, Groups],
        105 => &[U16, Ipv4],
        108 => &[Eui48],
        109 => &[Eui64],
        256 => &[U16, U16, LongText],
        257 => &[U8, Text, LongText],
        260 => &[Relay],
        _ => return None,
    })
}

/// Appends the data of a record of `rtype` in wire format, names uncompressed.
///
/// On an error `data` may hold a part of it.
pub(crate) fn parse(
    rtype: u16,
    scanner: &mut Scanner<'_>,
    origin: Option<&[u8]>,
    data: &mut Vec<u8>,
) -> Result<(), Problem> {
    let start = data.len();
    let next = scanner.peek_field()?;
    if next.is_some_and(|field| field.is_generic_mark()) {
        generic(scanner, data)?;
        check(rtype, &data[start..])?;
    } else {
        let kinds = grammar(rtype).ok_or_else(|| Problem::NoGrammar(rtype::name_of(rtype)))?;
        for &kind in kinds {
            field(kind, scanner, origin, data)?;
        }
    }
    scanner.end_entry()?;
    if data.len() - start > MAX_DATA { Err(Problem::Long(data.len() - start)) } else { Ok(()) }
}

#[inline]
fn field(kind: FieldKind, scanner: &mut Scanner<'_>, origin: Option<&[u8]>, data: &mut Vec<u8>) -> Result<(), Problem> {
    match kind {
        FieldKind::Name => name(scanner.need("a domain name")?, origin, data),
        FieldKind::U8 => fields::number(scanner, 255).map(|value| data.push(value as u8)),
        FieldKind::U16 => fields::number(scanner, 65_535).map(|value| data.extend((value as u16).to_be_bytes())),
        FieldKind::U32 => fields::number(scanner, u32::MAX).map(|value| data.extend(value.to_be_bytes())),
        FieldKind::Ttl => ttl(scanner.need("seconds")?).map(|value| data.extend(value.to_be_bytes())),
        FieldKind::Time => fields::time(scanner).map(|value| data.extend(value.to_be_bytes())),
        FieldKind::Ipv4 => fields::ipv4(scanner, data),
        FieldKind::Ipv6 => fields::ipv6(scanner, data),
        FieldKind::Text => fields::text(scanner.need("a character string")?, data),
        FieldKind::Texts => fields::texts(scanner, data),
        FieldKind::LongText => fields::long_text(scanner, data),
        FieldKind::Hex => fields::hex(scanner, data),
        FieldKind::Salt => fields::salt(scanner, data),
        FieldKind::Hash => fields::hash(scanner, data),
        FieldKind::Base64 => fields::base64(scanner, data),
        FieldKind::Type => fields::rtype(scanner).map(|value| data.extend(value.to_be_bytes())),
        FieldKind::Algorithm => fields::algorithm(scanner).map(|value| data.push(value)),
        FieldKind::Certificate => fields::certificate(scanner).map(|value| data.extend(value.to_be_bytes())),
        FieldKind::Types => fields::types(scanner, data),
        FieldKind::Groups => special::groups(scanner, data),
        FieldKind::Eui48 => special::eui(scanner, 6, data),
        FieldKind::Eui64 => special::eui(scanner, 8, data),
        FieldKind::Location => special::location(scanner, data),
        FieldKind::Prefixes => special::prefixes(scanner, data),
        FieldKind::Gateway => special::gateway(scanner, origin, data),
        FieldKind::Host => special::host(scanner, origin, data),
        FieldKind::Service => special::service(scanner, origin, data),
        FieldKind::Ports => historic::services(scanner, data),
        FieldKind::Nsap => historic::nsap(scanner, data),
        FieldKind::Relay => historic::relay(scanner, origin, data),
    }
}

/// Data in generic form: `\# LENGTH HEX` (RFC 3597 §5).
fn generic(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let start = data.len();
    scanner.need("\\#")?;
    let said = fields::number(scanner, 65_535)? as usize;
    if said > 0 {
        fields::hex(scanner, data)?;
    }
    let found = data.len() - start;
    if said == found { Ok(()) } else { Err(Problem::Length { said, found }) }
}

/// Refuses octets that are no data of a type that the server looks into.
pub(crate) fn check(rtype: u16, data: &[u8]) -> Result<(), Problem> {
    if is_valid(rtype, data) { Ok(()) } else { Err(Problem::Data(rtype::name_of(rtype))) }
}

/// Whether the octets have the parts that the type's data must have; types of special form are not looked into.
fn is_valid(rtype: u16, data: &[u8]) -> bool {
    grammar(rtype).is_none_or(|kinds| walk(kinds, data))
}

fn walk(kinds: &[FieldKind], mut data: &[u8]) -> bool {
    for &kind in kinds {
        let Some(rest) = plain_length(kind, data).and_then(|length| data.get(length..)) else { return false };
        data = rest;
    }
    data.is_empty()
}

/// Where the names in a type's data are.
pub(crate) fn names(rtype: u16, data: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    let fields = grammar(rtype).unwrap_or_default().iter().map_while(move |&kind| {
        let start = at;
        at += plain_length(kind, data.get(start..)?)?;
        Some((kind, start..at))
    });
    fields.filter(|&(kind, _)| kind == FieldKind::Name).map(|(_, range)| range)
}

/// The octets that a field takes at the start of `data`.
fn plain_length(kind: FieldKind, data: &[u8]) -> Option<usize> {
    match kind {
        FieldKind::Name => name_length(data),
        FieldKind::U8 | FieldKind::Algorithm => Some(1),
        FieldKind::U16 | FieldKind::Type | FieldKind::Certificate => Some(2),
        FieldKind::U32 | FieldKind::Ttl | FieldKind::Time | FieldKind::Ipv4 => Some(4),
        FieldKind::Eui48 => Some(6),
        FieldKind::Groups | FieldKind::Eui64 => Some(8),
        FieldKind::Ipv6 => Some(16),
        FieldKind::Text | FieldKind::Salt | FieldKind::Hash => data.first().map(|&length| 1 + usize::from(length)),
        _ => Some(data.len()),
    }
}

/// Appends the data of a record in a message, from `at` to the end of `message`, with names uncompressed. Names that are compared without
/// regard to case are in lower case, as in the canonical form (RFC 4034 §6.2, RFC 6840 §5.1): a compressed name has the case of the question.
///
/// `None` when the octets are no data of the type.
pub(crate) fn expand(rtype: u16, message: &[u8], mut at: usize, data: &mut Vec<u8>) -> Option<()> {
    let Some(kinds) = grammar(rtype).filter(|kinds| kinds.contains(&FieldKind::Name)) else {
        let plain = message.get(at..)?;
        data.extend_from_slice(plain);
        return is_valid(rtype, plain).then_some(());
    };
    for &kind in kinds {
        if kind != FieldKind::Name {
            let length = plain_length(kind, &message[at..])?;
            data.extend_from_slice(message.get(at..at + length)?);
            at += length;
            continue;
        }
        let start = data.len();
        at = read_name(message, at, |part| {
            data.extend_from_slice(part);
            (data.len() - start <= ldplayer_core::name::MAX_NAME).then_some(())
        })?;
        if rtype != rtype::NSEC {
            data[start..].make_ascii_lowercase();
        }
    }
    (at == message.len()).then_some(())
}

/// Gives the labels of the name at `at` with their length octets to `take`, and the offset behind the name. Pointers lead backwards only
/// (RFC 1035 §4.1.4), so that the walk ends. `None` when it is no name, or when `take` says so.
pub(crate) fn read_name(message: &[u8], at: usize, mut take: impl FnMut(&[u8]) -> Option<()>) -> Option<usize> {
    let (mut at, mut limit, mut behind) = (at, at, None);
    loop {
        match *message.get(at)? {
            0 => {
                take(&[0])?;
                return Some(behind.unwrap_or(at + 1));
            }
            length @ 1..=63 => {
                let next = at + 1 + usize::from(length);
                take(message.get(at..next)?)?;
                at = next;
            }
            high @ 0xc0..=0xff => {
                let target = usize::from(high & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                behind.get_or_insert(at + 2);
                if target >= limit {
                    return None;
                }
                (at, limit) = (target, target);
            }
            _ => return None,
        }
    }
}

/// The octets of the uncompressed name at the start of `data`.
pub(crate) fn name_length(data: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *data.get(at)? {
            0 => return (at < ldplayer_core::name::MAX_NAME).then_some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
