//! Makes one run of an experiment after the other: its servers, its warm-up, its replay and its record.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ldplayer_core::client::ClientModel;
use ldplayer_core::time::Span;
use ldplayer_core::{PolicyOverrides, Transport};
use ldplayer_net::clock;
use ldplayer_results::{ResultsError, State};
use ldplayer_run::{FinishedRun, Observer, Progress, RunError, RunSpec, Server, TransportChoice, Wish, prepare};
use ldplayer_trace::Dependencies;
use ldplayer_workload::Timing;
use rustix::fs::statvfs;

use crate::certificate::{self, Certificate};
use crate::error::ExperimentError;
use crate::place::{self, PlaceError, RunEnvironment};
use crate::plan::{Plan, Slot};
use crate::record::{Record, RunRecord, RunState, Verdicts};
use crate::started::Needs;
use crate::transports::needs_tls;
use crate::watcher::{Options, Position, Watcher};
use crate::zones::{Ready, Zones};

/// With less free space than this, the disk counts as full.
const FULL: u64 = 2 << 20;
/// Queries under way at once while a cache is filled: few enough for every server.
const WARMING: usize = 100;

/// The zones and certificates that the servers of each cell need, made once.
pub(crate) fn needs(plan: &Plan, directory: &Path, options: &Options) -> Result<Vec<Needs>, ExperimentError> {
    let mut zones = Zones::new(directory.join("zones"));
    let needs = plan.experiment.cells.iter().map(|cell| {
        let ready = cell.stage.zones().map(|from| zones.get(from, cell.stage.sign.as_ref(), cell.spec.seed));
        let wants_certificate = cell.stage.is_ours() && needs_tls(&cell.spec);
        let certificate = wants_certificate
            .then(|| Certificate::make(&directory.join("tls"), cell.stage.tls_key.unwrap_or_default()))
            .transpose()?;
        let ready = ready.transpose()?.unwrap_or_else(Ready::default);
        Ok(Needs { zones: ready, certificate, ldplayer: options.ldplayer.clone() })
    });
    needs.collect()
}

/// The result of a run.
pub(crate) type Ran = Result<FinishedRun, RunError>;

/// Makes runs.
pub(crate) struct Maker<'a> {
    pub plan: &'a Plan,
    pub directory: &'a Path,
    pub options: &'a Options,
    /// By cell.
    pub needs: Vec<Needs>,
    pub watcher: &'a mut dyn Watcher,
}

/// A run to be made.
pub(crate) struct Making {
    /// The index of its cell.
    pub cell: usize,
    /// Its specification. The server is filled in once it has been started.
    pub spec: RunSpec,
    /// The name of its directory within the cell's.
    pub name: String,
}

