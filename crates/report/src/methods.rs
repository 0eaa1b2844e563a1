//! What was run, how it was measured and what is left out, in sentences for the section on methods of a paper.

use ldplayer_results::numbers::{counted, counts_in_words, fixed, grouped, in_bytes, queries};
use ldplayer_results::{Fidelity, RunReport, State, Tail, needed, words};

use crate::page::changed;
use crate::text::RunText;

/// The sentences in their order; a run has those that say something of it.
const SENTENCES: [fn(&RunReport) -> Option<String>; 12] =
    [replayed, trace, times, settings, host, server, waiting, accounts, latency, timing, verdict, left_out];

/// The paragraph of a run.
pub fn methods(report: &RunReport) -> String {
    let said = SENTENCES.iter().filter_map(|sentence| sentence(report));
    said.map(|text| format!("{text}.")).collect::<Vec<_>>().join(" ")
}

fn replayed(report: &RunReport) -> Option<String> {
    let summary = &report.summary;
    let trace = summary.queries.trace.map_or_else(|| "the queries".to_owned(), queries);
    let clients = counted(summary.clients.total, "client", "clients");
    let state = match report.state {
        State::Complete => String::new(),
        other => format!(" (the run is {other})"),
    };
    Some(format!(
        "On {}, ldplayer {} replayed {trace} of {clients} ({}) in {:.1} s{state}",
        words::to_the_second(&report.started),
        report.ldplayer,
        RunText(report).title(),
        summary.elapsed_s
    ))
}

fn trace(report: &RunReport) -> Option<String> {
    let [file] = report.traces.as_slice() else { return None };
    let sum = file.sha256.as_ref()?;
    Some(format!("The trace has {} bytes and the SHA-256 sum {sum}", grouped(file.octets)))
}

fn times(report: &RunReport) -> Option<String> {
    Some(match report.speed_note.as_deref().map(|note| note.split_once(':').unwrap_or((note, ""))) {
        None => "Queries were due at the times of the trace, counted from its first query".to_owned(),
        Some(("scaled", speed)) => format!("Queries were due at the times of the trace divided by {speed}"),
        Some(("rate", qps)) => format!("{qps} queries were due each second, at even gaps"),
        Some(("poisson", qps)) => format!("Queries were due as a Poisson process of {qps} a second"),
        Some(("ramp", ramp)) => format!("Queries were due at a rate that rises by {ramp}"),
        Some(("fast", _)) => "No query was due at a time: each was sent as soon as it could be".to_owned(),
        Some((other, _)) => format!("Queries were due by the timing {other}"),
    })
}

fn settings(report: &RunReport) -> Option<String> {
    report.config.changed.as_ref()?;
    Some(match changed(report).join(" ") {
        none if none.is_empty() => "All other settings were the defaults of this version".to_owned(),
        changed => format!("Settings other than the defaults of this version: {changed}"),
    })
}

fn host(report: &RunReport) -> Option<String> {
    let machine = &report.environment.machine;
    let virtual_machine = if machine.virtualised { ", a virtual machine" } else { "" };
    let of_agents = counted(report.agents.len() as u64, "agent", "agents");
    let agents = if report.agents.is_empty() { String::new() } else { format!("; {of_agents} sent the queries") };
    (!machine.kernel.is_empty()).then(|| {
        format!(
            "The replay ran with {} on {} of {}, {} of memory, Linux {}{virtual_machine}{agents}",
            counted(report.workers as u64, "worker", "workers"),
            counted(machine.cores as u64, "core", "cores"),
            if machine.cpu.is_empty() { "an unnamed processor" } else { &machine.cpu },
            in_bytes(machine.memory_bytes),
            machine.kernel,
        )
    })
}

fn server(report: &RunReport) -> Option<String> {
    let side = report.summary.telemetry.server.as_ref();
    let Some(used) = side.and_then(|side| side.cores_mean) else {
        return Some(
            "Nobody watched the server: what it used, and whether it waited for a core, is not known".to_owned(),
        );
    };
    let quota = report.config.word("server_cpu");
    let quota = if quota.is_empty() { quota } else { format!(", within a quota of {quota} cores") };
    Some(format!("The server used {used:.2} cores{quota}"))
}

fn waiting(report: &RunReport) -> Option<String> {
    let timeout = report.config.word("query_timeout");
    (!timeout.is_empty()).then(|| {
        format!(
            "A query without an answer within {timeout} counts as timed out, and in percentiles of latency as endless"
        )
    })
}

fn accounts(report: &RunReport) -> Option<String> {
    let queries = &report.summary.queries;
    let share = queries.answered as f64 * 100.0 / queries.sent.max(1) as f64;
    let [sent, answered, timed_out, failed] =
        [queries.sent, queries.answered, queries.timed_out, queries.failed].map(grouped);
    let not_sent = match queries.not_sent {
        0 => String::new(),
        count => format!(
            "; {} were not sent ({})",
            grouped(count),
            counts_in_words(&queries.not_sent_by_reason, words::reason)
        ),
    };
    Some(format!(
        "Of {sent} queries sent, {answered} were answered ({share:.2} %), {timed_out} timed out and {failed} failed{not_sent}"
    ))
}

fn latency(report: &RunReport) -> Option<String> {
    let tail = &report.summary.latency_ms.from_sent;
    let claimed = [("median", 0.5, tail.p50), ("90th percentile", 0.9, tail.p90), ("99th percentile", 0.99, tail.p99)];
    let known = claimed.into_iter().filter(|(_, share, _)| tail.queries >= needed(*share));
    let said: Vec<String> =
        known.map(|(name, _, ms)| format!("{name} {}", ms.map_or("among the unanswered".to_owned(), in_ms))).collect();
    (!said.is_empty())
        .then(|| format!("Latency from sending to the answer, over all queries sent: {}", said.join(", ")))
}

