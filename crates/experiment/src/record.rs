//! The record of an experiment: `experiment.json` in its directory, rewritten after each run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ldplayer_core::TraceTime;
use ldplayer_net::clock;
use ldplayer_net::output;
use ldplayer_run::RunSpec;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::find::{SearchRecord, TrialRecord};
use crate::plan::{Plan, Slot};
use crate::stage::Stage;

/// The format name in `experiment.json`.
const FORMAT: &str = "ldplayer-experiment";
/// The version of the record; raised for incompatible changes.
const VERSION: u32 = 1;
/// The file name of the record.
const NAME: &str = "experiment.json";
/// The file that is locked while an experiment runs in the directory.
const LOCK: &str = ".lock";
/// A file that reserves space, so that the record can still be written when runs have filled the disk.
const RESERVE: &str = ".reserve";
/// Octets reserved.
const RESERVED: usize = 4 << 20;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Not made yet.
    Planned,
    /// Finished, and counted; its own verdicts tell its quality.
    Done,
    /// The host took the processor away, so that it was not on time; it is repeated, up to a limit.
    Disturbed,
    /// It failed.
    Failed,
    /// Its server died during the run.
    ServerDied,
    /// It was interrupted.
    Interrupted,
}

/// The verdicts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Whether the replay was faithful.
    pub replay: bool,
    /// Whether the server met the expectations; `null` without expectations.
    pub server: Option<bool>,
}

/// A run, made or planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The name of its cell.
    pub cell: String,
    /// The keys of the matrix with its values.
    pub keys: BTreeMap<String, String>,
    /// The repeat, from 1.
    pub repeat: u32,
    /// Its directory, relative to that of the experiment; `null` if there is none.
    pub directory: Option<PathBuf>,
    /// The digest of its cell.
    pub digest: String,
    /// Its state.
    pub state: RunState,
    /// Why it failed, was disturbed, or lost its server.
    pub reason: Option<String>,
    /// Its start time, RFC 3339.
    pub started: Option<String>,
    /// Duration in seconds, including its setup.
    pub took_s: f64,
    /// The versions of its servers.
    pub versions: BTreeMap<String, String>,
    /// Its verdicts, if any.
    pub verdict: Option<Verdicts>,
    /// The trial that it was, in a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialRecord>,
}

/// A key of the matrix with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AxisRecord {
    /// The key.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
}

/// A cell with its specification and stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// The name of the cell and of its directory.
    pub name: String,
    /// The keys of the matrix with its values.
    pub keys: BTreeMap<String, String>,
    /// The digest of its meaning.
    pub digest: String,
    /// The specification of its runs.
    pub spec: RunSpec,
    /// Their stage.
    pub stage: Stage,
}

/// `experiment.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    format: String,
    version: u32,
    /// Its name.
    pub name: String,
    /// The version of ldplayer that wrote it last.
    pub ldplayer: String,
    /// The start of the experiment, RFC 3339.
    pub started: String,
    /// When this was written.
    pub updated: String,
    /// How often each cell is run.
    pub repeats: u32,
    /// How much of the trace warms the server up, in seconds.
    pub warm_up_s: Option<f64>,
    /// How often a disturbed run is repeated.
    pub max_retries: u32,
    /// The keys of the matrix.
    pub axes: Vec<AxisRecord>,
    /// The cells.
    pub cells: Vec<CellRecord>,
    /// Versions of servers by name.
    pub versions: BTreeMap<String, String>,
    /// All runs that were made, in order, followed by those planned.
    pub runs: Vec<RunRecord>,
    /// The searches, with their results so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchRecord>,
    /// Notices about the experiment as a whole.
    pub notes: Vec<String>,
    /// The text of the experiment file.
    pub file: String,
}

/// An experiment's directory, locked.
pub struct Workspace {
    /// The directory.
    pub directory: PathBuf,
    /// The lock, held as long as this value.
    pub(crate) _lock: File,
    /// The record of earlier calls.
    pub before: Option<Record>,
}

