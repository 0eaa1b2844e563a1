//! Samples telemetry: resource usage of client and server, kernel counters, and sockets.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_net::counters::{self, KernelMemory, NetCounters, Place};
use ldplayer_net::inet_diag::{SocketTables, TcpSide, TcpSockets, TcpState, UdpSockets};
use ldplayer_net::machine;
use ldplayer_net::namespace::Namespace;
use ldplayer_net::processes::{Network, Processes, Usage};
use ldplayer_net::usage::CoreWait;
use ldplayer_net::wakeups;
use ldplayer_net::watched::Watched;
use ldplayer_replay::Monitor;
use ldplayer_results::{Figure, Side, TelemetrySample};

use super::samples::{Costly, Samples};

/// The tables of sockets are read for a two-hundredth of the time at most: a look at many keeps a core for milliseconds …
const SOCKETS_REST: i64 = 200;
/// … the slabs for a five-thousandth, since the kernel goes through all of them with the core held …
const SLABS_REST: i64 = 5_000;
/// … and the proportional set size for a hundredth: the kernel keeps the server from changing its memory map meanwhile.
const PSS_REST: i64 = 100;
/// Threads are looked at closely for a fortieth of the time: that wakes up a thread each millisecond.
const WAKEUPS_REST: i64 = 40;

/// What is sampled, and how often.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server's processes, where they are known.
    pub server: Option<Watched>,
    /// The ports that servers are asked at.
    pub ports: Vec<u16>,
    /// Nanoseconds between two samples.
    pub interval: i64,
}

/// Takes samples on a thread of its own, so that a table of a million sockets delays nobody else.
pub struct Sampler<'a> {
    monitor: &'a Monitor,
    origin: i64,
    interval: i64,
    ports: Vec<u16>,
    client: End,
    server: Option<End>,
    slabs: Costly,
    wakeups: Costly,
    samples: Samples,
    /// What the server's sockets had dropped when they were first and last seen in this thread's namespace.
    dropped_here: Option<(u64, u64)>,
}

/// One end: its processes, and the sockets of its namespace.
struct End {
    side: Side,
    processes: Processes,
    pss: Costly,
    /// TCP sockets of its namespace, connections that linger included, as the counters had it last.
    tcp_in_use: Option<u64>,
    tables: Option<Tables>,
}

/// The tables of sockets of one namespace, as long as the process is in it that led there.
struct Tables {
    network: Network,
    sockets: Costly,
    /// `None` where the namespace may not be entered, or its kernel does not tell.
    tables: Option<SocketTables>,
}

impl<'a> Sampler<'a> {
    /// Run time 0 is at `origin` of CLOCK_MONOTONIC.
    pub fn new(monitor: &'a Monitor, plan: &Plan, origin: i64) -> Self {
        let end = |side, watched| End {
            side,
            processes: Processes::new(watched),
            pss: Costly::resting(PSS_REST),
            tcp_in_use: None,
            tables: None,
        };
        Self {
            monitor,
            origin,
            interval: plan.interval.max(1),
            ports: plan.ports.clone(),
            // Without its children: a server that we started is one of them.
            client: end(Side::Client, Watched::Alone(std::process::id())),
            server: plan.server.clone().map(|watched| end(Side::Server, watched)),
            slabs: Costly::resting(SLABS_REST),
            wakeups: Costly::resting(WAKEUPS_REST),
            samples: Samples::default(),
            dropped_here: None,
        }
    }

    /// Samples until the other end of `until` is dropped, and then once more: the last state belongs to what is kept, too. With it comes what
    /// the server's sockets dropped, where they are in this thread's namespace.
    pub fn run(mut self, until: &Receiver<()>) -> (Vec<TelemetrySample>, u64) {
        loop {
            self.sample(false);
            let now = self.now();
            let wait = next(now, self.interval) - now;
            if until.recv_timeout(Duration::from_nanos(wait.unsigned_abs())) != Err(RecvTimeoutError::Timeout) {
                self.sample(true);
                let dropped = self.dropped_here.map_or(0, |(first, last)| last.saturating_sub(first));
                return (self.samples.into_vec(), dropped);
            }
        }
    }

