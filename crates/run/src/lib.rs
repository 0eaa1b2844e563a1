//! Runs: a specification is prepared and executed, and becomes a report.
//!
//! ```text
//! options, a file, an earlier run ──► RunSpec ──prepare──► Prepared ──execute──► FinishedRun
//!                                        │                    │                     │
//!                                 files read into it   server started,        run directory:
//!                                 (embed), so that it  names resolved,        rows, run.json with
//!                                 can be repeated      targets allowed        the spec, report
//! ```
//!
//! # The contract
//!
//! - A [`RunSpec`] defines a run completely. Nothing here reads the command line, uses a terminal or catches signals. An [`Observer`]
//!   watches a run, and says whether to continue.
//! - A prepared specification is self-contained: it holds rules and classes as text, not as file names. It is kept in run.json, from which
//!   [`read_spec`] reads it to repeat the run.
//! - Errors of the specification are reported before the first packet; later errors are reported after everything measured has been
//!   saved.
//! - Run time 0 is the same moment for rows and telemetry.
//!
//! # Limitations
//!
//! A trace from standard input or a socket cannot be repeated. In a run on several hosts, each plays a [`Share`]; the
//! crate `cluster` deals the
//! queries and combines the rows.
//!
//! # Example
//!
//! ```
//! use ldplayer_run::RunSpec;
//!
//! let spec = RunSpec::parse("trace = 'broot.parquet'\nserver = '127.0.0.1:5300'\ntransport = 'dot'\nidle_timeout = '5s'")?;
//! assert_eq!(spec.policy.idle_timeout, Some(5_000_000_000));
//! assert_eq!(RunSpec::parse(&spec.to_toml())?, spec);
//! // `ldplayer_run::prepare(spec)?.execute(...)` makes it.
//! # Ok::<(), ldplayer_run::BadSpec>(())
//! ```
//!
//! # Files
//!
//! What a run is. `keys.rs` is the table of keys (`keys/table.rs`), from which the specification, its files (`spec.rs`) and the
//! options follow; `embed.rs` reads the files that it names into it, `resolve.rs` makes out what it means on this machine
//! (`path.rs` how packets leave it, `path/interface.rs` on an interface among other hosts), `permission.rs` whether load may go there,
//! `server.rs` starts a server, and `execute.rs` joins workload, engine and results. `responses.rs` writes the responses that are
//! kept, `again.rs` asks again for answers that are not the expected ones, `questions.rs` reads the trace again for the names, and `archive/` packs a run into one file. `watch.rs` asks an `Observer` whether to go on,
//! and `watch/sampler.rs` takes telemetry on the run's clock (`watch/server.rs`: of a server alone, while others replay). No
//! command line, no terminal, no signals.

#![forbid(unsafe_code)]

mod again;
pub mod archive;
mod classes;
mod describe;
mod embed;
mod error;
mod execute;
mod ineffective;
pub mod keys;
mod link;
mod live;
mod load;
mod metrics;
mod path;
mod permission;
mod probe;
mod questions;
mod resolve;
mod responses;
mod server;
mod share;
mod spec;
mod time_limit;
mod tls;
mod warnings;
mod watch;
mod whole;
mod words;

use std::path::Path;

use ldplayer_results::{ResultsError, read_document};

pub use embed::embed;
pub use error::RunError;
pub use execute::{FinishedRun, Prepared, prepare, prepare_share};
pub use ineffective::{Ineffective, in_words as ineffective_in_words, ineffective};
pub use keys::RunSpec;
pub use live::Live;
pub use load::{Load, is_repeatable, load};
pub use questions::questions;
pub use server::cpu_limit;
pub use share::{Share, Start, read_whole};
pub use spec::{BadSpec, VERSION};
pub use watch::{LastSecond, Observer, Progress, ServerWatch, Wish};
pub use whole::{Whole, prepare_whole, shared};
pub use words::{BadServer, CoreShare, Lag, Server, Speed, TransportChoice};

/// Refuses a directory in which no run can be made: one that exists, unless an earlier run in it may be replaced.
///
/// # Errors
/// There is something that must not be replaced.
pub fn check_output(output: &Path, replace: bool) -> Result<(), ResultsError> {
    ldplayer_results::check_output(output, replace)
}

/// The specification of an earlier run, its files where they are now.
///
/// # Errors
/// The directory is not a run directory, or was written by a version that kept no specification.
pub fn read_spec(run: &Path) -> Result<RunSpec, ResultsError> {
    read_document::<RunSpec>(run).map(|document| embed::placed(document.spec, run))
}
