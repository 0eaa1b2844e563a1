//! Contents of types whose fields depend on one another: bitmaps, SVCB, CAA, NAPTR, LOC, APL, IPSECKEY, HIP, AMTRELAY, X25, texts.

use super::super::name_length;
use super::{Fault, ODD, REFUSED};
use crate::error::Wrong;
use crate::rtype;

/// What holds or does not, as octets are walked; `None` when they end too soon.
type Walk = Option<Result<(), Fault>>;

/// What is said of data that end too soon.
const FORM: &str = "the fields do not fit the data";

fn fault<T>(is_refused: bool, what: &'static str, reference: &'static str) -> Option<Result<T, Fault>> {
    Some(Err(Fault { is_refused, wrong: Wrong::Rule { what, reference } }))
}

/// Whether a rule holds; if not, why the record is refused.
fn rule(holds: bool, what: &'static str, reference: &'static str) -> Walk {
    if holds { Some(Ok(())) } else { fault(REFUSED, what, reference) }
}

/// See [`super::judge`].
pub(super) fn judge(rtype: u16, data: &[u8]) -> Result<(), Fault> {
    let (walk, reference) = match rtype {
        rtype::NSEC => (nsec(data), "RFC 4034 4"),
        rtype::NSEC3 => (nsec3(data), "RFC 5155 3"),
        rtype::NSEC3PARAM => (nsec3param(data), "RFC 5155 4"),
        62 => (data.get(6..).and_then(|types| bitmap(types, false)), "RFC 7477 2"),
        64 | 65 => (service(data), "RFC 9460 2.2"),
        257 => (authorization(data), "RFC 8659 4.1"),
        35 => (pointer(data), "RFC 3403 4.1"),
        29 => (location(data), "RFC 1876 2"),
        42 => (prefixes(data), "RFC 3123 4"),
        45 => (gateway(data), "RFC 4025 2"),
        55 => (host(data), "RFC 8005 5"),
        260 => (relay(data), "RFC 8777 4"),
        rtype::X25 => (number(data), "RFC 1183 3.1"),
        25 => (key(data), "RFC 2535 3"),
        59 => (deletion(data, 2, &[0, 0, 0, 0, 0]), "RFC 8078 4"),
        60 => (deletion(data, 3, &[0, 0, 3, 0, 0]), "RFC 8078 4"),
        11 => (services(data), "RFC 1035 3.4.2"),
        rtype::TXT | rtype::ISDN | 56 | 99 | 258 | 261 | 262 => (texts(data), "RFC 1035 3.3.14"),
        _ => return Ok(()),
    };
    let form = || Fault { is_refused: REFUSED, wrong: Wrong::Rule { what: FORM, reference } };
    walk.unwrap_or_else(|| Err(form()))
}

/// Continues only where nothing is wrong so far.
macro_rules! hold {
    ($walk:expr) => {
        match $walk? {
            Ok(()) => {}
            Err(fault) => return Some(Err(fault)),
        }
    };
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]))
}

fn nsec(data: &[u8]) -> Walk {
    let types = data.get(name_length(data)?..)?;
    bitmap(types, true)
}

fn nsec3(data: &[u8]) -> Walk {
    let salt = usize::from(*data.get(4)?);
    let hash = usize::from(*data.get(5 + salt)?);
    hold!(rule(hash > 0, "the hash is empty", "RFC 5155 3.1.6"));
    hold!(rule(data[0] != 1 || hash == 20, "a SHA-1 hash has 20 bytes", "RFC 5155 11"));
    bitmap(data.get(6 + salt + hash..)?, false)
}

fn nsec3param(data: &[u8]) -> Walk {
    rule(data.first() == Some(&1), "the hash algorithm is unknown", "RFC 5155 11")
}

