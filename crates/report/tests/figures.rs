//! Figures that a run must not be flattered by: rates, durations, windows at the end; runs of one query and of none.

mod common;

use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Outcome, Reason, RunTime};
use ldplayer_report::RunText;
use ldplayer_results::{Recorder, RunEnd, RunReport};
use serde_json::Value;

/// The report of a run by one worker, and the points of its page.
fn run_to(rows: &[Outcome], end: RunEnd) -> (RunReport, Value) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let mut recorder = Recorder::create(&dir, false, common::setup(1), common::SPEC).unwrap();
    recorder.record(0, rows).unwrap();
    let report = common::finish(&dir, recorder, end);
    let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let mut embedded: Value = serde_json::from_str(data).unwrap();
    let slices = embedded["latency_slices"].take();
    embedded["data"]["latency_slices"] = slices;
    (report, embedded["data"].take())
}

fn run(rows: &[Outcome]) -> (RunReport, Value) {
    run_to(rows, common::end(rows.len() as u64))
}

/// So many queries, evenly spaced.
fn even(queries: u64, gap: i64) -> impl Iterator<Item = Outcome> {
    (0..queries).map(move |at| common::outcome(at, at as i64 * gap))
}

fn near(value: Option<f64>, wanted: f64) -> bool {
    value.is_some_and(|value| (value - wanted).abs() < wanted * 0.001)
}

/// The rate was over the time in which queries were due, also those that were never sent: 20 a second.
#[test]
fn an_interrupted_run_has_the_rate_at_which_it_sent() {
    let mut rows: Vec<Outcome> = even(20_000, 5_000_000).collect();
    rows[2_000..].iter_mut().for_each(|row| *row = common::unsent(row.clone(), Reason::Interrupted));
    let (report, _) = run_to(&rows, RunEnd { interrupted: true, ..common::end(20_000) });
    assert!(near(report.summary.rate.qps_mean, 200.1), "{:?}", report.summary.rate);
    assert!((report.summary.elapsed_s - 9.996).abs() < 1e-6, "{}", report.summary.elapsed_s);
}

/// The rate was over a second at least: 9,600 a second.
#[test]
fn a_fast_run_of_less_than_a_second_has_the_rate_at_which_it_sent() {
    let sent = |row: Outcome| {
        let at = row.index as i64 * 15_625;
        Outcome { intended: RunTime(0), submitted: Some(RunTime(at)), answered: Some(RunTime(at + 90_000)), ..row }
    };
    let (report, _) = run(&even(9_600, 0).map(sent).collect::<Vec<_>>());
    assert!(near(report.summary.rate.qps_mean, 64_006.7), "{:?}", report.summary.rate);
}

/// The duration ended with the last answer or sending, although the last queries were waited for.
#[test]
fn a_run_lasts_until_its_last_outcome() {
    let mut rows: Vec<Outcome> = even(3, NS_PER_S).collect();
    assert_eq!(run(&rows).0.summary.elapsed_s, 2.001);
    rows[2] = common::unanswered(rows[2].clone());
    assert_eq!(run(&rows).0.summary.elapsed_s, 7.0, "five seconds of query timeout");
    let end = RunEnd { last_unanswered: Some(RunTime(4 * NS_PER_S)), ..common::end(3) };
    assert_eq!(run_to(&rows, end).0.summary.elapsed_s, 4.0, "the engine saw the timeout");
}

/// A worker that read the last answers of ten thousand connections took the end of that round for the end of the run.
#[test]
fn a_run_ends_with_its_last_answer_and_not_when_that_was_read() {
    let mut rows: Vec<Outcome> = even(3, NS_PER_S).collect();
    rows[0] = common::unanswered(rows[0].clone());
    let end = RunEnd { last_unanswered: Some(RunTime(NS_PER_S)), ..common::end(3) };
    assert_eq!(run_to(&rows, end).0.summary.elapsed_s, 2.001);
}

