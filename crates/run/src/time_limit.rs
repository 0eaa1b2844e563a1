//! The end by the clock of a run whose queries have no due times.
//!
//! Where queries are due, those due later are not planned. Where each is sent as soon as another is answered, only the clock can
//! end the run: what has been read ahead by then was never going to be sent, and is no part of it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ldplayer_core::{Outcome, Reason, RunTime, Status};
use ldplayer_replay::Monitor;

/// When a run ends by the clock, and whether it did.
#[derive(Debug, Default)]
pub struct TimeLimit {
    end: Option<RunTime>,
    is_up: AtomicBool,
}

impl TimeLimit {
    /// The run ends at this run time; `None` if it ends with its queries.
    pub fn new(end: Option<RunTime>) -> Self {
        Self { end, is_up: AtomicBool::new(false) }
    }

    /// Stops the sending once the time is up, unless something else has stopped it before.
    pub fn check(&self, now: RunTime, monitor: &Monitor) {
        if self.end.is_some_and(|end| now >= end) && !monitor.is_stopped() {
            self.is_up.store(true, Ordering::Relaxed);
            monitor.stop();
        }
    }

    /// How long to wait for the next check, at most `most`.
    pub fn wait(&self, now: RunTime, most: Duration) -> Duration {
        match self.end {
            Some(end) if end > now => most.min(Duration::from_nanos((end - now).unsigned_abs())),
            _ => most,
        }
    }

    /// Whether it ended the sending.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// The rows that are part of the run: without queries that were only read ahead.
    pub fn within<'a>(&self, rows: &'a [Outcome]) -> Cow<'a, [Outcome]> {
        if !self.is_up() || !rows.iter().any(was_read_ahead) {
            return Cow::Borrowed(rows);
        }
        rows.iter().filter(|row| !was_read_ahead(row)).cloned().collect()
    }
}

fn was_read_ahead(row: &Outcome) -> bool {
    row.status == Status::NotSent && row.reason == Some(Reason::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ldplayer_core::{Expected, Query, Transport};

    use super::*;

    fn not_sent(index: u64, reason: Reason) -> Outcome {
        let query = Query {
            index,
            due: RunTime(0),
            client: Ipv4Addr::LOCALHOST.into(),
            client_port: 0,
            server: (Ipv4Addr::LOCALHOST, 53).into(),
            transport: Transport::Udp,
            class: None,
            expected: Expected::Nothing,
            dependency: None,
            wire: Default::default(),
        };
        Outcome::not_sent(&query, reason)
    }

    #[test]
    fn the_clock_ends_a_run_once_and_never_one_that_was_stopped_before() {
        let (limit, monitor) = (TimeLimit::new(Some(RunTime(100))), Monitor::new(1));
        limit.check(RunTime(99), &monitor);
        assert!(!limit.is_up() && !monitor.is_stopped());
        limit.check(RunTime(100), &monitor);
        assert!(limit.is_up() && monitor.is_stopped());
        let stopped = TimeLimit::new(Some(RunTime(100)));
        stopped.check(RunTime(100), &monitor);
        assert!(!stopped.is_up(), "somebody else stopped it");
        let (endless, running) = (TimeLimit::default(), Monitor::new(1));
        endless.check(RunTime(i64::MAX), &running);
        assert!(!endless.is_up() && !running.is_stopped());
    }

    #[test]
    fn the_next_check_is_no_later_than_the_end() {
        let (limit, most) = (TimeLimit::new(Some(RunTime(100))), Duration::from_nanos(70));
        let waits = [-50, 20, 60, 100, 500].map(|now| limit.wait(RunTime(now), most).as_nanos());
        assert_eq!(waits, [70, 70, 40, 70, 70]);
        assert_eq!(TimeLimit::default().wait(RunTime(0), most), most);
    }

    #[test]
    fn what_was_only_read_ahead_is_no_part_of_a_run_whose_time_is_up() {
        let (limit, monitor) = (TimeLimit::new(Some(RunTime(0))), Monitor::new(1));
        let rows = [not_sent(0, Reason::Lag), not_sent(1, Reason::Interrupted)];
        assert_eq!(limit.within(&rows).len(), 2, "a run that is interrupted accounts for every query");
        limit.check(RunTime(0), &monitor);
        assert_eq!(*limit.within(&rows), rows[..1]);
    }
}
