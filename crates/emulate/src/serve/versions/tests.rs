//! What versions.json says of a zone set.

use std::path::Path;

use super::*;
use crate::serve::set::ZoneSet;
use ldplayer_core::name::Presentation;

const ZONE: &str = "$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";

fn set(versions: &str) -> Result<ZoneSet, SetError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("example.zone"), ZONE).unwrap();
    std::fs::write(folder.path().join(FILE), versions).unwrap();
    ZoneSet::load(folder.path())
}

fn of_www(versions: &str) -> String {
    format!(
        r#"{{"start": "2026-01-31T12:00:00Z", "sets": [{{"zone": "example.", "name": "WWW.example.", "type": "A", "versions": [{versions}]}}]}}"#
    )
}

#[test]
fn the_versions_of_a_set_come_with_its_zones() {
    let version = r#"{"ttl": 5, "records": ["192.0.2.3", "192.0.2.4"], "count": 2, "from": [0, 1.5], "resolvers": ["2001:db8::1"], "subnets": ["198.51.100.0/24"]}"#;
    let set = set(&of_www(version)).unwrap();
    assert_eq!((set.varying(), set.recorded_ns()), (1, Some(1_769_860_800_000_000_000)));
    let content: Content = serde_json::from_str(&of_www(version)).unwrap();
    let (apex, read) = content.sets[0].read().unwrap();
    assert_eq!((Presentation(&apex).to_string(), read.rtype), ("example.".to_owned(), rtype::A));
    let version = &read.versions[0];
    assert_eq!(version.records, [[192, 0, 2, 3], [192, 0, 2, 4]]);
    assert_eq!((version.ttl, version.count, &version.from_ns[..]), (5, 2, &[0, 1_500_000_000][..]));
    assert_eq!(version.clients.len(), 2);
    let again: Content = serde_json::from_str(&serde_json::to_string(&content).unwrap()).unwrap();
    assert_eq!(again, content);
}

#[test]
fn texts_with_escapes_are_read_as_others() {
    let www = of_www(r#"{"ttl": 1, "records": ["192.0.2.3"]}"#);
    for name in ["ww\\u0077.example.", "\\\\119ww.example."] {
        assert_eq!(set(&www.replace("WWW.example.", name)).unwrap().varying(), 1, "{name}");
    }
}

#[test]
fn what_is_wrong_with_the_file_is_told_in_a_line() {
    let none = set(r#"{"sets": []}"#).unwrap();
    assert_eq!((none.varying(), none.recorded_ns()), (0, None));
    let of = |name: &str, rtype: &str| {
        format!(
            r#"{{"sets": [{{"zone": "example.", "name": "{name}", "type": "{rtype}", "versions": [{{"ttl": 1, "records": ["ns"]}}]}}]}}"#
        )
    };
    for (text, told) in [
        ("{".to_owned(), "EOF"),
        (
            of_www(r#"{"ttl": 1, "records": ["192.0.2"]}"#),
            "WWW.example. A: version 1: expected an IPv4 address, found `192.0.2`",
        ),
        (
            of_www(r#"{"ttl": 1, "records": ["192.0.2.1\nx A 192.0.2.2"]}"#),
            "version 1: unexpected field `x` after the end of the record data",
        ),
        (of_www(r#"{"ttl": 1, "records": []}"#), "www.example. A: a version needs at least one record"),
        (of_www(r#"{"ttl": 1, "records": ["192.0.2.1"], "subnets": ["x"]}"#), "`x` is not an address block"),
        (of_www(r#"{"ttl": 1, "records": ["192.0.2.1"], "seen": 3}"#), "unknown field `seen`"),
        (
            of_www(r#"{"ttl": 1, "records": ["192.0.2.1"], "seen": 3}"#).replace("\"name", "\n\n\"name"),
            "`subnets` at line 3",
        ),
        (of("no.example.", "TXT"), "no.example. TXT: the zone has no such records"),
        (of("example.", "NS"), "example. NS: records of this type have one version"),
        (of("example.", "NOTYPE"), "`NOTYPE` is no record type"),
        (
            of_www(r#"{"ttl": 1, "records": ["192.0.2.1"]}"#).replace("example.\", \"name", "test.\", \"name"),
            "the set has no zone test.",
        ),
    ] {
        let error = set(&text).unwrap_err().to_string();
        assert!(error.contains("versions.json: ") && error.contains(told), "{error}");
    }
    let error = set(r#"{"start": "yesterday", "sets": []}"#).unwrap_err().to_string();
    assert!(error.contains("versions.json: start `yesterday`: "), "{error}");
    assert!(Content::read(Path::new("no/such")).unwrap().is_none());
}
