//! Tests of replies: each loads a zone from text, sends a query, and reads the reply with `domain`.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use domain::base::iana::Rtype;
use domain::base::message::Message;
use domain::base::{Name, ParsedName};
use domain::rdata::AllRecordData;
use ldplayer_core::message::QueryParts;

use super::*;
use crate::load;
use crate::store::{Changes, Progress, Walk};

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
        ("example", "ANY", "NOERROR aa; an example NS; an example NS".into()),
        ("example", "AXFR", "REFUSED".into()),
    ] {
        assert_eq!(ask(&zone, name, qtype), wanted, "{name} {qtype}");
    }
}

/// Zones that are read once.
static SIGNED: LazyLock<[Zone; 4]> = LazyLock::new(|| {
    [
        zone("test", include_str!("../../tests/zones/nsec.zone")),
        zone("test", include_str!("../../tests/zones/nsec3.zone")),
        zone("test", include_str!("../../tests/zones/nsec3-opt-out.zone")),
        zone("example", PLAIN),
    ]
});

fn signed(name: &str) -> &'static Zone {
    let names = ["nsec", "nsec3", "opt-out", "plain"];
    &SIGNED[names.iter().position(|&known| known == name).unwrap()]
}

#[test]
fn the_question_keeps_its_case_and_so_do_owners() {
    let zone = zone("example", PLAIN);
    assert!(ask(&zone, "wEb.ExAmPlE", "A").starts_with("NOERROR aa; an wEb.ExAmPlE A"));
    assert!(ask(&zone, "X.suB.eXample", "A").starts_with("NOERROR; ns suB.eXample NS"));
    assert!(ask(&zone, "x.aLIas.example", "A").contains("an aLIas.example DNAME; an x.aLIas.example CNAME"));
}

#[test]
fn glue_that_does_not_fit_is_told() {
    let zone = signed("nsec");
    let ask = |name: &str, size, transport| ask_with(zone, name, "A", Some((size, false)), transport);
    assert!(ask("x.bigcut.test", 512, Transport::Udp).starts_with("NOERROR tc; ns bigcut.test NS"));
    assert_eq!(ask("x.bigcut.test", 512, Transport::Tcp).matches("; ar ns-").count(), 26);
    assert_eq!(ask("x.bigcut.test", 1232, Transport::Udp).matches("; ar ns-").count(), 26);
    let (plain, secure) = (ask("x.sub.test", 512, Transport::Udp), ask("x.secure.test", 512, Transport::Udp));
    assert!(plain.starts_with("NOERROR; ns") && secure.starts_with("NOERROR; ns"));
}

/// One octet changed in a query, or a part of it, and what comes of it: length, RCODE, kind.
fn reply_to(change: impl FnOnce(&mut Vec<u8>)) -> (ReplyKind, u16, Vec<u8>) {
    let zone = zone("example", PLAIN);
    let mut query = Vec::new();
    let name = b"\x03web\x07example\0";
    QueryParts { id: 7, flags: flag::RD | flag::CD, name, qtype: 1, qclass: 1, edns: Some((4096, true)) }
        .compose(&mut query);
    change(&mut query);
    let mut out = Vec::new();
    let reply = respond(&zone, &query, Transport::Udp, &mut Scratch::default(), &mut out);
    (reply.kind, reply.rcode, out)
}

