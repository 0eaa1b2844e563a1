//! The files of a run directory: making it, replacing it, reading and writing `run.json`.

use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_net::output;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ResultsError;
use crate::model::RunReport;
use crate::rows::PART;

/// What `run.json` says it is.
const FORMAT: &str = "ldplayer-run";
/// Version of the layout; raised when a reader of the old one would be wrong.
const VERSION: u32 = 1;
/// What the server said, as a trace, in runs that keep it.
pub const RESPONSES: &str = "responses.parquet";
/// Queries whose answers still are not the expected ones when they are asked again, each with the expected one.
pub const DISAGREEMENTS: &str = "disagreements.parquet";
/// The same queries with the other answer.
pub const DISAGREEMENTS_NOW: &str = "disagreements-now.parquet";
/// Octets kept aside so that `run.json` and the report still fit when the rows have filled the disk.
const RESERVE: usize = 2 << 20;

/// Paths inside a run directory.
#[derive(Clone, Debug)]
pub struct RunDir {
    root: PathBuf,
}

/// `run.json`, which is also what `replay --json` and `report --json` print: a head that marks the directory, what was asked for
/// in the words of whoever asked, and the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document<S> {
    #[serde(flatten)]
    head: Head,
    /// What was asked for; this crate only keeps it.
    pub spec: S,
    /// What is known of the run.
    #[serde(flatten)]
    pub report: RunReport,
}

/// What tells a run's `run.json` from other files of that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Head {
    fn ours() -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION }
    }
}

impl<S> Document<S> {
    /// The document of a run that was asked for as `spec`.
    pub fn new(spec: S, report: RunReport) -> Self {
        Self { head: Head::ours(), spec, report }
    }
}

/// What to do about a file where a run directory is wanted: it may be an archive of one. Empty if it is no file.
pub fn unpacking(path: &Path) -> String {
    let hint = || format!("; if it is an archive, unpack it: ldplayer archive --extract {}", path.display());
    path.is_file().then(hint).unwrap_or_default()
}

/// Refuses a directory that exists, unless `force` allows replacing the run in it.
///
/// # Errors
/// It exists, or its content is no run.
pub fn check_output(root: &Path, force: bool) -> Result<(), ResultsError> {
    RunDir::new(root).check(force)
}

impl RunDir {
    /// The run directory at `root`, which need not exist yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where the rows are.
    pub fn queries(&self) -> PathBuf {
        self.root.join("queries")
    }

    /// Where the rows of attempts are, of clients that react.
    pub fn attempts(&self) -> PathBuf {
        self.root.join("attempts")
    }

    /// Figures sampled during the run.
    pub fn telemetry(&self) -> PathBuf {
        self.root.join("telemetry.parquet")
    }

    /// The page for people.
    pub fn page(&self) -> PathBuf {
        self.root.join("report.html")
    }

    fn json(&self) -> PathBuf {
        self.root.join("run.json")
    }

    fn reserve(&self) -> PathBuf {
        self.root.join(".reserve")
    }

    /// Refuses what [`Self::make`] would refuse.
    pub fn check(&self, force: bool) -> Result<(), ResultsError> {
        match self.root.exists() {
            true if !force => Err(ResultsError::Exists(self.root.clone())),
            true if !self.is_run() && !self.is_empty()? => Err(ResultsError::Foreign(self.root.clone())),
            _ => Ok(()),
        }
    }

    /// Creates the directory, or with `force` empties an older run's.
    pub fn make(&self, force: bool) -> Result<(), ResultsError> {
        self.check(force)?;
        if self.root.exists() {
            self.clear()?;
        }
        output::refuse_link(&self.queries()).map_err(ResultsError::file(&self.queries()))?;
        fs::create_dir_all(self.queries()).map_err(ResultsError::file(&self.root))?;
        output::write(&self.reserve(), vec![0x2e; RESERVE]).map_err(ResultsError::file(&self.root))
    }

    /// Gives back the space kept aside.
    pub fn release_reserve(&self) {
        // It may be gone already, and then there is nothing to give back.
        fs::remove_file(self.reserve()).ok();
    }

    /// Removes what a run has written, and nothing else.
    fn clear(&self) -> Result<(), ResultsError> {
        // Behind a link are files of somebody else.
        let mut rows = Vec::new();
        for folder in [self.queries(), self.attempts()] {
            output::refuse_link(&folder).map_err(ResultsError::file(&folder))?;
            let (whole, parts) = row_files(&folder)?;
            rows.extend(whole.into_iter().chain(parts));
        }
        let fixed = [self.json(), self.page(), self.telemetry(), self.reserve()];
        let traces = [RESPONSES, DISAGREEMENTS, DISAGREEMENTS_NOW].map(|name| self.root.join(name));
        for path in rows.into_iter().chain(fixed).chain(traces) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(ResultsError::file(&path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_run(&self) -> bool {
        self.read_head().is_ok()
    }

    fn is_empty(&self) -> Result<bool, ResultsError> {
        let mut entries = fs::read_dir(&self.root).map_err(ResultsError::file(&self.root))?;
        Ok(entries.next().is_none())
    }

    /// The row files in the order of their names: whole ones, and those that were not finished.
    pub fn row_files(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), ResultsError> {
        row_files(&self.queries())
    }

    /// The whole files of attempts in the order of their names.
    pub fn attempt_files(&self) -> Result<Vec<PathBuf>, ResultsError> {
        Ok(row_files(&self.attempts())?.0)
    }

    /// Writes `run.json` so that at any moment there is either the old one or the new one.
    pub fn write<S: Serialize>(&self, document: &Document<S>) -> Result<(), ResultsError> {
        let path = self.json();
        let mut text = serde_json::to_vec_pretty(document).map_err(ResultsError::json(&path))?;
        text.push(b'\n');
        replace(&path, &text)
    }

    /// Reads `run.json`.
    pub fn read<S: DeserializeOwned>(&self) -> Result<Document<S>, ResultsError> {
        let text = self.read_head()?;
        serde_json::from_slice(&text).map_err(ResultsError::json(&self.json()))
    }

    /// The text of `run.json`, if its head says that this version can read it.
    fn read_head(&self) -> Result<Vec<u8>, ResultsError> {
        let not_a_run = |what: String| ResultsError::NotARun { path: self.root.clone(), what };
        if self.root.is_file() {
            return Err(not_a_run(format!("it is a file{}", unpacking(&self.root))));
        }
        let text = fs::read(self.json()).map_err(|error| not_a_run(format!("run.json: {error}")))?;
        let head: Head = serde_json::from_slice(&text).map_err(|error| not_a_run(format!("run.json: {error}")))?;
        match head == Head::ours() {
            true => Ok(text),
            false => Err(not_a_run(format!("run.json is `{}` version {}", head.format, head.version))),
        }
    }
}

fn row_files(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), ResultsError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => return Err(ResultsError::file(folder)(error)),
    };
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_row_file(path)).collect();
    paths.sort();
    Ok(paths.into_iter().partition(|path| path.extension().is_some_and(|extension| extension != PART)))
}

/// Writes a file beside its place, then moves it there.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), ResultsError> {
    output::replace(path, content).map_err(ResultsError::file(path))
}

fn is_row_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // Earlier versions named files by workers.
    let ours = name.starts_with("shard-") || name.starts_with("worker-");
    ours && (name.ends_with(".parquet") || (name.contains(".parquet.") && name.ends_with(".part")))
}
