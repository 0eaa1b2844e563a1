//! Oddities of a zone that do not keep it from being served.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Wrong;

/// An oddity of a zone. One line: the file, the line, the oddity.
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

/// Most findings that are listed for a zone.
const LISTED: usize = 100;

/// Findings up to a bound, and how many more there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
    more: usize,
}

impl Findings {
    /// Adds one, which is made if it is listed.
    pub(crate) fn add(&mut self, make: impl FnOnce() -> Finding) {
        if self.found.len() < LISTED { self.found.push(make()) } else { self.more += 1 }
    }

    /// All that are listed; the last tells of those that are not, in `file`.
    pub(crate) fn list(self, file: &Path) -> Vec<Finding> {
        let mut found = self.found;
        if self.more > 0 {
            found.push(Finding { file: file.to_owned(), line: 0, oddity: Oddity::More(self.more) });
        }
        found
    }
}

/// NSEC3 iteration count above which a zone is reported: resolvers accept at most 50 to 150 (RFC 9276 §3.2).
pub const MAX_ITERATIONS: u16 = 100;

/// What can be odd. Names are in presentation form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Oddity {
    /// A record whose owner is not in the zone (RFC 1035 §5.2).
    #[error("`{0}` is out of zone: the record is ignored")]
    OutOfZone(String),
    /// A record whose content an RFC rules out and stock servers take: its type, and the fault.
    #[error("odd {0} record, which is served as it is: {1}")]
    Content(String, Wrong),
    /// A record that no zone may have, and that is left out: its type, and the fault.
    #[error("invalid {0} record, which is left out: {1}")]
    LeftOut(String, Wrong),
    /// An NSEC3 record whose owner's first label is no hash (RFC 5155 §3).
    #[error("`{0}` does not begin with a hash: its NSEC3 record is ignored (RFC 5155 3)")]
    NoHash(String),
    /// A CNAME with other data (RFC 1034 §3.6.2).
    #[error("`{0}` has CNAME and {1} records: queries for {1} get the {1} records, others the CNAME (RFC 1034 3.6.2)")]
    CnameAndOther(String, String),
    /// More than one CNAME or DNAME (RFC 2181 §10.1, RFC 6672 §2.4).
    #[error("`{0}` has more than one {1} record: only the first is used")]
    SecondAlias(String, String),
    /// Records of one set with several TTLs (RFC 2181 §5.2).
    #[error("the {1} records of `{0}` have different TTLs: the lowest is used for all (RFC 2181 5.2)")]
    TtlsDiffer(String, String),
    /// A name server in the delegated zone itself without an address (RFC 9471).
    #[error("`{0}` is delegated to `{1}`, which is below it and has no glue: it cannot be reached")]
    NoGlue(String, String),
    /// Data below a delegation or a DNAME that is no glue.
    #[error("`{0}` is occluded by the delegation or DNAME at `{1}`: it is not served")]
    Occluded(String, String),
    /// A DS record where nothing is delegated (RFC 4035 §2.4).
    #[error(
        "`{0}` has a DS record but is not a delegation: the record has no effect, and zones sign refuses it (RFC 4035 2.4)"
    )]
    LoneDs(String),
    /// More iterations of NSEC3 than resolvers take (RFC 9276 §3.2).
    #[error(
        "NSEC3 with {0} extra iterations: each denial costs as many extra hashes per name, here for one name and at resolvers for three or more; with more \
        than {MAX_ITERATIONS}, resolvers treat the zone as insecure or answer SERVFAIL (RFC 9276 3.2): sign it without iterations (zones sign --nsec3)"
    )]
    Iterations(u16),
    /// No NS records at the apex (RFC 1034 §4.2.1).
    #[error("the zone `{0}` has no NS record at its apex (RFC 1034 4.2.1)")]
    NoApexNs(String),
    /// Signatures that are expired or not yet valid (RFC 4034 §3.1.5).
    #[error(
        "signatures expired or not yet valid: {count} of {total}, such as that of {rtype} at `{owner}`, valid from {from} \
        to {to}: sign the zone again, or run validating resolvers at an earlier or later time (--fake-time)"
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
        /// When it becomes valid (RFC 3339).
        from: String,
        /// When it expires (RFC 3339).
        to: String,
    },
    /// More findings than are listed.
    #[error("and {0} more like these")]
    More(usize),
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::records::Records;
    use crate::signature_times::signatures;
    use crate::{Zone, load};
    use jiff::Timestamp;

    fn records(text: &str) -> Records {
        let text = format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n{text}");
        load::text_of(text.as_bytes(), Path::new("z"), Some(b"\x07example\0"), &mut |_| unreachable!()).unwrap()
    }

    fn findings(text: &str) -> Vec<String> {
        let (_, found) = Zone::from_records(&records(text)).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_odd_is_told_with_its_place() {
        for (text, wanted) in [
            ("@ NS a.other.\nx.other. A 192.0.2.1\n", "z:4: `x.other.` is out of zone: the record is ignored"),
            (
                "@ NS a.other.\nx CNAME y\nx A 192.0.2.1\n",
                "z:4: `x.example.` has CNAME and A records: queries for A get the A records, others the CNAME (RFC 1034 3.6.2)",
            ),
            (
                "@ NS a.other.\nx 5 A 192.0.2.1\nx 6 A 192.0.2.2\n",
                "z:4: the A records of `x.example.` have different TTLs: the lowest is used for all (RFC 2181 5.2)",
            ),
            (
                "@ NS a.other.\nx NS ns.x\n",
                "z:4: `x.example.` is delegated to `ns.x.example.`, which is below it and has no glue: it cannot be reached",
            ),
            (
                "@ NS a.other.\nx NS a.other.\ny.x TXT t\n",
                "z:5: `y.x.example.` is occluded by the delegation or DNAME at `x.example.`: it is not served",
            ),
            (
                "@ NS a.other.\nx NSEC3 1 0 0 - 2vptu5timamqttgl4luu9kg21e0aor3s A\n",
                "z:4: `x.example.` does not begin with a hash: its NSEC3 record is ignored (RFC 5155 3)",
            ),
            (
                "@ NS a.other.\nx DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000\n",
                "z:4: `x.example.` has a DS record but is not a delegation: the record has no effect, and zones sign refuses it (RFC 4035 2.4)",
            ),
            (
                "@ NS a.other.\n@ NSEC3PARAM 1 0 101 -\n",
                "z:4: NSEC3 with 101 extra iterations: each denial costs as many extra hashes per name, here for one name and at resolvers for three or \
                 more; with more than 100, resolvers treat the zone as insecure or answer SERVFAIL (RFC 9276 3.2): sign it without iterations \
                 (zones sign --nsec3)",
            ),
            ("", "z: the zone `example.` has no NS record at its apex (RFC 1034 4.2.1)"),
        ] {
            assert_eq!(findings(text), [wanted], "{text}");
        }
        assert_eq!(findings("@ NS a\na A 192.0.2.1\nx NS a.x\na.x AAAA 2001:db8::1\n"), [""; 0]);
    }

    #[test]
    fn nsec3_iterations_up_to_a_hundred_are_not_told() {
        assert_eq!(findings("@ NS a.other.\n@ NSEC3PARAM 1 0 100 -\n"), [""; 0]);
    }

    #[test]
    fn of_many_findings_some_are_listed() {
        let text: String = (0..150).map(|number| format!("x{number}.other. A 192.0.2.1\n")).collect();
        let found = findings(&format!("@ NS a.other.\n{text}"));
        assert_eq!((found.len(), found.last().map(String::as_str)), (101, Some("z: and 50 more like these")));
    }

    #[test]
    fn signatures_are_looked_at_with_the_time_given() {
        let text = "x A 192.0.2.1\nx RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AA==\n";
        let (records, second) = (records(text), |text: &str| text.parse::<Timestamp>().unwrap().as_second());
        assert_eq!(signatures(&records, second("2025-01-01T00:00:00Z")), None);
        let wanted = "z:4: signatures expired or not yet valid: 1 of 1, such as that of A at `x.example.`, valid from \
                      2020-01-01T00:00:00Z to 2030-01-01T00:00:00Z: sign the zone again, or run validating \
                      resolvers at an earlier or later time (--fake-time)";
        for time in ["2019-12-31T23:59:59Z", "2030-01-01T00:00:01Z"] {
            assert_eq!(signatures(&records, second(time)).unwrap().to_string(), wanted);
        }
    }
}
