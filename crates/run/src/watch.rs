//! Watches a run: samples telemetry on the run's clock, and checks whether to stop.

mod last_second;
mod sampler;
mod samples;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_net::counters::{self, Place};
use ldplayer_net::machine;
use ldplayer_replay::{Counts, Monitor};
use ldplayer_report::metrics::Latencies;
use ldplayer_results::TelemetrySample;

use crate::time_limit::TimeLimit;

pub use self::last_second::LastSecond;
pub use self::sampler::Plan as Sampled;
use self::sampler::Sampler;
pub use self::server::ServerWatch;

/// Interval of calling the observer.
pub const TICK: Duration = Duration::from_millis(50);

/// Observes a run.
pub trait Observer: Send {
    /// Called about twenty times a second. Returns whether to continue.
    fn look(&mut self, progress: &Progress) -> Wish;

    /// Whether it shows latencies, which are counted where somebody does.
    fn wants_latencies(&self) -> bool {
        false
    }

    /// Something happened that whoever looks on should know now.
    fn notice(&mut self, _text: &str) {}
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Run time; negative before the start.
    pub at: RunTime,
    /// The counters so far.
    pub counts: Counts,
    /// The largest lateness of any worker in its last period, in nanoseconds.
    pub lag_ns: i64,
    /// Median and 99th percentile of the latencies of the last second in nanoseconds, if counted.
    pub latency_ns: Option<(i64, i64)>,
}

/// An observer's wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// To continue.
    #[default]
    GoOn,
    /// To stop sending, wait a moment for outstanding answers, and save everything.
    Stop,
    /// To end at once and save everything.
    Abort,
}

/// An observer that only waits for the end.
impl Observer for () {
    fn look(&mut self, _: &Progress) -> Wish {
        Wish::GoOn
    }
}

/// Observations during a replay.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// Samples in run time.
    pub samples: Vec<TelemetrySample>,
    /// Datagrams dropped by the kernel in this namespace during the run because receive buffers were full; `None` if unknown.
    pub udp_drops: Option<u64>,
    /// Those of them that the sockets of the watched server dropped; 0 where it is in another namespace.
    pub server_drops: u64,
    /// Share of CPU time stolen by the host, from 0 to 1.
    pub steal: f64,
}

/// Runs `replay` with an observer until `limit` at most, and samples telemetry as `sampled` says. Run time 0 is at `origin` of
/// CLOCK_MONOTONIC.
pub fn watch<T>(
    monitor: &Monitor,
    sampled: &sampler::Plan,
    origin: i64,
    limit: &TimeLimit,
    observer: &mut dyn Observer,
    latencies: Option<&Latencies>,
    replay: impl FnOnce() -> T,
) -> (T, Telemetry) {
    let done = AtomicBool::new(false);
    let (udp_drops, steal) = (udp_drops(), machine::cpu_times());
    let (result, (samples, server_drops)) = thread::scope(|scope| {
        let (end, until) = mpsc::channel();
        let sampler = Sampler::new(monitor, sampled, origin);
        let sampler = scope.spawn(move || sampler.run(&until));
        let watcher = Watcher { monitor, shown: monitor, origin, limit, latencies };
        scope.spawn(|| watcher.run(observer, &done));
        let result = replay();
        done.store(true, Ordering::Relaxed);
        drop(end);
        // If the sampler panicked, only its samples are lost.
        (result, sampler.join().unwrap_or_default())
    });
    let telemetry = Telemetry {
        samples,
        server_drops,
        udp_drops: self::udp_drops().zip(udp_drops).map(|(after, before)| after.saturating_sub(before)),
        steal: machine::cpu_times().steal_share_since(&steal),
    };
    (result, telemetry)
}

/// Runs the phase after a replay with its observer, who may stop it through `monitor` and still sees the progress of the replay.
pub fn watch_on<T>(
    monitor: &Monitor,
    replayed: &Monitor,
    origin: i64,
    observer: &mut dyn Observer,
    act: impl FnOnce() -> T,
) -> T {
    let (done, limit) = (AtomicBool::new(false), TimeLimit::default());
    thread::scope(|scope| {
        let watcher = Watcher { monitor, shown: replayed, origin, limit: &limit, latencies: None };
        scope.spawn(|| watcher.run(observer, &done));
        let result = act();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Datagrams dropped by the kernel in this namespace because receive buffers were full.
fn udp_drops() -> Option<u64> {
    counters::read(Place::Own).udp_receive_buffer_errors
}

struct Watcher<'a> {
    monitor: &'a Monitor,
    /// The source of the counters shown.
    shown: &'a Monitor,
    origin: i64,
    limit: &'a TimeLimit,
    latencies: Option<&'a Latencies>,
}

impl Watcher<'_> {
    fn run(self, observer: &mut dyn Observer, done: &AtomicBool) {
        let mut last = LastSecond::default();
        while !done.load(Ordering::Relaxed) {
            if let Some(latencies) = self.latencies.filter(|_| last.is_due()) {
                last.look(latencies.fine());
            }
            match observer.look(&self.progress(&last)) {
                Wish::GoOn => {}
                Wish::Stop => self.monitor.stop(),
                Wish::Abort => self.monitor.abort(),
            }
            self.limit.check(self.now(), self.monitor);
            thread::sleep(self.limit.wait(self.now(), TICK));
        }
    }

    fn progress(&self, last: &LastSecond) -> Progress {
        Progress {
            at: self.now(),
            counts: self.shown.counts(),
            lag_ns: self.shown.lag_ns(),
            latency_ns: last.quantiles(),
        }
    }

    fn now(&self) -> RunTime {
        RunTime(clock::monotonic_ns() - self.origin)
    }
}
