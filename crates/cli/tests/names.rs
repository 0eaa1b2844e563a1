//! Names in results: `rows` with `qname` and `qtype`, and which names a report lists.

#[path = "common/command.rs"]
mod command;
#[path = "common/python.rs"]
mod python;
#[path = "common/responder.rs"]
mod responder;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use command::{ldplayer, text};
use responder::responder;
use serde_json::Value;

/// Answers names that begin with `o` at once, with `s` after 300 ms, with `f` by SERVFAIL, and others not at all.
fn server() -> String {
    responder(|response| {
        let kind = response[13].to_ascii_lowercase();
        response[3] = if kind == b'f' { 2 } else { 0 };
        match kind {
            b'o' | b'f' => Some(Duration::ZERO),
            b's' => Some(Duration::from_millis(300)),
            _ => None,
        }
    })
}

const TRACE: &str = "trace.tsv";

/// Replays a trace of these names, each a millisecond after the one before and of a client of its own.
fn replay(folder: &Path, names: &[(&str, &str)], more: &[&str]) {
    let line = |(at, (name, kind)): (usize, &(&str, &str))| {
        format!("{}\t10.0.{}.{}\t{name}\t{kind}\n", at as f64 / 1e3, at / 250, at % 250 + 1)
    };
    let lines: String = names.iter().enumerate().map(line).collect();
    fs::write(folder.join(TRACE), format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
    let server = server();
    let arguments = ["replay", TRACE, "--server", &server, "--query-timeout", "1s", "-o", "run"];
    let output = ldplayer(folder, &[&arguments[..], more].concat());
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
}

fn names_of(folder: &Path) -> Value {
    let run: Value = serde_json::from_slice(&fs::read(folder.join("run/run.json")).unwrap()).unwrap();
    run["summary"]["names"].clone()
}

#[test]
fn the_report_lists_the_names_that_were_slow_failed_or_got_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let fine: Vec<String> = (0..700).map(|at| format!("o{at}.example.com.")).collect();
    let mut names: Vec<(&str, &str)> = fine.iter().map(|name| (name.as_str(), "A")).collect();
    names.extend([("slow.Example.org.", "AAAA"), ("SLOW.example.org.", "AAAA"), ("fail.example.net.", "MX")]);
    names.extend([("fail.example.net.", "MX"), ("fail.example.net.", "TXT"), ("lost.example.net.", "A")]);
    replay(folder.path(), &names, &[]);
    let names = names_of(folder.path());
    assert_eq!(names["joined"], 706);
    let first = |kind: &str, by: &str| {
        let top = &names[kind]["by"][by][0];
        (top["value"].as_str().unwrap().to_owned(), top["queries"].as_u64().unwrap(), top["of"].as_u64().unwrap())
    };
    // The others of the slowest hundredth are the scheduler's matter.
    let slow = names["slow"]["by"]["name"].as_array().unwrap();
    let found = slow.iter().find(|top| top["value"] == "slow.example.org.").unwrap();
    assert_eq!((&found["queries"], &found["of"]), (&2.into(), &2.into()), "{slow:?}");
    assert!(found["slowest_ms"].as_f64().unwrap() >= 300.0);
    assert_eq!(first("failing", "name"), ("fail.example.net.".to_owned(), 3, 3));
    assert_eq!(first("failing", "type"), ("MX".to_owned(), 2, 2));
    assert_eq!(first("failing", "domain"), ("example.net.".to_owned(), 3, 4));
    assert_eq!(first("failing", "tld"), ("net.".to_owned(), 3, 4));
    assert_eq!(first("timed_out", "name"), ("lost.example.net.".to_owned(), 1, 1));
    assert_eq!(first("timed_out", "client"), ("10.0.2.206".to_owned(), 1, 1));
    let page = fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    assert!(page.contains("Which names?") && page.contains("fail.example.net."));
}

