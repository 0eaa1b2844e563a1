//! What users saw: lookups and their attempts in the results of a run, and the retries of a trace.

#[path = "common/command.rs"]
mod command;
#[path = "common/responder.rs"]
mod responder;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use command::{ldplayer, text};
use responder::responder;
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

/// How late the server is with the first answer to a name that begins with `d`.
const LATE: Duration = Duration::from_millis(450);

/// Answers names that begin with `o` at once, with `f` by SERVFAIL, with `l` when they are asked a second time, with `d` then too and the first time
/// late, and others not at all.
fn server() -> String {
    let mut seen = HashSet::new();
    responder(move |response| {
        let is_first = seen.insert(response[12..].to_vec());
        let kind = response[13];
        response[3] = if kind == b'f' { 2 } else { 0 };
        match kind {
            b'd' if is_first => Some(LATE),
            b'l' if is_first => None,
            b'd' | b'o' | b'f' | b'l' => Some(Duration::ZERO),
            _ => None,
        }
    })
}

/// Replays names, ten milliseconds apart and of a client each, with these options; its run.json.
fn replay(folder: &Path, names: &[&str], options: &[&str]) -> Value {
    let line = |(at, name): (usize, &&str)| format!("{}\t10.0.0.{}\t{name}.example.\tA\n", at as f64 / 100.0, at + 1);
    let lines: String = names.iter().enumerate().map(line).collect();
    fs::write(folder.join("t.tsv"), format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
    let server = server();
    let arguments = ["replay", "t.tsv", "--server", &server, "--no-probe", "--force", "-o", "run"];
    let output = ldplayer(folder, &[&arguments[..], options].concat());
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&fs::read(folder.join("run/run.json")).unwrap()).unwrap()
}

const CLIENT: &str = "custom:attempts=3,timeout=300ms";

#[test]
fn a_lookup_is_a_row_and_each_attempt_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let expect = ["lookup_failed <= 50 %", "attempts <= 2", "lookup_p50 <= 10s", "attempts >= 2.1"];
    let options: Vec<&str> =
        ["--client", CLIENT].into_iter().chain(expect.iter().flat_map(|e| ["--expect", *e])).collect();
    let run = replay(folder.path(), &["ok", "ok2", "late", "fail", "silent"], &options);
    let (queries, lookups) = (&run["summary"]["queries"], &run["summary"]["lookups"]);
    let of = |keys: [&str; 5]| keys.map(|key| queries[key].as_u64().unwrap());
    assert_eq!(of(["trace", "sent", "answered", "timed_out", "failed"]), [5, 5, 4, 1, 0], "a SERVFAIL is an answer");
    assert_eq!(lookups["retries_by_reason"], serde_json::json!({ "timeout": 3, "servfail": 2 }), "{lookups}");
    let of = |keys: [&str; 5]| keys.map(|key| lookups[key].as_u64().unwrap());
    assert_eq!(of(["asked", "failed", "packets", "retries", "failovers"]), [5, 2, 10, 5, 0]);
    assert_eq!(lookups["attempts"], 2.0);
    assert_eq!((&lookups["p90"], lookups["p50"].as_f64().is_some_and(|ms| ms >= 300.0)), (&Value::Null, true));
    let checks = run["verdict"]["server"]["checks"].as_array().unwrap();
    let held: Vec<bool> = checks.iter().map(|check| check["ok"].as_bool().unwrap()).collect();
    assert_eq!(held, [true, true, true, false], "{checks:?}");
    let rows = text(folder.path(), &["rows", "run", "--columns", "index,status,attempts,gave_up"]);
    let mut rows: Vec<&str> = rows.lines().skip(1).collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            "0\tanswered\t1\tfalse",
            "1\tanswered\t1\tfalse",
            "2\tanswered\t2\tfalse",
            "3\tanswered\t3\ttrue",
            "4\ttimeout\t3\ttrue"
        ]
    );
    // One of the expectations does not hold.
    let again = String::from_utf8(ldplayer(folder.path(), &["report", "run"]).stdout).unwrap();
    assert!(again.contains("lookups    5, 2 failed; "), "{again}");
}

/// An attempt whose answer came when its lookup had ended, as the last thing of the run, had no row.
#[test]
fn the_last_attempt_of_a_run_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let lookups = replay(folder.path(), &["delayed"], &["--client", CLIENT])["summary"]["lookups"].clone();
    assert_eq!(
        (&lookups["asked"], &lookups["packets"], &lookups["failed"]),
        (&1.into(), &2.into(), &0.into()),
        "{lookups}"
    );
}

