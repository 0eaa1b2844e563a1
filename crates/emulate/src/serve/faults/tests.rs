//! Rules and what they make of answers: with the answers of a signed zone, and without a network.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ldplayer_core::Message;
use ldplayer_core::message::{QueryParts, flag};
use ldplayer_core::transport::Transport;
use ldplayer_zone::sign::{self, Denial, KeySpec, Policy, Validity};
use ldplayer_zone::{Scratch, Zone, respond};

use super::{Asked, Fate, Faults, Maker};

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7));
/// As if signed: what is in a record is not looked at.
const ZONE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.80\n\
    www RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA\n@ DNSKEY 257 3 13 AAAA\n\
    @ RRSIG DNSKEY 13 1 60 20300101000000 20200101000000 1 example. AAAA\nsub NS ns.sub\nns.sub A 192.0.2.2\n";

fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    ldplayer_core::name::parse(text, &mut wire).unwrap();
    wire
}

fn zone() -> Zone {
    zone_of(ZONE)
}

fn zone_of(text: &str) -> Zone {
    Zone::from_records(&records_of(text)).unwrap().0
}

fn records_of(text: &str) -> ldplayer_zone::Records {
    let mut none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    ldplayer_zone::load::text_of(text.as_bytes(), Path::new("z"), Some(&wire("example.")), &mut none).unwrap()
}

/// The zone, signed in earnest.
fn signed(text: &str) -> ldplayer_zone::Records {
    let spec = KeySpec { algorithm: "ecdsap256sha256".parse().unwrap(), ksk_bits: 0, zsk_bits: 0, ksks: 1, zsks: 1 };
    let keys = spec.keys(&wire("example."), &[0; 32], Vec::new()).unwrap();
    let validity = Validity { inception: 0, expiration: i32::MAX as u32 };
    let delegations = std::collections::BTreeMap::new();
    let policy = Policy {
        keys: &keys,
        active_zsks: 1,
        denial: Denial::Nsec,
        collisions: 0,
        validity,
        delegations: &delegations,
        threads: 1,
    };
    sign::zone(&records_of(text), &policy).unwrap().records
}

/// A query, with EDNS and DO or without.
#[derive(Clone, Copy)]
struct Query<'a>(&'a str, u16, bool);

impl Query<'_> {
    fn octets(&self) -> Vec<u8> {
        let (name, mut query) = (wire(self.0), Vec::new());
        let edns = self.2.then_some((1232, true));
        QueryParts { id: 0x1234, flags: 0, name: &name, qtype: self.1, qclass: 1, edns }.compose(&mut query);
        query
    }
}

struct Bed {
    zone: Zone,
    maker: Maker,
    transport: Transport,
    local: IpAddr,
    peer: IpAddr,
    at_ns: i64,
}

impl Bed {
    fn new(rules: &str) -> Self {
        let faults = Arc::new(Faults::parse(rules).unwrap_or_else(|error| panic!("{rules}: {error}")));
        Self {
            zone: zone(),
            maker: Maker::new(faults, 0, 0),
            transport: Transport::Udp,
            local: SERVER,
            peer: CLIENT,
            at_ns: 0,
        }
    }

    fn ask(&mut self, query: Query<'_>) -> (Fate, Vec<u8>) {
        let (zone, mut scratch) = (&self.zone, Scratch::default());
        let mut answer = |query: &[u8], out: &mut Vec<u8>| {
            respond(zone, query, ldplayer_zone::Transport::Udp, &mut scratch, out);
        };
        let (octets, mut out) = (query.octets(), Vec::new());
        answer(&octets, &mut out);
        let name = wire(query.0);
        let asked = Asked {
            zone: Some(self.zone.apex()),
            name: &name,
            qtype: query.1,
            local: self.local,
            peer: self.peer,
            transport: self.transport,
            edns: query.2,
            length: out.len(),
            at_ns: self.at_ns,
        };
        let fate = self.maker.apply(asked, &octets, &mut out, &mut answer);
        (fate, out)
    }

    /// Whether a fault is made, and the message then.
    fn applies(&mut self, query: Query<'_>) -> bool {
        self.ask(query);
        self.maker.take_applied()[0].1 != 0
    }
}

const SENT: Fate = Fate::Sent { later_ns: 0 };
const WWW: Query<'_> = Query("www.example.", 1, true);