    fn now(&self) -> RunTime {
        RunTime(clock::monotonic_ns() - self.origin)
    }

    /// Takes a sample; the last one also has the costly figures.
    fn sample(&mut self, is_last: bool) {
        if is_last {
            self.slabs = Costly::resting(SLABS_REST);
            [&mut self.client].into_iter().chain(&mut self.server).for_each(End::all_due);
        }
        if self.samples.begin() {
            self.interval *= 2;
        }
        let at = self.now();
        let memory = counters::kernel_memory();
        let server = self.server.as_mut();
        for end in [&mut self.client].into_iter().chain(server) {
            end.sample(at, &memory, &mut self.samples);
        }
        // Of the client, only its workers matter.
        for (figure, value) in of_wait(self.monitor.core_wait()).into_iter().chain(of_machine()) {
            self.samples.add(at, Side::Client, figure, value);
        }
        self.sample_connections(at);
        self.sample_sockets();
        self.sample_pss();
        self.sample_slabs();
        self.sample_wakeups();
    }

    /// Connections so far, once there are any.
    fn sample_connections(&mut self, at: RunTime) {
        let counts = self.monitor.connections();
        if counts.opened + counts.failed == 0 {
            return;
        }
        for (figure, count) in [
            (Figure::ConnectionsOpen, counts.open),
            (Figure::ConnectionsOpened, counts.opened),
            (Figure::ConnectionsFailed, counts.failed),
            (Figure::ConnectionsResumed, counts.resumed),
            (Figure::ConnectionsClosedByClient, counts.closed_by_client()),
            (Figure::ConnectionsClosedByServer, counts.closed_by_server + counts.reset),
            (Figure::QueriesResent, counts.resent),
        ] {
            self.samples.add(at, Side::Client, figure, Some(count as f64));
        }
    }

    /// The sockets of both ends: one look where both are in one namespace.
    fn sample_sockets(&mut self) {
        let origin = self.origin;
        let now = move || RunTime(clock::monotonic_ns() - origin);
        let (ports, samples) = (&self.ports, &mut self.samples);
        let shared = self.client.look(ports, now);
        if let Some((at, found)) = &shared {
            add_tcp(samples, *at, Side::Client, found.as_ref().map(|(tcp, _)| &tcp.remote));
        }
        let Some(server) = &mut self.server else { return };
        let found = match server.processes.network() {
            None => Some((now(), None)),
            Some(network) if network.is_foreign => server.look(ports, now),
            Some(_) => {
                if let Some((_, Some((_, udp)))) = &shared {
                    self.dropped_here = Some((self.dropped_here.map_or(udp.drops, |(first, _)| first), udp.drops));
                }
                shared
            }
        };
        if let Some((at, found)) = found {
            add_tcp(samples, at, Side::Server, found.as_ref().map(|(tcp, _)| &tcp.local));
            add_udp(samples, at, found.as_ref().map(|(_, udp)| udp));
        }
    }

    fn sample_slabs(&mut self) {
        let began = self.now();
        if !self.slabs.is_due(began) {
            return;
        }
        let bytes = counters::tcp_slab_bytes().map(|bytes| bytes as f64);
        let at = self.now();
        self.slabs.took(began, at);
        for side in [Some(Side::Client), self.server.as_ref().map(|_| Side::Server)].into_iter().flatten() {
            self.samples.add(at, side, Figure::TcpSlabBytes, bytes);
        }
    }

    fn sample_pss(&mut self) {
        let origin = self.origin;
        let now = move || RunTime(clock::monotonic_ns() - origin);
        for end in [&mut self.client].into_iter().chain(&mut self.server) {
            let began = now();
            if end.pss.is_due(began) {
                let pss = end.processes.pss_bytes();
                end.pss.took(began, now());
                self.samples.add(now(), end.side, Figure::PssBytes, pss.map(|bytes| bytes as f64));
            }
        }
    }
}

