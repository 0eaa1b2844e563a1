//! Errors of starting and querying stock servers.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

/// What a server must do to count as up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A response over UDP.
    Answer,
    /// Accepting TCP connections.
    Connection,
    /// A response from its zones.
    Zones,
    /// What the user says is the sign.
    Ready,
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Answer => "answer over UDP",
            Self::Connection => "connection over TCP",
            Self::Zones => "answer from its zones",
            Self::Ready => "sign that it is ready, as the file says it,",
        })
    }
}

/// Why a stock server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StockError {
    /// The program is not installed.
    #[error("{program} is not installed: sudo apt-get install {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// Debian's package with it.
        package: &'static str,
    },
    /// The configuration cannot hold this text.
    #[error("{0:?}: the server's configuration cannot hold quotes, backslashes or line breaks; rename it")]
    Unquotable(String),
    /// The configuration template is invalid.
    #[error("configuration template {name}: {what}")]
    Template {
        /// Its file, or the kind of server if it is the built-in one.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A zone's apex is not a domain name.
    #[error("zone {apex:?}: {source}; give the apex as in a zone file, such as \"example.com.\"")]
    Apex {
        /// The apex as given.
        apex: String,
        /// What is wrong with it.
        source: ldplayer_core::name::BadName,
    },
    /// A file for the server cannot be read.
    #[error("{}: {source}; the server must be able to read this file", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The scratch directory cannot be written.
    #[error("cannot write the server's configuration in {}: {source}; check free space and permissions, or set TMPDIR", directory.display())]
    Scratch {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The address is in use by another program.
    #[error("{address} ({transport}) is already in use by another program; stop it, or choose another address or port")]
    Taken {
        /// The address and port.
        address: SocketAddr,
        /// `UDP` or `TCP`.
        transport: &'static str,
    },
    /// The program cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The quota of processor time cannot be made.
    #[error(transparent)]
    Quota(#[from] ldplayer_net::cpu_quota::QuotaError),
    /// The program ended before it was ready.
    #[error("{program} ended ({status}) before it was ready; its last log lines: {log}")]
    Ended {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log, on one line.
        log: String,
    },
    /// The program runs, but does not answer.
    #[error(
        "no {what} from {program} at {address} within {seconds} s; check the address it listens on; its last log lines: {log}"
    )]
    Silent {
        /// The program.
        program: String,
        /// What was waited for.
        what: Awaited,
        /// Where it was asked.
        address: SocketAddr,
        /// How long it was given.
        seconds: u64,
        /// The end of its log, on one line.
        log: String,
    },
    /// It runs, but does not serve a zone that it was given.
    #[error("{program} cannot serve the zone {apex}: {reason}")]
    Zone {
        /// The program.
        program: String,
        /// The zone's apex.
        apex: String,
        /// What it said, with the zone file and line where it told them.
        reason: String,
    },
    /// The system failed while it was asked, or while its state was.
    #[error("cannot query {address}: {source}")]
    Ask {
        /// Where it was to be asked.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}
