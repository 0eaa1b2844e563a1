//! The threads of a replay: a reader feeds the workers, and the workers feed the recorder.
//!
//! The reader is ahead of the workers by a bounded number of batches, and a bounded number of row batches may wait for the
//! recorder. Reaching either bound is reported at the end, since both can make queries late.
//!
//! A run is made in two steps: [`prepare`] reads ahead, and [`Ready::run`] starts at a moment chosen by the caller, so that
//! several hosts can start together and observers share run time 0.

mod reader;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ldplayer_core::shard::Shards;
use ldplayer_core::{Ignore, Outcome, Query, RunTime, TraceTime, Transaction};
use ldplayer_net::{clock, limits, pin, ports, veth};

use self::reader::{Read, Reader};
use crate::frames::{Frames, FramesError};
use crate::monitor::Monitor;
use crate::route::Sources;
use crate::settings::Settings;
use crate::worker::{Extras, Links, Reference, Worker, WorkerEnd};

/// Maximum number of query batches queued for one worker.
const AHEAD: usize = 64;
/// Batches read before the run starts, so that the first queries are on time.
const PREFILL: usize = 16;
/// How long the prefill may take after the first batch.
const PREFILL_AT_MOST: Duration = Duration::from_millis(500);
/// How often a wait for the reader checks whether the run must end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a reader may take to end after an interrupt; one that blocks on input is left behind.
const READER_GRACE: Duration = Duration::from_millis(200);
/// Maximum number of row batches queued for the recorder.
const ROWS_WAITING: usize = 256;
/// How long the recorder waits for rows before it calls [`Drain::tick`].
const TICK: Duration = Duration::from_millis(500);

/// An error of a feed or a drain, in the words of its own crate.
pub type LinkError = Box<dyn Error + Send + Sync>;

/// A source of queries.
pub trait Feed: Send {
    /// Appends the next queries, sorted by due time; `false` at the end. It may block on input: an interrupted run
    /// leaves it behind.
    ///
    /// # Errors
    /// Reading cannot continue; everything yielded before is replayed.
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError>;
}

/// A sink of rows.
pub trait Drain {
    /// Takes finished rows of one worker, with the number of its shard among those of all hosts.
    ///
    /// # Errors
    /// Recording cannot continue; this ends the run.
    fn outcomes(&mut self, shard: usize, rows: &[Outcome]) -> Result<(), LinkError>;

    /// Called with the run time at least every half second, even without rows, so that unsaved rows can be saved. Does
    /// nothing by default.
    ///
    /// # Errors
    /// As for [`Self::outcomes`].
    fn tick(&mut self, now: RunTime) -> Result<(), LinkError> {
        let _ = now;
        Ok(())
    }
}

/// The start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// Run time 0 on CLOCK_MONOTONIC of this host, in nanoseconds.
    pub monotonic_ns: i64,
    /// The wall clock at that moment, if several hosts agreed on one; `None` to use this host's.
    pub wall: Option<TraceTime>,
}

impl RunStart {
    /// Minimum lead time of a start, in nanoseconds: queries due before the workers have started are late.
    pub const LEAD: i64 = 20_000_000;

    /// As soon as the workers can have started.
    pub fn soon() -> Self {
        Self { monotonic_ns: clock::monotonic_ns() + Self::LEAD, wall: None }
    }

    /// The wall clock at run time 0 as predicted now; it may be set until then.
    pub fn wall_clock(self) -> TraceTime {
        self.wall.unwrap_or_else(|| TraceTime(self.monotonic_ns + clock::realtime_offset_ns()))
    }
}

/// The result of a replay.
#[derive(Debug)]
pub struct Ended {
    /// Queries of this host's shards that reached its workers; each has one row.
    pub trace_queries: u64,
    /// Queries that the feed yielded for shards of other hosts, and that were skipped.
    pub of_other_shards: u64,
    /// The wall clock at run time 0.
    pub started: TraceTime,
    /// The final state of each worker.
    pub workers: Vec<WorkerEnd>,
    /// Frames lost on the link to a namespace, in either direction.
    pub link_losses: u64,
    /// The error that ended reading early.
    pub feed_error: Option<LinkError>,
    /// The error that ended recording early.
    pub drain_error: Option<LinkError>,
}

/// Why a replay failed.
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
    /// Frames cannot be sent or received on the interface.
    #[error("--path packets: {0}")]
    Packets(#[from] FramesError),
    /// A thread panicked: a bug.
    #[error("a replay thread panicked; please report this with the lines above")]
    Panic,
}

