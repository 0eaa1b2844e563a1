//! Names of extended DNS errors (RFC 8914; IANA registry "Extended DNS Error Codes").

/// The name of an extended error, as the registry has it; `EDE n` of a code without one.
pub fn name(code: u16) -> String {
    NAMES.get(usize::from(code)).map_or_else(|| format!("EDE {code}"), |&name| name.to_owned())
}

/// By code, from 0. RFC 8914 §4, RFC 9276 §3.2 (27), RFC 9250 §4.5 (26); the last three by their registrations.
const NAMES: [&str; 31] = [
    "Other Error",
    "Unsupported DNSKEY Algorithm",
    "Unsupported DS Digest Type",
    "Stale Answer",
    "Forged Answer",
    "DNSSEC Indeterminate",
    "DNSSEC Bogus",
    "Signature Expired",
    "Signature Not Yet Valid",
    "DNSKEY Missing",
    "RRSIGs Missing",
    "No Zone Key Bit Set",
    "NSEC Missing",
    "Cached Error",
    "Not Ready",
    "Blocked",
    "Censored",
    "Filtered",
    "Prohibited",
    "Stale NXDomain Answer",
    "Not Authoritative",
    "Not Supported",
    "No Reachable Authority",
    "Network Error",
    "Invalid Data",
    "Signature Expired before Valid",
    "Too Early",
    "Unsupported NSEC3 Iterations Value",
    "Unable to conform to policy",
    "Synthesized",
    "Invalid Query Type",
];

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn codes_have_the_names_of_the_registry() {
        let names = [0, 3, 22, 26, 30, 31, 49_152].map(name);
        let expected = [
            "Other Error",
            "Stale Answer",
            "No Reachable Authority",
            "Too Early",
            "Invalid Query Type",
            "EDE 31",
            "EDE 49152",
        ];
        assert_eq!(names, expected);
    }
}