fn in_ms(ms: f64) -> String {
    format!("{} ms", fixed(ms, 3))
}

fn timing(report: &RunReport) -> Option<String> {
    report.limits.timing.as_ref()?;
    let error = report.summary.timing.error_us.as_ref()?;
    let mut said = vec![format!(
        "half of the queries were sent {} to {} µs after they were due",
        fixed(error.p25, 1),
        fixed(error.p75, 1)
    )];
    if report.summary.queries.sent >= needed(0.99) {
        said.push(format!("99 % within {} µs", fixed(error.p99, 1)));
    }
    Some(format!("Timing: {}", said.join(", ")))
}

fn verdict(report: &RunReport) -> Option<String> {
    let replay = match report.verdict.fidelity() {
        Fidelity::Faithful => format!("The replay was faithful by all checks that could be judged{}", unjudged(report)),
        Fidelity::Harmless => "The replay was later than its limits, which changes no percentile above".to_owned(),
        Fidelity::Disturbed => format!("The replay was not faithful: {}", failed(report)),
    };
    let server = match report.verdict.server.ok {
        None => "nothing was expected of the server",
        Some(true) => "the server met all expectations",
        Some(false) => "the server did not meet all expectations",
    };
    Some(format!("{replay}; {server}"))
}

/// Checks that could not be judged, in words.
fn unjudged(report: &RunReport) -> String {
    let unjudged = report.verdict.checks.iter().filter(|check| check.value == "n/a");
    let names: Vec<String> = unjudged.map(|check| words::check(&check.name)).collect();
    if names.is_empty() { String::new() } else { format!(" (not judged: {})", names.join(", ")) }
}

fn failed(report: &RunReport) -> String {
    let failed = report.verdict.checks.iter().filter(|check| !check.ok);
    failed.map(|check| format!("{} {}", words::check(&check.name), check.value)).collect::<Vec<_>>().join("; ")
}

/// Percentiles that the host touched, and doubts.
fn left_out(report: &RunReport) -> Option<String> {
    let touched = touched(&report.summary.latency_ms.from_sent);
    let touched =
        (!touched.is_empty()).then(|| format!("Not to be relied on, since the host may have changed them: {touched}"));
    let doubts: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    let doubts = (!doubts.is_empty()).then(|| format!("Warnings: {}", doubts.join("; ")));
    let said: Vec<String> = [touched, doubts].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(". "))
}

fn touched(tail: &Tail) -> String {
    let good = tail.good.unwrap_or_default();
    let all = [
        ("median", good.p50),
        ("90th percentile", good.p90),
        ("99th percentile", good.p99),
        ("99.9th percentile", good.p999),
    ];
    all.into_iter().filter(|(_, good)| *good == Some(false)).map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_results::{Check, Good, Verdict};

    fn report() -> RunReport {
        let mut report =
            RunReport { state: State::Complete, ldplayer: "0.2.0".into(), workers: 2, ..RunReport::default() };
        report.started = "2026-11-28T22:00:01.5Z".to_owned();
        let summary = &mut report.summary;
        (summary.queries.trace, summary.queries.sent, summary.queries.answered) = (Some(1_000), 1_000, 990);
        (summary.queries.timed_out, summary.clients.total, summary.elapsed_s) = (10, 20, 3.0);
        summary.latency_ms.from_sent = Tail { queries: 1_000, p50: Some(0.25), p90: Some(1.0), ..Tail::default() };
        report.config = report.config.with("query_timeout", "5s");
        report.verdict = Verdict { ok: true, ..Verdict::default() };
        report
    }

    #[test]
    fn a_run_is_told_in_sentences() {
        let said = methods(&report());
        for part in [
            "On 2026-11-28 22:00:01 UTC, ldplayer 0.2.0 replayed 1,000 queries of 20 clients (",
            " Queries were due at the times of the trace, counted from its first query. ",
            " Of 1,000 queries sent, 990 were answered (99.00 %), 10 timed out and 0 failed. ",
            "median 0.250 ms, 90th percentile 1.000 ms, 99th percentile among the unanswered. ",
            " The replay was faithful by all checks that could be judged; nothing was expected of the server.",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
        assert!(!said.contains("..") && !said.contains("Settings"), "{said}");
    }

    /// It was said to be faithful by all of its checks.
    #[test]
    fn checks_that_were_not_judged_are_named() {
        let mut report = report();
        report.verdict.checks =
            vec![Check { name: "server_wait".into(), value: "n/a".into(), ok: true, ..Check::default() }];
        let said = methods(&report);
        assert!(said.contains(" that could be judged (not judged: the server waited for a core); "), "{said}");
    }

    /// What is not known is not said to be good.
    #[test]
    fn what_spoils_a_run_is_in_its_methods() {
        let mut report = report();
        report.verdict.ok = false;
        report.summary.latency_ms.from_sent.good = Some(Good { p50: Some(true), p99: Some(false), ..Good::default() });
        report.speed_note = Some("poisson:500".to_owned());
        let said = methods(&report);
        assert!(said.contains("The replay was not faithful: ") && !said.contains("faithful by all"), "{said}");
        assert!(said.ends_with("since the host may have changed them: 99th percentile."), "{said}");
        assert!(said.contains(" Queries were due as a Poisson process of 500 a second. "), "{said}");
        assert!(said.contains("Nobody watched the server: "), "{said}");
    }
}
