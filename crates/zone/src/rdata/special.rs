//! Types whose fields depend on one another: LOC, APL, IPSECKEY, HIP, SVCB, and the formats of NID and EUI.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::fields::{base64, decimal, expected, hex_digit, hex_octets, name, number, unescape};
use crate::error::Problem;
use crate::scan::{Field, Scanner};

/// 64 bits as four groups of hexadecimal digits (RFC 6742 §2.1.2).
pub(super) fn groups(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    const WHAT: &str = "four groups of hexadecimal digits";
    let field = scanner.need(WHAT)?;
    let groups: Option<Vec<u16>> = field.raw.split(|&octet| octet == b':').map(group).collect();
    let groups = groups.filter(|groups| groups.len() == 4).ok_or_else(|| expected(WHAT, field))?;
    data.extend(groups.iter().flat_map(|group| group.to_be_bytes()));
    Ok(())
}

fn group(raw: &[u8]) -> Option<u16> {
    let value = raw.iter().try_fold(0_u16, |value, &octet| Some(value << 4 | u16::from(hex_digit(octet)?)));
    value.filter(|_| (1..=4).contains(&raw.len()))
}

/// Octets between hyphens (RFC 7043 §3.2).
pub(super) fn eui(scanner: &mut Scanner<'_>, length: usize, data: &mut Vec<u8>) -> Result<(), Problem> {
    const WHAT: &str = "hexadecimal bytes separated by hyphens";
    let field = scanner.need(WHAT)?;
    let octet = |raw: &[u8]| (raw.len() == 2).then(|| Some(hex_digit(raw[0])? << 4 | hex_digit(raw[1])?)).flatten();
    let octets: Option<Vec<u8>> = field.raw.split(|&octet| octet == b'-').map(octet).collect();
    data.extend(octets.filter(|octets| octets.len() == length).ok_or_else(|| expected(WHAT, field))?);
    Ok(())
}

/// Address prefixes as `[!]FAMILY:ADDRESS/LENGTH` (RFC 3123 §5).
pub(super) fn prefixes(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    while let Some(field) = scanner.field()? {
        prefix(field, data).ok_or_else(|| expected("an address prefix such as 1:192.0.2.0/24", field))?;
    }
    Ok(())
}

fn prefix(field: Field<'_>, data: &mut Vec<u8>) -> Option<()> {
    let text = std::str::from_utf8(field.raw).ok()?;
    let (negation, text) = text.strip_prefix('!').map_or((0, text), |rest| (0x80, rest));
    let (family, rest) = text.split_once(':')?;
    let (address, length) = rest.split_once('/')?;
    let length = decimal(length.as_bytes())?;
    let (octets, most) = match family {
        "1" => (address.parse::<Ipv4Addr>().ok()?.octets().to_vec(), 32),
        "2" => (address.parse::<Ipv6Addr>().ok()?.octets().to_vec(), 128),
        _ => return None,
    };
    let kept = octets.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
    data.extend(u16::from(family == "2").wrapping_add(1).to_be_bytes());
    data.extend([u8::try_from(length).ok().filter(|_| length <= most)?, negation | kept as u8]);
    data.extend_from_slice(&octets[..kept]);
    Some(())
}

/// IPSECKEY: precedence, gateway type, algorithm, gateway, key (RFC 4025 §3.1).
pub(super) fn gateway(scanner: &mut Scanner<'_>, origin: Option<&[u8]>, data: &mut Vec<u8>) -> Result<(), Problem> {
    data.push(number(scanner, 255)? as u8);
    let kind = number(scanner, 255)? as u8;
    let algorithm = number(scanner, 255)? as u8;
    data.extend([kind, algorithm]);
    gateway_host(kind, "a gateway of the type given", scanner, origin, data)?;
    base64(scanner, data)
}

/// The host of IPSECKEY and AMTRELAY: none, an address or a name, as `kind` (0 to 3) says (RFC 4025 §2.3, RFC 8777 §4.2.3).
pub(super) fn gateway_host(
    kind: u8,
    what: &'static str,
    scanner: &mut Scanner<'_>,
    origin: Option<&[u8]>,
    data: &mut Vec<u8>,
) -> Result<(), Problem> {
    let field = scanner.need(what)?;
    let address = || std::str::from_utf8(field.raw).ok().and_then(|text| text.parse::<IpAddr>().ok());
    match (kind, address()) {
        (0, _) if field.raw == b"." => {}
        (1, Some(IpAddr::V4(address))) => data.extend(address.octets()),
        (2, Some(IpAddr::V6(address))) => data.extend(address.octets()),
        (3, _) => name(field, origin, data)?,
        _ => return Err(expected(what, field)),
    }
    Ok(())
}

