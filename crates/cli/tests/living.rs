//! Answers that vary as they did: from a capture to versions of record sets, and from these to what clients get, as dig, delv and Unbound see
//! it.

#[path = "common/command.rs"]
mod command;
mod common;
#[path = "common/messages.rs"]
mod messages;
#[path = "common/served.rs"]
mod served;
#[path = "common/waiting.rs"]
mod waiting;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use command::{ldplayer, refusal, text};
use ldplayer_core::{Message, Transaction};
use ldplayer_trace::{Input, OpenOptions, open};
use messages::{A, Exchange, NS, capture, message, record, wire};
use serde_json::{Value, json};
use served::{Running, Served};

/// When the recording begins, in seconds since 1970.
const START: f64 = 1_000.0;
const WWW: &str = "www.example.com";

/// An OPT record with a client's subnet of 24 bits.
fn opt([a, b, c]: [u8; 3]) -> Vec<u8> {
    let option = [0, 8, 0, 7, 0, 1, 24, 24, a, b, c];
    [&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0][..], &[option.len() as u8], &option].concat()
}

/// What a server said to the query for www.example.com, so many seconds after the start.
fn exchange(after: f64, server: [u8; 4], sections: (u16, [&[Vec<u8>]; 3])) -> Exchange {
    let (flags, sections) = sections;
    let (query, response) = (message(0, (WWW, A), [&[]; 3]), message(flags, (WWW, A), sections));
    Exchange { time: START + after, server, query, response }
}

const SERVER: [u8; 4] = [192, 0, 2, 11];

/// The way from the root to the server of example.com.
fn way() -> Vec<Exchange> {
    let com = [record("com", NS, 60, &wire("a.gtld.com"))];
    let below = [record("example.com", NS, 60, &wire("ns1.example.com"))];
    let glue = |name, last| [record(name, A, 60, &[192, 0, 2, last])];
    vec![
        exchange(0.0, [198, 41, 0, 4], (0x8000, [&[], &com, &glue("a.gtld.com", 1)])),
        exchange(0.0, [192, 0, 2, 1], (0x8000, [&[], &below, &glue("ns1.example.com", 11)])),
    ]
}

/// The address that example.com's server gives, with its OPT record if there is one.
fn answer(after: f64, last: u8, ttl: u32, opt: &[Vec<u8>]) -> Exchange {
    exchange(after, SERVER, (0x8400, [&[record(WWW, A, ttl, &[203, 0, 113, last])], &[], opt]))
}

/// A recording of 24 s: www.example.com has one address for 8 s, asked for every two seconds; another one that holds for 8 s; and a third one.
fn recorded() -> Vec<Exchange> {
    let seen = [(0, 1, 1), (2, 1, 1), (4, 1, 1), (6, 1, 1), (8, 2, 7), (16, 3, 1), (18, 3, 1), (20, 3, 1), (22, 3, 1)];
    let answers = seen.map(|(time, last, ttl)| answer(f64::from(time), last, ttl, &[]));
    way().into_iter().chain(answers).collect()
}

/// A folder with zones that were built of a capture, all versions kept; and what the command said.
fn built(exchanges: &[Exchange]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    capture(&folder.path().join("up.pcap"), exchanges);
    let said = text(folder.path(), &["zones", "build", "up.pcap", "--conflict", "keep", "-o", "zones"]);
    (folder, said)
}

fn versions(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("zones/versions.json")).unwrap()).unwrap()
}

/// The last octets of the address that a server gives, so many times.
fn addresses(server: &Served, count: usize, arguments: &[&str]) -> Vec<u8> {
    let one = |_| {
        let said = server.dig(&[&["+short", WWW, "A"], arguments].concat());
        said.trim().rsplit_once('.').unwrap_or_else(|| panic!("{said}")).1.parse().unwrap()
    };
    (0..count).map(one).collect()
}

/// Unbound, which asks a server of ours for all of example.com; and its port.
fn unbound(folder: &Path, server: u16) -> (Running, u16) {
    served::unbound(folder, "", &format!("stub-zone:\n name: example.com.\n stub-addr: 127.0.0.1@{server}\n"))
}

/// Queries of clients over 24 s, four a second.
const ASKED: usize = 96;