#[test]
fn what_is_no_query_for_the_zone_is_told_by_its_code() {
    let opt = 12 + 13 + 4;
    let doubled = |query: &mut Vec<u8>| {
        query.extend_from_within(opt..);
        query[11] = 2;
    };
    let (kind, code, out) = reply_to(|_| {});
    assert_eq!((kind, code, out[2], out[3]), (ReplyKind::Answer, 0, 0x85, 0), "RD is copied, CD and AD are not");
    let of = |change: &dyn Fn(&mut Vec<u8>)| {
        let (kind, code, out) = reply_to(|query| change(query));
        (kind, code, out.len())
    };
    // Header, question, OPT.
    let (all, bare) = (12 + 17 + 11, 12 + 17);
    assert_eq!(of(&|query| query.truncate(11)), (ReplyKind::Silent, 0, 0));
    assert_eq!(of(&|query| query[2] |= 0x80), (ReplyKind::Silent, 0, 0), "a response is not answered");
    assert_eq!(of(&|query| query.truncate(20)), (ReplyKind::FormErr, 1, 12));
    assert_eq!(of(&|query| query[5] = 0), (ReplyKind::FormErr, 1, 12));
    assert_eq!(of(&|query| query[5] = 2), (ReplyKind::FormErr, 1, 12), "RFC 9619");
    assert_eq!(of(&|query| query[7] = 1), (ReplyKind::FormErr, 1, bare), "an answer in a query");
    assert_eq!(of(&|query| query[2] |= 0x02), (ReplyKind::FormErr, 1, bare), "TC in a query");
    assert_eq!(of(&|query| query.truncate(35)), (ReplyKind::FormErr, 1, bare), "a part of the OPT record");
    assert_eq!(of(&doubled), (ReplyKind::FormErr, 1, all), "two OPT records");
    assert_eq!(of(&|query| query[opt + 6] = 1), (ReplyKind::BadVersion, 16, all));
    for opcode in [1, 2, 4, 5, 6] {
        assert_eq!(of(&|query| query[2] = opcode << 3), (ReplyKind::NotImplemented, 4, all), "opcode {opcode}");
    }
    // Whatever QDCOUNT is.
    let opt_record = [0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0];
    let without_question = |query: &mut Vec<u8>| {
        query.splice(12.., opt_record);
        query[5] = 0;
    };
    for opcode in [6, 7, 15] {
        let told = of(&|query| {
            query[2] = opcode << 3;
            without_question(query);
        });
        assert_eq!(told, (ReplyKind::NotImplemented, 4, 12 + 11), "opcode {opcode} without a question");
        let told = of(&|query| (query[2], query[5]) = (opcode << 3, 2));
        assert_eq!(told, (ReplyKind::NotImplemented, 4, 12), "opcode {opcode} with two questions");
    }
    assert_eq!(of(&without_question), (ReplyKind::FormErr, 1, 12), "opcode 0 must have one");
    // Options of an OPT record: whole ones, and those that overrun it.
    let with_options = |options: &'static [u8]| {
        of(&|query| {
            query[opt + 10] = options.len() as u8;
            query.extend_from_slice(options);
        })
    };
    for whole in [&[][..], &[0, 9, 0, 0], &[0, 9, 0, 2, 1, 1], &[0, 9, 0, 1, 1, 0, 3, 0, 0]] {
        assert_eq!(with_options(whole).1, 0, "{whole:?}");
    }
    for overrun in [&[0][..], &[0, 9, 0], &[0, 9, 0, 1], &[0, 9, 0, 2, 1], &[0, 9, 0, 0, 1], &[0, 9, 0xff, 0xff, 0]] {
        assert_eq!(with_options(overrun), (ReplyKind::FormErr, 1, bare), "{overrun:?}");
    }
    for class in [3, 4, 254, 255] {
        assert_eq!(of(&|query| query[28] = class), (ReplyKind::Refused, 5, all), "class {class}");
    }
    assert_eq!(of(&|query| query[13] = b'w'), (ReplyKind::Answer, 0, reply_to(|_| {}).2.len()));
    assert_eq!(of(&|query| query[17] = b'x'), (ReplyKind::Refused, 5, all), "another name");
}

