//! Data sets: many inputs in one folder, by hour and shard, which commands read as one trace and others by SQL.

#[path = "common/command.rs"]
mod command;
#[path = "common/python.rs"]
mod python;
#[path = "common/responder.rs"]
mod responder;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use command::{ldplayer, refusal, text};
use python::python;
use responder::responder;
use serde_json::Value;

/// Captures of four quarters of an hour, from five to two on: they lie in folders, the last one first, and one is there twice.
fn captures(folder: &Path) {
    fs::create_dir_all(folder.join("in/tap")).unwrap();
    for (quarter, name) in ["in/d", "in/tap/c", "in/b", "in/a"].into_iter().enumerate() {
        let begin = 1_712_667_300 + 900 * quarter;
        let line = |at: usize| format!("{}.5\t192.0.2.{}\tn{at}.q{quarter}.example.\tA\n", begin + at * 9, at % 40);
        let lines: String = (0..100).map(line).collect();
        fs::write(folder.join("list.tsv"), format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
        text(folder, &["convert", "list.tsv", "-o", &format!("{name}.pcap")]);
    }
    fs::copy(folder.join("in/a.pcap"), folder.join("in/again.pcap")).unwrap();
}

fn said(folder: &Path, arguments: &[&str], status: i32) -> String {
    let output = ldplayer(folder, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    said
}

fn inspected(folder: &Path, inputs: &[&str]) -> Value {
    let mut found: Value = serde_json::from_str(&text(folder, &[&["inspect", "--json"], inputs].concat())).unwrap();
    let all = found.as_object_mut().unwrap();
    // What an input is made of differs, as does what a capture has around its messages.
    for key in ["inputs", "packets", "encapsulations", "damaged", "skipped"] {
        all.remove(key);
    }
    found
}

fn parquet_files(set: &Path) -> Vec<PathBuf> {
    ldplayer_trace::set::files_below(set).unwrap()
}

#[test]
fn a_set_is_the_trace_of_its_inputs_and_has_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    captures(folder);
    let told = said(folder, &["convert", "in", "-o", "set/", "--shards", "2"], 0);
    assert!(told.contains("set/: 400 transactions of 4 inputs\n"), "{told}");
    assert!(told.contains("1 input of these were in it, or are given twice\n"), "{told}");
    // 900 s less the 891 s from the first to the last query of an input.
    assert!(told.contains("hole: nothing for 9 s after 2024-04-09T13:09:51.5Z"), "{told}");
    let files = parquet_files(&folder.join("set"));
    let hours = ["hour=2024-04-09_12", "hour=2024-04-09_13"];
    assert!(hours.iter().all(|hour| files.iter().any(|file| file.to_str().unwrap().contains(hour))), "{files:?}");
    let inputs = ["in/a.pcap", "in/b.pcap", "in/tap/c.pcap", "in/d.pcap"];
    assert_eq!(inspected(folder, &["set"]), inspected(folder, &inputs));
    // A part of it is a trace, too.
    let shards = |shard: usize| {
        files.iter().filter(move |file| file.to_str().unwrap().contains(&format!("shard={shard}"))).count()
    };
    assert!(shards(0) > 0 && shards(1) > 0);
    let hour = inspected(folder, &["set/hour=2024-04-09_13"])["transactions"].as_u64().unwrap();
    assert!((1..400).contains(&hour), "{hour}");

    let told = said(folder, &["convert", "in", "-o", "set/"], 0);
    assert!(told.contains("400 transactions of 4 inputs\n") && told.contains("5 inputs of these were in it"), "{told}");
    assert_eq!(parquet_files(&folder.join("set")), files);
}

#[test]
fn a_set_within_the_folder_of_its_inputs_is_no_input() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    captures(folder);
    for told in [0, 1].map(|_| said(folder, &["convert", "in", "-o", "in/set/"], 0)) {
        assert!(told.contains("in/set/: 400 transactions of 4 inputs"), "{told}");
    }
}

