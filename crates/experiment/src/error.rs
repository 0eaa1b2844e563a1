//! Errors of an experiment: a bad file, a machine that does not support it, or a full disk.

use std::io;
use std::path::PathBuf;

use ldplayer_core::time::Span;
use ldplayer_emulate::serve::set::SetError;
use ldplayer_net::rights::NetError;
use ldplayer_run::RunError;
use ldplayer_workload::spec::BadSpec;

/// An error that ends an experiment; each is one line with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("{}: {source}; give an experiment file in TOML", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Agents on other hosts cannot reach its servers.
    #[error(
        "--nats: agents cannot reach the servers of this experiment, which run in a namespace of this host; use servers that already run (kind = \"address\"), or remove --nats"
    )]
    OfOneHost,
    /// The file has an error.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error, with its line.
        source: BadSpec,
    },
    /// The trace of the experiment cannot be made.
    #[error("[generate]: {}: {what}", file.display())]
    Trace {
        /// The file to be written.
        file: PathBuf,
        /// The reason.
        what: String,
    },
    /// The input of a run cannot be read.
    #[error("cell {cell}: {source}")]
    Cell {
        /// The cell's name.
        cell: String,
        /// What is wrong with its run.
        source: RunError,
    },
    /// A search would begin with more clients than the trace has.
    #[error(
        "cell {cell}: {} with queries within a trial, fewer than the {start} that the search begins with: set `start` to {clients} or less, lengthen `final_trial_duration`, or use a larger trace",
        ldplayer_core::text::counted(*clients, "client", "clients")
    )]
    TooFewClients {
        /// The cell's name.
        cell: String,
        /// Clients that ask within a trial.
        clients: u64,
        /// The first load.
        start: u64,
    },
    /// The warm-up takes the whole trace.
    #[error("cell {cell}: after the warm-up of {warm_up}: {source}")]
    WarmUp {
        /// The cell's name.
        cell: String,
        /// How much of the trace warms the server up.
        warm_up: Span,
        /// What is wrong with the rest of the trace.
        source: Box<RunError>,
    },
    /// Zones of a server cannot be read.
    #[error("zones: {0}")]
    Zones(#[from] SetError),
    /// Zones of a server cannot be prepared.
    #[error("zones {}: {what}", zones.display())]
    Prepare {
        /// The zones.
        zones: PathBuf,
        /// The reason.
        what: String,
    },
    /// The directory exists and does not hold an experiment.
    #[error("{}: the directory exists but does not hold an experiment, so nothing is written to it; choose another directory with -o", .0.display())]
    Foreign(PathBuf),
    /// Another experiment is writing to the directory.
    #[error("{}: another ldplayer experiment is running in this directory; wait for it, or choose another with -o", .0.display())]
    Busy(PathBuf),
    /// The record of the experiment is invalid.
    #[error("{}: {what}; choose another directory with -o", file.display())]
    Record {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file cannot be written.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk is full. Finished runs are kept.
    #[error("{}: the disk is full; finished runs are kept: free some space and repeat the command to continue", .0.display())]
    DiskFull(PathBuf),
    /// A program is not installed.
    #[error("server.{server}: {program} is not installed: sudo apt-get install {package}")]
    Missing {
        /// The server's name.
        server: String,
        /// Its program.
        program: String,
        /// Debian's package with it.
        package: String,
    },
    /// Namespaces cannot be made.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Certificates for the servers cannot be made.
    #[error("cannot make a certificate for the servers: {0}")]
    Certificate(String),
}

impl ExperimentError {
    /// Whether the environment is at fault, not the input.
    pub const fn is_of_environment(&self) -> bool {
        matches!(
            self,
            Self::Busy(_)
                | Self::Output { .. }
                | Self::DiskFull(_)
                | Self::Missing { .. }
                | Self::Net(_)
                | Self::Certificate(_)
        )
    }
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "; finished runs are kept: free some space and repeat the command to continue",
        io::ErrorKind::PermissionDenied => "; choose another directory with -o",
        _ => "",
    }
}
