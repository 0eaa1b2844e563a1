//! What is odd about a zone that can be served all the same.

use std::fmt;
use std::path::PathBuf;

/// Something to tell whoever made the zone. One line: the file, the line, what is odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, or an included one.
    pub file: PathBuf,
    /// The line, from 1; 0 when it is about the whole zone.
    pub line: u32,
    /// What was found.
    pub oddity: Oddity,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.oddity),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.oddity),
        }
    }
}

/// What can be odd. Names are in presentation form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Oddity {
    /// A record whose owner is not in the zone (RFC 1035 §5.2).
    #[error("`{0}` is out of the zone: the record is left out")]
    OutOfZone(String),
    /// A CNAME with other data (RFC 1034 §3.6.2).
    #[error("`{0}` has a CNAME and {1}: a query for {1} gets the latter, other queries get the CNAME (RFC 1034 3.6.2)")]
    CnameAndOther(String, String),
    /// More than one CNAME or DNAME (RFC 2181 §10.1, RFC 6672 §2.4).
    #[error("`{0}` has more than one {1}: only the first is followed")]
    SecondAlias(String, String),
    /// Records of one set with several TTLs (RFC 2181 §5.2).
    #[error("the {1} records of `{0}` have several TTLs: the lowest is taken for all (RFC 2181 5.2)")]
    TtlsDiffer(String, String),
    /// A name server in the delegated zone itself without an address (RFC 9471).
    #[error("`{0}` is delegated to `{1}`, which is below it and has no address here: it cannot be reached")]
    NoGlue(String, String),
    /// Data below a delegation or a DNAME that is no glue.
    #[error("`{0}` is below `{1}`, which is delegated or has a DNAME: it is not served")]
    Occluded(String, String),
    /// No NS records at the apex (RFC 1034 §4.2.1).
    #[error("the zone `{0}` has no NS record at its apex (RFC 1034 4.2.1)")]
    NoApexNs(String),
    /// Signatures outside of their time (RFC 4034 §3.1.5).
    #[error(
        "{count} of {total} signatures are outside of their time, such as that of {rtype} at `{owner}`, valid from {from} \
         to {to}: sign the zone anew, or give validating resolvers a time within (--fake-time)"
    )]
    SignatureTime {
        /// How many.
        count: usize,
        /// Of how many.
        total: usize,
        /// Type covered by the first of them.
        rtype: String,
        /// Its owner.
        owner: String,
        /// When it begins to be valid (RFC 3339).
        from: String,
        /// When it ends to be (RFC 3339).
        to: String,
    },
    /// More findings than are listed.
    #[error("and {0} more like these")]
    More(usize),
}
