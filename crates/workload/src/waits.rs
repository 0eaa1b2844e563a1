//! Plans queries that wait for answers: links each to the query that it follows, and sorts all by their earliest due times.
//!
//! The answer in the replay decides when such a query is due. A server that answers at once makes it due earliest: earlier than recorded by the time
//! that the recorded answers took. The planner therefore keeps the queries of some seconds, at most [`MOST`], before it passes them on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use hashbrown::HashMap;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Dependency, Follows, Query, RunTime, Transaction};
use ldplayer_trace::{Dependencies, DependencyCounts, Followed, Links};

use crate::timing::Timing;

/// The same in nanoseconds of the trace. A query whose chain took longer so far does not wait.
const AHEAD: i64 = 10 * NS_PER_S;
/// Queries that are kept at most.
const MOST: usize = 1 << 18;

/// Queries until it is known whether others wait for them.
#[derive(Debug)]
pub struct Waits {
    links: Links,
    /// Nanoseconds of the trace in one of the run.
    speed: f64,
    kept: HashMap<u64, Pending>,
    /// Numbers of the kept queries by when they are due at the earliest.
    order: BinaryHeap<Reverse<(RunTime, u64)>>,
    /// Queries that were kept since the first, which numbers them.
    pushed: u64,
    /// Numbers of the kept queries by row of the trace and client.
    by_row: HashMap<(u64, IpAddr), u64>,
    /// When the last query is due by the schedule.
    read: RunTime,
    counts: DependencyCounts,
}

#[derive(Debug)]
struct Pending {
    query: Query,
    dependency: Dependency,
}

impl Waits {
    /// No queries yet; `None` where none waits.
    pub fn new(dependencies: Dependencies, timing: Timing) -> Option<Self> {
        let Timing::Scaled(speed) = timing else { return None };
        (dependencies != Dependencies::None).then(|| Self {
            links: Links::new(dependencies),
            speed,
            kept: HashMap::new(),
            order: BinaryHeap::new(),
            pushed: 0,
            by_row: HashMap::new(),
            read: RunTime(0),
            counts: DependencyCounts::default(),
        })
    }

    /// What a transaction follows from, which must still have its query.
    pub fn see(&mut self, transaction: &Transaction) -> Option<Followed> {
        self.links.see(transaction, transaction.index)
    }

    /// Keeps a query that follows from another one, or from none.
    pub fn push(&mut self, mut query: Query, followed: Option<Followed>) {
        self.read = query.due;
        let mut dependency = Dependency::default();
        if let Some(followed) = followed
            && let Some((follows, earliest)) = self.follows(&query, &followed)
        {
            self.counts.add(followed.evidence);
            dependency.follows = Some(follows);
            query.due = earliest;
            for row in followed.also {
                // Behind what it waits for, or that would not be known yet.
                let Some(other) = self.awaited(&query, row) else { continue };
                query.due = query.due.max(other);
                dependency.also.push(row);
            }
        }
        self.pushed += 1;
        self.order.push(Reverse((query.due, self.pushed)));
        self.by_row.insert((query.index, query.client), self.pushed);
        self.kept.insert(self.pushed, Pending { query, dependency });
    }

    /// What a query waits for, and when it is due at the earliest, if what it follows from is kept.
    fn follows(&mut self, query: &Query, followed: &Followed) -> Option<(Follows, RunTime)> {
        let before = self.awaited(query, followed.row)?;
        let think = (followed.think as f64 / self.speed) as i64;
        Some((Follows { index: followed.row, think, scheduled: query.due }, before + think))
    }

    /// When the query of an earlier row is due at the earliest, for whose answer another one waits; `None` if it is not kept.
    fn awaited(&mut self, query: &Query, row: u64) -> Option<RunTime> {
        let number = self.by_row.get(&(row, query.client))?;
        let ahead = self.ahead();
        let before = self.kept.get_mut(number).filter(|before| self.read - before.query.due <= ahead)?;
        before.dependency.followers += 1;
        Some(before.query.due)
    }

    /// Gives up queries for whose answer no other one can wait any more; all of them at the end.
    pub fn pop_into(&mut self, batch: &mut Vec<Query>, is_end: bool) {
        let ahead = self.ahead();
        while let Some(&Reverse((due, number))) = self.order.peek() {
            if !is_end && self.read - due <= ahead && self.kept.len() <= MOST {
                return;
            }
            self.order.pop();
            let Some(Pending { mut query, dependency }) = self.kept.remove(&number) else { continue };
            let row = (query.index, query.client);
            if self.by_row.get(&row) == Some(&number) {
                self.by_row.remove(&row);
            }
            query.dependency = (dependency != Dependency::default()).then(|| Box::new(dependency));
            batch.push(query);
        }
    }

    /// How much further than its earliest due time a query is kept, in nanoseconds of the run.
    fn ahead(&self) -> i64 {
        (AHEAD as f64 / self.speed) as i64
    }

