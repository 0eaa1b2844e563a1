//! The messages between controllers and agents: JSON requests and answers on core subjects.
//!
//! Core subjects may lose messages, so that every request has a timeout and can safely be repeated. Queries and files travel by other
//! means (`stream.rs`).

use std::net::IpAddr;

use ldplayer_report::metrics::{LatencyCounts, Snapshot};
use serde::{Deserialize, Serialize};

/// The version of these messages. Controller and agents must have the same one.
pub const PROTOCOL: u16 = 4;

/// How an agent describes itself and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of its messages.
    pub protocol: u16,
    /// The release of its program.
    pub release: String,
    /// Its name; by default that of the host.
    pub name: String,
    /// A random id, drawn at start, that distinguishes agents of the same name.
    pub id: String,
    /// Cores that it may use.
    pub cores: usize,
    /// Its limit of open files.
    pub files: u64,
    /// Ephemeral ports per source address.
    pub ports: u32,
    /// Source addresses that it may use; empty for the host's default.
    pub sources: Vec<IpAddr>,
    /// What synchronises the host's clock.
    pub clock: String,
    /// The boot id of the host: agents of the same boot share a clock.
    pub boot: String,
    /// A word unique to its process.
    pub program: String,
    /// The inode number of its network namespace: agents in the same one share its counters.
    pub network: u64,
    /// The run that it has, if any.
    pub run: Option<String>,
}

/// A request to one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// To introduce itself.
    Who,
    /// To show its clock.
    Clock,
    /// To show its wall clock, with the error bound of its synchronisation.
    Wall,
    /// To prepare its part of a run.
    Prepare(Box<Part>),
    /// To read the trace and deal some of its shards.
    Feed(Box<FeedPart>),
    /// To start.
    Start {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// When, on the agent's CLOCK_MONOTONIC in nanoseconds.
        at_ns: i64,
        /// The same on the controller's wall clock, in nanoseconds since 1970, so that all records have times of one clock.
        wall_ns: i64,
    },
    /// To report its progress.
    Progress {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// Whether to include latencies, which make the answer larger.
        latencies: bool,
    },
    /// To stop sending.
    Stop {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// Whether not to wait for outstanding answers.
        at_once: bool,
    },
    /// To stop dealing a shard that is no longer read.
    GiveUp {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// The shard.
        shard: u32,
    },
    /// To release the run.
    Release {
        /// Number of the run.
        run: u64,
        /// Whether to keep the results on the host: the controller does not have them.
        keep: bool,
    },
}

/// An agent's part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Number of the run.
    pub run: u64,
    /// Name of the run.
    pub name: String,
    /// Number of the part, unique within the run.
    pub seat: u32,
    /// The shard, from 0; a part that takes over has the shard of the lost agent.
    pub shard: u32,
    /// The number of shards.
    pub shards: u32,
    /// Time of the first transaction of the trace, in nanoseconds since 1970.
    pub first_ns: i64,
    /// The specification of the run.
    pub spec: serde_json::Value,
    /// Where its queries come from.
    pub source: Source,
    /// The files of the trace in the run's object store, if they are to be fetched from there instead of read on the host.
    #[serde(default)]
    pub trace: Vec<String>,
    /// Maximum nanoseconds of run time to read ahead.
    pub ahead_ns: i64,
    /// Queries due before this run time, in nanoseconds, are skipped: they could not be sent in time.
    pub from_ns: Option<i64>,
    /// The trusted certificates (PEM), if the run gives some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<String>,
}

/// A feeder's part of a run, which reads the trace as the controller does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedPart {
    /// Number of the run.
    pub run: u64,
    /// Name of the run.
    pub name: String,
    /// Number of the part, in the same numbering as those of playing agents.
    pub seat: u32,
    /// Its number among the dealers: it deals the shards with this remainder. The controller is 0.
    pub feeder: u32,
    /// The number of dealers, including the controller.
    pub feeders: u32,
    /// The playing agents, by shard.
    pub agents: Vec<String>,
    /// The specification of the run.
    pub spec: serde_json::Value,
    /// The trusted certificates (PEM), if the run gives some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<String>,
}

