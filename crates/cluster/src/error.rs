//! What can go wrong between controller, agents and the NATS server, worded for people.

use std::path::PathBuf;

use ldplayer_core::wire::WireError;

use crate::arrivals::Misplaced;

/// An error of the link, of an agent, or of a batch.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Nobody is there, or nobody that speaks NATS.
    #[error("no NATS server at {url}: {reason}; start one there, or give --nats embedded for a lab on this host")]
    Connect {
        /// Where it was looked for, without credentials.
        url: String,
        /// What the client says.
        reason: String,
    },
    /// The server is there and does not let us in.
    #[error(
        "the NATS server at {url} refuses these credentials: {reason}; see --nats-credentials and user:password@ in the URL"
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
    /// Anybody may use the server, and its address is public.
    #[error(
        "the NATS server at {url} lets everybody in, and {address} is a public address: whoever reaches it could send load from the agents; give it users (https://docs.nats.io, authorization) and TLS"
    )]
    Open {
        /// Where it is.
        url: String,
        /// Its address.
        address: std::net::IpAddr,
    },
    /// The server is there, without JetStream.
    #[error("the NATS server at {url} has no JetStream ({reason}): start it with -js")]
    NoJetStream {
        /// Where it is, without credentials.
        url: String,
        /// What the client says.
        reason: String,
    },
    /// A question got no answer in time.
    #[error("{who} did not answer within {seconds} s: {what}")]
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
    /// A stream took nothing for too long.
    #[error("{who} took no queries for {seconds} s, and what may wait for it is full")]
    Stuck {
        /// Whose stream it is.
        who: String,
        /// For how long it was waited.
        seconds: u64,
    },
    /// A batch that cannot be here.
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
    /// A batch that cannot be read.
    #[error(transparent)]
    Batch(#[from] WireError),
    /// Fewer agents than asked for.
    #[error("{there} of {asked} agents came within {seconds} s ({names}){busy}{others}; start more with `ldplayer agent --nats URL`, or ask for fewer with --agents",
        there = there.len(), names = if there.is_empty() { "none".to_owned() } else { there.join(", ") },
        busy = if *busy > 0 { format!("; {busy} have another run") } else { String::new() },
        others = if *others > 0 { format!("; {others} are of another release") } else { String::new() })]
    Few {
        /// How many were asked for.
        asked: usize,
        /// Who is there and free.
        there: Vec<String>,
        /// How many have a run.
        busy: usize,
        /// How many are of a release with other messages.
        others: usize,
        /// How long they were waited for.
        seconds: u64,
    },
    /// There is no way to the NATS server any more.
    #[error(
        "no connection to the NATS server at {url} for {seconds} s: start it again, and go on with the run by --resume"
    )]
    Apart {
        /// Where it was.
        url: String,
        /// For how long it was tried.
        seconds: u64,
    },
    /// A run that cannot be gone on with.
    #[error("cannot go on with the run in {directory}: {reason}", directory = directory.display())]
    Resume {
        /// Its directory.
        directory: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Nobody wants the run any more.
    #[error("the run was given up by its controller, or nobody has asked for it for too long")]
    GivenUp,
    /// An agent could not go on.
    #[error("{who}: {reason}")]
    Failed {
        /// Who.
        who: String,
        /// Why.
        reason: String,
    },
    /// What a run is, or its record.
    #[error(transparent)]
    Run(#[from] ldplayer_run::RunError),
    /// The run directory.
    #[error(transparent)]
    Results(#[from] ldplayer_results::ResultsError),
    /// The runtime could not be started.
    #[error("cannot start the threads that speak to NATS: {0}")]
    Runtime(std::io::Error),
}

impl ClusterError {
    /// An error of a stream or an object store.
    pub(crate) fn store(what: impl Into<String>, reason: impl ToString) -> Self {
        Self::Store { what: what.into(), reason: reason.to_string() }
    }
}
