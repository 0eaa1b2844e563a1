//! Tests of construction: responses as text, and the resulting zones.

mod cuts;
mod lame;
mod poison;

use std::net::IpAddr;
use std::path::Path;

use ldplayer_core::name;
use proptest::prelude::*;

use super::*;
use crate::Zone;
use crate::load;
use crate::rtype;
use crate::write::Line;

const ROOT_SERVER: &str = "198.41.0.4";
const COM_SERVER: &str = "192.0.2.1";
const EXAMPLE_SERVER: &str = "192.0.2.11";
const LIAR: &str = "203.0.113.66";

/// Header flags: response; authoritative; truncated.
const QR: u16 = 0x8000;
const AA: u16 = 0x8400;
const TC: u16 = 0x8200;

/// Composes a response: a question as `name type`, and records of the three sections as lines of a zone file.
fn message(flags: u16, question: &str, sections: [&str; 3]) -> Vec<u8> {
    let (owner, qtype) = question.split_once(' ').unwrap();
    let sections = sections.map(section);
    let mut wire = Vec::new();
    let counts = [1, sections[0].len() as u16, sections[1].len() as u16, sections[2].len() as u16];
    [7, flags].into_iter().chain(counts).for_each(|word| wire.extend(word.to_be_bytes()));
    name::parse(owner, &mut wire).unwrap();
    [rtype::parse(qtype.as_bytes()).unwrap(), 1].iter().for_each(|word| wire.extend(word.to_be_bytes()));
    for record in sections.iter().flat_map(Records::iter) {
        wire.extend_from_slice(record.owner);
        [record.rtype, 1].iter().for_each(|word| wire.extend(word.to_be_bytes()));
        wire.extend(record.ttl.to_be_bytes());
        wire.extend((record.data.len() as u16).to_be_bytes());
        wire.extend_from_slice(record.data);
    }
    wire
}

/// The records of lines of a zone file, which need not belong into one zone.
fn section(lines: &str) -> Records {
    let mut all = Records::default();
    for line in lines.lines() {
        let read = load::text_of(line.as_bytes(), Path::new("z"), None, &mut |_| unreachable!()).unwrap();
        read.iter().for_each(|one| all.push(one.owner, one.rtype, one.ttl, one.data).unwrap());
    }
    all
}

/// A resolver's upstream, one response after another.
#[derive(Default)]
struct Upstream {
    builder: Builder,
    time: i64,
}

impl Upstream {
    /// Root and com as they refer to example.com, whose server is 192.0.2.11.
    fn new() -> Self {
        let mut upstream = Self::default();
        let root = "com. 60 NS a.gtld.example.\n";
        upstream.says(ROOT_SERVER, QR, "www.example.com A", ["", root, "a.gtld.example. 60 A 192.0.2.1\n"]);
        let com = "example.com. 60 NS ns1.example.com.\n";
        upstream.says(COM_SERVER, QR, "www.example.com A", ["", com, "ns1.example.com. 60 A 192.0.2.11\n"]);
        upstream
    }

    fn says(&mut self, server: &str, flags: u16, question: &str, sections: [&str; 3]) {
        self.gives(server, &message(flags, question, sections));
    }

    fn gives(&mut self, server: &str, message: &[u8]) {
        self.time += 1;
        let (client, server): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), server.parse().unwrap());
        self.builder.add(&Response { time_ns: self.time, client, server, message }).unwrap();
    }

    fn answers(&mut self, question: &str, answer: &str) {
        self.says(EXAMPLE_SERVER, AA, question, [answer, "", ""]);
    }

    fn build(self, policy: Policy) -> Built {
        let built = self.builder.finish(Options { policy, resolver_side: Some(true), server: None }).unwrap();
        for zone in &built.zones {
            let (loaded, findings) = Zone::from_records(&zone.records).unwrap();
            assert_eq!(loaded.apex(), zone.apex);
            assert!(findings.iter().all(|finding| !finding.to_string().contains("out of zone")), "{findings:?}");
        }
        built
    }

    fn first(self) -> Built {
        self.build(Policy::First)
    }
}

/// The records of a zone as lines, with the SOA record and invented records.
fn zone(built: &Built, apex: &str) -> Vec<String> {
    let mut wire = Vec::new();
    name::parse(apex, &mut wire).unwrap();
    let mut line = Line::default();
    let zone = built.zones.iter().find(|zone| zone.apex == wire);
    zone.map_or(Vec::new(), |zone| zone.records.iter().map(|one| line.of(&one).trim_end().to_owned()).collect())
}

