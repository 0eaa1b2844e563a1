//! Makes the runs of a plan, one after the other.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Seek};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use ldplayer_core::Cidr;
use ldplayer_core::text::counted;
use ldplayer_core::time::Span;
use ldplayer_emulate::stock::{Kind, Role, find};
use ldplayer_net::{clock, limits, programs, rights};
use ldplayer_results::{Document, ResultsError, State};
use ldplayer_run::{FinishedRun, Observer, Progress, RunError, RunSpec, Server, Wish, prepare};
use rustix::fs::statvfs;

use crate::certificate::{self, Certificate};
use crate::error::ExperimentError;
use crate::find::search_all;
use crate::place::{self, Found, PlaceError};
use crate::plan::{Plan, Slot};
use crate::record::{self, Record, RunRecord, RunState, Verdicts, Workspace};
use crate::servers::ServerTable;
use crate::started::{Needs, needs_tls};
use crate::zones::{Ready, Zones};

/// With less free space than this, the disk counts as full.
const FULL: u64 = 2 << 20;
/// The abstract socket by which experiments on a machine notice each other; it vanishes with its process.
const ALONE: &[u8] = b"ldplayer-experiment";
/// Limits for asking a program for its version: time, polling interval, and octets of output.
const SAYS_WITHIN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);
const LONGEST_SAID: u64 = 64 << 10;
/// Maximum length of a version, in characters.
const LONGEST_VERSION: usize = 120;

/// Observes an experiment.
pub trait Watcher: Send {
    /// A notice for the user.
    fn tell(&mut self, line: &str);
    /// A run begins.
    fn begin(&mut self, at: &Position);
    /// A run is in progress; called about twenty times a second. Returns whether to continue.
    fn look(&mut self, at: &Position, progress: &Progress) -> Wish;
    /// A run has ended.
    fn end(&mut self, at: &Position, run: &RunRecord);
    /// Whether to stop after the current run.
    fn is_stopped(&self) -> bool;
}

/// Progress of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// The number of the run, from 1; in a search, of the trial within its cell.
    pub number: usize,
    /// The total number of runs; `None` in a search.
    pub of: Option<usize>,
    /// The name of the cell.
    pub cell: String,
    /// Which repeat or trial it is.
    pub what: String,
    /// Estimated seconds for this and the remaining runs, if known.
    pub estimated_s: Option<(f64, f64)>,
}

/// Options that are not part of the plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program, which also is a server.
    pub ldplayer: PathBuf,
    /// The command line, for the records of runs.
    pub command_line: Vec<String>,
    /// Address blocks outside this host that may be sent load. Those of the file do not count: it may be somebody else's.
    pub allow_target: Vec<Cidr>,
    /// Makes the replays; `None` for this process.
    pub replayer: Option<Arc<dyn Replayer>>,
}

