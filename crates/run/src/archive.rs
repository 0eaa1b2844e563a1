//! A run in one file: its directory, the trace and the files that repeat it. Another host unpacks the file and has a run directory.

mod pack;
mod stage;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ldplayer_results::{ResultsError, damaged_rows};
use ldplayer_trace::TraceError;

use crate::error::RunError;

pub use pack::{Packed, unpack};

/// The end of the name of an archive.
pub const ENDING: &str = ".tar.zst";
/// What an archive is called while it is written, and a folder while it is unpacked.
const PART: &str = ".archive-";

/// What goes into an archive, beside the run directory.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Nothing with names of queries: no trace, no responses, no list of names.
    pub without_names: bool,
    /// Clients are replaced by the pseudonyms of this key.
    pub key: Option<[u8; 32]>,
    /// Where the files of the trace are now, if not where they were.
    pub trace: Vec<PathBuf>,
}

/// Why a run is not packed or unpacked; each is one line with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The system refused a file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something has the name.
    #[error("{}: exists; choose another name with -o{}", path.display(), if *.is_file { ", or replace it with --force" } else { "" })]
    Exists {
        /// What exists.
        path: PathBuf,
        /// Whether it may be replaced.
        is_file: bool,
    },
    /// The trace cannot be packed.
    #[error("{}: its trace belongs into the archive: {what}; --without-names leaves the trace out", run.display())]
    Trace {
        /// The run.
        run: PathBuf,
        /// What is wrong with the trace.
        what: String,
    },
    /// A signal asked for an end.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The specification says who the clients are.
    #[error("{}: {what}, and would be in an archive that names no client: change the trace with `ldplayer mutate`, replay that, and pack it", run.display())]
    Clients {
        /// The run.
        run: PathBuf,
        /// Where it says so.
        what: &'static str,
    },
    /// The file is no archive of a run, or is damaged.
    #[error("{}: no archive of a run: {what}; give a file made by `ldplayer archive RUN -o FILE`", path.display())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The run directory cannot be read or written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The names of the trace cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The trace cannot be read or written.
    #[error(transparent)]
    Reading(#[from] TraceError),
}

impl ArchiveError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

/// Packs a run into the file `to`, which gets its name when it is whole. The same run gives the same octets. Once `stop` is set, nothing is written.
///
/// # Errors
/// The run or its trace cannot be read, the trace is not the one that was replayed, or the file exists or cannot be written.
pub fn pack(
    run: &Path,
    to: &Path,
    contents: &Contents,
    replace: bool,
    stop: &AtomicBool,
) -> Result<Packed, ArchiveError> {
    if to.exists() && !replace {
        return Err(ArchiveError::Exists { path: to.to_owned(), is_file: true });
    }
    let staged = part_beside(to)?;
    stage::stage(run, staged.path(), contents, stop)?;
    pack::pack(staged.path(), &name_of(run)?, to, stop)
}

/// The row files of a run that are damaged: an archive has them as they are.
///
/// # Errors
/// The files cannot be read.
pub fn damaged(run: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    Ok(damaged_rows(run)?)
}

/// An error once an end was asked for.
fn heed(stop: &AtomicBool) -> Result<(), ArchiveError> {
    if stop.load(Ordering::Relaxed) { Err(ArchiveError::Interrupted) } else { Ok(()) }
}

/// A folder for what is not whole yet, on the disk of `path`; it is removed when it is dropped.
fn part_beside(path: &Path) -> Result<tempfile::TempDir, ArchiveError> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(PART).tempdir_in(folder).map_err(ArchiveError::file(path))
}

/// The name of a run's directory.
fn name_of(run: &Path) -> Result<String, ArchiveError> {
    let whole = fs::canonicalize(run).map_err(ArchiveError::file(run))?;
    Ok(whole.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned()))
}