/// Now, RFC 3339.
pub(crate) fn now() -> String {
    TraceTime(clock::realtime_ns()).to_string()
}

impl Workspace {
    /// Opens the directory, and creates it if necessary.
    ///
    /// # Errors
    /// It holds something else, or another experiment is running in it.
    pub fn open(directory: &Path) -> Result<Self, ExperimentError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ExperimentError::Output { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let file = directory.join(NAME);
        let is_ours = |name: &str| [LOCK, RESERVE, NAME].contains(&name);
        let mut entries = fs::read_dir(directory).map_err(failed(directory))?.flatten();
        if !file.exists() && entries.any(|entry| !is_ours(&entry.file_name().to_string_lossy())) {
            return Err(ExperimentError::Foreign(directory.to_owned()));
        }
        let path = directory.join(LOCK);
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(ExperimentError::Busy(directory.to_owned()));
        }
        let before = if file.exists() { Some(Record::read(directory)?) } else { None };
        Ok(Self { directory: directory.to_owned(), _lock: lock, before })
    }
}

impl Record {
    /// Reads the record of an experiment's directory.
    ///
    /// # Errors
    /// There is no record, or it has another version.
    pub fn read(directory: &Path) -> Result<Self, ExperimentError> {
        let file = directory.join(NAME);
        let failed = |what: String| ExperimentError::Record { file: file.clone(), what };
        let text = fs::read(&file).map_err(|error| failed(error.to_string()))?;
        let record: Self = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        if record.format != FORMAT || record.version != VERSION {
            return Err(failed("written by another version of ldplayer".to_owned()));
        }
        Ok(record)
    }

    /// The highest repeat that was made.
    pub fn repeats_made(&self) -> u32 {
        let made = self.runs.iter().filter(|run| run.state != RunState::Planned);
        made.map(|run| run.repeat).max().unwrap_or_default()
    }

