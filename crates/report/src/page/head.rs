//! The head of a page: the trace, both verdicts, single figures.

use serde::Serialize;

use super::share;
use crate::text::RunText;
use ldplayer_results::needed;
use ldplayer_results::numbers::{grouped, in_time};
use ldplayer_results::words;
use ldplayer_results::{Check, Fidelity, RunReport, ServerVerdict, State};

/// What stands above everything.
#[derive(Serialize)]
pub struct Head {
    /// Trace and server.
    title: String,
    /// Transports, date, and how far the run got.
    under: String,
    server: Verdict,
    replay: Verdict,
    /// Single figures.
    facts: Vec<(&'static str, String)>,
}

/// A verdict in words.
#[derive(Serialize)]
struct Verdict {
    /// `ok`, `failed` or `open`.
    class: &'static str,
    words: &'static str,
    failed: Vec<String>,
}

/// What a figure that is saved says of its run.
#[derive(Clone, Serialize)]
pub struct About {
    /// Trace, server, transports and date.
    pub title: String,
    /// Settings that are not the defaults.
    pub settings: String,
    /// Both verdicts.
    pub verdict: String,
    /// How names of files begin.
    pub file: String,
    /// Version of ldplayer.
    pub ldplayer: String,
}

/// A line of a table of checks.
#[derive(Serialize)]
pub struct CheckLine {
    ok: bool,
    name: String,
    value: String,
    limit: String,
    note: Option<String>,
}

impl Head {
    /// Of a run.
    pub fn new(report: &RunReport) -> Self {
        let state = match report.state {
            State::Running => report.state.to_string(),
            _ => format!("{}, {:.1} s", report.state, report.summary.elapsed_s),
        };
        let mut under = vec![over(report), words::to_the_second(&report.started), state];
        under.retain(|part| !part.is_empty());
        Self {
            title: RunText(report).asked(),
            under: under.join(" · "),
            server: server(&report.verdict.server),
            replay: replay(report),
            facts: facts(report),
        }
    }
}

impl About {
    /// Of a run.
    pub fn new(report: &RunReport) -> Self {
        let started = words::to_the_second(&report.started);
        let config = &report.config;
        let settings = match super::settings::changed(report).join(" ") {
            none if none.is_empty() && config.changed.is_some() => "default settings".to_owned(),
            // Of an earlier version it is not known which are the defaults.
            none if none.is_empty() => {
                ["timing", "transport", "sources"].map(|key| format!("{key} {}", config.word(key))).join(", ")
            }
            changed => changed,
        };
        let trace = RunText(report).asked();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' };
        let file: String = trace.split(" → ").next().unwrap_or_default().chars().map(plain).take(60).collect();
        Self {
            title: format!("{trace}, {}, {started}", over(report)),
            settings,
            verdict: format!("replay {}, server {}", in_words(&report.verdict).1, server(&report.verdict.server).words),
            file,
            ldplayer: report.ldplayer.clone(),
        }
    }

