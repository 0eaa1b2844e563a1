//! Tests of records from servers that are not authoritative for them.

use super::*;

/// com as it refers to bank.com, whose server did not respond, or did.
fn with_bank(glue: &str) -> Upstream {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    upstream.says(COM_SERVER, QR, "www.bank.com A", ["", "bank.com. 60 NS ns1.bank.com.\n", glue]);
    upstream
}

const GLUE: &str = "ns1.bank.com. 60 A 192.0.2.66\n";

/// Claims a zone with everything that one of its servers would send.
fn claim(upstream: &mut Upstream, server: &str, zone: &str) {
    let soa = format!("{zone} 60 SOA ns1.{zone} h.{zone} 7 1 1 1 60\n");
    let (name_servers, address) = (format!("{zone} 60 NS ns1.{zone}\n"), format!("ns1.{zone} 60 A {server}\n"));
    upstream.says(server, AA, &format!("{zone} SOA"), [&soa, &name_servers, &address]);
    let answer = format!("www.{zone} 60 A 203.0.113.1\n");
    upstream.says(server, AA, &format!("www.{zone} A"), [&answer, &name_servers, &address]);
}

fn text(built: &Built) -> String {
    let lines = |one: &BuiltZone| zone(built, &choose_name(&one.apex)).join("\n");
    built.zones.iter().map(lines).collect()
}

#[test]
fn a_zone_whose_servers_stayed_silent_is_nobody_elses() {
    for zone in ["bank.com.", "sub.bank.com."] {
        let mut upstream = with_bank(GLUE);
        claim(&mut upstream, LIAR, zone);
        let built = upstream.first();
        assert!(!text(&built).contains("203.0.113."), "{}", text(&built));
        assert!(ignored(&built, Reason::NotResponsible) >= 3, "{:?}", built.report.ignored);
        assert_eq!(built.report.unverified, [""; 0], "{zone}");
        assert!(text(&built).contains("bank.com. 60 NS ns1.bank.com."), "the delegation stays");
    }
}

#[test]
fn the_server_that_the_delegation_leads_to_is_believed() {
    let mut upstream = with_bank(GLUE);
    claim(&mut upstream, LIAR, "bank.com.");
    claim(&mut upstream, "192.0.2.66", "bank.com.");
    let built = upstream.first();
    assert!(data(&built, "bank.com.").contains(&"ns1.bank.com. 60 A 192.0.2.66".into()));
    assert!(!text(&built).contains("203.0.113.66"));
    assert_eq!(built.report.unverified, [""; 0]);
}

#[test]
fn a_delegation_to_name_servers_without_any_address_is_told_as_unverified() {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    upstream.says(COM_SERVER, QR, "www.bank.com A", ["", "bank.com. 60 NS ns1.far.example.\n", ""]);
    let answer = ["www.bank.com. 60 A 192.0.2.90\n", "bank.com. 60 NS ns1.far.example.\n", ""];
    upstream.says("192.0.2.66", AA, "www.bank.com A", answer);
    let built = upstream.first();
    assert!(data(&built, "bank.com.").contains(&"www.bank.com. 60 A 192.0.2.90".into()));
    assert_eq!(built.report.unverified, ["bank.com."]);
}

#[test]
fn a_name_that_its_zone_answers_for_is_no_zone_of_somebody_else() {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    claim(&mut upstream, LIAR, "www.example.com.");
    let built = upstream.first();
    assert!(!text(&built).contains("203.0.113."), "{}", text(&built));
    assert_eq!((built.zones.len(), &built.report.unverified), (3, &vec![]));
    // Nothing is known of another name: its servers may have been in the cache.
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    claim(&mut upstream, LIAR, "sub.example.com.");
    assert_eq!(upstream.first().report.unverified, ["sub.example.com."]);
}