impl Sampler<'_> {
    /// How long it takes to get a core. It takes long to see, and is seen last.
    fn sample_wakeups(&mut self) {
        let began = self.now();
        if !self.wakeups.is_due(began) {
            return;
        }
        let server = self.server.as_ref().map(|end| end.processes.threads());
        let medians = wakeups::median_ns([self.monitor.threads(), server.unwrap_or_default()]);
        let at = self.now();
        self.wakeups.took(began, at);
        for (side, median) in [Side::Client, Side::Server].into_iter().zip(medians) {
            if let Some(ns) = median {
                self.samples.add(at, side, Figure::CpuWakeSeconds, Some(ns as f64 / 1e9));
            }
        }
    }
}

/// What both tables say, and when.
type SocketSample = (RunTime, Option<(TcpSockets, UdpSockets)>);

impl End {
    fn all_due(&mut self) {
        self.pss = Costly::resting(PSS_REST);
        self.tables.iter_mut().for_each(|tables| tables.sockets = Costly::resting(SOCKETS_REST));
    }

    fn sample(&mut self, at: RunTime, memory: &KernelMemory, samples: &mut Samples) {
        let usage = self.processes.sample();
        let network = self.processes.network();
        let counters = network.map(|network| match network.is_foreign {
            true => counters::read(Place::Of(network.pid)),
            false => counters::read(Place::Own),
        });
        for (figure, value) in of_usage(usage.as_ref()) {
            samples.add(at, self.side, figure, value);
        }
        if self.side == Side::Server {
            for (figure, value) in of_wait(usage.as_ref().and_then(|usage| usage.wait)) {
                samples.add(at, self.side, figure, value);
            }
        }
        let counters = counters.unwrap_or_default();
        self.tcp_in_use = counters.tcp_in_use.zip(counters.tcp_time_wait).map(|(used, waiting)| used + waiting);
        for (figure, value) in of_network(&counters).into_iter().chain(of_memory(memory)) {
            samples.add(at, self.side, figure, value.map(|value| value as f64));
        }
    }

    /// Looks at the tables of its namespace, if it is time to. `None` if they cannot be read.
    fn look(&mut self, ports: &[u16], now: impl Fn() -> RunTime) -> Option<SocketSample> {
        let Some(network) = self.processes.network() else { return Some((now(), None)) };
        let known = self.tables.take().filter(|tables| tables.network == network);
        let tables = self.tables.insert(known.unwrap_or_else(|| Tables::open(network)));
        let began = now();
        if !tables.sockets.is_due(began) {
            return None;
        }
        let in_use = self.tcp_in_use;
        let look = |tables: &mut SocketTables| Some((tables.tcp(ports, in_use).ok()?, tables.udp(ports).ok()?));
        let found = tables.tables.as_mut().and_then(look);
        let ended = now();
        tables.sockets.took(began, ended);
        Some((ended, found))
    }
}

impl Tables {
    fn open(network: Network) -> Self {
        let opened = match network.is_foreign {
            false => SocketTables::open(),
            true => Namespace::open(Path::new(&format!("/proc/{}/ns/net", network.pid)))
                .and_then(|namespace| SocketTables::open_in(&namespace)),
        };
        Self { network, sockets: Costly::resting(SOCKETS_REST), tables: opened.ok() }
    }
}

/// The next moment of the run's clock that is a whole number of intervals.
fn next(now: RunTime, interval: i64) -> RunTime {
    RunTime((now.0.div_euclid(interval) + 1).saturating_mul(interval))
}

