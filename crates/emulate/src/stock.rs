//! Stock servers: a configuration and state of their own in a scratch directory, ended when dropped.

mod nsd;
mod probe;
mod process;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

pub use nsd::Nsd;

/// What keeps a stock server from running.
#[derive(Debug, thiserror::Error)]
pub enum StockError {
    /// Its program is not on this machine.
    #[error("{program} is not installed: sudo apt-get install {package}")]
    Missing {
        /// The program looked for.
        program: &'static str,
        /// Debian's package with it.
        package: &'static str,
    },
    /// Its configuration cannot hold this path.
    #[error("{}: a path with quotes, backslashes or line ends cannot stand in the server's configuration; rename it", .0.display())]
    Path(PathBuf),
    /// Its scratch directory cannot be made or written.
    #[error("cannot write the server's configuration in {}: {source}; check space and rights there, or set TMPDIR", directory.display())]
    Scratch {
        /// The directory in question.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program is there, but cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it gave an answer.
    #[error("{program} ended ({status}) before it answered; it said: {log}")]
    Ended {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log, on one line.
        log: String,
    },
    /// It runs, but gives no answer.
    #[error("{program} gave no answer from {address} within {seconds} s; it said: {log}")]
    Silent {
        /// The program.
        program: &'static str,
        /// Where it was asked.
        address: SocketAddr,
        /// How long it was given.
        seconds: u64,
        /// The end of its log, on one line.
        log: String,
    },
    /// The system failed while it was asked.
    #[error("cannot ask {address}: {source}")]
    Ask {
        /// Where it was to be asked.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}
