//! Who follows the progress of an experiment, and its inputs besides the plan.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ldplayer_core::Cidr;
use ldplayer_results::Document;
use ldplayer_run::{Observer, Progress, RunError, RunSpec, Wish};

use crate::record::RunRecord;

/// Observes an experiment.
pub trait Watcher: Send {
    /// A notice for the user.
    fn tell(&mut self, line: &str);
    /// A run begins.
    fn begin(&mut self, at: &Position);
    /// A run is in progress; called about twenty times a second. Returns whether to continue.
    fn look(&mut self, at: &Position, progress: &Progress) -> Wish;
    /// A run has ended.
    fn end(&mut self, at: &Position, run: &RunRecord);
    /// Whether to stop after the current run.
    fn is_stopped(&self) -> bool;
}

/// Progress of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// The number of the run, from 1; in a search, of the trial within its cell.
    pub number: usize,
    /// The total number of runs; `None` in a search.
    pub of: Option<usize>,
    /// The name of the cell.
    pub cell: String,
    /// Which repeat or trial it is.
    pub what: String,
    /// Estimated seconds for this and the remaining runs, if known.
    pub estimated_s: Option<(f64, f64)>,
}

/// Options that are not part of the plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program, which also is a server.
    pub ldplayer: PathBuf,
    /// Whether runs may replace earlier ones in their directories.
    pub replace: bool,
    /// The command line, for the records of runs.
    pub command_line: Vec<String>,
    /// Address blocks outside this host that may be sent load. Those of the file do not count: it may be somebody else's.
    pub allow_target: Vec<Cidr>,
    /// Makes the replays; `None` for this process.
    pub replayer: Option<Arc<dyn Replayer>>,
}

/// Makes replays outside this process.
pub trait Replayer: fmt::Debug + Send + Sync {
    /// Makes a replay in a new directory.
    ///
    /// # Errors
    /// The error of the replay; everything measured before it is kept.
    fn replay(
        &self,
        spec: RunSpec,
        directory: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, RunError>;
}
