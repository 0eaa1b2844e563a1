//! What both ends used during a run: `summary.telemetry` of `run.json`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// What both ends used. A figure that could not be read is `null`, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// The process that replays, without its children.
    pub client: Option<SideUsage>,
    /// The server's processes; `null` if none was watched or could be read.
    pub server: Option<SideUsage>,
    /// How the replay's workers kept up; `null` of a run that never ended.
    pub replay: Option<ReplayLoad>,
}

/// How long it may take to wake up on a core that nobody else wants, in microseconds, as a multiple of what it mostly takes …
const WAKE_MARGIN: f64 = 1.25;
/// … and its limits. Measured: 4 to 12 µs at 2,000 queries/s and more, 17 to 22 µs at 400, where cores fall asleep
/// (docs/benchmarks/verdicts.md).
const WAKE_US: RangeInclusive<f64> = 10.0..=60.0;

/// How long both ends could have run and had no core, beyond the time that it takes to wake up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuWait {
    /// The server; `null` if it was not watched, or its kernel does not count.
    pub server: Option<Waited>,
    /// The replay's workers.
    pub client: Option<Waited>,
    /// Cores that other processes of the replay's machine used meanwhile.
    pub others_cores: Option<f64>,
}

/// How long the threads of a side waited for a core, beyond what waking up may take for each time that they got one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waited {
    /// All of them together, in seconds.
    pub seconds: f64,
    /// The same as a part of the time, from 0 to 1, and more where several threads waited at once.
    pub share: f64,
    /// The most that they waited between two samples, in seconds, waking up included: no single wait was longer. `null` if unknown.
    pub most_s: Option<f64>,
}

impl CpuWait {
    /// Whether other processes of the machine ran for as long as a side waited, for this share of the time: a wait that neither side caused.
    pub fn is_of_neighbours(&self, share: f64) -> bool {
        self.others_cores.is_some_and(|others| others >= share)
    }

    /// What is known of it where agents are the client: they are on other machines than the server, and what one of them waited between two
    /// of its samples may be spread over several of theirs together.
    pub(crate) fn of_agents(self) -> Self {
        let client = self.client.map(|waited| Waited { most_s: None, ..waited });
        Self { client, others_cores: None, ..self }
    }

    /// What the samples of both sides say. Of several machines, and where only one side was watched, it is not known what others used.
    pub(crate) fn of(telemetry: &Telemetry) -> Self {
        let waited = |side: &Option<SideUsage>| {
            let side = side.as_ref()?;
            let length = side.to_s - side.from_s;
            let seconds = (side.cpu_wait_s? - side.wake_s() * side.cpu_runs? as f64).max(0.0);
            let most_s = side.cpu_wait_most_s;
            (length > 0.0).then(|| Waited { seconds, share: seconds / length, most_s })
        };
        let (client, server) = (telemetry.client.as_ref(), telemetry.server.as_ref());
        let used = |side: Option<&SideUsage>| side.and_then(|side| side.cores_mean);
        let others = client.and_then(|client| client.machine_cores_mean).zip(used(client)).zip(used(server));
        let others_cores = others.map(|((all, client), server)| (all - client - server).max(0.0));
        Self { server: waited(&telemetry.server), client: waited(&telemetry.client), others_cores }
    }
}

impl SideUsage {
    /// How long waking up may take, in seconds.
    fn wake_s(&self) -> f64 {
        let usual_us = self.cpu_wake_us.unwrap_or(0.0) * WAKE_MARGIN;
        usual_us.clamp(*WAKE_US.start(), *WAKE_US.end()) / 1e6
    }
}

/// How the replay's workers kept up. Spinning until the next query is due is rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayLoad {
    /// The worker that could keep up least.
    pub worker: usize,
    /// Seconds in which it had no rest while its queries became later and later (by more than 10 ms); of a run without times, seconds
    /// without rest.
    pub saturated_s: f64,
    /// Those of these seconds in which others had its core.
    pub starved_s: f64,
    /// The latest that a query was meanwhile, in milliseconds.
    pub worst_lag_ms: f64,
    /// The longest that a worker waited in all for rows to be taken, in seconds.
    pub blocked_s: f64,
    /// Sends of all workers that were put off, since the kernel's buffer was full.
    pub postponed: u64,
    /// Queries that reached their worker after they were due: the trace was read too slowly.
    pub fed_late: u64,
}