#[test]
fn lookups_of_clients_that_agents_play_are_those_of_one_host() {
    let folder = tempfile::tempdir().unwrap();
    let lookups = |options: &[&str]| {
        let names = ["ok", "ok2", "late", "fail", "silent", "late2", "ok3", "fail2"];
        let run = replay(folder.path(), &names, &[&["--client", CLIENT][..], options].concat());
        let queries = ["trace", "sent", "answered", "timed_out"].map(|key| run["summary"]["queries"][key].clone());
        let counts = ["asked", "failed", "packets", "attempts", "retries", "retries_by_reason", "failovers"];
        (queries, counts.map(|key| run["summary"]["lookups"][key].clone()))
    };
    let agents = ["--nats", "embedded", "--agents", "2", "--workers", "1"];
    assert_eq!(lookups(&agents), lookups(&[]));
    lookups(&agents);
    let files = fs::read_dir(folder.path().join("run/attempts")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["shard-000-000000.parquet", "shard-001-000000.parquet"], "each agent has played some clients");
}

#[test]
fn clients_that_do_not_react_have_no_lookups() {
    let folder = tempfile::tempdir().unwrap();
    let run = replay(folder.path(), &["ok", "silent"], &["--query-timeout", "300ms"]);
    assert!(run["summary"].get("lookups").is_none() && !folder.path().join("run/attempts").exists());
    let run = replay(folder.path(), &["ok", "ok2"], &["--client", CLIENT]);
    assert_eq!((&run["summary"]["lookups"]["asked"], &run["spec"]["client"]), (&2.into(), &CLIENT.into()), "{run}");
    let attempts = || fs::read_dir(folder.path().join("run/attempts")).into_iter().flatten().count();
    assert!(attempts() > 0);
    replay(folder.path(), &["ok"], &[]);
    assert_eq!(attempts(), 0, "a run in the same place has no rows of the one before");
}

#[test]
fn what_needs_one_answer_for_each_query_does_not_go_with_clients_that_react() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.tsv"), "time\tsrc\tqname\tqtype\n0\t10.0.0.1\ta.\tA\n").unwrap();
    for (option, said) in [
        (&["--keep-responses"][..], "do not go with --keep-responses"),
        (&["--compare-answers", "127.0.0.1:9"], "do not go with --compare-answers with another server"),
    ] {
        let arguments = ["replay", "t.tsv", "--server", "127.0.0.1:9", "--client", "glibc", "-o", "run"];
        let output = ldplayer(folder.path(), &[&arguments[..], option].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.contains(said)), (Some(2), true), "{stderr}");
    }
    let output = ldplayer(folder.path(), &["replay", "t.tsv", "--server", "127.0.0.1:9", "--client", "gnu"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("`gnu`: no such client: use open, custom, glibc, android, musl, go, c-ares, windows"),
        "{stderr}"
    );
}

#[test]
fn recorded_retries_of_a_real_trace_are_dropped_or_marked() {
    let folder = tempfile::tempdir().unwrap();
    let trace = data("l-root-20161006.pcap.xz");
    let trace = trace.to_str().unwrap();
    let inspected =
        |trace: &str| -> Value { serde_json::from_str(&text(folder.path(), &["inspect", "--json", trace])).unwrap() };
    let all = inspected(trace);
    let retries = all["retries"]["n"].as_u64().unwrap();
    assert!(retries > 0, "{}", all["retries"]);
    let convert = |treatment: &str, output: &str| {
        text(folder.path(), &["convert", trace, "--recorded-retries", treatment, "-o", output, "--force"]);
    };
    convert("drop", "without.parquet");
    let without = inspected("without.parquet");
    let queries = |of: &Value| of["queries"].as_u64().unwrap();
    assert_eq!(queries(&without), queries(&all) - retries);
    convert("mark", "marked.tsv");
    let marked = fs::read_to_string(folder.path().join("marked.tsv")).unwrap();
    assert!(marked.lines().next().unwrap().ends_with("\tedns\tretry_of"));
    let rows: Vec<&str> = marked.lines().skip(1).map(|line| line.rsplit_once('\t').unwrap().1).collect();
    assert_eq!(rows.iter().filter(|first| **first != "-").count() as u64, retries);
    // Marks are rows of the input. It has more rows than the list: also responses alone, and queries that a line cannot say.
    let transactions = all["transactions"].as_u64().unwrap();
    let marks = rows.iter().filter(|first| **first != "-").map(|first| first.parse::<u64>().unwrap());
    assert!(marks.into_iter().all(|first| first < transactions));
    // It is a trace like any other.
    assert_eq!(queries(&inspected("marked.tsv")), rows.len() as u64);
    let output = ldplayer(folder.path(), &["convert", trace, "--recorded-retries", "mark", "-o", "marked.pcap"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("pcap has no column for retries"));
    assert_eq!(output.status.code(), Some(2));
}
