//! Tests of zone cuts.

use super::*;

const JP_SERVER: &str = "192.0.2.2";
const JP_SOA: &str = "jp. 60 SOA a.dns.jp. h.dns.jp. 7 1 1 1 60\n";

/// The root refers to jp, and jp straight to example.co.jp.
fn japan() -> Upstream {
    let mut upstream = Upstream::default();
    let glue = "a.dns.jp. 60 A 192.0.2.2\n";
    upstream.says(ROOT_SERVER, QR, "www.example.co.jp A", ["", "jp. 60 NS a.dns.jp.\n", glue]);
    let (cut, glue) = ("example.co.jp. 60 NS ns1.example.co.jp.\n", "ns1.example.co.jp. 60 A 192.0.2.11\n");
    upstream.says(JP_SERVER, QR, "www.example.co.jp A", ["", cut, glue]);
    upstream.answers("www.example.co.jp A", "www.example.co.jp. 60 A 192.0.2.80\n");
    upstream
}

fn apexes(built: &Built) -> Vec<String> {
    built.zones.iter().map(|zone| choose_name(&zone.apex)).collect()
}

#[test]
fn a_referral_claims_the_zone_that_it_names_and_nothing_above() {
    let built = japan().first();
    assert_eq!(apexes(&built), [".", "jp.", "example.co.jp."]);
    assert!(zone(&built, "jp.").contains(&"example.co.jp. 60 NS ns1.example.co.jp.".into()));
    assert!(built.report.made.iter().all(|made| !made.record.starts_with("co.jp.")), "{:?}", built.report.made);
}

#[test]
fn a_zone_between_is_there_where_it_was_delegated_or_spoke_for_itself() {
    // co.jp is a zone on the same servers, whose delegation is never seen.
    let mut upstream = japan();
    let soa = "co.jp. 60 SOA a.dns.jp. h.dns.jp. 7 1 1 1 60\n";
    upstream.says(JP_SERVER, AA, "co.jp A", ["", soa, ""]);
    assert_eq!(apexes(&upstream.first()), [".", "jp.", "co.jp.", "example.co.jp."]);
    // co.jp has servers of its own.
    let mut upstream = japan();
    let sections = ["", "co.jp. 60 NS ns.co.jp.\n", "ns.co.jp. 60 A 192.0.2.3\n"];
    upstream.says(JP_SERVER, QR, "co.jp A", sections);
    upstream.says("192.0.2.3", AA, "co.jp TXT", ["co.jp. 60 TXT x\n", "", ""]);
    assert_eq!(apexes(&upstream.first()), [".", "jp.", "co.jp.", "example.co.jp."]);
}

#[test]
fn the_reverse_tree_has_the_zones_that_were_delegated() {
    let mut upstream = Upstream::default();
    let question = "7.113.0.203.in-addr.arpa PTR";
    let glue = "a.ip.arpa. 60 A 192.0.2.2\n";
    upstream.says(ROOT_SERVER, QR, question, ["", "in-addr.arpa. 60 NS a.ip.arpa.\n", glue]);
    let sections = ["", "113.0.203.in-addr.arpa. 60 NS ns.example.\n", "ns.example. 60 A 192.0.2.11\n"];
    upstream.says(JP_SERVER, QR, question, sections);
    let sections = ["", "example. 60 NS ns.example.\n", "ns.example. 60 A 192.0.2.11\n"];
    upstream.says(ROOT_SERVER, QR, "ns.example A", sections);
    upstream.answers(question, "7.113.0.203.in-addr.arpa. 60 PTR h.example.\n");
    let built = upstream.first();
    assert_eq!(apexes(&built), [".", "in-addr.arpa.", "113.0.203.in-addr.arpa."]);
}

