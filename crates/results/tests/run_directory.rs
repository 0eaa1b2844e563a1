//! The run directory: what is written, what is refused, and what survives trouble.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Outcome, Reason, RunTime, Status};
use ldplayer_results::{Fidelity, Recorder, ResultsError, RunReport, State, Verdict, evaluate, read_document};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// A directory for one run, removed with the test.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self) -> PathBuf {
        self.0.path().join("run")
    }
}

fn recorder(dir: &Path) -> Recorder<&'static str> {
    Recorder::create(dir, false, common::setup(1), common::SPEC).unwrap()
}

fn read_run(dir: &Path) -> Result<RunReport, ResultsError> {
    read_document::<String>(dir).map(|document| document.report)
}

/// A run by one worker through a trace of `queries`.
fn run(rows: &[Outcome], queries: u64) -> RunReport {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    recorder.record(0, rows).unwrap();
    recorder.finish(common::end(queries)).unwrap().document.report
}

fn passed(verdict: &Verdict, name: &str) -> bool {
    verdict.checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no check {name}")).ok
}

fn text_of<'r>(report: &'r RunReport, code: &str) -> &'r str {
    &report.warnings.iter().find(|warning| warning.code.as_str() == code).unwrap().text
}

fn has_warning(report: &RunReport, code: &str) -> bool {
    report.warnings.iter().any(|warning| warning.code.as_str() == code)
}

#[test]
fn every_query_is_in_one_account() {
    let row = |at: u64| common::outcome(at, at as i64 * 1_000_000);
    let failed = Outcome { status: Status::Refused, ..common::unanswered(row(3)) };
    let stray = Outcome { status: Status::Stray, reason: Some(Reason::UnknownId), index: u64::MAX, ..row(0) };
    let late = Outcome { status: Status::Late, ..row(2) };
    let rows =
        [row(0), row(1), common::unanswered(row(2)), failed, common::unsent(row(4), Reason::Transport), stray, late];
    let report = run(&rows, 5);
    let queries = &report.summary.queries;
    assert_eq!((queries.answered, queries.timed_out, queries.failed, queries.sent, queries.not_sent), (2, 1, 1, 4, 1));
    assert_eq!((queries.late, queries.stray), (1, 1));
    assert_eq!(queries.failed_by_status["refused"], 1);
    assert_eq!(queries.not_sent_by_reason["transport_not_available"], 1);
    assert_eq!(queries.stray_by_reason["unknown_id"], 1);
    assert!(passed(&report.verdict, "accounting"));
    assert!(passed(&report.verdict, "not_sent"), "another transport is not a fault of the run");
    for code in ["failed_queries", "stray_responses", "late_responses", "not_sent", "many_unanswered"] {
        assert!(has_warning(&report, code), "{code}");
    }
}

#[test]
fn a_query_without_a_row_fails_the_verdict() {
    let report = run(&[common::outcome(0, 0)], 2);
    assert!(!passed(&report.verdict, "accounting"));
    assert!(!report.verdict.ok);
}

#[test]
fn a_query_kept_back_fails_the_verdict() {
    let report = run(&[common::outcome(0, 0), common::unsent(common::outcome(1, 1_000), Reason::Lag)], 2);
    assert!(!passed(&report.verdict, "not_sent"));
}

#[test]
fn an_interrupted_run_says_so() {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    recorder.record(0, &[common::outcome(0, 0)]).unwrap();
    let end = ldplayer_results::RunEnd { interrupted: true, ..common::end(1) };
    let report = recorder.finish(end).unwrap().document.report;
    assert_eq!(report.state, State::Interrupted);
    assert!(passed(&report.verdict, "accounting") && !passed(&report.verdict, "completeness"));
    assert_eq!(read_run(&place.run()).unwrap().state, State::Interrupted);
}