impl Maker<'_> {
    /// Makes these runs. A disturbed run is repeated before the next one, which interleaving tolerates.
    pub fn all(&mut self, slots: &[Slot], record: &mut Record) -> Result<(), ExperimentError> {
        record.save(self.plan, self.directory)?;
        for (number, &slot) in slots.iter().enumerate() {
            let behind = self.plan.total(slots[number + 1..].iter().copied()).seconds;
            let own = self.plan.estimates[slot.cell].seconds;
            let cell = &self.plan.experiment.cells[slot.cell];
            let at = Position {
                number: number + 1,
                of: Some(slots.len()),
                cell: cell.name.clone(),
                what: format!("repeat {}", slot.repeat),
                estimated_s: own.zip(behind),
            };
            loop {
                if self.watcher.is_stopped() {
                    return Ok(());
                }
                let making = Making { cell: slot.cell, spec: cell.spec.clone(), name: slot.repeat.to_string() };
                let (run, is_full) = self.one(making, &at, record.begun(self.plan, slot));
                let state = run.state;
                record.runs.push(run);
                record.save(self.plan, self.directory)?;
                if is_full {
                    return Err(ExperimentError::DiskFull(self.directory.to_owned()));
                }
                if state != RunState::Disturbed || record.is_finished(self.plan, slot) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Makes a run; also returns whether it failed because the disk is full.
    pub fn one(&mut self, making: Making, at: &Position, mut run: RunRecord) -> (RunRecord, bool) {
        let Making { cell: place, spec, name } = making;
        let began = clock::monotonic_ns();
        self.watcher.begin(at);
        let cell = &self.plan.experiment.cells[place];
        let directory = free_directory(&self.directory.join(&cell.name), &name);
        let logs = with_ending(&directory, "server");
        let (options, warm_up) = (self.options, self.plan.experiment.warm_up);
        let needs = &self.needs[place];
        let mut look = Look { watcher: &mut *self.watcher, at };
        let made = place::make(&cell.stage, needs, &cell.spec, (&directory, &logs), |found| {
            let spec = aimed(spec, found, needs);
            if cell.stage.is_warm {
                warm(asking_all(&spec), &directory, options, &mut look)?;
            }
            replay(spec, warm_up, &directory, options, &mut look)
        });
        let is_full = made.as_ref().is_ok_and(|(ran, _)| ran.as_ref().is_err_and(|error| fills(error, &directory)));
        self.settle(&mut run, made, &directory);
        if run.state == RunState::Failed && self.watcher.is_stopped() {
            // Interrupted while the server was starting or warming up.
            (run.state, run.reason) = (RunState::Interrupted, None);
        }
        run.took_s = (clock::monotonic_ns() - began) as f64 / 1e9;
        self.watcher.end(at, &run);
        (run, is_full)
    }

    /// Records the result of a run.
    fn settle(&self, run: &mut RunRecord, made: Result<(Ran, Option<String>), PlaceError>, directory: &Path) {
        if directory.join("run.json").exists() {
            run.directory = directory.strip_prefix(self.directory).ok().map(Path::to_owned);
        } else {
            // The directory holds no complete run, and a full disk needs the space.
            let _ = fs::remove_dir_all(directory);
        }
        let (ran, fallen) = match made {
            Ok(made) => made,
            Err(error) => {
                run.reason = Some(error.to_string());
                return;
            }
        };
        match ran {
            Err(error) => {
                run.reason = Some(fallen.map_or_else(|| error.to_string(), |said| format!("{said}; {error}")))
            }
            Ok(report) => {
                let report = report.document.report;
                let verdict = &report.verdict;
                run.verdict = Some(Verdicts { replay: verdict.ok, server: verdict.server.ok });
                (run.state, run.reason) = match (fallen, report.state) {
                    (Some(said), _) => (RunState::ServerDied, Some(said)),
                    (None, State::Complete) => match report.disturbance() {
                        Some(why) => (RunState::Disturbed, Some(why)),
                        None => (RunState::Done, None),
                    },
                    (None, _) => (RunState::Interrupted, None),
                };
            }
        }
    }
}

/// The run with the address of the started server.
fn aimed(mut spec: RunSpec, found: &RunEnvironment, needs: &Needs) -> RunSpec {
    if found.servers.is_empty() {
        return spec;
    }
    spec.server = found.servers.iter().map(|address| Server::Address(*address)).collect();
    if spec.watch_pid.is_none() && spec.watch_unit.is_none() {
        spec.watch_pid = found.watched;
    }
    if let Some(made) = needs.certificate.as_ref().filter(|_| spec.tls_ca.is_none() && !spec.tls_insecure) {
        spec.tls_ca = Some(made.certificate.clone());
        spec.tls_name.get_or_insert_with(|| certificate::NAME.to_owned());
    }
    spec
}

/// Warms the server up with the beginning of the trace, then replays the rest.
fn replay(mut spec: RunSpec, warm_up: Option<Span>, directory: &Path, options: &Options, look: &mut Look<'_>) -> Ran {
    if let Some(warm_up) = warm_up {
        let mut first = RunSpec { expect: Vec::new(), metrics: None, ..spec.clone() };
        if spec.duration.is_some() {
            // The warm-up ends by time; the trace starts again after it.
            first.duration = Some(warm_up);
        } else {
            first.stop = Some(Span::from_ns(spec.start.map_or(0, Span::ns) + warm_up.ns()));
            spec.start = first.stop;
        }
        warm(first, directory, options, look)?;
    }
    play(spec, directory, options, look)
}

/// Makes a replay before a run, and keeps nothing of it.
fn warm(spec: RunSpec, directory: &Path, options: &Options, look: &mut Look<'_>) -> Result<(), RunError> {
    let scratch = with_ending(directory, "warm-up");
    let warmed = play(spec, &scratch, options, look);
    // The warm-up must not be mistaken for a run.
    let _ = fs::remove_dir_all(&scratch);
    match warmed?.document.report.state {
        State::Complete => Ok(()),
        _ => Err(RunError::CutShort("interrupted during warm-up".to_owned())),
    }
}

/// The replay that asks a server everything that a run will, over UDP, as soon as it answers.
fn asking_all(spec: &RunSpec) -> RunSpec {
    RunSpec {
        timing: Timing::Fast,
        rate: None,
        speed: None,
        passes: None,
        duration: None,
        transport: TransportChoice::All(Transport::Udp),
        class: Vec::new(),
        dependencies: Dependencies::None,
        policy: PolicyOverrides { client: Some(ClientModel::Open), ..spec.policy },
        expect: Vec::new(),
        metrics: None,
        max_outstanding: WARMING,
        ..spec.clone()
    }
}

/// Makes a replay, here or on agents.
pub(crate) fn play(spec: RunSpec, directory: &Path, options: &Options, look: &mut Look<'_>) -> Ran {
    let spec = RunSpec { allow_target: options.allow_target.clone(), ..spec };
    if let Some(replayer) = &options.replayer {
        // Processes can be watched on one host only, but agents send from others.
        let spec = RunSpec { watch_pid: None, ..spec };
        let document = replayer.replay(spec, directory, look)?;
        return Ok(FinishedRun { document, rules: Vec::new() });
    }
    let prepared = prepare(spec)?;
    prepared.announcements()?.iter().for_each(|line| look.watcher.tell(line));
    prepared.execute(directory, options.replace, options.command_line.clone(), look)
}

/// Passes the observer of an experiment on to a run.
pub(crate) struct Look<'a> {
    pub watcher: &'a mut dyn Watcher,
    pub at: &'a Position,
}

impl Observer for Look<'_> {
    fn look(&mut self, progress: &Progress) -> Wish {
        self.watcher.look(self.at, progress)
    }

    fn notice(&mut self, text: &str) {
        self.watcher.tell(text);
    }
}

/// A directory for a run within the cell's; numbered if an earlier attempt is kept.
fn free_directory(cell: &Path, name: &str) -> PathBuf {
    let first = cell.join(name);
    let others = (2_u32..).map(|attempt| cell.join(format!("{name}.{attempt}")));
    std::iter::once(first)
        .chain(others)
        .find(|path| !path.exists() && !with_ending(path, "server").exists())
        .unwrap_or_else(|| cell.join("none"))
}

fn with_ending(directory: &Path, ending: &str) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Whether a full disk ended the run.
fn fills(error: &RunError, directory: &Path) -> bool {
    match error {
        RunError::Results(ResultsError::File { source, .. }) => source.kind() == ErrorKind::StorageFull,
        RunError::CutShort(_) => {
            statvfs(directory).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < FULL)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_attempt_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let next = || free_directory(folder.path(), "3").file_name().unwrap().to_owned();
        assert_eq!(next(), "3");
        fs::create_dir(folder.path().join("3")).unwrap();
        assert_eq!(next(), "3.2");
        fs::create_dir(folder.path().join("3.2.server")).unwrap();
        assert_eq!(next(), "3.3");
    }
}
