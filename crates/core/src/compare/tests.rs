//! Tests of what changes a fingerprint and what does not.

use super::*;
use crate::message::OPT;
use proptest::prelude::*;

/// A record to be written: section, owner, type, TTL and the parts of its data.
#[derive(Clone, Debug)]
struct Record {
    section: usize,
    owner: &'static str,
    rtype: u16,
    ttl: u32,
    data: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Octets(Vec<u8>),
    Name(&'static str),
}

/// How a message is written.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    compressed: bool,
    capitals: bool,
}

const QUESTION: &str = "www.example.org";
const SOA: u16 = 6;
const RRSIG: u16 = 46;

fn name(text: &str, style: Style, seen: &mut Vec<(String, usize)>, out: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        if rest.is_empty() {
            return out.push(0);
        }
        let known = seen.iter().find(|(known, _)| known == rest).map(|&(_, at)| at);
        if let Some(at) = known.filter(|_| style.compressed) {
            return out.extend_from_slice(&(0xc000 | at as u16).to_be_bytes());
        }
        if out.len() < 0x4000 {
            seen.push((rest.to_owned(), out.len()));
        }
        let (label, behind) = rest.split_once('.').unwrap_or((rest, ""));
        out.push(label.len() as u8);
        let label = if style.capitals { label.to_uppercase() } else { label.to_owned() };
        out.extend_from_slice(label.as_bytes());
        rest = behind;
    }
}