/// Blocks of types: in order, without zeros at the end (RFC 4034 §4.1.2).
fn bitmap(mut types: &[u8], has_some: bool) -> Walk {
    const REFERENCE: &str = "RFC 4034 4.1.2";
    hold!(rule(!has_some || !types.is_empty(), "the record has no types", REFERENCE));
    let mut last = None;
    while let Some((&block, rest)) = types.split_first() {
        let length = usize::from(*rest.first()?);
        hold!(rule(last < Some(block), "the blocks of types are not in order", REFERENCE));
        hold!(rule((1..=32).contains(&length), "a block of types has 1 to 32 bytes", REFERENCE));
        let octets = rest.get(1..=length)?;
        hold!(rule(octets.last() != Some(&0), "a block of types ends with a zero byte", REFERENCE));
        (last, types) = (Some(block), &rest[1 + length..]);
    }
    Some(Ok(()))
}

/// SVCB and HTTPS (RFC 9460 §2.2, §7, §8).
fn service(data: &[u8]) -> Walk {
    let priority = word(data, 0)?;
    let target = data.get(2..)?;
    let mut rest = target.get(name_length(target)?..)?;
    let has_parameters = !rest.is_empty();
    let (mut keys, mut needed): (Vec<u16>, &[u8]) = (Vec::new(), &[]);
    while !rest.is_empty() {
        let (key, length) = (word(rest, 0)?, usize::from(word(rest, 2)?));
        let value = rest.get(4..4 + length)?;
        let is_next = keys.last().is_none_or(|&last| last < key);
        hold!(rule(is_next, "the keys are not in order, each once", "RFC 9460 2.2"));
        hold!(parameter(key, value));
        if key == 0 {
            needed = value;
        }
        keys.push(key);
        rest = &rest[4 + length..];
    }
    let has = |key: u16| keys.contains(&key);
    let is_there = needed.chunks_exact(2).all(|key| has(u16::from_be_bytes([key[0], key[1]])));
    hold!(rule(is_there, "a mandatory key is missing", "RFC 9460 8"));
    hold!(rule(!has(2) || has(1), "no-default-alpn needs alpn", "RFC 9460 7.1.1"));
    if has(u16::MAX) {
        return fault(ODD, "key65535 is reserved and invalid", "RFC 9460 14.3.2");
    }
    if priority == 0 && has_parameters {
        return fault(ODD, "the parameters of an alias (priority 0) are ignored", "RFC 9460 2.4.2");
    }
    Some(Ok(()))
}

/// The value of a parameter.
fn parameter(key: u16, value: &[u8]) -> Walk {
    let is_multiple = |size: usize| !value.is_empty() && value.len().is_multiple_of(size);
    match key {
        0 => {
            hold!(rule(is_multiple(2), "mandatory has no list of keys", "RFC 9460 8"));
            let keys: Vec<u16> = value.chunks_exact(2).map(|key| u16::from_be_bytes([key[0], key[1]])).collect();
            hold!(rule(!keys.contains(&0), "mandatory names itself", "RFC 9460 8"));
            rule(keys.is_sorted_by(|a, b| a < b), "the mandatory keys are not in order, each once", "RFC 9460 8")
        }
        1 => {
            hold!(rule(!value.is_empty(), "alpn has no protocol", "RFC 9460 7.1.1"));
            let mut rest = value;
            while let Some((&length, behind)) = rest.split_first() {
                hold!(rule(length > 0, "alpn has an empty protocol", "RFC 9460 7.1.1"));
                rest = behind.get(usize::from(length)..)?;
            }
            Some(Ok(()))
        }
        2 => rule(value.is_empty(), "no-default-alpn has a value", "RFC 9460 7.1.1"),
        3 => rule(value.len() == 2, "the port does not have 2 bytes", "RFC 9460 7.2"),
        4 => rule(is_multiple(4), "ipv4hint has no addresses of 4 bytes each", "RFC 9460 7.3"),
        6 => rule(is_multiple(16), "ipv6hint has no addresses of 16 bytes each", "RFC 9460 7.3"),
        7 => rule(is_template(value), "dohpath is no path with the variable dns, such as /q{?dns}", "RFC 9461 5"),
        8 => rule(value.is_empty(), "ohttp has a value", "RFC 9540 4"),
        _ => Some(Ok(())),
    }
}

