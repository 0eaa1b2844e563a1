//! Makes files durable: their content is on the disk before they get their name, so that neither a crash of the process nor one of the
//! machine leaves an incomplete file of that name.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::ResultsError;

/// Files that wait for the disk at most; beyond that the recorder waits.
const WAITING: usize = 64;

/// A file that is written as a whole.
pub struct Finished {
    /// The file.
    pub file: File,
    /// Where it is.
    pub path: PathBuf,
    /// Where it is to be, in the place of an earlier one.
    pub name: PathBuf,
}

/// The thread that waits for the disk.
pub struct Keeper {
    /// `None` when all is given.
    finished: Option<SyncSender<Finished>>,
    /// `None` when it has ended.
    thread: Option<JoinHandle<Result<(), ResultsError>>>,
}

impl Keeper {
    /// Keeps files of this folder.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(folder: &Path) -> Result<Self, ResultsError> {
        let (finished, waiting) = sync_channel(WAITING);
        let at = folder.to_owned();
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(move || keep_all(&at, &waiting));
        Ok(Self { finished: Some(finished), thread: Some(thread.map_err(ResultsError::file(folder))?) })
    }

    /// Takes a file, in the order in which files are to get their names.
    ///
    /// # Errors
    /// [`ResultsError::KeeperEnded`] after an earlier file could not be kept; [`Self::end`] says why.
    pub fn keep(&self, finished: Finished) -> Result<(), ResultsError> {
        let sender = self.finished.as_ref().ok_or(ResultsError::KeeperEnded)?;
        sender.send(finished).map_err(|_| ResultsError::KeeperEnded)
    }

    /// Waits until all files are kept.
    ///
    /// # Errors
    /// What the system refused first; the files behind it are not kept.
    pub fn end(mut self) -> Result<(), ResultsError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), ResultsError> {
        self.finished = None;
        let ended = self.thread.take().map_or(Ok(Ok(())), JoinHandle::join);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Keeper {
    /// What was given is kept when this returns.
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.join();
    }
}

/// Keeps files until there are no more; those that wait together need the disk's directory once.
fn keep_all(folder: &Path, waiting: &Receiver<Finished>) -> Result<(), ResultsError> {
    let directory = File::open(folder).map_err(ResultsError::file(folder))?;
    while let Ok(first) = waiting.recv() {
        keep(first)?;
        waiting.try_iter().try_for_each(keep)?;
        directory.sync_all().map_err(ResultsError::file(folder))?;
    }
    Ok(())
}

fn keep(Finished { file, path, name }: Finished) -> Result<(), ResultsError> {
    file.sync_data().map_err(ResultsError::file(&path))?;
    fs::rename(&path, &name).map_err(ResultsError::file(&name))
}