/// Where an agent's queries come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The stream of its shard, from the first batch.
    #[default]
    Stream,
    /// The stream, from the first batch that a lost agent did not take.
    TakenOver,
    /// The trace itself, which its host has.
    OwnTrace,
}

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Say {
    /// Its description.
    Hello(Hello),
    /// Its clock when the request arrived and when the answer left.
    Clock {
        /// On its CLOCK_MONOTONIC in nanoseconds.
        received_ns: i64,
        /// On its CLOCK_MONOTONIC in nanoseconds.
        answered_ns: i64,
    },
    /// Both its clocks at one moment.
    Wall(Wall),
    /// The request was carried out.
    Done,
    /// Its progress.
    Progress(Progress),
    /// The request was refused.
    No {
        /// The reason.
        reason: String,
    },
}

/// Both clocks of a host at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub monotonic_ns: i64,
    /// CLOCK_REALTIME in nanoseconds since 1970.
    pub realtime_ns: i64,
    /// The maximum error of the latter, as reported by chrony; `None` if unknown.
    pub error_ns: Option<i64>,
}

/// The progress of an agent's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Its stage.
    pub stage: Stage,
    /// Its counters.
    #[serde(default)]
    pub figures: Snapshot,
    /// Latencies so far, if requested.
    #[serde(default)]
    pub latencies: Option<LatencyCounts>,
    /// The run time up to which it has queries, in nanoseconds; `None` if it has all.
    #[serde(default)]
    pub read_to_ns: Option<i64>,
    /// Queries skipped because they were due before it took over.
    #[serde(default)]
    pub skipped: u64,
}

/// The stages of an agent's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Fetching the trace.
    Fetching,
    /// Reading the first queries.
    #[default]
    Preparing,
    /// Ready and waiting for the start.
    Ready,
    /// Sending.
    Running,
    /// Everything is recorded; uploading the files.
    Returning,
    /// The files are with the controller, under these names.
    Returned {
        /// The object names.
        files: Vec<String>,
        /// Why it ended early, for example because its disk was full. `None` if it was told to stop.
        #[serde(default)]
        ended_early: Option<String>,
    },
    /// It failed.
    Failed {
        /// The reason.
        reason: String,
    },
}

impl Stage {
    /// Whether there are queries to start with.
    pub const fn is_ready(&self) -> bool {
        !matches!(self, Self::Fetching | Self::Preparing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_they_were_after_the_way() {
        let asks = [
            Ask::Who,
            Ask::Clock,
            Ask::Start { run: u64::MAX, seat: 7, at_ns: i64::MIN, wall_ns: 5 },
            Ask::Prepare(Box::new(Part {
                run: 1,
                name: "a".into(),
                seat: 6,
                shard: 2,
                shards: 4,
                first_ns: 9,
                spec: serde_json::json!({"speed": 2.0}),
                source: Source::TakenOver,
                trace: vec!["trace/0/a.pcap".into()],
                ahead_ns: 5,
                from_ns: Some(8),
                tls_ca: None,
            })),
            Ask::Stop { run: 3, seat: 0, at_once: true },
        ];
        for ask in asks {
            let text = serde_json::to_vec(&ask).unwrap();
            assert_eq!(serde_json::from_slice::<Ask>(&text).unwrap(), ask);
        }
        let says = [
            Say::Done,
            Say::No { reason: "busy".into() },
            Say::Progress(Progress {
                stage: Stage::Returned { files: vec!["a".into()], ended_early: Some("full".into()) },
                skipped: 7,
                latencies: Some(LatencyCounts { attempts: [5, 1], buckets: vec![1, 2], sum_ns: 3, hdr: vec![0, 255] }),
                ..Progress::default()
            }),
            Say::Progress(Progress { stage: Stage::Failed { reason: "full".into() }, ..Progress::default() }),
        ];
        for say in says {
            let text = serde_json::to_vec(&say).unwrap();
            assert_eq!(serde_json::from_slice::<Say>(&text).unwrap(), say);
        }
    }

    #[test]
    fn a_later_release_may_say_more() {
        let text = r#"{"say": "progress", "stage": "ready", "skipped": 1, "colour": "blue"}"#;
        let read = serde_json::from_str(text);
        assert!(matches!(read, Ok(Say::Progress(Progress { stage: Stage::Ready, skipped: 1, .. }))), "{read:?}");
    }
}
