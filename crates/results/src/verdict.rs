//! Whether a run can be trusted: checks against limits, and doubts with remedies.

use ldplayer_core::Stalls;

use crate::analysis::Analysis;
use crate::model::{Check, RunReport, State, Summary, Verdict};
use crate::setup::{TimingLimits, VerdictLimits, Warning};

/// Lateness in microseconds from which a run is said to have fallen behind.
const BEHIND_US: f64 = 100_000.0;
/// Share of timeouts that is worth a word.
const MANY_TIMEOUTS: f64 = 0.01;
/// Windows with fewer queries than this move by more than 0.1 % with a single one.
const FULL_WINDOW: u64 = 1_000;

/// Fills in verdict and warnings from the summary.
pub fn judge(report: &mut RunReport, analysis: &Analysis) {
    let summary = &report.summary;
    let mut checks =
        vec![accounting(summary), not_sent(summary, analysis), answers(summary), completeness(report.state)];
    checks.extend(timing_checks(summary, &report.limits));
    checks.iter_mut().filter(|check| !check.ok && TIMED.contains(&&*check.name)).for_each(|check| {
        check.note = check.note.take().or_else(|| blame(&report.stalls));
    });
    report.verdict = Verdict { ok: checks.iter().all(|check| check.ok), checks };
    report.warnings.extend(doubts(&report.summary, analysis));
}

fn check(name: &str, ok: bool, limit: impl Into<String>, value: impl Into<String>) -> Check {
    Check { name: name.to_owned(), limit: limit.into(), value: value.into(), ok, note: None }
}

fn accounting(summary: &Summary) -> Check {
    let queries = &summary.queries;
    let limit = "answered + timed out + failed = sent; sent + not sent = trace";
    let rows = queries.sent + queries.not_sent;
    let Some(trace) = queries.trace else {
        let value = format!("{rows} rows, queries in the trace unknown");
        let note = Some("the run never ended, so the queries of the trace were not counted".to_owned());
        return Check { note, ..check("accounting", false, limit, value) };
    };
    let sent = queries.answered + queries.timed_out + queries.failed;
    check(
        "accounting",
        sent == queries.sent && rows == trace,
        limit,
        format!("{sent} = {}; {rows} = {trace}", queries.sent),
    )
}

fn not_sent(summary: &Summary, analysis: &Analysis) -> Check {
    let unsent = analysis.unsent_without_design;
    let by_design = summary.queries.not_sent - unsent.min(summary.queries.not_sent);
    let mut check = check("not_sent", unsent == 0 && summary.queries.sent > 0, "0", unsent.to_string());
    if summary.queries.sent == 0 {
        check.note = Some("no query was sent".to_owned());
    } else if by_design > 0 {
        check.note =
            Some(format!("{by_design} more are not counted: not to be sent in this run, or cut off by its end"));
    }
    check
}

/// A server that answers nothing at all is down, or another one was meant.
fn answers(summary: &Summary) -> Check {
    let queries = &summary.queries;
    check("answers", queries.answered > 0 || queries.sent == 0, "at least one", queries.answered.to_string())
}

/// Checks that fail when the host takes the core away.
const TIMED: [&str; 3] = ["timing_quartiles", "timing_p99", "rate"];

/// What the host did to a spinning worker, as the reason why a timing check may have failed.
fn blame(stalls: &Stalls) -> Option<String> {
    let (total, longest) = (stalls.total_ns as f64 / 1e6, stalls.longest_ns as f64 / 1e6);
    (stalls.count > 0).then(|| {
        format!(
            "the host kept the core from a spinning worker {} times, {total:.1} ms in all, {longest:.1} ms at the longest",
            stalls.count
        )
    })
}

fn completeness(state: State) -> Check {
    let value = match state {
        State::Complete => "whole trace",
        State::Interrupted => "interrupted",
        State::Running => "never ended",
    };
    check("completeness", state == State::Complete, "whole trace", value)
}

/// Lateness and rate; none where nothing was due at any time.
fn timing_checks(summary: &Summary, limits: &VerdictLimits) -> Vec<Check> {
    let Some(timing) = limits.timing else { return Vec::new() };
    let mut checks = lateness(summary, &timing);
    checks.push(rate(summary, limits));
    checks
}

