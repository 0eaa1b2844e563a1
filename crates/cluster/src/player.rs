//! An agent's replay of its share, on a separate thread, and the return of its files.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use ldplayer_core::TraceTime;
use ldplayer_replay::{Feed, RunStart};
use ldplayer_run::{Live, Observer, RunSpec, Share, Wish, prepare_share, read_whole};
use tempfile::TempDir;

use crate::bus::Bus;
use crate::feed::{OwnFeed, ShardFeed};
use crate::files;
use crate::limits::Limits;
use crate::message::{Part, Progress, Source, Stage};
use crate::reached::Reached;
use crate::receive::Ahead;

/// How long to wait for the start: longer than the slowest agent may take to be ready.
const START_WITHIN: Duration = Duration::from_secs(600);

/// Why a part ended that should not have: the agent is free for others all the same.
pub const PANICKED: &str = "a thread of the agent panicked; please report this";

/// A part being played.
#[derive(Debug)]
pub struct Player {
    run: u64,
    seat: u32,
    name: String,
    directory: PathBuf,
    shared: Arc<Shared>,
    start: Sender<RunStart>,
}

/// State shared by the replay thread and requests.
#[derive(Debug, Default)]
struct Shared {
    stage: Mutex<Stage>,
    stop: AtomicBool,
    abort: AtomicBool,
    /// The progress of reading, once begun.
    reading: Mutex<Option<Arc<Reached>>>,
    live: Arc<Live>,
}

impl Player {
    /// Begins to read the part's queries; the replay waits for its start.
    ///
    /// # Errors
    /// The part is beyond the limits of this agent.
    pub fn begin(bus: &Arc<Bus>, part: Part, scratch: &Path, limits: &Limits) -> Result<Self, String> {
        let spec = limits.of_part(&part).map_err(|refused| refused.to_string())?;
        let (start, started) = bounded(1);
        let shared = Arc::new(Shared::default());
        let directory = scratch.join(format!("run-{:016x}-{}", part.run, part.seat));
        let player = Self {
            run: part.run,
            seat: part.seat,
            name: part.name.clone(),
            directory: directory.clone(),
            shared: Arc::clone(&shared),
            start,
        };
        let bus = Arc::clone(bus);
        let play = move || {
            let playing = AssertUnwindSafe(|| play(&bus, &part, spec, &directory, started, &shared));
            let stage = catch_unwind(playing).unwrap_or_else(|_| Err(PANICKED.to_owned()));
            shared.set(stage.unwrap_or_else(|reason| Stage::Failed { reason }));
        };
        thread::Builder::new().name("player".to_owned()).spawn(play).map_err(|error| error.to_string())?;
        Ok(player)
    }

    /// The number of the run.
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Whether this is the given part of the given run.
    pub const fn is(&self, run: u64, seat: u32) -> bool {
        self.run == run && self.seat == seat
    }

    /// Its output directory until the controller has fetched the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The name of the run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts at this time. Idempotent.
    pub fn start(&self, start: RunStart) {
        let _ = self.start.try_send(start);
    }

    /// Stops sending.
    pub fn stop(&self, at_once: bool) {
        self.shared.abort.fetch_or(at_once, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.reading().iter().for_each(|reached| reached.given_up.store(true, Ordering::Relaxed));
    }

    /// Whether it has ended, successfully or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.shared.stage(), Stage::Returned { .. } | Stage::Failed { .. })
    }

    /// The progress, with latencies on request.
    pub fn progress(&self, latencies: bool) -> Progress {
        let (shared, reached) = (&self.shared, self.shared.reading());
        Progress {
            stage: shared.stage(),
            figures: shared.live.snapshot(),
            latencies: latencies.then(|| shared.live.latencies()),
            read_to_ns: reached.as_ref().and_then(|reached| reached.to_ns()),
            skipped: reached.map_or(0, |reached| reached.skipped()),
        }
    }
}

