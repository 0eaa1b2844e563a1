//! What is said about a run: the keys of `run.json`.

mod agents;
mod answers;
mod names;
mod nsid;
mod telemetry;

use std::collections::BTreeMap;
use std::fmt;

use ldplayer_core::Stalls;
use ldplayer_core::damage::Tally;
use serde::{Deserialize, Serialize};

use crate::config::{Environment, RunConfig};
use crate::expect::Expectation;
use crate::limits::VerdictLimits;
use crate::warning::Warning;

pub use self::agents::AgentShare;
pub use self::answers::{AnswersCompared, AskedAgain};
pub use self::names::{Names, StandOut, Threshold, Top, TraceFile};
pub use self::nsid::ServerAnswers;
pub use self::telemetry::{CpuWait, ReplayLoad, SideUsage, SocketsAtPeak, Telemetry, Waited};

/// How far a run got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has not ended; or it crashed.
    #[default]
    Running,
    /// It went through the whole trace.
    Complete,
    /// It was ended before the trace was through.
    Interrupted,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "never ended (incomplete)",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
        })
    }
}

/// Everything known about a run, without its rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunReport {
    /// How far it got.
    pub state: State,
    /// Version of ldplayer that made it.
    pub ldplayer: String,
    /// Wall clock at run time 0, RFC 3339.
    pub started: String,
    /// Time of the first transaction in the trace, RFC 3339.
    pub trace_first: String,
    /// How the schedule relates to the trace.
    pub speed_note: Option<String>,
    /// Number of workers.
    pub workers: usize,
    /// What was run.
    pub config: RunConfig,
    /// Where it was run.
    pub environment: Environment,
    /// What the verdict is measured against.
    pub limits: VerdictLimits,
    /// The figures.
    pub summary: Summary,
    /// What was expected of the server.
    pub expect: Vec<Expectation>,
    /// Whether the replay was faithful, and whether the server met the expectations.
    pub verdict: Verdict,
    /// Doubts, each with a remedy; those about the server come first.
    pub warnings: Vec<Warning>,
    /// Host stalls seen by workers.
    pub stalls: Stalls,
    /// Accounting of the trace: the parts read and not readable; `None` until the run has ended.
    pub tally: Option<Tally>,
    /// The files of the trace, with size and hash; empty until the run has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceFile>,
    /// The agents of a run of several hosts, and their shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentShare>,
}

/// The answer about a replay, by what its host could have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// It was as asked for, within the limits.
    Faithful,
    /// It was later than the limits, and this changes no percentile of latency that is claimed.
    Harmless,
    /// It was not as asked for, or its host may have changed what is claimed.
    #[default]
    Disturbed,
}

/// Two verdicts that do not touch each other: `replay` and `checks` are about the replay, `server` is about the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// The replay was faithful, or late and harmless: every check of it is fine.
    pub ok: bool,
    /// Which of the three it was; `null` in runs of versions that did not say.
    pub replay: Option<Fidelity>,
    /// The checks of the replay.
    pub checks: Vec<Check>,
    /// Whether the server met the expectations.
    pub server: ServerVerdict,
}

/// Whether the server met all expectations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerVerdict {
    /// Every expectation was met; `null` where there was none.
    pub ok: Option<bool>,
    /// One check an expectation.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// What the replay was. Versions up to 0.2 knew faithful replays and others.
    pub fn fidelity(&self) -> Fidelity {
        self.replay.unwrap_or(if self.ok { Fidelity::Faithful } else { Fidelity::Disturbed })
    }

    /// Neither verdict failed; what the exit status says.
    pub fn passes(&self) -> bool {
        self.ok && self.server.ok != Some(false)
    }
}

