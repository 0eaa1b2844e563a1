//! What can stop the reading or writing of a trace.

use std::path::PathBuf;

/// An error that ends reading or writing; damage inside a trace is counted instead (see [`crate::Tally`]).
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused a file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is of no format that is read here.
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
