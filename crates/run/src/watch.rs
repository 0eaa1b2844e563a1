//! What happens beside the replay: samples of telemetry on the run's clock, and a look at whether it is to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_net::machine::{self, UdpCounters};
use ldplayer_net::watched::Watched;
use ldplayer_replay::{Counts, Monitor};
use ldplayer_results::{Side, TelemetrySample};

/// How often the observer is asked.
pub const TICK: Duration = Duration::from_millis(50);
/// Ticks between two samples of telemetry.
const SAMPLE: u32 = 4;

/// Who looks on while a run lasts.
pub trait Observer: Send {
    /// Called some twenty times a second. Returns whether the run is to go on.
    fn look(&mut self, progress: &Progress) -> Wish;
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
    /// The kernel's UDP counters over the run.
    pub udp: UdpCounters,
    /// Share of the run's CPU time that the host took away, from 0 to 1.
    pub steal: f64,
}

/// Runs `replay` while an observer looks on, and telemetry is taken, that of the server's processes included. Run time 0 is at `origin` of CLOCK_MONOTONIC.
pub fn watch<T>(
    monitor: &Monitor,
    server: Option<&Watched>,
    origin: i64,
    observer: &mut dyn Observer,
    replay: impl FnOnce() -> T,
) -> (T, Telemetry) {
    let done = AtomicBool::new(false);
    let (udp, steal) = (machine::udp_counters(), machine::cpu_times());
    let (result, samples) = thread::scope(|scope| {
        let watcher = Watcher { monitor, origin, server, samples: Vec::new() };
        let watcher = scope.spawn(|| watcher.run(observer, &done));
        let result = replay();
        done.store(true, Ordering::Relaxed);
        // A watcher that panicked has nothing to tell; the replay's result is what counts.
        (result, watcher.join().unwrap_or_default())
    });
    let telemetry = Telemetry {
        samples,
        udp: machine::udp_counters().since(&udp),
        steal: machine::cpu_times().steal_share_since(&steal),
    };
    (result, telemetry)
}

struct Watcher<'a> {
    monitor: &'a Monitor,
    origin: i64,
    server: Option<&'a Watched>,
    samples: Vec<TelemetrySample>,
}

impl Watcher<'_> {
    fn run(mut self, observer: &mut dyn Observer, done: &AtomicBool) -> Vec<TelemetrySample> {
        for tick in 0_u32.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            match observer.look(&self.progress()) {
                Wish::GoOn => {}
                Wish::Stop => self.monitor.stop(),
                Wish::Abort => self.monitor.abort(),
            }
            if tick % SAMPLE == 0 {
                self.sample();
            }
            thread::sleep(TICK);
        }
        // The last state of the connections belongs to what is kept, too.
        self.sample();
        self.samples
    }

    fn now(&self) -> RunTime {
        RunTime(clock::monotonic_ns() - self.origin)
    }

    fn progress(&self) -> Progress {
        Progress { at: self.now(), counts: self.monitor.counts(), lag_ns: self.monitor.lag_ns() }
    }

    fn sample(&mut self) {
        let at = self.now();
        // Without its children: a server that we started is one of them.
        let client = machine::process_sample(std::process::id()).map(|own| (Side::Client, own.cpu_s, own.rss_bytes));
        let server = self.server.and_then(Watched::sample);
        let server = server.map(|all| (Side::Server, all.cpu_s + all.ended_children_cpu_s, all.rss_bytes));
        for (side, cpu_s, rss_bytes) in client.into_iter().chain(server) {
            self.add(at, side, "cpu_s", cpu_s);
            self.add(at, side, "rss_bytes", rss_bytes as f64);
        }
        self.sample_connections(at);
    }

    fn add(&mut self, at: RunTime, side: Side, name: &'static str, value: f64) {
        self.samples.push(TelemetrySample { at, side, name: name.into(), value });
    }

    /// Connections so far, once there are any.
    fn sample_connections(&mut self, at: RunTime) {
        let counts = self.monitor.connections();
        if counts.opened + counts.failed == 0 {
            return;
        }
        let sockets = machine::tcp_sockets();
        for (name, count) in [
            ("tcp_in_use", sockets.in_use),
            ("tcp_time_wait", sockets.time_wait),
            ("tcp_memory_bytes", sockets.memory_bytes),
            ("connections_open", counts.open),
            ("connections_opened", counts.opened),
            ("connections_failed", counts.failed),
            ("connections_resumed", counts.resumed),
            ("connections_closed_by_client", counts.closed_idle + counts.closed_spent + counts.closed_for_room),
            ("connections_closed_by_server", counts.closed_by_server + counts.reset),
            ("queries_resent", counts.resent),
        ] {
            self.add(at, Side::Client, name, count as f64);
        }
    }
}
