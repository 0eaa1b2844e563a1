//! An agent's queries, for threads that know nothing of NATS.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use ldplayer_core::Query;
use ldplayer_core::wire::WireError;
use ldplayer_replay::{Feed, LinkError};

use crate::bus::Bus;
use crate::error::ClusterError;
use crate::reached::Reached;
use crate::receive::{Ahead, Read, Reading};
use crate::stream::ShardStream;

/// How often a blocked reader checks whether the run was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Batches queued for the reader of an agent's replay, up to 128 KiB each: ten seconds of 150,000 queries/s.
const READ: usize = 1_024;

/// The queries of a shard from its stream, as a feed of the engine.
pub struct ShardFeed {
    batches: Receiver<Read>,
    ahead: Arc<Ahead>,
    reached: Arc<Reached>,
    from_ns: Option<i64>,
    /// The classes of clients that the run has.
    classes: usize,
}

impl ShardFeed {
    /// Begins to read a shard, at most this many nanoseconds of run time ahead once its start is known.
    pub fn open(bus: &Bus, run: u64, shard: u32, ahead_ns: i64) -> Self {
        Self::begin(bus, ShardStream { run, shard }, ahead_ns, None)
    }

    /// Begins to read the rest of a lost agent's shard; queries due before `from_ns` of run time are skipped.
    pub fn take_over(bus: &Bus, run: u64, shard: u32, ahead_ns: i64, from_ns: i64) -> Self {
        Self::begin(bus, ShardStream { run, shard }, ahead_ns, Some(from_ns))
    }

    fn begin(bus: &Bus, stream: ShardStream, most_ns: i64, taken_over_ns: Option<i64>) -> Self {
        let (to, batches) = bounded(READ);
        let ahead = Arc::new(Ahead { start_ns: AtomicI64::new(0), most_ns, from_ns: taken_over_ns.unwrap_or(0) });
        let (context, sender) = (bus.context().clone(), to.clone());
        let reached = Arc::<Reached>::default();
        let (ahead_of, reached_by) = (Arc::clone(&ahead), Arc::clone(&reached));
        let takes_over = taken_over_ns.is_some();
        let reading = Reading { context, stream, takes_over, ahead: ahead_of, reached: reached_by, to };
        bus.spawn(async move {
            if let Err(error) = reading.read().await {
                // If the reader is gone, the error does not matter.
                let _ = tokio::task::spawn_blocking(move || sender.send(Err(error))).await;
            }
        });
        Self { batches, ahead, reached, from_ns: taken_over_ns, classes: usize::MAX }
    }

    /// Refuses queries of classes that the run has not, which has this many.
    #[must_use]
    pub fn of_classes(self, classes: usize) -> Self {
        Self { classes, ..self }
    }

    /// The progress.
    pub fn reached(&self) -> Arc<Reached> {
        Arc::clone(&self.reached)
    }

    /// Where to set the start of the run.
    pub fn ahead(&self) -> Arc<Ahead> {
        Arc::clone(&self.ahead)
    }
}

impl Feed for ShardFeed {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        while !self.reached.given_up.load(Ordering::Relaxed) {
            match self.batches.recv_timeout(LOOK_EVERY) {
                Ok(queries) => {
                    let mut queries = queries?;
                    if queries.iter().any(|query| query.class.is_some_and(|class| usize::from(class) >= self.classes)) {
                        return Err(Box::new(ClusterError::Batch(WireError::Value("class"))));
                    }
                    self.reached.skip(&mut queries, self.from_ns);
                    if !queries.is_empty() {
                        batch.append(&mut queries);
                        return Ok(true);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        Err(Box::new(ClusterError::GivenUp))
    }
}

/// The queries of a shard from the trace itself, which the host reads in full, skipping those of other shards.
pub struct OwnFeed {
    whole: Box<dyn Feed>,
    shard: usize,
    shards: usize,
    reached: Arc<Reached>,
    from_ns: Option<i64>,
    /// The queries read, few of which may be ours.
    read: Vec<Query>,
}

impl OwnFeed {
    /// A shard's part of the trace, from a moment of run time on.
    pub fn new(whole: Box<dyn Feed>, (shard, shards): (usize, usize), from_ns: Option<i64>) -> Self {
        let reached = Arc::<Reached>::default();
        reached.note_all();
        Self { whole, shard, shards, reached, from_ns, read: Vec::new() }
    }

    /// The progress.
    pub fn reached(&self) -> Arc<Reached> {
        Arc::clone(&self.reached)
    }
}

impl Feed for OwnFeed {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        while !self.reached.given_up.load(Ordering::Relaxed) {
            let more = self.whole.next(&mut self.read)?;
            self.read.retain(|query| ldplayer_core::shard::shard(query.client, self.shards) == self.shard);
            self.reached.skip(&mut self.read, self.from_ns);
            if !self.read.is_empty() || !more {
                batch.append(&mut self.read);
                return Ok(more);
            }
        }
        Err(Box::new(ClusterError::GivenUp))
    }
}

#[cfg(test)]
mod tests {
    use ldplayer_core::{Expected, RunTime, Transport};

    use super::*;

    fn query(index: u64) -> Query {
        Query {
            index,
            due: RunTime(index as i64),
            client: std::net::Ipv4Addr::from_bits(index as u32 % 7).into(),
            client_port: 1_024,
            server: "192.0.2.1:53".parse().unwrap(),
            transport: Transport::Udp,
            class: None,
            expected: Expected::Nothing,
            dependency: None,
            wire: vec![7; 12].into(),
        }
    }

    /// A trace of a hundred queries, seven at a time.
    struct Trace(u64);

    impl Feed for Trace {
        fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
            let from = self.0;
            self.0 = (from + 7).min(100);
            batch.extend((from..self.0).map(query));
            Ok(self.0 < 100)
        }
    }

    fn all(mut feed: impl Feed) -> Vec<Query> {
        let mut all = Vec::new();
        while feed.next(&mut all).unwrap() {}
        all
    }

    #[test]
    fn shares_of_hosts_that_have_the_trace_are_all_of_it_once() {
        let shares: Vec<Vec<Query>> =
            (0..3).map(|shard| all(OwnFeed::new(Box::new(Trace(0)), (shard, 3), None))).collect();
        assert!(shares.iter().all(|share| share.is_sorted_by_key(|query| query.index)));
        let mut together: Vec<Query> = shares.into_iter().flatten().collect();
        together.sort_by_key(|query| query.index);
        assert_eq!(together, all(Trace(0)));
    }

    #[test]
    fn who_takes_over_leaves_out_and_counts_what_was_due_before() {
        let feed = OwnFeed::new(Box::new(Trace(0)), (0, 1), Some(60));
        let reached = feed.reached();
        let played = all(feed);
        assert_eq!((played.len(), played[0].index, reached.skipped(), reached.to_ns()), (40, 60, 60, None));
    }
}
