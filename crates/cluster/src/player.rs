//! An agent's part of a run: a replay of the queries that come, on a thread of its own, and its files on their way back.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use ldplayer_core::TraceTime;
use ldplayer_replay::RunStart;
use ldplayer_run::{Observer, RunSpec, Share, Wish, prepare_share};

use crate::bus::Bus;
use crate::feed::ShardFeed;
use crate::files;
use crate::message::{Part, Progress, Stage};

/// How long the start is waited for: longer than the slowest other agent may take to be ready.
const START_WITHIN: Duration = Duration::from_secs(600);

/// A part that is being played.
#[derive(Debug)]
pub struct Player {
    run: u64,
    name: String,
    shared: Arc<Shared>,
    start: Sender<i64>,
}

/// What the thread of the replay and those who ask have in common.
#[derive(Debug, Default)]
struct Shared {
    stage: Mutex<Stage>,
    stop: AtomicBool,
    abort: AtomicBool,
    /// What ends the reading; there when the reading has begun.
    reading: Mutex<Option<Arc<AtomicBool>>>,
    sent: AtomicU64,
    answered: AtomicU64,
    timed_out: AtomicU64,
    failed: AtomicU64,
    not_sent: AtomicU64,
    lag_ns: AtomicI64,
}

impl Player {
    /// Begins to read the part's queries; the replay waits for its start.
    ///
    /// # Errors
    /// When the specification is none that this release knows.
    pub fn begin(bus: &Arc<Bus>, part: Part, scratch: &Path) -> Result<Self, String> {
        let spec: RunSpec =
            serde_json::from_value(part.spec.clone()).map_err(|error| format!("the run's specification: {error}"))?;
        let (start, started) = bounded(1);
        let shared = Arc::new(Shared::default());
        let player = Self { run: part.run, name: part.name.clone(), shared: Arc::clone(&shared), start };
        let (bus, output) = (Arc::clone(bus), scratch.join(format!("run-{:016x}", part.run)));
        let play = move || {
            let stage = play(&bus, &part, spec, &output, started, &shared);
            shared.set(stage.unwrap_or_else(|reason| Stage::Failed { reason }));
        };
        thread::Builder::new().name("player".to_owned()).spawn(play).map_err(|error| error.to_string())?;
        Ok(player)
    }

    /// The number of the run.
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// The name of the run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts at this moment of CLOCK_MONOTONIC. Told again, it changes nothing.
    pub fn start(&self, at_ns: i64) {
        let _ = self.start.try_send(at_ns);
    }

    /// Sends nothing more.
    pub fn stop(&self, at_once: bool) {
        self.shared.abort.fetch_or(at_once, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Relaxed);
        let reading = self.shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.iter().for_each(|given_up| given_up.store(true, Ordering::Relaxed));
    }

    /// Whether it has ended, well or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.shared.stage(), Stage::Returned { .. } | Stage::Failed { .. })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let shared = &self.shared;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Progress {
            stage: shared.stage(),
            sent: load(&shared.sent),
            answered: load(&shared.answered),
            timed_out: load(&shared.timed_out),
            failed: load(&shared.failed),
            not_sent: load(&shared.not_sent),
            lag_ns: shared.lag_ns.swap(0, Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Plays the part, and returns what is to be said of it when its files are with the controller.
fn play(
    bus: &Arc<Bus>,
    part: &Part,
    spec: RunSpec,
    output: &Path,
    started: Receiver<i64>,
    shared: &Arc<Shared>,
) -> Result<Stage, String> {
    let feed = ShardFeed::open(bus, part.run, part.agent, part.ahead_ns);
    *shared.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(feed.given_up());
    let (ahead, waiting) = (feed.ahead(), Arc::clone(shared));
    let start = move || {
        waiting.set(Stage::Ready);
        let at_ns = wait(&started, &waiting)?;
        ahead.start_ns.store(at_ns, Ordering::Relaxed);
        waiting.set(Stage::Running);
        Some(RunStart { monotonic_ns: at_ns })
    };
    let share = Share {
        queries: Box::new(feed),
        first: TraceTime(part.first_ns),
        host: (part.agent as usize, part.agents as usize),
        start: Box::new(start),
    };
    let prepared = prepare_share(spec, share).map_err(|error| error.to_string())?;
    let mut looker = Looker { shared };
    // A run that was cut short has a report, too: its files go back, and say so.
    let made = prepared.execute(output, true, Vec::new(), &mut looker);
    shared.set(Stage::Returning);
    if let (Err(error), false) = (&made, output.join("run.json").exists()) {
        return Err(error.to_string());
    }
    let files = files::put(bus, part.run, part.agent, output).map_err(|error| error.to_string())?;
    Ok(Stage::Returned { files })
}

/// The start, or `None` when the run is given up.
fn wait(started: &Receiver<i64>, shared: &Shared) -> Option<i64> {
    const STEP: Duration = Duration::from_millis(50);
    for _ in 0..START_WITHIN.as_millis() / STEP.as_millis() {
        if let Ok(at_ns) = started.recv_timeout(STEP) {
            return Some(at_ns);
        }
        if shared.stop.load(Ordering::Relaxed) {
            return None;
        }
    }
    None
}

/// Takes the counts of the replay, and its wishes from those who ask.
struct Looker<'a> {
    shared: &'a Shared,
}

impl Observer for Looker<'_> {
    fn look(&mut self, progress: &ldplayer_run::Progress) -> Wish {
        let (shared, counts) = (self.shared, &progress.counts);
        for (shown, count) in [
            (&shared.sent, counts.sent),
            (&shared.answered, counts.answered),
            (&shared.timed_out, counts.timed_out),
            (&shared.failed, counts.failed),
            (&shared.not_sent, counts.not_sent),
        ] {
            shown.store(count, Ordering::Relaxed);
        }
        shared.lag_ns.fetch_max(progress.lag_ns, Ordering::Relaxed);
        match (shared.abort.load(Ordering::Relaxed), shared.stop.load(Ordering::Relaxed)) {
            (true, _) => Wish::Abort,
            (false, true) => Wish::Stop,
            (false, false) => Wish::GoOn,
        }
    }
}
