//! What RFCs fix of record data beyond its form: lengths that follow from another field, and contents that no reader takes.

mod rules;

use super::name_length;
use crate::error::Wrong;
use crate::rtype;

/// Something wrong with a record's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Whether a zone with the record is refused, as BIND does; otherwise it is served with a warning.
    pub is_refused: bool,
    pub wrong: Wrong,
}

/// A zone with the record is refused.
const REFUSED: bool = true;
/// The record is served with a warning.
const ODD: bool = false;

/// The last field of some types, of variable length.
struct Last {
    types: &'static [u16],
    what: &'static str,
    /// Where it begins; behind a name from there on, if `behind_name`.
    at: usize,
    behind_name: bool,
    /// Octets that it has at least.
    least: usize,
    is_refused: bool,
    reference: &'static str,
    /// The octet that says how long it is.
    selector: usize,
    lengths: &'static [Length],
}

/// A value of the selector, the octets that the field then has, whether others are refused, and where this is written.
type Length = (u8, usize, bool, &'static str);

const PLAIN: Last = Last {
    types: &[],
    what: "",
    at: 0,
    behind_name: false,
    least: 1,
    is_refused: REFUSED,
    reference: "",
    selector: 0,
    lengths: &[],
};

/// Every last field with lengths of its own.
const LASTS: [Last; 13] = [
    Last {
        // DS, CDS, DLV, TA. CDS "0 0 0 00" deletes (RFC 8078 §4): its digest type, 0, has no length.
        types: &[rtype::DS, 59, 32769, 32768],
        what: "digest",
        at: 4,
        reference: "RFC 4034 5.1.4",
        selector: 3,
        lengths: &[
            (1, 20, REFUSED, "RFC 3658 2.4"),
            (2, 32, REFUSED, "RFC 4509 2.1"),
            (3, 32, ODD, "RFC 5933 5.1"),
            (4, 48, REFUSED, "RFC 6605 2"),
        ],
        ..PLAIN
    },
    Last {
        // SSHFP.
        types: &[44],
        what: "fingerprint",
        at: 2,
        is_refused: ODD,
        reference: "RFC 4255 3.1.3",
        selector: 1,
        lengths: &[(1, 20, REFUSED, "RFC 4255 3.1.2"), (2, 32, REFUSED, "RFC 6594 3.2")],
        ..PLAIN
    },
    Last {
        // ZONEMD.
        types: &[63],
        what: "digest",
        at: 6,
        least: 12,
        reference: "RFC 8976 2.2.4",
        selector: 5,
        lengths: &[(1, 48, REFUSED, "RFC 8976 2.2.3"), (2, 64, REFUSED, "RFC 8976 2.2.3")],
        ..PLAIN
    },
    Last {
        // TLSA, SMIMEA.
        types: &[52, 53],
        what: "association data",
        at: 3,
        reference: "RFC 6698 2.1.4",
        selector: 2,
        lengths: &[(1, 32, ODD, "RFC 6698 2.1.3"), (2, 64, ODD, "RFC 6698 2.1.3")],
        ..PLAIN
    },
    Last {
        // DNSKEY, CDNSKEY, RKEY.
        types: &[rtype::DNSKEY, 60, 57],
        what: "key",
        at: 4,
        reference: "RFC 4034 2.1.4",
        selector: 3,
        lengths: &[
            (13, 64, ODD, "RFC 6605 4"),
            (14, 96, ODD, "RFC 6605 4"),
            (15, 32, ODD, "RFC 8080 3"),
            (16, 57, ODD, "RFC 8080 3"),
        ],
        ..PLAIN
    },
    Last {
        // RRSIG, SIG.
        types: &[rtype::RRSIG, 24],
        what: "signature",
        at: 18,
        behind_name: true,
        reference: "RFC 4034 3.1.8",
        selector: 2,
        lengths: &[
            (13, 64, ODD, "RFC 6605 4"),
            (14, 96, ODD, "RFC 6605 4"),
            (15, 64, ODD, "RFC 8080 4"),
            (16, 114, ODD, "RFC 8080 4"),
        ],
        ..PLAIN
    },
    Last { types: &[37], what: "certificate", at: 5, reference: "RFC 4398 2", ..PLAIN },
    Last { types: &[61], what: "key", reference: "RFC 7929 2.3", ..PLAIN },
    Last { types: &[49], what: "identifier", reference: "RFC 4701 3.1", ..PLAIN },
    Last { types: &[22], what: "address", reference: "RFC 1706 5", ..PLAIN },
    Last { types: &[11], what: "data", least: 5, reference: "RFC 1035 3.4.2", ..PLAIN },
    Last { types: &[40], what: "data", least: 3, reference: "SINK, draft-eastlake-kitchen-sink", ..PLAIN },
    Last { types: &[256], what: "target", at: 4, is_refused: ODD, reference: "RFC 7553 4.4", ..PLAIN },
];

/// What is wrong with data that has the form of its type; names are uncompressed. What is refused comes first.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn judge(rtype: u16, data: &[u8]) -> Result<(), Fault> {
    match rtype {
        // By far the most, and nothing is to be said about them.
        rtype::A | rtype::AAAA | rtype::NS | rtype::CNAME | rtype::SOA | rtype::MX => Ok(()),
        _ => rules::judge(rtype, data).and_then(|()| last(rtype, data)),
    }
}

fn last(rtype: u16, data: &[u8]) -> Result<(), Fault> {
    let Some(last) = LASTS.iter().find(|last| last.types.contains(&rtype)) else { return Ok(()) };
    let Last { what, least, is_refused, reference, .. } = *last;
    let name = if last.behind_name { data.get(last.at..).and_then(name_length).unwrap_or(0) } else { 0 };
    let found = data.len().saturating_sub(last.at + name);
    let value = data.get(last.selector);
    let length = last.lengths.iter().find(|&&(one, wanted, ..)| Some(&one) == value && wanted != found);
    let length = length.map(|&(_, wanted, is_refused, reference)| Fault {
        is_refused,
        wrong: Wrong::Length { what, wanted, found, reference },
    });
    let short = (found < least).then_some(Fault { is_refused, wrong: Wrong::Short { what, least, found, reference } });
    match (length, short) {
        (Some(odd), Some(short)) if !odd.is_refused => Err(short),
        (Some(fault), _) | (None, Some(fault)) => Err(fault),
        (None, None) => Ok(()),
    }
}
