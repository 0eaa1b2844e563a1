//! An agent as the controller sees it: its share, its last progress, and whether it still answers.

use std::time::{Duration, Instant};

use ldplayer_replay::Counts;
use ldplayer_report::metrics::WorkerFigures;
use ldplayer_results::AgentShare;

use crate::clock::{Offset, Skew};
use crate::error::ClusterError;
use crate::message::{Hello, Progress, Say, Stage};

/// How long an agent may be silent until it is lost. Longer than agents read ahead, so that one that was only frozen
/// has nothing left to send
/// that another one has taken over.
pub const LOST_AFTER: Duration = Duration::from_secs(12);

/// How long an agent may take to fetch the trace.
const FETCHED_WITHIN: Duration = Duration::from_secs(3_600);
/// How long an agent may take until its first queries have arrived.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// An agent with queries for less than this ahead, in nanoseconds, is reported before it is late.
const SOON_NS: i64 = 1_000_000_000;

/// An agent with a share of a run.
#[derive(Debug)]
pub struct Member {
    pub hello: Hello,
    /// The number of its part.
    pub seat: u32,
    /// The shard it plays.
    pub shard: u32,
    /// The lost agent that had this share before.
    pub took_over_from: Option<String>,
    /// Measurements of its clock.
    pub measured: Vec<Offset>,
    /// Its last progress.
    pub progress: Progress,
    /// Whether it has been told when to start.
    pub is_started: bool,
    /// Why it was lost.
    pub lost: Option<String>,
    /// Whether it was lost, even if it came back.
    pub was_lost: bool,
    /// The agent that has its share now.
    pub replaced_by: Option<String>,
    /// Since when it has had its share.
    since: Instant,
    /// Since when it has had the trace, if it fetches that.
    fetched: Instant,
    /// Since when it has been silent.
    silent: Option<Instant>,
    /// Whether it has been reported as falling behind.
    pub is_behind: bool,
}

impl Member {
    pub fn new(hello: Hello, seat: u32, shard: u32) -> Self {
        Self {
            hello,
            seat,
            shard,
            took_over_from: None,
            measured: Vec::new(),
            progress: Progress::default(),
            is_started: false,
            lost: None,
            was_lost: false,
            replaced_by: None,
            since: Instant::now(),
            fetched: Instant::now(),
            silent: None,
            is_behind: false,
        }
    }

    /// How messages name it.
    pub fn who(&self) -> String {
        format!("agent {}", self.hello.name)
    }

    pub const fn has_returned(&self) -> bool {
        matches!(self.progress.stage, Stage::Returned { .. })
    }

    /// Why it ended early by itself, if it did.
    pub fn ended_early(&self) -> Option<&str> {
        let Stage::Returned { ended_early, .. } = &self.progress.stage else { return None };
        ended_early.as_deref()
    }

    /// Whether nothing more is expected of it.
    pub const fn is_done(&self) -> bool {
        self.lost.is_some() || self.has_returned()
    }

    /// Processes its answer, or its silence. Returns why it is lost, if that is new.
    pub fn hear(&mut self, answer: Result<Say, ClusterError>, now: Instant) -> Option<String> {
        let lost = match answer {
            Ok(Say::Progress(progress)) => {
                self.silent = None;
                let failed = match &progress.stage {
                    Stage::Failed { reason } => Some(reason.clone()),
                    Stage::Returned { ended_early, .. } => ended_early.clone(),
                    Stage::Fetching if self.has_waited(now, FETCHED_WITHIN) => {
                        Some(format!("it did not fetch the trace within {} s", FETCHED_WITHIN.as_secs()))
                    }
                    Stage::Fetching => {
                        // It begins to read once it has the trace.
                        self.fetched = now;
                        None
                    }
                    Stage::Preparing if now.saturating_duration_since(self.fetched) > READY_WITHIN => {
                        Some(format!("it received no queries within {} s", READY_WITHIN.as_secs()))
                    }
                    _ => None,
                };
                // Latencies stay valid until it reports new ones.
                let latencies = progress.latencies.clone().or_else(|| self.progress.latencies.take());
                self.progress = Progress { latencies, ..progress };
                failed
            }
            Ok(Say::No { reason }) => Some(reason),
            Ok(_) | Err(_) => {
                let silent = now.saturating_duration_since(*self.silent.get_or_insert(now));
                (silent >= LOST_AFTER).then(|| format!("it has not answered for {} s", silent.as_secs()))
            }
        };
        self.was_lost |= lost.is_some();
        // An agent that ended early has returned its results.
        self.lost = lost.clone().filter(|_| !self.has_returned());
        lost
    }