/// The answer to `query` under a rule of all queries.
fn answered(answer: &str, query: Query<'_>) -> Vec<u8> {
    let (fate, out) = Bed::new(&format!("[[fault]]\nanswer = '{answer}'")).ask(query);
    assert_eq!(fate, SENT, "{answer}");
    out
}

#[test]
fn codes_and_cut_answers_keep_question_and_opt() {
    for (answer, rcode, set) in [
        ("servfail", 2, flag::AA),
        ("refused", 5, flag::AA),
        ("nxdomain", 3, flag::AA),
        ("truncated", 0, flag::AA | flag::TC),
        ("lame", 0, 0),
        ("bad-version", 16, flag::AA),
    ] {
        let out = answered(answer, WWW);
        let message = Message::new(&out).unwrap();
        assert_eq!((message.rcode(), message.counts()), (rcode, [1, 0, 0, 1]), "{answer}");
        assert_eq!(message.flags() & (flag::AA | flag::TC), set, "{answer}");
        assert!(message.question().unwrap().name == wire("www.example.") && message.edns().is_some(), "{answer}");
        assert!(message.is_response() && !message.is_cut() && message.id() == 0x1234, "{answer}");
    }
    let out = answered("servfail", Query("www.example.", 1, false));
    assert_eq!((Message::new(&out).unwrap().counts(), out.len()), ([1, 0, 0, 0], 12 + 13 + 4));
}

#[test]
fn edns_is_refused_or_passed_over_and_queries_without_it_are_answered() {
    let plain = Query("www.example.", 1, false);
    let out = answered("no-edns", WWW);
    let message = Message::new(&out).unwrap();
    assert_eq!((message.rcode(), message.counts()), (1, [1, 0, 0, 0]));
    let (_, without) = Bed::new("[[fault]]\nshare = '0 %'\nanswer = 'none'").ask(plain);
    for answer in ["no-edns", "bad-version", "edns-ignored", "unsigned"] {
        assert_eq!(answered(answer, plain), without, "{answer}");
    }
    assert_eq!(answered("edns-ignored", WWW), without, "as to a query without EDNS");
}

#[test]
fn signatures_are_left_out() {
    let (_, signed) = Bed::new("[[fault]]\nshare = '0 %'\nanswer = 'none'").ask(WWW);
    let out = answered("unsigned", WWW);
    let counts = |octets: &[u8]| Message::new(octets).unwrap().counts();
    assert_eq!((counts(&signed), counts(&out)), ([1, 2, 1, 2], [1, 1, 1, 2]));
}

/// Expiration, inception and last octet of the first signature.
fn signature(octets: &[u8]) -> (u32, u32, u8) {
    let message = Message::new(octets).unwrap();
    let mut at = message.behind_questions().unwrap();
    loop {
        let (next, rtype) = message.record_at(at).unwrap();
        let data = message.rdata_at(at).unwrap();
        if rtype == 46 {
            let time = |at: usize| u32::from_be_bytes(*octets[data + at..].first_chunk().unwrap());
            return (time(8), time(12), octets[next - 1]);
        }
        at = next;
    }
}

#[test]
fn signatures_have_other_times_or_a_wrong_bit() {
    let (_, right) = Bed::new("[[fault]]\nshare = '0 %'\nanswer = 'none'").ask(WWW);
    let (expiration, inception, last) = signature(&right);
    let ten_years = 10 * 365 * 86_400;
    assert_eq!(signature(&answered("expired", WWW)), (expiration - ten_years, inception - ten_years, last));
    assert_eq!(signature(&answered("not-yet-valid", WWW)), (expiration + ten_years, inception + ten_years, last));
    assert_eq!(signature(&answered("bogus", WWW)), (expiration, inception, last ^ 1));
    let plain = Query("www.example.", 1, false);
    let (_, unsigned) = Bed::new("[[fault]]\nshare = '0 %'\nanswer = 'none'").ask(plain);
    assert_eq!(answered("bogus", plain), unsigned);
}

#[test]
fn glue_is_left_out() {
    let query = Query("a.sub.example.", 1, true);
    let (_, referral) = Bed::new("[[fault]]\nshare = '0 %'\nanswer = 'none'").ask(query);
    let out = answered("without-glue", query);
    let message = Message::new(&out).unwrap();
    assert_eq!((Message::new(&referral).unwrap().counts(), message.counts()), ([1, 0, 1, 2], [1, 0, 1, 1]));
    assert!(!message.is_cut() && message.edns().is_some());
    let out = answered("without-glue", Query("a.sub.example.", 1, false));
    assert_eq!(Message::new(&out).unwrap().counts(), [1, 0, 1, 0]);
}

