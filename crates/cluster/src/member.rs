//! An agent of a run as the controller sees it: its share, what it said last, and whether it is still there.

use std::time::{Duration, Instant};

use ldplayer_replay::Counts;
use ldplayer_results::AgentShare;
use ldplayer_results::metrics::WorkerFigures;

use crate::clock::{Offset, Skew};
use crate::error::ClusterError;
use crate::message::{Hello, Progress, Say, Stage};

/// How long an agent may say nothing until it is lost. Longer than agents read ahead, so that one that was only frozen has nothing left to send
/// that another one has taken over.
pub const LOST_AFTER: Duration = Duration::from_secs(12);

/// An agent with a share of a run.
#[derive(Debug)]
pub struct Member {
    pub hello: Hello,
    /// The number of its part.
    pub seat: u32,
    /// Whose clients it plays.
    pub shard: u32,
    /// Who had this share before, and was lost.
    pub took_over_from: Option<String>,
    /// The clocks, compared several times.
    pub measured: Vec<Offset>,
    /// What it said last.
    pub progress: Progress,
    /// Whether it was told when to start.
    pub is_started: bool,
    /// Why it is no longer there.
    pub lost: Option<String>,
    /// Whether it was lost, be it that it came back.
    pub was_lost: bool,
    /// Who has its share now.
    pub replaced_by: Option<String>,
    /// Since when it has said nothing.
    silent: Option<Instant>,
    /// Whether it was told that its queries come too late.
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
            silent: None,
            is_behind: false,
        }
    }

    /// It, for people.
    pub fn who(&self) -> String {
        format!("agent {}", self.hello.name)
    }

    pub const fn has_returned(&self) -> bool {
        matches!(self.progress.stage, Stage::Returned { .. })
    }

    /// Whether nothing more is to be expected of it.
    pub const fn is_done(&self) -> bool {
        self.lost.is_some() || self.has_returned()
    }

    /// Takes in what it answered, or that it did not. Returns why it is lost, if it is from now on.
    pub fn hear(&mut self, answer: Result<Say, ClusterError>, now: Instant) -> Option<String> {
        let lost = match answer {
            Ok(Say::Progress(progress)) => {
                self.silent = None;
                let failed = if let Stage::Failed { reason } = &progress.stage { Some(reason.clone()) } else { None };
                // What it told of its latencies holds until it tells more.
                let latencies = progress.latencies.clone().or_else(|| self.progress.latencies.take());
                self.progress = Progress { latencies, ..progress };
                failed
            }
            Ok(Say::No { reason }) => Some(reason),
            Ok(_) | Err(_) => {
                let silent = now.saturating_duration_since(*self.silent.get_or_insert(now));
                (silent >= LOST_AFTER).then(|| format!("it has said nothing for {} s", silent.as_secs()))
            }
        };
        self.was_lost |= lost.is_some();
        self.lost.clone_from(&lost);
        lost
    }

    /// Nobody could be asked: that says nothing of the agent.
    pub const fn nobody_asked(&mut self) {
        self.silent = None;
    }

    /// Whether it answered when it was asked last.
    pub const fn is_heard(&self) -> bool {
        self.silent.is_none()
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

    /// The greatest lateness of its workers in their last period, in nanoseconds.
    pub fn lag_ns(&self) -> i64 {
        let lags = self.progress.figures.workers.iter().map(|worker| worker.lag_s);
        (lags.fold(0.0, f64::max) * 1e9) as i64
    }

    /// How far its clock may be off.
    pub fn skew(&self) -> Option<Skew> {
        Skew::of(&self.measured)
    }

    /// Its share as results have it, by its last word.
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
        assert_eq!((lost.as_deref(), member.is_done()), (Some("it has said nothing for 12 s"), true));
    }

    #[test]
    fn an_agent_that_was_started_anew_is_lost_at_once() {
        let mut member = member();
        let lost = member.hear(Ok(Say::No { reason: "it does not have this run".into() }), Instant::now());
        assert_eq!(lost.as_deref(), Some("it does not have this run"));
        assert_eq!(member.share("a").lost, lost);
    }

    #[test]
    fn latencies_hold_until_more_are_told() {
        use ldplayer_results::metrics::LatencyCounts;
        let mut member = member();
        let told = LatencyCounts { sum_ns: 7, ..LatencyCounts::default() };
        let progress = Progress { latencies: Some(told.clone()), ..Progress::default() };
        let _ = member.hear(Ok(Say::Progress(progress)), Instant::now());
        let _ = member.hear(Ok(Say::Progress(Progress { skipped: 3, ..Progress::default() })), Instant::now());
        assert_eq!((member.progress.latencies, member.progress.skipped), (Some(told), 3));
    }
}