/// One thing that was checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// A stable word, such as `timing_p99`.
    pub name: String,
    /// What was allowed, with unit.
    pub limit: String,
    /// What was found, with unit; `n/a` where it could not be judged.
    pub value: String,
    /// Whether it is fine; also when it could not be judged.
    pub ok: bool,
    /// Whether it is fine although it is beyond its limit, since it changes no percentile of latency that is claimed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub harmless: bool,
    /// Why it could not be judged, or was judged otherwise than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// First due query to last outcome, in seconds.
    pub elapsed_s: f64,
    /// The accounts.
    pub queries: Queries,
    /// Lateness.
    pub timing: Timing,
    /// Queries per second against the trace.
    pub rate: Rate,
    /// Response times in milliseconds.
    pub latency_ms: Latency,
    /// Responses by code.
    pub rcodes: BTreeMap<String, u64>,
    /// Answers with an extended error, by its name (RFC 8914).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ede: BTreeMap<String, u64>,
    /// Kept responses by the server that sent them, the one with most first (NSID, RFC 5001).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nsid: Vec<ServerAnswers>,
    /// Octets that came back.
    pub responses: Responses,
    /// Connections.
    pub connections: Connections,
    /// What the link in the sender did; `null` where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkUse>,
    /// What users saw of clients that react; `null` where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookups: Option<Lookups>,
    /// Clients.
    pub clients: Clients,
    /// Answers by how they compare with the expected ones; empty when nothing was compared.
    pub answers: BTreeMap<String, u64>,
    /// The same in full; `null` when nothing was compared.
    pub answers_compared: Option<AnswersCompared>,
    /// What the trace recorded for these queries; `null` where it has no answers.
    pub recorded: Option<Recorded>,
    /// What both ends used.
    pub telemetry: Telemetry,
    /// How long both ends waited for a core.
    pub cpu_wait: CpuWait,
    /// Which names, types, zones and clients stand out; `null` where the trace was not read again for them.
    pub names: Option<Names>,
}

/// Answers in the trace to the queries that were replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recorded {
    /// Queries with a recorded response, by its code.
    pub rcodes: BTreeMap<String, u64>,
    /// Queries without one.
    pub unanswered: u64,
    /// Queries that their clients sent again as an earlier one had no good answer yet; `null` where they were not marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// Queries that waited for the answer to an earlier one, by what showed that they follow from it; `null` where none was to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<BTreeMap<String, u64>>,
}

/// Lookups of clients that react: each is a query of the trace, and takes one attempt or more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lookups {
    /// Lookups with at least one attempt that was sent.
    pub asked: u64,
    /// Those whose client gave up, or was told only failures.
    pub failed: u64,
    /// Attempts sent; retries over TCP after a truncated answer belong to their attempt.
    pub packets: u64,
    /// Attempts for each lookup.
    pub attempts: f64,
    /// Attempts but for the first of each lookup.
    pub retries: u64,
    /// Retries by what became of the attempt before.
    pub retries_by_reason: BTreeMap<String, u64>,
    /// Retries at another server than the attempt before.
    pub failovers: u64,
    /// From the first attempt to the answer that the client takes; lookups that failed are the slowest.
    #[serde(flatten)]
    pub time_ms: Tail,
}

/// answered + timed_out + failed = sent; sent + not_sent + lost = trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queries {
    /// Queries in the trace; `null` when the run never ended, so that nobody counted.
    pub trace: Option<u64>,
    /// Queries that left this host.
    pub sent: u64,
    /// Answered in time.
    pub answered: u64,
    /// Not answered in time.
    pub timed_out: u64,
    /// Failed otherwise.
    pub failed: u64,
    /// Never sent.
    pub not_sent: u64,
    /// The failed ones by status.
    pub failed_by_status: BTreeMap<String, u64>,
    /// The failed ones on connections by reason.
    pub failed_by_reason: BTreeMap<String, u64>,
    /// Queries sent again on a new connection.
    pub resent: u64,
    /// Queries asked again over TCP after a truncated answer.
    pub fell_back: u64,
    /// The unsent ones by reason.
    pub not_sent_by_reason: BTreeMap<String, u64>,
    /// Queries without a row, of agents that were lost.
    #[serde(skip_serializing_if = "is_none")]
    pub lost: u64,
    /// The lost ones by what is known of them: `with_agent`, taken by the agent, sent or not; `left_in_stream`, taken by nobody;
    /// `due_before_takeover`, left out by the agent that took over; `not_read`, with an agent that came back, and not sent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_by_reason: BTreeMap<String, u64>,
    /// Responses after the timeout; extra rows.
    pub late: u64,
    /// Responses that belong to no query; extra rows.
    pub stray: u64,
    /// The strays by reason.
    pub stray_by_reason: BTreeMap<String, u64>,
    /// Those of them that have no row since there were too many, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stray_unlisted: BTreeMap<String, u64>,
    /// The sent ones by transport.
    pub sent_by_transport: BTreeMap<String, u64>,
}

