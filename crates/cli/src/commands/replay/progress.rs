//! What happens beside the replay: signals, a line of progress, samples of telemetry.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_core::RunTime;
use ldplayer_net::machine::{self, UdpCounters};
use ldplayer_net::process;
use ldplayer_net::signals::Signals;
use ldplayer_replay::Monitor;
use ldplayer_results::{Side, TelemetrySample};

use super::Flag;

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);
/// Ticks between two samples of telemetry.
const SAMPLE: u32 = 4;
/// Ticks between two lines of progress.
const LINE: u32 = 10;

/// What was seen beside the replay.
pub struct Telemetry {
    /// Samples on the run's time axis.
    pub samples: Vec<TelemetrySample>,
    /// The kernel's UDP counters over the run.
    pub udp: UdpCounters,
    /// Share of the run's CPU time that the host took away, from 0 to 1.
    pub steal: f64,
}

/// Runs `replay` while signals stop it, and its progress and telemetry are taken, that of the server's main process and
/// its descendants included.
pub fn watch<T>(monitor: &Monitor, server: Option<u32>, replay: impl FnOnce() -> T) -> (T, Telemetry) {
    let (interrupted, done) = (Flag::default(), AtomicBool::new(false));
    // Where signals cannot be caught, they end the process as they would without us.
    let _ = Signals::catch_or_end(Arc::clone(&interrupted));
    let (udp, steal) = (machine::udp_counters(), machine::cpu_times());
    let (result, samples) = thread::scope(|scope| {
        let watcher = scope.spawn(|| Watcher::new(monitor, server).run(&interrupted, &done));
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
    begun: Instant,
    server: Option<u32>,
    samples: Vec<TelemetrySample>,
    last_sent: u64,
    terminal: bool,
}

impl<'a> Watcher<'a> {
    fn new(monitor: &'a Monitor, server: Option<u32>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { monitor, begun: Instant::now(), server, samples: Vec::new(), last_sent: 0, terminal }
    }

    fn run(mut self, interrupted: &Flag, done: &AtomicBool) -> Vec<TelemetrySample> {
        for tick in 0_u32.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            if interrupted.load(Ordering::Relaxed) && !self.monitor.is_stopped() {
                self.monitor.stop();
            }
            if tick % SAMPLE == 0 {
                self.sample();
            }
            if self.terminal && tick % LINE == 0 {
                self.show();
            }
            thread::sleep(TICK);
        }
        // The last state of the connections belongs to what is kept, too.
        self.sample();
        if self.terminal {
            eprintln!();
        }
        self.samples
    }

    fn sample(&mut self) {
        let at = RunTime(self.begun.elapsed().as_nanos() as i64);
        // Without its children: a server that we started is one of them.
        let client = machine::process_sample(std::process::id()).map(|own| (Side::Client, own.cpu_s, own.rss_bytes));
        let server = self.server.and_then(process::tree_sample);
        let server = server.map(|all| (Side::Server, all.cpu_s + all.ended_children_cpu_s, all.rss_bytes));
        for (side, cpu_s, rss_bytes) in client.into_iter().chain(server) {
            let mut add = |name: &'static str, value| {
                self.samples.push(TelemetrySample { at, side, name: name.into(), value });
            };
            add("cpu_s", cpu_s);
            add("rss_bytes", rss_bytes as f64);
        }
        self.sample_connections(at);
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
            self.samples.push(TelemetrySample { at, side: Side::Client, name: name.into(), value: count as f64 });
        }
    }

    fn show(&mut self) {
        let counts = self.monitor.counts();
        let rate = (counts.sent - self.last_sent) as f64 / (TICK * LINE).as_secs_f64();
        self.last_sent = counts.sent;
        let mut stderr = std::io::stderr().lock();
        // A line that cannot be shown is no reason to end a run.
        let _ = write!(
            stderr,
            "\r{:6.0} s  sent {}  answered {}  timed out {}  lag {:.1} ms  {rate:.0} q/s\x1b[K",
            self.begun.elapsed().as_secs_f64(),
            counts.sent,
            counts.answered,
            counts.timed_out,
            self.monitor.lag_ns() as f64 / 1e6,
        );
    }
}
