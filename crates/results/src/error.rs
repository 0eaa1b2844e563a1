//! What can go wrong with a run directory.

use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// An error of writing or reading a run directory; each is one line and names the file.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The operating system refused a file; a full disk is the usual case.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A Parquet file could not be written or read.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        source: ParquetError,
    },
    /// The thread that waits for the disk has ended; its own error says why.
    #[error("rows cannot be kept any more")]
    KeeperEnded,
    /// A JSON file could not be written or understood.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// The output directory exists.
    #[error("{}: exists; choose another directory with -o, or replace the run in it with --force", .0.display())]
    Exists(PathBuf),
    /// The output directory exists and holds something other than a run.
    #[error("{}: exists and holds no run (no run.json of ldplayer), so it is not replaced; choose another directory", .0.display())]
    Foreign(PathBuf),
    /// The directory is not a run directory.
    #[error("{}: no run directory: {what}; give a directory made by `ldplayer replay -o`", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// What is missing or wrong.
        what: String,
    },
    /// A row file lacks a column, or the column is of another type.
    #[error("{}: column `{column}` is missing or of another type; the file was not written by this ldplayer", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A page could not be made from the figures.
    #[error("{}: {source}", path.display())]
    Page {
        /// The file.
        path: PathBuf,
        /// What the template engine said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ResultsError {
    /// Wraps an error of the operating system with its file.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<'_> {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Wraps an error of the Parquet library with its file; a system error inside it is taken out.
    pub(crate) fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> Self + use<'_> {
        move |source| match source {
            ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(io) => Self::File { path: path.to_owned(), source: *io },
                Err(inner) => Self::Parquet { path: path.to_owned(), source: ParquetError::External(inner) },
            },
            source => Self::Parquet { path: path.to_owned(), source },
        }
    }

    /// Wraps an error of the JSON library with its file.
    pub fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> Self + use<'_> {
        move |source| Self::Json { path: path.to_owned(), source }
    }
}

fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull => "; free space or write the run to another disk with -o",
        std::io::ErrorKind::PermissionDenied => "; choose a directory you may write with -o",
        _ => "",
    }
}
