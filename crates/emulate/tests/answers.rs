//! The same queries to `ldplayer_zone` and to stock servers with the same zone file: what is not equal must be allowed
//! by a rule of the list, and each rule has the sentence of an RFC.

#[allow(dead_code, reason = "this test needs a part of it")]
mod common;
#[path = "answers/message.rs"]
mod message;
#[path = "answers/odd.rs"]
mod odd;
#[path = "answers/peer.rs"]
mod peer;
#[path = "answers/questions.rs"]
mod questions;
#[path = "answers/rules.rs"]
mod rules;

use std::collections::BTreeMap;
use std::path::Path;

use common::{root_zone, write};
use ldplayer_emulate::stock::{Kind, StockServer, Zone as StockZone};
use ldplayer_zone::{Records, Scratch, Transport, Zone, load, respond};
use message::Seen;
use peer::Peer;
use questions::{Question, Questions};
use rules::{Case, Rule};

/// Zones of the crate that answers, by file name.
const ZONES: [(&str, &str); 5] = [
    ("plain", include_str!("../../zone/tests/zones/plain.zone")),
    ("nsec", include_str!("../../zone/tests/zones/nsec.zone")),
    ("nsec3", include_str!("../../zone/tests/zones/nsec3.zone")),
    ("nsec3-opt-out", include_str!("../../zone/tests/zones/nsec3-opt-out.zone")),
    ("nsec3-gap", include_str!("../../zone/tests/zones/nsec3-gap.zone")),
];
/// Queries of the root zone, and of each of the others.
const QUERIES: [usize; 2] = [12_000, 3_000];
/// Differences of each zone that are shown when there are any.
const SHOWN: usize = 6;

/// How many answers were equal, allowed by each rule, and different.
#[derive(Default)]
struct Table {
    lines: Vec<String>,
    different: Vec<String>,
    all: usize,
}

fn records(path: &Path) -> Records {
    load::file(path, Some(b"\0")).unwrap()
}

/// Our answer, without a server in between.
fn ours(zone: &Zone, question: &Question, transport: Transport, scratch: &mut Scratch) -> (Seen, usize) {
    let mut out = Vec::new();
    respond(zone, &question.octets, transport, scratch, &mut out);
    (Seen::read(&out), out.len())
}

/// Asks both and compares.
fn compare(name: &str, stock: &StockServer, rules: &[Rule], file: &Path, count: usize, table: &mut Table) {
    let records = records(file);
    let (zone, _) = Zone::from_records(&records).unwrap();
    let address = common::free_v4();
    let server = stock.start(&[address]).unwrap();
    let mut peer = Peer::connect(address);
    let mut scratch = Scratch::default();
    let (mut equal, mut different) = (0, 0);
    let mut allowed: BTreeMap<&str, usize> = BTreeMap::new();
    for question in Questions::of(&records, zone.apex(), 1).take(count) {
        let transport = if question.tcp { Transport::Tcp } else { Transport::Udp };
        let (mut ours_now, length) = ours(&zone, &question, transport, &mut scratch);
        let mut theirs = Seen::read(&peer.ask(&question));
        if ours_now == theirs {
            equal += 1;
            continue;
        }
        let before = (ours_now.clone(), theirs.clone());
        let (whole, _) = ours(&zone, &question, Transport::Tcp, &mut scratch);
        let case = Case { question: &question, whole: &whole, length, limit: question.limit() };
        let used = rules::apply(rules, &case, &mut ours_now, &mut theirs);
        if ours_now == theirs {
            used.into_iter().for_each(|rule| *allowed.entry(rule).or_default() += 1);
        } else {
            different += 1;
            if different <= SHOWN {
                table.different.push(format!("{name}: {question}\n{}", before.0.unlike(&before.1)));
            }
        }
    }
    table.all += count;
    let allowed: Vec<_> = allowed.iter().map(|(rule, count)| format!("{count} {rule}")).collect();
    table.lines.push(format!("{name:22} {count:6} {equal:6} {different:6}  {}", allowed.join(", ")));
    drop(server);
}