    fn has_waited(&self, now: Instant, limit: Duration) -> bool {
        now.saturating_duration_since(self.since) > limit
    }

    /// Notes that the agent could not be asked, which is not its fault.
    pub const fn nobody_asked(&mut self) {
        self.silent = None;
    }

    /// Whether it answered the last request.
    pub const fn is_heard(&self) -> bool {
        self.silent.is_none()
    }

    /// How far its queries are ahead, in nanoseconds, if that has just become too short.
    pub fn falls_behind(&mut self, now_ns: i64) -> Option<i64> {
        let Progress { stage: Stage::Running, read_to_ns: Some(read_to), .. } = self.progress else { return None };
        // The last report of a silent agent is outdated.
        if self.is_behind || self.silent.is_some() || now_ns <= 0 || read_to >= now_ns + SOON_NS {
            return None;
        }
        self.is_behind = true;
        Some((read_to - now_ns).max(0))
    }

    /// Its accounts.
    pub fn counts(&self) -> Counts {
        let sum = |figure: fn(&WorkerFigures) -> u64| self.progress.figures.workers.iter().map(figure).sum();
        let (sent, not_sent) = (sum(|worker| worker.sent), sum(|worker| worker.not_sent));
        Counts {
            taken: sent + not_sent,
            sent,
            not_sent,
            answered: sum(|worker| worker.answered),
            timed_out: sum(|worker| worker.timed_out),
            failed: sum(|worker| worker.failed),
            stray: sum(|worker| worker.stray),
            late: sum(|worker| worker.late),
        }
    }

    /// The largest lateness of its workers in their last period, in nanoseconds.
    pub fn lag_ns(&self) -> i64 {
        let lags = self.progress.figures.workers.iter().map(|worker| worker.lag_s);
        (lags.fold(0.0, f64::max) * 1e9) as i64
    }

    /// The accuracy of its clock.
    pub fn skew(&self) -> Option<Skew> {
        Skew::of(&self.measured)
    }

