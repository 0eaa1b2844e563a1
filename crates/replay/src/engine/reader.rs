//! The reader: reads the feed ahead and gives each worker the queries of its clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use ldplayer_core::Query;
use ldplayer_core::shard::Shards;

use super::{Feed, LinkError, PREFILL};
use crate::monitor::Monitor;

/// A feed and the workers of this host that it is for.
pub struct Reader<F> {
    pub feed: F,
    pub feeders: Vec<Sender<Vec<Query>>>,
    pub shards: Shards,
    pub monitor: Arc<Monitor>,
}

/// What a reader leaves behind.
#[derive(Debug)]
pub struct Read<F> {
    /// The feed, read to its end or to the end of the run.
    pub feed: F,
    /// Queries of shards that other hosts play.
    pub of_other_shards: u64,
    /// What ended the reading early.
    pub error: Option<LinkError>,
}

impl<F: Feed> Reader<F> {
    /// Reads the feed to its end, or until the run is asked to end or a worker is gone. Sends on `filled` after the first
    /// batch, and closes it when there is enough to start with.
    pub fn run(mut self, filled: Sender<()>) -> Read<F> {
        let (mut batch, mut total, mut of_other_shards, mut error) = (Vec::new(), 0, 0, None);
        let mut filled = Some(filled);
        for round in 1.. {
            let more = self.feed.next(&mut batch).unwrap_or_else(|why| {
                error = Some(why);
                false
            });
            total += batch.len() as u64;
            self.monitor.read.store(total, Ordering::Relaxed);
            let dealt = self.deal(&mut batch);
            of_other_shards += dealt.unwrap_or(0);
            match (&filled, round) {
                (Some(first), 1) => drop(first.try_send(())),
                (_, PREFILL) => filled = None,
                _ => {}
            }
            if !more || dealt.is_none() || self.monitor.is_stopped() {
                break;
            }
        }
        Read { feed: self.feed, of_other_shards, error }
    }

    /// Deals a batch out and returns how many queries are of other hosts' shards; `None` when a worker is gone.
    fn deal(&self, batch: &mut Vec<Query>) -> Option<u64> {
        if let ([only], true) = (self.feeders.as_slice(), self.shards.is_whole(1)) {
            let is_open = batch.is_empty() || only.send(std::mem::take(batch)).is_ok();
            return is_open.then_some(0);
        }
        let mut shares: Vec<Vec<Query>> = self.feeders.iter().map(|_| Vec::new()).collect();
        let mut of_others = 0;
        for query in batch.drain(..) {
            match self.shards.worker(query.client, shares.len()) {
                Some(worker) => shares[worker].push(query),
                None => of_others += 1,
            }
        }
        let mut dealt = self.feeders.iter().zip(shares).filter(|(_, share)| !share.is_empty());
        dealt.all(|(feeder, share)| feeder.send(share).is_ok()).then_some(of_others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::query;
    use crossbeam_channel::bounded;
    use ldplayer_core::shard::shard;

    struct Once(Vec<Query>);

    impl Feed for Once {
        fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
            batch.append(&mut self.0);
            Ok(false)
        }
    }

    fn trace() -> Vec<Query> {
        let of = |number: u64| Query { client: [10, 0, (number >> 8) as u8, number as u8].into(), ..query(number, 0) };
        (0..1_000).map(of).collect()
    }

    /// The queries that each worker of a host gets.
    fn read(first: usize, workers: usize, total: usize) -> (Vec<Vec<Query>>, u64) {
        let (feeders, feeds): (Vec<_>, Vec<_>) = (0..workers).map(|_| bounded(4)).unzip();
        let reader = Reader { feed: Once(trace()), feeders, shards: Shards { first, total }, monitor: Monitor::new(1) };
        let read = reader.run(bounded(2).0);
        (feeds.into_iter().map(|feed| feed.iter().flatten().collect()).collect(), read.of_other_shards)
    }

    #[test]
    fn hosts_that_read_the_same_trace_play_each_query_once() {
        let hosts = [read(0, 2, 6), read(2, 3, 6), read(5, 1, 6)];
        let mut indices = Vec::new();
        for (at, worker) in hosts.iter().flat_map(|(workers, _)| workers).enumerate() {
            assert!(worker.iter().all(|query| shard(query.client, 6) == at));
            indices.extend(worker.iter().map(|query| query.index));
        }
        indices.sort_unstable();
        assert_eq!(indices, (0..1_000).collect::<Vec<u64>>());
        assert_eq!(hosts.map(|(_, others)| others).iter().sum::<u64>(), 2_000);
    }
}
