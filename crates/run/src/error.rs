//! Errors of a run: bad input, or an environment that does not support it.

use std::path::PathBuf;

use ldplayer_replay::ReplayError;
use ldplayer_results::ResultsError;
use ldplayer_workload::WorkloadError;

/// An error of a run; each is one line with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The specification is invalid.
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
    /// This machine or user cannot make the run.
    #[error("{0}")]
    Environment(String),
    /// The engine failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A share of a run that was never started.
    #[error("the run was not started: its controller cancelled it")]
    NotStarted,
    /// Reading the trace or recording the run ended early. Results up to then are kept.
    #[error("{0}")]
    CutShort(String),
}

impl RunError {
    /// Whether the environment is at fault, not the input.
    pub const fn is_of_environment(&self) -> bool {
        matches!(self, Self::Environment(_) | Self::Replay(_))
    }

    /// An error of the environment.
    pub(crate) fn environment(error: impl std::fmt::Display) -> Self {
        Self::Environment(error.to_string())
    }
}
