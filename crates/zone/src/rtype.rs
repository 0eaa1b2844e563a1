//! Record types with special handling, and all mnemonics.

use domain::base::iana::Rtype;

/// A host address (RFC 1035 §3.4.1).
pub const A: u16 = 1;
/// A name server (RFC 1035 §3.3.11).
pub const NS: u16 = 2;
/// An alias (RFC 1035 §3.3.1).
pub const CNAME: u16 = 5;
/// The start of a zone (RFC 1035 §3.3.13).
pub const SOA: u16 = 6;
/// A mailbox's host (RFC 1035 §3.3.3).
pub const MB: u16 = 7;
/// A mail exchange (RFC 1035 §3.3.9).
pub const MX: u16 = 15;
/// Text (RFC 1035 §3.3.14).
pub const TXT: u16 = 16;
/// An X.25 address (RFC 1183 §3.1).
pub const X25: u16 = 19;
/// An ISDN address (RFC 1183 §3.2).
pub const ISDN: u16 = 20;
/// A route through (RFC 1183 §3.3).
pub const RT: u16 = 21;
/// An IPv6 host address (RFC 3596).
pub const AAAA: u16 = 28;
/// A service (RFC 2782).
pub const SRV: u16 = 33;
/// A key exchanger (RFC 2230).
pub const KX: u16 = 36;
/// An alias of a subtree (RFC 6672).
pub const DNAME: u16 = 39;
/// The pseudo-record of EDNS (RFC 6891).
pub const OPT: u16 = 41;
/// A delegation signer (RFC 4034 §5).
pub const DS: u16 = 43;
/// A signature (RFC 4034 §3).
pub const RRSIG: u16 = 46;
/// An authenticated denial of existence (RFC 4034 §4).
pub const NSEC: u16 = 47;
/// A zone key (RFC 4034 §2).
pub const DNSKEY: u16 = 48;
/// A hashed denial of existence (RFC 5155 §3).
pub const NSEC3: u16 = 50;
/// Parameters of NSEC3 (RFC 5155 §4).
pub const NSEC3PARAM: u16 = 51;
/// An incremental transfer (RFC 1995).
pub const IXFR: u16 = 251;
/// A zone transfer (RFC 5936).
pub const AXFR: u16 = 252;
/// All records (RFC 1035 §3.2.3, RFC 8482).
pub const ANY: u16 = 255;

/// Whether a name has one record of the type at most because it is an alias (RFC 2181 §10.1, RFC 6672 §2.4).
pub(crate) const fn is_alias(rtype: u16) -> bool {
    matches!(rtype, CNAME | DNAME)
}

/// What stands for a type in zone files: `A`, `TYPE65534`.
pub fn name_of(rtype: u16) -> String {
    Rtype::from_int(rtype).to_string()
}

/// The type of a mnemonic or of `TYPEn` (RFC 3597 §5), in any case.
pub fn parse(text: &[u8]) -> Option<u16> {
    // The library knows this one by its number only.
    let odd = || text.eq_ignore_ascii_case(b"NSAP-PTR").then_some(23);
    common(text).or_else(|| Rtype::from_mnemonic(text).map(Rtype::to_int)).or_else(odd).or_else(|| numbered(text))
}

/// The types that fill zone files, found without the walk through all mnemonics.
fn common(text: &[u8]) -> Option<u16> {
    Some(match text {
        b"A" => A,
        b"NS" => NS,
        b"AAAA" => AAAA,
        b"DS" => DS,
        b"RRSIG" => RRSIG,
        b"NSEC" => NSEC,
        b"NSEC3" => NSEC3,
        b"CNAME" => CNAME,
        b"MX" => MX,
        _ => return None,
    })
}

fn numbered(text: &[u8]) -> Option<u16> {
    let (prefix, digits) = text.split_at_checked(4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    (prefix.eq_ignore_ascii_case(b"TYPE") && digits.bytes().all(|octet| octet.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_and_numbers_are_types() {
        for (text, rtype) in
            [("A", 1), ("aaaa", 28), ("nsec3param", 51), ("TYPE65534", 65534), ("type1", 1), ("URI", 256)]
        {
            assert_eq!(parse(text.as_bytes()), Some(rtype), "{text}");
        }
        for text in ["", "TYPE", "TYPE65536", "TYPE+1", "NOPE", "IN"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(name_of(46), "RRSIG");
    }
}