/// Only seconds with an answer were counted, so a server that slept for nine of ten seconds looked busy.
#[test]
fn seconds_without_an_answer_count_as_none() {
    let busy = |row: Outcome| Outcome { answered: Some(RunTime(10 * NS_PER_S + row.index as i64)), ..row };
    let rows: Vec<Outcome> = even(1_000, NS_PER_S / 100).map(busy).collect();
    let responses = run(&rows).0.summary.responses;
    assert_eq!((responses.mbps_p50, responses.mbps_p99, responses.mbps_max), (Some(0.0), Some(0.0), Some(2.56)));
}

/// A trace that ends in the midst of a second ended with a fall of the curve, and with a window that was judged.
#[test]
fn a_last_second_that_is_not_over_is_neither_drawn_nor_judged() {
    let (report, figures) = run(&even(930, NS_PER_S / 100).collect::<Vec<_>>());
    let of = |name: &str| {
        let points = figures["throughput"].as_array().unwrap().iter().filter(|point| point["of"] == name);
        points.map(|point| point["y"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of("sent"), [100.0; 9]);
    assert_eq!(of("answers"), [100.0; 9]);
    assert_eq!((report.summary.rate.windows, figures["rate"].as_array().unwrap().len()), (9, 9));
    let (report, figures) = run(&even(1_000, NS_PER_S / 100).collect::<Vec<_>>());
    assert_eq!((report.summary.rate.windows, figures["rate"].as_array().unwrap().len()), (10, 10), "a whole one is");
}

/// What is sent after the end of the schedule is late, and is judged.
#[test]
fn a_query_sent_after_the_end_of_the_schedule_is_judged() {
    let mut rows: Vec<Outcome> = even(930, NS_PER_S / 100).collect();
    for row in &mut rows[900..930] {
        row.submitted = Some(RunTime(12 * NS_PER_S));
        row.answered = row.submitted;
    }
    let (report, _) = run(&rows);
    assert!(report.summary.rate.within_0_1_percent < Some(99.0), "{:?}", report.summary.rate);
}

/// All queries are due at once, so that all of them fell into one slice.
#[test]
fn a_run_without_times_has_its_latency_by_when_queries_were_sent() {
    let sent = |row: Outcome| {
        let at = row.index as i64 * 1_000_000;
        Outcome { intended: RunTime(0), submitted: Some(RunTime(at)), answered: Some(RunTime(at + 90_000)), ..row }
    };
    let end = RunEnd { limits: ldplayer_results::VerdictLimits::FAST, ..common::end(9_600) };
    let (_, figures) = run_to(&even(9_600, 0).map(sent).collect::<Vec<_>>(), end);
    let slices = figures["latency_slices"].as_array().unwrap();
    assert_eq!(slices[0]["slices"], 240, "{slices:?}");
    assert!(slices[2]["slices"].as_u64().unwrap() >= 15 && slices[2]["widest_s"].as_f64() < Some(1.2), "{slices:?}");
    let points = |name: &str| figures[name].as_array().unwrap().len();
    assert_eq!((points("throughput"), points("mbps_time"), points("rcodes_time")), (18, 18, 9), "nine whole seconds");
}

#[test]
fn runs_of_nothing_of_one_query_and_of_one_moment_have_no_rate() {
    for rows in [Vec::new(), vec![common::outcome(0, 5)], even(50, 0).collect()] {
        let (report, figures) = run(&rows);
        let rate = &report.summary.rate;
        assert_eq!((rate.qps_mean, rate.within_0_1_percent, rate.windows), (None, None, 0), "{rate:?}");
        assert!(report.summary.responses.mbps_p50.is_none() && report.summary.elapsed_s < 0.01);
        assert!(figures["throughput"].as_array().unwrap().is_empty());
        let text = RunText(&report).to_string();
        assert!(
            text.contains("no rate, for queries of one moment") && !text.contains("NaN") && !text.contains("inf"),
            "{text}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(serde_json::from_value::<RunReport>(json).unwrap().summary, report.summary, "every figure is one");
    }
}
