//! Tests of whole rule files.

use std::collections::{HashMap, HashSet};

use ldplayer_core::message::{Message, QueryParts, flag};
use ldplayer_core::{Transaction, Transport};
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000_000;

fn row(number: u64) -> Transaction {
    let mut wire = Vec::new();
    let name = [b"\x03www\x07example\0", b"\x03WWW\x07exampLE\0"][number as usize % 2];
    let edns = (number % 10 < 7).then_some((1232, number.is_multiple_of(2)));
    let parts = QueryParts {
        id: number as u16,
        flags: flag::RD,
        name,
        qtype: 1 + 27 * u16::from(number.is_multiple_of(3)),
        qclass: 1,
        edns,
    };
    parts.compose(&mut wire);
    let mut response = wire.clone();
    response[2] |= 0x80;
    Transaction {
        index: number,
        time: TraceTime(number as i64 * SECOND / 10),
        client: ([192, 0, 2, (number % 50) as u8], 1024 + number as u16).into(),
        server: "198.51.100.53:53".parse().unwrap(),
        transport: Transport::Udp,
        stream: None,
        query: Some(wire.into()),
        response: Some(response.into()),
        response_delay: Some(1_000),
        retry_of: None,
    }
}

fn rules(text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn run_with(text: &str, rows: u64, seed: u64) -> (Vec<Transaction>, Mutator) {
    let mut mutator = Mutator::new(rules(text), seed, 3);
    let mut out = Vec::new();
    for start in (0..rows).step_by(64) {
        let mut batch: Vec<Transaction> = (start..rows.min(start + 64)).map(row).collect();
        mutator.apply(&mut batch, &mut out);
    }
    mutator.finish(&mut out);
    (out, mutator)
}

fn run(text: &str, rows: u64) -> Vec<Transaction> {
    run_with(text, rows, 1).0
}

fn message(row: &Transaction) -> Message<'_> {
    Message::new(row.query.as_deref().unwrap()).unwrap()
}

fn has_do(row: &Transaction) -> bool {
    message(row).edns().is_some_and(|edns| edns.dnssec_ok)
}

#[test]
fn without_rules_nothing_changes() {
    assert_eq!(run("", 200), (0..200).map(row).collect::<Vec<_>>());
}

#[test]
fn all_queries_get_do_and_nothing_else() {
    let out = run("[[rule]]\ndo = true", 100);
    assert!(out.iter().all(has_do));
    for (before, after) in (0..100).map(row).zip(&out) {
        assert_eq!(message(&before).question(), message(after).question());
        assert_eq!((before.response, before.client, before.time), (after.response.clone(), after.client, after.time));
    }
}

#[test]
fn a_share_of_the_clients_is_exact_and_whole() {
    let (out, mutator) = run_with("[[rule]]\nshare = '70 %'\ntransport = 'tcp'", 1_000, 9);
    let mut ways: HashMap<_, HashSet<Transport>> = HashMap::new();
    for row in &out {
        ways.entry(row.client.ip()).or_default().insert(row.transport);
    }
    assert!(ways.values().all(|ways| ways.len() == 1));
    assert_eq!(ways.values().filter(|ways| ways.contains(&Transport::Tcp)).count(), 35);
    assert_eq!(mutator.accounts()[0].draws, Some([50, 35]));
}

#[test]
fn queries_can_be_drawn_instead() {
    let out = run("[[rule]]\nshare = '25 %'\nper = 'query'\ntransport = 'dot'", 1_000);
    let dot: Vec<&Transaction> = out.iter().filter(|row| row.transport == Transport::Dot).collect();
    assert_eq!(dot.len(), 250);
    assert!(dot.iter().all(|row| row.server.port() == 853));
}

#[test]
fn the_order_of_rules_does_not_move_their_draws() {
    let a = "[[rule]]\nname='a'\nshare='30 %'\ndo=true\n";
    let b = "[[rule]]\nshare='50 %'\nwhere='not do and qtype == A'\ncd=true\n";
    let c = "[[rule]]\nsample='80 %'\n";
    let expected = run(&format!("{a}{b}{c}"), 500);
    assert_eq!(run(&format!("{c}{b}{a}"), 500), expected);
    assert_eq!(run(&format!("{b}{a}{c}"), 500), expected);
    assert_ne!(run_with(&format!("{a}{b}{c}"), 500, 2).0, expected);
}

#[test]
fn rules_see_the_transaction_as_it_was_read() {
    let out = run("[[rule]]\ntransport='tcp'\n[[rule]]\nwhere='transport == tcp'\ndrop=true", 10);
    assert_eq!(out.len(), 10);
}

#[test]
fn a_sample_keeps_whole_clients() {
    let out = run("[[rule]]\nsample = '10 %'", 1_000);
    let clients: HashSet<_> = out.iter().map(|row| row.client.ip()).collect();
    assert_eq!((clients.len(), out.len()), (5, 100));
}

