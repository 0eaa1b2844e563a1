//! Why a run cannot be made: bad input, or an environment that cannot do it.

use std::path::PathBuf;

use ldplayer_replay::ReplayError;
use ldplayer_results::ResultsError;
use ldplayer_workload::WorkloadError;

/// An error of a run; each is one line with what to do.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The specification asks for what cannot be.
    #[error("{0}")]
    Spec(String),
    /// A file that the specification names cannot be read or used.
    #[error("{option} {}: {what}", file.display())]
    File {
        /// The option that names it.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The trace cannot be read, or has nothing to replay.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The run directory cannot be written or read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// This machine or this user cannot do it.
    #[error("{0}")]
    Environment(String),
    /// The engine could not go on.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A share of a run that nobody started.
    #[error("the run was not started: its controller gave it up")]
    NotStarted,
    /// Reading the trace or recording the run ended early. What was measured is kept.
    #[error("{0}")]
    CutShort(String),
}

impl RunError {
    /// Whether the environment is the reason, and not what was asked for.
    pub const fn is_of_environment(&self) -> bool {
        matches!(self, Self::Environment(_) | Self::Replay(_))
    }

    /// What this machine or this user cannot do.
    pub(crate) fn environment(error: impl std::fmt::Display) -> Self {
        Self::Environment(error.to_string())
    }
}
