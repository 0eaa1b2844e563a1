//! The threads of a replay: a reader feeds the workers, the workers feed the recorder.
//!
//! The reader is ahead of the workers by a bounded number of batches; rows wait for the recorder in a bounded number
//! of batches. Either bound reached is told at the end, since both can make queries late.

use std::error::Error;
use std::io;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use ldplayer_core::shard::shard;
use ldplayer_core::{Outcome, Query, TraceTime};
use ldplayer_net::{clock, limits, pin};

use crate::monitor::Monitor;
use crate::settings::Settings;
use crate::worker::{Links, Worker, WorkerEnd};

/// Batches of queries that wait for one worker at most.
const AHEAD: usize = 64;
/// Batches read before the run starts, so that the first queries are on time.
const PREFILL: usize = 16;
/// How long the prefill may take after the first batch.
const PREFILL_AT_MOST: Duration = Duration::from_millis(500);
/// Batches of rows that wait for the recorder at most.
const ROWS_WAITING: usize = 256;
/// From the end of the prefill to run time 0, in nanoseconds: time for the workers to start.
const LEAD: i64 = 20_000_000;

/// An error of a feed or a drain, as its own crate words it.
pub type LinkError = Box<dyn Error + Send + Sync>;

/// Where the queries come from.
pub trait Feed: Send {
    /// Appends the next queries, in the order of their due times; `false` at the end.
    ///
    /// # Errors
    /// What makes further reading impossible; what was yielded is replayed all the same.
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError>;
}

/// Where the rows go.
pub trait Drain {
    /// Takes finished rows of one worker.
    ///
    /// # Errors
    /// What makes further recording impossible; it ends the run.
    fn outcomes(&mut self, worker: usize, rows: &[Outcome]) -> Result<(), LinkError>;
}

/// How a replay ended.
#[derive(Debug)]
pub struct Ended {
    /// Queries read from the trace.
    pub trace_queries: u64,
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

/// Replays what `feed` yields and gives every row to `drain`. Returns when every query has its outcome.
///
/// # Errors
/// What kept a worker from its work. Errors of single queries are rows.
pub fn run(
    settings: &Settings,
    feed: &mut dyn Feed,
    drain: &mut dyn Drain,
    monitor: &Monitor,
) -> Result<Ended, ReplayError> {
    let (row_sender, row_receiver) = bounded(ROWS_WAITING);
    let (spare_sender, spare_receiver) = bounded(ROWS_WAITING);
    let (filled_sender, filled_receiver) = bounded::<()>(2);
    let (feeders, feeds): (Vec<_>, Vec<_>) = (0..settings.workers).map(|_| bounded(AHEAD)).unzip();
    thread::scope(|scope| {
        let reader = scope.spawn(move || read(feed, feeders, filled_sender, monitor));
        wait_for_prefill(&filled_receiver);
        let origin = clock::monotonic_ns() + LEAD;
        let started = TraceTime(origin + clock::realtime_offset_ns());
        let workers: Vec<_> = feeds
            .into_iter()
            .enumerate()
            .map(|(number, feed)| {
                let links = Links { feed, rows: row_sender.clone(), spare: spare_receiver.clone() };
                scope.spawn(move || work(number, origin, settings, monitor, links))
            })
            .collect();
        drop(row_sender);
        let drain_error = record(&row_receiver, &spare_sender, drain, monitor).err();
        let workers = workers.into_iter().enumerate().map(|(number, worker)| join_worker(number, worker));
        let workers = workers.collect::<Result<Vec<_>, _>>();
        let (trace_queries, feed_error) = reader.join().map_err(|_| ReplayError::Panic)?;
        Ok(Ended { trace_queries, started, workers: workers?, feed_error, drain_error })
    })
}

/// Waits for the first batch, and then a moment for more: a live trace may have no more yet. A closed channel means
/// that the prefill is complete.
fn wait_for_prefill(filled: &Receiver<()>) {
    if filled.recv().is_ok() {
        let _ = filled.recv_timeout(PREFILL_AT_MOST);
    }
}

fn join_worker(number: usize, handle: ScopedJoinHandle<'_, io::Result<WorkerEnd>>) -> Result<WorkerEnd, ReplayError> {
    let ended = handle.join().map_err(|_| ReplayError::Panic)?;
    ended.map_err(|source| ReplayError::Worker { worker: number, source })
}

fn work(number: usize, origin: i64, settings: &Settings, monitor: &Monitor, links: Links) -> io::Result<WorkerEnd> {
    limits::own_descriptors()?;
    if let Some(&core) = settings.cores.get(number) {
        pin::pin_to(core)?;
    }
    // One nanosecond instead of the default 50 µs takes as much off every wake-up; without it the run is only less precise.
    let _ = pin::set_timer_slack(1);
    let worker = Worker::new(number, origin, settings, monitor, links);
    let ended = worker.and_then(Worker::run);
    if ended.is_err() {
        monitor.stop();
    }
    ended
}

/// Reads the feed to its end and gives each worker the queries of its clients. Returns how many queries there were.
fn read(
    feed: &mut dyn Feed,
    feeders: Vec<Sender<Vec<Query>>>,
    filled: Sender<()>,
    monitor: &Monitor,
) -> (u64, Option<LinkError>) {
    let (mut batch, mut total, mut error) = (Vec::new(), 0, None);
    let mut filled = Some(filled);
    for round in 1.. {
        let more = feed.next(&mut batch).unwrap_or_else(|why| {
            error = Some(why);
            false
        });
        total += batch.len() as u64;
        monitor.read.store(total, Ordering::Relaxed);
        let open = deal(&mut batch, &feeders);
        match (&filled, round) {
            (Some(first), 1) => drop(first.try_send(())),
            (_, PREFILL) => filled = None,
            _ => {}
        }
        if !more || !open || monitor.is_stopped() {
            break;
        }
    }
    (total, error)
}

/// Deals a batch out; `false` when a worker is gone.
fn deal(batch: &mut Vec<Query>, feeders: &[Sender<Vec<Query>>]) -> bool {
    if let [only] = feeders {
        return batch.is_empty() || only.send(std::mem::take(batch)).is_ok();
    }
    let mut shares: Vec<Vec<Query>> = feeders.iter().map(|_| Vec::new()).collect();
    for query in batch.drain(..) {
        shares[shard(query.client, feeders.len())].push(query);
    }
    let mut dealt = feeders.iter().zip(shares).filter(|(_, share)| !share.is_empty());
    dealt.all(|(feeder, share)| feeder.send(share).is_ok())
}

/// Gives rows to the drain until all workers are done. After an error the rows are only thrown away.
fn record(
    rows: &Receiver<(usize, Vec<Outcome>)>,
    spare: &Sender<Vec<Outcome>>,
    drain: &mut dyn Drain,
    monitor: &Monitor,
) -> Result<(), LinkError> {
    let mut result = Ok(());
    for (worker, mut batch) in rows {
        if result.is_ok() {
            result = drain.outcomes(worker, &batch).inspect_err(|_| monitor.stop());
        }
        batch.clear();
        // A full store of spares only means that the workers have enough of them.
        let _ = spare.try_send(batch);
    }
    result
}
