//! The threads of a replay: a reader feeds the workers, the workers feed the recorder.
//!
//! The reader is ahead of the workers by a bounded number of batches; rows wait for the recorder in a bounded number
//! of batches. Either bound reached is told at the end, since both can make queries late.
//!
//! A run is made in two steps: [`prepare`] reads ahead, and [`Ready::run`] starts at a moment that the caller chooses, so that
//! several hosts can start together and whoever watches counts from the same run time 0.

mod reader;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ldplayer_core::shard::Shards;
use ldplayer_core::{Ignore, Outcome, Query, RunTime, TraceTime, Transaction};
use ldplayer_net::{clock, limits, pin};

use self::reader::{Read, Reader};
use crate::monitor::Monitor;
use crate::settings::Settings;
use crate::worker::{Extras, Links, Reference, Worker, WorkerEnd};

/// Batches of queries that wait for one worker at most.
const AHEAD: usize = 64;
/// Batches read before the run starts, so that the first queries are on time.
const PREFILL: usize = 16;
/// How long the prefill may take after the first batch.
const PREFILL_AT_MOST: Duration = Duration::from_millis(500);
/// How often a wait for the reader looks whether the run was asked to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a reader may take to end after an interrupt; one that waits in a read for input is left behind.
const READER_GRACE: Duration = Duration::from_millis(200);
/// Batches of rows that wait for the recorder at most.
const ROWS_WAITING: usize = 256;
/// How long the recorder waits for rows before it is told the time.
const TICK: Duration = Duration::from_millis(500);

/// An error of a feed or a drain, as its own crate words it.
pub type LinkError = Box<dyn Error + Send + Sync>;

/// Where the queries come from.
pub trait Feed: Send {
    /// Appends the next queries, in the order of their due times; `false` at the end. It may wait for input as long as it
    /// likes: an interrupted run leaves it behind.
    ///
    /// # Errors
    /// What makes further reading impossible; what was yielded is replayed all the same.
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError>;
}

/// Where the rows go.
pub trait Drain {
    /// Takes finished rows of one worker, by the number of its shard among those of all hosts.
    ///
    /// # Errors
    /// What makes further recording impossible; it ends the run.
    fn outcomes(&mut self, shard: usize, rows: &[Outcome]) -> Result<(), LinkError>;

    /// Told the run time at least every half second, whether rows come or not, so that what is not saved yet can be. Does
    /// nothing by default.
    ///
    /// # Errors
    /// As for [`Self::outcomes`].
    fn tick(&mut self, now: RunTime) -> Result<(), LinkError> {
        let _ = now;
        Ok(())
    }
}

/// When a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Run time 0 on CLOCK_MONOTONIC of this host, in nanoseconds.
    pub monotonic_ns: i64,
    /// What the wall clock shows then, where several hosts agreed on it; `None` for that of this host.
    pub wall: Option<TraceTime>,
}

impl RunStart {
    /// Time for the workers to start, in nanoseconds: a start should not be nearer than this. Queries that are due before the
    /// workers have started are late.
    pub const LEAD: i64 = 20_000_000;

    /// As soon as the workers can have started.
    pub fn soon() -> Self {
        Self { monotonic_ns: clock::monotonic_ns() + Self::LEAD, wall: None }
    }

    /// The wall clock at run time 0, as far as it is known now: it may be set until then.
    pub fn wall_clock(self) -> TraceTime {
        self.wall.unwrap_or_else(|| TraceTime(self.monotonic_ns + clock::realtime_offset_ns()))
    }
}

/// How a replay ended.
#[derive(Debug)]
pub struct Ended {
    /// Queries of this host's shards that reached its workers: each has one row of its own.
    pub trace_queries: u64,
    /// Queries that the feed yielded for shards of other hosts. They were left to those.
    pub of_other_shards: u64,
    /// Wall clock at run time 0.
    pub started: TraceTime,
    /// What each worker left behind.
    pub workers: Vec<WorkerEnd>,
    /// What ended the reading early.
    pub feed_error: Option<LinkError>,
    /// What ended the recording early.
    pub drain_error: Option<LinkError>,
}

/// What keeps a replay from being made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A worker could not start or wait.
    #[error("worker {worker}: {source}; see `ldplayer doctor` for the limits of this machine")]
    Worker {
        /// Its number.
        worker: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A thread panicked: a fault of this program.
    #[error("a thread of the replay panicked; please report it with the lines above")]
    Panic,
}

