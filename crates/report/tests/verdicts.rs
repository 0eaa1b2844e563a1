//! Two verdicts: neither touches the other, and what a person must know of the server is on top of text, JSON and page.

mod common;

use std::path::Path;

use ldplayer_core::Outcome;
use ldplayer_core::damage::{Ending, Extent, Flaw, Place, Tally};
use ldplayer_report::RunText;
use ldplayer_results::{
    About, AgentShare, Expectation, Recorded, Recorder, RunEnd, RunReport, VerdictLimits, WarningCode, read_document,
};

/// A run of 1,000 queries in ten seconds, each as `change` makes it.
fn run_to(dir: &Path, expect: &[&str], end: RunEnd, change: impl Fn(Outcome) -> Outcome) -> RunReport {
    let expect = expect.iter().map(|text| text.parse::<Expectation>().unwrap()).collect();
    let setup = ldplayer_results::RunSetup { expect, ..common::setup(1) };
    let mut recorder = Recorder::create(dir, false, setup, common::SPEC).unwrap();
    let rows: Vec<Outcome> = (0..1_000).map(|at| change(common::outcome(at, at as i64 * 10_000_000))).collect();
    recorder.record(0, &rows).unwrap();
    common::finish(dir, recorder, end)
}

fn run(expect: &[&str], change: impl Fn(Outcome) -> Outcome) -> RunReport {
    let place = tempfile::tempdir().unwrap();
    run_to(&place.path().join("run"), expect, common::end(1_000), change)
}

fn refused(row: Outcome) -> Outcome {
    Outcome { rcode: Some(5), ..row }
}

/// Every tenth query is answered.
fn mostly_silent(row: Outcome) -> Outcome {
    if row.index.is_multiple_of(10) { row } else { common::unanswered(row) }
}

#[test]
fn a_server_that_fails_does_not_fail_the_replay() {
    let report = run(&["noerror >= 99 %", "p99 <= 20ms"], refused);
    assert!(report.verdict.ok, "{:?}", report.verdict);
    assert_eq!((report.verdict.server.ok, report.verdict.passes()), (Some(false), false));
    let checks: Vec<_> = report.verdict.server.checks.iter().map(|check| (check.name.as_str(), check.ok)).collect();
    assert_eq!(checks, [("noerror", false), ("p99", true)]);
}

#[test]
fn a_replay_that_fails_does_not_fail_the_server() {
    let place = tempfile::tempdir().unwrap();
    let end = RunEnd { interrupted: true, ..common::end(1_000) };
    let report = run_to(&place.path().join("run"), &["answered = 100 %"], end, |row| row);
    assert!(!report.verdict.ok && report.verdict.server.ok == Some(true) && !report.verdict.passes());
    let text = RunText(&report).to_string();
    assert!(
        text.contains("\nreplay     FAILED: whole trace replayed: interrupted") && text.contains("\nserver     ok"),
        "{text}"
    );
}

#[test]
fn without_expectations_the_server_is_not_judged() {
    let report = run(&[], |row| row);
    assert_eq!((report.verdict.server.ok, report.verdict.passes()), (None, true));
    assert_eq!(RunText(&report).outcome(), "replay ok · server not judged");
}

/// Before any figure: in the text above the accounts, in JSON at the head of the warnings, in the page above its sections.
#[test]
fn what_must_be_known_of_the_server_is_seen_first_in_all_three_forms() {
    let place = tempfile::tempdir().unwrap();
    for (name, code, change) in [
        ("refused", "error_answers", refused as fn(Outcome) -> Outcome),
        ("silent", "many_unanswered", mostly_silent),
        ("dead", "no_answers", common::unanswered),
    ] {
        let dir = place.path().join(name);
        let report = run_to(&dir, &[], common::end(1_000), change);
        assert_eq!((report.warnings[0].code.as_str(), report.warnings[0].about), (code, About::Server));
        let text = RunText(&report).to_string();
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
        assert!(at("\nserver ") < at(code) && at(code) < at("\nqueries "), "{text}");
        let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
        assert!(page.find(&format!("data-code=\"{code}\"")).unwrap() < page.find("<main>").unwrap());
    }
}