#[test]
fn the_sets_of_an_answer_are_told() {
    let zone = zone("example", PLAIN);
    let mut scratch = Scratch::default();
    let mut asked = |name: &[u8]| {
        let mut query = Vec::new();
        QueryParts { id: 7, flags: 0, name, qtype: 1, qclass: 1, edns: None }.compose(&mut query);
        respond(&zone, &query, Transport::Udp, &mut scratch, &mut Vec::new());
        let shown = |&at: &u32| {
            let set = zone.rrset(at as usize);
            format!("{} {}", ldplayer_core::name::Presentation(set.owner), set.rtype)
        };
        scratch.asked().iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(asked(b"\x03www\x07example\0"), ["www.example. 5", "web.example. 1", "example. 2"]);
    assert_eq!(asked(b"\x01x\x03sub\x07example\0"), ["sub.example. 2"]);
    assert_eq!(asked(b"\x04none\x07example\0"), [""; 0]);
    let listed: Vec<_> = zone.iter_rrsets().map(|(at, set)| (set, zone.rrset(at))).collect();
    assert_eq!(listed.len(), zone.rrsets());
    assert!(listed.iter().all(|(a, b)| a == b));
}

#[test]
fn servers_delegations_and_addresses_are_listed() {
    let zone = zone("example", PLAIN);
    assert_eq!(zone.apex(), b"\x07example\0");
    assert_eq!(zone.records(), PLAIN.lines().count() - 1);
    assert_eq!(zone.name_servers().collect::<Vec<_>>(), [&b"\x03ns1\x07example\0"[..], b"\x02ns\x05other\0"]);
    let cut = &b"\x03sub\x07example\0"[..];
    assert_eq!(
        zone.delegations().collect::<Vec<_>>(),
        [(cut, &b"\x02ns\x03sub\x07example\0"[..]), (cut, b"\x03ns1\x07example\0")]
    );
    let glue = zone.addresses().find(|(owner, ..)| *owner == b"\x02ns\x03sub\x07example\0");
    assert_eq!(glue.map(|(_, rtype, address)| (rtype, address)), Some((1, &[192, 0, 2, 5][..])));
    assert_eq!(zone.addresses().count(), 6);
}

#[test]
fn an_encloser_that_is_opted_out_is_not_the_one_that_is_proven() {
    // in.ent3 is there for the delegation cut.in.ent3 alone, which has no NSEC3 record: the apex is the closest that has.
    let answer = ask_with(signed("opt-out"), "x.in.ent3.test", "A", Some((4096, true)), Transport::Udp);
    assert!(answer.starts_with("NXDOMAIN aa") && answer.matches(".test NSEC3").count() == 3, "{answer}");
    assert_eq!(answer, ask_with(signed("opt-out"), "y.in.ent3.test", "A", Some((4096, true)), Transport::Udp));
}

#[test]
fn zones_are_small() {
    let mut text = Vec::new();
    let packed = &include_bytes!("../../../../data/root-2016100801.zone.xz")[..];
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(packed), &mut text).unwrap();
    let root = zone(".", std::str::from_utf8(&text).unwrap());
    assert_eq!(root.records(), 21_418);
    for zone in [signed("nsec"), signed("nsec3"), signed("opt-out"), &root] {
        assert!(zone.memory_bytes() < 400 * zone.records(), "{} for {}", zone.memory_bytes(), zone.records());
    }
}

#[test]
fn a_long_chain_over_tcp_stays_within_what_pointers_reach() {
    let signature = "A".repeat(4000);
    let mut text = String::from(
        "$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS a\n@ RRSIG SOA 8 1 60 20700101000000 20200101000000 1 @ AAAA\n",
    );
    for number in 0..12 {
        text.push_str(&format!(
            "x{number} CNAME x{}\nx{number} RRSIG CNAME 8 2 60 20700101000000 20200101000000 1 @ {signature}\n",
            number + 1
        ));
    }
    text.push_str("x12 A 192.0.2.1\n");
    let zone = zone("example", &text);
    let answer = ask_with(&zone, "x0.example", "A", Some((1232, true)), Transport::Tcp);
    assert_eq!((answer.matches(" CNAME;").count(), answer.contains("x12.example A")), (7, false), "{answer}");
    let answer = ask_with(&zone, "x0.example", "A", Some((1232, false)), Transport::Tcp);
    assert!(answer.contains("x12.example A"), "{answer}");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Names of the zones and around them.
    fn names() -> impl Strategy<Value = String> {
        let label = prop_oneof![
            Just("*"),
            Just("wild"),
            Just("x"),
            Just("sub"),
            Just("bigcut"),
            Just("ent"),
            Just("redirect"),
            Just("alias"),
            Just("secure"),
            Just("www"),
            Just("ns1"),
            Just("big-4096"),
            Just("big-512"),
            Just("cloop"),
            Just("redirect-loop"),
            Just("mail"),
            Just("noglue"),
        ];
        prop::collection::vec(label, 0..4)
            .prop_map(|labels| format!("{}.test", labels.join(".")).trim_start_matches('.').to_owned())
    }

    fn check(zone: &Zone, query: &[u8], transport: Transport, most: usize) {
        let mut out = b"before".to_vec();
        let reply = respond(zone, query, transport, &mut Scratch::default(), &mut out);
        assert_eq!((reply.length, reply.sends), (out.len() - 6, reply.length > 0));
        if reply.sends {
            assert!(reply.length <= most, "{} octets of {most}", reply.length);
            let message = Message::from_octets(&out[6..]).unwrap();
            let counts = message.header_counts();
            assert_eq!(reply.truncated, message.header().tc());
            let records: usize = [message.answer(), message.authority(), message.additional()]
                .map(|section| {
                    section.unwrap().limit_to::<AllRecordData<_, ParsedName<_>>>().map(Result::unwrap).count()
                })
                .iter()
                .sum();
            assert_eq!(records, usize::from(counts.ancount() + counts.nscount() + counts.arcount()));
        }
    }

    proptest! {
        #[test]
        fn any_octets_get_a_sound_reply_or_none(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            check(signed("plain"), &octets, Transport::Udp, 1232);
        }

        #[test]
        fn a_damaged_query_gets_a_sound_reply_or_none(at in 0_usize..60, octet: u8, length in 0_usize..60) {
            let mut query = Vec::new();
            let name = b"\x03web\x07example\0";
            QueryParts { id: 7, flags: 0, name, qtype: 1, qclass: 1, edns: Some((1232, true)) }.compose(&mut query);
            let at = at % query.len();
            query[at] = octet;
            check(signed("plain"), &query, Transport::Udp, 1232);
            query.truncate(length);
            check(signed("plain"), &query, Transport::Udp, 1232);
        }

        #[test]
        fn no_reply_is_too_long_and_all_are_whole(
            name in names(), qtype in prop::sample::select(vec![1_u16, 2, 5, 6, 15, 16, 28, 33, 39, 43, 46, 47, 48, 50, 255]),
            edns in prop::option::of((0_u16..5000, any::<bool>())), is_tcp: bool, which in prop::sample::select(vec!["nsec", "nsec3", "opt-out"]),
        ) {
            let mut wire = Vec::new();
            ldplayer_core::name::parse(&name, &mut wire).unwrap();
            let mut query = Vec::new();
            QueryParts { id: 7, flags: 0, name: &wire, qtype, qclass: 1, edns }.compose(&mut query);
            let most = if is_tcp { 65_535 } else { edns.map_or(512, |(size, _)| size.clamp(512, 1232)).into() };
            check(signed(which), &query, if is_tcp { Transport::Tcp } else { Transport::Udp }, most);
        }

        #[test]
        fn a_referral_written_beforehand_is_the_one_that_is_written_anew(prefix in "[a-z]{1,40}(\\.[a-z]{1,20}){0,3}", dnssec: bool) {
            let zone = signed("nsec3");
            for cut in ["bigcut.test", "secure.test", "sibling.test", "cut.in.ent3.test"] {
                let of = |name: &str| ask_with(zone, name, "A", Some((1232, dnssec)), Transport::Tcp);
                // The owner is written with the question's name before it, and a DS question at the cut is none for a referral.
                prop_assert_eq!(of(&format!("{prefix}.{cut}")), of(cut));
            }
        }
    }
}