/// Makes replays outside this process.
pub trait Replayer: fmt::Debug + Send + Sync {
    /// Makes a replay in a new directory.
    ///
    /// # Errors
    /// The error of the replay; everything measured before it is kept.
    fn replay(
        &self,
        spec: RunSpec,
        directory: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Document<RunSpec>, RunError>;
}

/// Makes all missing runs of a plan, and returns the record of all runs.
///
/// Without the right to make namespaces, this process enters a user namespace, for which it must be single-threaded.
///
/// # Errors
/// An error that ends the whole experiment; finished runs are kept.
pub fn execute(
    plan: &Plan,
    workspace: Workspace,
    options: &Options,
    watcher: &mut dyn Watcher,
) -> Result<Record, ExperimentError> {
    // The lock is held until the end.
    let Workspace { directory, before, _lock } = workspace;
    let alone = alone(watcher);
    let mut record = Record::new(plan);
    if let Some(before) = before {
        let has_changed = before.file != record.file;
        record = record.going_on(before);
        record.notes.last().filter(|_| has_changed).into_iter().for_each(|note| watcher.tell(note));
    }
    let left: Vec<Slot> = plan.slots.iter().copied().filter(|slot| !record.is_finished(plan, *slot)).collect();
    if left.is_empty() && plan.experiment.find.is_none() {
        record.save(plan, &directory)?;
        return Ok(record);
    }
    if alone.is_none() {
        record.notes.push("another experiment was running on this machine at the same time".to_owned());
    }
    record::reserve(&directory)?;
    tell_of_room(
        plan,
        if plan.experiment.find.is_some() { plan.all().collect() } else { left.clone() },
        &directory,
        watcher,
    );
    // Servers inherit the limits of this process: raise them first, so that all servers get the same.
    let _ = limits::raise_nofile();
    let is_ours = plan.experiment.cells.iter().any(|cell| cell.stage.is_ours());
    if is_ours && options.replayer.is_some() {
        return Err(ExperimentError::OfOneHost);
    }
    if is_ours {
        rights::ensure_rights()?;
    }
    let servers = servers(plan);
    record.versions = versions(&servers, options)?;
    let mut maker = Maker { plan, directory: &directory, options, needs: needs(plan, &directory, options)?, watcher };
    match &plan.experiment.find {
        Some(find) => search_all(&mut maker, find, &mut record)?,
        None => maker.all(&left, &mut record)?,
    }
    Ok(record)
}

/// Claims this machine for the experiment; warns and returns `None` if another experiment is running.
fn alone(watcher: &mut dyn Watcher) -> Option<UnixListener> {
    let address = UnixAddress::from_abstract_name(ALONE).ok()?;
    let listener = UnixListener::bind_addr(&address);
    if listener.is_err() {
        watcher.tell("another experiment is running on this machine: they disturb each other, so their results are less reliable");
    }
    listener.ok()
}

/// Warns if the runs will probably not fit on the disk.
fn tell_of_room(plan: &Plan, left: Vec<Slot>, directory: &Path, watcher: &mut dyn Watcher) {
    let needed = plan.total(left.into_iter()).disk;
    let Ok(disk) = statvfs(directory) else { return };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed > free {
        let (needed, free) = (needed / 1_000_000, free / 1_000_000);
        watcher.tell(&format!(
            "{}: only {free} MB of disk space is free, and the runs need about {needed} MB",
            directory.display()
        ));
    }
}

/// All servers of all cells, each once.
fn servers(plan: &Plan) -> Vec<&ServerTable> {
    let mut servers: Vec<&ServerTable> = Vec::new();
    for cell in &plan.experiment.cells {
        for server in cell.stage.backend.iter().chain(&cell.stage.server) {
            if servers.iter().all(|known| known.name != server.name) {
                servers.push(server);
            }
        }
    }
    servers
}

/// The versions of all servers; every program must be installed.
fn versions(servers: &[&ServerTable], options: &Options) -> Result<BTreeMap<String, String>, ExperimentError> {
    let mut versions = BTreeMap::new();
    for server in servers.iter().filter(|server| server.role() != Role::Foreign) {
        for kind in server.front.into_iter().chain([server.kind]) {
            let own = (kind == server.kind).then_some(server.program.as_deref()).flatten();
            let path = program_of(kind, own, &server.name, options)?;
            let name = if kind == server.kind { server.name.clone() } else { format!("{}-front", server.name) };
            let told = match &server.version {
                Some(command) if kind == Kind::COMMAND => version(Command::new(path).arg("-c").arg(command)),
                None if kind == Kind::COMMAND => UNKNOWN.to_owned(),
                _ => version(Command::new(path).arg(kind.version_option())),
            };
            versions.insert(name, told);
        }
    }
    Ok(versions)
}

fn program_of(kind: Kind, own: Option<&Path>, server: &str, options: &Options) -> Result<PathBuf, ExperimentError> {
    let program = kind.program();
    let missing = |program: String, package: &str| ExperimentError::Missing {
        server: server.to_owned(),
        program,
        package: package.to_owned(),
    };
    match own {
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => Err(missing(path.display().to_string(), program.package)),
        None if kind == Kind::META => Ok(options.ldplayer.clone()),
        None => find(program.name, program.package).map_err(|_| missing(program.name.to_owned(), program.package)),
    }
}

/// The version of a program that does not say it.
const UNKNOWN: &str = "unknown";

/// The first line with a digit of a program's version output.
fn version(command: &mut Command) -> String {
    let said = say(command).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| line.chars().any(|c| c.is_ascii_digit()));
    // PowerDNS prefixes lines with a timestamp, which is not part of the version.
    let line = line.map(|line| line.find("PowerDNS").map_or(line, |at| &line[at..]));
    line.map_or_else(|| UNKNOWN.to_owned(), |line| line.chars().take(LONGEST_VERSION).collect())
}