#[test]
fn expectations_and_recorded_answers_are_kept_in_the_run() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let recorded = Recorded {
        rcodes: [("NOERROR".to_owned(), 600), ("NXDOMAIN".to_owned(), 390)].into(),
        unanswered: 10,
        retries: None,
        dependencies: None,
    };
    let end = RunEnd { recorded: Some(recorded.clone()), ..common::end(1_000) };
    run_to(&dir, &["answered >= 99 %"], end, |row| row);
    let report = read_document::<String>(&dir).unwrap().report;
    assert_eq!(report.expect, ["answered >= 99 %".parse().unwrap()]);
    assert_eq!(report.summary.recorded, Some(recorded));
    let warning = report.warnings.iter().find(|warning| warning.code.as_str() == "rcodes_differ").unwrap();
    assert!(warning.text.contains("NOERROR 100.0 % of the answers, recorded 60.6 %"), "{}", warning.text);
}

/// One in ten thousand of the responses may be dropped at this end; more are this host's fault and not the server's.
#[test]
fn responses_dropped_here_fail_the_replay() {
    let place = tempfile::tempdir().unwrap();
    for (at, (drops, ok)) in [(None, None), (Some(0), Some(true)), (Some(1), Some(false))].into_iter().enumerate() {
        let end = RunEnd { receive_drops: drops, ..common::end(1_000) };
        let report = run_to(&place.path().join(at.to_string()), &[], end, |row| row);
        let check = report.verdict.checks.iter().find(|check| check.name == "receive_drops");
        assert_eq!(check.map(|check| check.ok), ok, "{check:?}");
        if ok == Some(false) {
            assert!(check.unwrap().note.as_ref().unwrap().contains("net.core.rmem_max") && !report.verdict.ok);
        }
        assert_eq!(report.summary.responses.receive_drops, drops);
    }
}

#[test]
fn stray_responses_are_told_with_their_sources() {
    let stray = |row: Outcome| match row.index {
        0..4 => Outcome {
            index: u64::MAX,
            status: ldplayer_core::Status::Stray,
            reason: Some(ldplayer_core::Reason::UnknownId),
            server: "203.0.113.9:53".parse().unwrap(),
            ..row
        },
        _ => row,
    };
    let place = tempfile::tempdir().unwrap();
    let report = run_to(&place.path().join("run"), &[], common::end(996), stray);
    let warning = report.warnings.iter().find(|warning| warning.code.as_str() == "stray_responses").unwrap();
    assert!(warning.text.ends_with("unknown query ID 4; they came from 203.0.113.9:53 4"), "{}", warning.text);
}

/// Some queries over UDP dropped, and others truncated with nothing but their question.
#[test]
fn a_rate_limit_at_the_server_is_told_as_a_possibility() {
    let limited = |row: Outcome| match row.index % 4 {
        0 => common::unanswered(row),
        1 => Outcome { tc: true, response_bytes: row.query_bytes, ..row },
        _ => row,
    };
    let has = |report: &RunReport| report.warnings.iter().any(|warning| warning.code.as_str() == "rate_limited");
    assert!(has(&run(&[], limited)) && !has(&run(&[], mostly_silent)));
}

/// A run through half of a cut file said "whole trace".
#[test]
fn a_trace_that_could_not_be_read_as_a_whole_is_not_complete() {
    let place = tempfile::tempdir().unwrap();
    let damaged = |flaw: Flaw| {
        let mut tally = Tally::default();
        let file = || "a.pcap".to_owned();
        tally.damage(flaw, 0, || Place { file: file(), packet: 7, offset: 900 });
        let extent = Extent { file: file(), stored: Some(1_000), reached: 900, content: 900, ..Extent::default() };
        tally.inputs.push(Extent { ending: Ending::Unreadable, ..extent });
        tally
    };
    for (flaw, ok) in [(Flaw::UnreadableRest, false), (Flaw::BadQuestion, true)] {
        let end = RunEnd { tally: damaged(flaw), ..common::end(1_000) };
        let report = run_to(&place.path().join(flaw.as_str()), &[], end, |row| row);
        let check = report.verdict.checks.iter().find(|check| check.name == "completeness").unwrap();
        assert_eq!((check.ok, report.verdict.ok), (ok, ok), "{check:?}");
        let told = check.value.contains("1 unreadable_rest, first at packet or line 7 at byte 900 of a.pcap, 10.00 %");
        assert_eq!(told, !ok, "{}", check.value);
    }
}

