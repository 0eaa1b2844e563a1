//! Hands rows to the recorder and figures to the monitor.

use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender};
use ldplayer_core::{Outcome, RunTime, Transaction};
use ldplayer_net::clock;

use super::load::Load;
use super::transports::Transports;
use crate::monitor::Gauge;

/// Rows per hand-over to the recorder.
const ROWS: usize = 1_024;
/// Interval of handing over rows and gauges, in nanoseconds …
const FLUSH_EVERY: i64 = 50_000_000;
/// … or, while a query is soon due, the maximum interval: waking the recorder takes up to 20 µs.
const FLUSH_AT_LEAST: i64 = 200_000_000;

/// The way of a worker's rows.
pub struct HandOver<'a> {
    shard: usize,
    gauge: &'a Gauge,
    rows: Sender<(usize, Vec<Outcome>)>,
    /// Emptied buffers for reuse.
    spare: Receiver<Vec<Outcome>>,
    /// Where responses go, if they are kept.
    responses: Option<Sender<Vec<Transaction>>>,
    flushed: RunTime,
    /// The largest lateness of a query since then.
    lag: i64,
    /// Hand-overs that had to wait for the recorder.
    recorder_full: u64,
}

impl<'a> HandOver<'a> {
    /// The way of the rows of a shard.
    pub fn new(
        shard: usize,
        gauge: &'a Gauge,
        rows: Sender<(usize, Vec<Outcome>)>,
        spare: Receiver<Vec<Outcome>>,
        responses: Option<Sender<Vec<Transaction>>>,
    ) -> Self {
        Self { shard, gauge, rows, spare, responses, flushed: RunTime(0), lag: 0, recorder_full: 0 }
    }

    /// Notes how late a query is.
    pub fn note_lag(&mut self, lag: i64) {
        self.lag = self.lag.max(lag);
    }

    /// Whether it is time to hand over rows: later while a query `is_soon_due`.
    pub fn is_due(&mut self, now: RunTime, is_soon_due: impl Fn() -> bool, transports: &mut Transports) -> bool {
        let since = now - self.flushed;
        let is_time = since >= FLUSH_AT_LEAST || (since >= FLUSH_EVERY && !is_soon_due());
        let is_due = is_time || transports.outcomes().into_iter().any(|rows| rows.len() >= ROWS);
        if is_due {
            self.flushed = now;
        }
        is_due
    }

    /// When rows are handed over next, in nanoseconds of run time.
    pub fn deadline(&self, now: RunTime) -> i64 {
        let overdue = now - self.flushed >= FLUSH_EVERY;
        self.flushed.0 + if overdue { FLUSH_AT_LEAST } else { FLUSH_EVERY }
    }

    /// Hand-overs that had to wait for the recorder.
    pub const fn recorder_full(&self) -> u64 {
        self.recorder_full
    }

    /// Hands rows to the recorder, and counters to the monitor.
    pub fn flush(&mut self, transports: &mut Transports, load: &mut Load) {
        self.flush_responses(transports, load);
        self.gauge.set(&transports.counts());
        self.gauge.set_connections(&transports.connection_counts());
        self.gauge.lag_ns.store(std::mem::take(&mut self.lag), Ordering::Relaxed);
        for rows in transports.outcomes().into_iter().filter(|rows| !rows.is_empty()) {
            let spare = self.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(ROWS * 2));
            let rows = std::mem::replace(rows, spare);
            let began = self.rows.is_full().then(clock::monotonic_ns);
            // The recorder is gone only when the run is being torn down after a panic.
            let _ = self.rows.send((self.shard, rows));
            self.recorder_full += waited(began, load);
        }
    }

    /// Hands over the responses that are kept.
    fn flush_responses(&mut self, transports: &mut Transports, load: &mut Load) {
        let Some(responses) = &self.responses else { return };
        for kept in transports.response_sinks().into_iter().filter_map(|sink| sink.kept.as_mut()) {
            if kept.rows.is_empty() {
                continue;
            }
            let next = Vec::with_capacity(kept.rows.len());
            let began = responses.is_full().then(clock::monotonic_ns);
            // The receiver is gone only when the run is being torn down.
            let _ = responses.send(std::mem::replace(&mut kept.rows, next));
            self.recorder_full += waited(began, load);
        }
    }
}

/// Notes for how long a full queue was waited for, since it `began`, and returns 1 if it was.
fn waited(began: Option<i64>, load: &mut Load) -> u64 {
    began.map_or(0, |began| {
        load.note_blocked(clock::monotonic_ns() - began);
        1
    })
}
