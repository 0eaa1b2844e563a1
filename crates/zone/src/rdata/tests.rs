//! Tests of record data: known examples, with `domain` as oracle.

use super::*;

fn data(text: &str) -> Result<Vec<u8>, Problem> {
    let (rtype, fields) = text.split_once(' ').unwrap_or((text, ""));
    let mut wire = Vec::new();
    let mut scanner = Scanner::new(fields.as_bytes());
    parse(crate::rtype::parse(rtype.as_bytes()).unwrap(), &mut scanner, Some(b"\x07example\0"), &mut wire)
        .map(|()| wire)
}

/// What `domain` reads from the same text, names uncompressed.
fn theirs(text: &str) -> Vec<u8> {
    use domain::base::rdata::ComposeRecordData;
    let mut file = domain::zonefile::inplace::Zonefile::from(format!("$ORIGIN example.\n@ 60 IN {text}\n").as_str());
    let domain::zonefile::inplace::Entry::Record(record) = file.next_entry().unwrap().unwrap() else { panic!() };
    let mut wire = Vec::new();
    record.data().compose_rdata(&mut wire).unwrap();
    wire
}

#[test]
fn domain_reads_the_same_data() {
    for text in [
        "A 192.0.2.1",
        "AAAA 2001:db8::1",
        "NS ns.other.",
        "NS ns",
        "SOA ns hostmaster.\\.x 2016100801 1800 900 604800 86400",
        "MX 10 mail",
        "TXT one \"two three\" f\\\"our \\010",
        "HINFO cpu os",
        "SRV 1 2 3 target",
        "NAPTR 100 50 \"s\" \"z3950+I2L+I2C\" \"\" _z3950._tcp",
        "DS 21707 8 1 6D92DD0D0DB0E392FA9D5F08 EA15BBD297B8CBE2",
        "DNSKEY 256 3 8 AwEAAYbinauHA9oUb4aGNtJIrepyGoYy 0OL01rvIhvo3RWN=",
        "RRSIG NSEC 8 0 86400 20161021170000 20161008160000 39291 . Zb3t0C6BEWG6GeY=",
        "NSEC aaa. NS SOA RRSIG NSEC DNSKEY TYPE1234 CAA",
        "NSEC3 1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG",
        "NSEC3PARAM 1 0 12 -",
        "CAA 0 issue \"ca.example; x=y\"",
        "TLSA 3 1 1 0102 0304",
        "SSHFP 4 2 0102",
        "ZONEMD 1 1 1 AABB",
        "SVCB 1 foo alpn=h2,h3 port=8004 ipv4hint=192.0.2.1,192.0.2.2 mandatory=port,alpn key65333=x",
        "HTTPS 0 svc",
        "IPSECKEY 10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtu",
        "RP admin txt",
        "DNAME other.",
        "OPENPGPKEY AQNRU3mG7TVTO2BkR47usntb102uFJtu",
        "TYPE65280 \\# 4 0a000001",
        "A \\# 4 0a000001",
    ] {
        assert_eq!(data(text).unwrap(), theirs(text), "{text}");
    }
}

#[test]
fn types_that_domain_lacks_are_read() {
    // The examples of RFC 1876 (Appendix A, MIT), 3123, 6742, 7043, 7553.
    let known: [(&str, &[u8]); 8] = [
        ("LOC 42 21 54 N 71 06 18 W -24m 30m", b"\0\x33\x16\x13\x89\x17\x2d\xd0\x70\xbe\x15\xf0\0\x98\x8d\x20"),
        ("APL 1:192.168.32.0/21 !1:192.168.38.0/28", b"\0\x01\x15\x03\xc0\xa8\x20\0\x01\x1c\x83\xc0\xa8\x26"),
        ("NID 10 0014:4fff:ff20:ee64", b"\0\x0a\0\x14\x4f\xff\xff\x20\xee\x64"),
        ("EUI48 00-00-5e-00-53-2a", b"\0\0\x5e\0\x53\x2a"),
        ("URI 10 1 \"ftp://x/\"", b"\0\x0a\0\x01ftp://x/"),
        ("AFSDB 1 db", b"\0\x01\x02db\x07example\0"),
        ("CERT PGP 0 0 AQID", b"\0\x03\0\0\0\x01\x02\x03"),
        ("HIP 2 200100107b 03AQ rvs", b"\x05\x02\0\x03\x20\x01\0\x10\x7b\xd3\x70\x10\x03rvs\x07example\0"),
    ];
    for (text, wire) in known {
        assert_eq!(data(text).as_deref(), Ok(wire), "{text}");
    }
}

#[test]
fn types_without_a_form_for_people_are_those_that_the_docs_name() {
    let docs = include_str!("../../../../docs/answers.md");
    let named = docs.split_once("GPOS and AMTRELAY").unwrap().1.split_once(" are supported in generic form").unwrap().0;
    let (_, list) = named.split_once("port number.").unwrap();
    let list: Vec<&str> = list.split([',', ' ', '\n']).filter(|word| !word.is_empty() && *word != "and").collect();
    let is_data = |rtype: &u16| !matches!(*rtype, rtype::OPT | 128..=255);
    let has_none = |rtype: &u16| grammar(*rtype).is_none() && !rtype::name_of(*rtype).starts_with("TYPE");
    let found: Vec<String> = (1..=u16::MAX).filter(is_data).filter(has_none).map(rtype::name_of).collect();
    assert_eq!(found, list);
    assert_eq!(
        data("DOA x").unwrap_err().to_string(),
        "the data format of DOA is unknown: write the data as \\# LENGTH HEX (RFC 3597)"
    );
}

#[test]
fn times_have_units() {
    assert_eq!(fields::seconds(b"1w2d3h4m5s"), Some(604_800 + 2 * 86_400 + 3 * 3_600 + 4 * 60 + 5));
    assert_eq!(fields::seconds(b"1H"), Some(3600));
    for bad in ["", "h", "1x", "1h2", "4294967296", "-1"] {
        assert_eq!(fields::seconds(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn wrong_data_is_told_by_what_is_wrong() {
    for (text, message) in [
        ("A 192.0.2", "expected an IPv4 address, found `192.0.2`"),
        ("A", "unexpected end of the entry, expected an IPv4 address"),
        ("A 192.0.2.1 x", "unexpected field `x` after the end of the record data"),
        ("MX 65536 a", "expected a number up to 65535, found `65536`"),
        ("NS a..b", "name `a..b` has an empty label"),
        ("DS 1 8 1 abc", "unexpected end of the entry, expected another hexadecimal digit"),
        ("A \\# 3 0a0000", "invalid data for type A"),
        ("A \\# 4 0a0000", "length 4 does not match the data, which has 3 bytes (RFC 3597 5)"),
        ("TYPE65280 abc", "the data format of TYPE65280 is unknown: write the data as \\# LENGTH HEX (RFC 3597)"),
        (
            "RRSIG A 8 0 1 20161321170000 20161008160000 1 . AA==",
            "expected a time as YYYYMMDDHHmmSS, found `20161321170000`",
        ),
    ] {
        assert_eq!(data(text).unwrap_err().to_string(), message, "{text}");
    }
}
