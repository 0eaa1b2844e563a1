//! Hands rows to the recorder and figures to the monitor.

use std::sync::atomic::Ordering;

use ldplayer_core::RunTime;
use ldplayer_net::clock;

use super::{SOON, Worker};
use crate::monitor::Gauge;

/// Rows per hand-over to the recorder.
const ROWS: usize = 1_024;
/// Interval of handing over rows and gauges, in nanoseconds …
pub(super) const FLUSH_EVERY: i64 = 50_000_000;
/// … or, while a query is soon due, the maximum interval: waking the recorder takes up to 20 µs.
pub(super) const FLUSH_AT_LEAST: i64 = 200_000_000;

impl Worker<'_> {
    pub(super) fn flush_when_due(&mut self, now: RunTime) {
        let since = now - self.flushed;
        let is_time = since >= FLUSH_AT_LEAST || (since >= FLUSH_EVERY && !self.is_soon_due());
        if is_time || self.transports.outcomes().into_iter().any(|rows| rows.len() >= ROWS) {
            self.flushed = now;
            self.flush();
        }
    }

    fn is_soon_due(&self) -> bool {
        !self.settings.fast && self.next.as_ref().is_some_and(|query| query.due - self.now() < SOON)
    }

    /// Hands over the responses that are kept.
    fn hand_over_responses(&mut self) {
        let Some(responses) = &self.links.extras.responses else { return };
        for kept in self.transports.heard().into_iter().filter_map(|heard| heard.kept.as_mut()) {
            if kept.rows.is_empty() {
                continue;
            }
            let next = Vec::with_capacity(kept.rows.len());
            let began = responses.is_full().then(clock::monotonic_ns);
            // The receiver is gone only when the run is being torn down.
            let _ = responses.send(std::mem::replace(&mut kept.rows, next));
            if let Some(began) = began {
                self.end.recorder_full += 1;
                self.load.note_blocked(clock::monotonic_ns() - began);
            }
        }
    }

    /// Hands rows to the recorder, and counters to the monitor.
    pub(super) fn flush(&mut self) {
        self.pair_up();
        self.hand_over_responses();
        let gauge: &Gauge = &self.monitor.workers[self.number];
        gauge.set(&self.transports.counts());
        gauge.set_connections(&self.transports.connection_counts());
        gauge.lag_ns.store(std::mem::take(&mut self.lag), Ordering::Relaxed);
        for rows in self.transports.outcomes().into_iter().filter(|rows| !rows.is_empty()) {
            let spare = self.links.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(ROWS * 2));
            let rows = std::mem::replace(rows, spare);
            let began = self.links.rows.is_full().then(clock::monotonic_ns);
            // The recorder is gone only when the run is being torn down after a panic.
            let _ = self.links.rows.send((self.shard, rows));
            if let Some(began) = began {
                self.end.recorder_full += 1;
                self.load.note_blocked(clock::monotonic_ns() - began);
            }
        }
    }
}