/// Every zone against one server, which is made for the zones that it is given.
fn against(server: &str, make: impl Fn(Vec<StockZone>) -> StockServer, rules: &[Rule]) {
    let directory = tempfile::tempdir().unwrap();
    let mut table = Table::default();
    let root = root_zone(directory.path());
    compare(&format!("{server} root"), &make(vec![StockZone::new(".", &root)]), rules, &root, QUERIES[0], &mut table);
    for (name, text) in ZONES {
        let file = write(directory.path(), name, text.as_bytes());
        let stock = make(vec![StockZone::new("test.", &file)]);
        compare(&format!("{server} {name}"), &stock, rules, &file, QUERIES[1], &mut table);
    }
    println!("{:22} {:>6} {:>6} {:>6}  allowed by rule", "", "asked", "equal", "differ");
    table.lines.iter().for_each(|line| println!("{line}"));
    assert!(table.all >= 20_000);
    assert!(table.different.is_empty(), "different answers, such as\n{}", table.different.join("\n"));
}

/// What is asked, our code, theirs, and why they may differ.
type Listed<'a> = (&'a str, u16, u16, &'a str);

/// The code of a server that does not answer, which is not waited for.
const SILENT: u16 = u16::MAX;

/// The queries of [`odd`]: what is seen must be equal but for those listed, with our code, theirs, and why.
fn odd_against(server: &str, make: impl Fn(Vec<StockZone>) -> StockServer, rules: &[Rule], listed: &[Listed<'_>]) {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "plain", ZONES[0].1.as_bytes());
    let (zone, _) = Zone::from_records(&records(&file)).unwrap();
    let address = common::free_v4();
    let process = make(vec![StockZone::new("test.", &file)]).start(&[address]).unwrap();
    let mut peer = Peer::connect(address);
    let mut unlike = Vec::new();
    for (what, question) in odd::all() {
        let (mut ours, _) = ours(&zone, &question, Transport::Udp, &mut Scratch::default());
        let known = listed.iter().find(|(name, ..)| *name == what);
        if known.is_some_and(|&(.., code, _)| code == SILENT) {
            continue;
        }
        let mut theirs = Seen::read(&peer.ask(&question));
        if let Some(&(_, our_code, their_code, why)) = known {
            assert_eq!((ours.rcode, theirs.rcode), (our_code, their_code), "{server}: {what}");
            println!("{server}: {what}: {our_code}, {server} has {their_code}: {why}");
            continue;
        }
        if ours.rcode != 0 {
            // Whether an error repeats the question and EDNS is their choice.
            ours.question.clone_from(&theirs.question);
            (ours.edns, ours.flags) = (theirs.edns, theirs.flags);
        }
        rules::apply(rules, &Case::of(&question, &ours.clone()), &mut ours, &mut theirs);
        if ours != theirs {
            unlike.push(format!("{what}\n{}", ours.unlike(&theirs)));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
    drop(process);
}

/// Who the server is, it tells under CHAOS; ours refuses that class.
const CHAOS: Listed<'_> = ("class CH", 5, 0, "there is no zone of that class");

const AXFR: &str = "it is not defined (RFC 5936 4.2)";

const OPCODE: &str = "what follows the header of an unknown opcode is not known (RFC 6895 2.2)";

#[test]
fn nsd_takes_odd_queries_the_same() {
    odd_against("nsd", |zones| Kind::NSD.serving(zones), rules::NSD, &[CHAOS, ("AXFR over UDP", 5, 4, AXFR)]);
}

#[test]
fn knot_takes_odd_queries_the_same() {
    odd_against(
        "knot",
        |zones| Kind::KNOT.serving(zones),
        rules::KNOT,
        &[
            CHAOS,
            ("AXFR over UDP", 5, 4, AXFR),
            ("two questions", 1, SILENT, "RFC 9619 has FORMERR"),
            ("opcode 7 with two questions", 4, SILENT, OPCODE),
        ],
    );
}

#[test]
fn bind_takes_odd_queries_the_same() {
    odd_against(
        "bind",
        |zones| Kind::BIND.serving(zones),
        rules::BIND,
        &[
            CHAOS,
            ("AXFR over UDP", 5, 1, AXFR),
            ("class 65280", 5, 4, "no RFC says"),
            ("opcode 7 with two questions", 4, 1, OPCODE),
        ],
    );
}

#[test]
fn nsd_answers_the_same() {
    against("nsd", |zones| Kind::NSD.serving(zones), rules::NSD);
}

#[test]
fn knot_answers_the_same() {
    against("knot", |zones| Kind::KNOT.serving(zones), rules::KNOT);
}

#[test]
fn bind_answers_the_same() {
    against("bind", |zones| Kind::BIND.serving(zones), rules::BIND);
}
