//! The run directory: rows, figures and two verdicts of a run, and what several runs say beside each other.
//!
//! ```text
//! workers ─Outcome─► Recorder ──► queries/*.parquet ──► analysis ──► Summary ──► verdicts, warnings ──► run.json
//!                       ▲                               (two passes)     ▲
//!            RunSetup, RunEnd (what only the caller knows) ──────────────┘
//! ```
//!
//! # The contract
//!
//! - A [`Recorder`] is made before the first query and takes the rows of all workers from one thread. `run.json` is there from then on,
//!   with `state: running`; whatever happens later, the rows that are whole on disk can be read.
//! - [`Recorder::finish`] reads the rows back and makes every figure from them. So what is reported is what was kept, and a run
//!   that crashed is read the same way by [`read_document`].
//! - What is asked for (`spec`) is kept and never looked at: a [`Document`] is generic over it. Everything else is typed, here.
//! - Two verdicts, that of the replay and that of the server, never touch each other ([`Verdict`]). An [`Expectation`] that cannot be
//!   judged fails. No figure is made up: what is not known is `None`, and `null` in `run.json`.
//! - Time is an argument: rows, telemetry and figures have run time, nanoseconds from the first due query.
//!
//! # Limitations
//!
//! - Rows have no time of failures, so `elapsed_s` of a run that never ended may be short by a connect timeout.
//! - Percentiles above a million figures have three significant digits.
//! - Memory grows with clients (about 100 octets each), connections (40) and seconds, not with rows.
//!
//! # Example
//!
//! ```
//! use ldplayer_core::{Outcome, RunTime, Status};
//! use ldplayer_results::{Recorder, RunEnd, RunSetup, read_document};
//!
//! let place = tempfile::tempdir()?;
//! let dir = place.path().join("run");
//! let setup = RunSetup { workers: 1, expect: vec!["answered = 100 %".parse()?], ..RunSetup::default() };
//! let mut recorder = Recorder::create(&dir, false, setup, "what was asked for".to_owned())?;
//! let due = RunTime(0);
//! let row = Outcome { status: Status::Answered, submitted: Some(due), answered: Some(due + 80_000), rcode: Some(0), ..Outcome::EMPTY };
//! recorder.record(0, &[row])?;
//! let written = recorder.finish(RunEnd { trace_queries: 1, ..RunEnd::default() })?;
//! assert_eq!(written.document.report.verdict.server.ok, Some(true));
//! // Anybody can read it again, whatever the run was asked for as.
//! let read = read_document::<serde_json::Value>(&dir)?;
//! assert_eq!(read.report.summary.queries.answered, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! The run directory. `recorder.rs`, `row_folder.rs`, `rows.rs` and `keeper.rs` save rows so that a crash loses seconds at most; `analysis/` makes
//! every figure from the rows on disk; `verdict.rs` judges the replay (`verdict/timing.rs` its lateness, `verdict/host.rs` which percentiles its host can have changed), `judge.rs` what was expected of the server (`expect.rs` is how that is written), `answers.rs` compares
//! what two runs kept of their responses, `verdict/advice.rs` says what to do; `compare/` holds runs against each other by their
//! repeats (`contrast.rs` and `ranks.rs` are the statistics, `gate.rs` what must hold); `ratio.rs` compares response times over UDP and over
//! connections (`ratio/pairs.rs` out of the rows, `ratio/figures.rs`, and in `ratio/diagnosis.rs` what they say); `words.rs` has
//! words for keys, in the order of their meaning, and `numbers.rs` writes numbers for people. `clients.rs` copies rows with other clients. `selection.rs` chooses rows by a
//! condition. `names.rs` joins rows with the questions of the trace (`questions.rs`). The crate `report` shows all of it. What a run was asked for is kept in run.json and never looked at.

#![forbid(unsafe_code)]

mod analysis;
pub mod answers;
mod clients;
mod columns;
pub mod compare;
mod config;
mod error;
mod expect;
mod judge;
mod keeper;
mod limits;
mod missing;
mod model;
mod names;
mod nsid;
pub mod numbers;
mod open;
mod parquet_file;
mod questions;
pub mod ratio;
pub mod rcode;
mod recorder;
mod row_folder;
mod rows;
mod schema;
mod selection;
mod setup;
pub mod store;
mod telemetry;
mod unite;
mod verdict;
mod warning;
pub mod words;

pub use analysis::{Analysis, damaged_rows, figures, needed};
pub use clients::replace_clients;
pub use config::{Environment, RunConfig, word};
pub use error::ResultsError;
pub use expect::{Bound, ExpectError, Expectation, Origin, Quantile, Quantity, Relation, Resident};
pub use limits::{TimingLimits, VerdictLimits};
pub use model::{
    AgentShare, AnswersCompared, AskedAgain, Check, Clients, Connections, CpuWait, Fidelity, Good, Latency, LinkUse,
    Lookups, Names, Queries, Rate, RateError, Recorded, ReplayLoad, Responses, RunReport, ServerAnswers, ServerVerdict,
    SideUsage, SocketsAtPeak, Spread, StandOut, State, Summary, Tail, Telemetry, Threshold, Timing, Top, TraceFile,
    Verdict, Waited,
};
pub use names::join_names;
pub use nsid::NsidCounts;
pub use open::{Evaluated, evaluate, read_document};
pub use questions::{Question, Questions};
pub use recorder::Recorder;
pub use selection::{BadSelection, Cell, Selection};
pub use setup::{RunEnd, RunSetup};
pub use store::{DISAGREEMENTS, DISAGREEMENTS_NOW, Document, RESPONSES, check_output, unpacking};
pub use telemetry::{Figure, Kind, Scope, Side, TelemetrySample};
pub use unite::{Part, Place, sum_telemetry, unite};
pub use verdict::remedy_of_failure;
pub use warning::{About, Warning, WarningCode};
