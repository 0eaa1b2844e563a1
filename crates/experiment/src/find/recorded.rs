//! What is kept of searches and their trials in the record of an experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::outcome::GoalResult;

/// What a run was a trial of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Intended load.
    pub load: u64,
    /// Trial duration in seconds.
    pub duration_s: f64,
}

/// Trials at a load that did not count, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// The intended load.
    pub load: u64,
    /// How many there were.
    pub trials: u64,
    /// Whether a goal was missed in them: a failure that is not held against the server.
    pub missed: bool,
    /// Why they do not count.
    pub reason: String,
}

/// What a search found for one goal in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// The cell's name.
    pub cell: String,
    /// The keys of the matrix with its values.
    pub keys: BTreeMap<String, String>,
    /// The unit of the loads.
    pub unit: String,
    /// Seconds that all trials of the cell took, with all around them.
    pub took_s: f64,
    /// Trials of the cell that did not count.
    #[serde(default)]
    pub discarded: Vec<Discarded>,
    /// What was found.
    #[serde(flatten)]
    pub result: GoalResult,
}