    /// Queries that wait so far.
    pub const fn counts(&self) -> &DependencyCounts {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::{TraceTime, Transport};
    use ldplayer_trace::Evidence;
    use proptest::prelude::*;

    use crate::{PlanOptions, Planner};

    const MS: i64 = 1_000_000;

    /// A query of a client at a time in milliseconds.
    fn query(index: u64, at_ms: i64) -> Query {
        let mut transaction = Transaction {
            index,
            time: TraceTime(0),
            client: "192.0.2.1:1024".parse().unwrap(),
            server: "192.0.2.2:53".parse().unwrap(),
            transport: Transport::Udp,
            stream: None,
            query: Some(b"query".as_slice().into()),
            response: None,
            response_delay: None,
            retry_of: None,
        };
        let query = Planner::new(PlanOptions::default(), 1).plan(&mut transaction).unwrap();
        Query { due: RunTime(at_ms * MS), ..query }
    }

    fn followed(row: u64, think_ms: i64) -> Option<Followed> {
        Some(Followed { row, also: Vec::new(), think: think_ms * MS, evidence: Evidence::Target })
    }

    /// Row, earliest due time in milliseconds, row that it follows, and number of followers of each query.
    fn planned(speed: f64, all: &[(u64, i64, Option<Followed>)]) -> Vec<(u64, i64, Option<u64>, u32)> {
        let mut waits = Waits::new(Dependencies::Chain, Timing::Scaled(speed)).unwrap();
        let mut batch = Vec::new();
        for (index, at_ms, followed) in all {
            waits.push(query(*index, *at_ms), followed.clone());
            waits.pop_into(&mut batch, false);
        }
        waits.pop_into(&mut batch, true);
        let of = |query: &Query| {
            let Dependency { follows, followers, .. } = query.dependency.as_deref().cloned().unwrap_or_default();
            (query.index, query.due.0 / MS, follows.map(|follows| follows.index), followers)
        };
        batch.iter().map(of).collect()
    }

    #[test]
    fn a_query_is_due_at_the_earliest_as_if_answers_came_at_once() {
        // 1 follows from the answer to 0, which took 100 ms, and 3 from that to 1.
        let all = [(0, 0, None), (1, 105, followed(0, 5)), (2, 107, None), (3, 210, followed(1, 4))];
        assert_eq!(planned(1.0, &all), [(0, 0, None, 1), (1, 5, Some(0), 1), (3, 9, Some(1), 0), (2, 107, None, 0)]);
        assert_eq!(planned(2.0, &all)[1], (1, 2, Some(0), 1), "twice as fast, it thinks half as long");
    }

    #[test]
    fn what_took_too_long_in_the_recording_does_not_wait() {
        let late = [(0, 0, None), (1, 9_000, None), (2, 10_500, followed(0, 5)), (3, 10_600, followed(1, 9))];
        assert_eq!(planned(1.0, &late)[..2], [(0, 0, None, 0), (1, 9_000, None, 1)]);
        assert_eq!(planned(1.0, &late)[3], (2, 10_500, None, 0));
    }

    #[test]
    fn a_query_comes_behind_all_that_it_waits_for() {
        let mut waits = Waits::new(Dependencies::Client, Timing::Scaled(1.0)).unwrap();
        // 1 has its answer first, and 2 waits for both: 1 comes late to the worker, since it follows what took long.
        for (index, at_ms, followed) in [
            (0, 0, None),
            (1, 500, followed(0, 400)),
            (2, 900, Some(Followed { also: vec![1, 77], ..followed(0, 1).unwrap() })),
        ] {
            waits.push(query(index, at_ms), followed);
        }
        let mut batch = Vec::new();
        waits.pop_into(&mut batch, true);
        let due: Vec<(u64, i64)> = batch.iter().map(|query| (query.index, query.due.0 / MS)).collect();
        assert_eq!(due, [(0, 0), (1, 400), (2, 400)]);
        let dependency = |at: usize| batch[at].dependency.clone().unwrap();
        assert_eq!((dependency(0).followers, dependency(1).followers), (2, 1));
        assert_eq!(dependency(2).also, [1], "what is not kept any more is not waited for");
    }

    proptest! {
        /// Queries come in the order of their earliest due times, each once, and each behind what it follows.
        #[test]
        fn queries_come_in_order_and_each_once(
            gaps in prop::collection::vec((0..4_000_i64, prop::option::of((0..6_u64, 0..900_i64))), 1..80)
        ) {
            let mut at = 0;
            let all: Vec<(u64, i64, Option<Followed>)> = (0..).zip(gaps).map(|(index, (gap, follows))| {
                at += gap;
                let of = follows.filter(|(back, _)| *back < index).map(|(back, think)| (index - 1 - back, think.min(at)));
                (index, at, of.and_then(|(row, think)| followed(row, think)))
            }).collect();
            let found = planned(1.0, &all);
            prop_assert!(found.is_sorted_by_key(|(_, due, ..)| *due));
            let mut rows: Vec<u64> = found.iter().map(|(row, ..)| *row).collect();
            for (place, (_, _, follows, _)) in found.iter().enumerate() {
                prop_assert!(follows.is_none_or(|row| rows[..place].contains(&row)));
            }
            let waiting = found.iter().filter(|(_, _, follows, _)| follows.is_some()).count();
            prop_assert_eq!(found.iter().map(|(.., followers)| *followers as usize).sum::<usize>(), waiting);
            rows.sort_unstable();
            prop_assert_eq!(rows, (0..all.len() as u64).collect::<Vec<_>>());
        }
    }
}
