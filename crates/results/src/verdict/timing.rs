//! Checks of lateness and rate, and of cores that were not there.

use super::host::{self, Host, Wait};
use super::{check, unjudged};
use crate::limits::{TimingLimits, VerdictLimits};
use crate::model::{Check, Spread, Summary, Waited};
use crate::numbers::{counted, fixed, in_time, in_whole_time, queries};

/// Queries with which quartiles, and a 99th percentile of lateness, say something of a run.
const FEW: (u64, u64) = (20, 500);
/// Windows with fewer queries than this move by more than 0.1 % with a single one.
const FULL_WINDOW: u64 = 1_000;

/// The checks. A server with a quota waits by design. Those of lateness and rate are made where queries have due times.
pub fn checks(summary: &Summary, limits: &VerdictLimits, host: &Host, has_quota: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(timing) = limits.timing {
        checks.extend(lateness(summary, &timing, host));
        checks.push(rate(summary, limits, &timing, host));
    }
    let is_paced = limits.timing.is_some();
    checks.push(match has_quota {
        true => unjudged("server_wait", wait_limit(), "the server ran within a quota, which it waits for"),
        false => {
            let unseen = "the server's host was not observed: --watch-pid, --watch-unit or --start-server";
            wait("server_wait", summary.cpu_wait.server, 1.0, summary, is_paced, unseen)
        }
    });
    let over_connections = host::over_connections(summary);
    if over_connections > 0.0 {
        let (waited, unknown) = (summary.cpu_wait.client, "the kernel does not count it");
        checks.push(wait("client_wait", waited, over_connections, summary, is_paced, unknown));
    }
    checks
}

fn lateness(summary: &Summary, limits: &TimingLimits, host: &Host) -> [Check; 2] {
    let quartile_limit = format!("±{}", in_whole_time(limits.quartile_us));
    let p99_limit = in_whole_time(limits.p99_us);
    let Some(error) = summary.timing.error_us else {
        let none = "no query was sent";
        return [unjudged("timing_quartiles", quartile_limit, none), unjudged("timing_p99", p99_limit, none)];
    };
    let within = error.p25.abs() <= limits.quartile_us && error.p75.abs() <= limits.quartile_us;
    let quartiles = format!("{} to {}", in_time(error.p25), in_time(error.p75));
    let quartiles = check("timing_quartiles", within, quartile_limit, quartiles);
    let p99 = check("timing_p99", error.p99 <= limits.p99_us, p99_limit, in_time(error.p99));
    let few = |check: Check, needed| if summary.queries.sent < needed { few(check, &error, needed) } else { check };
    [few(quartiles, FEW.0), few(p99, FEW.1)].map(|check| weighed(check, host, summary))
}

/// A percentile of few queries is one of them, and says nothing of the others.
fn few(check: Check, error: &Spread, needed: u64) -> Check {
    let note = format!("not judged of fewer than {needed} queries; the latest was {} late", in_time(error.max));
    Check { ok: true, note: Some(note), ..check }
}

/// Lateness beyond a limit is harmless where it touches no percentile that is claimed.
fn weighed(check: Check, host: &Host, summary: &Summary) -> Check {
    if check.ok {
        return check;
    }
    let touched = host.touched_by_lateness(summary);
    if touched.is_empty() {
        let note = "harmless: it is below a tenth of each claimed percentile of latency".to_owned();
        return Check { ok: true, harmless: true, note: Some(note), ..check };
    }
    Check { note: Some(format!("it may have changed {}", touched.join(", "))), ..check }
}