fn of_usage(usage: Option<&Usage>) -> [(Figure, Option<f64>); 12] {
    let of = |value: fn(&Usage) -> f64| usage.map(value);
    let switches = usage.and_then(|usage| usage.switches);
    let storage = usage.and_then(|usage| usage.storage);
    [
        (Figure::CpuSeconds, of(|usage| usage.cost.cpu_s())),
        (Figure::CpuUserSeconds, of(|usage| usage.cost.user_s)),
        (Figure::CpuSystemSeconds, of(|usage| usage.cost.system_s)),
        (Figure::RssBytes, of(|usage| usage.rss_bytes as f64)),
        (Figure::Processes, of(|usage| usage.processes as f64)),
        (Figure::Threads, of(|usage| usage.threads as f64)),
        (Figure::MinorFaults, of(|usage| usage.cost.minor_faults as f64)),
        (Figure::MajorFaults, of(|usage| usage.cost.major_faults as f64)),
        (Figure::VoluntarySwitches, switches.map(|switches| switches.voluntary as f64)),
        (Figure::InvoluntarySwitches, switches.map(|switches| switches.involuntary as f64)),
        (Figure::StorageReadBytes, storage.map(|storage| storage.read_bytes as f64)),
        (Figure::StorageWriteBytes, storage.map(|storage| storage.write_bytes as f64)),
    ]
}

fn of_wait(wait: Option<CoreWait>) -> [(Figure, Option<f64>); 2] {
    [
        (Figure::CpuWaitSeconds, wait.map(|wait| wait.waited_ns as f64 / 1e9)),
        (Figure::CpuRuns, wait.map(|wait| wait.runs as f64)),
    ]
}

fn of_machine() -> [(Figure, Option<f64>); 2] {
    [
        (Figure::CpuPressureSeconds, counters::cpu_pressure_ns().map(|ns| ns as f64 / 1e9)),
        (Figure::CpuBusySeconds, Some(machine::cpu_times().busy_s())),
    ]
}

const fn of_network(found: &NetCounters) -> [(Figure, Option<u64>); 20] {
    [
        (Figure::InBytes, found.in_bytes),
        (Figure::OutBytes, found.out_bytes),
        (Figure::UdpIn, found.udp_in),
        (Figure::UdpOut, found.udp_out),
        (Figure::UdpReceiveBufferErrors, found.udp_receive_buffer_errors),
        (Figure::UdpSendBufferErrors, found.udp_send_buffer_errors),
        (Figure::UdpNoPorts, found.udp_no_ports),
        (Figure::UdpInErrors, found.udp_in_errors),
        (Figure::UdpInUse, found.udp_in_use),
        (Figure::UdpMemoryBytes, found.udp_memory_bytes),
        (Figure::TcpInUse, found.tcp_in_use),
        (Figure::TcpTimeWait, found.tcp_time_wait),
        (Figure::TcpOrphans, found.tcp_orphans),
        (Figure::TcpMemoryBytes, found.tcp_memory_bytes),
        (Figure::TcpOpened, found.tcp_opened),
        (Figure::TcpAccepted, found.tcp_accepted),
        (Figure::TcpRetransmitted, found.tcp_retransmitted),
        (Figure::TcpResets, found.tcp_resets),
        (Figure::AcceptQueueOverflows, found.accept_queue_overflows),
        (Figure::ListenDrops, found.listen_drops),
    ]
}

const fn of_memory(memory: &KernelMemory) -> [(Figure, Option<u64>); 2] {
    [(Figure::SlabBytes, memory.slab_bytes), (Figure::SlabUnreclaimableBytes, memory.slab_unreclaimable_bytes)]
}

fn add_tcp(samples: &mut Samples, at: RunTime, side: Side, found: Option<&TcpSide>) {
    for state in TcpState::ALL {
        let count = found.map(|found| found.states.of(state) as f64);
        samples.add(at, side, Figure::of_state(state), count);
    }
    if side == Side::Server {
        samples.add(at, side, Figure::AcceptQueue, found.map(|found| found.accept_queue as f64));
    }
}

fn add_udp(samples: &mut Samples, at: RunTime, found: Option<&UdpSockets>) {
    // A server without a UDP socket on these ports drops nothing there.
    samples.add(at, Side::Server, Figure::UdpSocketDrops, found.map(|found| found.drops as f64));
    samples.add(at, Side::Server, Figure::UdpSocketWaitingBytes, found.map(|found| found.waiting_bytes as f64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_at_whole_intervals_of_the_runs_clock() {
        assert_eq!([-7, -5, 0, 4, 5].map(|now| next(RunTime(now), 5).0), [-5, 0, 5, 5, 10]);
    }
}
