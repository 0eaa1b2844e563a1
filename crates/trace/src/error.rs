//! Errors that end reading or writing a trace.

use std::path::PathBuf;

/// An error that ends reading or writing; damage inside a trace is counted instead (see [`crate::Tally`]).
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file cannot be opened, read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The content is not in a supported format.
    #[error("{}: {what}; {remedy}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where (packet number, byte offset or line).
        what: String,
        /// What the user can do.
        remedy: String,
    },
}
