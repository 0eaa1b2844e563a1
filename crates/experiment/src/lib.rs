//! Experiments as code: from one file to a matrix of runs, made in turn, kept and summarised.
//!
//! ```text
//! file ──► Experiment ──► Plan ──► for each slot, in turn (A B A B …):
//!          (cells: a       (order,    stage (namespace or testbed, servers) ──► run::prepare ──► run::execute
//!           RunSpec and     what it                                                                │
//!           its stage)      takes)                        experiment.json after each run ◄─────────┘
//! ```
//!
//! # The contract
//!
//! - A cell of the matrix is a [`ldplayer_run::RunSpec`] and its [`Stage`]; together they define a run completely.
//! - A finished run is never repeated or overwritten while the meaning of its cell (`Cell::digest`) is unchanged; runs that were
//!   disturbed, interrupted or lost their server are kept beside the runs that replace them.
//! - Everything started for a run ends with it, however it ends.
//! - A search ([`find`]) chooses its runs from the record of earlier trials alone, so that an interrupted search resumes as if it had not
//!   been interrupted.
//!
//! A ratio study ([`make_ratio`]) makes runs of its own, with pairs of queries over UDP and over connections.
//!
//! # Limitations
//!
//! Runs of one experiment are made one after the other, on this machine. A trace must be a file.
//!
//! # Example
//!
//! ```
//! use ldplayer_experiment::Experiment;
//!
//! let text = "trace = 'broot.parquet'\nserver = '127.0.0.1:5300'\nrepeats = 3\n[matrix]\ntransport = ['udp', 'tcp']";
//! let experiment = Experiment::parse(text, std::path::Path::new("."), "all-tcp")?;
//! let names: Vec<&str> = experiment.cells.iter().map(|cell| cell.name.as_str()).collect();
//! assert_eq!(names, ["transport=udp", "transport=tcp"]);
//! # Ok::<(), ldplayer_workload::BadSpec>(())
//! ```
//!
//! # Files
//!
//! A matrix of runs. `file.rs` reads the file (`keys.rs` says which keys there are, `values.rs` how lists and paths are read, `servers.rs`, `stage.rs`, `generate.rs`, `gate.rs` and `find.rs` its tables),
//! `matrix.rs` makes cells of it: each a `RunSpec` and a `Stage`, what is around it. `plan.rs` puts their runs in order and tells
//! what they take. `execute.rs` has them made by `maker.rs`, one after the other (`versions.rs` asks servers for theirs): `place.rs` is where (a namespace, a testbed, this host),
//! `started.rs` starts the servers there, `zones.rs` and `certificate.rs` make what they need once. `ratio.rs` makes a ratio study of runs at the same places. `record.rs` is `experiment.json` and the lock of the directory, `dataset.rs` the rows of all runs that count; `summary.rs` the figures over repeats,
//! `sides.rs` which runs are compared with which, `overview.rs` what all of them came to. `find/` is the search for a capacity:
//! `search.rs` says which trial is next by all that were made (`goal.rs` classifies loads), and knows no server and no clock;
//! `bind.rs` makes a run of a trial, `judge.rs` evidence of a run, `crowd.rs` says whose limit it was; `trials.rs` has them made. A `Watcher` (`watcher.rs`) looks on: no
//! terminal, no signals.

#![forbid(unsafe_code)]

mod cell;
mod certificate;
mod contents;
mod dataset;
mod error;
mod execute;
mod file;
pub mod find;
pub mod gate;
mod generate;
mod keys;
mod maker;
mod matrix;
mod overview;
mod place;
mod plan;
mod ratio;
mod ready_made;
mod record;
mod servers;
pub mod sides;
mod stage;
mod started;
mod summary;
mod transports;
mod trials;
mod values;
mod versions;
mod watcher;
mod zones;

pub use cell::Cell;
pub use error::ExperimentError;
pub use execute::execute;
pub use file::Experiment;
pub use generate::Generate;
pub use overview::overview;
pub use plan::{Estimate, MANY_RUNS, Plan, Slot, order};
pub use ratio::{FinishedStudy, MAX_CLIENTS, MAX_QUERIES, NamedServer, RatioError, RatioPlan, Wired, make_ratio};
pub use record::{AxisRecord, CellRecord, Record, RunRecord, RunState, Verdicts, Workspace};
pub use servers::ServerTable;
pub use stage::{Link, Signing, Stage};
pub use summary::{CellSummary, Figure, Passed, summary};
pub use watcher::{Options, Position, Replayer, Watcher};

#[cfg(test)]
mod tests;