/// The output of a program that should print something and exit; it is killed after a timeout.
fn say(command: &mut Command) -> std::io::Result<Vec<u8>> {
    let mut out = tempfile::tempfile()?;
    command.env("PATH", programs::search_path()).stdin(Stdio::null());
    let mut child = command.stdout(out.try_clone()?).stderr(out.try_clone()?).spawn()?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > SAYS_WITHIN {
            child.kill()?;
        }
        thread::sleep(LOOK);
    }
    let mut said = Vec::new();
    out.rewind()?;
    out.take(LONGEST_SAID).read_to_end(&mut said)?;
    Ok(said)
}

/// The zones and certificates that the servers of each cell need, made once.
fn needs(plan: &Plan, directory: &Path, options: &Options) -> Result<Vec<Needs>, ExperimentError> {
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
type Ran = Result<FinishedRun, RunError>;

/// Makes runs.
pub(crate) struct Maker<'a> {
    pub plan: &'a Plan,
    pub directory: &'a Path,
    options: &'a Options,
    /// By cell.
    needs: Vec<Needs>,
    pub watcher: &'a mut dyn Watcher,
}

/// A run to be made.
pub(crate) struct Making {
    /// The index of its cell.
    pub cell: usize,
    /// Its specification. The server is filled in once it has been started.
    pub spec: RunSpec,
    /// The name of its directory within that of the cell.
    pub name: String,
}

impl Maker<'_> {
    /// Makes these runs. A disturbed run is repeated before the next one, which interleaving tolerates.
    fn all(&mut self, slots: &[Slot], record: &mut Record) -> Result<(), ExperimentError> {
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
        let made = place::make(&cell.stage, needs, &cell.spec, &logs, |found| {
            let spec = aimed(spec, found, needs);
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
fn aimed(mut spec: RunSpec, found: &Found, needs: &Needs) -> RunSpec {
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
        let scratch = with_ending(directory, "warm-up");
        let warmed = play(first, &scratch, options, look);
        // The warm-up must not be mistaken for a run.
        let _ = fs::remove_dir_all(&scratch);
        if warmed?.document.report.state != State::Complete {
            return Err(RunError::CutShort("interrupted during warm-up".to_owned()));
        }
    }
    play(spec, directory, options, look)
}

/// Makes a replay, here or on agents.
fn play(spec: RunSpec, directory: &Path, options: &Options, look: &mut Look<'_>) -> Ran {
    let spec = RunSpec { allow_target: options.allow_target.clone(), ..spec };
    if let Some(replayer) = &options.replayer {
        // Processes can be watched on one host only, but agents send from others.
        let spec = RunSpec { watch_pid: None, ..spec };
        let document = replayer.replay(spec, directory, look)?;
        return Ok(FinishedRun { document, rules: Vec::new() });
    }
    let prepared = prepare(spec)?;
    prepared.resolved().for_each(|line| look.watcher.tell(&line));
    if let [public @ .., last] = prepared.public_targets() {
        let load = match prepared.load()? {
            Some(load) => format!("up to {} ({} bytes)", counted(load.queries, "query", "queries"), load.octets),
            None => "the queries of its input, as they come,".to_owned(),
        };
        let each = public.iter().chain([last]).map(ToString::to_string).collect::<Vec<_>>().join(", ");
        look.watcher.tell(&format!("sending {load} to the public address {each}"));
    }
    prepared.execute(directory, false, options.command_line.clone(), look)
}

/// Passes the observer of an experiment on to a run.
struct Look<'a> {
    watcher: &'a mut dyn Watcher,
    at: &'a Position,
}

impl Observer for Look<'_> {
    fn look(&mut self, progress: &Progress) -> Wish {
        self.watcher.look(self.at, progress)
    }

    fn notice(&mut self, text: &str) {
        self.watcher.tell(text);
    }
}

/// A directory for a run within that of its cell; numbered if an earlier attempt is kept.
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

    #[test]
    fn a_program_tells_its_version_on_its_first_line_with_a_figure() {
        assert_eq!(version(Command::new("/bin/echo").arg("a 1.2")), "a 1.2");
        assert_eq!(version(Command::new("/bin/echo").arg("Nov 22 21:29:09 PowerDNS 4.8")), "PowerDNS 4.8");
        assert_eq!(version(Command::new("/no/such").arg("-v")), "unknown");
    }
}