fn lateness(summary: &Summary, limits: &TimingLimits) -> Vec<Check> {
    let quartile_limit = format!("±{} µs", limits.quartile_us);
    let p99_limit = format!("{} µs", limits.p99_us);
    let Some(error) = summary.timing.error_us else {
        return vec![unjudged("timing_quartiles", quartile_limit), unjudged("timing_p99", p99_limit)];
    };
    let within = error.p25.abs() <= limits.quartile_us && error.p75.abs() <= limits.quartile_us;
    vec![
        check("timing_quartiles", within, quartile_limit, format!("{:.1} to {:.1} µs", error.p25, error.p75)),
        check("timing_p99", error.p99 <= limits.p99_us, p99_limit, format!("{:.1} µs", error.p99)),
    ]
}

fn rate(summary: &Summary, limits: &VerdictLimits) -> Check {
    let rate = &summary.rate;
    let limit = format!("{} % of 1-s windows within ±{} %", limits.rate_windows_percent, limits.rate_percent);
    let Some(within) = rate.within_0_1_percent else { return unjudged("rate", limit) };
    let value = format!("{within:.2} % of {} windows", rate.windows);
    let mut check = check("rate", within >= limits.rate_windows_percent, limit, value);
    if rate.window_queries_p50 < FULL_WINDOW {
        check.note = Some(format!(
            "n/a at 0.1 %: the median window holds {} queries, so ±1 query is allowed instead",
            rate.window_queries_p50
        ));
    }
    check
}

fn unjudged(name: &str, limit: String) -> Check {
    Check { note: Some("no query was sent".to_owned()), ..check(name, true, limit, "n/a") }
}

fn doubts(summary: &Summary, analysis: &Analysis) -> Vec<Warning> {
    [
        behind(summary),
        timeouts(summary),
        failures(summary),
        strays(summary),
        late(summary),
        unsent(summary),
        unreadable(analysis),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn behind(summary: &Summary) -> Option<Warning> {
    let worst = summary.timing.error_us.filter(|error| error.max > BEHIND_US)?;
    Some(Warning::new(
        "fell_behind",
        format!("queries were up to {:.0} ms late (p99 {:.1} ms)", worst.max / 1e3, worst.p99 / 1e3),
        "use more --workers, lower the rate, stop other load on this machine, or read the trace from a faster disk",
    ))
}

fn timeouts(summary: &Summary) -> Option<Warning> {
    let queries = &summary.queries;
    let share = queries.timed_out as f64 / queries.sent.max(1) as f64;
    (share > MANY_TIMEOUTS).then(|| {
        Warning::new(
            "many_timeouts",
            format!("{:.1} % of the queries were not answered in time ({})", share * 100.0, queries.timed_out),
            "check that the server serves these names at this rate; raise --query-timeout if it is slow",
        )
    })
}

fn failures(summary: &Summary) -> Option<Warning> {
    let queries = &summary.queries;
    (queries.failed > 0).then(|| {
        Warning::new(
            "failed_queries",
            format!("{} queries failed: {}", queries.failed, listed(&queries.failed_by_status)),
            "check that the server listens on this address, port and transport",
        )
    })
}

fn strays(summary: &Summary) -> Option<Warning> {
    let queries = &summary.queries;
    (queries.stray > 0).then(|| {
        Warning::new(
            "stray_responses",
            format!("{} responses belong to no outstanding query: {}", queries.stray, listed(&queries.stray_by_reason)),
            "the server answers twice or alters the question, or something else answers on its address",
        )
    })
}

fn late(summary: &Summary) -> Option<Warning> {
    let count = summary.queries.late;
    (count > 0).then(|| {
        Warning::new(
            "late_responses",
            format!("{count} responses came after the query timeout and count as timed out"),
            "raise --query-timeout to count them as answers",
        )
    })
}

fn unsent(summary: &Summary) -> Option<Warning> {
    let queries = &summary.queries;
    (queries.not_sent > 0).then(|| {
        Warning::new(
            "not_sent",
            format!("{} queries were not sent: {}", queries.not_sent, listed(&queries.not_sent_by_reason)),
            "for address_family give --server once more, with an address of the other family; for transport_not_available give --transport udp, tcp or dot; for no_source_address raise the limit of open files (ulimit -n), widen net.ipv4.ip_local_port_range or give more --sources; the other reasons are explained in docs/run-directory.md",
        )
    })
}

fn unreadable(analysis: &Analysis) -> Option<Warning> {
    (analysis.unreadable > 0).then(|| {
        Warning::new(
            "rows_unreadable",
            format!(
                "{} row files have no footer (the run was killed); their rows are missing below",
                analysis.unreadable
            ),
            "repeat the run; end one early with Ctrl-C, which keeps every row",
        )
    })
}

fn listed(counts: &std::collections::BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