#[test]
fn other_questions_lose_their_answers_and_other_case_does_not() {
    let out = run("[[rule]]\nwhere = 'qtype == A'\nqname-prefix = 'u{n}'", 30);
    assert!(out.iter().all(|row| row.response.is_some() == (message(row).question().unwrap().qtype == 28)));
    let names: HashSet<&[u8]> = out.iter().map(|row| message(row).question().unwrap().name).collect();
    assert_eq!(names.len(), 20 + 2);
    assert!(run("[[rule]]\nqname-case = 'lower'", 30).iter().all(|row| row.response.is_some()));
    assert!(run("[[rule]]\nqtype = 'NS'", 30).iter().all(|row| row.response.is_none()));
}

#[test]
fn options_are_derived_from_the_client_as_it_is_given_out() {
    let out = run("[[rule]]\nclient-renumber = true\necs = true\ncookie = true", 100);
    for row in &out {
        let words = fields::words(row);
        assert!(words[9].starts_with("8:000118000a0000,10:"), "{}", words[9]);
    }
    let cookies: HashSet<String> = out.iter().map(|row| fields::words(row)[9].clone()).collect();
    assert_eq!(cookies.len(), 50);
}

#[test]
fn padding_comes_last() {
    let out = run("[[rule]]\npadding = 128\nqname-prefix = 'longer'\ndo = true", 30);
    assert!(out.iter().all(|row| message(row).octets().len() == 128));
}

#[test]
fn times_are_scaled_from_the_first() {
    let mut mutator = Mutator::new(rules("time-scale = 0.5\n[[rule]]\ntime-shift = '-1s'"), 1, 0);
    let mut out = Vec::new();
    mutator.apply(&mut (100..103).map(row).collect(), &mut out);
    assert_eq!(out.iter().map(|row| row.time.0).collect::<Vec<_>>(), [9 * SECOND, 9_050_000_000, 9_100_000_000]);
}

#[test]
fn what_is_moved_is_put_in_order_again() {
    for text in [
        "[[rule]]\nwhere='qtype == AAAA'\ntime-shift = '-5s'",
        "[[rule]]\nwhere='qtype == AAAA'\ntime-shift = '5s'",
        "[[rule]]\ntime-jitter = '2s'",
        "[[rule]]\nduplicate = 2\ngap = '1.25s'\n[[rule]]\ntime-shift='3s'\ntime-jitter='1s'",
    ] {
        let (out, mutator) = run_with(text, 1_000, 5);
        assert!(out.is_sorted_by_key(|row| row.time), "{text}");
        assert_eq!((out.len() % 1_000, mutator.late()), (0, 0), "{text}");
    }
}

#[test]
fn jitter_stays_within_its_bounds_and_is_even() {
    let out = run("[[rule]]\ntime-jitter = '40ms'", 2_000);
    let offsets: Vec<i64> =
        out.iter().enumerate().map(|(number, row)| row.time.0 - number as i64 * SECOND / 10).collect();
    assert!(offsets.iter().all(|offset| offset.abs() <= 40_000_000));
    assert!(offsets.iter().sum::<i64>().abs() / 2_000 < 2_000_000);
    assert!(offsets.iter().any(|offset| *offset < -35_000_000) && offsets.iter().any(|offset| *offset > 35_000_000));
}

#[test]
fn copies_stand_behind_their_original() {
    let out = run("[[rule]]\nwhere = 'qtype == AAAA'\nduplicate = 2", 3);
    assert_eq!(out, [row(0), row(0), row(0), row(1), row(2)]);
}

#[test]
fn accounts_count_what_happened() {
    let (_, mutator) = run_with(
        "[[rule]]\nwhere='not do'\ndo=true\n[[rule]]\nwhere='qtype == MX'\ndrop=true\n[[rule]]\nwhere='time < 1s'\ndrop=true",
        1_000,
        1,
    );
    let [all_do, none, drop] = &mutator.accounts()[..] else { panic!() };
    let expected = (0..1_000).map(row).filter(|row| !has_do(row)).count() as u64;
    assert_eq!((all_do.matched, all_do.changed, all_do.of), (expected, expected, 1_000));
    assert_eq!(all_do.examples.len(), 3);
    assert_eq!(all_do.examples[0].text, "WWW.exampLE. A of 192.0.2.1:1025: edns 1232 → 1232,do");
    assert_eq!((none.matched, none.draws), (0, None));
    assert_eq!((drop.dropped, drop.changed), (10, 10));
    assert!(drop.examples[0].text.ends_with(": dropped"), "{:?}", drop.examples);
}

#[test]
fn what_cannot_be_edited_is_counted_and_stays() {
    let long = format!(
        "[[rule]]\nqname-prefix = '{}'",
        ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(60)].join(".")
    );
    let (out, mutator) = run_with(&long, 20, 1);
    assert_eq!(out, (0..20).map(row).collect::<Vec<_>>());
    assert_eq!(mutator.accounts()[0].kept, [("name_over_255_octets", 20)].into());
    let mut alone = vec![Transaction { query: None, ..row(0) }];
    let mut mutator = Mutator::new(rules("[[rule]]\ndo = true"), 1, 0);
    let mut out = Vec::new();
    mutator.apply(&mut alone, &mut out);
    assert_eq!((out.len(), mutator.accounts()[0].kept.clone()), (1, [("no_query", 1)].into()));
}

