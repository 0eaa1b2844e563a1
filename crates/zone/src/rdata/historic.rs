//! Rare types with a format of their own: WKS (RFC 1035), NSAP (RFC 1706) and AMTRELAY (RFC 8777).

use super::fields::{decimal, expected, hex_digit, ipv4, number};
use super::special;
use crate::error::Problem;
use crate::scan::{Field, Scanner};

/// Protocols that have services, as the mnemonics of WKS are (RFC 1035 §3.4.2).
const PROTOCOLS: [(&str, u8); 2] = [("tcp", 6), ("udp", 17)];
/// Services of RFC 1010, which zone files name, by the names that systems have for them; others are written as numbers.
const SERVICES: [(&str, u16); 42] = [
    ("echo", 7),
    ("discard", 9),
    ("systat", 11),
    ("daytime", 13),
    ("netstat", 15),
    ("qotd", 17),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("rlp", 39),
    ("nameserver", 42),
    ("nicname", 43),
    ("whois", 43),
    ("tacacs", 49),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("http", 80),
    ("kerberos", 88),
    ("hostnames", 101),
    ("iso-tsap", 102),
    ("rtelnet", 107),
    ("pop2", 109),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("sftp", 115),
    ("uucp-path", 117),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap2", 143),
    ("snmp", 161),
];

/// WKS: address, protocol, and the ports of services as a bitmap (RFC 1035 §3.4.2).
pub(super) fn services(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    const PROTOCOL: &str = "`tcp`, `udp` or a protocol number";
    const SERVICE: &str = "a service of RFC 1010 or a port number";
    ipv4(scanner, data)?;
    let field = scanner.need(PROTOCOL)?;
    let known = named(&PROTOCOLS, field).or_else(|| u8::try_from(decimal(field.raw)?).ok());
    data.push(known.ok_or_else(|| expected(PROTOCOL, field))?);
    let mut bitmap = Vec::new();
    while let Some(field) = scanner.field()? {
        let known = named(&SERVICES, field).or_else(|| u16::try_from(decimal(field.raw)?).ok());
        let port = usize::from(known.ok_or_else(|| expected(SERVICE, field))?);
        if bitmap.len() <= port / 8 {
            bitmap.resize(port / 8 + 1, 0);
        }
        bitmap[port / 8] |= 0x80_u8 >> (port % 8);
    }
    data.extend(bitmap);
    Ok(())
}

fn named<T: Copy>(all: &[(&str, T)], field: Field<'_>) -> Option<T> {
    let found = all.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(field.raw));
    found.map(|&(_, value)| value)
}

/// NSAP: octets in base 16 behind `0x`, with dots anywhere between them (RFC 1706 §5).
pub(super) fn nsap(scanner: &mut Scanner<'_>, data: &mut Vec<u8>) -> Result<(), Problem> {
    const WHAT: &str = "an address in hexadecimal after 0x";
    let field = scanner.need(WHAT)?;
    let digits = field.raw.strip_prefix(b"0x").or_else(|| field.raw.strip_prefix(b"0X"));
    let digits: Option<Vec<u8>> =
        digits.and_then(|raw| raw.iter().filter(|&&octet| octet != b'.').map(|&octet| hex_digit(octet)).collect());
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len() % 2 == 0);
    let digits = digits.ok_or_else(|| expected(WHAT, field))?;
    data.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
    Ok(())
}

/// AMTRELAY: precedence, whether it is optional to discover others, type of the relay, relay (RFC 8777 §4).
pub(super) fn relay(scanner: &mut Scanner<'_>, origin: Option<&[u8]>, data: &mut Vec<u8>) -> Result<(), Problem> {
    data.push(number(scanner, 255)? as u8);
    const OPTIONAL: &str = "0 or 1 for the discovery flag";
    let field = scanner.need(OPTIONAL)?;
    let optional = match field.raw {
        b"0" => 0,
        b"1" => 0x80,
        _ => return Err(expected(OPTIONAL, field)),
    };
    let kind = number(scanner, 255)? as u8;
    data.push(optional | kind);
    special::gateway_host(kind, "a relay of the type given", scanner, origin, data)
}
