//! What is asked for of a run on several hosts, besides the run itself.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The options of a run on several hosts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The name of the run.
    pub name: String,
    /// The number of agents.
    pub agents: usize,
    /// How long to wait for them.
    pub patience: Duration,
    /// Nanoseconds of run time that agents read ahead.
    pub ahead_ns: i64,
    /// Maximum size of an agent's stream, in octets.
    pub room: i64,
    /// Number of replicas in a NATS cluster.
    pub replicas: usize,
    /// What to do when an agent is lost.
    pub on_loss: OnLoss,
    /// Whether agents read the trace themselves, from the same path on their hosts.
    pub own_trace: bool,
    /// Whether agents fetch the trace from the NATS server, where the controller uploads it once.
    #[serde(default)]
    pub upload: bool,
    /// Number of additional agents that deal the trace together with the controller, from the same path on their hosts.
    pub feeders: usize,
    /// The command line, for the record.
    pub command_line: Vec<String>,
}

/// What to do when an agent is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    /// The others stop; what they have measured is the result.
    #[default]
    Stop,
    /// The others continue.
    Continue,
    /// Another agent takes over its clients: a free one, or else the one with the fewest shares.
    Reassign,
}

/// An unknown value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown value `{0}`: use stop, continue or reassign")]
pub struct UnknownPolicy(String);

impl FromStr for OnLoss {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "stop" => Ok(Self::Stop),
            "continue" => Ok(Self::Continue),
            "reassign" => Ok(Self::Reassign),
            other => Err(UnknownPolicy(other.to_owned())),
        }
    }
}

impl fmt::Display for OnLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Continue => "continue",
            Self::Reassign => "reassign",
        })
    }
}