/// Lateness of 100 queries 1 ms apart, 5 µs for the first and one more for each later one; recorded backwards.
#[test]
fn timing_errors_are_exact_and_against_the_schedule() {
    let late = |at: i64| {
        let row = common::outcome(at as u64, at * 1_000_000);
        Outcome { submitted: Some(RunTime(at * 1_000_000 + 5_000 + at * 1_000)), ..row }
    };
    let report = run(&(0..100).rev().map(late).collect::<Vec<_>>(), 100);
    let timing = &report.summary.timing;
    let error = timing.error_us.unwrap();
    assert_eq!(timing.first_error_us, Some(5.0));
    assert_eq!(
        (error.min, error.p25, error.p50, error.p75, error.p99, error.max),
        (5.0, 29.0, 54.0, 79.0, 103.0, 104.0)
    );
    let gaps = timing.interarrival_error_us.unwrap();
    assert_eq!((gaps.min, gaps.p50, gaps.max), (1.0, 1.0, 1.0));
    // 79 µs are beyond the limit of high precision, and not a tenth of what the server took, a millisecond.
    assert_eq!((report.verdict.replay, report.verdict.ok), (Some(Fidelity::Harmless), true));
    let of_half = |row: Outcome| Outcome { answered: row.intended.0.checked_add(600_000).map(RunTime), ..row };
    let report = run(&(0..100).map(|at| of_half(late(at))).collect::<Vec<_>>(), 100);
    assert!(!passed(&report.verdict, "timing_quartiles") && passed(&report.verdict, "timing_p99"));
    assert_eq!((report.verdict.replay, report.verdict.ok), (Some(Fidelity::Disturbed), false));
    let good = report.summary.latency_ms.from_sent.good.unwrap();
    assert_eq!((good.p50, good.p90, good.p99), (Some(false), Some(true), None));
}

/// 2,000 queries a second, of which one second sends 20 too late, into the next.
#[test]
fn the_rate_is_judged_by_windows() {
    let mut rows: Vec<Outcome> = (0..20_000).map(|at| common::outcome(at, at as i64 * 500_000)).collect();
    let on_time = run(&rows, 20_000);
    assert_eq!(on_time.summary.rate.within_0_1_percent, Some(100.0));
    assert!(passed(&on_time.verdict, "rate"));
    for row in &mut rows[5_980..6_000] {
        row.submitted = Some(RunTime(3 * NS_PER_S + 1));
        row.answered = Some(RunTime(3 * NS_PER_S + 2));
    }
    let behind = run(&rows, 20_000);
    assert_eq!(behind.summary.rate.within_0_1_percent, Some(80.0));
    assert_eq!(behind.summary.rate.error_percent.unwrap().p1, -1.0);
    assert!(!passed(&behind.verdict, "rate"));
}

#[test]
fn run_json_has_each_agreed_key_at_one_place() {
    let place = Place::new();
    let report = common::run(&place.run(), common::lifelike(3.0, 500.0));
    let written: Value = serde_json::from_slice(&fs::read(place.run().join("run.json")).unwrap()).unwrap();
    for pointer in [
        "/config/server/0",
        "/environment/kernel",
        "/state",
        "/stalls/longest_ms",
        "/tally/packets",
        "/spec",
        "/summary/elapsed_s",
        "/summary/queries/trace",
        "/summary/queries/timed_out",
        "/summary/queries/not_sent",
        "/summary/timing/error_us/p999",
        "/summary/timing/interarrival_error_us/min",
        "/summary/rate/qps_mean",
        "/summary/rate/window_s",
        "/summary/rate/within_0_1_percent",
        "/summary/rate/error_percent/p99",
        "/summary/latency_ms/from_intended/p50",
        "/summary/latency_ms/from_sent/p99",
        "/summary/latency_ms/by_transport/udp/p50",
        "/summary/latency_ms/by_client_activity/busiest_1_percent/p50",
        "/summary/latency_ms/by_client_queries/11_to_100/p50",
        "/summary/rcodes/NXDOMAIN",
        "/summary/responses/bytes",
        "/summary/responses/mbps_p50",
        "/summary/connections/peak_open",
        "/summary/clients/answered_all",
        "/verdict/ok",
        "/verdict/checks/0/limit",
        "/warnings/0/remedy",
    ] {
        assert!(written.pointer(pointer).is_some_and(|value| !value.is_null()), "{pointer} is missing");
    }
    assert!(written["summary"]["verdict"].is_null() && written["queries"].is_null(), "a key stands at one place");
    let read = read_document::<String>(&place.run()).unwrap();
    assert_eq!((read.report.summary.clone(), read.spec.as_str()), (report.summary, common::SPEC));
    assert_eq!(serde_json::to_value(&read).unwrap(), written, "what is written is what is read");
}

