//! Why an experiment cannot be made: a bad file, a machine that cannot do it, or a disk that is full.

use std::io;
use std::path::PathBuf;

use ldplayer_core::time::Span;
use ldplayer_emulate::serve::set::SetError;
use ldplayer_net::rights::NetError;
use ldplayer_run::RunError;
use ldplayer_workload::spec::BadSpec;

/// An error of an experiment as a whole; each is one line with what to do.
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
    /// Its servers are where no other host reaches them.
    #[error(
        "--nats: the servers of this experiment are in a namespace of this host, which agents cannot reach; give servers that are there already (kind = \"address\"), or leave --nats out"
    )]
    OfOneHost,
    /// Something is wrong in the file.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What, with its line.
        source: BadSpec,
    },
    /// The trace of the experiment cannot be made.
    #[error("[generate]: {}: {what}", file.display())]
    Trace {
        /// Where it is written.
        file: PathBuf,
        /// Why not.
        what: String,
    },
    /// What a run needs cannot be read.
    #[error("cell {cell}: {source}")]
    Cell {
        /// The cell's name.
        cell: String,
        /// What is wrong with its run.
        source: RunError,
    },
    /// Warming up leaves nothing of a trace.
    #[error("cell {cell}: behind the {warm_up} that warm the server up: {source}")]
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
        /// Why not.
        what: String,
    },
    /// The directory belongs to something else.
    #[error("{}: is there and holds no experiment, so nothing is written to it; choose another directory with -o", .0.display())]
    Foreign(PathBuf),
    /// Another experiment writes to the directory now.
    #[error("{}: another ldplayer experiment is running in this directory; wait for it, or choose another with -o", .0.display())]
    Busy(PathBuf),
    /// Its record cannot be understood.
    #[error("{}: {what}; choose another directory with -o", file.display())]
    Record {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The system refused a file.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk is full. What is finished stays.
    #[error("{}: the disk is full; what is finished stays, and the same command goes on from there when there is room", .0.display())]
    DiskFull(PathBuf),
    /// A program is not there.
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
    #[error("a certificate for the servers: {0}")]
    Certificate(String),
}

impl ExperimentError {
    /// Whether the environment is the reason, and not what was asked for.
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
        io::ErrorKind::StorageFull => {
            "; free some space: what is finished stays, and the same command goes on from there"
        }
        io::ErrorKind::PermissionDenied => "; choose another directory with -o",
        _ => "",
    }
}