/// HIP: algorithm, identity tag, key, rendezvous servers (RFC 8005 §6).
pub(super) fn host(scanner: &mut Scanner<'_>, origin: Option<&[u8]>, data: &mut Vec<u8>) -> Result<(), Problem> {
    const TAG: &str = "a host identity tag in hexadecimal digits";
    const KEY: &str = "a key in base64";
    let algorithm = number(scanner, 255)? as u8;
    let field = scanner.need(TAG)?;
    let tag = hex_octets(field).filter(|tag| tag.len() < 256).ok_or_else(|| expected(TAG, field))?;
    let field = scanner.need(KEY)?;
    let mut key = Vec::new();
    base64(&mut Scanner::new(field.raw), &mut key)?;
    data.extend([tag.len() as u8, algorithm]);
    data.extend(u16::try_from(key.len()).map_err(|_| Problem::Long(key.len()))?.to_be_bytes());
    data.extend(tag);
    data.extend(key);
    while let Some(field) = scanner.field()? {
        name(field, origin, data)?;
    }
    Ok(())
}

/// The largest size and precision of LOC, in centimetres (RFC 1876 §2).
const MAX_SIZE: u64 = 9_000_000_000;

/// LOC: latitude, longitude, altitude, size and precisions (RFC 1876 §3).
pub(super) fn location(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    let latitude = angle(scanner, 90, [b'N', b'S'])?;
    let longitude = angle(scanner, 180, [b'E', b'W'])?;
    let altitude = centimetres(scanner.need("an altitude in metres")?)?;
    let altitude =
        u32::try_from(altitude + 10_000_000).map_err(|_| Problem::Ends("an altitude within the range of LOC"))?;
    // Size 1 m, horizontal precision 10 km, vertical precision 10 m, where they are left out.
    let mut sizes = [0x12, 0x16, 0x13];
    for size in &mut sizes {
        let Some(field) = scanner.field()? else { break };
        let value = u64::try_from(centimetres(field)?).ok().filter(|&value| value <= MAX_SIZE);
        *size = exponent(value.ok_or_else(|| expected("a size of up to 90000000 metres", field))?);
    }
    data.push(0);
    data.extend(sizes);
    for value in [latitude, longitude, altitude] {
        data.extend(value.to_be_bytes());
    }
    Ok(())
}

/// Degrees, minutes and seconds up to a letter, as thousandths of a second from 2^31.
fn angle(scanner: &mut Scanner<'_>, most: u32, letters: [u8; 2]) -> Result<u32, Problem> {
    const WHAT: &str = "degrees, minutes, seconds and N, S, E or W";
    let mut sum = 0_u64;
    for factor in [3_600_000, 60_000, 1_000, 0] {
        let field = scanner.need(WHAT)?;
        if let [letter] = field.raw
            && letters.contains(&letter.to_ascii_uppercase())
        {
            let half = 1_u64 << 31;
            let is_positive = letter.to_ascii_uppercase() == letters[0];
            let value = if is_positive { Some(half + sum) } else { half.checked_sub(sum) };
            let value = value.filter(|_| sum <= u64::from(most) * 3_600_000).map(|value| value as u32);
            return value.ok_or_else(|| expected(WHAT, field));
        }
        // Degrees and minutes are whole; minutes and seconds are less than 60.
        let is_part = |&value: &u64| match factor {
            3_600_000 => value.is_multiple_of(1_000),
            60_000 => value.is_multiple_of(1_000) && value < 60_000,
            _ => value < 60_000,
        };
        let value = thousandths(field.raw).filter(is_part).ok_or_else(|| expected(WHAT, field))?;
        sum += value * factor / 1_000;
    }
    Err(Problem::Ends(WHAT))
}

/// A number with up to three decimals, in thousandths.
fn thousandths(raw: &[u8]) -> Option<u64> {
    let dot = raw.iter().position(|&octet| octet == b'.').unwrap_or(raw.len());
    let decimals = raw.get(dot + 1..).unwrap_or_default();
    let factor = [1_000, 100, 10, 1].get(decimals.len())?;
    let fraction = if decimals.is_empty() { 0 } else { u64::from(decimal(decimals)?) };
    Some(u64::from(decimal(&raw[..dot])?) * 1_000 + fraction * factor)
}

/// Metres with up to two decimals and perhaps an `m`, in centimetres.
fn centimetres(field: Field<'_>) -> Result<i64, Problem> {
    let raw = field.raw.strip_suffix(b"m").unwrap_or(field.raw);
    let (sign, raw) = raw.strip_prefix(b"-").map_or((1, raw), |rest| (-1, rest));
    let value = thousandths(raw).ok_or_else(|| expected("metres", field))?;
    Ok(sign * (value / 10) as i64)
}

/// A size as mantissa and power of ten in centimetres (RFC 1876 §2).
fn exponent(mut centimetres: u64) -> u8 {
    let mut power = 0;
    while centimetres > 9 && power < 9 {
        centimetres /= 10;
        power += 1;
    }
    (centimetres.min(9) as u8) << 4 | power
}

