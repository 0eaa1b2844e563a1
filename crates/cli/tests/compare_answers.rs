//! `--compare-answers`, `--compare-ignore` and `--keep-responses` through the real command line.

mod common;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ldplayer_emulate::stock::{Kind, Process, Zone};
use ldplayer_trace::{Format, Input, OpenOptions, create, open};
use serde_json::Value;

use common::{certificate, free_address};

const QUERIES: usize = 40;

/// A trace of a query for each of some hosts and one for a name that is not there.
fn trace(folder: &Path) -> PathBuf {
    let mut text = "time\tsrc\tqname\tqtype\n".to_owned();
    for at in 0..QUERIES {
        let name = if at == 0 { "missing".to_owned() } else { format!("h{at}") };
        writeln!(text, "{}.{:03}\t192.0.2.{}\t{name}.example.\tA", at / 1_000, at % 1_000, at % 7 + 1).unwrap();
    }
    let path = folder.join("trace.tsv");
    std::fs::write(&path, text).unwrap();
    path
}

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap()
}

/// Replays a trace into a folder; output and `run.json`.
fn replay(trace: &Path, server: SocketAddr, run: &Path, options: &[&str]) -> (Output, Value) {
    let server = server.to_string();
    let (trace, to) = (trace.to_str().unwrap(), run.to_str().unwrap());
    let fixed = ["replay", trace, "--server", &server, "--sources", "ports", "--timing", "fast", "--force", "-o", to];
    let output = ldplayer(&[&fixed[..], options].concat());
    let json = std::fs::read(run.join("run.json")).unwrap_or_else(|_| panic!("{output:?}"));
    (output, serde_json::from_slice(&json).unwrap())
}

fn compared(run: &Value) -> &Value {
    &run["summary"]["answers_compared"]
}

fn inspect(trace: &Path) -> Value {
    serde_json::from_slice(&ldplayer(&["inspect", "--json", trace.to_str().unwrap()]).stdout).unwrap()
}

/// BIND with a zone of hosts, some of which have other addresses; its address for UDP and TCP, and that for TLS.
fn bind(folder: &Path, others: &[usize]) -> (SocketAddr, SocketAddr, Process) {
    let mut zone = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 192.0.2.53\n".to_owned();
    for at in 1..QUERIES {
        let last = if others.contains(&at) { 200 } else { at };
        writeln!(zone, "h{at} A 192.0.2.{last}").unwrap();
    }
    let file = folder.join(format!("zone-{}", others.len()));
    std::fs::write(&file, zone).unwrap();
    let (plain, tls) = (free_address(), free_address());
    let (key, pem) = (certificate("server.key"), certificate("server.pem"));
    let head = format!(
        "tls t {{ key-file \"{key}\"; cert-file \"{pem}\"; }};\noptions {{\n  listen-on port {} tls t {{ {}; }};\n  server-id \"bind-{}\";",
        tls.port(),
        tls.ip(),
        others.len()
    );
    let options = Kind::BIND.head(Path::new("."), &[plain]).unwrap().replacen("options {", &head, 1);
    let zones = vec![Zone::new("example.", file)];
    let zone = format!("zone \"example.\" {{ type primary; file \"{}\"; }};\n", zones[0].file.display());
    (plain, tls, Kind::BIND.configured(options + &zone, zones).start(&[plain]).unwrap())
}

/// The same trace, whose queries ask for the identifier of the server that answers.
fn asking_for_identifiers(folder: &Path) -> PathBuf {
    let mut source = open(&[Input::File(trace(folder))], &OpenOptions::default()).unwrap();
    let mut rows = Vec::new();
    while source.read(&mut rows).unwrap() {}
    for row in &mut rows {
        let mut wire = row.query.as_ref().unwrap().to_vec();
        assert_eq!(wire[10..12], [0, 0]);
        wire[11] = 1;
        wire.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 3, 0, 0]);
        row.query = Some(wire.into());
    }
    let path = folder.join("nsid.parquet");
    let mut sink = create(&path, Format::Parquet, true).unwrap();
    sink.write(&mut rows).unwrap();
    sink.finish().unwrap();
    path
}