/// The same without SOA and NS records.
fn data(built: &Built, apex: &str) -> Vec<String> {
    zone(built, apex).into_iter().filter(|line| !line.contains(" SOA ") && !line.contains(" NS ")).collect()
}

fn ignored(built: &Built, reason: Reason) -> u64 {
    built.report.ignored.get(&reason).copied().unwrap_or(0)
}

#[test]
fn a_walk_from_the_root_becomes_three_zones() {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    let built = upstream.first();
    let glue = "ns1.example.com. 60 A 192.0.2.11";
    assert_eq!(data(&built, "example.com."), [glue, "www.example.com. 60 A 192.0.2.80"]);
    assert_eq!(
        zone(&built, "com.")[1..],
        ["com. 60 NS a.gtld.example.", "example.com. 60 NS ns1.example.com.", glue].map(String::from)
    );
    assert_eq!(zone(&built, ".").iter().filter(|line| line.starts_with("com.")).count(), 1);
    assert!(zone(&built, ".").contains(&"a.gtld.example. 60 A 192.0.2.1".into()));
    assert_eq!(built.report.unverified, [""; 0]);
    assert_eq!(built.zones.len(), 3);
}

#[test]
fn nobody_is_believed_of_zones_that_are_others() {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    // A server without a zone answers for a name, claims a zone above it, and adds an address.
    let sections = ["www.example.com. 60 A 203.0.113.1\n", "com. 60 NS ns.liar.example.\n", ""];
    upstream.says(LIAR, AA, "www.example.com A", sections);
    // The server of example.com adds the address of another zone's host.
    let sections = ["mail.example.com. 60 A 192.0.2.81\n", "", "www.bank.com. 60 A 203.0.113.2\n"];
    upstream.says(EXAMPLE_SERVER, AA, "mail.example.com A", sections);
    let built = upstream.first();
    let text: Vec<String> = built.zones.iter().flat_map(|one| zone(&built, &choose_name(&one.apex))).collect();
    assert!(!text.iter().any(|line| line.contains("203.0.113.") || line.contains("liar")), "{text:?}");
    assert_eq!(ignored(&built, Reason::NotResponsible), 3);
    assert_eq!(built.report.conflicts, []);
}

fn choose_name(apex: &[u8]) -> String {
    ldplayer_core::name::Presentation(apex).to_string()
}