fn agent(name: &str, skew_us: Option<f64>) -> AgentShare {
    AgentShare { name: name.to_owned(), skew_us, sent: 500, answered: 499, ..AgentShare::default() }
}

fn check<'a>(report: &'a RunReport, name: &str) -> Option<&'a ldplayer_results::Check> {
    report.verdict.checks.iter().find(|check| check.name == name)
}

/// Queries of an agent that was lost are in no row: the accounts hold with them, and the run is not whole.
#[test]
fn queries_lost_with_their_agent_are_accounted_for_and_fail_the_replay() {
    let place = tempfile::tempdir().unwrap();
    let lost = AgentShare { lost: Some("it has not answered for 12 s".into()), ..agent("a2", None) };
    let end = |trace| RunEnd {
        lost: [("with_agent".to_owned(), 40), ("left_in_stream".to_owned(), 2)].into(),
        agents: vec![agent("a1", Some(20.0)), lost.clone()],
        ..common::end(trace)
    };
    let report = run_to(&place.path().join("run"), &[], end(1_042), |row| row);
    assert!(check(&report, "accounting").unwrap().ok && !check(&report, "completeness").unwrap().ok);
    assert_eq!(check(&report, "completeness").unwrap().value, "42 queries were lost with their agents");
    let text = RunText(&report).to_string();
    assert!(text.contains("trace 1,042 = sent 1,000 + not sent 0 + lost 42"), "{text}");
    assert!(text.contains("a2: sent 500, answered 499 by its last word; LOST: it has not answered for 12 s"), "{text}");
    let page = std::fs::read_to_string(place.path().join("run/report.html")).unwrap();
    assert!(page.contains("What did each agent do?") && page.contains("lost with their agent"));
    let report = run_to(&place.path().join("other"), &[], end(1_043), |row| row);
    assert!(!check(&report, "accounting").unwrap().ok, "one is missing, and nobody says where it is");
}

/// Times of several hosts are only as good as their clocks agree.
#[test]
fn clocks_that_may_be_far_apart_fail_the_replay() {
    let place = tempfile::tempdir().unwrap();
    let high = VerdictLimits::HIGH;
    for (at, (skew_us, limits, ok)) in [
        (Some(149.0), high, Some(true)),
        (Some(151.0), high, Some(false)),
        (Some(151.0), VerdictLimits::NORMAL, Some(true)),
        (None, high, Some(false)),
        (Some(9e9), VerdictLimits::FAST, None),
    ]
    .into_iter()
    .enumerate()
    {
        let agents = vec![agent("a", Some(3.0)), agent("b", skew_us)];
        let report =
            run_to(&place.path().join(at.to_string()), &[], RunEnd { agents, limits, ..common::end(1_000) }, |row| row);
        let check = check(&report, "clock_skew");
        assert_eq!(check.map(|check| check.ok), ok, "{check:?}");
        assert!(
            skew_us.is_some()
                || check.unwrap().note.as_deref() == Some("the clock of b was not compared after the run")
        );
    }
    assert!(check(&run(&[], |row| row), "clock_skew").is_none(), "one host has one clock");
}

#[test]
fn what_all_agents_have_in_common_is_told_once() {
    let place = tempfile::tempdir().unwrap();
    let told = |code: WarningCode, agent: Option<&str>, text: &str| ldplayer_results::Warning {
        agent: agent.map(str::to_owned),
        ..ldplayer_results::Warning::new(code, text)
    };
    let recorded = Recorded { rcodes: [("NOERROR".to_owned(), 1_000)].into(), ..Recorded::default() };
    let end = RunEnd {
        agents: vec![agent("a", Some(1.0)), agent("b", Some(1.0))],
        warnings: vec![
            told(WarningCode::RcodesDiffer, Some("a"), "others"),
            told(WarningCode::SlowTrace, Some("b"), "late"),
            told(WarningCode::Other("x".to_owned()), None, "of all"),
        ],
        recorded: Some(recorded),
        ..common::end(1_000)
    };
    let report = run_to(&place.path().join("run"), &[], end, refused);
    let texts: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    let has = |text: &str| texts.iter().any(|told| told == text);
    assert!(!has("agent a: others") && has("agent b: late") && has("of all"), "{texts:?}");
    assert_eq!(
        report.warnings.iter().filter(|warning| warning.code.as_str() == "rcodes_differ").count(),
        1,
        "{texts:?}"
    );
}
