//! Errors between controller, agents and the NATS server.

use std::path::PathBuf;

use ldplayer_core::wire::WireError;

use crate::arrivals::Misplaced;

/// An error of the link, of an agent, or of a batch.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No NATS server listens there.
    #[error("no NATS server at {url}: {reason}; start one there, or use --nats embedded for agents on this host")]
    Connect {
        /// Where it was looked for, without credentials.
        url: String,
        /// What the client says.
        reason: String,
    },
    /// The server rejects the credentials.
    #[error(
        "the NATS server at {url} rejected the credentials: {reason}; see --nats-credentials and user:password@ in the URL"
    )]
    Refused {
        /// Where it is, without credentials.
        url: String,
        /// What the client says.
        reason: String,
    },
    /// A file of credentials or certificates cannot be read.
    #[error("{file}: {reason}", file = file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The server needs no credentials and has a public address.
    #[error(
        "the NATS server at {url} needs no credentials, and {address} is a public address: anyone who reaches it could send load from the agents; configure users (https://docs.nats.io, authorization) and TLS"
    )]
    Open {
        /// Where it is.
        url: String,
        /// Its address.
        address: std::net::IpAddr,
    },
    /// The server runs without JetStream.
    #[error("the NATS server at {url} has no JetStream ({reason}): start it with -js")]
    NoJetStream {
        /// Where it is, without credentials.
        url: String,
        /// What the client says.
        reason: String,
    },
    /// A request was not answered in time.
    #[error("{who} did not answer within {seconds} s ({what})")]
    Silent {
        /// Who was asked.
        who: String,
        /// What.
        what: &'static str,
        /// For how long it was waited.
        seconds: u64,
    },
    /// A stream or an object store cannot be made, read or written.
    #[error("NATS, {what}: {reason}")]
    Store {
        /// What was to be done.
        what: String,
        /// What the client says.
        reason: String,
    },
    /// The server has not enough storage left for the streams of a run.
    #[error(
        "the NATS server has no {octets} bytes of storage left for each agent's queries: free space on its disk, or raise max_file_store in its configuration"
    )]
    Full {
        /// The least size of a stream that was asked for.
        octets: i64,
    },
    /// A stream took no queries for too long.
    #[error("{who} took no queries for {seconds} s, and its queue is full")]
    Stuck {
        /// Whose stream it is.
        who: String,
        /// For how long it was waited.
        seconds: u64,
    },
    /// An unexpected batch.
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
    /// A batch that cannot be read.
    #[error(transparent)]
    Batch(#[from] WireError),
    /// Fewer agents than asked for.
    #[error("found {there} of {asked} agents within {seconds} s ({names}){busy}{others}; start more with `ldplayer agent --nats URL`, or use fewer with --agents",
        there = there.len(), names = if there.is_empty() { "none".to_owned() } else { there.join(", ") },
        busy = if *busy > 0 { format!("; busy with another run: {busy}") } else { String::new() },
        others = if *others > 0 { format!("; of another release: {others}") } else { String::new() })]
    Few {
        /// How many were requested.
        asked: usize,
        /// Which agents are free.
        there: Vec<String>,
        /// How many are busy.
        busy: usize,
        /// How many are of an incompatible release.
        others: usize,
        /// How long the controller waited.
        seconds: u64,
    },
    /// The connection to the NATS server was lost.
    #[error(
        "no connection to the NATS server at {url} for {seconds} s: start it again, and continue the run with --resume"
    )]
    Apart {
        /// Where it was.
        url: String,
        /// For how long it was tried.
        seconds: u64,
    },
    /// A run that cannot be resumed.
    #[error("cannot resume the run in {directory}: {reason}", directory = directory.display())]
    Resume {
        /// Its directory.
        directory: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The run was cancelled.
    #[error("the run was cancelled by its controller, or its controller has been silent for too long")]
    GivenUp,
    /// An agent failed.
    #[error("{who}: {reason}")]
    Failed {
        /// Who.
        who: String,
        /// Why.
        reason: String,
    },
    /// The specification of the run, or its execution.
    #[error(transparent)]
    Run(#[from] ldplayer_run::RunError),
    /// The run directory.
    #[error(transparent)]
    Results(#[from] ldplayer_results::ResultsError),
    /// The runtime could not be started.
    #[error("cannot start the NATS threads: {0}")]
    Runtime(std::io::Error),
}

impl ClusterError {
    /// An error of a stream or an object store.
    pub(crate) fn store(what: impl Into<String>, reason: impl ToString) -> Self {
        Self::Store { what: what.into(), reason: reason.to_string() }
    }
}
