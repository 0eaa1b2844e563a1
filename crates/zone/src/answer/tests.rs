//! Tests of replies: each reads a zone from text, asks, and looks at the reply through `domain`.

use std::path::Path;

use domain::base::iana::Rtype;
use domain::base::message::Message;
use domain::base::{Name, ParsedName};
use domain::rdata::AllRecordData;
use ldplayer_core::message::QueryParts;

use super::*;
use crate::load;

fn zone(origin: &str, text: &str) -> Zone {
    let mut wire = Vec::new();
    ldplayer_core::name::parse(origin, &mut wire).unwrap();
    let records = load::text_of(text.as_bytes(), Path::new("zone"), Some(&wire), &mut |_| unreachable!()).unwrap();
    Zone::from_records(&records).unwrap().0
}

const PLAIN: &str = "\
$TTL 3600
@ SOA ns1 hostmaster 1 2 3 4 300
@ NS ns1
@ NS ns.other.
@ MX 10 mail
ns1 A 192.0.2.1
ns1 AAAA 2001:db8::1
mail A 192.0.2.2
www CNAME web
web A 192.0.2.3
loop CNAME pool
pool CNAME loop
out CNAME www.other.
a.b.ent A 192.0.2.4
*.wild TXT hello
sub NS ns.sub
sub NS ns1
ns.sub A 192.0.2.5
alias DNAME web.other.
here DNAME ent
";

/// Asks and shows: flags and rcode, then `section owner type` of each record, sorted within sections.
fn ask_with(zone: &Zone, name: &str, qtype: &str, edns: Option<(u16, bool)>, transport: Transport) -> String {
    let mut wire = Vec::new();
    ldplayer_core::name::parse(name, &mut wire).unwrap();
    let qtype = crate::rtype::parse(qtype.as_bytes()).unwrap();
    let mut query = Vec::new();
    QueryParts { id: 7, flags: 0, name: &wire, qtype, qclass: 1, edns }.compose(&mut query);
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let reply = respond(zone, &query, transport, &mut scratch, &mut out);
    assert!(reply.sends && reply.length == out.len());
    show(&out)
}

fn show(octets: &[u8]) -> String {
    let message = Message::from_octets(octets).unwrap();
    let header = message.header();
    let mut text = header.rcode().to_string();
    for (flag, name) in [(header.aa(), " aa"), (header.tc(), " tc")] {
        text.push_str(if flag { name } else { "" });
    }
    let sections = [message.answer().unwrap(), message.authority().unwrap(), message.additional().unwrap()];
    for (section, letter) in sections.into_iter().zip(["an", "ns", "ar"]) {
        let mut lines: Vec<String> = section
            .limit_to::<AllRecordData<_, ParsedName<_>>>()
            .map(Result::unwrap)
            .filter(|record| record.rtype() != Rtype::OPT)
            .map(|record| {
                let owner: Name<Vec<u8>> = domain::base::name::ToName::to_name(record.owner());
                let rtype = match record.data() {
                    AllRecordData::Rrsig(signature) => format!("RRSIG({})", signature.type_covered()),
                    _ => record.rtype().to_string(),
                };
                format!("; {letter} {owner} {rtype}")
            })
            .collect();
        lines.sort();
        text.extend(lines);
    }
    text
}

fn ask(zone: &Zone, name: &str, qtype: &str) -> String {
    ask_with(zone, name, qtype, Some((1232, false)), Transport::Udp)
}

#[test]
fn plain_answers_follow_rfc_1034() {
    let zone = zone("example", PLAIN);
    let servers = "; ns example NS; ns example NS; ar ns1.example A; ar ns1.example AAAA";
    for (name, qtype, wanted) in [
        ("web.example", "A", format!("NOERROR aa; an web.example A{servers}")),
        ("WWW.example", "A", format!("NOERROR aa; an WWW.example CNAME; an web.example A{servers}")),
        ("www.example", "CNAME", format!("NOERROR aa; an www.example CNAME{servers}")),
        ("www.example", "AAAA", "NOERROR aa; an www.example CNAME; ns example SOA".into()),
        ("out.example", "A", "NOERROR aa; an out.example CNAME".into()),
        ("loop.example", "A", "NOERROR aa; an loop.example CNAME; an pool.example CNAME".into()),
        ("web.example", "AAAA", "NOERROR aa; ns example SOA".into()),
        ("b.ent.example", "A", "NOERROR aa; ns example SOA".into()),
        ("none.example", "A", "NXDOMAIN aa; ns example SOA".into()),
        ("x.web.example", "A", "NXDOMAIN aa; ns example SOA".into()),
        ("x.y.wild.example", "TXT", format!("NOERROR aa; an x.y.wild.example TXT{servers}")),
        ("x.wild.example", "A", "NOERROR aa; ns example SOA".into()),
        ("wild.example", "TXT", "NOERROR aa; ns example SOA".into()),
        (
            "x.sub.example",
            "A",
            "NOERROR; ns sub.example NS; ns sub.example NS; ar ns.sub.example A; ar ns1.example A; ar ns1.example AAAA"
                .into(),
        ),
        ("sub.example", "DS", "NOERROR aa; ns example SOA".into()),
        ("x.alias.example", "A", "NOERROR aa; an alias.example DNAME; an x.alias.example CNAME".into()),
        (
            "a.b.here.example",
            "A",
            format!("NOERROR aa; an a.b.ent.example A; an a.b.here.example CNAME; an here.example DNAME{servers}"),
        ),
        (
            "example",
            "MX",
            format!(
                "NOERROR aa; an example MX{}",
                servers.replace("; ar ns1.example A;", "; ar mail.example A; ar ns1.example A;")
            ),
        ),
        ("example", "NS", "NOERROR aa; an example NS; an example NS; ar ns1.example A; ar ns1.example AAAA".into()),
        ("ns1.example", "A", "NOERROR aa; an ns1.example A; ns example NS; ns example NS; ar ns1.example AAAA".into()),
        ("www.other", "A", "REFUSED".into()),
        ("example", "ANY", "NOERROR aa tc".into()),
        ("example", "AXFR", "REFUSED".into()),
    ] {
        assert_eq!(ask(&zone, name, qtype), wanted, "{name} {qtype}");
    }
}