/// Whether a path has an expression with the variable `dns` (RFC 9461 §5, RFC 6570 §2.2).
fn is_template(path: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(path) else { return false };
    let expressions = text.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let names = |expression: &str| {
        let names = expression.trim_start_matches(['?', '&', '/', ';', '.', '#', '+']);
        names.split(',').any(|name| name.trim_end_matches('*') == "dns")
    };
    text.starts_with('/') && expressions.map(|(expression, _)| expression).any(names)
}

/// CAA.
fn authorization(data: &[u8]) -> Walk {
    let length = usize::from(*data.get(1)?);
    let tag = data.get(2..2 + length)?;
    let is_tag = !tag.is_empty() && tag.iter().all(u8::is_ascii_alphanumeric);
    rule(is_tag, "the tag is not letters and digits", "RFC 8659 4.1")
}

/// NAPTR, of which the substitution is looked into.
fn pointer(data: &[u8]) -> Walk {
    let mut at = 4;
    for _ in 0..2 {
        at += 1 + usize::from(*data.get(at)?);
    }
    let length = usize::from(*data.get(at)?);
    let expression = data.get(at + 1..at + 1 + length)?;
    let is_expression = expression.is_empty() || is_substitution(expression).unwrap_or(false);
    rule(is_expression, "the regular expression is no substitution such as !^.*$!sip:x!", "RFC 3402 3.2")
}

/// Whether it is `!ERE!REPLACEMENT!FLAGS`, with any delimiter and references to groups that there are.
fn is_substitution(text: &[u8]) -> Option<bool> {
    let (&delimiter, rest) = text.split_first()?;
    if delimiter.is_ascii_digit() || matches!(delimiter, b'\\' | b'i' | 0) {
        return Some(false);
    }
    let (expression, rest) = until(delimiter, rest)?;
    let (replacement, flags) = until(delimiter, rest)?;
    let Some(groups) = groups(expression) else { return Some(false) };
    let digits = replacement.windows(2).filter(|pair| pair[0] == b'\\' && pair[1].is_ascii_digit());
    let are_there = digits.map(|pair| usize::from(pair[1] - b'0')).all(|group| (1..=groups).contains(&group));
    Some(are_there && flags.iter().all(|&flag| flag == b'i'))
}