#[test]
fn responses_tell_which_of_two_servers_sent_them() {
    let folder = tempfile::tempdir().unwrap();
    let (one, _, _process) = bind(folder.path(), &[]);
    let (other, _, _other_process) = bind(folder.path(), &[7]);
    let servers = [one, other].map(|address| address.to_string());
    let trace = asking_for_identifiers(folder.path());
    let run = folder.path().join("run");
    let both = ["--server", &servers[1], "--keep-responses"];
    let (output, json) = replay(&trace, one, &run, &both);
    let told = json["summary"]["nsid"].as_array().unwrap_or_else(|| panic!("{output:?}"));
    let mut names: Vec<_> = told.iter().map(|server| server["nsid"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["bind-0", "bind-1"]);
    let of = |key: &str| told.iter().map(|server| server[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((of("queries"), of("failing")), (QUERIES as u64, 0), "{told:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("(NSID)"), "{output:?}");
    assert!(std::fs::read_to_string(run.join("report.html")).unwrap().contains("<th>bind-1</th>"));
    let (_, plain) = replay(&self::trace(folder.path()), one, &run, &["--keep-responses"]);
    assert!(plain["summary"]["nsid"].is_null(), "nobody asked");
}

#[test]
fn exactly_the_queries_whose_records_changed_are_changed_over_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (before, _, first) = bind(folder.path(), &[]);
    let (_, recorded) = replay(&trace(folder.path()), before, &at("a"), &["--keep-responses"]);
    assert_eq!(recorded["summary"]["responses"]["kept"], QUERIES, "{recorded}");
    let kept = at("a/responses.parquet");
    let seen = inspect(&kept);
    assert_eq!((&seen["transactions"], &seen["responses"]), (&QUERIES.into(), &QUERIES.into()), "{seen}");
    let (_, again) = replay(&kept, before, &at("same"), &["--compare-answers", "recorded"]);
    assert_eq!((&compared(&again)["match"], &compared(&again)["again"]), (&QUERIES.into(), &Value::Null));
    assert!(!at("same/disagreements.parquet").exists());

    let (plain, tls, _second) = bind(folder.path(), &[7, 8]);
    replay(&trace(folder.path()), plain, &at("other"), &["--keep-responses"]);
    let (one, other) = (at("a"), at("other"));
    let list = ldplayer(&["compare", one.to_str().unwrap(), other.to_str().unwrap(), "--with-unfaithful", "--answers"]);
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("answers    2 are not as before\n"), "{list}");
    for host in ["7", "8"] {
        let told = format!("       1  changed  h{host}.example. A: NOERROR 192.0.2.{host} -> NOERROR 192.0.2.200\n");
        assert!(list.contains(&told), "{list}");
    }
    for (transport, server) in [("udp", plain), ("tcp", plain), ("dot", tls)] {
        let options = ["--compare-answers", "recorded", "--transport", transport, "--tls-insecure"];
        let (output, run) = replay(&kept, server, &at("b"), &[&options[..], &["--expect", "match >= 99.9 %"]].concat());
        let found = compared(&run);
        assert_eq!(found["match"], QUERIES - 2, "{transport}: {found}");
        assert_eq!((&found["changed"], &found["worse"], &found["better"]), (&2.into(), &0.into(), &0.into()));
        assert_eq!(found["by_field"], serde_json::json!({"answer": 2}), "{transport}");
        assert_eq!(found["again"], serde_json::json!({"asked": 2, "flapped": 0, "confirmed": 2, "left_out": 0}));
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains(
                "answers    95.00 % of 40 compared match; worse 0 (0 without an answer), better 0, changed 2\n"
            ),
            "{text}"
        );
        assert!(text.contains("match 95.00 % (38 of 40)"), "{text}");
    }
    // What disagrees is a trace that says so again, and that the old server agrees with.
    let disagreements = at("b/disagreements.parquet");
    assert_eq!(inspect(&disagreements)["unique_qnames"], 2);
    let (_, run) = replay(&disagreements, before, &at("c"), &["--compare-answers", "recorded"]);
    assert_eq!(compared(&run)["match"], 2);
    let (_, run) = replay(&at("b/disagreements-now.parquet"), plain, &at("c"), &["--compare-answers", "recorded"]);
    assert_eq!(compared(&run)["match"], 2);
    let (_, run) =
        replay(&kept, plain, &at("c"), &["--compare-answers", "recorded", "--compare-ignore", "name under h7.example"]);
    assert_eq!(compared(&run)["changed"], 1);
    drop(first);
}

/// A server over UDP that answers the n-th query for a name with a response code, or not at all, until the test ends.
fn server(rcode: impl Fn(&str, usize) -> Option<u8> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut octets, mut asked) = ([0; 1_500], HashMap::<String, usize>::new());
        loop {
            let (length, client) = socket.recv_from(&mut octets).unwrap();
            let label = usize::from(octets[12]);
            let name = String::from_utf8(octets[13..13 + label].to_vec()).unwrap();
            let count = asked.entry(name.clone()).or_default();
            if let Some(rcode) = rcode(&name, *count) {
                (octets[2], octets[3]) = (octets[2] | 0x80, rcode);
                socket.send_to(&octets[..length], client).unwrap();
            }
            *count += 1;
        }
    });
    address
}