#[test]
fn servers_of_a_zone_that_is_led_to_in_the_end_are_not_taken_at_their_word() {
    // The root delegates test to a host in a zone that only its own server claims.
    let mut upstream = Upstream::default();
    upstream.says(ROOT_SERVER, QR, "b.test A", ["", "test. 60 NS ns1.deep.far.example.\n", ""]);
    claim(&mut upstream, "192.0.2.40", "deep.far.example.");
    let referral = ["", "b.test. 60 NS ns1.b.test.\n", "ns1.b.test. 60 A 192.0.2.42\n"];
    upstream.says("192.0.2.40", QR, "b.test A", referral);
    claim(&mut upstream, "192.0.2.42", "b.test.");
    claim(&mut upstream, LIAR, "b.test.");
    let built = upstream.first();
    assert_eq!(built.report.unverified, ["deep.far.example."]);
    assert!(data(&built, "b.test.").contains(&"ns1.b.test. 60 A 192.0.2.42".into()));
    assert!(!text(&built).contains("203.0.113.66"));
}

/// The cache was warm when the capture began: servers of com and of example.com claim their zones themselves.
fn without_root() -> Upstream {
    let mut upstream = Upstream::default();
    claim(&mut upstream, COM_SERVER, "com.");
    upstream.says(EXAMPLE_SERVER, AA, "example.com SOA", ["example.com. 60 SOA a. b. 1 2 3 4 5\n", "", ""]);
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    upstream
}

#[test]
fn who_denies_in_the_name_of_the_root_is_no_root_server() {
    let root = ". 60 SOA a. b. 1 2 3 4 5\n";
    let mut upstream = without_root();
    upstream.says(LIAR, AA | 3, "www.example.com A", ["", root, ""]);
    upstream.says(LIAR, AA | 3, "example.com A", ["", root, ""]);
    upstream.says(LIAR, AA, "mail.example.com A", ["mail.example.com. 60 A 203.0.113.1\n", "", ""]);
    let built = upstream.first();
    assert!(!text(&built).contains("203.0.113.1\nmail"), "{}", text(&built));
    assert!(!text(&built).contains("mail.example.com."), "{}", text(&built));
    assert!(data(&built, "example.com.").contains(&"www.example.com. 60 A 192.0.2.80".into()));
    assert_eq!(built.report.unverified, ["com.", "example.com."]);
    // A server that sends referrals is.
    let mut upstream = without_root();
    upstream.says("192.0.2.50", AA | 3, "nothing A", ["", root, ""]);
    upstream.says("192.0.2.50", QR, "x.net A", ["", "net. 60 NS a.net.\n", "a.net. 60 A 192.0.2.51\n"]);
    assert!(zone(&upstream.first(), ".").contains(&root.trim_end().into()));
}

#[test]
fn caches_that_refer_upward_are_not_believed() {
    let glue = "a.gtld.com. 60 A 203.0.113.9\nns1.example.com. 60 A 203.0.113.9\n";
    for cut in [". 60 NS a.gtld.com.\n", "com. 60 NS a.gtld.com.\n"] {
        let mut upstream = without_root();
        upstream.says(LIAR, QR, "www.example.com A", ["", cut, glue]);
        let built = upstream.first();
        assert!(!text(&built).contains("203.0.113.9"), "{cut}: {}", text(&built));
        assert!(data(&built, "example.com.").contains(&"www.example.com. 60 A 192.0.2.80".into()), "{cut}");
    }
}

#[test]
fn a_zone_at_its_word_denies_cuts_where_its_name_servers_are_those_that_speak() {
    let soa = "com. 60 SOA ns1.com. h.com. 7 1 1 1 60\n";
    for (server, unverified) in
        [(COM_SERVER, &["com.", "example.com."][..]), (LIAR, &["bank.com.", "com.", "example.com."])]
    {
        let mut upstream = without_root();
        claim(&mut upstream, "192.0.2.66", "bank.com.");
        upstream.says(server, AA | 3, "bank.com A", ["", soa, ""]);
        assert_eq!(upstream.first().report.unverified, unverified, "{server}");
    }
}
