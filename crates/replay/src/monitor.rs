//! What can be seen of a run from outside, and how it is stopped.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::counts::Counts;
use crate::table::ConnectionCounts;

/// Gauges of all workers, and the wish to stop. Shared by those who make a run and those who watch it.
#[derive(Debug)]
pub struct Monitor {
    stop: AtomicBool,
    abort: AtomicBool,
    /// One gauge a worker.
    pub workers: Vec<Gauge>,
    /// Queries read from the trace so far.
    pub read: AtomicU64,
}

/// The accounts of one worker, as of its last hand-over (20 times a second at least).
#[derive(Debug, Default)]
pub struct Gauge {
    sent: AtomicU64,
    answered: AtomicU64,
    timed_out: AtomicU64,
    failed: AtomicU64,
    not_sent: AtomicU64,
    stray: AtomicU64,
    late: AtomicU64,
    connections: Mutex<ConnectionCounts>,
    /// The greatest lateness since the hand-over before, in nanoseconds.
    pub lag_ns: AtomicI64,
}

impl Monitor {
    /// Gauges for `workers` workers.
    pub fn new(workers: usize) -> Arc<Self> {
        let workers = (0..workers).map(|_| Gauge::default()).collect();
        let [stop, abort] = [(); 2].map(|()| AtomicBool::new(false));
        Arc::new(Self { stop, abort, workers, read: AtomicU64::new(0) })
    }

    /// Asks the run to end: nothing more is sent, what is outstanding is waited for a moment, all is recorded.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Asks the run to end at once: what is outstanding is not waited for. All is recorded still.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether the run was asked to end at once.
    pub fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Whether the run was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The accounts of all workers together.
    pub fn counts(&self) -> Counts {
        self.workers.iter().map(Gauge::get).fold(Counts::default(), |sum, counts| sum.plus(&counts))
    }

    /// The accounts of each worker, with the greatest lateness of its last period in nanoseconds.
    pub fn by_worker(&self) -> impl Iterator<Item = (Counts, i64)> {
        self.workers.iter().map(|gauge| (gauge.get(), gauge.lag_ns.load(Ordering::Relaxed)))
    }

    /// The accounts of the connections of all workers together.
    pub fn connections(&self) -> ConnectionCounts {
        self.workers.iter().map(Gauge::connections).fold(ConnectionCounts::default(), |sum, counts| sum.plus(&counts))
    }

    /// The greatest lateness of any worker in its last period, in nanoseconds.
    pub fn lag_ns(&self) -> i64 {
        self.workers.iter().map(|gauge| gauge.lag_ns.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

impl Gauge {
    /// Shows new accounts.
    pub fn set(&self, counts: &Counts) {
        for (gauge, value) in [
            (&self.sent, counts.sent),
            (&self.answered, counts.answered),
            (&self.timed_out, counts.timed_out),
            (&self.failed, counts.failed),
            (&self.not_sent, counts.not_sent),
            (&self.stray, counts.stray),
            (&self.late, counts.late),
        ] {
            gauge.store(value, Ordering::Relaxed);
        }
    }

    /// Shows new accounts of connections.
    pub fn set_connections(&self, counts: &ConnectionCounts) {
        // A thread that panicked cannot have left half of the figures.
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = *counts;
    }

    fn connections(&self) -> ConnectionCounts {
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Counts {
        let load = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        let (sent, not_sent) = (load(&self.sent), load(&self.not_sent));
        Counts {
            taken: sent + not_sent,
            sent,
            answered: load(&self.answered),
            timed_out: load(&self.timed_out),
            failed: load(&self.failed),
            not_sent,
            stray: load(&self.stray),
            late: load(&self.late),
        }
    }
}