/// What stands before a delimiter that is not escaped, and what behind it.
fn until(delimiter: u8, text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    while *text.get(at)? != delimiter {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    Some((&text[..at], &text[at + 1..]))
}

/// How many groups an extended regular expression has; `None` for one with open groups or brackets, or nothing to repeat.
fn groups(expression: &[u8]) -> Option<usize> {
    let (mut open, mut all, mut can_repeat, mut at) = (0_usize, 0, false, 0);
    while let Some(&octet) = expression.get(at) {
        match octet {
            b'\\' => at += 1,
            b'[' => {
                let start = at + if expression.get(at + 1) == Some(&b'^') { 3 } else { 2 };
                at = start + expression.get(start..)?.iter().position(|&octet| octet == b']')?;
            }
            b'(' => (open, all) = (open + 1, all + 1),
            b')' => open = open.saturating_sub(1),
            b'*' | b'+' | b'?' if !can_repeat => return None,
            _ => {}
        }
        can_repeat = !matches!(octet, b'(' | b'|');
        at += 1;
    }
    (open == 0 && !expression.is_empty()).then_some(all)
}

/// LOC: sizes of one digit and an exponent, and angles within the globe; other versions are not looked into.
fn location(data: &[u8]) -> Walk {
    const REFERENCE: &str = "RFC 1876 2";
    if *data.first()? != 0 {
        return Some(Ok(()));
    }
    hold!(rule(data.len() == 16, "the data does not have 16 bytes", REFERENCE));
    let is_size = |&octet: &u8| octet >> 4 <= 9 && octet & 15 <= 9 && (octet >> 4 > 0 || octet & 15 == 0);
    hold!(rule(data[1..4].iter().all(is_size), "a size or precision is out of range", REFERENCE));
    let angle = |at: usize| Some(u32::from(word(data, at)?) << 16 | u32::from(word(data, at + 2)?));
    let is_within = |angle: u32, most: u32| angle.abs_diff(1 << 31) <= most * 3_600_000;
    rule(is_within(angle(4)?, 90) && is_within(angle(8)?, 180), "latitude or longitude is out of range", REFERENCE)
}

/// APL.
fn prefixes(mut data: &[u8]) -> Walk {
    while !data.is_empty() {
        let (family, prefix, length) = (word(data, 0)?, *data.get(2)?, usize::from(*data.get(3)? & 0x7f));
        let address = data.get(4..4 + length)?;
        let (most, octets) = match family {
            1 => (32, 4),
            2 => (128, 16),
            _ => (u8::MAX, 127),
        };
        hold!(rule(prefix <= most && length <= octets, "a prefix is longer than an address", "RFC 3123 4"));
        hold!(rule(address.last() != Some(&0), "an address ends with a zero byte", "RFC 3123 4"));
        data = &data[4 + length..];
    }
    Some(Ok(()))
}

/// The octets of a gateway or relay of a type: none, an address, or a name (RFC 4025 §2.5, RFC 8777 §4.2.4).
fn host_length(kind: u8, data: &[u8]) -> Option<usize> {
    match kind {
        0 => Some(0),
        1 => Some(4),
        2 => Some(16),
        _ => name_length(data),
    }
}

/// IPSECKEY. Without an algorithm there is no key (RFC 4025 §2.4).
fn gateway(data: &[u8]) -> Walk {
    let (kind, algorithm, rest) = (*data.get(1)?, *data.get(2)?, &data[3..]);
    hold!(rule(kind <= 3, "the type of the gateway is unknown", "RFC 4025 2.3"));
    let key = rest.get(host_length(kind, rest)?..)?;
    rule(algorithm == 0 || !key.is_empty(), "the key is missing", "RFC 4025 2.4")
}

/// AMTRELAY; relays of unknown types are not looked into.
fn relay(data: &[u8]) -> Walk {
    let (kind, rest) = (*data.get(1)? & 0x7f, &data[2..]);
    if kind > 3 {
        return Some(Ok(()));
    }
    rule(host_length(kind, rest)? == rest.len(), "the relay is not of its type", "RFC 8777 4.2.3")
}

/// HIP.
fn host(data: &[u8]) -> Walk {
    let (tag, key) = (usize::from(*data.first()?), usize::from(word(data, 2)?));
    hold!(rule(tag > 0 && key > 0, "the host identity tag or the key is empty", "RFC 8005 5"));
    let mut servers = data.get(4 + tag + key..)?;
    while !servers.is_empty() {
        servers = &servers[name_length(servers)?..];
    }
    Some(Ok(()))
}

fn number(data: &[u8]) -> Walk {
    let digits = data.get(1..)?;
    rule(
        digits.len() >= 4 && digits.iter().all(u8::is_ascii_digit),
        "the address is not 4 digits or more",
        "RFC 1183 3.1",
    )
}

/// KEY, which may be absent if its flags say so (RFC 2535 §3.1.2).
fn key(data: &[u8]) -> Walk {
    rule(data.first()? >> 6 == 3 || data.len() > 4, "the key is missing", "RFC 2535 3.1.2")
}

/// CDS and CDNSKEY without an algorithm, whose one meaning is to delete (RFC 8078 §4).
fn deletion(data: &[u8], algorithm_at: usize, wanted: &[u8]) -> Walk {
    let is_deletion = *data.get(algorithm_at)? == 0;
    rule(
        !is_deletion || data == wanted,
        "algorithm 0 deletes, and the other fields must be those of a deletion",
        "RFC 8078 4",
    )
}

/// WKS, as BIND reads it.
fn services(data: &[u8]) -> Walk {
    rule(data.len() < 6 || data.last() != Some(&0), "the services end with a zero byte", "RFC 1035 3.4.2")
}

/// Character strings, at least one.
fn texts(mut data: &[u8]) -> Walk {
    hold!(rule(!data.is_empty(), "there is no character string", "RFC 1035 3.3.14"));
    while let Some((&length, rest)) = data.split_first() {
        data = rest.get(usize::from(length)..)?;
    }
    Some(Ok(()))
}
