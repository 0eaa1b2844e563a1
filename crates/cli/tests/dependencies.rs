//! Queries that wait for answers: chains of a trace before a server that is slower than the recorded one.

#[path = "common/command.rs"]
mod command;
#[path = "common/responder.rs"]
mod responder;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use command::ldplayer;
use ldplayer_core::message::{CLASS_IN, QueryParts};
use ldplayer_core::{TraceTime, Transaction, Transport, name};
use ldplayer_trace::{Format, create};
use responder::responder;
use serde_json::Value;

const MS: i64 = 1_000_000;
/// How long the server of the replay takes, in milliseconds; the recorded one took [`RECORDED`].
const SLOW: u64 = 80;
const RECORDED: i64 = 2;
/// How long clients think.
const THINK: i64 = 5;
/// Queries of a chain: an alias that leads to the next name, and so on.
const LINKS: i64 = 4;
const CHAINS: i64 = 5;
/// Milliseconds between the beginnings of two chains.
const APART: i64 = 100;

/// A response that says that the name of a query is an alias of another one.
fn alias(query: &[u8], target: &[u8]) -> Vec<u8> {
    let mut response = query.to_vec();
    (response[2], response[7]) = (0x80, 1);
    let length = (target.len() as u16).to_be_bytes();
    response.extend_from_slice(&[&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60][..], &length, target].concat());
    response
}

fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::parse(text, &mut wire).unwrap();
    wire
}

/// Link `link` of the chain of a client.
fn transaction(chain: i64, link: i64, has_response: bool) -> Transaction {
    let named = |link: i64| wire(&format!("n{link}.c{chain}.example"));
    let mut query = Vec::new();
    QueryParts { id: 7, flags: 0x100, name: &named(link), qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut query);
    let response = alias(&query, &named(link + 1)).into();
    Transaction {
        index: 0,
        time: TraceTime((chain * APART + link * (RECORDED + THINK)) * MS),
        client: ([10, 0, 0, 1 + chain as u8], 4_000).into(),
        server: ([192, 0, 2, 1], 53).into(),
        transport: Transport::Udp,
        stream: None,
        query: Some(query.into()),
        response: has_response.then_some(response),
        response_delay: has_response.then_some(RECORDED * MS),
        retry_of: None,
    }
}

fn trace(folder: &Path, has_response: bool) {
    let mut all: Vec<Transaction> =
        (0..CHAINS).flat_map(|chain| (0..LINKS).map(move |link| transaction(chain, link, has_response))).collect();
    all.sort_by_key(|row| row.time);
    let mut sink = create(&folder.join("t.parquet"), Format::Parquet, true).unwrap();
    sink.write(&mut all).unwrap();
    sink.finish().unwrap();
}

/// Answers each query after so long; names that begin with `silent` not at all.
fn server(silent: &'static str) -> String {
    responder(|response| (!response[13..].starts_with(silent.as_bytes())).then_some(Duration::from_millis(SLOW)))
}

/// A row: what it follows, when it was due by the recording, when it was due, and when it was answered, in nanoseconds; and its status and reason.
struct Row {
    follows: Option<u64>,
    scheduled: Option<i64>,
    intended: i64,
    answered: Option<i64>,
    status: String,
    reason: String,
}

/// Replays the trace with these options: run.json, and the rows by their index.
fn replay(folder: &Path, silent: &'static str, options: &[&str]) -> (Value, HashMap<u64, Row>) {
    let server = server(silent);
    let arguments = ["replay", "t.parquet", "--server", &server, "--no-probe", "--force", "-o", "run"];
    let output = ldplayer(folder, &[&arguments[..], options].concat());
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let columns = "index,follows,scheduled_ns,intended_ns,answered_ns,status,reason";
    let rows = ldplayer(folder, &["rows", "run", "--columns", columns]);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| fields[at].parse::<i64>().ok();
        let row = Row {
            follows: number(1).map(|row| row as u64),
            scheduled: number(2),
            intended: number(3).unwrap(),
            answered: number(4),
            status: fields[5].to_owned(),
            reason: fields[6].to_owned(),
        };
        (number(0).unwrap() as u64, row)
    };
    let rows = String::from_utf8(rows.stdout).unwrap().lines().skip(1).map(row).collect();
    (serde_json::from_slice(&fs::read(folder.join("run/run.json")).unwrap()).unwrap(), rows)
}

/// The row of a query in the trace: chains do not overlap in the recording.
fn index(chain: i64, link: i64) -> u64 {
    (chain * LINKS + link) as u64
}

#[test]
fn links_of_a_chain_are_sent_their_think_time_after_the_answer_and_chains_begin_when_they_were_recorded() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), true);
    let (run, rows) = replay(folder.path(), "-", &["--dependencies", "chain"]);
    assert_chains(&rows);
    let counted = &run["summary"]["recorded"]["dependencies"];
    assert_eq!(*counted, serde_json::json!({ "target": CHAINS * (LINKS - 1) }));
    let inspected = ldplayer(folder.path(), &["inspect", "t.parquet", "--json"]);
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(inspected["dependencies"]["by_evidence"], *counted);
}

