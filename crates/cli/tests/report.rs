//! `ldplayer report`: what it prints and how it exits.

#[path = "common/rows.rs"]
mod rows;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ldplayer_results::{Recorder, RunConfig, RunEnd, RunSetup, VerdictLimits};
use serde_json::{Value, json};

fn report(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).arg("report").args(arguments).output().unwrap()
}

/// A run of three queries, on time and answered, through a trace of `trace_queries`.
fn run(dir: &Path, trace_queries: u64) {
    let config = RunConfig::default().with("trace", "three.pcap");
    let setup = RunSetup { config, workers: 1, ..RunSetup::default() };
    let end = RunEnd { trace_queries, limits: VerdictLimits::HIGH, ..RunEnd::default() };
    let mut recorder = Recorder::create(dir, false, setup, json!({ "asked": "for" })).unwrap();
    recorder.record(0, &(0..3).map(|at| rows::answered(at, 80_000, 3)).collect::<Vec<_>>()).unwrap();
    recorder.finish(end).unwrap();
}

#[test]
fn a_good_run_exits_with_0_and_prints_text_or_json() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("good");
    run(&dir, 3);
    assert!(!dir.join("report.html").exists());
    let text = report(&[&dir]);
    assert_eq!(text.status.code(), Some(0));
    let text = String::from_utf8(text.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("replay ok · server not judged · report: file:///"), "{last}");
    assert!(dir.join("report.html").exists(), "the page is written");
    let json: Value = serde_json::from_slice(&report(&[&dir, "--json".as_ref()]).stdout).unwrap();
    let written: Value = serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap();
    assert_eq!(json, written, "report --json prints run.json");
    assert_eq!(json["summary"]["queries"]["answered"], 3);
    assert_eq!(json["summary"]["rcodes"]["NXDOMAIN"], 3);
    assert_eq!(json["summary"]["latency_ms"]["from_sent"]["p50"], 0.08);
    assert_eq!(json["spec"]["asked"], "for");
}

#[test]
fn a_failed_verdict_exits_with_1() {
    let place = tempfile::tempdir().unwrap();
    let (good, bad) = (place.path().join("good"), place.path().join("bad"));
    run(&good, 3);
    run(&bad, 4);
    let output = report(&[&good, &bad, "--json".as_ref()]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json[0]["verdict"]["ok"], &json[1]["verdict"]["ok"]), (&json!(true), &json!(false)));
}

#[test]
fn the_page_goes_where_it_is_wanted() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    run(&dir, 3);
    let page = place.path().join("page.html");
    assert_eq!(report(&[&dir, "--html".as_ref(), &page]).status.code(), Some(0));
    assert!(fs::read_to_string(page).unwrap().contains("three.pcap"));
}

#[test]
fn several_runs_have_a_page_of_all_which_the_last_line_names() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    run(&a, 3);
    run(&b, 3);
    let output = report(&[&a, &b]);
    assert_eq!(output.status.code(), Some(0));
    let (said, page) = (String::from_utf8(output.stdout).unwrap(), place.path().join("report-compare.html"));
    assert_eq!(said.lines().last().unwrap(), format!("report: {}", page.display()));
    assert_eq!(said.lines().filter(|line| line.starts_with("run ")).count(), 2, "the text of each: {said}");
    assert!(fs::read_to_string(&page).unwrap().contains("2 runs laid over one another"));
    fs::remove_file(&page).unwrap();
    let elsewhere = place.path().join("both.html");
    let output = report(&[&a, &b, "--json".as_ref(), "--html".as_ref(), &elsewhere]);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap().as_array().unwrap().len(), 2);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("report: {}\n", elsewhere.display()));
    assert!(elsewhere.exists() && !page.exists());
}

#[test]
fn what_is_no_run_exits_with_2_and_one_line() {
    let place = tempfile::tempdir().unwrap();
    let output = report(&[place.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
}
