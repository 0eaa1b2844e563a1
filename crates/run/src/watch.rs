//! What happens beside the replay: samples of telemetry on the run's clock, and a look at whether it is to end.

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
use ldplayer_results::TelemetrySample;
use ldplayer_results::metrics::Latencies;

pub use self::last_second::LastSecond;
pub use self::sampler::Plan as Sampled;
use self::sampler::Sampler;
pub use self::server::ServerWatch;

/// How often the observer is asked.
pub const TICK: Duration = Duration::from_millis(50);

/// Who looks on while a run lasts.
pub trait Observer: Send {
    /// Called some twenty times a second. Returns whether the run is to go on.
    fn look(&mut self, progress: &Progress) -> Wish;

    /// Whether it shows latencies, which are counted where somebody does.
    fn wants_latencies(&self) -> bool {
        false
    }

    /// Something happened that whoever looks on should know now.
    fn notice(&mut self, _text: &str) {}
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// The run's clock; negative before its start.
    pub at: RunTime,
    /// The accounts so far.
    pub counts: Counts,
    /// The greatest lateness of any worker in its last period, in nanoseconds.
    pub lag_ns: i64,
    /// Median and 99th percentile of the latencies of the last second in nanoseconds, where they are counted.
    pub latency_ns: Option<(i64, i64)>,
}

/// What an observer wants of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// That it goes on.
    #[default]
    GoOn,
    /// That it sends nothing more, waits a moment for what is in flight, and keeps all.
    Stop,
    /// That it ends at once and keeps all.
    Abort,
}

/// An observer that only waits for the end.
impl Observer for () {
    fn look(&mut self, _: &Progress) -> Wish {
        Wish::GoOn
    }
}

/// What was seen beside the replay.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// Samples on the run's time axis.
    pub samples: Vec<TelemetrySample>,
    /// Datagrams that the kernel dropped in this namespace over the run, for lack of buffer; `None` where it does not say.
    pub udp_drops: Option<u64>,
    /// Share of the run's CPU time that the host took away, from 0 to 1.
    pub steal: f64,
}

/// Runs `replay` while an observer looks on, and telemetry is taken of what `sampled` says. Run time 0 is at `origin` of CLOCK_MONOTONIC.
pub fn watch<T>(
    monitor: &Monitor,
    sampled: &sampler::Plan,
    origin: i64,
    observer: &mut dyn Observer,
    latencies: Option<&Latencies>,
    replay: impl FnOnce() -> T,
) -> (T, Telemetry) {
    let done = AtomicBool::new(false);
    let (udp_drops, steal) = (udp_drops(), machine::cpu_times());
    let (result, samples) = thread::scope(|scope| {
        let (end, until) = mpsc::channel();
        let sampler = Sampler::new(monitor, sampled, origin);
        let sampler = scope.spawn(move || sampler.run(&until));
        let watcher = Watcher { monitor, shown: monitor, origin, latencies };
        scope.spawn(|| watcher.run(observer, &done));
        let result = replay();
        done.store(true, Ordering::Relaxed);
        drop(end);
        // A sampler that panicked has nothing to tell; the replay's result is what counts.
        (result, sampler.join().unwrap_or_default())
    });
    let telemetry = Telemetry {
        samples,
        udp_drops: self::udp_drops().zip(udp_drops).map(|(after, before)| after.saturating_sub(before)),
        steal: machine::cpu_times().steal_share_since(&steal),
    };
    (result, telemetry)
}

/// Runs what follows a replay while its observer looks on: it may ask `monitor` to stop, and sees how far the replay came.
pub fn watch_on<T>(
    monitor: &Monitor,
    replayed: &Monitor,
    origin: i64,
    observer: &mut dyn Observer,
    act: impl FnOnce() -> T,
) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = Watcher { monitor, shown: replayed, origin, latencies: None };
        scope.spawn(|| watcher.run(observer, &done));
        let result = act();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Datagrams that the kernel has dropped in this namespace for lack of buffer.
fn udp_drops() -> Option<u64> {
    counters::read(Place::Own).udp_receive_buffer_errors
}

struct Watcher<'a> {
    monitor: &'a Monitor,
    /// Whose accounts are shown.
    shown: &'a Monitor,
    origin: i64,
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
            thread::sleep(TICK);
        }
    }

    fn progress(&self, last: &LastSecond) -> Progress {
        let at = RunTime(clock::monotonic_ns() - self.origin);
        Progress { at, counts: self.shown.counts(), lag_ns: self.shown.lag_ns(), latency_ns: last.quantiles() }
    }
}