impl Queries {
    /// Adds responses that belong to no query and have no row.
    pub(crate) fn add_unlisted(&mut self, by_reason: BTreeMap<String, u64>) {
        for (reason, &count) in &by_reason {
            *self.stray_by_reason.entry(reason.clone()).or_default() += count;
            self.stray += count;
        }
        self.stray_unlisted = by_reason;
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_false(is: &bool) -> bool {
    !*is
}

/// Runs of one host lose no agents, and say nothing of them.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// How late queries were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    /// Submitted − intended in microseconds, on the run's clock, where the first query is due at 0.
    pub error_us: Option<Spread>,
    /// Gap to the query before, as sent − as due, in microseconds.
    pub interarrival_error_us: Option<Spread>,
    /// Submitted − intended of the first query, in microseconds.
    pub first_error_us: Option<f64>,
}

/// A distribution of signed figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Lowest.
    pub min: f64,
    /// 1st percentile.
    pub p1: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// 90th percentile.
    #[serde(default)]
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Highest.
    pub max: f64,
}

/// Queries per second against the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rate {
    /// Queries sent per second, from the first to the last one sent; `null` for queries of one moment.
    pub sent_qps: Option<f64>,
    /// Those of them per second that were answered in time.
    pub answered_qps: Option<f64>,
    /// The same as `sent_qps`, by an older name.
    pub qps_mean: Option<f64>,
    /// Length of a window in seconds.
    pub window_s: f64,
    /// Windows with a query in them; not the last one, where the trace ends in its midst.
    pub windows: u64,
    /// Queries due in the median window.
    pub window_queries_p50: u64,
    /// Share of windows whose count is within 0.1 % (and never closer than one query) of the trace's, in percent.
    pub within_0_1_percent: Option<f64>,
    /// (sent − due) / due of the windows, in percent.
    pub error_percent: Option<RateError>,
}

/// Quantiles of the rate error in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateError {
    /// 1st percentile of the windows.
    pub p1: f64,
    /// Median window.
    pub p50: f64,
    /// 99th percentile of the windows.
    pub p99: f64,
    /// Nine of ten windows are within ± this.
    #[serde(default)]
    pub nine_of_ten: f64,
}

/// Response times over all queries sent: an unanswered one counts as infinitely slow, shown as `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// From the moment a query was due; what a user of the server would have felt.
    pub from_intended: Tail,
    /// From the moment it was sent; what the server took.
    pub from_sent: Tail,
    /// From sent, over answered queries only.
    pub answered_only: Tail,
    /// As `from_sent`, without the queries that were sent later than the limit of the 99th percentile of lateness; `null` if none was. It
    /// shows what lateness may have changed, and judges nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_late: Option<Tail>,
    /// From sent, by transport.
    pub by_transport: BTreeMap<String, Tail>,
    /// From sent, of queries over connections: those that came with a new connection (`fresh`), with a new one whose TLS session
    /// was resumed (`fresh_resumed`) and took the query as early data (`fresh_early_data`), or found one open (`reused`).
    pub by_connection: BTreeMap<String, Tail>,
    /// The same for each transport by itself.
    pub by_transport_and_connection: BTreeMap<String, BTreeMap<String, Tail>>,
    /// Of answered queries over connections: what it took to `connect` and for the `handshake`, where the query paid for them; from
    /// sent to the `first_byte` of the answer; and from that to its `last_byte`.
    pub by_phase: BTreeMap<String, Tail>,
    /// From sent, by how busy the client is: `busiest_1_percent` of the clients and the `rest`.
    pub by_client_activity: BTreeMap<String, Tail>,
    /// From sent, by how many queries the client has in the trace: `1`, `2_to_10`, `11_to_100` or `over_100`.
    pub by_client_queries: BTreeMap<String, Tail>,
    /// From sent, by the class of the client.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_class: BTreeMap<String, Tail>,
    /// How much the median from sent changed from the run's beginning to its end, in percent of it; `null` where fewer than ten
    /// slices of the run have a median.
    pub drift_percent: Option<f64>,
}

