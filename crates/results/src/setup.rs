//! What the caller says about a run: before it starts and when it ends.

use std::collections::BTreeMap;

use crate::config::{Environment, RunConfig};
use crate::expect::Expectation;
use crate::limits::VerdictLimits;
use crate::model::{AgentShare, AskedAgain, Connections, LinkUse, Recorded, ReplayLoad, ServerAnswers, TraceFile};
use crate::questions::Questions;
use crate::telemetry::TelemetrySample;
use crate::warning::Warning;
use ldplayer_core::damage::Tally;
use ldplayer_core::{RunTime, Stalls, TraceTime};

/// What is known before the first query.
#[derive(Clone, Debug, Default)]
pub struct RunSetup {
    /// Options as resolved on this machine.
    pub config: RunConfig,
    /// The machine.
    pub environment: Environment,
    /// Wall clock at which the run is about to start; its end tells it exactly.
    pub started: TraceTime,
    /// Number of workers that will report outcomes.
    pub workers: usize,
    /// Time of the first transaction in the trace.
    pub trace_first: TraceTime,
    /// How the schedule relates to the trace, for people, such as `twice as fast as recorded`.
    pub speed_note: Option<String>,
    /// Names of the classes of clients, as outcomes number them.
    pub classes: Vec<String>,
    /// What is expected of the server.
    pub expect: Vec<Expectation>,
}

/// What is known when the last outcome is in.
#[derive(Debug, Default)]
pub struct RunEnd {
    /// Wall clock at run time 0.
    pub started: TraceTime,
    /// When a query last ended without an answer, on the run's clock, which the rows do not tell of timeouts and failures; `None`
    /// leaves it to them.
    pub last_unanswered: Option<RunTime>,
    /// Datagrams that the kernel dropped on sockets of this run, for lack of room; `None` where nobody counted.
    pub receive_drops: Option<u64>,
    /// Responses that belong to no query and have no row, by reason.
    pub strays_unlisted: BTreeMap<String, u64>,
    /// What the link in the sender did; `None` where there was none.
    pub link: Option<LinkUse>,
    /// Queries in `responses.parquet`; `None` where responses were not kept.
    pub responses_kept: Option<u64>,
    /// The responses in it by the server that sent them.
    pub nsid: Vec<ServerAnswers>,
    /// Answers that the trace has to the queries replayed; `None` where it has none.
    pub recorded: Option<Recorded>,
    /// What became of disagreeing answers when they were asked for again; `None` where nobody asked.
    pub asked_again: Option<AskedAgain>,
    /// The user or an error ended the run before the trace was through.
    pub interrupted: bool,
    /// Queries in the part of the trace that was to be replayed, as the reader counted them.
    pub trace_queries: u64,
    /// Clients of each class, by its name.
    pub class_clients: BTreeMap<String, u64>,
    /// Warnings of the stages before this one.
    pub warnings: Vec<Warning>,
    /// Figures sampled during the run.
    pub telemetry: Vec<TelemetrySample>,
    /// How the workers kept up; `None` where nobody looked.
    pub load: Option<ReplayLoad>,
    /// What became of connections, as the engine counted; `None` leaves it to what the rows say.
    pub connections: Option<Connections>,
    /// What the verdict is measured against.
    pub limits: VerdictLimits,
    /// Host stalls seen by workers.
    pub stalls: Stalls,
    /// Accounting of the trace: the parts read and not readable.
    pub tally: Tally,
    /// The agents of a run of several hosts.
    pub agents: Vec<AgentShare>,
    /// Queries without a row because their agent was lost, by their last known state.
    pub lost: BTreeMap<String, u64>,
    /// The files of the trace.
    pub traces: Vec<TraceFile>,
    /// The questions of the queries; `None` where nobody read them.
    pub questions: Option<Questions>,
}