#[test]
fn run_time_zero_is_told_by_who_started_the_run() {
    let place = Place::new();
    let report = common::run(&place.run(), vec![common::outcome(0, 0)]);
    assert_eq!(report.started, "2025-11-24T16:00:00.500000000Z");
}

/// A run over UDP said `resumption: true` and port 853 of DNS over TLS.
#[test]
fn what_no_query_used_is_not_told_as_used() {
    let place = Place::new();
    let used = |rows: Vec<Outcome>| {
        let run = serde_json::to_value(common::run(&place.run(), rows)).unwrap();
        let config = &run["config"];
        ["queries_per_connection", "resumption", "tls_port"].map(|key| config[key].clone())
    };
    assert_eq!(used(common::lifelike(1.0, 50.0)), [Value::from(7), Value::Null, Value::Null]);
    fs::remove_dir_all(place.run()).unwrap();
    assert_eq!(used(common::connected(1.0, 50.0)), [Value::from(7), true.into(), 853.into()]);
}

#[test]
fn an_existing_directory_is_refused_and_a_foreign_one_even_with_force() {
    let place = Place::new();
    common::run(&place.run(), vec![common::outcome(0, 0)]);
    let create = |force| Recorder::create(&place.run(), force, common::setup(1), common::SPEC).map(drop);
    assert!(matches!(create(false), Err(ResultsError::Exists(_))));
    fs::write(place.run().join("notes.txt"), "mine").unwrap();
    fs::write(place.run().join("report.html"), "old").unwrap();
    create(true).unwrap();
    assert_eq!(fs::read_to_string(place.run().join("notes.txt")).unwrap(), "mine");
    assert!(!place.run().join("report.html").exists(), "the old report would speak of another run");
    fs::remove_file(place.run().join("run.json")).unwrap();
    assert!(matches!(create(true), Err(ResultsError::Foreign(_))));
}

#[test]
fn a_crashed_run_is_read_as_far_as_it_was_saved() {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    let row = |at: i64| common::outcome(at as u64, at * NS_PER_S);
    recorder.record(0, &(0..=61).map(row).collect::<Vec<_>>()).unwrap();
    recorder.tick(RunTime(62 * NS_PER_S)).unwrap();
    // These are in memory when the process dies.
    recorder.record(0, &(62..70).map(row).collect::<Vec<_>>()).unwrap();
    recorder.tick(RunTime(63 * NS_PER_S)).unwrap();
    drop(recorder);
    fs::write(place.run().join("queries/shard-000-000002.parquet"), "damaged").unwrap();
    let report = evaluate::<String>(&place.run()).unwrap().document.report;
    assert_eq!(report.state, State::Running);
    assert_eq!(report.summary.queries.answered, 62);
    assert_eq!(report.summary.queries.trace, None);
    assert!(has_warning(&report, "incomplete_run") && has_warning(&report, "rows_unreadable"));
    let missing = text_of(&report, "rows_missing");
    assert!(missing.starts_with("62 rows are there (shard-000 62 until 61.0 s)"), "{missing}");
    assert!(!report.verdict.ok);
}