/// A replay whose first queries are read and wait for its start. Dropping it ends its reader.
#[derive(Debug)]
pub struct Ready<F> {
    settings: Settings,
    shards: Shards,
    monitor: Arc<Monitor>,
    feeds: Vec<Receiver<Vec<Query>>>,
    extras: Extras,
    reader: JoinHandle<Read<F>>,
    /// Nothing is sent on it; the reader closes it when it ends.
    reading: Receiver<()>,
}

/// Begins to read `feed` and returns when there is enough to start with, or when the run is asked to end. This host plays
/// `shards`, one for each worker of the settings; queries of others are left to the hosts that have them.
pub fn prepare<F: Feed + 'static>(settings: Settings, shards: Shards, feed: F, monitor: &Arc<Monitor>) -> Ready<F> {
    let (filled_sender, filled) = bounded::<()>(2);
    let (ended, reading) = bounded::<()>(1);
    let (feeders, feeds): (Vec<_>, Vec<_>) = (0..settings.workers).map(|_| bounded(AHEAD)).unzip();
    let reader = Reader { feed, feeders, shards, monitor: Arc::clone(monitor) };
    let reader = thread::spawn(move || {
        let read = reader.run(filled_sender);
        drop(ended);
        read
    });
    wait_for_prefill(&filled, monitor);
    Ready { settings, shards, monitor: Arc::clone(monitor), feeds, extras: Extras::default(), reader, reading }
}

impl<F> Ready<F> {
    /// The same, whose rows tell when the kernel handed each query over UDP to the device (`sent`). It costs a system call for
    /// each batch sent. Over TCP and QUIC it is not known: one segment or packet may carry several queries, or a part of one.
    /// Nor is it after a send that failed on the same socket, since the kernel may have counted it.
    pub fn with_send_stamps(self) -> Self {
        Self { extras: Extras { stamps: true, ..self.extras }, ..self }
    }

    /// The same, which leaves out of comparisons with expected responses what `ignore` says.
    pub fn with_comparison(self, ignore: Ignore) -> Self {
        Self { extras: Extras { ignore: Arc::new(ignore), ..self.extras }, ..self }
    }

    /// The same, which asks another server each query at the same time, and compares answers with its: rows tell how. Its own queries are
    /// in no rows, and in no accounts but [`WorkerEnd::reference`] and those of connections.
    pub fn with_reference(self, reference: Reference) -> Self {
        Self { extras: Extras { reference: Some(reference), ..self.extras }, ..self }
    }

    /// The same, which gives every query that was sent, with its response where it has one, to `responses`, in about the order in
    /// which they ended. Their times are run times. A full channel makes workers wait.
    pub fn with_responses(self, responses: Sender<Vec<Transaction>>) -> Self {
        Self { extras: Extras { responses: Some(responses), ..self.extras }, ..self }
    }

    /// Replays what the feed yields and gives every row to `drain`, by the number of the shard. Returns when every query has
    /// its outcome, with the feed; without it when the run was asked to end and a read did not.
    ///
    /// # Errors
    /// What kept a worker from its work. Errors of single queries are rows.
    pub fn run(self, start: RunStart, drain: &mut dyn Drain) -> Result<(Ended, Option<F>), ReplayError> {
        let started = start.wall_clock();
        let Self { settings, shards, monitor, feeds, extras, reader, reading } = self;
        let (workers, drain_error) = play(&settings, shards, &monitor, start, (feeds, extras), drain)?;
        let trace_queries = workers.iter().map(|worker| worker.taken).sum();
        let ended = Ended { trace_queries, of_other_shards: 0, started, workers, feed_error: None, drain_error };
        if !has_ended(&reading, &monitor) {
            return Ok((ended, None));
        }
        let read = reader.join().map_err(|_| ReplayError::Panic)?;
        Ok((Ended { of_other_shards: read.of_other_shards, feed_error: read.error, ..ended }, Some(read.feed)))
    }
}

/// Replays what `feed` yields on this host alone, as soon as it can start: [`prepare`] and [`Ready::run`].
///
/// # Errors
/// What kept a worker from its work. Errors of single queries are rows.
pub fn run<F: Feed + 'static>(
    settings: &Settings,
    feed: F,
    drain: &mut dyn Drain,
    monitor: &Arc<Monitor>,
) -> Result<(Ended, Option<F>), ReplayError> {
    let ready = prepare(settings.clone(), Shards::all(settings.workers), feed, monitor);
    ready.run(RunStart::soon(), drain)
}