#[test]
fn where_responses_disagree_the_policy_decides_and_it_is_told() {
    for (policy, wanted) in [
        (Policy::First, vec!["192.0.2.1"]),
        (Policy::Last, vec!["192.0.2.3"]),
        (Policy::Majority, vec!["192.0.2.2"]),
        (Policy::Union, vec!["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
    ] {
        let mut upstream = Upstream::new();
        for last in ["1", "2", "2", "3"] {
            upstream.answers("x.example.com A", &format!("x.example.com. 60 A 192.0.2.{last}\n"));
        }
        let built = upstream.build(policy);
        let lines: Vec<String> = wanted.iter().map(|address| format!("x.example.com. 60 A {address}")).collect();
        assert_eq!(data(&built, "example.com.")[1..], lines, "{policy}");
        let [conflict] = &built.report.conflicts[..] else { panic!("{:?}", built.report.conflicts) };
        assert_eq!((conflict.name.as_str(), conflict.what.as_str()), ("x.example.com.", "A"));
        let counts: Vec<u64> = conflict.versions.iter().map(|version| version.count).collect();
        assert_eq!(counts, [1, 2, 1]);
        assert_eq!(conflict.versions.iter().filter(|version| version.is_taken).count(), wanted.len());
    }
}

#[test]
fn of_alias_and_other_data_one_is_taken() {
    for (policy, wanted) in [(Policy::First, "CNAME y.example.com."), (Policy::Last, "A 192.0.2.1")] {
        let mut upstream = Upstream::new();
        upstream.answers("x.example.com CNAME", "x.example.com. 60 CNAME y.example.com.\n");
        upstream.answers("x.example.com A", "x.example.com. 60 A 192.0.2.1\n");
        let built = upstream.build(policy);
        assert_eq!(data(&built, "example.com.")[1..], [format!("x.example.com. 60 {wanted}")]);
        assert_eq!(built.report.conflicts[0].what, "CNAME and other data");
    }
}

#[test]
fn records_that_servers_refuse_are_left_out_and_counted() {
    let mut upstream = Upstream::new();
    let with = format!("example.com. 60 DS 1 8 2 {}\n", "00".repeat(32));
    let mut answer = message(AA, "example.com. DS", [&with, "", ""]);
    // The digest without its last byte.
    answer.pop();
    let length_at = answer.len() - 35 - 2;
    answer[length_at..][..2].copy_from_slice(&35_u16.to_be_bytes());
    upstream.gives(COM_SERVER, &answer);
    let built = upstream.first();
    assert_eq!(ignored(&built, Reason::InvalidRecord), 1);
    assert!(!data(&built, "com.").iter().any(|line| line.contains(" DS ")), "{:?}", data(&built, "com."));
}

#[test]
fn of_several_aliases_one_is_taken() {
    let mut upstream = Upstream::new();
    let aliases = "x.example.com. 60 CNAME y.example.com.\nx.example.com. 60 CNAME z.example.com.\n";
    upstream.answers("x.example.com CNAME", aliases);
    let built = upstream.first();
    assert_eq!(data(&built, "example.com.")[1..], ["x.example.com. 60 CNAME y.example.com."]);
    assert_eq!(built.report.conflicts[0].what, "several CNAME records");
}

#[test]
fn denials_leave_a_trace() {
    let soa = "example.com. 60 SOA ns1.example.com. h.example.com. 7 1 1 1 60\n";
    let mut upstream = Upstream::new();
    upstream.says(EXAMPLE_SERVER, AA, "empty.example.com A", ["", soa, ""]);
    upstream.says(EXAMPLE_SERVER, AA | 3, "gone.example.com A", ["", soa, ""]);
    upstream.says(EXAMPLE_SERVER, AA, "x.example.com AAAA", ["", soa, ""]);
    upstream.answers("x.example.com A", "x.example.com. 60 A 192.0.2.1\n");
    upstream.says(EXAMPLE_SERVER, AA | 3, "x.example.com A", ["", soa, ""]);
    let built = upstream.first();
    let lines = zone(&built, "example.com.");
    assert_eq!(lines[0], soa.trim_end());
    assert!(lines.iter().any(|line| line.starts_with("_ldplayer.empty.example.com. 0 TXT")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("gone")));
    assert_eq!(lines.iter().filter(|line| line.contains("_ldplayer")).count(), 1);
    assert_eq!(built.report.conflicts[0].what, "NXDOMAIN and data");
}

#[test]
fn an_alias_that_leads_out_denies_nothing() {
    let mut upstream = Upstream::new();
    upstream.answers("x.example.com A", "x.example.com. 60 CNAME y.example.net.\n");
    let built = upstream.first();
    assert!(!zone(&built, "example.com.").iter().any(|line| line.contains("_ldplayer")));
    assert!(built.report.made.iter().all(|made| made.kind != InventionKind::EmptyName));
}

#[test]
fn a_loop_of_aliases_ends() {
    let mut upstream = Upstream::new();
    let aliases = "x.example.com. 60 CNAME y.example.com.\ny.example.com. 60 CNAME x.example.com.\n";
    upstream.answers("x.example.com A", aliases);
    assert_eq!(data(&upstream.first(), "example.com.").len(), 3);
}

#[test]
fn truncated_and_failed_responses_are_no_source() {
    let mut upstream = Upstream::new();
    upstream.says(EXAMPLE_SERVER, AA | TC, "x.example.com A", ["x.example.com. 60 A 192.0.2.1\n", "", ""]);
    upstream.says(EXAMPLE_SERVER, QR | 2, "x.example.com A", ["", "", ""]);
    upstream.says(EXAMPLE_SERVER, QR, "x.example.com A", ["x.example.com. 60 A 192.0.2.3\n", "", ""]);
    // Over TCP, then.
    let both = "x.example.com. 60 A 192.0.2.1\nx.example.com. 60 A 192.0.2.2\n";
    upstream.answers("x.example.com A", both);
    let built = upstream.first();
    assert_eq!(data(&built, "example.com.")[1..].join("\n") + "\n", both);
    let counts = [Reason::Truncated, Reason::Failed, Reason::NotAuthoritative].map(|one| ignored(&built, one));
    assert_eq!((counts, built.report.conflicts.len()), ([1, 1, 1], 0));
}

#[test]
fn referrals_upward_and_sideways_are_ignored() {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    upstream.says(EXAMPLE_SERVER, QR, "x.example.com A", ["", ". 60 NS ns.liar.example.\n", ""]);
    upstream.says(EXAMPLE_SERVER, QR, "x.example.com A", ["", "net. 60 NS ns.liar.example.\n", ""]);
    let built = upstream.first();
    assert_eq!(ignored(&built, Reason::NotResponsible) + ignored(&built, Reason::SidewaysReferral), 2);
    assert!(!zone(&built, ".").iter().any(|line| line.contains("liar")));
}

#[test]
fn name_servers_that_cannot_be_reached_get_an_address() {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    // A name server below the zone itself, without glue.
    upstream.says(COM_SERVER, QR, "www.lost.com A", ["", "lost.com. 60 NS ns.lost.com.\n", ""]);
    upstream.says(
        "192.0.2.12",
        AA,
        "www.lost.com A",
        ["www.lost.com. 60 A 192.0.2.90\n", "lost.com. 60 NS ns.lost.com.\n", ""],
    );
    let built = upstream.first();
    assert!(zone(&built, "com.").contains(&"ns.lost.com. 3600 A 192.0.2.12".into()), "{:?}", zone(&built, "com."));
    assert!(data(&built, "lost.com.").contains(&"www.lost.com. 60 A 192.0.2.90".into()));
}

#[test]
fn addresses_of_unseen_servers_are_invented() {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    // The server of com answers for the child, whose name servers never responded.
    let sections = ["www.deep.com. 60 A 192.0.2.90\n", "deep.com. 60 NS ns.other.com.\n", ""];
    upstream.says(COM_SERVER, AA, "www.deep.com A", sections);
    let built = upstream.first();
    let invented = built.report.made.iter().filter(|made| made.kind == InventionKind::InventedAddress).count();
    let addressed = built.report.made.iter().any(|made| made.record.starts_with("ns.other.com. 3600 A "));
    assert!(addressed, "{:?}", built.report.made);
    assert!(invented <= 1);
}

#[test]
fn wildcards_are_told_by_their_signatures() {
    let mut upstream = Upstream::new();
    let answer = "any.wild.example.com. 60 A 192.0.2.1\n\
                  any.wild.example.com. 60 RRSIG A 13 3 60 20300101000000 20200101000000 1 example.com. AAAA\n";
    upstream.answers("any.wild.example.com A", answer);
    let built = upstream.first();
    let lines = data(&built, "example.com.");
    assert_eq!(lines.iter().filter(|line| line.starts_with("*.wild.example.com. 60")).count(), 2, "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("any")));
}

/// BIND refuses such a zone for the NS records of its apex, and a zone without them.
#[test]
fn a_zone_whose_apex_is_a_wildcard_is_left_out_for_bind() {
    for (server, is_there) in [(Stock::Bind, false), (Stock::Nsd, true)] {
        let mut upstream = Upstream::new();
        let cut = "*.example.com. 60 NS ns2.example.com.\n";
        upstream.says(EXAMPLE_SERVER, QR, "a.*.example.com A", ["", cut, "ns2.example.com. 60 A 192.0.2.77\n"]);
        upstream.says("192.0.2.77", AA, "a.*.example.com A", ["a.*.example.com. 60 A 192.0.2.5\n", "", ""]);
        let options = Options { policy: Policy::First, resolver_side: Some(true), server: Some(server) };
        let built = upstream.builder.finish(options).unwrap();
        assert_eq!(built.zones.iter().any(|zone| zone.apex.starts_with(b"\x01*")), is_there, "{server}");
        let left = built.report.left_out.iter().filter(|one| one.zone == "*.example.com." && one.rtype == "SOA");
        assert_eq!(left.count(), usize::from(!is_there), "{:?}", built.report.left_out);
    }
}

#[test]
fn proofs_and_what_an_apex_has_are_never_made_of_wildcards() {
    let signed = |owner: &str, rtype: &str, data: &str, labels: u8| {
        let signature = format!("{labels} 60 20300101000000 20200101000000 1 example.com. AAAA");
        format!("{owner} 60 {rtype} {data}\n{owner} 60 RRSIG {rtype} 13 {signature}\n")
    };
    let hash = "2vptu5timamqttgl4luu9kg21e0aor3s";
    let soa = "ns1.example.com. h.example.com. 7 1 1 1 60";
    let mut upstream = Upstream::new();
    let authority = signed("example.com.", "SOA", soa, 1)
        + &signed("a.b.example.com.", "NSEC", "z.example.com. A", 2)
        + &signed(&format!("{hash}.example.com."), "NSEC3", &format!("1 0 0 - {hash} A"), 2);
    upstream.says(EXAMPLE_SERVER, AA | 3, "gone.example.com A", ["", &authority, ""]);
    // The labels field matches no name in the zone.
    upstream.answers("x.example.com A", &signed("x.example.com.", "A", "192.0.2.1", 1));
    let lines = zone(&upstream.first(), "example.com.");
    assert!(!lines.iter().any(|line| line.starts_with('*')), "{lines:?}");
    for wanted in ["example.com. 60 SOA ", "a.b.example.com. 60 NSEC ", "x.example.com. 60 A "] {
        assert!(lines.iter().any(|line| line.starts_with(wanted)), "{wanted} {lines:?}");
    }
    assert!(lines.iter().any(|line| line.starts_with(hash) && line.contains(" NSEC3 ")), "{lines:?}");
}

#[test]
fn records_that_a_dname_makes_are_left_out() {
    let mut upstream = Upstream::new();
    let answer = "tree.example.com. 60 DNAME other.example.com.\nx.tree.example.com. 60 CNAME x.other.example.com.\n\
                  x.other.example.com. 60 A 192.0.2.1\n";
    upstream.answers("x.tree.example.com A", answer);
    let built = upstream.first();
    let lines = data(&built, "example.com.");
    assert_eq!(lines.iter().filter(|line| line.contains("CNAME")).count(), 0, "{lines:?}");
    assert_eq!((lines.len(), ignored(&built, Reason::Synthesized)), (3, 1));
}

#[test]
fn ds_records_are_the_parents_and_keys_the_childs() {
    let mut upstream = Upstream::new();
    let ds = "example.com. 60 DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000\nexample.com. 60 RRSIG DS 13 2 60 20300101000000 20200101000000 1 com. AAAA\n";
    let referral = format!("example.com. 60 NS ns1.example.com.\n{ds}");
    upstream.says(COM_SERVER, QR, "x.example.com A", ["", &referral, "ns1.example.com. 60 A 192.0.2.11\n"]);
    upstream.answers("example.com DNSKEY", "example.com. 60 DNSKEY 256 3 13 AAAA\n");
    let built = upstream.first();
    let has = |apex: &str, what: &str| zone(&built, apex).iter().any(|line| line.contains(what));
    assert!(has("com.", " DS ") && has("com.", " RRSIG DS ") && !has("com.", "DNSKEY"));
    assert!(has("example.com.", " DNSKEY ") && !has("example.com.", " DS "));
}

#[test]
fn a_capture_that_begins_late_is_taken_at_its_word() {
    let mut upstream = Upstream::default();
    let sections = ["www.example.com. 60 A 192.0.2.80\n", "example.com. 60 NS ns1.example.com.\n", ""];
    upstream.says(EXAMPLE_SERVER, AA, "www.example.com A", sections);
    let built = upstream.first();
    assert_eq!(built.report.unverified, ["example.com."]);
    assert!(zone(&built, ".").iter().any(|line| line.starts_with("example.com. 60 NS")));
    assert!(zone(&built, ".").contains(&"ns1.example.com. 3600 A 192.0.2.11".into()), "{:?}", zone(&built, "."));
}

#[test]
fn a_server_of_parent_and_child_is_both() {
    let mut upstream = Upstream::new();
    let soa = "sub.example.com. 60 SOA ns1.example.com. h.example.com. 7 1 1 1 60\n";
    upstream.says(EXAMPLE_SERVER, AA, "x.sub.example.com A", ["", soa, ""]);
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    let built = upstream.first();
    assert_eq!(zone(&built, "sub.example.com.")[0], soa.trim_end());
    assert!(zone(&built, "example.com.").iter().any(|line| line.starts_with("sub.example.com. 3600 NS")));
}

#[test]
fn the_same_responses_make_the_same_zones() {
    let build = || {
        let mut upstream = Upstream::new();
        for number in 0..200 {
            let line = format!("x{number}.example.com. 60 A 192.0.2.{}\n", number % 250);
            upstream.answers(&format!("x{number}.example.com A"), &line);
        }
        let built = upstream.first();
        built.zones.iter().flat_map(|one| zone(&built, &choose_name(&one.apex))).collect::<Vec<_>>()
    };
    assert_eq!(build(), build());
}

proptest! {
    #[test]
    fn no_octets_make_it_panic(octets in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
        let mut upstream = Upstream::new();
        upstream.gives(EXAMPLE_SERVER, &octets);
        let answer = "x.example.com. 60 A 192.0.2.1\nx.example.com. 60 MX 1 y.example.com.\n";
        let mut damaged = message(AA, "x.example.com ANY", [answer, "example.com. 60 NS ns1.example.com.\n", ""]);
        for (place, octet) in octets.iter().enumerate().take(4) {
            let place = (at + place * 7) % damaged.len();
            damaged[place] = *octet;
        }
        upstream.gives(EXAMPLE_SERVER, &damaged);
        upstream.builder.finish(Options::default()).unwrap();
    }
}