/// Nine of ten windows have the queries of the trace, but for those that lateness moves across their ends.
fn rate(summary: &Summary, limits: &VerdictLimits, timing: &TimingLimits, host: &Host) -> Check {
    let (rate, windows) = (&summary.rate, limits.rate_windows_percent);
    let moved = |late_us: f64| limits.rate_percent + 2.0 * late_us / (rate.window_s * 1e6) * 100.0;
    let limit = |allowed: f64| format!("±{allowed:.2} % in {windows} % of {} s windows", rate.window_s);
    let Some(error) = rate.error_percent else {
        let sent = summary.queries.sent > 0;
        let why = if sent { "the trace is shorter than one window" } else { "no query was sent" };
        return unjudged("rate", limit(limits.rate_percent), why);
    };
    let one_query = 100.0 / rate.window_queries_p50.max(1) as f64;
    let allowed = moved(timing.p99_us).max(one_query);
    let value = format!("±{:.2} % in {windows} % of {}", error.nine_of_ten, counted(rate.windows, "window", "windows"));
    let mut check = check("rate", error.nine_of_ten <= allowed, limit(allowed), value);
    if rate.window_queries_p50 < FULL_WINDOW {
        let held = queries(rate.window_queries_p50);
        check.note = Some(format!("the median window holds {held}, so ±1 query is allowed"));
    }
    let late_us = summary.timing.error_us.unwrap_or_default().p99;
    if !check.ok && error.nine_of_ten <= moved(late_us) && host.touched_by_lateness(summary).is_empty() {
        let note = Some("harmless: queries that were late are counted in the next window".to_owned());
        return Check { ok: true, harmless: true, note, ..check };
    }
    check
}

fn wait_limit() -> String {
    format!("{} % of the time", fixed(host::wait_limit(0.99) * 100.0, 1))
}

