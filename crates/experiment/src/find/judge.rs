//! Judges the run of a trial: whether the goals were met, or why the trial does not count.

use ldplayer_core::text::counted;
use ldplayer_results::{Check, Quantity, RunReport, Summary, WarningCode, words};

use super::search::{Intended, Took, Unfit};
use super::{Find, Goal, Load};

/// The minimum share of the intended load that must have been sent.
const MADE: f64 = 0.99;
/// The name in `connections.closed` of a run for connections closed by the server.
const BY_SERVER: [&str; 2] = ["server", "reset"];

impl Find {
    /// Judges a run with this load.
    ///
    /// A trial that meets all goals counts even if the replay was late: lateness makes bursts, which are harder for the
    /// server. A trial that misses a goal counts only if the replay was faithful, or not later than the file allows, or than a tenth
    /// of the latency that the goals allow, and no neighbour had the cores.
    pub(crate) fn judge(&self, intended: Intended, report: &RunReport) -> Took {
        let (summary, load) = (&report.summary, intended.load);
        if let Some(why) = self.not_made(intended, report) {
            return Took::Unfit(why);
        }
        let (unanswered, lost, is_high_loss) = self.losses(load, summary);
        // Lateness does not make a server close connections.
        let is_excused =
            is_high_loss.contains(&true) && (self.what != Load::Connections || closed_by_server(summary) == 0);
        let why = is_excused.then(|| self.unfaithful(report)).flatten();
        why.map_or(Took::Measured { loss_ratio: unanswered.max(lost), is_high_loss }, Took::Unfit)
    }

    /// Whether a run with this load misses a goal, be it the server's doing or not.
    pub(crate) fn is_missed(&self, intended: Intended, report: &RunReport) -> bool {
        self.losses(intended.load, &report.summary).2.contains(&true)
    }

    /// Shares of unanswered queries and of lost connections, and whether each goal is missed.
    fn losses(&self, load: u64, summary: &Summary) -> (f64, f64, Vec<bool>) {
        let lost = if self.what == Load::Connections { lost_connections(load, summary) } else { 0.0 };
        let unanswered = 1.0 - summary.queries.answered as f64 / summary.queries.sent.max(1) as f64;
        let missed = self.goals.iter().map(|goal| misses(goal, unanswered, lost, summary)).collect();
        (unanswered, lost, missed)
    }

    /// Why the intended load was not made.
    fn not_made(&self, Intended { load, duration_s }: Intended, report: &RunReport) -> Option<Unfit> {
        let summary = &report.summary;
        match self.what {
            Load::Qps | Load::Handshakes => {
                let (due, sent) = (summary.queries.trace.unwrap_or(0), summary.queries.sent);
                // With random gaps, the number of due queries varies around the load. A single query has no rate.
                let rate = summary.rate.sent_qps.unwrap_or(f64::INFINITY).min(sent as f64 / duration_s);
                let is_made = sent > 0 && rate >= due as f64 / duration_s * MADE;
                let missed = || Unfit::Client(format!("sent {rate:.0} of {load} q/s"));
                (!is_made).then(|| self.unfaithful(report).unwrap_or_else(missed))
            }
            Load::Clients | Load::Connections => {
                let clients = summary.clients.total;
                let none = || {
                    let clients = counted(clients, "client", "clients");
                    Unfit::Never(format!("the trace has only {clients} with queries within a trial"))
                };
                (clients < load).then(|| self.unfaithful(report).unwrap_or_else(none))
            }
        }
    }

    /// Why the result may not be due to the server.
    fn unfaithful(&self, report: &RunReport) -> Option<Unfit> {
        let is_in_time = self.is_in_time(report);
        // A server that is searched for its limit waits for cores, as does the client beside it.
        let counts = |check: &&Check| !(check.ok || check.is_of_waiting() || is_in_time && check.is_of_timing());
        let told = |check: &Check| {
            let name = words::check(&check.name);
            Unfit::Disturbed(format!("{name}: {}, the limit is {}", check.value, check.limit))
        };
        let disturbed = match (is_in_time, self.late_at_most_s) {
            (false, _) => report.disturbance(),
            (true, None) => report.neighbours(),
            (true, Some(_)) => None,
        };
        let bottleneck = || report.warnings.iter().find(|warning| warning.code == WarningCode::ClientBottleneck);
        let failed = || report.verdict.checks.iter().find(counts);
        let unsent = || report.warnings.iter().find(|warning| warning.code == WarningCode::NotSent);
        let told_unsent = || unsent().map(|warning| Unfit::Client(warning.text.clone()));
        disturbed
            .map(Unfit::Disturbed)
            .or_else(|| bottleneck().map(|warning| Unfit::Client(warning.text.clone())))
            .or_else(|| {
                failed().map(|check| told_unsent().filter(|_| check.name == "not_sent").unwrap_or_else(|| told(check)))
            })
    }