fn message(flags: u16, records: &[Record], style: Style) -> Vec<u8> {
    let (mut out, mut seen) = (vec![0; 12], Vec::new());
    out[2..4].copy_from_slice(&(flag::QR | flags).to_be_bytes());
    out[5] = 1;
    name(QUESTION, style, &mut seen, &mut out);
    out.extend_from_slice(&[0, 1, 0, 1]);
    for section in 0..SECTIONS {
        let of_section: Vec<&Record> = records.iter().filter(|record| record.section == section).collect();
        out[6 + 2 * section..8 + 2 * section].copy_from_slice(&(of_section.len() as u16).to_be_bytes());
        for record in of_section {
            name(record.owner, style, &mut seen, &mut out);
            out.extend_from_slice(&record.rtype.to_be_bytes());
            out.extend_from_slice(&[0, 1]);
            out.extend_from_slice(&record.ttl.to_be_bytes());
            let length_at = out.len();
            out.extend_from_slice(&[0, 0]);
            for part in &record.data {
                match part {
                    Part::Octets(octets) => out.extend_from_slice(octets),
                    Part::Name(text) => name(text, style, &mut seen, &mut out),
                }
            }
            let length = (out.len() - length_at - 2) as u16;
            out[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
        }
    }
    out
}

fn print(octets: &[u8], rules: &[&str]) -> Fingerprint {
    let rules: Vec<IgnoreRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    Fingerprint::of(&Message::new(octets).unwrap(), &Ignore::of(&rules))
}

fn record(section: usize, owner: &'static str, rtype: u16, data: Vec<Part>) -> Record {
    Record { section, owner, rtype, ttl: 300, data }
}

fn address(last: u8) -> Record {
    record(0, QUESTION, 1, vec![Part::Octets(vec![192, 0, 2, last])])
}

fn judged(recorded: &[u8], now: &[u8]) -> (Answer, String) {
    let (answer, differs) = print(recorded, &[]).judge(print(now, &[]));
    (answer, differs.to_string())
}

fn plain(flags: u16, records: &[Record]) -> Vec<u8> {
    message(flags, records, Style::default())
}

#[test]
fn better_and_worse_go_by_what_a_client_has_of_it() {
    let (servfail, refused, truncated) = (plain(2, &[]), plain(5, &[]), plain(flag::TC, &[]));
    let (answer, nxdomain) = (plain(0, &[address(1)]), plain(3, &[]));
    let of = |recorded: &[u8], now: &[u8]| judged(recorded, now).0;
    assert_eq!([of(&servfail, &answer), of(&truncated, &nxdomain), of(&servfail, &truncated)], [Answer::Better; 3]);
    assert_eq!([of(&answer, &servfail), of(&nxdomain, &truncated), of(&truncated, &refused)], [Answer::Worse; 3]);
    assert_eq!([of(&servfail, &refused), of(&answer, &nxdomain), of(&answer, &plain(0, &[]))], [Answer::Changed; 3]);
    assert_eq!([of(&servfail, &servfail), of(&answer, &answer)], [Answer::Match; 2]);
}

#[test]
fn the_fields_that_differ_are_told() {
    let base = plain(flag::AA, &[address(1)]);
    let of = |now: &[u8]| judged(&base, now);
    assert_eq!(of(&plain(flag::AA, &[address(2)])), (Answer::Changed, "answer".into()));
    assert_eq!(of(&plain(0, &[address(1)])), (Answer::Changed, "flags".into()));
    assert_eq!(of(&plain(flag::AA | 2, &[])), (Answer::Worse, "rcode,answer".into()));
    let soa = |section| record(section, "example.org", SOA, vec![Part::Octets(vec![7])]);
    assert_eq!(of(&plain(flag::AA, &[address(1), soa(1), soa(2)])), (Answer::Changed, "authority,additional".into()));
    assert_eq!(of(&plain(flag::AA | flag::RD | flag::CD, &[address(1)])), (Answer::Match, String::new()));
}

#[test]
fn the_sections_of_two_truncated_responses_are_not_compared() {
    let (empty, part) = (plain(flag::TC, &[]), plain(flag::TC, &[address(1)]));
    assert_eq!(judged(&empty, &part), (Answer::Match, String::new()));
    assert_eq!(judged(&plain(0, &[address(1)]), &part), (Answer::Worse, "flags".into()));
}

#[test]
fn extended_codes_count_and_the_rest_of_edns_does_not() {
    let opt = |extended: u8, size: u16, data: &[u8]| {
        let class = size.to_be_bytes();
        let mut octets = plain(0, &[address(1)]);
        octets[11] = 1;
        octets.extend_from_slice(&[0, 0, 41, class[0], class[1], extended, 0, 0x80, 0, 0, data.len() as u8]);
        octets.extend_from_slice(data);
        octets
    };
    let base = opt(0, 1232, &[]);
    assert_eq!(judged(&base, &opt(0, 4096, &[0, 10, 0, 1, 9])), (Answer::Match, String::new()));
    assert_eq!(judged(&base, &plain(0, &[address(1)])), (Answer::Match, String::new()));
    assert_eq!(judged(&base, &opt(1, 1232, &[])), (Answer::Worse, "rcode".into()));
    assert_eq!(print(&opt(1, 1232, &[]), &[]).rcode(), 16);
}

/// Type covered, algorithm, labels, original TTL, times, key tag, signer and signature.
fn signature(ttl: u8, time: u8, tag: u8, signature: u8) -> Record {
    let head = [0, 1, 13, 3, 0, 0, 0, ttl, 0, 0, 0, time, 0, 0, 0, time, 0, tag];
    let data = vec![Part::Octets(head.to_vec()), Part::Name("example.org"), Part::Octets(vec![signature; 64])];
    record(0, QUESTION, RRSIG, data)
}

#[test]
fn signatures_are_compared_by_what_they_are_of_and_not_by_when_they_were_made() {
    let with = |signature: Record| plain(0, &[address(1), signature]);
    let base = with(signature(60, 1, 5, 7));
    assert_eq!(judged(&base, &with(signature(9, 2, 5, 8))).0, Answer::Match);
    assert_eq!(judged(&base, &with(signature(60, 1, 6, 7))), (Answer::Changed, "answer".into()));
    assert_eq!(judged(&base, &plain(0, &[address(1)])), (Answer::Changed, "answer".into()));
}

#[test]
fn rules_leave_out_what_they_name_and_no_more() {
    let soa = |serial: u8| {
        let names = vec![Part::Name("ns.example.org"), Part::Name("h.example.org"), Part::Octets(vec![serial; 20])];
        record(1, "example.org", SOA, names)
    };
    let base = plain(flag::AA, &[address(1), soa(1)]);
    let now = plain(0, &[address(2), soa(2)]);
    let left = |rules: &[&str]| print(&base, rules).judge(print(&now, rules)).1.to_string();
    assert_eq!(left(&[]), "flags,answer,authority");
    assert_eq!(left(&["aa", "type == SOA"]), "answer");
    assert_eq!(left(&["ad", "authority", "answer"]), "flags");
    assert_eq!(left(&["section == authority and type in [NS, SOA]"]), "flags,answer");
    assert_eq!(left(&["section == additional and type == SOA"]), "flags,answer,authority");
    assert_eq!(left(&["name under EXAMPLE.org"]), "flags");
    assert_eq!(left(&["name == example.org", "type != A"]), "flags,answer");
    assert_eq!(left(&["name under xample.org", "name == org"]), "flags,answer,authority");
    assert_eq!(left(&["name != example.org and type == 1"]), "flags,authority");
}

#[test]
fn what_is_no_rule_is_answered_with_what_would_be() {
    let refused = |text: &str| text.parse::<IgnoreRule>().unwrap_err().to_string();
    for (text, hint) in [
        ("aditional", "did you mean `additional`?"),
        ("tpye == A", "did you mean `type`?"),
        ("type == AAAAA", "unknown record type `AAAAA`"),
        ("type in [A, ]", "missing comma"),
        ("type < A", "unknown operator `<`"),
        ("type under org", "`under` applies to `name`"),
        ("section == question", "unknown section `question`"),
        ("name == a..b", "empty label"),
        ("type == A and", "expected a field"),
        ("", "expected a field"),
        ("type == A B", "expected one value"),
    ] {
        assert!(refused(text).contains(hint), "{text}: {}", refused(text));
    }
    let rule: IgnoreRule = " type in [A,AAAA] ".parse().unwrap();
    assert_eq!(rule.to_string().parse(), Ok(rule));
}

#[test]
fn differences_are_read_back_as_they_are_shown() {
    for bits in 0..Differs::COMBINATIONS {
        let differs = Differs::from_bits(bits).unwrap();
        assert_eq!((differs.to_string().parse(), differs.bits()), (Ok(differs), bits));
    }
    assert_eq!((Differs::from_bits(64), "rcode,x".parse::<Differs>()), (None, Err(())));
}

fn any_record() -> impl Strategy<Value = Record> {
    let names = prop::sample::select(vec![QUESTION, "example.org", "org", "mail.example.org", "a.b.c.example.net", ""]);
    let data = (names.clone(), prop::collection::vec(any::<u8>(), 20), 0_usize..7).prop_map(|(name, octets, kind)| {
        let some = |count: usize| Part::Octets(octets[..count].to_vec());
        match kind {
            0 => (1, vec![some(4)]),
            1 => (2, vec![Part::Name(name)]),
            2 => (15, vec![some(2), Part::Name(name)]),
            3 => (SOA, vec![Part::Name(name), Part::Name(QUESTION), some(20)]),
            4 => (33, vec![some(6), Part::Name(name)]),
            5 => (16, vec![some(13)]),
            _ => (47, vec![Part::Name(name), some(7)]),
        }
    });
    (0..SECTIONS, names, any::<u32>(), data).prop_map(|(section, owner, ttl, (rtype, data))| Record {
        section,
        owner,
        rtype,
        ttl,
        data,
    })
}

proptest! {
    #[test]
    fn order_case_compression_and_ttls_do_not_matter(
        records in prop::collection::vec(any_record(), 0..12),
        turn in any::<prop::sample::Index>(),
        (compressed, capitals) in any::<(bool, bool)>(),
        rules in prop::sample::subsequence(vec!["type == NS", "name under example.org", "additional"], 0..3),
    ) {
        let mut others: Vec<Record> = records.iter().map(|record| Record { ttl: !record.ttl, ..record.clone() }).collect();
        if !others.is_empty() {
            let length = others.len();
            others.rotate_left(turn.index(length));
        }
        let (a, b) = (plain(0, &records), message(0, &others, Style { compressed, capitals }));
        prop_assert_eq!(print(&a, &rules), print(&b, &rules));
    }

    #[test]
    fn any_other_change_of_a_record_matters(
        records in prop::collection::vec(any_record(), 1..12),
        which in any::<prop::sample::Index>(),
        kind in 0..5,
    ) {
        let at = which.index(records.len());
        let mut others = records.clone();
        match kind {
            0 => drop(others.remove(at)),
            1 => others[at].rtype += 1_000,
            2 => others[at].owner = "another.example",
            3 => others[at].section = (others[at].section + 1) % SECTIONS,
            _ => others[at].data.push(Part::Octets(vec![0])),
        }
        let (a, b) = (print(&plain(0, &records), &[]), print(&plain(0, &others), &[]));
        prop_assert_ne!(a.judge(b).0, Answer::Match);
    }

    #[test]
    fn responses_compare_as_their_fingerprints_whatever_their_ids(
        records in prop::collection::vec(any_record(), 1..12),
        ids: [[u8; 2]; 2],
        changed in prop::option::of((any::<prop::sample::Index>(), 1_u8..)),
    ) {
        let mut both = [plain(0, &records), plain(0, &records)];
        if let Some((at, change)) = changed {
            let at = 2 + at.index(both[1].len() - 2);
            both[1][at] ^= change;
        }
        let prints = both.each_ref().map(|octets| print(octets, &[]));
        both.iter_mut().zip(ids).for_each(|(octets, id)| octets[..2].copy_from_slice(&id));
        let [a, b] = both.each_ref().map(|octets| Message::new(octets).unwrap());
        prop_assert_eq!(responses(&a, &b, &Ignore::default()), prints[0].judge(prints[1]));
    }

    #[test]
    fn other_ttls_are_seen_as_the_same_without_a_fingerprint(
        records in prop::collection::vec(any_record(), 0..12),
        ttls in prop::collection::vec(any::<u32>(), 12),
        extended: [u8; 2],
        style: [bool; 2],
    ) {
        let style = Style { compressed: style[0], capitals: style[1] };
        let opt = |rcode| Record { section: 2, owner: "", rtype: OPT, ttl: u32::from(rcode) << 24, data: vec![] };
        let with = |ttls: &[u32], rcode| {
            let mut records = records.clone();
            records.iter_mut().zip(ttls).for_each(|(record, ttl)| record.ttl = *ttl);
            records.push(opt(rcode));
            message(0, &records, style)
        };
        let both = [with(&[], extended[0]), with(&ttls, extended[1])];
        let [a, b] = both.each_ref().map(|octets| Message::new(octets).unwrap());
        prop_assert_eq!(alike::but_for_ttls(&a, &b), extended[0] == extended[1]);
        let prints = both.each_ref().map(|octets| print(octets, &[]));
        prop_assert_eq!(responses(&a, &b, &Ignore::default()), prints[0].judge(prints[1]));
    }

    #[test]
    fn any_octets_have_a_fingerprint(octets in prop::collection::vec(any::<u8>(), 12..300), counts in any::<[u8; 8]>()) {
        let mut octets = octets;
        octets[4..12].copy_from_slice(&counts.map(|count| count % 5));
        let printed = print(&octets, &["name under org"]);
        prop_assert_eq!(printed.judge(printed), (Answer::Match, Differs::NOTHING));
    }

    #[test]
    fn damaged_octets_of_a_whole_message_do_no_harm(
        records in prop::collection::vec(any_record(), 1..12),
        at in any::<prop::sample::Index>(),
        octet: u8,
    ) {
        let mut octets = message(0, &records, Style { compressed: true, capitals: false });
        let at = at.index(octets.len());
        octets[at] = octet;
        let cut = print(&octets[..at.max(12)], &[]);
        prop_assert_eq!(cut, print(&octets[..at.max(12)], &[]));
        let _ = print(&octets, &[]);
    }

    #[test]
    fn any_text_is_a_rule_or_an_error_of_one_line(text in "(?s).{0,40}") {
        if let Err(error) = text.parse::<IgnoreRule>() {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}

#[test]
fn pointers_that_go_round_or_forward_end() {
    let mut octets = plain(0, &[address(1), record(0, "org", 2, vec![Part::Octets(vec![0xc0, 0x20])])]);
    let base = print(&octets, &[]);
    for target in [0_u16, 11, 40, octets.len() as u16 - 2, 0x3fff] {
        let end = octets.len();
        octets[end - 2..].copy_from_slice(&(0xc000 | target).to_be_bytes());
        assert_ne!(base.judge(print(&octets, &[])).0, Answer::Match);
    }
}