/// SVCB and HTTPS: priority, target, parameters in the order of their keys (RFC 9460 §2.1, §2.2).
pub(super) fn service(scanner: &mut Scanner<'_>, origin: Option<&[u8]>, data: &mut Vec<u8>) -> Result<(), Problem> {
    data.extend((number(scanner, 65_535)? as u16).to_be_bytes());
    name(scanner.need("a target name")?, origin, data)?;
    let mut parameters = Vec::new();
    while let Some(field) = scanner.field()? {
        let parameter = parameter(scanner, field)?;
        if parameters.iter().any(|&(key, _)| key == parameter.0) {
            return Err(expected("each parameter once", field));
        }
        parameters.push(parameter);
    }
    parameters.sort_unstable_by_key(|&(key, _)| key);
    for (key, value) in parameters {
        data.extend(key.to_be_bytes());
        data.extend(u16::try_from(value.len()).map_err(|_| Problem::Long(value.len()))?.to_be_bytes());
        data.extend(value);
    }
    Ok(())
}

fn parameter(scanner: &mut Scanner<'_>, field: Field<'_>) -> Result<(u16, Vec<u8>), Problem> {
    const WHAT: &str = "a service parameter";
    let (name, mut value) = match field.raw.iter().position(|&octet| octet == b'=') {
        Some(at) => (&field.raw[..at], Field { raw: &field.raw[at + 1..], ..field }),
        None => (field.raw, Field { raw: b"", ..field }),
    };
    if field.raw.ends_with(b"=")
        && let Some(next) = scanner.peek_field()?
        && next.quoted
        && !next.apart
    {
        value = scanner.need(WHAT)?;
    }
    let key = service_key(name).ok_or_else(|| expected(WHAT, field))?;
    // The value of `keyN` is that on the wire, even where the key has a name (RFC 9460 §2.1).
    if name.starts_with(b"key") {
        let mut octets = Vec::new();
        unescape(value, &mut octets)?;
        return Ok((key, octets));
    }
    let value = service_value(key, value)?.ok_or_else(|| expected(WHAT, field))?;
    Ok((key, value))
}

fn service_key(name: &[u8]) -> Option<u16> {
    const KEYS: [&str; 9] =
        ["mandatory", "alpn", "no-default-alpn", "port", "ipv4hint", "ech", "ipv6hint", "dohpath", "ohttp"];
    let known = KEYS.iter().position(|key| key.as_bytes() == name).and_then(|at| u16::try_from(at).ok());
    // Numbers have no leading zeros (RFC 9460 §2.1).
    let digits = || name.strip_prefix(b"key").filter(|digits| digits.first() != Some(&b'0') || digits.len() == 1);
    known.or_else(|| decimal(digits()?).and_then(|value| u16::try_from(value).ok()))
}

/// The value of a parameter on the wire (RFC 9460 §7, §8); `None` for one that does not fit its key.
fn service_value(key: u16, field: Field<'_>) -> Result<Option<Vec<u8>>, Problem> {
    let mut value = Vec::new();
    if key == 5 {
        base64(&mut Scanner::new(field.raw), &mut value)?;
        return Ok(Some(value));
    }
    unescape(field, &mut value)?;
    let items = || value.split(|&octet| octet == b',');
    Ok(match key {
        0 => service_keys(items()),
        1 => protocols(&value),
        2 | 8 => value.is_empty().then(Vec::new),
        3 => decimal(&value).and_then(|port| u16::try_from(port).ok()).map(|port| port.to_be_bytes().to_vec()),
        4 => addresses(items(), |address: Ipv4Addr| address.octets().to_vec()),
        6 => addresses(items(), |address: Ipv6Addr| address.octets().to_vec()),
        _ => Some(value),
    })
}

fn service_keys<'a>(items: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut keys: Vec<u16> = items.map(service_key).collect::<Option<_>>()?;
    keys.sort_unstable();
    Some(keys.iter().flat_map(|key| key.to_be_bytes()).collect())
}

fn addresses<'a, T: std::str::FromStr>(
    items: impl Iterator<Item = &'a [u8]>,
    octets: impl Fn(T) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let parsed = items.map(|item| std::str::from_utf8(item).ok()?.parse().ok().map(&octets));
    parsed.collect::<Option<Vec<_>>>().map(|all| all.concat())
}

/// Protocol names separated by commas, with the escapes `\,` and `\\` (RFC 9460 §7.1.1), each with a length prefix.
fn protocols(value: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = vec![Vec::new()];
    let mut octets = value.iter().copied();
    while let Some(octet) = octets.next() {
        match octet {
            b',' => names.push(Vec::new()),
            b'\\' => names.last_mut()?.push(octets.next()?),
            _ => names.last_mut()?.push(octet),
        }
    }
    let mut wire = Vec::new();
    for name in names {
        wire.push(u8::try_from(name.len()).ok().filter(|&length| length > 0)?);
        wire.extend(name);
    }
    Some(wire)
}
