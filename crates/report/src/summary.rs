//! The figures of a run in one row or one line: what is copied into a message or a spreadsheet.

use ldplayer_results::RunReport;
use ldplayer_results::numbers::{counts, grouped};
use serde_json::{Value, json};

use crate::text::{RunText, TailLine};

/// The name of a figure, with its unit, and how it is read: `null` where it is not known.
type Column = (&'static str, fn(&RunReport) -> Value);

/// The columns of the row. Latency is from sent, over all queries; `answered_mean_ms` is over answered ones only.
const COLUMNS: [Column; 20] = [
    ("replay", |run| json!(run.verdict.fidelity())),
    ("server_ok", |run| json!(run.verdict.server.ok)),
    ("elapsed_s", |run| json!(run.summary.elapsed_s)),
    ("trace", |run| json!(run.summary.queries.trace)),
    ("sent", |run| json!(run.summary.queries.sent)),
    ("answered", |run| json!(run.summary.queries.answered)),
    ("timed_out", |run| json!(run.summary.queries.timed_out)),
    ("failed", |run| json!(run.summary.queries.failed)),
    ("not_sent", |run| json!(run.summary.queries.not_sent)),
    ("sent_qps", |run| json!(run.summary.rate.sent_qps)),
    ("answered_qps", |run| json!(run.summary.rate.answered_qps)),
    ("mean_ms", |run| json!(run.summary.latency_ms.from_sent.mean)),
    ("p50_ms", |run| json!(run.summary.latency_ms.from_sent.p50)),
    ("p90_ms", |run| json!(run.summary.latency_ms.from_sent.p90)),
    ("p95_ms", |run| json!(run.summary.latency_ms.from_sent.p95)),
    ("p99_ms", |run| json!(run.summary.latency_ms.from_sent.p99)),
    ("p999_ms", |run| json!(run.summary.latency_ms.from_sent.p999)),
    ("max_ms", |run| json!(run.summary.latency_ms.from_sent.max)),
    ("answered_mean_ms", |run| json!(run.summary.latency_ms.answered_only.mean)),
    ("rcodes", |run| json!(counts(&run.summary.rcodes))),
];

/// The row of a run: names and figures.
pub fn summary_row(report: &RunReport) -> Vec<(&'static str, Value)> {
    COLUMNS.iter().map(|&(name, read)| (name, read(report))).collect()
}

/// The run in a line: `9,990 of 10,000 queries answered, 1,739 a second; latency ms: p50 …; NOERROR 9,990; replay ok · server not judged`.
pub fn summary_line(report: &RunReport) -> String {
    let summary = &report.summary;
    let [answered, sent] = [summary.queries.answered, summary.queries.sent].map(grouped);
    let rate =
        summary.rate.answered_qps.map_or(String::new(), |qps| format!(", {} a second", grouped(qps.round() as u64)));
    let (latency, rcodes) = (TailLine(&summary.latency_ms.from_sent), counts(&summary.rcodes));
    format!("{answered} of {sent} queries answered{rate}; latency {latency}; {rcodes}; {}", RunText(report).outcome())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_results::Tail;

    #[test]
    fn a_line_and_a_row_have_what_is_known_and_nothing_else() {
        let mut report = RunReport::default();
        report.verdict.ok = true;
        (report.summary.queries.sent, report.summary.queries.answered) = (1_000, 990);
        report.summary.rcodes = [("NOERROR".to_owned(), 990)].into();
        report.summary.latency_ms.from_sent = Tail { queries: 1_000, p50: Some(1.0), ..Tail::default() };
        report.summary.latency_ms.answered_only.mean = Some(1.25);
        let line = "990 of 1,000 queries answered; latency ms: p50 1.000, p90 unanswered, p95 unanswered, p99 unanswered, p99.9 unanswered, \
                    max unanswered; NOERROR 990; replay ok · server not judged";
        assert_eq!(summary_line(&report), line);
        report.summary.rate.answered_qps = Some(1_738.7);
        assert!(summary_line(&report).starts_with("990 of 1,000 queries answered, 1,739 a second; "));
        let row = summary_row(&report);
        let of = |wanted: &str| row.iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
        assert_eq!((of("replay"), of("server_ok"), of("mean_ms")), (json!("faithful"), Value::Null, Value::Null));
        assert_eq!(
            (of("p50_ms"), of("answered_mean_ms"), of("rcodes")),
            (json!(1.0), json!(1.25), json!("NOERROR 990"))
        );
    }
}
