//! A folder of row files: a writer for each shard, and the thread that waits for the disk.

use std::fs;
use std::path::PathBuf;

use ldplayer_core::{Outcome, RunTime};
use ldplayer_net::output;

use crate::error::ResultsError;
use crate::keeper::Keeper;
use crate::rows::RowWriter;

/// The rows of queries, or of attempts.
pub struct RowFolder {
    path: PathBuf,
    classes: Vec<String>,
    shards: Vec<RowWriter>,
    /// `None` once it has failed or ended.
    keeper: Option<Keeper>,
}

impl RowFolder {
    /// Makes the folder. Clients' classes have these names.
    ///
    /// # Errors
    /// It cannot be made, or it is a link.
    pub fn create(path: PathBuf, classes: &[String]) -> Result<Self, ResultsError> {
        output::refuse_link(&path).map_err(ResultsError::file(&path))?;
        fs::create_dir_all(&path).map_err(ResultsError::file(&path))?;
        let keeper = Some(Keeper::start(&path)?);
        Ok(Self { path, classes: classes.to_vec(), shards: Vec::new(), keeper })
    }

    /// Adds rows of a shard.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn add(&mut self, shard: usize, rows: &[Outcome]) -> Result<(), ResultsError> {
        while self.shards.len() <= shard {
            self.shards.push(RowWriter::new(&self.path, self.shards.len(), &self.classes));
        }
        let added = self.shards[shard].add(rows);
        added.map_err(|error| self.cause_of(error))
    }

    /// Saves all rows added so far.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn save(&mut self, now: RunTime) -> Result<(), ResultsError> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let saved = self.shards.iter_mut().try_for_each(|shard| shard.save(now, keeper));
        saved.map_err(|error| self.cause_of(error))
    }

    /// Waits until all that was saved is on the disk. Files that could not be written are taken out of the way.
    ///
    /// # Errors
    /// What the system refused.
    pub fn close(&mut self) -> Result<(), ResultsError> {
        let ended = self.keeper.take().map_or(Ok(()), Keeper::end);
        self.shards.iter_mut().for_each(RowWriter::give_up);
        ended
    }

    /// The error, or what made the thread end where it says that this has.
    fn cause_of(&mut self, error: ResultsError) -> ResultsError {
        match error {
            ResultsError::KeeperEnded => {
                let ended = self.keeper.take().map_or(Ok(()), Keeper::end);
                ended.err().unwrap_or(ResultsError::KeeperEnded)
            }
            error => error,
        }
    }
}
