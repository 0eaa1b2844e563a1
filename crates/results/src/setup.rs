//! What the caller says about a run: before it starts and when it ends.

use std::collections::BTreeMap;

use ldplayer_core::damage::Tally;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{RunTime, Stalls, TraceTime};
use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::config::{Environment, RunConfig};
use crate::expect::Expectation;
use crate::model::{AgentShare, AskedAgain, Connections, LinkUse, Recorded, ReplayLoad, RunReport, State, Telemetry};
use crate::telemetry::TelemetrySample;

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
#[derive(Clone, Debug, Default)]
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
    /// What was read of the trace, and what of it could not be.
    pub tally: Tally,
    /// The agents of a run of several hosts.
    pub agents: Vec<AgentShare>,
    /// Queries without a row since their agent was lost, by what is known of them.
    pub lost: BTreeMap<String, u64>,
}

impl RunEnd {
    /// Puts what is known now into the report, beside what the rows say.
    pub(crate) fn complete(self, report: &mut RunReport, rows: &Analysis) {
        report.state = if self.interrupted { State::Interrupted } else { State::Complete };
        report.started = self.started.to_string();
        report.limits = self.limits;
        report.stalls = self.stalls;
        report.tally = Some(self.tally);
        report.summary = rows.summary.clone();
        if let (Some(unanswered), Some(first)) = (self.last_unanswered, rows.first_due) {
            let last = rows.last_answered.map_or(unanswered.0, |answered| answered.max(unanswered.0));
            report.summary.elapsed_s = last.saturating_sub(first).max(0) as f64 / NS_PER_S as f64;
        }
        report.summary.telemetry = Telemetry { replay: self.load, ..rows.telemetry(&report.summary) };
        report.summary.responses.receive_drops = self.receive_drops;
        report.summary.queries.add_unlisted(self.strays_unlisted);
        report.summary.link.clone_from(&self.link);
        report.summary.responses.kept = self.responses_kept;
        report.summary.recorded = self.recorded;
        if let Some(compared) = &mut report.summary.answers_compared {
            compared.again = self.asked_again;
        }
        report.summary.queries.trace = Some(self.trace_queries);
        report.summary.queries.lost = self.lost.values().sum();
        report.summary.queries.lost_by_reason = self.lost;
        report.agents = self.agents;
        report.summary.clients.by_class = self.class_clients;
        if let Some(connections) = self.connections {
            report.summary.connections = connections;
        }
        report.config.keep_used(&report.summary.queries.sent_by_transport);
        report.warnings = self.warnings;
    }
}

/// What a warning is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// How the run was made.
    #[default]
    Replay,
    /// What the server did.
    Server,
}

/// A doubt about the run, with what the user can do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable word for programs, such as `fell_behind`.
    pub code: String,
    /// What was seen.
    pub text: String,
    /// What to do; empty where nothing need be done.
    pub remedy: String,
    /// What it is about.
    #[serde(default)]
    pub about: About,
}

impl Warning {
    /// A warning from its three parts.
    pub fn new(code: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code: code.to_owned(), text: text.into(), remedy: remedy.into(), about: About::Replay }
    }

    /// A warning about the server.
    pub fn of_server(code: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { about: About::Server, ..Self::new(code, text, remedy) }
    }
}

/// What the verdict is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictLimits {
    /// Limits of the timing error; `None` when queries have no time of their own (`--timing fast`).
    pub timing: Option<TimingLimits>,
    /// How far the rate of a window may be from the trace's, in percent; at least one query is always allowed.
    pub rate_percent: f64,
    /// Share of windows that must be that close, in percent.
    pub rate_windows_percent: f64,
}

/// Limits of the timing error in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimingLimits {
    /// The quartiles must lie within ± this.
    pub quartile_us: f64,
    /// The 99th percentile must not exceed this.
    pub p99_us: f64,
}

impl VerdictLimits {
    /// Limits of `--precision high`: quartiles within ±10 µs, p99 within 150 µs.
    pub const HIGH: Self = Self::timed(10.0, 150.0);
    /// Limits of `--precision normal`: quartiles within ±50 µs, p99 within 1 ms.
    pub const NORMAL: Self = Self::timed(50.0, 1_000.0);
    /// Limits of `--precision low`: quartiles within ±500 µs, p99 within 5 ms.
    pub const LOW: Self = Self::timed(500.0, 5_000.0);
    /// Limits of `--timing fast`: nothing is due at any time, so timing and rate are not judged.
    pub const FAST: Self = Self { timing: None, ..Self::timed(0.0, 0.0) };

    const fn timed(quartile_us: f64, p99_us: f64) -> Self {
        Self { timing: Some(TimingLimits { quartile_us, p99_us }), rate_percent: 0.1, rate_windows_percent: 99.0 }
    }
}

impl Default for VerdictLimits {
    fn default() -> Self {
        Self::NORMAL
    }
}