fn asked_at(number: usize) -> f64 {
    number as f64 * 0.25 + 0.125
}

/// What clients get of www.example.com through Unbound while the recording goes on: for each query the last octet of the address; and how many
/// queries Unbound sent for them.
fn replayed(options: &[&str]) -> (Vec<u8>, u64, String) {
    let (folder, _) = built(&recorded());
    let folder = folder.path();
    let line = |number: usize| format!("{:.3}\t10.9.0.{}\t{WWW}.\tA\n", START + asked_at(number), number % 7 + 1);
    let lines: String = (0..ASKED).map(line).collect();
    fs::write(folder.join("clients.tsv"), format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
    let server = Served::start(folder, "zones", options);
    let (_unbound, port) = unbound(folder, server.port);
    let resolver = format!("127.0.0.1:{port}");
    let common = ["--sources", "ports", "--workers", "1", "--precision", "low", "--keep-responses", "-o", "run"];
    let replay = ldplayer(folder, &[&["replay", "clients.tsv", "--server", &resolver], &common[..]].concat());
    assert!(matches!(replay.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&replay.stderr));
    let (report, said) = server.end();
    let queries = report["queries"].as_u64().unwrap();
    let file = Input::File(folder.join("run/responses.parquet"));
    let mut source = open(&[file], &OpenOptions::default()).unwrap();
    let (mut batch, mut answers): (Vec<Transaction>, Vec<(i64, u8)>) = (Vec::new(), Vec::new());
    while source.read(&mut batch).unwrap() || !batch.is_empty() {
        answers.extend(batch.drain(..).filter_map(|one| Some((one.time.0, last_octet(&one.response?)))));
    }
    answers.sort_unstable();
    (answers.into_iter().map(|(_, last)| last).collect(), queries, said)
}

/// The last octet of the only address of a response.
fn last_octet(response: &[u8]) -> u8 {
    let message = Message::new(response).unwrap();
    assert_eq!((message.rcode(), message.counts()[1]), (0, 1));
    *response.windows(6).find_map(|octets| octets.strip_prefix(&[0, 4, 203, 0, 113])?.first()).unwrap()
}

/// Unbound keeps each version as long as its TTL says, in whole seconds: one of 1 s for up to 2, one of 7 s for up to 8. In the recording it asks when a
/// version has just changed; a busy machine may move that.
fn clients_get_what_they_got_in_the_recording_version_by_version() {
    let (recorded, queries, said) = replayed(&["--answers", "recorded", "--clock", "run"]);
    assert!(said.contains("the recording goes by the clock of a run: 0.125 s into it at "), "{said}");
    assert_eq!(recorded.len(), ASKED);
    for (number, &last) in recorded.iter().enumerate() {
        let at = asked_at(number);
        let wanted: &[u8] = match at {
            at if at < 8.0 => &[1],
            at if at < 10.0 => &[1, 2],
            at if at < 16.0 => &[2],
            at if at < 18.0 => &[2, 3],
            _ => &[3],
        };
        assert!(wanted.contains(&last), "at {at} s: {last} of {recorded:?}");
    }
    assert!(recorded.is_sorted(), "{recorded:?}");
    // With the first version's TTL for all time, Unbound asks every 2 s; the second one's saves it three of these questions.
    let (fixed, of_fixed, _) = replayed(&[]);
    assert_eq!(fixed, [1; ASKED]);
    assert!((11..=14).contains(&of_fixed), "{of_fixed} queries");
    assert!(
        (2..=4).contains(&(of_fixed - queries)),
        "{of_fixed} queries with the first version alone, {queries} with all"
    );
}

fn a_capture_becomes_versions_with_their_times() {
    let (folder, said) = built(&recorded());
    assert!(said.contains("\nversions   3 of 1 record set, in versions.json; serve them with --answers\n"), "{said}");
    assert!(said.contains("(the first taken)"), "{said}");
    let found = versions(folder.path());
    assert_eq!(found["start"], "1970-01-01T00:16:40Z");
    let set = &found["sets"][0];
    assert_eq!(json!([set["zone"], set["name"], set["type"]]), json!(["example.com.", "www.example.com.", "A"]));
    let of = |key: &str| set["versions"].as_array().unwrap().iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    assert_eq!(Value::from(of("records")), json!([["203.0.113.1"], ["203.0.113.2"], ["203.0.113.3"]]));
    assert_eq!(Value::from(of("from")), json!([[0.0], [8.0], [16.0]]));
    assert_eq!(json!([of("ttl"), of("count"), of("last")]), json!([[1, 7, 1], [4, 1, 4], [6.0, 8.0, 22.0]]));
    assert_eq!(json!([of("servers")[0], of("resolvers")[2]]), json!([["192.0.2.11"], ["10.0.0.1"]]));
    let zone = fs::read_to_string(folder.path().join("zones/example%2ecom.zone"));
    let zone = zone.or_else(|_| fs::read_to_string(folder.path().join("zones/example.com.zone"))).unwrap();
    assert!(zone.contains("www.example.com. 1 A 203.0.113.1") && !zone.contains("203.0.113.2"), "{zone}");
    // A build that keeps none takes the list away.
    text(folder.path(), &["zones", "build", "up.pcap", "-o", "zones"]);
    assert!(!folder.path().join("zones/versions.json").exists());
}

fn dig_gets_versions_in_turn_drawn_or_changing() {
    let (folder, _) = built(&recorded());
    let serve = |options: &[&str]| Served::start(folder.path(), "zones", options);
    assert_eq!(addresses(&serve(&[]), 2, &[]), [1, 1]);
    assert_eq!(addresses(&serve(&["--answers", "rotate"]), 4, &[]), [1, 2, 3, 1]);
    assert_eq!(addresses(&serve(&["--answers", "rotate", "--seed", "1"]), 3, &["+tcp"]), [2, 3, 1]);
    let drawn = addresses(&serve(&["--answers", "weighted", "--seed", "5"]), 60, &[]);
    let count = |wanted: u8| drawn.iter().filter(|&&last| last == wanted).count();
    // 4, 1 and 4 of 9.
    assert!(count(1) > count(2) && count(3) > count(2) && count(2) > 0, "{drawn:?}");
    assert_eq!(addresses(&serve(&["--answers", "weighted", "--seed", "5"]), 60, &[]), drawn);
    let changing = serve(&["--answers", "changing:100ms"]);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(addresses(&changing, 1, &[]).into_iter().filter(|last| !seen.contains(last)).collect::<Vec<_>>());
    }
    let of_the_end = serve(&["--answers", "recorded", "--clock", "-1h"]);
    assert_eq!(addresses(&of_the_end, 1, &[]), [3]);
    let of_the_start = serve(&["--answers", "recorded", "--clock", "+1h"]);
    assert_eq!(addresses(&of_the_start, 1, &[]), [1]);
}