/// The indices in all row files, as any reader of Parquet finds them.
fn indices(run: &Path) -> Vec<u64> {
    let files = fs::read_dir(run.join("queries")).unwrap().map(|entry| entry.unwrap().path());
    let whole = files.filter(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    let mut indices: Vec<u64> = whole.flat_map(|path| indices_of(&path)).collect();
    indices.sort_unstable();
    indices
}

fn indices_of(path: &Path) -> Vec<u64> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(path).unwrap()).unwrap();
    let index =
        |batch: RecordBatch| batch.column_by_name("index").unwrap().as_primitive::<UInt64Type>().values().to_vec();
    reader.build().unwrap().flat_map(|batch| index(batch.unwrap())).collect()
}

fn row_files(run: &Path) -> usize {
    fs::read_dir(run.join("queries")).unwrap().count()
}

/// Row groups that fill up, groups that do not, files that grow and files that are full: every row saved is there, once.
#[test]
fn what_is_saved_is_there_once_however_often_it_is_saved() {
    let rows: Vec<Outcome> = (0..300_000).map(|at| common::outcome(at, at as i64 * 50_000)).collect();
    for (batch, period) in [(40_000, 2), (40_000, 45), (131_072, 2), (200_000, 3)] {
        let place = Place::new();
        let mut recorder = recorder(&place.run());
        let mut saved = 0;
        for (number, rows) in (1..).zip(rows.chunks(batch)) {
            recorder.record(0, rows).unwrap();
            if number % 3 > 0 {
                recorder.tick(RunTime(number * period * NS_PER_S)).unwrap();
                saved = rows.last().unwrap().index + 1;
            }
        }
        drop(recorder);
        assert!(indices(&place.run()).into_iter().eq(0..saved), "{batch} rows each {period} s");
    }
}

#[test]
fn rows_that_come_slowly_do_not_make_many_files() {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    for at in 0..200 {
        recorder.record(0, &[common::outcome(at, at as i64 * NS_PER_S)]).unwrap();
        recorder.tick(RunTime(at as i64 * NS_PER_S)).unwrap();
    }
    drop(recorder);
    // The first save is at 2 s; a file takes the rows of a minute.
    assert_eq!(row_files(&place.run()), 4);
    assert_eq!(indices(&place.run()).len(), 199);
}

/// Rules copy rows of the trace and leave others out: how many rows there are does not tell how many are missing.
#[test]
fn rows_of_the_trace_that_have_none_are_counted_by_their_index() {
    for (indices, said) in [
        (vec![0, 1, 2, 3], None),
        (vec![0, 0, 1, 1, 2, 2, 9], Some("; 6 of the first 10 rows of the trace have none")),
        (vec![7, 5, 64, 0, 128, 5], Some("; 124 of the first 129 rows of the trace have none")),
    ] {
        let place = Place::new();
        let mut recorder = recorder(&place.run());
        recorder.record(0, &indices.iter().map(|&index| common::outcome(index, 0)).collect::<Vec<_>>()).unwrap();
        recorder.tick(RunTime(3 * NS_PER_S)).unwrap();
        drop(recorder);
        let report = read_run(&place.run()).unwrap();
        let missing = text_of(&report, "rows_missing");
        match said {
            Some(said) => assert!(missing.contains(said), "{missing}"),
            None => assert!(!missing.contains("of the trace"), "{missing}"),
        }
    }
}