/// A replay whose first queries have been read. Dropping it ends its reader.
#[derive(Debug)]
pub struct Ready<F> {
    settings: Settings,
    /// Maximum number of clients' own sockets in a worker.
    own_sockets: u32,
    shards: Shards,
    monitor: Arc<Monitor>,
    feeds: Vec<Receiver<Vec<Query>>>,
    extras: Extras,
    /// The paths without sockets, one for each worker, if these are taken.
    frames: Result<Vec<Frames>, FramesError>,
    reader: JoinHandle<Read<F>>,
    /// Never carries a message; the reader closes it when it ends.
    reading: Receiver<()>,
}

/// Begins to read `feed`, and returns when enough has been read to start, or when the run must end. This host plays
/// `shards`, one for each worker of the settings; queries of other shards are skipped.
pub fn prepare<F: Feed + 'static>(settings: Settings, shards: Shards, feed: F, monitor: &Arc<Monitor>) -> Ready<F> {
    // Opening a ring takes tens of milliseconds, and neighbours are asked for.
    let frames = Frames::open_all(&settings);
    let (filled_sender, filled) = bounded::<()>(2);
    let (ended, reading) = bounded::<()>(1);
    let (feeders, feeds): (Vec<_>, Vec<_>) = (0..settings.workers).map(|_| bounded(AHEAD)).unzip();
    let reader = Reader { feed, feeders, shards, monitor: Arc::clone(monitor) };
    let reader = thread::spawn(move || {
        let read = reader.run(filled_sender);
        drop(ended);
        read
    });
    let own_sockets = own_sockets(&settings);
    wait_for_prefill(&filled, monitor);
    Ready {
        settings,
        own_sockets,
        shards,
        monitor: Arc::clone(monitor),
        feeds,
        extras: Extras::default(),
        frames,
        reader,
        reading,
    }
}

impl<F> Ready<F> {
    /// Also records when the kernel handed each query over UDP to the device (`sent`), which costs a system call per
    /// batch. It is unknown over TCP and QUIC, where a segment or packet may carry several queries or a part of one,
    /// and after a failed send on the same socket, since the kernel may have counted it. Frames have stamps if AF_PACKET sends them: of a path
    /// with a TAP device ([`crate::Packets::queries`]) or AF_XDP, the run fails.
    pub fn with_send_stamps(self) -> Self {
        Self { extras: Extras { stamps: true, ..self.extras }, ..self }
    }

    /// Also ignores what `ignore` says in comparisons with expected responses.
    pub fn with_comparison(self, ignore: Ignore) -> Self {
        Self { extras: Extras { ignore: Arc::new(ignore), ..self.extras }, ..self }
    }

    /// Also sends each query to another server at the same time, and compares the answers of both in the rows. Queries to the other server
    /// have no rows, and count only in [`WorkerEnd::reference`] and in the accounts of connections.
    pub fn with_reference(self, reference: Reference) -> Self {
        Self { extras: Extras { reference: Some(reference), ..self.extras }, ..self }
    }

    /// Also passes every sent query, with its response if any, to `responses`, in about the order in
    /// which they ended. Times are run times. A full channel blocks the workers.
    pub fn with_responses(self, responses: Sender<Vec<Transaction>>) -> Self {
        Self { extras: Extras { responses: Some(responses), ..self.extras }, ..self }
    }

    /// Replays the feed and passes every row to `drain`, with the number of its shard. Returns when every query has
    /// its outcome, with the feed; without it if the run was interrupted while the feed blocked.
    ///
    /// # Errors
    /// A worker failed. Errors of single queries are rows.
    pub fn run(self, start: RunStart, drain: &mut dyn Drain) -> Result<(Ended, Option<F>), ReplayError> {
        let started = start.wall_clock();
        let Self { settings, own_sockets, shards, monitor, feeds, extras, frames, reader, reading } = self;
        let lost_before = veth::lost();
        let inputs = Inputs { feeds, frames: frames?, own_sockets, extras };
        let (workers, drain_error) = play(&settings, shards, &monitor, start, inputs, drain)?;
        let trace_queries = workers.iter().map(|worker| worker.taken).sum();
        let lost = workers.iter().map(|worker| worker.link_lost).max().unwrap_or_default();
        let link_losses = lost.saturating_sub(lost_before);
        let ended =
            Ended { trace_queries, of_other_shards: 0, started, workers, link_losses, feed_error: None, drain_error };
        if !has_ended(&reading, &monitor) {
            return Ok((ended, None));
        }
        let read = reader.join().map_err(|_| ReplayError::Panic)?;
        Ok((Ended { of_other_shards: read.of_other_shards, feed_error: read.error, ..ended }, Some(read.feed)))
    }
}

