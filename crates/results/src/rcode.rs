//! Names of response codes (IANA registry "DNS RCODEs").

/// The answer to the question is in the response (RFC 1035 §4.1.1).
pub const NOERROR: u16 = 0;
/// The name does not exist.
pub const NXDOMAIN: u16 = 3;

/// The name of a response code, `RCODEn` when it has none.
pub fn name(code: u16) -> String {
    match NAMES.binary_search_by_key(&code, |&(code, _)| code) {
        Ok(at) => NAMES[at].1.to_owned(),
        Err(_) => format!("RCODE{code}"),
    }
}

/// The code of a name, in whatever case; `RCODEn` of any.
pub fn code(name: &str) -> Option<u16> {
    let named = NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|&(code, _)| code);
    let number =
        || name.get(..5).filter(|head| head.eq_ignore_ascii_case("rcode")).and_then(|_| name[5..].parse().ok());
    named.or_else(number)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|&(_, name)| name)
}

/// RFC 1035 §4.1.1, RFC 2136 §2.2, RFC 6891 §9 (16 in responses), RFC 8490 §10.3, RFC 2930 §2.6, RFC 8945 §3, RFC 7873 §8.
const NAMES: [(u16, &str); 20] = [
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (7, "YXRRSET"),
    (8, "NXRRSET"),
    (9, "NOTAUTH"),
    (10, "NOTZONE"),
    (11, "DSOTYPENI"),
    (16, "BADVERS"),
    (17, "BADKEY"),
    (18, "BADTIME"),
    (19, "BADMODE"),
    (20, "BADNAME"),
    (21, "BADALG"),
    (22, "BADTRUNC"),
    (23, "BADCOOKIE"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn codes_have_their_registered_names() {
        let names = [0, 3, 16, 23, 12, 3841].map(super::name);
        assert_eq!(names, ["NOERROR", "NXDOMAIN", "BADVERS", "BADCOOKIE", "RCODE12", "RCODE3841"]);
        let codes = ["noerror", "NXDomain", "rcode12", "rcode3", "rcode", "rcode70000", "bad"].map(super::code);
        assert_eq!(codes, [Some(0), Some(3), Some(12), Some(3), None, None, None]);
    }
}
