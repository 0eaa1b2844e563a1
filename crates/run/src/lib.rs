//! What a run is, and how it is made: a specification, prepared and executed, becomes a report.
//!
//! ```text
//! options, a file, an earlier run ──► RunSpec ──prepare──► Prepared ──execute──► RunReport
//!                                        │                    │                     │
//!                                 files read into it   server started,        run directory:
//!                                 (embed), so that it  names resolved,        rows, run.json with
//!                                 can be repeated      targets allowed        the spec, report
//! ```
//!
//! # The contract
//!
//! - A [`RunSpec`] is the only meaning of a run. Who wants one makes a value; nothing here reads the command line, asks a
//!   terminal or catches a signal. Whoever looks on is an [`Observer`], and says whether the run is to go on.
//! - A specification that has been prepared is whole: rules and classes stand in it as text, not as names of files. It is kept in
//!   run.json, from which [`read_spec`] takes it for the same run once more.
//! - What is wrong with a specification is told before the first packet; what goes wrong later is told after everything
//!   measured has been kept.
//! - Run time 0 is one moment for rows and telemetry alike: the engine starts when it is told to.
//!
//! # Limitations
//!
//! A trace from standard input or a socket cannot be repeated. Of a run of several hosts, each plays a [`Share`]; dealing queries and
//! putting rows together is `cluster`'s.
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

#![forbid(unsafe_code)]

mod again;
mod classes;
mod describe;
mod embed;
mod error;
mod execute;
mod live;
mod load;
mod metrics;
mod permission;
mod resolve;
mod responses;
mod server;
mod share;
mod spec;
mod tls;
mod warnings;
mod watch;
mod whole;

use std::path::Path;

use ldplayer_results::{ResultsError, read_document};

pub use embed::embed;
pub use error::RunError;
pub use execute::{Prepared, RunReport, prepare, prepare_share};
pub use live::Live;
pub use load::{Load, is_repeatable, load};
pub use share::{Share, Start, read_whole};
pub use spec::{BadServer, BadSpec, Lag, RunSpec, Server, TransportChoice, VERSION};
pub use watch::{LastSecond, Observer, Progress, ServerWatch, Wish};
pub use whole::{Whole, prepare_whole, shared};

/// The specification of an earlier run.
///
/// # Errors
/// The directory is not that of a run, or was written by a version that kept none.
pub fn read_spec(run: &Path) -> Result<RunSpec, ResultsError> {
    read_document::<RunSpec>(run).map(|document| document.spec)
}