#[test]
fn chains_that_agents_play_wait_as_on_one_host() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), true);
    let agents = ["--dependencies", "chain", "--nats", "embedded", "--agents", "2", "--workers", "1"];
    let (run, rows) = replay(folder.path(), "-", &agents);
    assert_chains(&rows);
    assert_eq!(run["summary"]["recorded"]["dependencies"]["target"], CHAINS * (LINKS - 1));
    assert_eq!(run["workers"], 2);
}

/// Each link was sent its think time after the answer before it, and each chain began when it was recorded.
fn assert_chains(rows: &HashMap<u64, Row>) {
    assert_eq!(rows.len() as i64, CHAINS * LINKS);
    for chain in 0..CHAINS {
        let first = &rows[&index(chain, 0)];
        assert_eq!((first.follows, first.scheduled, first.intended), (None, None, chain * APART * MS));
        for link in 1..LINKS {
            let (before, row) = (&rows[&index(chain, link - 1)], &rows[&index(chain, link)]);
            assert_eq!(row.follows, Some(index(chain, link - 1)));
            assert_eq!(row.scheduled, Some((chain * APART + link * (RECORDED + THINK)) * MS));
            assert_eq!(row.intended, before.answered.unwrap() + THINK * MS);
        }
        let took = rows[&index(chain, LINKS - 1)].intended - first.intended;
        assert!(took >= (LINKS - 1) * (SLOW as i64 + THINK) * MS, "{took} ns: each link takes a round trip");
    }
}

#[test]
fn without_dependencies_every_query_keeps_its_recorded_time() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), true);
    let (run, rows) = replay(folder.path(), "-", &[]);
    assert!(rows.values().all(|row| row.follows.is_none() && row.scheduled.is_none()));
    assert_eq!(rows[&index(2, 3)].intended, (2 * APART + 3 * (RECORDED + THINK)) * MS);
    assert!(run["summary"]["recorded"].get("dependencies").is_none());
}

#[test]
fn every_query_of_a_client_waits_and_thinks_half_as_long_at_twice_the_speed() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), true);
    let (run, rows) = replay(folder.path(), "-", &["--dependencies", "client", "--speed", "2"]);
    let (before, row) = (&rows[&index(1, 1)], &rows[&index(1, 2)]);
    assert_eq!(row.intended, before.answered.unwrap() + THINK * MS / 2);
    assert_eq!(run["summary"]["recorded"]["dependencies"]["last_answer"], CHAINS * (LINKS - 1));
}

#[test]
fn a_chain_goes_on_without_an_answer_unless_its_client_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), true);
    let (_, rows) = replay(folder.path(), "n1", &["--dependencies", "chain", "--query-timeout", "200ms"]);
    let (failed, next) = (&rows[&index(0, 1)], &rows[&index(0, 2)]);
    assert_eq!((failed.status.as_str(), next.status.as_str()), ("timeout", "answered"));
    assert!(next.intended >= failed.intended + (200 + THINK) * MS);
    let stub = ["--dependencies", "chain", "--client", "custom:attempts=1,timeout=200ms"];
    let (run, rows) = replay(folder.path(), "n1", &stub);
    for (link, status) in ["answered", "timeout", "not_sent", "not_sent"].into_iter().enumerate() {
        assert_eq!(rows[&index(3, link as i64)].status, status, "link {link}");
    }
    assert_eq!(rows[&index(3, 3)].reason, "nothing_to_follow");
    let queries = &run["summary"]["queries"];
    let of = |keys: [&str; 4]| keys.map(|key| queries[key].as_i64().unwrap());
    assert_eq!(of(["trace", "answered", "timed_out", "not_sent"]), [CHAINS * LINKS, CHAINS, CHAINS, 2 * CHAINS]);
    // The client's giving up made a replay unfaithful.
    let checks = run["verdict"]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "not_sent").unwrap();
    assert_eq!((&check["ok"], &check["value"]), (&true.into(), &"0".into()), "{check}");
}

#[test]
fn what_cannot_wait_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), false);
    let refused = |options: &[&str]| {
        let arguments = ["replay", "t.parquet", "--server", "127.0.0.1:9", "--no-probe", "-o", "run"];
        let output = ldplayer(folder.path(), &[&arguments[..], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    assert!(refused(&["--dependencies", "chain"]).contains("t.parquet: no recorded response"));
    assert!(refused(&["--dependencies", "chain", "--rate", "100"]).contains("use --timing original or scaled"));
    let two = ["--dependencies", "client", "--compare-answers", "127.0.0.1:10"];
    assert!(refused(&two).contains("--dependencies client: each query is sent to two servers"));
    assert!(refused(&["--dependencies", "some"]).contains("use none, chain or client"));
}
