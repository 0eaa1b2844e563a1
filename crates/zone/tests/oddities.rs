//! Whatever a warning about a zone says is what is answered: each warning of the loader, with the answers it describes.

use std::fs;

use domain::base::message::Message;
use domain::base::{Name, ParsedName, Rtype};
use domain::rdata::AllRecordData;
use ldplayer_core::message::QueryParts;
use ldplayer_core::name;
use ldplayer_zone::load::{self, Reading};
use ldplayer_zone::{Records, Scratch, Transport, Zone, respond, rtype, signatures};

const SOA: &str = "ns example. 60 SOA a.example. b.example. 1 2 3 4 60";
const NS: &str = "ns example. 60 NS a.other.";

/// Records of the zone `example.`, read with `--keep-going` if so.
fn read(text: &str, keep_going: bool) -> Result<Records, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("z");
    fs::write(&file, format!("$TTL 60\n$ORIGIN example.\n@ SOA a b 1 2 3 4 60\n{text}")).unwrap();
    let reading = Reading { keep_going, ..Reading::default() };
    load::file_with(&file, None, reading).map_err(|error| bare(error.to_string()))
}

/// A message without its file.
fn bare(message: String) -> String {
    message.rsplit_once("/z:").map(|(_, rest)| rest.to_owned()).unwrap_or(message)
}

/// The zone with its NS record, and what is said about it: line and sentence, or the sentence alone.
fn zone(text: &str) -> (Zone, Vec<String>) {
    let records = read(&format!("@ NS a.other.\n{text}"), true).unwrap();
    let (zone, found) = Zone::from_records(&records).unwrap();
    (zone, found.iter().map(|finding| bare(finding.to_string())).collect())
}

/// RCODE, AA, and the records of the answer in their order, each with its section; with DO, all records of DNSSEC.
fn ask_with(zone: &Zone, qname: &str, qtype: &str, wants_dnssec: bool) -> String {
    let (mut wire, mut query) = (Vec::new(), Vec::new());
    name::parse(qname, &mut wire).unwrap();
    let qtype = rtype::parse(qtype.as_bytes()).unwrap();
    let edns = Some((1232, wants_dnssec));
    QueryParts { id: 7, flags: 0, name: &wire, qtype, qclass: 1, edns }.compose(&mut query);
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    respond(zone, &query, Transport::Udp, &mut scratch, &mut out);
    let message = Message::from_octets(&out[..]).unwrap();
    let header = message.header();
    let mut lines = vec![format!("{}{}", header.rcode(), if header.aa() { " aa" } else { "" })];
    let sections = [message.answer().unwrap(), message.authority().unwrap(), message.additional().unwrap()];
    for (section, letters) in sections.into_iter().zip(["an", "ns", "ar"]) {
        let records = section.limit_to::<AllRecordData<_, ParsedName<_>>>().map(Result::unwrap);
        for record in records.filter(|record| record.rtype() != Rtype::OPT) {
            let owner: Name<Vec<u8>> = domain::base::name::ToName::to_name(record.owner());
            let ttl = record.ttl().as_secs();
            lines.push(format!("{letters} {owner}. {ttl} {} {}", record.rtype(), record.data()));
        }
    }
    lines.join("; ").replace(". .", ".")
}

fn ask(zone: &Zone, qname: &str, qtype: &str) -> String {
    ask_with(zone, qname, qtype, false)
}

#[test]
fn records_out_of_zone_are_ignored() {
    let (zone, found) = zone("x.other. A 192.0.2.1\n");
    assert_eq!(found, ["5: `x.other.` is out of zone: the record is ignored"]);
    assert_eq!(ask(&zone, "x.other", "A"), "REFUSED");
    assert_eq!(zone.records(), 2);
}

#[test]
fn an_nsec3_record_without_a_hash_is_ignored() {
    let (zone, found) = zone("x NSEC3 1 0 0 - 2vptu5timamqttgl4luu9kg21e0aor3s A\n");
    assert_eq!(found, ["5: `x.example.` does not begin with a hash: its NSEC3 record is ignored (RFC 5155 3)"]);
    assert_eq!(ask_with(&zone, "x.example", "NSEC3", true), format!("NXDOMAIN aa; {SOA}"));
}

#[test]
fn beside_a_cname_other_types_are_answered_from_their_records() {
    let (zone, found) = zone("x CNAME y\nx A 192.0.2.1\n");
    let wanted =
        "5: `x.example.` has CNAME and A records: queries for A get the A records, others the CNAME (RFC 1034 3.6.2)";
    assert_eq!(found, [wanted]);
    assert_eq!(ask(&zone, "x.example", "A"), format!("NOERROR aa; an x.example. 60 A 192.0.2.1; {NS}"));
    for qtype in ["TXT", "AAAA"] {
        let wanted = format!("NXDOMAIN aa; an x.example. 60 CNAME y.example.; {SOA}");
        assert_eq!(ask(&zone, "x.example", qtype), wanted);
    }
}

#[test]
fn of_two_cname_records_the_first_alone_is_served() {
    let text = "w CNAME z.other.\nw CNAME a.other.\n";
    let (zone, found) = zone(text);
    assert_eq!(found, ["6: `w.example.` has more than one CNAME record: only the first is used"]);
    for qtype in ["A", "TXT"] {
        assert_eq!(ask(&zone, "w.example", qtype), "NOERROR aa; an w.example. 60 CNAME z.other.");
    }
    assert_eq!(ask(&zone, "w.example", "CNAME"), format!("NOERROR aa; an w.example. 60 CNAME z.other.; {NS}"));
    assert_eq!(ask(&zone, "w.example", "ANY"), "NOERROR aa; an w.example. 60 CNAME z.other.");
    let refused = read(text, false).unwrap_err();
    assert!(refused.starts_with("5: a second, different CNAME record at `w.example.`"), "{refused}");
}