/// How long a side waited for a core, which only this part of the queries is touched by. A run without times loads the server as much as it can, and the server may want more cores than there
/// are: of such a run only neighbours count.
fn wait(name: &str, waited: Option<Waited>, part: f64, summary: &Summary, is_paced: bool, unknown: &str) -> Check {
    let limit = wait_limit();
    let Some(waited) = waited else { return unjudged(name, limit, unknown) };
    let Waited { seconds, share, most_s } = waited;
    let wait = Wait::of(waited, part);
    let touched = wait.touched(summary);
    let is_fine = touched.is_empty() || !(is_paced || summary.cpu_wait.is_of_neighbours(share));
    let found = check(name, is_fine, limit, format!("{:.2} % ({seconds:.3} s)", share * 100.0));
    if let Some(most_s) = most_s.filter(|_| touched.is_empty() && wait.is_long(summary)) {
        let most = fixed(most_s * 1e3, 1);
        let note = format!("no wait was longer than {most} ms, below a tenth of each claimed percentile of latency");
        return Check { note: Some(note), ..found };
    }
    let others = summary.cpu_wait.others_cores;
    let others = others.map_or(String::new(), |cores| format!("other processes used {cores:.2} cores meanwhile; "));
    let note = (!is_fine).then(|| format!("{others}it may have changed {}", touched.join(", ")));
    Check { note, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunReport;
    use crate::model::{CpuWait, Good, Latency, Queries, Rate, RateError, Tail, Timing};

    /// A run over UDP with these percentiles of latency (ms) and lateness (µs), of so many queries.
    fn run(latency_ms: [f64; 3], late_us: [f64; 3], sent: u64) -> RunReport {
        let [p50, p90, p99] = latency_ms.map(Some);
        let tail = Tail { queries: sent, p50, p90, p95: p90, p99, p999: p99, ..Tail::default() };
        let [p75, late_p90, late_p99] = late_us;
        let error =
            Spread { p25: -1.0, p75, p90: late_p90, p99: late_p99, p999: late_p99, max: 9e5, ..Spread::default() };
        let rate = Rate {
            window_s: 1.0,
            windows: 60,
            window_queries_p50: sent / 60,
            error_percent: Some(RateError { nine_of_ten: 0.02, ..RateError::default() }),
            ..Rate::default()
        };
        let summary = Summary {
            queries: Queries { sent, sent_by_transport: [("udp".to_owned(), sent)].into(), ..Queries::default() },
            timing: Timing { error_us: Some(error), ..Timing::default() },
            latency_ms: Latency { from_sent: tail, from_intended: tail, ..Latency::default() },
            rate,
            ..Summary::default()
        };
        RunReport { summary, ..RunReport::default() }
    }

    /// The names of the checks that failed, and of those that are late and harmless.
    fn judged(run: &RunReport) -> (String, String) {
        let checks = checks(&run.summary, &run.limits, &Host::of(run), false);
        let named = |is: fn(&Check) -> bool| {
            checks.iter().filter(|check| is(check)).map(|check| check.name.clone()).collect::<Vec<_>>().join(" ")
        };
        (named(|check| !check.ok), named(|check| check.harmless))
    }

    fn waits(mut run: RunReport, server: f64, others_cores: Option<f64>) -> RunReport {
        let waited = Waited { seconds: server * 60.0, share: server, most_s: None };
        run.summary.cpu_wait = CpuWait { server: Some(waited), client: Some(Waited::default()), others_cores };
        run
    }

    const NOTHING: (String, String) = (String::new(), String::new());

    #[test]
    fn lateness_fails_a_run_only_where_it_could_have_changed_a_percentile() {
        assert_eq!(judged(&run([0.1, 0.2, 0.3], [12.0, 100.0, 690.0], 60_000)), NOTHING);
        // Beyond the limits of normal precision; far from what a server 50 ms away takes, and not from one of loopback.
        let late = [60.0, 200.0, 2_000.0];
        assert_eq!(
            judged(&run([50.0, 60.0, 80.0], late, 60_000)),
            (String::new(), "timing_quartiles timing_p99".to_owned())
        );
        assert_eq!(judged(&run([0.1, 0.2, 3.0], late, 60_000)).0, "timing_quartiles timing_p99");
        // Percentiles that no query was answered for are endless.
        let mut unanswered = run([0.1, 0.2, 0.3], late, 60_000);
        unanswered.summary.latency_ms = Latency {
            from_sent: Tail { queries: 60_000, ..Tail::default() },
            from_intended: Tail { queries: 60_000, ..Tail::default() },
            ..Latency::default()
        };
        assert_eq!(judged(&unanswered).0, "");
    }

    /// A list of three queries failed by the p99 of three values.
    #[test]
    fn few_queries_fail_nothing_and_the_latest_is_told() {
        let few = run([0.1, 0.2, 0.3], [60.0, 1_017.0, 1_017.0], 3);
        assert_eq!(judged(&few), NOTHING);
        let checks = checks(&few.summary, &few.limits, &Host::of(&few), false);
        assert_eq!(checks[1].note.as_deref(), Some("not judged of fewer than 500 queries; the latest was 900 ms late"));
        assert_eq!(judged(&run([0.1, 0.2, 0.3], [60.0, 100.0, 1_017.0], 499)).0, "timing_quartiles");
    }

    /// A replay of root traffic failed, since the counts of 2 of 60 seconds were 0.1 % off.
    #[test]
    fn a_rate_may_be_off_by_what_lateness_moves_and_in_one_window_of_ten() {
        let off = |percent: f64, late_us: f64, latency_ms: f64, sent: u64| {
            let mut run = run([latency_ms; 3], [1.0, 1.0, late_us], sent);
            run.summary.rate.error_percent = Some(RateError { nine_of_ten: percent, ..RateError::default() });
            judged(&run)
        };
        assert_eq!(off(0.3, 1.0, 1.0, 60_000_000), NOTHING);
        assert_eq!(off(0.4, 1.0, 1.0, 60_000_000).0, "rate");
        assert_eq!(off(0.4, 2_000.0, 100.0, 60_000_000), (String::new(), "timing_p99 rate".to_owned()));
        assert_eq!(off(1.0, 1.0, 1.0, 6_000), NOTHING, "one query of the hundred in a window");
    }

    /// A neighbour on the server's core made the 99th percentile ten times as long, and nothing was said.
    #[test]
    fn a_server_that_waited_for_its_core_spoils_the_percentiles_that_it_can_have_changed() {
        let quick = || run([0.1, 0.2, 0.3], [12.0, 100.0, 690.0], 60_000);
        assert_eq!(judged(&waits(quick(), 0.004, None)), NOTHING);
        assert_eq!(judged(&waits(quick(), 0.02, None)).0, "server_wait");
        let mut spoilt = waits(quick(), 0.02, Some(0.3));
        Host::of(&spoilt).mark(&mut spoilt.summary);
        let good = Good { p50: Some(true), p90: Some(true), p95: Some(true), p99: Some(false), p999: Some(false) };
        assert_eq!(spoilt.summary.latency_ms.from_sent.good, Some(good));
        let checks = checks(&spoilt.summary, &spoilt.limits, &Host::of(&spoilt), false);
        let told = "other processes used 0.30 cores meanwhile; it may have changed p99 (0.300 ms)";
        assert_eq!(checks.last().and_then(|check| check.note.as_deref()), Some(told));
        // As fast as it can, it may want more cores than there are: only a neighbour is a reason.
        let fast = |others| {
            let mut run = waits(quick(), 0.02, others);
            run.limits = VerdictLimits::FAST;
            judged(&run).0
        };
        assert_eq!(
            (fast(None), fast(Some(0.01)), fast(Some(0.3))),
            (String::new(), String::new(), "server_wait".to_owned())
        );
    }

    /// A testbed at a round-trip time of 120 ms was disturbed for waits of some milliseconds.
    #[test]
    fn waits_that_are_short_beside_a_latency_spoil_nothing() {
        let waited = |ms: f64, most_s| {
            let mut run = waits(run([ms, ms, ms], [12.0, 100.0, 690.0], 60_000), 0.02, Some(0.3));
            run.summary.cpu_wait.server.as_mut().unwrap().most_s = most_s;
            judged(&run)
        };
        let spoilt = ("server_wait".to_owned(), String::new());
        assert_eq!(waited(240.0, Some(0.007)), NOTHING);
        assert_eq!((waited(60.0, Some(0.007)), waited(240.0, None)), (spoilt.clone(), spoilt));
    }

    #[test]
    fn workers_that_wait_matter_where_they_stamp_the_answers() {
        let waited = |transport: &str| {
            let mut run = run([0.1, 0.2, 0.3], [12.0, 100.0, 690.0], 60_000);
            run.summary.queries.sent_by_transport = [(transport.to_owned(), 60_000)].into();
            run.summary.cpu_wait.client = Some(Waited { seconds: 1.2, share: 0.02, most_s: None });
            judged(&run).0
        };
        assert_eq!((waited("udp"), waited("dot")), (String::new(), "client_wait".to_owned()));
    }

    /// A hundredth of the queries over TCP had the waits of the workers spoil the percentiles of all.
    #[test]
    fn workers_that_wait_touch_only_the_queries_over_connections() {
        let waited = |over_tcp: u64| {
            let mut run = run([0.1, 0.2, 0.3], [1.0, 1.0, 2.0], 10_000);
            run.summary.queries.sent_by_transport = [("udp", 10_000 - over_tcp), ("tcp", over_tcp)]
                .map(|(transport, sent)| (transport.to_owned(), sent))
                .into();
            run.summary.cpu_wait.client = Some(Waited { seconds: 1.2, share: 0.02, most_s: None });
            let marked = {
                Host::of(&run).mark(&mut run.summary);
                run.summary.latency_ms.from_sent.good.unwrap().p99
            };
            (judged(&run).0, marked)
        };
        assert_eq!(waited(100), (String::new(), Some(true)));
        assert_eq!(waited(9_000), ("client_wait".to_owned(), Some(false)));
    }
}