/// Runs the workers, and records what they finish on this thread. Returns what they left behind, and what ended the recording.
fn play(
    settings: &Settings,
    shards: Shards,
    monitor: &Monitor,
    start: RunStart,
    (feeds, extras): (Vec<Receiver<Vec<Query>>>, Extras),
    drain: &mut dyn Drain,
) -> Result<(Vec<WorkerEnd>, Option<LinkError>), ReplayError> {
    let (row_sender, row_receiver) = bounded(ROWS_WAITING);
    let (spare_sender, spare_receiver) = bounded(ROWS_WAITING);
    thread::scope(|scope| {
        let workers: Vec<_> = feeds
            .into_iter()
            .enumerate()
            .map(|(number, feed)| {
                let links =
                    Links { feed, rows: row_sender.clone(), spare: spare_receiver.clone(), extras: extras.clone() };
                scope.spawn(move || work(number, shards, start, settings, monitor, links))
            })
            .collect();
        drop((row_sender, extras));
        let drain_error = record(&row_receiver, &spare_sender, drain, monitor, start.monotonic_ns).err();
        let workers = workers.into_iter().enumerate().map(|(number, worker)| join_worker(number, worker));
        Ok((workers.collect::<Result<Vec<_>, _>>()?, drain_error))
    })
}

/// Waits for the first batch, and then a moment for more: a live trace may have no more yet. A closed channel means
/// that the prefill is complete.
fn wait_for_prefill(filled: &Receiver<()>, monitor: &Monitor) {
    loop {
        match filled.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) if !monitor.is_stopped() => {}
            Err(_) => return,
            Ok(()) => break,
        }
    }
    // Whether there is more or not, the run can start.
    let _ = filled.recv_timeout(PREFILL_AT_MOST);
}

/// Waits for the reader to end. That may take for ever when it waits for input: after an interrupt, only for a moment.
fn has_ended(reading: &Receiver<()>, monitor: &Monitor) -> bool {
    if monitor.is_stopped() {
        return reading.recv_timeout(READER_GRACE) == Err(RecvTimeoutError::Disconnected);
    }
    // Nothing is ever sent: it returns when the reader has ended.
    let _ = reading.recv();
    true
}

fn join_worker(number: usize, handle: ScopedJoinHandle<'_, io::Result<WorkerEnd>>) -> Result<WorkerEnd, ReplayError> {
    let ended = handle.join().map_err(|_| ReplayError::Panic)?;
    ended.map_err(|source| ReplayError::Worker { worker: number, source })
}

fn work(
    number: usize,
    shards: Shards,
    start: RunStart,
    settings: &Settings,
    monitor: &Monitor,
    links: Links,
) -> io::Result<WorkerEnd> {
    limits::own_descriptors()?;
    if let Some(&core) = settings.cores.get(number) {
        pin::pin_to(core)?;
    }
    // One nanosecond instead of the default 50 µs takes as much off every wake-up; without it the run is only less precise.
    let _ = pin::set_timer_slack(1);
    let worker = Worker::new(number, shards, start.monotonic_ns, settings, monitor, links);
    let ended = worker.and_then(Worker::run);
    if ended.is_err() {
        monitor.stop();
    }
    ended
}

/// Gives rows to the drain until all workers are done. After an error the rows are only thrown away.
fn record(
    rows: &Receiver<(usize, Vec<Outcome>)>,
    spare: &Sender<Vec<Outcome>>,
    drain: &mut dyn Drain,
    monitor: &Monitor,
    origin: i64,
) -> Result<(), LinkError> {
    let mut result = Ok(());
    loop {
        let received = rows.recv_timeout(TICK);
        if let Err(RecvTimeoutError::Disconnected) = received {
            return result;
        }
        let batch = received.ok();
        if result.is_ok() {
            let given = batch.as_ref().map_or(Ok(()), |(shard, rows)| drain.outcomes(*shard, rows));
            let now = RunTime(clock::monotonic_ns() - origin);
            result = given.and_then(|()| drain.tick(now)).inspect_err(|_| monitor.stop());
        }
        if let Some((_, mut batch)) = batch {
            batch.clear();
            // A full store of spares only means that the workers have enough of them.
            let _ = spare.try_send(batch);
        }
    }
}