/// It was offered again and again, in messages without an answer.
#[test]
fn a_transfer_leaves_out_a_record_that_no_message_can_hold() {
    let large = format!("large TYPE65280 \\# 65500 {}\n", "00".repeat(65_500));
    let zone = zone("example.", &format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n{large}www A 192.0.2.1\n"));
    let (mut query, mut walk, mut all) = (Vec::new(), Walk::default(), Vec::new());
    let name = b"\x07example\0";
    QueryParts { id: 7, flags: 0, name, qtype: crate::rtype::AXFR, qclass: 1, edns: None }.compose(&mut query);
    for _ in 0..4 {
        let mut message = Vec::new();
        zone.transfer(&query, &mut walk, &mut message);
        all.push(Message::from_octets(message).unwrap().header_counts().ancount());
    }
    assert!(walk.is_done(), "{all:?}");
    assert_eq!(all.iter().sum::<u16>(), 4, "SOA, NS, A, SOA: {all:?}");
}

#[test]
fn changes_take_as_many_messages_as_they_need() {
    let zone = |serial: u32, hosts: u32| {
        let hosts: String = (0..hosts).map(|host| format!("h{host} A 192.0.2.1\n")).collect();
        zone("example.", &format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\n{hosts}"))
    };
    let (before, after) = (zone(1, 0), zone(2, 5_000));
    let changes = [Arc::new(Changes::between(&before, &after).unwrap())];
    let (mut query, mut progress, mut all) = (Vec::new(), Progress::default(), Vec::new());
    let name = b"\x07example\0";
    QueryParts { id: 7, flags: 0, name, qtype: crate::rtype::IXFR, qclass: 1, edns: Some((1232, false)) }
        .compose(&mut query);
    while !progress.is_done(changes.len()) {
        let mut message = Vec::new();
        after.transfer_changes(&query, &changes, &mut progress, &mut message);
        assert!(message.len() < 17_000);
        let counts = Message::from_octets(message).unwrap().header_counts();
        all.push([counts.qdcount(), counts.ancount(), counts.arcount()]);
    }
    assert!(all.len() > 8 && all[0][0] == 1 && all[0][2] == 1, "{all:?}");
    assert!(all[1..].iter().all(|counts| counts[0] == 0 && counts[2] == 0), "{all:?}");
    assert_eq!(all.iter().map(|counts| counts[1]).sum::<u16>(), 5_004, "four SOA records");
}