/// The records of an answer: owner, type and data as text, without OPT.
fn shown(octets: &[u8]) -> Vec<String> {
    let parts = super::records::Parts::of(octets).unwrap();
    let all = parts.answers.iter().chain(&parts.authorities).chain(&parts.additionals);
    let is_shown = |record: &&super::records::Any| record.rtype() != domain::base::Rtype::OPT;
    all.filter(is_shown).map(|record| format!("{} {} {}", record.owner(), record.rtype(), record.data())).collect()
}

#[test]
fn an_answer_taken_apart_and_written_again_says_the_same() {
    for query in
        [WWW, Query("a.sub.example.", 1, true), Query("none.example.", 28, false), Query("example.", 255, true)]
    {
        let (_, octets) = Bed::new("[[fault]]\nshare = '0 %'\nanswer = 'none'").ask(query);
        let mut again = Vec::new();
        super::records::Parts::of(&octets).unwrap().write(&mut again);
        assert_eq!(shown(&again), shown(&octets));
        let [before, after] = [&octets, &again].map(|octets| Message::new(octets).unwrap());
        assert_eq!((after.flags(), after.counts(), after.id()), (before.flags(), before.counts(), before.id()));
        assert!(after.same_question(&before) && after.edns() == before.edns(), "{}", query.0);
    }
}

#[test]
fn an_alias_loops_or_is_the_next_of_a_chain() {
    let first = answered("alias-loop", WWW);
    assert_eq!(shown(&first), ["www.example CNAME loop.www.example."]);
    assert_eq!(
        shown(&answered("alias-loop", Query("Loop.www.example.", 1, true))),
        ["Loop.www.example CNAME www.example."]
    );
    assert!(Message::new(&first).unwrap().edns().is_some());
    let long = format!("{0}.{0}.{0}.{1}.example.", "x".repeat(63), "x".repeat(50));
    assert_eq!(Message::new(&answered("alias-loop", Query(&long, 1, true))).unwrap().rcode(), 2);

    let mut bed = Bed::new("[[fault]]\nanswer = 'alias-chain'\ncount = 2");
    let mut chain = |name: &str| shown(&bed.ask(Query(name, 1, false)).1);
    assert_eq!(chain("www.example."), ["www.example CNAME 1.www.example."]);
    assert_eq!(chain("1.www.example."), ["1.www.example CNAME 2.www.example."]);
    let end = chain("2.www.example.");
    assert_eq!(end[0], "2.www.example A 192.0.2.80");
    let answer = bed.ask(Query("2.www.example.", 1, false)).1;
    assert_eq!(Message::new(&answer).unwrap().question().unwrap().name, wire("2.www.example."));
}

#[test]
fn a_delegation_loops_or_names_servers_of_somebody_else() {
    let loops = answered("delegation-loop", Query("a.www.example.", 1, true));
    assert_eq!(shown(&loops), ["www.example NS ns.loop-www.example."]);
    let message = Message::new(&loops).unwrap();
    assert!(!message.has(flag::AA) && message.counts() == [1, 0, 1, 1]);
    assert_eq!(
        shown(&answered("delegation-loop", Query("ns.loop-www.example.", 1, true))),
        ["loop-www.example NS ns.www.example."]
    );
    let apex = Query("example.", 2, true);
    let (_, own) = Bed::new("[[fault]]\nshare = '0 %'\nanswer = 'none'").ask(apex);
    assert_eq!(answered("delegation-loop", apex), own, "the zone itself is not delegated");

    let mut bed = Bed::new("[[fault]]\nanswer = 'many-servers'\ntarget = 'victim.test.'");
    let (once, again) = (bed.ask(WWW).1, bed.ask(WWW).1);
    let names = shown(&once);
    assert!(names.len() == 40 && once.len() <= 1232, "{} {}", names.len(), once.len());
    assert!(
        names.iter().all(|line| line.starts_with("www.example NS n") && line.ends_with(".victim.test.")),
        "{names:?}"
    );
    let plain = bed.ask(Query("www.example.", 1, false)).1;
    assert!(Message::new(&plain).unwrap().has(flag::TC) && plain.len() < 512, "no room without EDNS");
    bed.transport = Transport::Tcp;
    assert_eq!(shown(&bed.ask(Query("www.example.", 1, false)).1).len(), 40);
    let mut all = [names, shown(&again)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 80, "each referral has its own");
}