/// What a power cut can leave: the file of before, and as much of the next version as had reached the disk.
#[test]
fn a_power_cut_leaves_every_row_that_was_saved() {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    let rows: Vec<Outcome> = (0..3_000).map(|at| common::outcome(at, at as i64 * 1_000_000)).collect();
    recorder.record(0, &rows).unwrap();
    recorder.tick(RunTime(3 * NS_PER_S)).unwrap();
    drop(recorder);
    let whole = fs::read(place.run().join("queries/shard-000-000000.parquet")).unwrap();
    let part = place.run().join("queries/shard-000-000000.parquet.1.part");
    for length in (0..=whole.len()).step_by(whole.len() / 23) {
        fs::write(&part, &whole[..length]).unwrap();
        assert_eq!(indices(&place.run()).len(), 3_000);
        let report = read_run(&place.run()).unwrap();
        assert_eq!(report.summary.queries.answered, 3_000);
        assert!(text_of(&report, "rows_missing").contains("1 file was not finished"));
    }
    common::run_over(&place.run(), rows);
    assert!(!part.exists(), "a run that takes the place of this one leaves nothing of it");
}

#[test]
fn a_file_that_is_gone_is_told_with_its_rows() {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    for minute in 0..3 {
        for half in 0..2 {
            let index = minute * 2 + half;
            recorder.record(0, &vec![common::outcome(index, 0); 10]).unwrap();
            recorder.tick(RunTime((minute as i64 * 100 + half as i64 * 60 + 2) * NS_PER_S)).unwrap();
        }
    }
    drop(recorder);
    fs::remove_file(place.run().join("queries/shard-000-000001.parquet")).unwrap();
    let report = read_run(&place.run()).unwrap();
    let missing = text_of(&report, "rows_missing");
    assert!(missing.contains("20 rows are lost before shard-000-000002.parquet"), "{missing}");
}

#[test]
fn rows_that_cannot_be_written_are_counted_and_the_rest_is_kept() {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    let rows: Vec<Outcome> = (0..62).map(|at| common::outcome(at, at as i64 * NS_PER_S)).collect();
    recorder.record(0, &rows).unwrap();
    recorder.tick(RunTime(62 * NS_PER_S)).unwrap();
    // Where the next version is to be made there is a directory.
    fs::create_dir(place.run().join("queries/shard-000-000000.parquet.1.part")).unwrap();
    let more: Vec<Outcome> = (62..130).map(|at| common::outcome(at, at as i64 * NS_PER_S)).collect();
    recorder.record(0, &more).unwrap();
    let error = recorder.tick(RunTime(130 * NS_PER_S)).unwrap_err().to_string();
    assert!(error.contains("shard-000-000000") && !error.contains('\n'), "{error}");
    recorder.record(0, &[common::outcome(130, 0)]).unwrap();
    let report = recorder.finish(common::end(131)).unwrap().document.report;
    assert_eq!(report.summary.queries.answered, 62);
    assert!(text_of(&report, "rows_lost").contains("69 queries"), "{}", text_of(&report, "rows_lost"));
    assert!(!report.verdict.ok);
}

/// The disk refuses a file behind the recorder's back: the recorder learns of it, with the system's word for it.
#[test]
fn a_file_that_cannot_be_kept_ends_the_recording() {
    let place = Place::new();
    let mut recorder = recorder(&place.run());
    // A directory that is not empty cannot be replaced by a file.
    fs::create_dir_all(place.run().join("queries/shard-000-000000.parquet/in-the-way")).unwrap();
    recorder.record(0, &[common::outcome(0, 0)]).unwrap();
    recorder.tick(RunTime(2 * NS_PER_S)).unwrap();
    let report = recorder.finish(common::end(1)).err().unwrap().to_string();
    assert!(report.contains("shard-000-000000.parquet"), "{report}");
}

