//! The two verdicts: was the replay faithful, and did the server meet the expectations? And doubts, with their remedies.

mod advice;
mod bottleneck;
mod host;
mod server;
#[cfg(test)]
mod simulation;
mod timing;

pub use advice::of_failure as remedy_of_failure;
use ldplayer_core::Stalls;
use ldplayer_core::damage::Tally;
use ldplayer_core::text::times;

use crate::analysis::Analysis;
use crate::expect::{Origin, Quantity};
use crate::limits::VerdictLimits;
use crate::model::{AgentShare, Check, CpuWait, Fidelity, RunReport, ServerVerdict, State, Summary, Verdict};
use crate::numbers::counted;
use crate::verdict::host::Host;
use crate::warning::{Warning, WarningCode};
use crate::words;

/// Share of the answers that the kernel may drop at this end, in percent.
const RECEIVE_DROPS_PERCENT: f64 = 0.01;

/// Fills in verdicts and warnings from the summary; warnings about the server come first.
pub fn judge(report: &mut RunReport, analysis: &Analysis) {
    report.summary.cpu_wait = CpuWait::of(&report.summary.telemetry);
    if !report.agents.is_empty() {
        report.summary.cpu_wait = report.summary.cpu_wait.of_agents();
    }
    let host = Host::of(report);
    host.mark(&mut report.summary);
    let summary = &report.summary;
    let mut checks = vec![accounting(summary), not_sent(summary, analysis), completeness(report)];
    checks.extend(receive_drops(summary));
    checks.extend(timing::checks(summary, &report.limits, &host, report.has_quota()));
    checks.extend(clock_skew(&report.agents, &report.limits));
    checks.iter_mut().filter(|check| !check.ok && TIMED.contains(&&*check.name)).for_each(|check| {
        let notes = [check.note.take(), blame(&report.stalls).filter(|_| !check.is_of_waiting())];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        check.note = (!notes.is_empty()).then(|| notes.join("; "));
    });
    let mut expected: Vec<Check> = report.expect.iter().map(|expectation| expectation.judge(summary)).collect();
    // Where the user gave expectations, they alone decide.
    if expected.is_empty() && report.state != State::Interrupted {
        expected.extend(server::nothing_answered(summary));
    }
    let server = server_verdict(expected);
    let fidelity = fidelity(&checks);
    report.verdict = Verdict { ok: fidelity != Fidelity::Disturbed, replay: Some(fidelity), checks, server };
    let mut warnings = server::doubts(&report.summary);
    warnings.extend(bottleneck::warning(&report.summary, report.limits.timing.is_some()));
    let advice = advice::doubts(&report.summary, analysis);
    // A warning about all agents together is not repeated for each.
    let is_of_all = |told: &Warning| warnings.iter().chain(&advice).any(|of_all| of_all.code == told.code);
    let told: Vec<Warning> =
        report.warnings.iter().filter(|told| !(told.agent.is_some() && is_of_all(told))).cloned().collect();
    warnings.extend(told);
    warnings.extend(advice);
    report.warnings = warnings;
}

fn fidelity(checks: &[Check]) -> Fidelity {
    match checks.iter().all(|check| check.ok) {
        false => Fidelity::Disturbed,
        true if checks.iter().any(|check| check.harmless) => Fidelity::Harmless,
        true => Fidelity::Faithful,
    }
}

fn server_verdict(checks: Vec<Check>) -> ServerVerdict {
    ServerVerdict { ok: (!checks.is_empty()).then(|| checks.iter().all(|check| check.ok)), checks }
}

fn check(name: &str, ok: bool, limit: impl Into<String>, value: impl Into<String>) -> Check {
    Check { name: name.to_owned(), limit: limit.into(), value: value.into(), ok, ..Check::default() }
}

fn accounting(summary: &Summary) -> Check {
    let queries = &summary.queries;
    let limit = match queries.lost {
        0 => "answered + timed out + failed = sent; sent + not sent = trace",
        _ => "answered + timed out + failed = sent; sent + not sent + lost = trace",
    };
    let rows = queries.sent + queries.not_sent + queries.lost;
    let Some(trace) = queries.trace else {
        let value = format!("{}, queries in the trace unknown", counted(rows, "row", "rows"));
        let note = Some("the run never ended, so the queries of the trace were not counted".to_owned());
        return Check { note, ..check("accounting", false, limit, value) };
    };
    let sent = queries.answered + queries.timed_out + queries.failed;
    let value = format!("{sent} = {}; {rows} = {trace}", queries.sent);
    check("accounting", sent == queries.sent && rows == trace, limit, value)
}