/// What a run against `now` says of answers that were all NOERROR when they were recorded, but for h3's, which was SERVFAIL.
fn against(
    now: impl Fn(&str, usize) -> Option<u8> + Send + 'static,
    options: &[&str],
) -> (tempfile::TempDir, Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let before = server(|name, _| Some(if name == "h3" { 2 } else { 0 }));
    let (_, recorded) = replay(&trace(folder.path()), before, &folder.path().join("a"), &["--keep-responses"]);
    assert_eq!(recorded["summary"]["responses"]["kept"], QUERIES);
    let kept = folder.path().join("a/responses.parquet");
    let options = [&["--compare-answers", "recorded", "--query-timeout", "300ms"], options].concat();
    let (output, run) = replay(&kept, server(now), &folder.path().join("b"), &options);
    (folder, output, run)
}

#[test]
fn errors_and_silence_are_worse_and_neither_vanishes() {
    let now = |name: &str, _| match name {
        "h5" => Some(2),
        "h6" => None,
        _ => Some(0),
    };
    let (folder, _, run) = against(now, &[]);
    let found = compared(&run);
    let expected = serde_json::json!({
        "compared": QUERIES, "match": QUERIES - 3, "better": 1, "worse": 2, "changed": 0, "unanswered": 1,
        "not_comparable": 0, "not_comparable_by_reason": {}, "by_field": {"rcode": 2},
        "again": {"asked": 3, "flapped": 0, "confirmed": 3, "left_out": 0},
    });
    assert_eq!(found, &expected);
    assert_eq!(run["summary"]["answers"], serde_json::json!({"match": QUERIES - 3, "better": 1, "worse": 2}));
    let left = inspect(&folder.path().join("b/disagreements.parquet"));
    assert_eq!((&left["transactions"], &left["responses"]), (&3.into(), &3.into()));
    let now = inspect(&folder.path().join("b/disagreements-now.parquet"));
    assert_eq!((&now["transactions"], &now["responses"]), (&3.into(), &2.into()), "one of them says nothing still");
    let page = std::fs::read_to_string(folder.path().join("b/report.html")).unwrap();
    assert!(page.contains("compared_time") && page.contains("\"of\":\"worse\""));
}

#[test]
fn what_flaps_is_dropped_and_counted() {
    // h9 fails once, and h5 each time.
    let now = |name: &str, count: usize| match (name, count) {
        ("h9", 0) | ("h5", _) | ("h3", _) => Some(2),
        _ => Some(0),
    };
    let (folder, _, run) = against(now, &[]);
    let found = compared(&run);
    assert_eq!((&found["worse"], &found["match"]), (&2.into(), &(QUERIES - 2).into()));
    assert_eq!(found["again"], serde_json::json!({"asked": 2, "flapped": 1, "confirmed": 1, "left_out": 0}));
    assert_eq!(inspect(&folder.path().join("b/disagreements.parquet"))["transactions"], 1);
    // Asking again is no part of the run.
    assert_eq!(run["summary"]["queries"]["sent"], QUERIES);
}

