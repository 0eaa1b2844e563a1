//! Tests of lame delegations.

use super::*;

const LAME: &str = "192.0.2.12";

/// A builder that keeps lame delegations, with example.com and two name servers; the second was not asked yet.
fn delegated() -> Upstream {
    let mut upstream = Upstream { builder: Builder::keeping_lame(), time: 0 };
    let root = "com. 60 NS a.gtld.example.\n";
    upstream.says(ROOT_SERVER, QR, "www.example.com A", ["", root, "a.gtld.example. 60 A 192.0.2.1\n"]);
    let com = "example.com. 60 NS ns1.example.com.\nexample.com. 60 NS ns2.example.com.\n";
    let glue = "ns1.example.com. 60 A 192.0.2.11\nns2.example.com. 60 A 192.0.2.12\n";
    upstream.says(COM_SERVER, QR, "www.example.com A", ["", com, glue]);
    upstream.answers("www.example.com A", "www.example.com. 60 A 192.0.2.80\n");
    upstream
}

fn lame_after(say: impl FnOnce(&mut Upstream)) -> Vec<Lame> {
    let mut upstream = delegated();
    say(&mut upstream);
    upstream.first().report.lame
}

#[test]
fn a_server_that_never_answers_of_its_zone_is_lame() {
    let wanted = vec![Lame { zone: "example.com.".into(), servers: vec![LAME.parse().unwrap()] }];
    let question = "www.example.com A";
    assert_eq!(lame_after(|upstream| upstream.says(LAME, QR | 5, question, ["", "", ""])), wanted, "REFUSED");
    assert_eq!(lame_after(|upstream| upstream.says(LAME, QR, question, ["", "", ""])), wanted, "not authoritative");
    let upward = ["", ". 60 NS a.root-servers.net.\n", ""];
    assert_eq!(lame_after(|upstream| upstream.says(LAME, QR, question, upward)), wanted, "a referral to the root");
    let other = ["", ". 60 SOA a. b. 1 2 3 4 5\n", ""];
    assert_eq!(lame_after(|upstream| upstream.says(LAME, AA | 3, question, other)), wanted, "denied by the root");
    let query = message(0, question, ["", "", ""]);
    assert_eq!(lame_after(|upstream| upstream.builder.unanswered(LAME.parse().unwrap(), &query)), wanted, "silent");
}

#[test]
fn a_server_that_answered_once_or_was_not_asked_is_not_lame() {
    let question = "www.example.com A";
    assert_eq!(lame_after(|_| {}), [], "not asked");
    let again = |upstream: &mut Upstream| {
        upstream.says(LAME, QR | 2, question, ["", "", ""]);
        upstream.says(LAME, AA, question, ["www.example.com. 60 A 192.0.2.80\n", "", ""]);
    };
    assert_eq!(lame_after(again), [], "SERVFAIL once");
    let refers = ["", "sub.example.com. 60 NS ns.sub.example.com.\n", "ns.sub.example.com. 60 A 192.0.2.13\n"];
    assert_eq!(lame_after(|upstream| upstream.says(LAME, QR, "x.sub.example.com A", refers)), [], "it refers below");
    assert_eq!(lame_after(|upstream| upstream.says(LAME, TC, question, ["", "", ""])), [], "cut off");
    let elsewhere = lame_after(|upstream| upstream.says(LAME, QR | 5, "www.example.net A", ["", "", ""]));
    assert_eq!(elsewhere, [], "asked for another zone");
    assert_eq!(lame_after(|upstream| upstream.says(LAME, QR | 5, "example.com ANY", ["", "", ""])), [], "keeps ANY");
    let mut chaos = message(QR | 5, question, ["", "", ""]);
    *chaos.last_mut().unwrap() = 3;
    assert_eq!(lame_after(|upstream| upstream.gives(LAME, &chaos)), [], "of class CH");
}

#[test]
fn name_servers_without_an_address_get_none_where_lame_ones_are_kept() {
    let build = |mut builder: Upstream| {
        let referral = ["", "lost.com. 60 NS ns.lost.com.\n", ""];
        builder.says(COM_SERVER, QR, "www.lost.com A", referral);
        let answer = ["www.lost.com. 60 A 192.0.2.90\n", "lost.com. 60 NS ns.lost.com.\n", ""];
        builder.says("192.0.2.14", AA, "www.lost.com A", answer);
        builder.first()
    };
    let has_address = |built: &Built| zone(built, "com.").iter().any(|line| line.starts_with("ns.lost.com."));
    assert!(has_address(&build(Upstream::new())));
    let kept = build(delegated());
    assert!(!has_address(&kept) && zone(&kept, "com.").contains(&"lost.com. 60 NS ns.lost.com.".into()));
}
