//! Observes and stops a replay from outside.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ldplayer_net::usage::{self, CoreWait};
use ldplayer_net::wakeups::Thread;

use crate::counts::Counts;
use crate::table::ConnectionCounts;

/// The gauges of all workers, and the stop flag. Shared by the replay and its observers.
#[derive(Debug)]
pub struct Monitor {
    stop: AtomicBool,
    abort: AtomicBool,
    /// One gauge per worker.
    pub workers: Vec<Gauge>,
    /// Queries read from the trace so far.
    pub read: AtomicU64,
}

/// The counters of one worker at its last hand-over (at least 20 times a second).
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
    /// The largest lateness since the previous hand-over, in nanoseconds.
    pub lag_ns: AtomicI64,
    /// The worker's thread while it runs; 0 before and after.
    thread: AtomicU32,
    /// What it had waited for a core when that was last read.
    core_wait: Mutex<Option<CoreWait>>,
}

impl Monitor {
    /// Gauges for `workers` workers.
    pub fn new(workers: usize) -> Arc<Self> {
        let workers = (0..workers).map(|_| Gauge::default()).collect();
        let [stop, abort] = [(); 2].map(|()| AtomicBool::new(false));
        Arc::new(Self { stop, abort, workers, read: AtomicU64::new(0) })
    }

    /// Stops the run: nothing more is sent, outstanding answers are awaited briefly, everything is recorded.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Aborts the run: outstanding answers are not awaited; everything is still recorded.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether the run must end at once.
    pub fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Whether the run must end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The sum of the counters of all workers.
    pub fn counts(&self) -> Counts {
        self.workers.iter().map(Gauge::get).fold(Counts::default(), |sum, counts| sum.plus(&counts))
    }

    /// The counters of each worker, with the largest lateness of its last period in nanoseconds.
    pub fn by_worker(&self) -> impl Iterator<Item = (Counts, i64)> {
        self.workers.iter().map(|gauge| (gauge.get(), gauge.lag_ns.load(Ordering::Relaxed)))
    }

    /// The sum of the connection counters of all workers.
    pub fn connections(&self) -> ConnectionCounts {
        self.workers.iter().map(Gauge::connections).fold(ConnectionCounts::default(), |sum, counts| sum.plus(&counts))
    }

    /// The largest lateness of any worker in its last period, in nanoseconds.
    pub fn lag_ns(&self) -> i64 {
        self.workers.iter().map(|gauge| gauge.lag_ns.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

impl Monitor {
    /// What the workers waited for cores so far; `None` where the kernel does not count it, or before they run.
    pub fn core_wait(&self) -> Option<CoreWait> {
        self.workers.iter().map(Gauge::core_wait).try_fold(CoreWait::default(), |sum, wait| Some(sum + wait?))
    }

    /// The threads of the workers that run.
    pub fn threads(&self) -> Vec<Thread> {
        let numbers = self.workers.iter().map(|gauge| gauge.thread.load(Ordering::Relaxed));
        numbers.filter(|&thread| thread > 0).map(|thread| (std::process::id(), thread)).collect()
    }
}

impl Gauge {
    /// The calling thread becomes the worker.
    pub(crate) fn begin(&self) {
        self.thread.store(usage::own_thread(), Ordering::Relaxed);
    }

    /// The calling thread has worked.
    pub(crate) fn end(&self) {
        self.core_wait();
        self.thread.store(0, Ordering::Relaxed);
    }

    fn core_wait(&self) -> Option<CoreWait> {
        let mut known = self.core_wait.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = self.thread.load(Ordering::Relaxed);
        let read = usage::core_wait(std::process::id(), thread).filter(|_| thread > 0);
        *known = read.or(*known);
        *known
    }

    /// Publishes new counters.
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

    /// Publishes new connection counters.
    pub fn set_connections(&self, counts: &ConnectionCounts) {
        // Figures are replaced as a whole, so that a panicked thread cannot leave half of them.
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