fn a_subnet_gets_the_version_that_it_was_given() {
    let of = |after, last, subnet| answer(after, last, 5, &[opt(subnet)]);
    let seen = [of(0.0, 1, [198, 51, 100]), of(1.0, 2, [192, 0, 2]), of(2.0, 3, [198, 18, 5])];
    let (folder, _) = built(&way().into_iter().chain(seen).collect::<Vec<_>>());
    let found = versions(folder.path());
    let subnets: Vec<&Value> =
        found["sets"][0]["versions"].as_array().unwrap().iter().map(|one| &one["subnets"]).collect();
    assert_eq!(subnets, [&Value::from(["198.51.100.0/24"]), &["192.0.2.0/24"].into(), &["198.18.5.0/24"].into()]);
    let server = Served::start(folder.path(), "zones", &["--answers", "by-subnet"]);
    for (subnet, last, told) in [
        ("192.0.2.77/32", 2, "CLIENT-SUBNET: 192.0.2.77/32/24"),
        ("198.18.5.0/24", 3, "CLIENT-SUBNET: 198.18.5.0/24/24"),
        // Of nobody there is anything known: the answer of the zone file, for this subnet alone.
        ("203.0.113.0/24", 1, "CLIENT-SUBNET: 203.0.113.0/24/24"),
    ] {
        let said = server.dig(&[&format!("+subnet={subnet}"), WWW, "A"]);
        assert!(said.contains(&format!("203.0.113.{last}\n")) && said.contains(told), "{said}");
    }
    let same = server.dig(&["+subnet=192.0.2.0/24", "ns1.example.com", "A"]);
    assert!(same.contains("CLIENT-SUBNET: 192.0.2.0/24/0"), "{same}");
    assert!(!server.dig(&[WWW, "A"]).contains("CLIENT-SUBNET"), "a query without the option");
}