#[test]
fn of_two_dname_records_the_first_alone_is_served() {
    let text = "d 9 DNAME z.other.\nd 5 DNAME a.other.\nd 7 DNAME z.other.\n";
    let (zone, found) = zone(text);
    let ttls = "5: the DNAME records of `d.example.` have different TTLs: the lowest is used for all (RFC 2181 5.2)";
    assert_eq!(found, ["6: `d.example.` has more than one DNAME record: only the first is used", ttls]);
    let wanted = "NOERROR aa; an d.example. 7 DNAME z.other.; an q.d.example. 7 CNAME q.z.other.";
    assert_eq!(ask(&zone, "q.d.example", "A"), wanted);
    assert_eq!(ask(&zone, "d.example", "DNAME"), format!("NOERROR aa; an d.example. 7 DNAME z.other.; {NS}"));
    assert!(read(text, false).unwrap_err().starts_with("5: a second, different DNAME record at `d.example.`"));
}

#[test]
fn of_different_ttls_the_lowest_is_used_for_all() {
    let (zone, found) = zone("x 6 A 192.0.2.1\nx 5 A 192.0.2.2\n");
    let wanted = "5: the A records of `x.example.` have different TTLs: the lowest is used for all (RFC 2181 5.2)";
    assert_eq!(found, [wanted]);
    let wanted = format!("NOERROR aa; an x.example. 5 A 192.0.2.1; an x.example. 5 A 192.0.2.2; {NS}");
    assert_eq!(ask(&zone, "x.example", "A"), wanted);
}

#[test]
fn a_delegation_without_glue_leads_nowhere() {
    let (zone, found) = zone("x NS ns.x\n");
    let wanted =
        "5: `x.example.` is delegated to `ns.x.example.`, which is below it and has no glue: it cannot be reached";
    assert_eq!(found, [wanted]);
    assert_eq!(ask(&zone, "ns.x.example", "A"), "NOERROR; ns x.example. 60 NS ns.x.example.");
}

#[test]
fn what_is_occluded_is_not_served() {
    let (zone, found) = zone("x NS a.other.\ny.x TXT t\nd DNAME z.other.\ny.d TXT t\n");
    let occluded = |line, owner, cover| {
        format!("{line}: `{owner}` is occluded by the delegation or DNAME at `{cover}`: it is not served")
    };
    assert_eq!(found, [occluded(8, "y.d.example.", "d.example."), occluded(6, "y.x.example.", "x.example.")]);
    assert_eq!(ask(&zone, "y.x.example", "TXT"), "NOERROR; ns x.example. 60 NS a.other.");
    let wanted = "NOERROR aa; an d.example. 60 DNAME z.other.; an y.d.example. 60 CNAME y.z.other.";
    assert_eq!(ask(&zone, "y.d.example", "TXT"), wanted);
}

#[test]
fn a_ds_record_without_a_delegation_delegates_nothing() {
    let (zone, found) = zone(&format!("x DS 1 8 2 {}\n", "00".repeat(32)));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("5: `x.example.` has a DS record but is not a delegation: the record has no effect"));
    assert_eq!(ask(&zone, "x.example", "A"), format!("NOERROR aa; {SOA}"), "no referral");
    assert_eq!(ask(&zone, "y.x.example", "A"), format!("NXDOMAIN aa; {SOA}"), "no referral");
}

#[test]
fn denials_have_the_iterations_that_are_told() {
    let hash = "2vptu5timamqttgl4luu9kg21e0aor3s";
    let (zone, found) = zone(&format!("@ NSEC3PARAM 1 0 101 -\n{hash} NSEC3 1 0 101 - {hash} A\n"));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("5: NSEC3 with 101 extra iterations"), "{found:?}");
    let answer = ask_with(&zone, "x.example", "A", true);
    assert!(answer.starts_with("NXDOMAIN aa") && answer.contains(" NSEC3 1 0 101 - "), "{answer}");
}

#[test]
fn without_servers_at_the_apex_none_is_named() {
    let (zone, found) = Zone::from_records(&read("x A 192.0.2.1\n", false).unwrap()).unwrap();
    let found: Vec<_> = found.iter().map(|finding| finding.oddity.to_string()).collect();
    assert_eq!(found, ["the zone `example.` has no NS record at its apex (RFC 1034 4.2.1)"]);
    assert_eq!(ask(&zone, "example", "NS"), format!("NOERROR aa; {SOA}"));
    assert_eq!(ask(&zone, "x.example", "A"), "NOERROR aa; an x.example. 60 A 192.0.2.1");
}

#[test]
fn signatures_of_another_time_are_served_as_they_are() {
    let text = "@ NS a.other.\nx A 192.0.2.1\nx RRSIG A 8 2 60 20200101000000 20190101000000 1 example. AA==\n";
    let records = read(text, false).unwrap();
    let told = signatures(&records, 1_800_000_000).unwrap().oddity.to_string();
    assert!(
        told.starts_with("signatures expired or not yet valid: 1 of 1, such as that of A at `x.example.`"),
        "{told}"
    );
    let (zone, found) = Zone::from_records(&records).unwrap();
    assert_eq!(found, []);
    let wanted = "NOERROR aa; an x.example. 60 A 192.0.2.1; an x.example. 60 RRSIG A 8 2 60 1577836800 1546300800 1 example. AA==";
    assert!(ask_with(&zone, "x.example", "A", true).starts_with(wanted));
}
