//! Opens the inputs of a run or command: rule files and traces.

use std::borrow::Cow;
use std::path::PathBuf;

use ldplayer_trace::{Input, OpenOptions, RecordedRetries, RetryFilter, Source, TraceError, open};
use serde::{Deserialize, Serialize};

use crate::mutate::{Overlay, OverlayError, Rules};
use crate::numbered::Numbered;
use crate::spec::BadSpec;

/// Why inputs cannot be opened.
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
    /// A file of rules is invalid.
    #[error("{}: {source}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line.
        source: BadSpec,
    },
    /// A rule on the command line is invalid.
    #[error("--set: {0}")]
    Setting(String),
    /// The rules overlay slices, and the trace has too few.
    #[error("{inputs}: {source}")]
    Population {
        /// The inputs, as the user named them.
        inputs: String,
        /// The reason.
        source: OverlayError,
    },
    /// The rules overlay slices, and the trace can be read only once.
    #[error(
        "[population] reads the trace several times, which is not possible for standard input or a socket: give a file"
    )]
    ReadOnce,
    /// Several passes are requested of a trace that can be read only once.
    #[error("--loop reads the trace several times, which is not possible for standard input or a socket: give a file")]
    LoopOnce,
    /// Queries shall wait for answers, and none is recorded.
    #[error(
        "{0}: no recorded response for the first queries, and --dependencies goes by the times of answers: give a trace with responses, or --dependencies none"
    )]
    NoAnswers(String),
    /// The input has no query to replay.
    #[error("{0}")]
    Empty(String),
}

/// A file of rules, with its content once read, so that a run can be repeated after the file has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RulesForm", into = "RulesForm")]
pub struct RulesFile {
    /// The file.
    pub file: PathBuf,
    /// Its content.
    pub text: Option<String>,
}

/// Rules as they are written: a path, or a table with the text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RulesForm {
    Path(PathBuf),
    Read { file: PathBuf, text: String },
}

impl From<PathBuf> for RulesFile {
    fn from(file: PathBuf) -> Self {
        Self { file, text: None }
    }
}

impl RulesFile {
    /// The text of the file; read on demand.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn text(&self) -> Result<Cow<'_, str>, WorkloadError> {
        if let Some(text) = &self.text {
            return Ok(Cow::Borrowed(text));
        }
        let read = std::fs::read_to_string(&self.file).map(Cow::Owned);
        read.map_err(|source| WorkloadError::File { path: self.file.clone(), source })
    }
}

impl From<RulesForm> for RulesFile {
    fn from(form: RulesForm) -> Self {
        match form {
            RulesForm::Path(file) => Self { file, text: None },
            RulesForm::Read { file, text } => Self { file, text: Some(text) },
        }
    }
}

impl From<RulesFile> for RulesForm {
    fn from(rules: RulesFile) -> Self {
        match rules.text {
            None => Self::Path(rules.file),
            Some(text) => Self::Read { file: rules.file, text },
        }
    }
}

/// The rules of files, then those of settings such as `do=true`.
///
/// # Errors
/// A file cannot be read, or a file or setting is invalid.
pub fn read_rules(files: &[RulesFile], settings: &[String]) -> Result<Rules, WorkloadError> {
    let mut rules = Rules::default();
    files.iter().try_for_each(|file| parse(file).map(|read| rules.append(read)))?;
    if !settings.is_empty() {
        let set = Rules::parse_settings(settings).map_err(|error| WorkloadError::Setting(error.what))?;
        rules.append(set);
    }
    Ok(rules)
}

fn parse(rules: &RulesFile) -> Result<Rules, WorkloadError> {
    Rules::parse(&rules.text()?).map_err(|source| WorkloadError::Rules { path: rules.file.clone(), source })
}

/// Opens the inputs, numbers their rows and does so to recorded retries; if the rules have a `[population]`, overlays slices of them.
///
/// # Errors
/// An input cannot be opened; or slices are requested of an input that is too short or can be read only once.
pub fn open_source(
    inputs: &[Input],
    options: &OpenOptions,
    retries: RecordedRetries,
    rules: &Rules,
) -> Result<Box<dyn Source>, WorkloadError> {
    let reopen = || Ok(RetryFilter::over(Box::new(Numbered::new(open(inputs, options)?)), retries));
    let Some(population) = rules.population else { return Ok(reopen()?) };
    if !inputs.iter().all(|input| matches!(input, Input::File(_))) {
        return Err(WorkloadError::ReadOnce);
    }
    let overlay = Overlay::open(&reopen, population);
    let overlay = overlay.map_err(|source| WorkloadError::Population { inputs: names(inputs), source })?;
    Ok(Box::new(overlay))
}

/// Inputs as the user named them.
pub(crate) fn names(inputs: &[Input]) -> String {
    let names: Vec<String> = inputs.iter().map(ToString::to_string).collect();
    names.join(", ")
}