/// The slow side of a distribution in milliseconds; `null` where the percentile falls among the unanswered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tail {
    /// Queries counted, answered or not.
    pub queries: u64,
    /// Mean; `null` where a query has no answer.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile; versions up to 0.2 did not keep it.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Slowest.
    pub max: Option<f64>,
    /// Which of them the host of the run cannot have changed; `null` where nobody judged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub good: Option<Good>,
}

/// Which percentiles the host of a run cannot have changed; one of too few queries is not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Good {
    /// The median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<bool>,
    /// The 90th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90: Option<bool>,
    /// The 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<bool>,
    /// The 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<bool>,
    /// The 99.9th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<bool>,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Responses {
    /// Octets of accepted responses.
    pub bytes: u64,
    /// Octets of the queries sent.
    pub query_bytes: u64,
    /// Median of the seconds that the run lasted to the end of, in megabits per second; those without an answer have 0.
    pub mbps_p50: Option<f64>,
    /// 99th percentile of these seconds.
    pub mbps_p99: Option<f64>,
    /// Busiest second.
    pub mbps_max: Option<f64>,
    /// Responses with TC set.
    pub truncated: u64,
    /// Datagrams that the kernel dropped on sockets of this run, for lack of room; `null` where nobody counted.
    pub receive_drops: Option<u64>,
    /// Queries in `responses.parquet`, answered or not; `null` where responses were not kept.
    pub kept: Option<u64>,
}

/// Frames on the link between clients and servers that the sender itself made, in both directions together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkUse {
    /// Frames that crossed it.
    pub crossed: u64,
    /// Frames that it lost, as it was told to.
    pub lost: u64,
    /// Frames that found the queue of a client's limited bandwidth full.
    pub queue_full: u64,
    /// Frames dropped since too many were on the link.
    pub no_room: u64,
    /// How much later than its delay a frame left towards a server at the most, in milliseconds.
    pub latest_ms: f64,
}

impl LinkUse {
    /// The links of two senders together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            crossed: self.crossed + other.crossed,
            lost: self.lost + other.lost,
            queue_full: self.queue_full + other.queue_full,
            no_room: self.no_room + other.no_room,
            latest_ms: self.latest_ms.max(other.latest_ms),
        }
    }
}

/// Connections; all 0 over UDP. While a run goes on, or where it crashed, what its rows say of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Connections that came up.
    pub opened: u64,
    /// Connections that never came up.
    pub failed: u64,
    /// Opened ones with a resumed TLS session.
    pub resumed: u64,
    /// Most at a time; of several workers the sum of what each had at most.
    pub peak_open: u64,
    /// Open when the run ended.
    pub open_at_end: u64,
    /// Connections that ended before, by who ended them and why.
    pub closed: BTreeMap<String, u64>,
}

/// Clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clients {
    /// Distinct client addresses.
    pub total: u64,
    /// Clients that sent something and got an answer to everything they sent.
    pub answered_all: u64,
    /// Queries in the trace of the least busy client among the busiest 1 %.
    pub busiest_1_percent_from: u64,
    /// Clients of each class of a run with classes, as recorded in the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_class: BTreeMap<String, u64>,
}