#[test]
fn what_is_no_run_is_refused_in_one_line() {
    let place = Place::new();
    for content in [None, Some("{}"), Some("not json"), Some(r#"{"format":"other","version":1}"#)] {
        if let Some(content) = content {
            fs::create_dir_all(place.run()).unwrap();
            fs::write(place.run().join("run.json"), content).unwrap();
        }
        let error = read_run(&place.run()).unwrap_err();
        assert!(matches!(error, ResultsError::NotARun { .. }), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn clients_are_told_apart_by_how_many_queries_they_have() {
    let place = Place::new();
    let mut rows = Vec::new();
    for (client, queries) in [(1, 1), (2, 2), (3, 10), (4, 11), (5, 100), (6, 101)] {
        rows.extend(
            (0..queries)
                .map(|_| ldplayer_core::Outcome { client: [192, 0, 2, client].into(), ..common::outcome(0, 0) }),
        );
    }
    rows.iter_mut().zip(0..).for_each(|(row, index)| row.index = index);
    let latency = common::run(&place.run(), rows).summary.latency_ms;
    let counts: Vec<_> = latency.by_client_queries.iter().map(|(name, tail)| (name.as_str(), tail.queries)).collect();
    assert_eq!(counts, [("1", 1), ("11_to_100", 111), ("2_to_10", 12), ("over_100", 101)]);
    assert_eq!(latency.by_client_activity["busiest_1_percent"].queries, 101);
}

#[test]
fn classes_of_clients_are_in_rows_and_summary() {
    let place = Place::new();
    let row = |index: u64| ldplayer_core::Outcome {
        class: [None, Some(0), Some(1)][index as usize % 3],
        ..common::outcome(index, index as i64 * 1_000)
    };
    let end = ldplayer_results::RunEnd { class_clients: [("others".to_owned(), 7)].into(), ..common::end(9) };
    let report = common::run_to(&place.run(), (0..9).map(row).collect(), end);
    let classes = &report.summary.latency_ms.by_class;
    let counts: Vec<_> = classes.iter().map(|(name, tail)| (name.as_str(), tail.queries)).collect();
    assert_eq!(counts, [("dot-clients", 3), ("others", 3)]);
    assert_eq!(report.summary.clients.by_class["others"], 7);
    assert_eq!(read_run(&place.run()).unwrap().summary, report.summary);
}

#[test]
fn what_happened_on_connections_is_in_rows_and_summary() {
    let place = Place::new();
    let row = |index: u64| ldplayer_core::Outcome {
        transport: ldplayer_core::Transport::Tcp,
        connection: Some(index / 2),
        ..common::outcome(index, index as i64 * 1_000)
    };
    let rows = vec![
        ldplayer_core::Outcome { connect_ns: Some(7), first_byte: row(0).submitted.map(|at| at + 600_000), ..row(0) },
        ldplayer_core::Outcome { reused: true, resent: true, ..row(1) },
        ldplayer_core::Outcome { fell_back: true, ..row(2) },
        ldplayer_core::Outcome {
            status: ldplayer_core::Status::Reset,
            reason: Some(ldplayer_core::Reason::ClosedByServer),
            resent: true,
            ..common::unanswered(row(3))
        },
    ];
    let report = common::run(&place.run(), rows);
    let (queries, connections) = (&report.summary.queries, &report.summary.connections);
    assert_eq!((queries.resent, queries.fell_back, queries.failed), (2, 1, 1));
    assert_eq!(queries.failed_by_reason, [("closed_by_server".to_owned(), 1)].into());
    assert_eq!((connections.opened, connections.failed), (2, 0));
    let of = |class: &str| report.summary.latency_ms.by_connection.get(class).map(|tail| tail.queries);
    assert_eq!((of("fresh"), of("reused"), of("fresh_resumed")), (Some(3), Some(1), None));
    let both = &report.summary.latency_ms.by_transport_and_connection;
    assert_eq!((both.len(), both["tcp"]["fresh"].queries, both["tcp"]["reused"].queries), (1, 3, 1));
    let parts = &report.summary.latency_ms.by_phase;
    let parts: Vec<_> = parts.iter().map(|(part, took)| (part.as_str(), took.queries, took.max)).collect();
    assert_eq!(parts, [("connect", 1, Some(7e-6)), ("first_byte", 1, Some(0.6)), ("last_byte", 1, Some(0.4))]);
}
