//! What both ends used during a run: `summary.telemetry` of `run.json`.

use std::collections::BTreeMap;

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
