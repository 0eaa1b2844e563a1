//! What controllers and agents tell each other: small messages in JSON on core subjects, each a question with an answer.
//!
//! Core subjects may lose messages, so that every question has a time limit, and asking again does no harm. Queries and files travel
//! otherwise ([`crate::stream`]).

use std::net::IpAddr;

use ldplayer_results::metrics::{LatencyCounts, Snapshot};
use serde::{Deserialize, Serialize};

/// The version of these messages. Controller and agents must have the same.
pub const PROTOCOL: u16 = 3;

/// What an agent says of itself and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of its messages.
    pub protocol: u16,
    /// The release of its program.
    pub release: String,
    /// Its name: that of the host unless told otherwise.
    pub name: String,
    /// What tells it from another one of the same name: drawn when it starts.
    pub id: String,
    /// Cores that it may use.
    pub cores: usize,
    /// Files that it may have open.
    pub files: u64,
    /// Ports that a source address has for connections.
    pub ports: u32,
    /// Source addresses that it may use; none for whatever the host sends from.
    pub sources: Vec<IpAddr>,
    /// What keeps the host's clock right.
    pub clock: String,
    /// The boot of the host: agents of one boot share a clock.
    pub boot: String,
    /// A word for the process that it is in, which no other one has.
    pub program: String,
    /// The network namespace that it is in, by the number that its host has for it: agents of one share its counters.
    pub network: u64,
    /// The run that it has, if any.
    pub run: Option<String>,
}

/// What is asked of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// Who it is.
    Who,
    /// What its clock shows.
    Clock,
    /// What the clock of the wall shows there, and how wrong it may be by the word of what keeps it.
    Wall,
    /// To make ready for its part of a run.
    Prepare(Box<Part>),
    /// To read the trace, and to deal some shards of it.
    Feed(Box<FeedPart>),
    /// To start.
    Start {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// When, on the agent's CLOCK_MONOTONIC in nanoseconds.
        at_ns: i64,
        /// The same on the controller's wall clock, in nanoseconds since 1970: what is kept of the run has times of one clock.
        wall_ns: i64,
    },
    /// How far it is.
    Progress {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// Whether latencies are asked for, too, which are longer to tell.
        latencies: bool,
    },
    /// To send nothing more.
    Stop {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// Whether what is outstanding is not to be waited for.
        at_once: bool,
    },
    /// To deal nothing more for a shard that nobody reads.
    GiveUp {
        /// Number of the run.
        run: u64,
        /// Number of the part.
        seat: u32,
        /// The shard.
        shard: u32,
    },
    /// To forget the run.
    Release {
        /// Number of the run.
        run: u64,
        /// Whether what was measured stays on the host: the controller does not have it.
        keep: bool,
    },
}

/// What an agent plays of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Number of the run.
    pub run: u64,
    /// Name of the run.
    pub name: String,
    /// Number of the part: no two parts of a run have one.
    pub seat: u32,
    /// Whose clients it plays, from 0: a part that takes over from a lost agent has the shard of that one.
    pub shard: u32,
    /// How many shards there are.
    pub shards: u32,
    /// Time of the first transaction of the trace, in nanoseconds since 1970.
    pub first_ns: i64,
    /// The specification of the run.
    pub spec: serde_json::Value,
    /// Where its queries are.
    pub source: Source,
    /// The files of the trace in the run's store, where they are to be fetched from there in place of being read on the host.
    #[serde(default)]
    pub trace: Vec<String>,
    /// Nanoseconds of the run that it reads ahead at most.
    pub ahead_ns: i64,
    /// Queries that are due before this moment of the run, in nanoseconds, are left out: nobody had them when they were due.
    pub from_ns: Option<i64>,
}

/// What an agent deals of a run, which reads the trace as the controller does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedPart {
    /// Number of the run.
    pub run: u64,
    /// Name of the run.
    pub name: String,
    /// Number of the part, as those of agents that play.
    pub seat: u32,
    /// Which of those that deal it is: it deals the shards whose number leaves this rest. The controller is 0.
    pub feeder: u32,
    /// How many deal, the controller included.
    pub feeders: u32,
    /// The agents that play, by their shards.
    pub agents: Vec<String>,
    /// The specification of the run.
    pub spec: serde_json::Value,
}

/// Where an agent has its queries from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The stream of its shard, from the first batch on.
    #[default]
    Stream,
    /// The same, from the batch on that a lost agent did not take.
    TakenOver,
    /// The trace itself, which its host has, too.
    OwnTrace,
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Say {
    /// Who it is.
    Hello(Hello),
    /// What its clock showed when the question came, and when this left.
    Clock {
        /// On its CLOCK_MONOTONIC in nanoseconds.
        received_ns: i64,
        /// The same.
        answered_ns: i64,
    },
    /// What both its clocks showed at one moment.
    Wall(Wall),
    /// It has done what was asked.
    Done,
    /// How far it is.
    Progress(Progress),
    /// It does not do it.
    No {
        /// Why not, for people.
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
    /// By how much the latter may be wrong, as chrony says; `None` where nobody says.
    pub error_ns: Option<i64>,
}

/// How far an agent is with its part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The stage that it is in.
    pub stage: Stage,
    /// Its accounts.
    #[serde(default)]
    pub figures: Snapshot,
    /// Latencies so far, where they were asked for.
    #[serde(default)]
    pub latencies: Option<LatencyCounts>,
    /// The moment of the run up to which it has queries, in nanoseconds; `None` where it has all.
    #[serde(default)]
    pub read_to_ns: Option<i64>,
    /// Queries left out since they were due before it took over.
    #[serde(default)]
    pub skipped: u64,
}

/// The stages of an agent's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The trace is on its way.
    Fetching,
    /// The first queries are being read.
    #[default]
    Preparing,
    /// They are read; the start is awaited.
    Ready,
    /// It sends.
    Running,
    /// All is recorded, the files are on their way.
    Returning,
    /// The files are with the controller, under these names.
    Returned {
        /// The objects.
        files: Vec<String>,
        /// Why it ended before its queries did, as where its disk was full, for people. `None` also where it was told to stop.
        #[serde(default)]
        ended_early: Option<String>,
    },
    /// It could not go on.
    Failed {
        /// Why, for people.
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
                latencies: Some(LatencyCounts { buckets: vec![1, 2], sum_ns: 3, hdr: vec![0, 255] }),
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