    /// Whether queries were no later than the file allows, or than changes no judgement.
    fn is_in_time(&self, report: &RunReport) -> bool {
        let late = self.late_at_most_s.or_else(|| self.harmless_s()).zip(report.summary.timing.error_us);
        late.is_some_and(|(most, error)| error.p99 <= most * 1e6)
    }

    /// A tenth of the least latency that a goal allows, in seconds; `None` where none is about latency.
    fn harmless_s(&self) -> Option<f64> {
        let bounds = self.goals.iter().flat_map(|goal| &goal.hold).filter_map(|expectation| {
            let is_latency = matches!(expectation.quantity, Quantity::Latency { .. });
            expectation.bound.time_s().filter(|_| is_latency)
        });
        bounds.min_by(f64::total_cmp).map(|bound| bound / 10.0)
    }
}

/// Connections closed by the server, in order or not.
fn closed_by_server(summary: &Summary) -> u64 {
    let closed = &summary.connections.closed;
    BY_SERVER.iter().filter_map(|by| closed.get(*by)).sum()
}

/// The share of the connections that were not open from their client's first query to the end of the trial.
fn lost_connections(load: u64, summary: &Summary) -> f64 {
    let connections = &summary.connections;
    let closed: u64 = connections.closed.values().sum();
    let lost = closed + load.saturating_sub(connections.opened);
    (lost as f64 / load as f64).min(1.0)
}