/// The resources that one side used from `from_s` to `to_s`. Totals are the growth in this time, peaks the highest of its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SideUsage {
    /// Run time of the first sample that is counted, in seconds: the last one before the first query was due.
    pub from_s: f64,
    /// Run time of the last one: the first after the last outcome, or the last of all.
    pub to_s: f64,
    /// Samples of processor time in it.
    pub samples: u64,
    /// Processor time.
    pub cpu_s: Option<f64>,
    /// That in user mode.
    pub cpu_user_s: Option<f64>,
    /// That in the kernel.
    pub cpu_system_s: Option<f64>,
    /// Processor time for each query sent, in microseconds.
    pub cpu_us_per_query: Option<f64>,
    /// Cores used: processor time ÷ time.
    pub cores_mean: Option<f64>,
    /// The same of the busiest second.
    pub cores_peak: Option<f64>,
    /// Cores that all processes of its machine used, where that was read.
    pub machine_cores_mean: Option<f64>,
    /// Seconds for which its threads could have run and had no core; of the client, those of its workers.
    pub cpu_wait_s: Option<f64>,
    /// The most of that between two samples.
    pub cpu_wait_most_s: Option<f64>,
    /// How often these threads got a core.
    pub cpu_runs: Option<u64>,
    /// How long they mostly waited for one each time, in microseconds: the median of the samples that saw any do.
    pub cpu_wake_us: Option<f64>,
    /// Highest resident memory; memory that processes share counts in each.
    pub rss_peak_bytes: Option<u64>,
    /// Highest proportional set size of those that were read.
    pub pss_peak_bytes: Option<u64>,
    /// Most processes at a time.
    pub processes_peak: Option<u64>,
    /// Most threads at a time.
    pub threads_peak: Option<u64>,
    /// Context switches of threads that waited for something.
    pub context_switches_voluntary: Option<u64>,
    /// Context switches of threads whose core was given to another.
    pub context_switches_involuntary: Option<u64>,
    /// Page faults without input.
    pub minor_faults: Option<u64>,
    /// Page faults that waited for input.
    pub major_faults: Option<u64>,
    /// Bytes fetched from storage.
    pub storage_read_bytes: Option<u64>,
    /// Bytes sent to storage.
    pub storage_write_bytes: Option<u64>,
    /// Bytes of IP packets that came into the namespace, loopback included.
    pub in_bytes: Option<u64>,
    /// Bytes of IP packets that left it, loopback included.
    pub out_bytes: Option<u64>,
    /// Datagrams dropped by UDP sockets on the ports that are asked; of the server only.
    pub udp_drops: Option<u64>,
    /// UDP datagrams that the namespace dropped for lack of receive buffer, whosever they were.
    pub udp_receive_buffer_errors: Option<u64>,
    /// UDP datagrams that it did not send for lack of send buffer.
    pub udp_send_buffer_errors: Option<u64>,
    /// UDP datagrams to a port that nobody listened on.
    pub udp_no_ports: Option<u64>,
    /// Connections lost in the namespace since an accept queue was full.
    pub accept_queue_overflows: Option<u64>,
    /// Connections lost at a listening socket for any reason.
    pub listen_drops: Option<u64>,
    /// Most connections that waited to be accepted in one queue; of the server only.
    pub accept_queue_peak: Option<u64>,
    /// TCP segments sent again.
    pub tcp_retransmitted: Option<u64>,
    /// Highest memory of the buffers of all TCP sockets of the machine.
    pub tcp_memory_peak_bytes: Option<u64>,
    /// Highest memory of the kernel's slabs of TCP sockets of the machine.
    pub tcp_slab_peak_bytes: Option<u64>,
    /// Highest memory of the buffers of all UDP sockets of the machine.
    pub udp_memory_peak_bytes: Option<u64>,
    /// How much the slabs of the machine grew at most.
    pub slab_growth_bytes: Option<u64>,
    /// TCP sockets of this side when there were most of them.
    pub sockets_at_peak: Option<SocketsAtPeak>,
}

/// TCP sockets of one side at the moment when there were most of them, those that listen left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketsAtPeak {
    /// Run time in seconds.
    pub at_s: f64,
    /// All of them.
    pub all: u64,
    /// By state, those that there were.
    pub by_state: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of waiting of a server that got a core a thousand times in a second. It waited for it so many microseconds on average, and in
    /// the median.
    fn share(mean_us: f64, median_us: Option<f64>) -> f64 {
        let cpu_wait_s = Some(mean_us / 1e3);
        let server =
            SideUsage { to_s: 1.0, cpu_wait_s, cpu_runs: Some(1_000), cpu_wake_us: median_us, ..SideUsage::default() };
        let wait = CpuWait::of(&Telemetry { server: Some(server), ..Telemetry::default() });
        (wait.server.unwrap().share * 1e4).round() / 1e4
    }

    /// A wait of one agent that missed a sample would seem to be two short ones.
    #[test]
    fn how_long_a_single_wait_of_agents_was_is_not_known() {
        let waited = Some(Waited { seconds: 1.0, share: 0.1, most_s: Some(0.01) });
        let of = CpuWait { server: waited, client: waited, others_cores: Some(0.2) }.of_agents();
        assert_eq!((of.client.unwrap().most_s, of.server, of.others_cores), (None, waited, None));
    }

    /// A run alone whose core slept between queries was disturbed: 21 µs each time were 11 more than waking up was said to take.
    #[test]
    fn what_waking_up_mostly_takes_is_no_wait() {
        assert_eq!((share(21.0, Some(17.0)), share(9.0, None), share(9.0, Some(1.0))), (0.0, 0.0, 0.0));
        // Few long waits change the mean, and not the median.
        assert_eq!((share(34.0, Some(8.0)), share(34.0, None)), (0.024, 0.024));
        // Of a core that others have each time, not all is waking up.
        assert_eq!(share(900.0, Some(900.0)), 0.84);
    }
}
