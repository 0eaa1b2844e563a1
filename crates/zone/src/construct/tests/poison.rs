//! What servers say of zones that somebody else is responsible for.

use super::*;

/// com as it refers to bank.com, whose server did not respond, or did.
fn with_bank(glue: &str) -> Upstream {
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    upstream.says(COM_SERVER, QR, "www.bank.com A", ["", "bank.com. 60 NS ns1.bank.com.\n", glue]);
    upstream
}

const GLUE: &str = "ns1.bank.com. 60 A 192.0.2.66\n";

/// Speaks for a zone with all that a server of it would say.
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
    // Of another name nothing is known: its servers may have been in the cache.
    let mut upstream = Upstream::new();
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    claim(&mut upstream, LIAR, "sub.example.com.");
    assert_eq!(upstream.first().report.unverified, ["sub.example.com."]);
}

#[test]
fn servers_of_a_zone_that_is_led_to_in_the_end_are_not_taken_at_their_word() {
    // The root delegates test to a host in a zone that only its own server speaks of.
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