    /// A record of a plan without any runs.
    pub fn new(plan: &Plan) -> Self {
        let experiment = &plan.experiment;
        let axes = experiment.axes.iter().map(|(key, values)| AxisRecord { key: key.clone(), values: values.clone() });
        let cells = experiment.cells.iter().zip(&plan.digests).map(|(cell, digest)| CellRecord {
            name: cell.name.clone(),
            keys: cell.keys.iter().cloned().collect(),
            digest: digest.clone(),
            spec: cell.spec.clone(),
            stage: cell.stage.clone(),
        });
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: experiment.name.clone(),
            ldplayer: env!("CARGO_PKG_VERSION").to_owned(),
            started: now(),
            updated: now(),
            repeats: experiment.repeats,
            warm_up_s: experiment.warm_up.map(|span| span.ns() as f64 / 1e9),
            max_retries: experiment.max_retries,
            axes: axes.collect(),
            cells: cells.collect(),
            versions: BTreeMap::new(),
            runs: Vec::new(),
            searches: Vec::new(),
            notes: Vec::new(),
            file: experiment.text.clone(),
        }
    }

    /// Adds the runs of an earlier call, with a note about those that no longer count.
    pub fn going_on(mut self, before: Self) -> Self {
        self.started = before.started;
        self.versions = before.versions;
        self.notes = before.notes;
        self.runs = before.runs.into_iter().filter(|run| run.state != RunState::Planned).collect();
        if before.file != self.file {
            let is_same = |run: &&RunRecord| self.cells.iter().any(|c| c.name == run.cell && c.digest == run.digest);
            let kept = self.runs.iter().filter(is_same).count();
            let left = self.runs.len() - kept;
            self.notes.push(format!(
                "the experiment file has changed: earlier runs still valid: {kept}, no longer valid: {left}; all stay in their \
                directories"
            ));
        }
        self
    }

    /// The attempts at a run with the current meaning of its cell.
    pub fn attempts(&self, plan: &Plan, slot: Slot) -> impl Iterator<Item = &RunRecord> {
        let (cell, digest) = (&plan.experiment.cells[slot.cell].name, &plan.digests[slot.cell]);
        self.runs.iter().filter(move |run| {
            run.cell == *cell && run.digest == *digest && run.repeat == slot.repeat && run.state != RunState::Planned
        })
    }

    /// Whether a run is complete: finished, or disturbed as often as the limit allows.
    pub fn is_finished(&self, plan: &Plan, slot: Slot) -> bool {
        let count = |state| self.attempts(plan, slot).filter(|run| run.state == state).count();
        count(RunState::Done) > 0 || count(RunState::Disturbed) > self.max_retries as usize
    }

    /// The attempt that counts: the finished one, or else the last.
    pub fn counted(&self, plan: &Plan, slot: Slot) -> Option<&RunRecord> {
        let done = self.attempts(plan, slot).find(|run| run.state == RunState::Done);
        done.or_else(|| self.attempts(plan, slot).last())
    }

    /// The attempts of a cell that count, by repeat.
    pub fn counted_of(&self, cell: &CellRecord) -> BTreeMap<u32, &RunRecord> {
        let is_made =
            |run: &&RunRecord| run.state != RunState::Planned && run.cell == cell.name && run.digest == cell.digest;
        self.runs.iter().filter(is_made).fold(BTreeMap::new(), |mut counted, run| {
            let counts = counted.entry(run.repeat).or_insert(run);
            if counts.state != RunState::Done {
                *counts = run;
            }
            counted
        })
    }

    /// Writes the record, with the planned runs after those made.
    ///
    /// # Errors
    /// An error of the system; the earlier record is then intact.
    pub fn save(&mut self, plan: &Plan, directory: &Path) -> Result<(), ExperimentError> {
        self.updated = now();
        let mut all = self.clone();
        let planned = plan.slots.iter().filter(|slot| !self.is_finished(plan, **slot));
        all.runs.extend(planned.map(|slot| self.planned(plan, *slot)));
        let path = directory.join(NAME);
        let failed = |source| ExperimentError::Output { path: path.clone(), source };
        let mut text = serde_json::to_vec_pretty(&all).map_err(|error| failed(io::Error::other(error)))?;
        text.push(b'\n');
        if let Err(error) = replace(directory, &text) {
            if error.kind() != io::ErrorKind::StorageFull {
                return Err(failed(error));
            }
            // This is what the space was kept aside for.
            let _ = fs::remove_file(directory.join(RESERVE));
            replace(directory, &text).map_err(failed)?;
        }
        Ok(())
    }

    fn planned(&self, plan: &Plan, slot: Slot) -> RunRecord {
        let cell = &plan.experiment.cells[slot.cell];
        RunRecord {
            cell: cell.name.clone(),
            keys: cell.keys.iter().cloned().collect(),
            repeat: slot.repeat,
            directory: None,
            digest: plan.digests[slot.cell].clone(),
            state: RunState::Planned,
            reason: None,
            started: None,
            took_s: 0.0,
            versions: BTreeMap::new(),
            verdict: None,
            trial: None,
        }
    }

    /// A run that begins now.
    pub(crate) fn begun(&self, plan: &Plan, slot: Slot) -> RunRecord {
        let mut run = RunRecord { started: Some(now()), state: RunState::Failed, ..self.planned(plan, slot) };
        let stage = &plan.experiment.cells[slot.cell].stage;
        let names = stage.backend.iter().chain(&stage.server).map(|server| server.name.as_str());
        let known = names.filter_map(|name| Some((name.to_owned(), self.versions.get(name)?.clone())));
        run.versions = known.collect();
        run
    }
}

/// Reserves space for the record.
pub(crate) fn reserve(directory: &Path) -> Result<(), ExperimentError> {
    let path = directory.join(RESERVE);
    if path.exists() {
        return Ok(());
    }
    output::write(&path, vec![0x2e; RESERVED]).map_err(|source| ExperimentError::Output { path, source })
}