#[test]
fn rows_show_and_select_names_of_the_trace_as_rules_left_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("rules.toml"), "[[rule]]\nwhere = 'qtype == MX'\nqname = 'f{n}.example.net'\n").unwrap();
    let names =
        [("o1.example.org.", "A"), ("o2.Example.ORG.", "AAAA"), ("o3.anexample.org.", "A"), ("o4.example.", "MX")];
    replay(path, &names, &["--rules", "rules.toml"]);
    let rows = |condition: &str| {
        let columns = "index,qname,qtype,rcode";
        text(path, &["rows", "run", "--no-header", "--columns", columns, "--where", condition])
    };
    assert_eq!(rows("qname under example.org and qtype == aaaa"), "1\to2.Example.ORG.\tAAAA\t0\n");
    assert_eq!(rows("qname == o1.EXAMPLE.org"), "0\to1.example.org.\tA\t0\n");
    assert_eq!(rows("rcode == SERVFAIL"), "3\tf3.example.net.\tMX\t2\n");
    let output = ldplayer(path, &["rows", "run", "--where", "qname < a"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("`qname` has no order"), "{output:?}");
}

#[test]
fn a_trace_that_moved_or_changed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    replay(path, &[("o1.example.", "A")], &[]);
    let shown = ["rows", "run", "--no-header", "--columns", "qname"];
    let refusal = |arguments: &[&str]| {
        let output = ldplayer(path, arguments);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    fs::rename(path.join(TRACE), path.join("moved.tsv")).unwrap();
    assert!(refusal(&shown).contains("give it with --trace FILE"));
    assert_eq!(text(path, &[&shown[..], &["--trace", "moved.tsv"]].concat()), "o1.example.\n");
    assert_eq!(text(path, &["rows", "run", "--no-header", "--columns", "rcode"]), "0\n", "the trace is not needed");
    let changed = fs::read_to_string(path.join("moved.tsv")).unwrap().replace("o1", "o2");
    fs::write(path.join(TRACE), changed).unwrap();
    assert!(refusal(&shown).contains("another SHA-256 than it had in the run"));
    assert!(refusal(&["report", "run", "--names"]).contains("another SHA-256"));
}

#[test]
fn a_run_whose_trace_was_not_read_again_joins_names_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    replay(path, &[("o1.example.", "A"), ("fail.example.", "NS")], &[]);
    let run = path.join("run/run.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&run).unwrap()).unwrap();
    document["summary"].as_object_mut().unwrap().remove("names");
    fs::write(&run, document.to_string()).unwrap();
    ldplayer(path, &["report", "run"]);
    assert!(fs::read_to_string(path.join("run/report.html")).unwrap().contains("report RUN --names"));
    ldplayer(path, &["report", "run", "--names"]);
    assert_eq!(names_of(path)["failing"]["by"]["type"][0]["value"], "NS");
}

#[test]
fn rows_of_an_experiment_begin_with_what_its_record_says_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("t.tsv"), "time\tsrc\tqname\tqtype\n0\t192.0.2.1\tno.example.\tA\n").unwrap();
    fs::create_dir(path.join("zones")).unwrap();
    fs::write(path.join("zones/example.zone"), "example. 60 SOA . . 1 2 3 4 5\nexample. 60 NS ns.example.\n").unwrap();
    let file = "trace = 't.tsv'\nrepeats = 2\nmax_retries = 0\n[server.meta]\nkind = 'meta'\nzones = 'zones'\n[matrix]\ntransport = ['udp', 'tcp']\n";
    fs::write(path.join("e.toml"), file).unwrap();
    ldplayer(path, &["experiment", "e.toml", "-o", "out"]);
    let rows = |columns: &str| text(path, &["rows", "out", "--columns", columns]);
    let all = rows("transport,repeat,counted,qname,rcode");
    let mut lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.remove(0), "transport\trepeat\tcounted\tqname\trcode");
    lines.sort_unstable();
    let row = |transport: &str, repeat: u8| format!("{transport}\t{repeat}\ttrue\tno.example.\t3");
    assert_eq!(lines, [row("tcp", 1), row("tcp", 2), row("udp", 1), row("udp", 2)]);
    assert_eq!(rows("repeat").lines().count(), 5);
    let usual = text(path, &["rows", "out"]);
    let count = "import duckdb; print(duckdb.execute(\"select string_agg(transport || ' ' || repeat || ' ' || n, ',' order by transport, repeat) from (select transport, repeat, count(*) n from read_parquet('out/dataset/**/*.parquet', hive_partitioning = true) group by all)\").fetchall()[0][0])";
    let found = Command::new(python::python()).current_dir(path).args(["-c", count]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), "tcp 1 1,tcp 2 1,udp 1 1,udp 2 1", "{found:?}");
    assert!(usual.starts_with("server\ttransport\trepeat\tcounted\tindex\tclient\tintended_ns\t"), "{usual}");
}