/// Whether a goal is missed, which makes it a high-loss trial. All connections must be held, except for the share that may be lost.
fn misses(goal: &Goal, unanswered: f64, lost: f64, summary: &Summary) -> bool {
    let is_lossy = goal.loss_ratio.is_some_and(|goal| unanswered > goal);
    is_lossy
        || lost > goal.loss_ratio.unwrap_or(0.0)
        || goal.hold.iter().any(|expectation| !expectation.judge(summary).ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_results::{Clients, Connections, Queries, Rate, Spread, Verdict, Warning};
    use ldplayer_workload::spec::read;

    fn find(text: &str) -> Find {
        read(&format!("[find]\n{text}"), |root| Find::read(&root.get("find").expect("a table"))).unwrap()
    }

    const fn second(load: u64) -> Intended {
        Intended { load, duration_s: 1.0 }
    }

    /// A faithful run of 1,000 q/s with 10 clients.
    fn report(answered: u64, open: u64) -> RunReport {
        let summary = Summary {
            queries: Queries { trace: Some(1_000), sent: 1_000, answered, ..Queries::default() },
            rate: Rate { sent_qps: Some(998.0), ..Rate::default() },
            clients: Clients { total: 10, ..Clients::default() },
            connections: Connections { opened: open, ..Connections::default() },
            ..Summary::default()
        };
        RunReport { summary, verdict: Verdict { ok: true, ..Verdict::default() }, ..RunReport::default() }
    }

    fn unfaithful_report(answered: u64) -> RunReport {
        let check = Check { name: "timing_p99".into(), limit: "1 ms".into(), value: "9 ms".into(), ..Check::default() };
        RunReport { verdict: Verdict { checks: vec![check], ..Verdict::default() }, ..report(answered, 0) }
    }

    fn measured(loss_ratio: f64, is_high_loss: &[bool]) -> Took {
        Took::Measured { loss_ratio, is_high_loss: is_high_loss.to_vec() }
    }

    const TWO: &str =
        "what = 'qps'\n[[find.goal]]\nwhile = 'answered >= 99.9 %'\n[[find.goal]]\ngoal_loss_ratio = '50 %'";

    #[test]
    fn each_goal_has_its_own_opinion_of_a_trial() {
        let find = find(TWO);
        assert_eq!(find.judge(second(1_000), &report(1_000, 0)), measured(0.0, &[false, false]));
        assert_eq!(find.judge(second(1_000), &report(750, 0)), measured(0.25, &[true, false]));
        assert_eq!(find.judge(second(1_000), &report(250, 0)), measured(0.75, &[true, true]));
    }

    #[test]
    fn a_disturbed_trial_counts_for_the_server_and_never_against_it() {
        let find = find(TWO);
        assert_eq!(find.judge(second(1_000), &unfaithful_report(1_000)), measured(0.0, &[false, false]));
        let Took::Unfit(Unfit::Disturbed(why)) = find.judge(second(1_000), &unfaithful_report(250)) else { panic!() };
        assert_eq!(why, "99th percentile of the timing error: 9 ms, the limit is 1 ms");
    }

    #[test]
    fn a_trial_that_was_late_counts_against_the_server_up_to_what_the_file_allows() {
        let late = |p99_us: f64| {
            let mut report = unfaithful_report(250);
            report.summary.timing.error_us = Some(Spread { p99: p99_us, ..Spread::default() });
            report
        };
        let patient = find(&format!("late_at_most = '20ms'\n{TWO}"));
        assert_eq!(patient.judge(second(1_000), &late(20_000.0)), measured(0.75, &[true, true]));
        assert!(matches!(patient.judge(second(1_000), &late(20_001.0)), Took::Unfit(Unfit::Disturbed(_))));
        assert!(matches!(find(TWO).judge(second(1_000), &late(9_000.0)), Took::Unfit(Unfit::Disturbed(_))));
        // By default, up to a tenth of the latency that is asked for, unless a neighbour had the cores.
        let quick = find("what = 'qps'\nwhile = ['answered >= 99.9 %', 'p99 <= 50ms', 'p50 <= 100ms']");
        assert_eq!(quick.judge(second(1_000), &late(5_000.0)), measured(0.75, &[true]));
        assert!(matches!(quick.judge(second(1_000), &late(5_001.0)), Took::Unfit(Unfit::Disturbed(_))));
        // What has nothing to do with lateness is no less of a reason, and where nothing has a time nobody knows.
        let mut lost = late(9_000.0);
        lost.verdict.checks[0].name = "accounting".into();
        assert!(matches!(patient.judge(second(1_000), &lost), Took::Unfit(Unfit::Disturbed(_))));
        assert!(matches!(patient.judge(second(1_000), &unfaithful_report(250)), Took::Unfit(Unfit::Disturbed(_))));
    }

    #[test]
    fn a_load_that_the_client_did_not_make_says_nothing_of_the_server() {
        let find = find(TWO);
        // What is due within a second took longer, or was not sent at all.
        let mut slow = report(1_000, 0);
        slow.summary.rate.sent_qps = Some(900.0);
        assert_eq!(find.judge(second(1_000), &slow), Took::Unfit(Unfit::Client("sent 900 of 1000 q/s".to_owned())));
        let mut part = report(900, 0);
        part.summary.queries.sent = 900;
        assert!(matches!(find.judge(second(1_000), &part), Took::Unfit(Unfit::Client(_))));
        let warning = Warning::with_remedy(WarningCode::ClientBottleneck, "worker 0 had no rest".to_owned(), "rest");
        let busy = RunReport { warnings: vec![warning], ..report(250, 0) };
        assert_eq!(find.judge(second(1_000), &busy), Took::Unfit(Unfit::Client("worker 0 had no rest".to_owned())));
    }

    #[test]
    fn a_load_of_one_query_or_of_random_gaps_is_made_when_all_that_was_due_was_sent() {
        let find = find(TWO);
        let mut one = report(1, 0);
        (one.summary.queries.trace, one.summary.queries.sent, one.summary.rate.sent_qps) = (Some(1), 1, None);
        assert_eq!(find.judge(second(1), &one), measured(0.0, &[false, false]));
        assert_eq!(find.judge(second(1_050), &report(1_000, 0)), measured(0.0, &[false, false]));
        (one.summary.queries.trace, one.summary.queries.sent) = (Some(0), 0);
        assert!(matches!(find.judge(second(1), &one), Took::Unfit(_)), "nothing was measured");
    }

    #[test]
    fn clients_that_the_trace_does_not_have_are_no_limit_of_the_server() {
        let find = find("what = 'clients'\nwhile = 'answered >= 99 %'");
        assert_eq!(find.judge(second(10), &report(1_000, 0)), measured(0.0, &[false]));
        let Took::Unfit(Unfit::Never(why)) = find.judge(second(11), &report(1_000, 0)) else { panic!() };
        assert!(why.contains("10 clients"), "{why}");
    }

    #[test]
    fn connections_that_are_not_held_are_lost_whatever_was_answered() {
        let find = find("what = 'connections'\nwhile = 'answered >= 99 %'");
        assert_eq!(find.judge(second(10), &report(1_000, 10)), measured(0.0, &[false]));
        assert_eq!(find.judge(second(10), &report(1_000, 8)), measured(0.2, &[true]));
        // One that the server closed is lost, also where its client has another by now, and also in a run that was not on time.
        let mut closing = unfaithful_report(1_000);
        closing.summary.connections =
            Connections { opened: 11, closed: [("server".to_owned(), 1)].into(), ..Connections::default() };
        assert_eq!(find.judge(second(10), &closing), measured(0.1, &[true]));
        // One that did not come up may be our doing.
        closing.summary.connections = Connections { opened: 9, ..Connections::default() };
        assert!(matches!(find.judge(second(10), &closing), Took::Unfit(Unfit::Disturbed(_))));
    }
}
