//! Opening what a run or a command works on: files of rules, and traces under them.

use std::path::{Path, PathBuf};

use ldplayer_trace::{Input, OpenOptions, Source, TraceError, open};

use crate::mutate::{Overlay, OverlayError, Rules};
use crate::spec::BadSpec;

/// Why there is nothing to work on.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// An input cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The operating system refused a file of rules.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of rules is not one.
    #[error("{}: {source}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line.
        source: BadSpec,
    },
    /// A rule on the command line is not one.
    #[error("--set: {0}")]
    Setting(String),
    /// The rules lay slices of the trace upon each other, and the trace cannot give them.
    #[error("{inputs}: {source}")]
    Population {
        /// The inputs, as the user named them.
        inputs: String,
        /// What is missing.
        source: OverlayError,
    },
    /// The rules lay slices of the trace upon each other, and the trace can be read only once.
    #[error(
        "[population] reads a trace several times at once, which standard input and sockets cannot be: give a file"
    )]
    ReadOnce,
    /// Nothing of the input is to be replayed.
    #[error("{0}")]
    Empty(String),
}

/// All rules of files and of settings such as `do=true`, one after the other.
///
/// # Errors
/// A file cannot be read, or is not one of rules; a setting is not one.
pub fn read_rules(files: &[PathBuf], settings: &[String]) -> Result<Rules, WorkloadError> {
    let mut rules = Rules::default();
    files.iter().try_for_each(|path| read_file(path).map(|read| rules.append(read)))?;
    if !settings.is_empty() {
        let set = Rules::parse_settings(settings).map_err(|error| WorkloadError::Setting(error.what))?;
        rules.append(set);
    }
    Ok(rules)
}

fn read_file(path: &Path) -> Result<Rules, WorkloadError> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path()).map_err(|source| WorkloadError::File { path: path(), source })?;
    Rules::parse(&text).map_err(|source| WorkloadError::Rules { path: path(), source })
}

/// The inputs, or, where the rules have a `[population]`, slices of them laid upon each other.
///
/// # Errors
/// An input cannot be opened; or slices are wanted of what is too short or can be read only once.
pub fn open_source(inputs: &[Input], options: &OpenOptions, rules: &Rules) -> Result<Box<dyn Source>, WorkloadError> {
    let Some(population) = rules.population else { return Ok(open(inputs, options)?) };
    if !inputs.iter().all(|input| matches!(input, Input::File(_))) {
        return Err(WorkloadError::ReadOnce);
    }
    let overlay = Overlay::open(&|| open(inputs, options), population);
    let overlay = overlay.map_err(|source| WorkloadError::Population { inputs: names(inputs), source })?;
    Ok(Box::new(overlay))
}

/// Inputs as the user named them.
pub(crate) fn names(inputs: &[Input]) -> String {
    let names: Vec<String> = inputs.iter().map(ToString::to_string).collect();
    names.join(", ")
}