/// Replaces the record atomically.
fn replace(directory: &Path, text: &[u8]) -> io::Result<()> {
    output::replace(&directory.join(NAME), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Plan, order};

    fn plan(text: &str) -> Plan {
        let text = format!("trace = 'Cargo.toml'\nserver = '::1'\n{text}");
        let experiment = Experiment::parse(&text, Path::new(env!("CARGO_MANIFEST_DIR")), "test").unwrap();
        let mut contents = crate::contents::Contents::default();
        let digests =
            experiment.cells.iter().map(|cell| cell.digest(&experiment.around(), &mut contents)).collect::<Vec<_>>();
        let slots = order(experiment.cells.len(), experiment.repeats);
        let estimates = vec![crate::Estimate::default(); experiment.cells.len()];
        Plan { directory: PathBuf::new(), digests, estimates, slots, experiment }
    }

    fn add(record: &mut Record, plan: &Plan, slot: Slot, state: RunState) {
        let run = RunRecord { state, ..record.begun(plan, slot) };
        record.runs.push(run);
    }

    #[test]
    fn a_disturbed_run_is_made_again_up_to_a_bound_and_the_one_that_is_not_counts() {
        let plan = plan("max_retries = 2\nrepeats = 2");
        let slot = plan.slots[0];
        let mut record = Record::new(&plan);
        for _ in 0..2 {
            add(&mut record, &plan, slot, RunState::Disturbed);
            assert!(!record.is_finished(&plan, slot));
        }
        let mut lucky = record.clone();
        add(&mut lucky, &plan, slot, RunState::Done);
        assert!(lucky.is_finished(&plan, slot) && lucky.counted(&plan, slot).unwrap().state == RunState::Done);
        add(&mut record, &plan, slot, RunState::Disturbed);
        assert!(record.is_finished(&plan, slot), "three times are enough");
        assert!(!record.is_finished(&plan, plan.slots[1]), "the other repeat");
    }

    #[test]
    fn what_failed_is_made_again_and_what_was_kept_stays_in_the_record() {
        let (before, after) = (plan("transport = 'udp'"), plan("transport = 'tcp'"));
        let mut record = Record::new(&before);
        for state in [RunState::Failed, RunState::ServerDied, RunState::Interrupted] {
            add(&mut record, &before, before.slots[0], state);
        }
        assert!(!record.is_finished(&before, before.slots[0]));
        add(&mut record, &before, before.slots[0], RunState::Done);
        record.versions.insert("a".to_owned(), "1.2".to_owned());
        let same = Record::new(&before).going_on(record.clone());
        assert!(same.is_finished(&before, before.slots[0]) && same.notes.is_empty());
        assert_eq!(same.versions["a"], "1.2", "nothing is left to ask it for");
        let other = Record::new(&after).going_on(record);
        assert!(!other.is_finished(&after, after.slots[0]) && other.runs.len() == 4);
        assert!(other.notes[0].contains("still valid: 0, no longer valid: 4"), "{:?}", other.notes);
    }

    #[test]
    fn a_record_is_read_back_with_what_is_planned_and_one_of_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan("repeats = 3");
        let mut record = Record::new(&plan);
        add(&mut record, &plan, plan.slots[0], RunState::Done);
        record.save(&plan, folder.path()).unwrap();
        let states: Vec<RunState> = Record::read(folder.path()).unwrap().runs.iter().map(|run| run.state).collect();
        assert_eq!(states, [RunState::Done, RunState::Planned, RunState::Planned]);
        let file = folder.path().join(NAME);
        for text in ["{}", "{", &fs::read_to_string(&file).unwrap().replace("\"version\": 1", "\"version\": 9")] {
            fs::write(&file, text).unwrap();
            let error = Record::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(NAME) && !error.contains('\n'), "{error}");
        }
    }
}
