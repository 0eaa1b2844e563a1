//! What each agent did of a run of several hosts.

use serde::{Deserialize, Serialize};

/// An agent's share of a run, and how the agent ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentShare {
    /// The agent, as its directory below `agents/` is called.
    pub name: String,
    /// The release of its program.
    pub ldplayer: String,
    /// Cores that it had.
    pub cores: usize,
    /// What keeps its host's clock right.
    pub clock: String,
    /// Whose clients it played: the number of a shard of the trace. A share that was taken over keeps its number.
    pub shard: u32,
    /// The agent from whom it took this share over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_over_from: Option<String>,
    /// The agent that took this share over, as this one was lost; it may have come back with rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// Why its rows are not here; `null` where they are.
    pub lost: Option<String>,
    /// Why it ended before its queries did, by itself; its rows until then are here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    /// Queries that were sent by its own word, the last there is where it was lost.
    pub sent: u64,
    /// Of them answered in time.
    pub answered: u64,
    /// Of them not answered in time.
    pub timed_out: u64,
    /// Of them failed otherwise.
    pub failed: u64,
    /// Queries that it took and did not send.
    pub not_sent: u64,
    /// Number of its first worker, as files of rows are named by.
    pub first_worker: usize,
    /// How many workers it had; 0 where its rows are not here.
    pub workers: usize,
    /// 99th percentile of its timing error in microseconds.
    pub timing_p99_us: Option<f64>,
    /// Median latency from sent, in milliseconds.
    pub latency_p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub latency_p99_ms: Option<f64>,
    /// How far a time of it can be from the same time of the controller, at most, in microseconds.
    pub skew_us: Option<f64>,
    /// Of this the start: half of the quickest exchange before the run.
    pub skew_start_us: Option<f64>,
    /// Of this what its clock was seen to go away from the controller's until the end.
    pub skew_drift_us: Option<f64>,
}