fn every_version_of_a_signed_zone_validates() {
    let (folder, _) = built(&recorded());
    text(folder.path(), &["zones", "sign", "zones", "-o", "signed"]);
    let server = Served::start(folder.path(), "signed", &["--answers", "rotate"]);
    let anchor = folder.path().join("signed/trust-anchors.conf").display().to_string();
    let mut seen = Vec::new();
    for _ in 0..9 {
        let mut delv = Command::new("delv");
        delv.args(["@127.0.0.1", "-p", &server.port.to_string(), "-a", &anchor, WWW, "A"]);
        let output = delv.output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.contains("; fully validated"), "{said}");
        let address = said.lines().find_map(|line| Some(line.split_once("203.0.113.")?.1.to_owned())).unwrap();
        if !seen.contains(&address) {
            seen.push(address);
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    let check = |zones: &str| ldplayer(folder.path(), &["zones", "check", zones, "--without", "nsd,bind"]);
    assert_eq!(check("signed").status.code(), Some(0));
    // The same zones with versions that nobody signed.
    fs::copy(folder.path().join("zones/versions.json"), folder.path().join("signed/versions.json")).unwrap();
    let output = check("signed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("www.example.com. A: version 1 is not signed, and the zone's is: sign the set anew"),
        "{said}"
    );
}

fn versions_that_are_wrong_are_one_line() {
    let (folder, _) = built(&recorded());
    let folder = folder.path();
    let file = folder.join("zones/versions.json");
    let text = fs::read_to_string(&file).unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    for (from, to, told) in [
        (
            "203.0.113.2",
            "203.0.113",
            "versions.json: www.example.com. A: version 2: expected an IPv4 address, found `203.0.113`",
        ),
        (
            "\"www.example.com.\"",
            "\"web.example.com.\"",
            "versions.json: web.example.com. A: the zone has no such records",
        ),
        ("\"ttl\"", "\"tll\"", "versions.json: unknown field `tll`"),
    ] {
        fs::write(&file, text.replace(from, to)).unwrap();
        let line = refusal(folder, &[&["serve", "zones"], &listen[..]].concat());
        assert!(line.contains(told), "{line}");
        let check = ldplayer(folder, &["zones", "check", "zones", "--without", "nsd,bind"]);
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(check.status.code() == Some(1) && said.contains(told.rsplit_once("json: ").unwrap().1), "{said}");
    }
    fs::write(&file, text.replace("203.0.113.1", "203.0.113.9")).unwrap();
    let check = ldplayer(folder, &["zones", "check", "zones", "--without", "nsd,bind"]);
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(said.contains("www.example.com. A: the zone file has none of the versions"), "{said}");
    let line = ldplayer(folder, &[&["serve", "zones", "--answers", "changing:3"], &listen[..]].concat());
    let said = String::from_utf8_lossy(&line.stderr).into_owned();
    assert!(line.status.code() == Some(2) && said.contains("changing:INTERVAL as changing:10s"), "{said}");
    for option in [["--answers", "rotate"], ["--dot", "127.0.0.1"]] {
        let line = refusal(folder, &[&["testbed", "up"], &option[..]].concat());
        assert!(line.contains("add --zones DIR"), "{line}");
    }
    fs::remove_file(&file).unwrap();
    let server = Served::start(folder, "zones", &["--answers", "rotate"]);
    let (_, said) = server.end();
    assert!(said.contains("no record set of the zone set has versions"), "{said}");
}

fn main() -> ExitCode {
    waiting::run(waiting::tests![
        clients_get_what_they_got_in_the_recording_version_by_version,
        a_capture_becomes_versions_with_their_times,
        dig_gets_versions_in_turn_drawn_or_changing,
        a_subnet_gets_the_version_that_it_was_given,
        every_version_of_a_signed_zone_validates,
        versions_that_are_wrong_are_one_line,
    ])
}
