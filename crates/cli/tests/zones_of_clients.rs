//! From what a resolver gave its clients to an Internet that gives them the same: `zones build --side clients`.

#[path = "common/command.rs"]
mod command;
#[path = "common/messages.rs"]
mod messages;

use std::fs;
use std::path::Path;

use command::{ldplayer, refusal, text};
use messages::{A, Exchange, capture, message, record, wire};
use serde_json::Value;

const CNAME: u16 = 5;
const MX: u16 = 15;
const AAAA: u16 = 28;
/// QR, RD and RA.
const RESOLVED: u16 = 0x8180;
const NXDOMAIN: u16 = 3;

fn soa(zone: &str) -> Vec<u8> {
    let numbers = [7_u32, 1_800, 900, 604_800, 300].map(u32::to_be_bytes).concat();
    record(zone, 6, 300, &[wire("ns.example.com"), wire("mail.example.com"), numbers].concat())
}

/// A stub's questions, and a resolver's answers.
fn asked() -> Vec<Exchange> {
    let one = |question, flags, answers: &[Vec<u8>], authorities: &[Vec<u8>]| Exchange {
        time: 1_000.0,
        server: [10, 0, 0, 53],
        query: message(0x0100, question, [&[]; 3]),
        response: message(RESOLVED | flags, question, [answers, authorities, &[]]),
    };
    let address = |name, last| record(name, A, 77, &[203, 0, 113, last]);
    let mx = [&[0, 10][..], &wire("mail.example.com")].concat();
    vec![
        one(
            ("www.example.co.uk", A),
            0,
            &[record("www.example.co.uk", CNAME, 300, &wire("c.cdn.example.net")), address("c.cdn.example.net", 1)],
            &[],
        ),
        one(("www.example.com", A), 0, &[address("www.example.com", 2)], &[]),
        one(("www.example.com", AAAA), 0, &[], &[soa("example.com")]),
        one(("example.com", MX), 0, &[record("example.com", MX, 60, &mx)], &[]),
        one(("none.example.com", A), NXDOMAIN, &[], &[soa("example.com")]),
        one(("no-such-domain.com", A), NXDOMAIN, &[], &[soa("com")]),
        one(("host.no-such-tld", A), NXDOMAIN, &[], &[soa(".")]),
        one(
            ("34.216.184.93.in-addr.arpa", 12),
            0,
            &[record("34.216.184.93.in-addr.arpa", 12, 60, &wire("www.example.com"))],
            &[],
        ),
        one(("deep.sub.example.org", AAAA), 0, &[], &[soa("sub.example.org")]),
        one(("failed.example.org", A), 2, &[], &[]),
    ]
}

fn built(folder: &Path, more: &[&str]) -> Value {
    capture(&folder.join("clients.pcap"), &asked());
    let arguments = [&["zones", "build", "clients.pcap", "--side", "clients", "-o", "zones", "--json"], more].concat();
    serde_json::from_str(&text(folder, &arguments)).unwrap()
}

fn zones(report: &Value) -> Vec<&str> {
    report["zones"].as_array().unwrap().iter().map(|zone| zone["zone"].as_str().unwrap()).collect()
}

#[test]
fn zones_begin_at_suffixes_at_registered_names_and_where_a_response_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let report = built(folder.path(), &[]);
    let mut found = zones(&report);
    found.sort_unstable();
    let mut wanted = [
        ".",
        "com.",
        "example.com.",
        "net.",
        "example.net.",
        "uk.",
        "co.uk.",
        "example.co.uk.",
        "org.",
        "example.org.",
        "sub.example.org.",
        "arpa.",
        "in-addr.arpa.",
        "93.in-addr.arpa.",
    ];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    assert_eq!((&report["of_clients"], &report["servers"]), (&true.into(), &1.into()));
    assert_eq!((&report["ignored"]["failed"], &report["unverified"]), (&1.into(), &Value::Array(Vec::new())));
    let made = &report["made"];
    assert!(made["invented_address"].as_array().unwrap().len() >= wanted.len() - 1, "{made}");
    let zone = fs::read_dir(folder.path().join("zones")).unwrap().map(|file| file.unwrap().path());
    let text: String = zone
        .filter(|file| file.extension().is_some_and(|end| end == "zone"))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    assert!(
        text.contains("www.example.com. 77 A 203.0.113.2") && text.contains("c.cdn.example.net. 77 A 203.0.113.1"),
        "{text}"
    );
    let said = text_of_build(folder.path());
    assert!(said.contains("captured between resolver and clients; servers and delegations are made up\n"), "{said}");
}

fn text_of_build(folder: &Path) -> String {
    text(folder, &["zones", "build", "clients.pcap", "--side", "clients", "-o", "zones"])
}

/// All stock resolvers find the answers of the recording there, and nothing else.
#[test]
fn stock_resolvers_give_clients_the_recorded_answers() {
    let folder = tempfile::tempdir().unwrap();
    built(folder.path(), &[]);
    for resolver in ["unbound", "bind-resolver", "knot-resolver", "pdns-recursor"] {
        let arguments = [
            "zones",
            "check",
            "zones",
            "--trace",
            "clients.pcap",
            "--resolver",
            resolver,
            "--json",
            "--without",
            "nsd,bind",
        ];
        let output = ldplayer(folder.path(), &arguments);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{resolver}: {}", String::from_utf8_lossy(&output.stderr)));
        let resolved = &report["resolver"];
        assert_eq!(
            (&resolved["compared"], &resolved["as_recorded"]),
            (&10.into(), &9.into()),
            "{resolver}: {resolved}"
        );
        // What failed then is not in the zones.
        assert_eq!(resolved["differ"].as_object().unwrap().len(), 1, "{resolver}: {resolved}");
    }
}

#[test]
fn a_list_of_suffixes_may_be_given_and_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("list.dat"), "// ours\ncom\nexample.com\n").unwrap();
    let report = built(folder.path(), &["--suffixes", "list.dat"]);
    let found = zones(&report);
    assert!(found.contains(&"www.example.com.") && !found.contains(&"example.co.uk."), "{found:?}");
    fs::write(folder.path().join("list.dat"), "com\na..b\n").unwrap();
    let line = refusal(
        folder.path(),
        &["zones", "build", "clients.pcap", "--side", "clients", "--suffixes", "list.dat", "-o", "other"],
    );
    assert!(line.contains("list.dat: line 2: `a..b` is no public suffix"), "{line}");
}
