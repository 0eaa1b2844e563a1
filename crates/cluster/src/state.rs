//! The controller's state in the run directory, from which another controller can resume.

use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_run::RunSpec;
use serde::{Deserialize, Serialize};

use crate::clock::Offset;
use crate::error::ClusterError;
use crate::host;
use crate::member::Member;
use crate::message::Hello;
use crate::order::Order;

/// The file name in the run directory.
const FILE: &str = "controller.json";

/// A run in progress.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    /// Number of the run.
    pub run: u64,
    /// The boot id of the host whose CLOCK_MONOTONIC has the start.
    pub boot: String,
    /// Run time 0 on it.
    pub start_ns: i64,
    pub spec: RunSpec,
    pub order: Order,
    pub members: Vec<Seat>,
}

/// An agent with its share.
#[derive(Debug, Serialize, Deserialize)]
pub struct Seat {
    hello: Hello,
    seat: u32,
    shard: u32,
    took_over_from: Option<String>,
    measured: Vec<Offset>,
    replaced_by: Option<String>,
    lost: Option<String>,
    was_lost: bool,
}

impl Seat {
    pub fn of(member: &Member) -> Self {
        Self {
            hello: member.hello.clone(),
            seat: member.seat,
            shard: member.shard,
            took_over_from: member.took_over_from.clone(),
            measured: member.measured.clone(),
            replaced_by: member.replaced_by.clone(),
            lost: member.lost.clone(),
            was_lost: member.was_lost,
        }
    }

    pub fn member(self) -> Member {
        let mut member = Member::new(self.hello, self.seat, self.shard);
        (member.took_over_from, member.replaced_by) = (self.took_over_from, self.replaced_by);
        (member.measured, member.lost, member.was_lost) = (self.measured, self.lost, self.was_lost);
        member
    }
}

impl State {
    /// Writes the state to a run directory, atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, output: &Path) -> Result<(), ClusterError> {
        let file = output.join(FILE);
        let failed = |error: &dyn ToString| ClusterError::File { file: file.clone(), reason: error.to_string() };
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(&error))?;
        ldplayer_net::output::replace(&file, text).map_err(|error| failed(&error))
    }

    /// Reads the state of an unfinished run.
    ///
    /// # Errors
    /// There is none, or the host has been rebooted, so that the start of the run is unknown.
    pub fn read(output: &Path) -> Result<Self, ClusterError> {
        let file = output.join(FILE);
        let failed = |reason: String| ClusterError::Resume { directory: output.to_owned(), reason };
        let text = fs::read(&file).map_err(|error| {
            failed(match error.kind() {
                std::io::ErrorKind::NotFound => "the directory has no unfinished run of several hosts".to_owned(),
                _ => format!("{}: {error}", file.display()),
            })
        })?;
        let state: Self =
            serde_json::from_slice(&text).map_err(|error| failed(format!("{}: {error}", file.display())))?;
        if state.boot != host::boot() {
            return Err(failed("its controller ran on another host, or this host has been rebooted since".to_owned()));
        }
        Ok(state)
    }

    /// Removes the state: the run has ended.
    pub fn forget(output: &Path) {
        // It does not exist if the run had not started.
        let _ = fs::remove_file(file(output));
    }
}

fn file(output: &Path) -> PathBuf {
    output.join(FILE)
}