    /// All of it in a sentence.
    pub fn sentence(&self) -> String {
        let Self { title, settings, verdict, ldplayer, .. } = self;
        format!("{title}; {settings}; {verdict}; ldplayer {ldplayer}.")
    }
}

/// The transports, the most used first.
pub fn over(report: &RunReport) -> String {
    let sent = &report.summary.queries.sent_by_transport;
    let mut used: Vec<(&str, u64)> = sent.iter().map(|(name, &count)| (name.as_str(), count)).collect();
    used.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let used: Vec<&str> = used.into_iter().map(|(name, _)| words::transport(name)).collect();
    if used.is_empty() { "nothing sent".to_owned() } else { format!("over {}", used.join(", ")) }
}

fn server(verdict: &ServerVerdict) -> Verdict {
    let (class, words) = match verdict.ok {
        Some(true) => ("ok", "as expected"),
        Some(false) => ("failed", "not as expected"),
        None => ("open", "not judged, nothing was expected of it"),
    };
    Verdict { class, words, failed: failed(&verdict.checks, words::quantity) }
}

fn replay(report: &RunReport) -> Verdict {
    let (class, words) = in_words(&report.verdict);
    Verdict { class, words, failed: failed(&report.verdict.checks, words::check) }
}

/// The class and the words of the answer about a replay.
pub fn in_words(verdict: &ldplayer_results::Verdict) -> (&'static str, &'static str) {
    match verdict.fidelity() {
        Fidelity::Faithful => ("ok", "faithful"),
        Fidelity::Harmless => ("ok", "late, harmless"),
        // Not only the host may be why: queries may be missing.
        Fidelity::Disturbed => ("failed", "not faithful"),
    }
}

/// The checks that failed, in words.
fn failed(checks: &[Check], words: fn(&str) -> String) -> Vec<String> {
    let failed = checks.iter().filter(|check| !check.ok);
    let told = |check: &Check| match check.value.as_str() {
        "n/a" => format!("{}: {}", words(&check.name), check.note.as_deref().unwrap_or("not known")),
        value => format!("{}: {value} (limit {})", words(&check.name), check.limit),
    };
    failed.map(told).collect()
}

/// Checks for their table, those that failed first.
pub fn checks(checks: &[Check], words: fn(&str) -> String) -> Vec<CheckLine> {
    let line = |check: &Check| CheckLine {
        ok: check.ok,
        name: words(&check.name),
        value: check.value.clone(),
        limit: check.limit.clone(),
        note: check.note.clone(),
    };
    let mut lines: Vec<CheckLine> = checks.iter().map(line).collect();
    lines.sort_by_key(|line| line.ok);
    lines
}

/// Single figures for the head of the page.
pub fn facts(report: &RunReport) -> Vec<(&'static str, String)> {
    let summary = &report.summary;
    let tail = &summary.latency_ms.from_sent;
    // It is among the queries without an answer, which take forever.
    let unknown = if tail.queries > 0 { "unanswered" } else { "—" };
    let ms = |value: Option<f64>| value.map_or(unknown.to_owned(), |ms| in_time(1e3 * ms));
    let rate = |qps: Option<f64>| qps.map_or("—".to_owned(), |qps| format!("{} q/s", grouped(qps.round() as u64)));
    let answered = share(summary.queries.answered, Some(summary.queries.sent));
    let good = tail.good.unwrap_or_default();
    let median = if good.p50 == Some(false) { "median latency, touched by the host" } else { "median latency" };
    let slow = match tail.queries >= needed(0.99) {
        true if good.p99 == Some(false) => ("99th percentile of latency, touched by the host", ms(tail.p99)),
        true => ("99th percentile of latency", ms(tail.p99)),
        false => ("highest latency", ms(tail.max)),
    };
    vec![
        ("queries sent", grouped(summary.queries.sent)),
        ("answered", if answered.is_empty() { "—".to_owned() } else { answered }),
        ("sent per second", rate(summary.rate.sent_qps)),
        ("answered per second", rate(summary.rate.answered_qps)),
        ("clients", grouped(summary.clients.total)),
        (median, ms(tail.p50)),
        slow,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_results::{Latency, Summary, Tail};

    #[test]
    fn a_run_of_few_queries_has_no_99th_percentile_in_its_head() {
        let of = |queries| {
            let tail = Tail { queries, p99: Some(2.0), max: None, ..Tail::default() };
            let latency_ms = Latency { from_sent: tail, ..Latency::default() };
            let report = RunReport { summary: Summary { latency_ms, ..Summary::default() }, ..RunReport::default() };
            facts(&report).pop().unwrap()
        };
        assert_eq!(of(499), ("highest latency", "unanswered".to_owned()));
        assert_eq!(of(500), ("99th percentile of latency", "2.00 ms".to_owned()));
    }

    #[test]
    fn failed_checks_are_told_in_words_and_stand_first() {
        let check = |name: &str, ok, value: &str| Check {
            name: name.to_owned(),
            limit: "1000 µs".to_owned(),
            value: value.to_owned(),
            ok,
            note: Some("no query was sent".to_owned()),
            harmless: false,
        };
        let all = [check("rate", true, "n/a"), check("timing_p99", false, "3110.0 µs"), check("cpu", false, "n/a")];
        let told = failed(&all, words::check);
        assert_eq!(told, ["99th percentile of the timing error: 3110.0 µs (limit 1000 µs)", "cpu: no query was sent"]);
        let lines = checks(&all, words::check);
        assert_eq!(lines.iter().map(|line| line.ok).collect::<Vec<_>>(), [false, false, true]);
    }
}
