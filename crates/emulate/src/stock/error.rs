//! What keeps a stock server from running, in the words that a user reads.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

/// What a server is waited for before it counts as up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A response over UDP.
    Answer,
    /// That it takes TCP connections.
    Connection,
    /// A response from the zones that it was given.
    Zones,
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Answer => "answer over UDP",
            Self::Connection => "connection over TCP",
            Self::Zones => "answer from its zones",
        })
    }
}

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
    /// Its configuration cannot hold this text.
    #[error("{0:?}: text with quotes, backslashes or line ends cannot stand in the server's configuration; rename it")]
    Unquotable(String),
    /// Its configuration's template is none.
    #[error("the template of its configuration, {name}: {what}")]
    Template {
        /// The file, or the kind whose own it is.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A zone's apex is no domain name.
    #[error("zone {apex:?}: {source}; give its apex as in a zone file, such as \"example.com.\"")]
    Apex {
        /// The text given.
        apex: String,
        /// What is wrong with it.
        source: ldplayer_core::name::BadName,
    },
    /// A file that the server is to read cannot be read.
    #[error("{}: {source}; the server is to read this file", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its scratch directory cannot be made or written.
    #[error("cannot write the server's configuration in {}: {source}; check space and rights there, or set TMPDIR", directory.display())]
    Scratch {
        /// The directory in question.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another program has the address, such as a DNS server that could pass for ours.
    #[error(
        "{address} ({transport}) is taken: another program listens there; stop it, or choose another address or port"
    )]
    Taken {
        /// The address and port.
        address: SocketAddr,
        /// `UDP` or `TCP`.
        transport: &'static str,
    },
    /// The program is there, but cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{program} ended ({status}) before it was ready; it said: {log}")]
    Ended {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log, on one line.
        log: String,
    },
    /// It runs, but gives no answer.
    #[error(
        "{program} gave no {what} at {address} within {seconds} s; check the address it listens on; it said: {log}"
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
    #[error("cannot ask {address}: {source}")]
    Ask {
        /// Where it was to be asked.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}