#[test]
fn records_are_taken_added_and_changed() {
    let referral = Query("a.sub.example.", 1, true);
    assert_eq!(
        shown(&answered("wrong-glue", referral)),
        ["sub.example NS ns.sub.example.", "ns.sub.example A 192.0.2.253"]
    );
    let out = Bed::new("[[fault]]\nadd = ['www.bank.test. 3600 A 203.0.113.66', 'bank.test. 60 NS ns.evil.test.']")
        .ask(referral)
        .1;
    assert_eq!(shown(&out)[2..], ["www.bank.test A 203.0.113.66", "bank.test NS ns.evil.test."].map(str::to_owned));
    let message = Message::new(&out).unwrap();
    assert!(message.counts() == [1, 0, 1, 4] && message.edns().is_some() && !message.is_cut());

    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ NS ns2\nns A 192.0.2.1\nns2 A 192.0.2.2\nwww A 192.0.2.80\nsub NS ns.sub\nsub NS b.sub\n\
        sub DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000\nns.sub A 192.0.2.2\n";
    let of = |answer: &str, query| {
        let mut bed = Bed::new(&format!("[[fault]]\nanswer = '{answer}'"));
        bed.zone = Zone::from_records(&signed(zone)).unwrap().0;
        shown(&bed.ask(query).1)
    };
    let types =
        |records: &[String]| records.iter().map(|one| one.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(types(&of("noerror", referral)), Vec::<String>::new());
    assert_eq!(types(&of("without-glue", referral)), ["NS", "NS", "DS", "RRSIG"]);
    assert_eq!(types(&of("without-ds", referral)), ["NS", "NS", "A"]);
    assert_eq!(of("fewer-servers", Query("example.", 2, false))[..1], ["example NS ns.example.".to_owned()]);
    assert!(!types(&of("fewer-servers", Query("example.", 2, false)))[1..].contains(&"NS".to_owned()));
    let missing = Query("aaa.example.", 1, true);
    let proof = |records: Vec<String>| records.into_iter().filter(|one| one.contains(" NSEC ")).collect::<Vec<_>>();
    assert_eq!(types(&of("without-denial", missing)), ["SOA", "RRSIG"]);
    let (right, wrong) = (proof(of("bogus", missing)), proof(of("wrong-denial", missing)));
    assert!(!wrong.is_empty() && right != wrong, "{right:?} {wrong:?}");
}

#[test]
fn a_fault_that_changes_nothing_is_not_counted() {
    let mut bed = Bed::new("[[fault]]\nanswer = 'without-ds'");
    assert!(!bed.applies(WWW));
    let mut bed = Bed::new("[[fault]]\nanswer = 'bogus'");
    assert!(!bed.applies(Query("ns.example.", 1, false)) && bed.applies(WWW));
}

#[test]
fn options_are_left_out() {
    let mut out = WWW.octets();
    let length = out.len();
    out[length - 1] = 8;
    out.extend([0, 10, 0, 4, 1, 2, 3, 4]);
    let asked = Asked {
        zone: None,
        name: &wire("www.example."),
        qtype: 1,
        local: SERVER,
        peer: CLIENT,
        transport: Transport::Udp,
        edns: true,
        length,
        at_ns: 0,
    };
    let faults = Arc::new(Faults::parse("[[fault]]\nanswer = 'without-options'").unwrap());
    let mut maker = Maker::new(faults, 0, 0);
    maker.apply(asked, &WWW.octets(), &mut out, &mut |_, _| {});
    assert_eq!((out, maker.take_applied()), (WWW.octets(), vec![("fault 1".to_owned(), 1)]));
}

#[test]
fn slow_answers_are_of_connections_and_other_ports_of_udp() {
    for (rule, transport, fate) in [
        ("pace = '10ms'", Transport::Tcp, Fate::SentSlowly { every_ns: 10_000_000 }),
        ("pace = '10ms'", Transport::Dot, Fate::SentSlowly { every_ns: 10_000_000 }),
        ("pace = '10ms'", Transport::Udp, SENT),
        ("pace = '10ms'", Transport::Doq, SENT),
        ("answer = 'wrong-port'", Transport::Udp, Fate::SentElsewhere),
        ("answer = 'wrong-port'", Transport::Tcp, SENT),
    ] {
        let mut bed = Bed::new(&format!("[[fault]]\n{rule}"));
        bed.transport = transport;
        assert_eq!(bed.ask(WWW).0, fate, "{rule} {transport}");
        assert_eq!(bed.maker.take_applied()[0].1, u64::from(fate != SENT), "{rule} {transport}");
    }
}

#[test]
fn an_answer_to_another_query_differs_in_what_it_says_it_answers() {
    let (id, question) = (answered("wrong-id", WWW), answered("wrong-question", WWW));
    let query = WWW.octets();
    let asked = Message::new(&query).unwrap();
    let same = |octets: &[u8]| {
        let message = Message::new(octets).unwrap();
        (message.id() == asked.id(), message.same_question(&asked))
    };
    assert_eq!((same(&id), same(&question)), ((false, true), (true, false)));
    let root = answered("wrong-question", Query(".", 2, false));
    assert!(Message::new(&root).unwrap().question().unwrap().qtype != 2);
}

#[test]
fn nothing_is_sent_or_later() {
    let fate = |rule: &str| Bed::new(&format!("[[fault]]\n{rule}")).ask(WWW).0;
    assert_eq!(fate("answer = 'none'"), Fate::Dropped);
    assert_eq!(fate("answer = 'reset'"), Fate::Reset);
    assert_eq!(fate("delay = '200ms'"), Fate::Sent { later_ns: 200_000_000 });
    assert_eq!(fate("delay = '1s'\nanswer = 'servfail'"), Fate::Sent { later_ns: 1_000_000_000 });
    let mut bed = Bed::new("[[fault]]\ndelay = 'uniform:10ms,20ms'");
    let delays: Vec<i64> = (0..50)
        .map(|_| match bed.ask(WWW).0 {
            Fate::Sent { later_ns } => later_ns,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(delays.iter().all(|delay| (10_000_000..=20_000_000).contains(delay)), "{delays:?}");
    assert!(delays.windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn each_condition_fits_what_it_says() {
    for (rule, fitting, other) in [
        ("zone = 'EXAMPLE.'", WWW, None),
        ("zone = 'com.'", Query("none.example.", 1, true), Some(WWW)),
        ("under = 'Sub.example.'", Query("A.sub.EXAMPLE.", 1, true), Some(WWW)),
        ("under = ['a.example.', 'www.example.']", WWW, Some(Query("ww.example.", 1, true))),
        ("under = 'w.example.'", Query("w.example.", 1, true), Some(WWW)),
        ("type = ['AAAA', 'DNSKEY']", Query("example.", 48, true), Some(WWW)),
        ("edns = true", WWW, Some(Query("www.example.", 1, false))),
        ("edns = false", Query("www.example.", 1, false), Some(WWW)),
        ("level = 'tld'", WWW, None),
        ("above = 100", WWW, Some(Query("www.example.", 1, false))),
    ] {
        let mut bed = Bed::new(&format!("[[fault]]\n{rule}\nanswer = 'servfail'"));
        // The zone of all answers here is `example.`.
        assert_eq!(bed.applies(fitting), rule != "zone = 'com.'", "{rule}");
        assert!(other.is_none_or(|other| !bed.applies(other)), "{rule}");
    }
    let mut bed = Bed::new(
        "[[fault]]\nserver = '192.0.2.0/24'\nclient = ['198.51.100.7', '::1']\ntransport = 'tcp'\nanswer = 'none'",
    );
    assert!(!bed.applies(WWW));
    bed.transport = Transport::Tcp;
    assert!(bed.applies(WWW));
    bed.peer = SERVER;
    assert!(!bed.applies(WWW));
    (bed.peer, bed.local) = (CLIENT, CLIENT);
    assert!(!bed.applies(WWW));
}

#[test]
fn a_fault_has_its_time_and_its_share() {
    let mut bed = Bed::new("[[fault]]\nafter = '30s'\nfor = '10s'\nanswer = 'none'");
    let at = |second: i64| second * 1_000_000_000;
    for (second, is_made) in [(0, false), (29, false), (30, true), (39, true), (40, false)] {
        bed.at_ns = at(second);
        assert_eq!(bed.applies(WWW), is_made, "{second}");
    }
    let count = |seed: u32| {
        let mut bed = Bed::new(&format!("seed = {seed}\n[[fault]]\nshare = '30 %'\nanswer = 'none'"));
        (0..10_000).map(|_| u32::from(bed.applies(WWW))).collect::<Vec<_>>()
    };
    let (one, again, other) = (count(1), count(1), count(2));
    assert!(one == again && one != other);
    let made: u32 = one.iter().sum();
    assert!((2_800..3_200).contains(&made), "{made}");
}

#[test]
fn the_first_rule_that_fits_applies_and_each_is_counted() {
    let mut bed = Bed::new("[[fault]]\ntype = 'AAAA'\nanswer = 'none'\n[[fault]]\nanswer = 'refused'");
    assert_eq!(bed.ask(Query("www.example.", 28, true)).0, Fate::Dropped);
    assert_eq!(bed.ask(WWW).0, SENT);
    assert_eq!(bed.ask(WWW).0, SENT);
    let mut counts = || bed.maker.take_applied().into_iter().map(|(_, count)| count).collect::<Vec<_>>();
    assert_eq!((counts(), counts()), (vec![1, 2], vec![0, 0]));
}

#[test]
fn a_bad_rule_is_told_with_its_line() {
    for (text, said) in [
        ("", "line 1: no rule: begin one with [[fault]]"),
        ("[[fault]]\nzone = 'com.'", "fault 1: no fault: add `answer`, `add`, `delay` or `pace`"),
        ("[[fault]]\nanswer = 'servfial'", "did you mean `servfail`?"),
        ("[[fault]]\nanswr = 'none'", "line 2: unknown key `answr`: did you mean `answer`?"),
        ("[[fault]]\nanswer = 'none'\ndelay = '1s'", "what is not answered cannot be late"),
        ("[[fault]]\nanswer = 'none'\nshare = '130 %'", "`130 %` is no share: 30 % or 0.3"),
        ("[[fault]]\nanswer = 'none'\ntype = 'NOPE'", "`NOPE` is no type"),
        (
            "[[fault]]\nanswer = 'none'\ntransport = 'sctp'",
            "unknown transport `sctp`: use udp, tcp, dot, doh2, doh3 or doq",
        ),
        ("[[fault]]\nanswer = 'none'\nlevel = 'first'", "`first` is none of root, tld, second, deeper"),
        ("[[fault]]\nanswer = 'many-servers'", "`many-servers` needs `target`, a name"),
        ("[[fault]]\nanswer = 'many-servers'\ntarget = 'a.'\ncount = 41", "line 4: `count`"),
        (
            &format!("[[fault]]\nanswer = 'many-servers'\ntarget = '{}'", "long.".repeat(48)),
            "is too long: names are put before it",
        ),
        ("[[fault]]\nanswer = 'servfail'\ncount = 2", "no answer of this rule has `count`"),
        ("[[fault]]\nanswer = 'alias-chain'\ntarget = 'a.'", "no answer of this rule has `target`"),
        ("[[fault]]\nadd = 'a. A'", "`a. A` is no record: "),
        ("[[fault]]\nadd = ''", "`` is no record: expected one, as www.example. 60 A 192.0.2.1"),
        ("[[fault]]\nanswer = 'none'\nadd = 'a. 1 A 192.0.2.1'", "what is not answered has no records"),
        ("[[fault]]\nanswer = 'wrong-port'\ndelay = '1s'", "`wrong-port` is a fault alone"),
        ("[[fault]]\npace = '0s'", "expected a time above 0, as 10ms"),
        ("[[fault]]\npace = '1ms'\ndelay = '1s'", "`delay` and `pace` are two rules"),
        ("[[fault]]\nanswer = 'none'\nunder = 'a..b'", "`a..b` is no name"),
        ("[[fault]]\nanswer = 'none'\nclient = 'here'", "line 3: `client`"),
        ("[[fault]]\ndelay = 'soon'", "line 2: `delay`"),
        ("[[fault]]\ndelay = 'csv:rtt.csv'", "line 2: `delay`"),
    ] {
        let error = Faults::parse(text).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn what_comes_along_is_what_is_in_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/faults");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert_eq!(files, Faults::ready().collect::<Vec<_>>());
    Faults::ready().for_each(|name| drop(Faults::read(Path::new(name)).unwrap()));
}
