//! Where record data holds names: which may be compressed, and which need additional addresses.

use crate::rdata::name_length;
use crate::rtype;

/// The names at the start of record data that a response may compress: in types of RFC 1035 only (RFC 3597 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// None.
    Plain,
    /// Names behind some octets: how many octets, how many names.
    Names(u8, u8),
}

impl Layout {
    /// That of a type.
    pub const fn of(rtype: u16) -> Self {
        match rtype {
            // NS, MD, MF, CNAME, MB, MG, MR, PTR.
            rtype::NS | 3 | 4 | rtype::CNAME | rtype::MB | 8 | 9 | 12 => Self::Names(0, 1),
            // SOA, MINFO.
            rtype::SOA | 14 => Self::Names(0, 2),
            rtype::MX => Self::Names(2, 1),
            _ => Self::Plain,
        }
    }
}

/// Where the name begins whose addresses are useful with a record of this type, as in RFC 1035 §3.3, RFC 2782, RFC 1183,
/// RFC 2230, RFC 9460 §4.1; `None` for a type without such a name.
pub(crate) const fn target_offset(rtype: u16) -> Option<usize> {
    Some(match rtype {
        rtype::NS | rtype::MB => 0,
        // AFSDB, SVCB, HTTPS among them.
        rtype::MX | 18 | rtype::RT | rtype::KX | 64 | 65 => 2,
        rtype::SRV => 6,
        _ => return None,
    })
}

/// The target name in a record's data.
pub(crate) fn target(rtype: u16, data: &[u8]) -> Option<&[u8]> {
    let rest = data.get(target_offset(rtype)?..)?;
    rest.get(..name_length(rest)?)
}