#[test]
fn a_denial_with_the_soa_record_of_a_zone_above_proves_that_there_is_no_cut() {
    for code in [0, 3] {
        let mut upstream = japan();
        // A server without a delegation claims co.jp.
        let sections = ["x.co.jp. 60 A 203.0.113.1\n", "co.jp. 60 NS ns.co.jp.\n", "ns.co.jp. 60 A 203.0.113.66\n"];
        upstream.says(LIAR, AA, "x.co.jp A", sections);
        upstream.says(JP_SERVER, AA | code, "co.jp MX", ["", JP_SOA, ""]);
        let built = upstream.first();
        assert_eq!(apexes(&built), [".", "jp.", "example.co.jp."]);
        assert!(ignored(&built, Reason::NotResponsible) > 0 && built.report.unverified.is_empty());
    }
}

#[test]
fn a_denial_of_ds_records_or_by_the_zone_itself_proves_nothing_of_its_cut() {
    let spoken_for = || {
        let mut upstream = japan();
        let sections = ["x.or.jp. 60 A 192.0.2.90\n", "or.jp. 60 NS ns.or.jp.\n", "ns.or.jp. 60 A 192.0.2.4\n"];
        upstream.says("192.0.2.4", AA, "x.or.jp A", sections);
        upstream
    };
    let with = |server: &str, question: &str, soa: &str| {
        let mut upstream = spoken_for();
        upstream.says(server, AA, question, ["", soa, ""]);
        upstream.first()
    };
    let own = "or.jp. 60 SOA ns.or.jp. h.or.jp. 7 1 1 1 60\n";
    for (server, question, soa) in [
        // The parent denies them of a zone without keys.
        (JP_SERVER, "or.jp DS", JP_SOA),
        ("192.0.2.4", "or.jp MX", own),
        // A server that is not jp's speaks for jp.
        ("192.0.2.4", "or.jp MX", JP_SOA),
    ] {
        let built = with(server, question, soa);
        assert!(apexes(&built).contains(&"or.jp.".into()), "{server} {question}");
        assert_eq!(built.report.unverified, ["or.jp."]);
    }
}

/// Name, contradiction, and for both sides the records, their count, and whether they were taken.
type Told = (String, String, Vec<(String, u64, bool)>);

fn conflicts(built: &Built) -> Vec<Told> {
    let version = |one: &Version| (one.records.join(", "), one.count, one.is_taken);
    let conflict = |one: &Conflict| {
        (format!("{} {}", one.zone, one.name), one.what.clone(), one.versions.iter().map(version).collect())
    };
    built.report.conflicts.iter().map(conflict).collect()
}

#[test]
fn a_delegation_that_the_parent_denies_is_a_conflict() {
    let delegation = || ("example.co.jp. 60 NS ns1.example.co.jp.".to_owned(), 1, true);
    for (code, question, what, denial) in [
        (0, "example.co.jp MX", "NODATA and delegation", "example.co.jp. NODATA"),
        (3, "example.co.jp MX", "NXDOMAIN and delegation", "example.co.jp. NXDOMAIN"),
        (3, "gone.example.co.jp A", "NXDOMAIN and delegation", "gone.example.co.jp. NXDOMAIN"),
        (0, "deep.www.example.co.jp DS", "NODATA and delegation", "deep.www.example.co.jp. NODATA"),
    ] {
        let mut upstream = japan();
        upstream.says(JP_SERVER, AA | code, question, ["", JP_SOA, ""]);
        upstream.says(JP_SERVER, AA | code, question, ["", JP_SOA, ""]);
        let built = upstream.first();
        assert_eq!(apexes(&built), [".", "jp.", "example.co.jp."], "the delegation is kept");
        let told: Vec<_> = conflicts(&built).into_iter().filter(|one| one.1.ends_with("delegation")).collect();
        let versions = vec![delegation(), (denial.to_owned(), 2, false)];
        assert_eq!(told, [("jp. example.co.jp.".to_owned(), what.to_owned(), versions)], "{question}");
    }
}

