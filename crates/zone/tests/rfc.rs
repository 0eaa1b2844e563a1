//! The examples of RFC 4035, RFC 4592, RFC 5155 and RFC 6672, as scenarios in the manner of Deckard's `.rpl` files.

use std::path::Path;

use domain::base::iana::Rtype;
use domain::base::message::RecordSection;
use domain::base::name::ToName;
use domain::base::{Message, Name, ParsedName};
use domain::rdata::AllRecordData;
use ldplayer_core::message::QueryParts;
use ldplayer_core::name;
use ldplayer_zone::{ReplyKind, Scratch, Transport, Zone, load, respond, rtype};

fn zone(text: &str, origin: &str) -> Zone {
    let records =
        load::text_of(text.as_bytes(), Path::new("zone"), Some(&wire(origin)), &mut |_| unreachable!()).unwrap();
    Zone::from_records(&records).unwrap().0
}

fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::parse(text, &mut wire).unwrap();
    wire
}

fn ask(zone: &Zone, name: &str, qtype: &str, dnssec_ok: bool) -> (Vec<u8>, ReplyKind) {
    let qtype = rtype::parse(qtype.as_bytes()).unwrap();
    let mut query = Vec::new();
    let edns = Some((4096, dnssec_ok));
    QueryParts { id: 1, flags: 0, name: &wire(name), qtype, qclass: 1, edns }.compose(&mut query);
    let mut out = Vec::new();
    let kind = respond(zone, &query, Transport::Tcp, &mut Scratch::default(), &mut out).kind;
    (out, kind)
}

/// The records of a section as `owner IN TYPE`, signatures with the type that they cover, sorted.
fn records(section: RecordSection<'_, [u8]>) -> Vec<String> {
    let all = section.limit_to::<AllRecordData<_, ParsedName<_>>>().map(Result::unwrap);
    let mut lines: Vec<String> = all
        .filter(|record| record.rtype() != Rtype::OPT)
        .map(|record| {
            let owner: Name<Vec<u8>> = record.owner().to_name();
            let covered = match record.data() {
                AllRecordData::Rrsig(signature) => format!(" {}", signature.type_covered()),
                _ => String::new(),
            };
            format!("{}. IN {}{covered}", owner.to_string().to_ascii_lowercase(), record.rtype())
        })
        .collect();
    lines.sort();
    lines
}

/// An entry of a scenario.
#[derive(Default)]
struct Entry<'a> {
    note: &'a str,
    flags: Vec<&'a str>,
    question: &'a str,
    sections: [Vec<String>; 3],
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let (mut entries, mut note, mut section) = (Vec::new(), "", "");
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.split_once(' ').unwrap_or((line, "")) {
            (";", rest) => note = rest,
            ("ENTRY_BEGIN", _) => entries.push(Entry { note, ..Entry::default() }),
            ("ENTRY_END", _) => {}
            ("REPLY", rest) => entries.last_mut().unwrap().flags = rest.split(' ').collect(),
            ("SECTION", rest) => section = rest,
            _ if section == "QUESTION" => entries.last_mut().unwrap().question = line,
            _ => {
                let at = ["ANSWER", "AUTHORITY", "ADDITIONAL"].iter().position(|&name| name == section).unwrap();
                entries.last_mut().unwrap().sections[at].push(line.to_owned());
            }
        }
    }
    entries
}

fn play(zone: &Zone, scenario: &str) {
    let entries = entries(scenario);
    assert!(entries.len() >= 8);
    for entry in entries {
        let (name, qtype) = entry.question.split_once(" IN ").unwrap();
        let (octets, _) = ask(zone, name, qtype, entry.flags.contains(&"DO"));
        let message = Message::from_slice(&octets).unwrap();
        let header = message.header();
        assert_eq!(header.aa(), entry.flags.contains(&"AA"), "{}", entry.note);
        assert_eq!(header.rcode().to_string(), *entry.flags.last().unwrap(), "{}", entry.note);
        let found =
            [message.answer().unwrap(), message.authority().unwrap(), message.additional().unwrap()].map(records);
        let mut wanted = entry.sections;
        wanted.iter_mut().for_each(|lines| lines.sort());
        assert_eq!(found, wanted, "{}", entry.note);
    }
}

#[test]
fn rfc_4035_appendix_b() {
    play(&zone(include_str!("zones/rfc4035.zone"), "example."), include_str!("scenarios/rfc4035.rpl"));
}

#[test]
fn rfc_5155_appendix_b() {
    play(&zone(include_str!("zones/rfc5155.zone"), "example."), include_str!("scenarios/rfc5155.rpl"));
}

#[test]
fn rfc_4592_section_2_2() {
    play(&zone(include_str!("zones/rfc4592.zone"), "example."), include_str!("scenarios/rfc4592.rpl"));
}

/// RFC 6672 §2.2, table 1: what a DNAME makes of a name. The zone is the root, so that all names are within it.
#[test]
fn rfc_6672_table_1() {
    for (name, owner, target, result) in [
        ("com.", "example.com.", "example.net.", None),
        ("example.com.", "example.com.", "example.net.", None),
        ("a.example.com.", "example.com.", "example.net.", Some("a.example.net.")),
        ("a.b.example.com.", "example.com.", "example.net.", Some("a.b.example.net.")),
        ("ab.example.com.", "b.example.com.", "example.net.", None),
        ("foo.example.com.", "example.com.", "example.net.", Some("foo.example.net.")),
        ("a.x.example.com.", "x.example.com.", "example.net.", Some("a.example.net.")),
        ("a.example.com.", "example.com.", "y.example.net.", Some("a.y.example.net.")),
        ("cyc.example.com.", "example.com.", "example.com.", Some("cyc.example.com.")),
        ("cyc.example.com.", "example.com.", "c.example.com.", Some("cyc.c.example.com.")),
        ("shortloop.x.x.", "x.", ".", Some("shortloop.x.")),
        ("shortloop.x.", "x.", ".", Some("shortloop.")),
    ] {
        let text = format!(". 60 SOA a. b. 1 2 3 4 5\n. 60 NS a.\n{owner} 60 DNAME {target}\n");
        let (octets, _) = ask(&zone(&text, "."), name, "CNAME", false);
        let message = Message::from_octets(octets).unwrap();
        let answer = message.answer().unwrap().limit_to::<domain::rdata::Cname<ParsedName<_>>>();
        let found = answer
            .map(Result::unwrap)
            .next()
            .map(|cname| (cname.owner().to_string(), cname.data().cname().to_string(), cname.ttl()));
        let plain = |name: &str| name.trim_end_matches('.').to_owned();
        let wanted = result.map(|result| (plain(name), plain(result), domain::base::Ttl::from_secs(60)));
        assert_eq!(found, wanted, "{name} with {owner} DNAME {target}");
    }
}

/// RFC 6672 §2.2: a name that becomes too long.
#[test]
fn a_name_made_too_long_is_yxdomain() {
    let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(50)].join(".");
    let text = format!(". 60 SOA a. b. 1 2 3 4 5\n. 60 NS a.\nx. 60 DNAME {long}.\n");
    let zone = zone(&text, ".");
    let (octets, kind) = ask(&zone, &format!("{}.x.", "e".repeat(20)), "A", false);
    assert_eq!((octets[3] & 0xf, kind), (6, ReplyKind::YxDomain));
    assert_eq!(octets[6..8], [0, 1], "the DNAME is there");
    assert_eq!(ask(&zone, "eeeeeeeee.x.", "A", false).1, ReplyKind::NxDomain);
}