#[test]
fn a_trace_without_responses_is_no_match_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--compare-answers", "recorded", "--expect", "match >= 99.9 %"];
    let (output, run) = replay(&trace(folder.path()), server(|_, _| Some(0)), &folder.path().join("run"), &options);
    assert_eq!((output.status.code(), compared(&run)), (Some(1), &Value::Null));
    let warnings = run["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "nothing_compared"), "{warnings:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no answer was compared") && !text.contains("answers    "), "{text}");
}

#[test]
fn rules_that_say_nothing_are_bad_input() {
    let output = ldplayer(&["replay", "t.tsv", "--server", "127.0.0.1", "--compare-ignore", "tpye == A"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("did you mean `type`?"), "{said}");
}

#[test]
fn answers_of_two_servers_are_compared_over_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (expected, expected_tls, _first) = bind(folder.path(), &[]);
    let (plain, tls, _second) = bind(folder.path(), &[7, 8]);
    let trace = trace(folder.path());
    for (transport, server, other) in [("udp", plain, expected), ("tcp", plain, expected), ("dot", tls, expected_tls)] {
        let other = other.to_string();
        let options = ["--compare-answers", &other, "--transport", transport, "--tls-insecure", "--keep-responses"];
        let (_, run) = replay(&trace, server, &at("a"), &options);
        let found = compared(&run);
        assert_eq!((&found["match"], &found["changed"]), (&(QUERIES - 2).into(), &2.into()), "{transport}: {run}");
        assert_eq!(found["again"], serde_json::json!({"asked": 2, "flapped": 0, "confirmed": 2, "left_out": 0}));
        // The queries to the other server do not belong to the run.
        let queries = &run["summary"]["queries"];
        assert_eq!(
            (&queries["trace"], &queries["sent"], &queries["stray"]),
            (&QUERIES.into(), &QUERIES.into(), &0.into())
        );
        assert_eq!(run["summary"]["responses"]["kept"], QUERIES);
        assert_eq!(run["config"]["compare_answers"], other);
        // What was expected is what the other server says.
        let disagreements = at("a/disagreements.parquet");
        let (_, run) =
            replay(&disagreements, expected, &at("b"), &["--compare-answers", "recorded", "--transport", "udp"]);
        assert_eq!(compared(&run)["match"], 2, "{transport}");
        let (_, run) =
            replay(&disagreements, plain, &at("b"), &["--compare-answers", "recorded", "--transport", "udp"]);
        assert_eq!(compared(&run)["changed"], 2, "{transport}");
    }
}

#[test]
fn what_the_other_server_leaves_unanswered_is_told_and_no_match() {
    let folder = tempfile::tempdir().unwrap();
    let other = server(|name, _| if name == "h6" { None } else { Some(0) }).to_string();
    let own = server(|name, _| if name == "h5" { None } else { Some(0) });
    let options = ["--compare-answers", &other, "--query-timeout", "300ms"];
    let (_, run) = replay(&trace(folder.path()), own, &folder.path().join("run"), &options);
    let found = compared(&run);
    assert_eq!((&found["match"], &found["worse"], &found["unanswered"]), (&(QUERIES - 2).into(), &1.into(), &1.into()));
    assert_eq!(found["not_comparable_by_reason"], serde_json::json!({"no_reference": 1}));
    assert_eq!(
        (&run["summary"]["queries"]["answered"], &run["summary"]["queries"]["timed_out"]),
        (&(QUERIES - 1).into(), &1.into())
    );
    let warnings = run["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|warning| warning["code"] == "reference_unanswered").expect("a warning");
    assert!(told["text"].as_str().unwrap().contains("left 1 of 40 queries unanswered"), "{told}");
}

#[test]
fn the_other_server_needs_permission_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let arguments = ["replay", trace.to_str().unwrap(), "--server", "127.0.0.1:9", "--compare-answers", "192.0.2.1"];
    let output = ldplayer(&arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    let wanted = "--compare-answers 192.0.2.1:53: not an address of this host; if you may send load to it, add --allow-target 192.0.2.1";
    assert!(output.status.code() == Some(2) && said.contains(wanted), "{said}");
}