fn not_sent(summary: &Summary, analysis: &Analysis) -> Check {
    let unsent = analysis.unsent_without_design;
    let by_design = summary.queries.not_sent - unsent.min(summary.queries.not_sent);
    let mut check = check("not_sent", unsent == 0 && summary.queries.sent > 0, "0", unsent.to_string());
    if summary.queries.sent == 0 {
        check.note = Some("no query was sent".to_owned());
    } else if by_design > 0 {
        check.note = Some(format!(
            "{by_design} more are not counted: not to be sent in this run, cut off by its end, or given up by their clients"
        ));
    }
    check
}

/// Checks that fail when the host takes the core away …
const TIMED: [&str; 5] = ["timing_quartiles", "timing_p99", "rate", "server_wait", "client_wait"];
/// … and of them those that are no lateness.
const WAITS: [&str; 2] = ["server_wait", "client_wait"];

impl Check {
    /// Whether it is about when queries were sent and answered, and not about which.
    pub fn is_of_timing(&self) -> bool {
        TIMED.contains(&&*self.name)
    }

    /// Whether it is about cores that a side waited for.
    pub fn is_of_waiting(&self) -> bool {
        WAITS.contains(&&*self.name)
    }
}

/// A check that failed, and what is to blame.
fn allowed(check: &Check, blame: &str) -> String {
    let name = words::check(&check.name);
    format!("{name}: {} where {} was allowed; {blame}", check.value, check.limit)
}

impl RunReport {
    /// Whether the server ran within a quota of processor time.
    pub(crate) fn has_quota(&self) -> bool {
        !self.config.words("server_cpu").is_empty()
    }

    /// Why the run is worth repeating as it is: something failed that a neighbour on its machine caused, which may be gone the next time.
    /// Queries were late, and the host had taken the processor away for as long; or a side waited for a core that neither of them had.
    /// Lateness beyond the longest stall has another cause, which a repeat does not take away.
    pub fn disturbance(&self) -> Option<String> {
        self.neighbours().or_else(|| self.stalled())
    }

    /// The part of [`Self::disturbance`] that is not about queries that were late: a side waited for a core that neighbours had.
    pub fn neighbours(&self) -> Option<String> {
        let waited = self.failed_timing().find(|check| self.is_of_neighbours(check))?;
        Some(allowed(waited, waited.note.as_deref().unwrap_or_default()))
    }

    /// Queries were late, and the host had taken the processor away for as long.
    fn stalled(&self) -> Option<String> {
        let longest_us = self.stalls.longest_ns as f64 / 1e3;
        let mut late = self.failed_timing().filter(|check| !check.is_of_waiting());
        let first = late.clone().next()?;
        let blame = blame(&self.stalls).filter(|_| late.all(|check| self.lateness_us(check) <= longest_us))?;
        Some(allowed(first, &blame))
    }

    fn failed_timing(&self) -> impl Iterator<Item = &Check> + Clone {
        self.verdict.checks.iter().filter(|check| !check.ok && check.is_of_timing())
    }

    /// Whether a check is of a wait for a core that neighbours had.
    fn is_of_neighbours(&self, check: &Check) -> bool {
        let wait = &self.summary.cpu_wait;
        let waited = match &*check.name {
            "server_wait" => wait.server,
            "client_wait" => wait.client,
            _ => None,
        };
        waited.is_some_and(|waited| wait.is_of_neighbours(waited.share))
    }

    /// How late queries were that a check of timing failed for, in microseconds.
    fn lateness_us(&self, check: &Check) -> f64 {
        let error = self.summary.timing.error_us.unwrap_or_default();
        match &*check.name {
            "timing_quartiles" => error.p25.abs().max(error.p75.abs()),
            "timing_p99" => error.p99,
            _ => 0.0,
        }
    }

    /// Whether a comparison may use a figure: the replay was not disturbed, or its host cannot have changed this one.
    pub fn is_good(&self, quantity: Quantity) -> bool {
        let latency = &self.summary.latency_ms;
        let mark = match quantity {
            Quantity::Latency { quantile, from: Origin::Sent } => quantile.mark(&latency.from_sent),
            Quantity::Latency { quantile, from: Origin::Intended } => quantile.mark(&latency.from_intended),
            _ => None,
        };
        mark.unwrap_or(self.verdict.fidelity() != Fidelity::Disturbed)
    }

    /// Whether it was disturbed in its timing alone: all queries were sent and counted.
    pub fn is_late_only(&self) -> bool {
        self.verdict.checks.iter().all(|check| check.ok || check.is_of_timing())
    }
}

/// What the host did to a spinning worker, as the reason why a timing check may have failed.
fn blame(stalls: &Stalls) -> Option<String> {
    let (total, longest) = (stalls.total_ns as f64 / 1e6, stalls.longest_ns as f64 / 1e6);
    (stalls.count > 0).then(|| {
        format!(
            "the host kept the core from a spinning worker {}, {total:.1} ms in all, {longest:.1} ms at the longest",
            times(stalls.count)
        )
    })
}

