//! The run directory: rows, summary, verdict and report of a run.
//!
//! A [`Recorder`] takes the outcomes of the workers while a run lasts and writes them as Parquet. When the run ends, the
//! rows on disk are read back and become the summary, the verdict and the report; so what is reported is what was kept,
//! and a run that crashed can be read the same way.

#![forbid(unsafe_code)]

mod analysis;
mod columns;
mod config;
mod error;
mod model;
mod open;
mod page;
mod recorder;
mod rows;
mod schema;
mod setup;
mod store;
mod telemetry;
mod text;
mod verdict;
mod words;

pub use config::{ClassConfig, ConnectionConfig, Environment, RunConfig, UsedPolicy};
pub use error::ResultsError;
pub use model::{
    Check, Clients, Connections, Latency, Queries, Rate, RateError, Responses, RunReport, Spread, State, Summary, Tail,
    Timing, Verdict,
};
pub use open::{read_document, rewrite_page};
pub use recorder::Recorder;
pub use setup::{RunEnd, RunSetup, TimingLimits, VerdictLimits, Warning};
pub use store::Document;
pub use telemetry::{Side, TelemetrySample};