/// Replays `feed` on this host alone, as soon as possible: [`prepare`] and [`Ready::run`].
///
/// # Errors
/// A worker failed. Errors of single queries are rows.
pub fn run<F: Feed + 'static>(
    settings: &Settings,
    feed: F,
    drain: &mut dyn Drain,
    monitor: &Arc<Monitor>,
) -> Result<(Ended, Option<F>), ReplayError> {
    let ready = prepare(settings.clone(), Shards::all(settings.workers), feed, monitor);
    ready.run(RunStart::soon(), drain)
}

/// What the workers of a run are given.
struct Inputs {
    feeds: Vec<Receiver<Vec<Query>>>,
    frames: Vec<Frames>,
    own_sockets: u32,
    extras: Extras,
}

/// Runs the workers, and records their rows on this thread. Returns their final states, and the error that ended recording.
fn play(
    settings: &Settings,
    shards: Shards,
    monitor: &Monitor,
    start: RunStart,
    inputs: Inputs,
    drain: &mut dyn Drain,
) -> Result<(Vec<WorkerEnd>, Option<LinkError>), ReplayError> {
    let Inputs { feeds, frames, own_sockets, extras } = inputs;
    let mut frames = frames.into_iter();
    let (row_sender, row_receiver) = bounded(ROWS_WAITING);
    let (spare_sender, spare_receiver) = bounded(ROWS_WAITING);
    thread::scope(|scope| {
        let workers: Vec<_> = feeds
            .into_iter()
            .enumerate()
            .map(|(number, feed)| {
                let (rows, spare, frames) = (row_sender.clone(), spare_receiver.clone(), frames.next());
                let links = Links { feed, rows, spare, frames, own_sockets, extras: extras.clone() };
                scope.spawn(move || work(number, shards, start, settings, monitor, links))
            })
            .collect();
        drop((row_sender, extras));
        let drain_error = record(&row_receiver, &spare_sender, drain, monitor, start.monotonic_ns).err();
        let workers = workers.into_iter().enumerate().map(|(number, worker)| join_worker(number, worker));
        Ok((workers.collect::<Result<Vec<_>, _>>()?, drain_error))
    })
}

/// Maximum number of clients' own sockets in a worker, by the limit of descriptors and by the UDP ports that are free. A sixteenth of these stays
/// free: the kernel takes milliseconds to find one of the last.
fn own_sockets(settings: &Settings) -> u32 {
    let free = if settings.sources == Sources::Ports { ports::free_udp() } else { None };
    let share = free.map_or(u32::MAX, |free| (free - free / 16) / settings.workers.max(1) as u32);
    settings.max_sockets.min(share.max(1))
}

/// Waits for the first batch, and then briefly for more: a live trace may have no more yet. A closed channel means
/// that the prefill is complete.
fn wait_for_prefill(filled: &Receiver<()>, monitor: &Monitor) {
    loop {
        match filled.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) if !monitor.is_stopped() => {}
            Err(_) => return,
            Ok(()) => break,
        }
    }
    // The run can start with or without more.
    let _ = filled.recv_timeout(PREFILL_AT_MOST);
}

/// Waits for the reader to end; after an interrupt only briefly, since it may block on input.
fn has_ended(reading: &Receiver<()>, monitor: &Monitor) -> bool {
    if monitor.is_stopped() {
        return reading.recv_timeout(READER_GRACE) == Err(RecvTimeoutError::Disconnected);
    }
    // Nothing is ever sent: this returns when the reader has ended.
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
    // Without a socket for each client, the limit of all threads is enough; and frames come with descriptors of another thread.
    if links.frames.is_none() {
        limits::own_descriptors()?;
    }
    if let Some(&core) = settings.cores.get(number) {
        pin::pin_to(core)?;
    }
    // A slack of one nanosecond instead of 50 µs makes every wake-up that much earlier; without it the run is only less precise.
    let _ = pin::set_timer_slack(1);
    let gauge = &monitor.workers[number];
    gauge.begin();
    let worker = Worker::new(number, shards, start.monotonic_ns, settings, monitor, links);
    let ended = worker.and_then(Worker::run);
    gauge.end();
    if ended.is_err() {
        monitor.stop();
    }
    ended
}

/// Passes rows to the drain until all workers are done. After an error, rows are discarded.
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
            // If the store of spares is full, the workers have enough of them.
            let _ = spare.try_send(batch);
        }
    }
}