#[test]
fn a_delegation_without_a_zone_that_the_parent_denies_is_told_of_once() {
    let mut upstream = japan();
    upstream.says(JP_SERVER, AA | 3, "lost.jp A", ["", JP_SOA, ""]);
    upstream.says(JP_SERVER, QR, "lost.jp A", ["", "lost.jp. 60 NS ns.elsewhere.\n", ""]);
    let versions =
        vec![("lost.jp. NXDOMAIN".to_owned(), 1, false), ("lost.jp. 60 NS ns.elsewhere.".to_owned(), 1, true)];
    let wanted = ("jp. lost.jp.".to_owned(), "NXDOMAIN and delegation".to_owned(), versions);
    assert_eq!(conflicts(&upstream.first()), [wanted]);
}

#[test]
fn what_a_delegation_and_a_denial_do_not_contradict_is_no_conflict() {
    let own = "example.co.jp. 60 SOA ns1.example.co.jp. h.example.co.jp. 7 1 1 1 60\n";
    for (server, code, question, soa) in [
        // The parent denies DS records of a zone without keys, and names and data beside and above it.
        (JP_SERVER, 0, "example.co.jp DS", JP_SOA),
        (JP_SERVER, 3, "other.co.jp A", JP_SOA),
        (JP_SERVER, 0, "co.jp A", JP_SOA),
        // The zone's own denials.
        (EXAMPLE_SERVER, 0, "example.co.jp MX", own),
        (EXAMPLE_SERVER, 3, "gone.example.co.jp A", own),
        // A server that is not jp's speaks for jp.
        (LIAR, 3, "example.co.jp A", JP_SOA),
        (EXAMPLE_SERVER, 3, "gone.example.co.jp A", JP_SOA),
    ] {
        let mut upstream = japan();
        upstream.says(server, AA | code, question, ["", soa, ""]);
        assert_eq!(conflicts(&upstream.first()), [], "{server} {question}");
    }
}

#[test]
fn a_server_that_is_known_by_its_referrals_only_is_believed_of_what_it_names() {
    // The cache was warm when the capture began: no delegation says whose servers these are.
    let mut upstream = Upstream::default();
    let (cut, glue) = ("example.co.jp. 60 NS ns1.example.co.jp.\n", "ns1.example.co.jp. 60 A 192.0.2.11\n");
    upstream.says(JP_SERVER, QR, "www.example.co.jp A", ["", cut, glue]);
    upstream.answers("www.example.co.jp A", "www.example.co.jp. 60 A 192.0.2.80\n");
    upstream.says(LIAR, AA, "www.example.co.jp A", ["www.example.co.jp. 60 A 203.0.113.1\n", "", ""]);
    let built = upstream.first();
    assert_eq!(
        (apexes(&built), &built.report.unverified),
        (vec![".".into(), "example.co.jp.".into()], &vec!["example.co.jp.".to_owned()])
    );
    assert!(zone(&built, ".").contains(&cut.trim_end().into()), "{:?}", zone(&built, "."));
    assert_eq!(data(&built, "example.co.jp.")[1..], ["www.example.co.jp. 60 A 192.0.2.80"]);
}

#[test]
fn a_capture_of_nothing_but_referrals_becomes_a_zone_that_refers() {
    let mut builder = Builder::default();
    let sections = ["", "example.co.jp. 60 NS ns1.example.co.jp.\n", "ns1.example.co.jp. 60 A 192.0.2.11\n"];
    let message = message(QR, "www.example.co.jp A", sections);
    let [client, server] = ["10.0.0.1", JP_SERVER].map(|address| address.parse().unwrap());
    builder.add(&Response { time_ns: 1, client, server, message: &message }).unwrap();
    let built = builder.finish(Options { policy: Policy::First, resolver_side: Some(false), server: None }).unwrap();
    assert_eq!(apexes(&built), ["."]);
    let lines = zone(&built, ".");
    assert!(lines.contains(&"example.co.jp. 60 NS ns1.example.co.jp.".into()), "{lines:?}");
    assert!(lines.contains(&"ldplayer-ns1. 3600 A 192.0.2.2".into()), "{lines:?}");
    assert!(built.report.unverified.is_empty(), "no such zone was built");
}