#[test]
fn wrong_rules_are_refused_with_line_and_remedy() {
    let refusal = |text: &str| Rules::parse(text).unwrap_err().to_string();
    assert_eq!(refusal("[[rule]]\ntransprot = 'tcp'"), "line 2: unknown key `transprot`: did you mean `transport`?");
    assert_eq!(refusal("[[rules]]\ndo=true"), "line 1: unknown key `rules`: did you mean `rule`?");
    assert_eq!(
        refusal("[[rule]]\ndo = true\nshare = '130 %'"),
        "line 3: `share`: the share 130 % is not between 0 % and 100 %"
    );
    assert!(refusal("[[rule]]\ndo=true\nshare=-1").contains("not between 0 % and 100 %"));
    assert_eq!(
        refusal("[[rule]]\nwhere='qtype == 5s'\ndo=true"),
        "line 2: `where`: column 10: `5s` is not a valid value of `qtype`, which is a type such as AAAA"
    );
    assert!(refusal("[[rule]]\nwhere='do'").contains("`rule 1` has no action"));
    assert!(refusal("[[rule]]\nper='clients'\ndo=true").contains("expected client or query"));
    assert!(refusal("[[rule]]\ncookie='00'").contains("8, or 16 to 40, bytes"));
    assert!(refusal("[[rule]]\noptions = { '65001' = 'xyz' }").contains("hexadecimal"));
    assert!(refusal("[[rule]]\nclient-anonymise='secret'").contains("64 hexadecimal digits"));
    assert!(refusal("[[rule]]\ntransport='sctp'").contains("unknown transport"));
    assert!(refusal("[population]\ntimes=3").contains("needs `slice`"));
    assert!(refusal("[[rule]]\nshare='1 %'\nsample='1 %'").contains("`sample` and `share` cannot be combined"));
    assert!(refusal("time-scale = 0").contains("a number above 0"));
}

#[test]
fn settings_make_one_more_rule() {
    let mut all = rules("seed = 3\n[[rule]]\nrd = false");
    let settings =
        ["where=not do and qname under [example, 'test']", "do=true", "size=4096", "time-scale=2"].map(str::to_owned);
    all.append(Rules::parse_settings(&settings).unwrap());
    assert_eq!((all.seed, all.time_scale, all.rules.len()), (Some(3), Some(2.0), 2));
    assert_eq!(all.rules[1].name, "rule 2");
    assert!(Rules::parse_settings(&["do".into()]).unwrap_err().to_string().contains("is not KEY=VALUE"));
    assert!(Rules::parse_settings(&["wehre=true".into()]).unwrap_err().to_string().contains("did you mean `where`?"));
}

proptest! {
    #[test]
    fn no_text_of_rules_makes_it_panic(text in "(\\[\\[rule\\]\\]\n)?([a-z-]{1,8} ?= ?(true|'[a-z %0-9{}.]{0,6}'|[0-9.-]{1,4}|\\[\\])\n){0,3}") {
        let _ = Rules::parse(&text);
    }

    #[test]
    fn any_message_comes_through(octets in prop::collection::vec(any::<u8>(), 0..120), seed: u64) {
        let text = "[[rule]]\ndo=true\necs=true\ncookie=true\nqname-prefix='{random}'\npadding=64\nqtype='TXT'\nqname-case='0x20'\n\
            opcode='NOTIFY'\nremove-options=[3]\nnsid=true\nshare='50 %'";
        let mut mutator = Mutator::new(rules(text), seed, 1);
        let mut out = Vec::new();
        for query in [octets.clone(), row(0).query.unwrap().iter().copied().chain(octets.clone()).collect()] {
            mutator.apply(&mut vec![Transaction { query: Some(query.into()), ..row(0) }], &mut out);
        }
        prop_assert_eq!(out.len(), 2);
    }
}

#[test]
fn a_transaction_keeps_its_row_whatever_becomes_of_it() {
    let found = run(
        "[[rule]]\nwhere = 'do'\nshare = '50 %'\ndrop = true\n\n[[rule]]\nduplicate = 2\ngap = '3s'\n\n[[rule]]\ntime-jitter = '2s'\n",
        200,
    );
    assert!(!found.is_sorted_by_key(|row| row.index), "rules put them in another order");
    let mut times: HashMap<u64, u32> = HashMap::new();
    for row in &found {
        assert_eq!(row.client, self::row(row.index).client);
        *times.entry(row.index).or_default() += 1;
    }
    assert!(times.len() < 200 && times.values().all(|&times| times == 3), "{} rows", times.len());
}