impl Shared {
    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn reading(&self) -> Option<Arc<Reached>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stage(&self) -> Stage {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Plays the part and returns its final stage once its files are with the controller.
fn play(
    bus: &Arc<Bus>,
    part: &Part,
    spec: RunSpec,
    output: &Path,
    started: Receiver<RunStart>,
    shared: &Arc<Shared>,
) -> Result<Stage, String> {
    let (_certificates, spec) = trusted(spec, part.tls_ca.as_deref(), output)?;
    let fetched = fetch(bus, part, output, shared)?;
    let spec = match &fetched {
        Some((_, trace)) => RunSpec { trace: trace.clone(), ..spec },
        None => spec,
    };
    let Opened { queries, reached, ahead } = open(bus, part, &spec)?;
    *shared.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
    let waiting = Arc::clone(shared);
    let start = move || {
        waiting.set(Stage::Ready);
        let start = wait(&started, &waiting)?;
        ahead.iter().for_each(|ahead| ahead.start_ns.store(start.monotonic_ns, Ordering::Relaxed));
        waiting.set(Stage::Running);
        Some(start)
    };
    let share = Share {
        queries,
        first: TraceTime(part.first_ns),
        host: (part.shard as usize, part.shards as usize),
        start: Box::new(start),
        live: Arc::clone(&shared.live),
    };
    let prepared = prepare_share(spec, share).map_err(|error| error.to_string())?;
    let mut looker = Looker { shared };
    // A run that ended early has a report, too: its files are returned and say so.
    let made = prepared.execute(output, true, Vec::new(), &mut looker);
    shared.set(Stage::Returning);
    if let (Err(error), false) = (&made, output.join("run.json").exists()) {
        return Err(error.to_string());
    }
    let files = files::put(bus, part.run, part.seat, output).map_err(|error| error.to_string())?;
    // Stopping ends the reading early, which is not a failure.
    let ended_early = made.err().filter(|_| !shared.stop.load(Ordering::Relaxed)).map(|error| error.to_string());
    Ok(Stage::Returned { files, ended_early })
}

/// The specification with the certificates that came with it, in a temporary directory beside the output.
pub fn trusted(spec: RunSpec, tls_ca: Option<&str>, output: &Path) -> Result<(Option<TempDir>, RunSpec), String> {
    let Some(certificates) = tls_ca else { return Ok((None, spec)) };
    let directory = beside(output, "trusted-")?;
    let file = directory.path().join("ca.pem");
    ldplayer_net::output::write(&file, certificates).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok((Some(directory), RunSpec { tls_ca: Some(file), ..spec }))
}

/// A temporary directory beside the output.
fn beside(output: &Path, prefix: &str) -> Result<TempDir, String> {
    let place = output.parent().unwrap_or(output);
    let made = fs::create_dir_all(place).and_then(|()| tempfile::Builder::new().prefix(prefix).tempdir_in(place));
    made.map_err(|error| format!("{}: {error}", place.display()))
}

/// The files of the trace, if the part says to fetch them, in a temporary directory.
fn fetch(bus: &Bus, part: &Part, output: &Path, shared: &Shared) -> Result<Option<(TempDir, Vec<String>)>, String> {
    if part.trace.is_empty() {
        return Ok(None);
    }
    shared.set(Stage::Fetching);
    let directory = beside(output, "trace-")?;
    let trace = files::fetch_trace(bus, part.run, &part.trace, directory.path()).map_err(|error| error.to_string())?;
    shared.set(Stage::Preparing);
    Ok(Some((directory, trace)))
}

/// The source of a part's queries.
struct Opened {
    queries: Box<dyn Feed>,
    reached: Arc<Reached>,
    /// Where to set the start: a stream needs it to limit read-ahead; reading the trace needs no limit.
    ahead: Option<Arc<Ahead>>,
}

fn open(bus: &Bus, part: &Part, spec: &RunSpec) -> Result<Opened, String> {
    let Part { run, shard, shards, ahead_ns, from_ns, .. } = *part;
    let stream = match part.source {
        Source::Stream => ShardFeed::open(bus, run, shard, ahead_ns).of_classes(spec.classes().len()),
        Source::TakenOver => {
            let rest = ShardFeed::take_over(bus, run, shard, ahead_ns, from_ns.unwrap_or(0));
            rest.of_classes(spec.classes().len())
        }
        Source::OwnTrace => {
            let whole = read_whole(spec).map_err(|error| error.to_string())?;
            let own = OwnFeed::new(whole, (shard as usize, shards as usize), from_ns);
            return Ok(Opened { reached: own.reached(), queries: Box::new(own), ahead: None });
        }
    };
    Ok(Opened { reached: stream.reached(), ahead: Some(stream.ahead()), queries: Box::new(stream) })
}

/// The start, or `None` if the run is cancelled.
fn wait(started: &Receiver<RunStart>, shared: &Shared) -> Option<RunStart> {
    const STEP: Duration = Duration::from_millis(50);
    for _ in 0..START_WITHIN.as_millis() / STEP.as_millis() {
        if let Ok(start) = started.recv_timeout(STEP) {
            return Some(start);
        }
        if shared.stop.load(Ordering::Relaxed) {
            return None;
        }
    }
    None
}

/// Passes requests on to the replay.
struct Looker<'a> {
    shared: &'a Shared,
}

impl Observer for Looker<'_> {
    fn look(&mut self, _: &ldplayer_run::Progress) -> Wish {
        let shared = self.shared;
        match (shared.abort.load(Ordering::Relaxed), shared.stop.load(Ordering::Relaxed)) {
            (true, _) => Wish::Abort,
            (false, true) => Wish::Stop,
            (false, false) => Wish::GoOn,
        }
    }
}