/// Whether the run came to its end, and all of the trace was read.
fn completeness(report: &RunReport) -> Check {
    let unread = report.tally.as_ref().and_then(Tally::explain_unread);
    let lost = report.summary.queries.lost;
    let value = match (report.state, &unread) {
        _ if lost > 0 => format!("{} lost with their agents", counted(lost, "query was", "queries were")),
        (State::Interrupted, _) => "interrupted".to_owned(),
        (State::Running, _) => "never ended".to_owned(),
        (State::Complete, Some(unread)) => format!("not all of the trace could be read: {unread}"),
        (State::Complete, None) => "whole trace".to_owned(),
    };
    let ok = report.state == State::Complete && unread.is_none() && lost == 0;
    let note = unread.filter(|_| report.state != State::Complete);
    let note = note.map(|unread| format!("nor could all of the trace be read: {unread}"));
    Check { note, ..check("completeness", ok, "whole trace", value) }
}

/// Times of several hosts are only as good as their clocks agree; none on one host, or where nothing is due at any time.
fn clock_skew(agents: &[AgentShare], limits: &VerdictLimits) -> Option<Check> {
    let allowed_us = limits.timing?.p99_us;
    let worst =
        agents.iter().max_by(|one, other| one.skew_us.unwrap_or(0.0).total_cmp(&other.skew_us.unwrap_or(0.0)))?;
    let limit = format!("{allowed_us} µs");
    let Some(unknown) = agents.iter().find(|agent| agent.skew_us.is_none() && agent.lost.is_none()) else {
        let most = worst.skew_us.unwrap_or(0.0);
        return Some(check(
            "clock_skew",
            most <= allowed_us,
            limit,
            format!("at most {most:.1} µs, of {}", worst.name),
        ));
    };
    let note = Some(format!("the clock of {} was not compared after the run", unknown.name));
    Some(Check { note, ..check("clock_skew", false, limit, "unknown") })
}

/// Responses dropped on this host are not the server's fault. `None` if they were not counted.
fn receive_drops(summary: &Summary) -> Option<Check> {
    let drops = summary.responses.receive_drops?;
    let (percent, came) = dropped_share(summary, drops);
    let limit = format!("{RECEIVE_DROPS_PERCENT} % of the responses");
    let ok = percent <= RECEIVE_DROPS_PERCENT;
    let found = check("receive_drops", ok, limit, format!("{percent:.3} % ({drops} of {came})"));
    let note = (!ok).then(|| format!("over UDP they count as timed out; {}", WarningCode::KernelDrops.remedy()));
    Some(Check { note, ..found })
}

/// The share in percent of the responses that came and were dropped, and how many came.
fn dropped_share(summary: &Summary, drops: u64) -> (f64, u64) {
    let came = summary.queries.answered + summary.queries.late + summary.queries.stray + drops;
    (if came == 0 { 0.0 } else { drops as f64 * 100.0 / came as f64 }, came)
}

fn unjudged(name: &str, limit: String, why: &str) -> Check {
    Check { note: Some(why.to_owned()), ..check(name, true, limit, "n/a") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Spread, Timing};

    #[test]
    fn a_run_is_disturbed_when_the_host_had_the_processor_for_as_long_as_it_was_late() {
        let stalled = |us: i64| Stalls { count: 1, total_ns: us * 1_000, longest_ns: us * 1_000 };
        let of = |name: &str, ok, stalls| {
            let verdict = Verdict { checks: vec![check(name, ok, "1 ms", "2.50 ms")], ..Verdict::default() };
            let error_us = Some(Spread { p25: -10.0, p75: 90.0, p99: 2_500.0, ..Spread::default() });
            let summary = Summary { timing: Timing { error_us, ..Timing::default() }, ..Summary::default() };
            RunReport { verdict, stalls, summary, ..RunReport::default() }.disturbance()
        };
        let told = of("timing_p99", false, stalled(3_000)).unwrap();
        assert!(
            told.starts_with("99th percentile of the timing error: 2.50 ms where 1 ms was allowed; the host"),
            "{told}"
        );
        assert!(of("timing_quartiles", false, stalled(100)).is_some());
        assert_eq!(of("timing_quartiles", false, stalled(80)), None);
        assert_eq!(of("timing_p99", false, stalled(2_000)), None, "something else made it late");
        assert_eq!(of("timing_p99", false, Stalls::default()), None);
        assert_eq!(of("timing_p99", true, stalled(3_000)), None);
        assert_eq!(of("receive_drops", false, stalled(3_000)), None);
    }
}