#[test]
fn a_replay_of_a_set_has_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, server) = (folder.path(), responder(|_| Some(Duration::ZERO)));
    captures(folder);
    said(folder, &["convert", "in/a.pcap", "in/b.pcap", "-o", "set/"], 0);
    let output = ldplayer(folder, &["replay", "set", "--server", &server, "--speed", "2000", "-o", "run"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = text(folder, &["rows", "run", "--columns", "index,qname"]);
    // `rows` prints first what ended first.
    let mut names: Vec<(u32, &str)> = rows
        .lines()
        .skip(1)
        .filter_map(|row| row.split_once('\t'))
        .map(|(index, name)| (index.parse().unwrap(), name))
        .collect();
    names.sort_unstable();
    // b begins before a.
    assert_eq!((names.len(), names[0], names[199]), (200, (0, "n0.q2.example."), (199, "n99.q3.example.")));
    // On another host, too.
    text(folder, &["archive", "run", "-o", "run.tar.zst"]);
    fs::create_dir(folder.join("there")).unwrap();
    text(&folder.join("there"), &["archive", "--extract", "../run.tar.zst", "-o", "run"]);
    fs::rename(folder.join("set"), folder.join("gone")).unwrap();
    assert_eq!(text(&folder.join("there"), &["rows", "run", "--columns", "index,qname"]), rows);
    fs::rename(folder.join("gone"), folder.join("set")).unwrap();
    // Another set is noticed.
    said(folder, &["convert", "in/d.pcap", "-o", "set/"], 0);
    assert!(refusal(folder, &["rows", "run", "--columns", "qname"]).contains("has another size"));
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    captures(folder);
    let whole = fs::read(folder.join("in/b.pcap")).unwrap();
    fs::write(folder.join("in/b.pcap"), &whole[..whole.len() / 2 + 5]).unwrap();
    fs::write(folder.join("in/names.txt"), "a.example A\n").unwrap();
    fs::write(folder.join("in/photo.png"), [0x89, b'P', b'N', b'G', 0, 1, 2, 3, 255]).unwrap();
    let told = said(folder, &["convert", "in", "-o", "set/"], 2);
    let lines = |part: &str| told.lines().filter(|line| line.contains(part)).count();
    assert_eq!(
        (lines("not in it: "), lines("names.txt: a list of queries, without times"), lines("photo.png")),
        (2, 1, 1),
        "{told}"
    );
    assert!(told.contains("damaged: ") && told.contains("first in in/b.pcap"), "{told}");
    assert!(told.contains(" of 4 inputs"), "{told}");
    // The damage of the inputs goes with the set.
    let found = text(folder, &["inspect", "set"]);
    assert!(found.contains("in/b.pcap"), "{found}");
}

#[test]
fn a_folder_of_captures_is_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    captures(folder);
    fs::remove_file(folder.join("in/again.pcap")).unwrap();
    let inputs = ["in/a.pcap", "in/b.pcap", "in/tap/c.pcap", "in/d.pcap"];
    assert_eq!(inspected(folder, &["in"]), inspected(folder, &inputs));
    fs::create_dir(folder.join("empty")).unwrap();
    assert!(refusal(folder, &["inspect", "empty"]).contains("a folder without files"));
}

#[test]
fn options_that_a_set_does_not_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    captures(folder);
    let refused = |arguments: &[&str], why: &str| {
        let line = refusal(folder, &[&["convert", "in/a.pcap"], arguments].concat());
        assert!(line.contains(why), "{line}");
    };
    refused(&["-o", "in"], "a folder with other files");
    refused(&["-o", "set/", "--to", "pcap"], "is a directory, and a data set has no --to");
    refused(&["-o", "set/", "--recorded-retries", "drop"], "--recorded-retries");
    refused(&["-o", "a.parquet", "--shards", "2"], "--shards divides a data set");
    refused(&["-", "-o", "set/"], "made of files");
    said(folder, &["convert", "in/a.pcap", "-o", "set/", "--shards", "3"], 0);
    refused(&["-o", "set/", "--shards", "2"], "its inputs were read otherwise");
    refused(&["-o", "set/", "--capture-port", "5353"], "its inputs were read otherwise");
}

#[test]
fn sql_reads_a_set_by_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    captures(folder);
    said(folder, &["convert", "in", "-o", "set/"], 0);
    let code = "import duckdb; print(*duckdb.execute(\"select count(*), count(distinct hour), count(distinct shard), count(distinct (src, shard)) - count(distinct src) from read_parquet('set/*/*/*.parquet', hive_partitioning = true)\").fetchall()[0])";
    let output = Command::new(python()).current_dir(folder).args(["-c", code]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "400 2 4 0",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn an_interrupted_conversion_goes_on_with_the_same_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("in")).unwrap();
    for seed in 0..8 {
        let (out, seed) = (format!("in/{seed}.pcap"), seed.to_string());
        text(folder, &["generate", "syn-3", "--queries", "20k", "--seed", &seed, "-o", &out]);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let mut running =
        command.current_dir(folder).args(["convert", "in", "-o", "set/"]).stderr(Stdio::piped()).spawn().unwrap();
    let parts = || fs::read_dir(folder.join("set/_manifest")).map_or(0, Iterator::count);
    while parts() == 0 && running.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
    let output = running.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let status = output.status.code();
    // It may have been at its end.
    assert!(status == Some(130) && told.contains("the same command goes on") || parts() == 8, "{status:?}: {told}");
    let left = fs::read_dir(folder.join("set"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("_unfinished"));
    assert_eq!(left.count(), 0);
    let told = said(folder, &["convert", "in", "-o", "set/"], 0);
    assert!(told.contains("160000 transactions of 8 inputs") && told.contains(" of these were in it"), "{told}");
    assert_eq!(inspected(folder, &["set"])["transactions"], 160_000);
}