    /// Its share for the results, from its last progress.
    pub fn share(&self, name: &str) -> AgentShare {
        let (counts, skew) = (self.counts(), self.skew());
        let us = |ns: i64| ns as f64 / 1e3;
        AgentShare {
            name: name.to_owned(),
            ldplayer: self.hello.release.clone(),
            cores: self.hello.cores,
            clock: self.hello.clock.clone(),
            shard: self.shard,
            took_over_from: self.took_over_from.clone(),
            replaced_by: self.replaced_by.clone(),
            lost: self.lost.clone(),
            ended_early: self.ended_early().map(str::to_owned),
            sent: counts.sent,
            answered: counts.answered,
            timed_out: counts.timed_out,
            failed: counts.failed,
            not_sent: counts.not_sent,
            skew_us: skew.filter(|skew| skew.measured > 1).map(|skew| us(skew.most_ns())),
            skew_start_us: skew.map(|skew| us(skew.start_ns)),
            skew_drift_us: skew.filter(|skew| skew.measured > 1).map(|skew| us(skew.drift_ns)),
            ..AgentShare::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    fn member() -> Member {
        Member::new(host::hello("a", "x", &[]), 0, 0)
    }

    fn silence() -> Result<Say, ClusterError> {
        Err(ClusterError::GivenUp)
    }

    #[test]
    fn an_agent_is_lost_when_it_says_nothing_for_long_and_not_before() {
        let (mut member, begun) = (member(), Instant::now());
        assert_eq!(member.hear(silence(), begun), None);
        assert_eq!(member.hear(silence(), begun + LOST_AFTER / 2), None);
        assert_eq!(member.hear(Ok(Say::Progress(Progress::default())), begun + LOST_AFTER), None);
        assert_eq!(member.hear(silence(), begun + LOST_AFTER), None, "it spoke a moment ago");
        member.nobody_asked();
        assert_eq!(member.hear(silence(), begun + LOST_AFTER * 3), None, "nobody could ask it in between");
        let lost = member.hear(silence(), begun + LOST_AFTER * 4);
        assert_eq!((lost.as_deref(), member.is_done()), (Some("it has not answered for 12 s"), true));
    }

    #[test]
    fn an_agent_whose_disk_is_full_is_gone_and_its_rows_are_here() {
        let mut member = member();
        let stage = Stage::Returned { files: Vec::new(), ended_early: Some("no space".into()) };
        let lost = member.hear(Ok(Say::Progress(Progress { stage, ..Progress::default() })), Instant::now());
        assert_eq!((lost.as_deref(), member.was_lost, member.is_done()), (Some("no space"), true, true));
        let share = member.share("a");
        assert_eq!((share.lost, share.ended_early.as_deref()), (None, Some("no space")));
    }

    #[test]
    fn an_agent_that_was_started_anew_is_lost_at_once() {
        let mut member = member();
        let lost = member.hear(Ok(Say::No { reason: "it does not know this run".into() }), Instant::now());
        assert_eq!(lost.as_deref(), Some("it does not know this run"));
        assert_eq!(member.share("a").lost, lost);
    }

    #[test]
    fn an_agent_that_never_gets_ready_is_not_waited_for_for_ever() {
        let (mut member, begun) = (member(), Instant::now());
        let preparing = || Ok(Say::Progress(Progress::default()));
        assert_eq!(member.hear(preparing(), begun + READY_WITHIN / 2), None);
        let lost = member.hear(preparing(), begun + READY_WITHIN * 2);
        assert_eq!(lost.as_deref(), Some("it received no queries within 120 s"));
    }

    #[test]
    fn an_agent_that_fetches_a_long_trace_gets_its_time() {
        let (mut member, begun) = (member(), Instant::now());
        let at = |stage| Ok(Say::Progress(Progress { stage, ..Progress::default() }));
        assert_eq!(member.hear(at(Stage::Fetching), begun + READY_WITHIN * 3), None);
        assert_eq!(member.hear(at(Stage::Preparing), begun + READY_WITHIN * 7 / 2), None, "it reads for a minute");
        let lost = member.hear(at(Stage::Fetching), begun + FETCHED_WITHIN * 2);
        assert_eq!(lost.as_deref(), Some("it did not fetch the trace within 3600 s"));
    }

    #[test]
    fn an_agent_that_falls_behind_is_told_of_once_and_before_it_is_late() {
        let second = SOON_NS;
        let mut member = member();
        let mut at = |read_to_ns, now_ns| {
            let progress = Progress { stage: Stage::Running, read_to_ns, ..Progress::default() };
            assert_eq!(member.hear(Ok(Say::Progress(progress)), Instant::now()), None);
            member.falls_behind(now_ns)
        };
        assert_eq!(at(Some(0), -second), None, "it has not begun");
        assert_eq!(at(None, 9 * second), None, "it has all");
        assert_eq!(at(Some(9 * second), 7 * second), None);
        assert_eq!(at(Some(9 * second), 8 * second + second / 2), Some(second / 2));
        assert_eq!(at(Some(9 * second), 9 * second), None, "told already");
    }

    #[test]
    fn latencies_hold_until_more_are_told() {
        use ldplayer_report::metrics::LatencyCounts;
        let mut member = member();
        let told = LatencyCounts { sum_ns: 7, ..LatencyCounts::default() };
        let progress = Progress { latencies: Some(told.clone()), ..Progress::default() };
        let _ = member.hear(Ok(Say::Progress(progress)), Instant::now());
        let _ = member.hear(Ok(Say::Progress(Progress { skipped: 3, ..Progress::default() })), Instant::now());
        assert_eq!((member.progress.latencies, member.progress.skipped), (Some(told), 3));
    }
}
