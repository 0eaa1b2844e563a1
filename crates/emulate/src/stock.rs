//! Stock servers: each with a generated configuration in a work directory, ended when dropped.

mod bind;
mod bind_resolver;
mod dnsdist;
mod error;
mod kind;
mod knot;
mod knot_resolver;
mod nsd;
mod pdns_recursor;
mod powerdns;
pub mod probe;
mod process;
mod server;
mod unbound;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ldplayer_net::cpu_quota::CpuLimit;

pub use error::{Awaited, StockError};
pub use kind::{Kind, Role, Setting, UnknownKind, UnknownResolver};
pub use process::{Output, Process, find, shell};
pub use server::{HTTPS, Ready, StockServer, StockSettings, Tls};

/// A zone to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its apex, as in a zone file: `.`, `example.com.`
    pub apex: String,
    /// Its zone file.
    pub file: PathBuf,
}

impl Zone {
    /// A zone with its apex and file.
    pub fn new(apex: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self { apex: apex.into(), file: file.into() }
    }
}

/// The program of a stock server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Debian's package with it.
    pub package: &'static str,
    /// Options that keep it in the foreground, with the log on stderr.
    pub options: &'static [&'static str],
    /// How it gets its configuration.
    pub configured: Configured,
}

/// Deviations from the default way to start a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Another build of the program.
    pub program: Option<PathBuf>,
    /// Additional arguments.
    pub arguments: Vec<String>,
    /// What it may have of the processors.
    pub limit: Option<Arc<CpuLimit>>,
}

/// How a program gets its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configured {
    /// By this option, followed by the path of the file.
    ByOption(&'static str),
    /// By this file name in the work directory, where the options make the program look.
    ByName(&'static str),
}

/// The absolute path of a file in quotes: the server's working directory is a different one.
pub(crate) fn quoted_path(path: &Path) -> Result<String, StockError> {
    Ok(format!("\"{}\"", quotable_path(path)?))
}

/// The text in quotes.
pub(crate) fn quoted(text: &str) -> Result<String, StockError> {
    Ok(format!("\"{}\"", quotable(text)?))
}

/// Text that can be quoted in every configuration language: not all of them know escapes.
fn quotable(text: &str) -> Result<String, StockError> {
    if text.contains(['"', '\\', '\n', '\r']) {
        Err(StockError::Unquotable(text.to_owned()))
    } else {
        Ok(text.to_owned())
    }
}

fn quotable_path(path: &Path) -> Result<String, StockError> {
    let absolute = std::path::absolute(path).map_err(|source| StockError::File { file: path.to_owned(), source })?;
    quotable(absolute.to_str().ok_or_else(|| StockError::Unquotable(path.display().to_string()))?)
}
