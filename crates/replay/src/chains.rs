//! Queries that wait for answers to others of their client: when each of them is due.
//!
//! It owns no socket and reads no clock: rows tell it which queries have ended.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::client::ClientModel;
use ldplayer_core::{Follows, Outcome, Policy, Query, Reason, RunTime, Status};

/// Queries that may wait at the same time.
const MOST: usize = 1 << 20;

/// The queries of a worker that wait, and those that they wait for.
pub struct Chains {
    /// Whether clients of each class go on without an answer; one entry where there are no classes.
    goes_on: Vec<bool>,
    /// Queries that others wait for.
    awaited: HashMap<Key, Awaited, FixedState>,
    waiting: usize,
    /// Queries that wait no more, by when they are due.
    released: BinaryHeap<Reverse<Released>>,
    /// What queries on their way have waited for.
    under_way: HashMap<Key, Follows, FixedState>,
    /// Queries that are not to be sent.
    refused: Vec<(Query, Reason)>,
}

/// The row of a query in the trace, and its client: copies of one have other clients.
type Key = (u64, IpAddr);

/// A query that others wait for.
#[derive(Debug, Default)]
struct Awaited {
    /// Of those others, how many have not come yet.
    to_come: u32,
    waiting: Vec<(Follows, Query)>,
    end: Option<End>,
}

/// How and when a query ended.
#[derive(Clone, Copy, Debug)]
struct End {
    at: RunTime,
    has_answer: bool,
}

/// A query that waits no more. Those that are due at the same time go by their rows.
#[derive(Debug)]
struct Released(Query);

impl Released {
    fn order(&self) -> (RunTime, u64, IpAddr) {
        (self.0.due, self.0.index, self.0.client)
    }
}

impl Ord for Released {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Released {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Released {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Released {}

impl Chains {
    /// No queries, of clients with these policies. A client of the model `open` goes on whatever becomes of a query; others give up, and have
    /// nothing to go on with.
    pub fn new(policies: &[Policy]) -> Self {
        Self {
            goes_on: policies.iter().map(|policy| policy.client == ClientModel::Open).collect(),
            awaited: HashMap::default(),
            waiting: 0,
            released: BinaryHeap::new(),
            under_way: HashMap::default(),
            refused: Vec::new(),
        }
    }

    /// Takes a query with its dependency. Returns it if it waits for none.
    pub fn handle_query(&mut self, mut query: Query) -> Option<Query> {
        let Some(dependency) = query.dependency.take() else { return Some(query) };
        if dependency.followers > 0 {
            let to_come = &mut self.awaited.entry(key(&query)).or_default().to_come;
            *to_come = to_come.saturating_add(dependency.followers);
        }
        let Some(follows) = dependency.follows else { return Some(query) };
        let before = (follows.index, query.client);
        let Some(awaited) = self.awaited.get_mut(&before) else {
            // What it follows from never came: it is due by the schedule.
            query.due = follows.scheduled;
            return self.release(query);
        };
        awaited.to_come = awaited.to_come.saturating_sub(1);
        match awaited.end {
            Some(end) => {
                if awaited.to_come == 0 {
                    self.awaited.remove(&before);
                }
                self.go_on(follows, query, end);
            }
            None if self.waiting >= MOST => {
                self.under_way.insert(key(&query), follows);
                self.refused.push((query, Reason::TooManyWaiting));
            }
            None => {
                self.waiting += 1;
                awaited.waiting.push((follows, query));
            }
        }
        None
    }

    /// Whether the end of any query matters.
    pub fn is_watching(&self) -> bool {
        !self.awaited.is_empty() || !self.under_way.is_empty()
    }

    /// Looks at the rows of queries that have ended by `now`, and tells them what they had waited for.
    pub fn handle_rows(&mut self, rows: &mut [Outcome], now: RunTime) {
        for row in rows.iter_mut().filter(|row| row.status.is_query() && row.attempt.is_none()) {
            let key = (row.index, row.client);
            row.follows = self.under_way.remove(&key);
            let end =
                End { at: row.answered.unwrap_or(now), has_answer: row.status == Status::Answered && !row.gave_up };
            self.handle_end(key, end);
        }
    }

    fn handle_end(&mut self, key: Key, end: End) {
        let Some(awaited) = self.awaited.get_mut(&key).filter(|awaited| awaited.end.is_none()) else { return };
        awaited.end = Some(end);
        let waiting = std::mem::take(&mut awaited.waiting);
        if awaited.to_come == 0 {
            self.awaited.remove(&key);
        }
        self.waiting -= waiting.len();
        waiting.into_iter().for_each(|(follows, query)| self.go_on(follows, query, end));
    }

    /// What becomes of a query, now that the one has ended that it follows.
    fn go_on(&mut self, follows: Follows, mut query: Query, end: End) {
        query.due = end.at + follows.think;
        self.under_way.insert(key(&query), follows);
        let class = usize::from(query.class.unwrap_or_default());
        if end.has_answer || self.goes_on.get(class).is_none_or(|goes_on| *goes_on) {
            self.release(query);
        } else {
            self.refused.push((query, Reason::NothingToFollow));
        }
    }

    fn release(&mut self, query: Query) -> Option<Query> {
        self.released.push(Reverse(Released(query)));
        None
    }

    /// When the next query is due of those that wait no more.
    pub fn next_due(&self) -> Option<RunTime> {
        self.released.peek().map(|Reverse(Released(query))| query.due)
    }

    /// That query, if it `is_wanted`.
    pub fn poll_query(&mut self, is_wanted: impl FnOnce(&Query) -> bool) -> Option<Query> {
        self.released.peek().filter(|Reverse(Released(query))| is_wanted(query))?;
        self.released.pop().map(|Reverse(Released(query))| query)
    }

    /// A query that is not to be sent, and why.
    pub fn poll_refused(&mut self) -> Option<(Query, Reason)> {
        self.refused.pop()
    }

    /// Lets no query wait any more, for an interrupted run.
    pub fn handle_interrupt(&mut self) {
        let ends: Vec<Key> =
            self.awaited.iter().filter(|(_, awaited)| awaited.end.is_none()).map(|(key, _)| *key).collect();
        for key in ends {
            let Some(awaited) = self.awaited.get_mut(&key) else { continue };
            for (follows, query) in std::mem::take(&mut awaited.waiting) {
                self.waiting -= 1;
                self.under_way.insert((query.index, query.client), follows);
                self.refused.push((query, Reason::Interrupted));
            }
        }
    }

    /// Whether no query waits or is to be sent.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0 && self.released.is_empty() && self.refused.is_empty()
    }
}

fn key(query: &Query) -> Key {
    (query.index, query.client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test;
    use ldplayer_core::Dependency;
    use proptest::prelude::*;

    fn chains(client: &str) -> Chains {
        Chains::new(&[Policy { client: client.parse().unwrap(), ..Policy::default() }])
    }

    /// A query that follows another one after a think time, and for whose answer so many others wait.
    fn query(index: u64, follows: Option<(u64, i64)>, followers: u32) -> Query {
        let follows = follows.map(|(index, think)| Follows { index, think, scheduled: RunTime(1_000) });
        let dependency = Dependency { follows, followers };
        Query { dependency: Some(Box::new(dependency)), ..test::query(index, 0) }
    }

    fn row(index: u64, status: Status, at: i64) -> Outcome {
        let answered = (status == Status::Answered).then_some(RunTime(at));
        Outcome { status, answered, ..Outcome::unfinished(&test::query(index, 0)) }
    }

    /// The queries that are released, with when they are due.
    fn released(chains: &mut Chains) -> Vec<(u64, i64)> {
        std::iter::from_fn(|| chains.poll_query(|_| true)).map(|query| (query.index, query.due.0)).collect()
    }

    #[test]
    fn a_query_is_due_its_think_time_after_the_answer() {
        let mut chains = chains("open");
        assert!(chains.handle_query(query(0, None, 2)).is_some_and(|query| query.dependency.is_none()));
        assert!(chains.handle_query(query(1, Some((0, 5)), 0)).is_none() && !chains.is_empty());
        assert_eq!(released(&mut chains), []);
        chains.handle_rows(&mut [row(0, Status::Answered, 100)], RunTime(120));
        assert_eq!(chains.next_due(), Some(RunTime(105)));
        assert_eq!(released(&mut chains), [(1, 105)]);
        // One that comes from the feed after the answer.
        assert!(chains.handle_query(query(2, Some((0, 7)), 0)).is_none());
        assert_eq!(released(&mut chains), [(2, 107)]);
        let mut rows = [row(2, Status::Answered, 200), row(9, Status::Answered, 201)];
        chains.handle_rows(&mut rows, RunTime(210));
        assert_eq!(rows.map(|row| row.follows.map(|follows| follows.index)), [Some(0), None]);
        assert!(chains.is_empty() && chains.awaited.is_empty());
    }

    #[test]
    fn late_answers_and_attempts_are_no_ends() {
        let mut chains = chains("open");
        chains.handle_query(query(0, None, 1));
        chains.handle_query(query(1, Some((0, 5)), 0));
        let attempt = Outcome { attempt: Some(0), ..row(0, Status::Answered, 10) };
        chains.handle_rows(&mut [row(0, Status::Late, 10), row(0, Status::Stray, 10), attempt], RunTime(20));
        assert_eq!(released(&mut chains), []);
        chains.handle_rows(&mut [row(0, Status::Timeout, 0)], RunTime(30));
        assert_eq!(released(&mut chains), [(1, 35)], "of what has no answer, its end counts");
    }

    #[test]
    fn a_client_that_gives_up_has_nothing_to_follow() {
        let mut chains = chains("glibc");
        chains.handle_query(query(0, None, 1));
        chains.handle_query(query(1, Some((0, 5)), 1));
        chains.handle_query(query(2, Some((1, 5)), 0));
        let failed = Outcome { gave_up: true, ..row(0, Status::Answered, 10) };
        chains.handle_rows(&mut [failed], RunTime(20));
        let refused = chains.poll_refused().map(|(query, reason)| (query.index, query.due.0, reason));
        assert_eq!(refused, Some((1, 15, Reason::NothingToFollow)));
        let mut rows = [row(1, Status::NotSent, 0)];
        chains.handle_rows(&mut rows, RunTime(20));
        assert_eq!(rows[0].follows.map(|follows| follows.index), Some(0));
        assert_eq!(chains.poll_refused().map(|(query, _)| query.index), Some(2), "nor have those behind it");
    }

    #[test]
    fn an_interrupt_ends_all_waiting() {
        let mut chains = chains("open");
        chains.handle_query(query(0, None, 1));
        chains.handle_query(query(1, Some((0, 5)), 0));
        chains.handle_interrupt();
        assert_eq!(chains.poll_refused().map(|(query, reason)| (query.index, reason)), Some((1, Reason::Interrupted)));
        assert!(chains.is_empty());
    }

    #[test]
    fn what_follows_a_query_that_never_came_is_due_by_the_schedule() {
        let mut chains = chains("open");
        assert!(chains.handle_query(query(1, Some((0, 5)), 0)).is_none());
        assert_eq!(released(&mut chains), [(1, 1_000)]);
    }

    proptest! {
        /// Whenever queries end, each is sent or refused once, and none before what it follows has ended.
        #[test]
        fn each_query_is_sent_or_refused_once(
            follows in prop::collection::vec(prop::option::of((0..8_usize, 0..50_i64)), 1..60),
            fates in prop::collection::vec((0..40_i64, any::<bool>()), 60),
            is_stub in any::<bool>(),
        ) {
            let of = |number: usize| follows[number].filter(|(back, _)| *back < number).map(|(back, think)| (number - 1 - back, think));
            let mut chains = chains(if is_stub { "glibc" } else { "open" });
            let mut ends = vec![None; follows.len()];
            let mut under_way: Vec<(i64, usize)> = Vec::new();
            let mut fed = 0;
            for now in 0..10_000 {
                if fed < follows.len() && now % 3 == 0 {
                    let followers = (0..follows.len()).filter(|other| of(*other).is_some_and(|(of, _)| of == fed)).count();
                    let next = query(fed as u64, of(fed).map(|(of, think)| (of as u64, think)), followers as u32);
                    under_way.extend(chains.handle_query(next).map(|_| (now + fates[fed].0, fed)));
                    fed += 1;
                }
                while let Some(query) = chains.poll_query(|query| query.due.0 <= now) {
                    let number = query.index as usize;
                    let (before, think) = of(number).unwrap();
                    prop_assert_eq!(query.due.0, ends[before].unwrap() + think);
                    under_way.push((now + fates[number].0, number));
                }
                let mut rows = Vec::new();
                while let Some((query, _)) = chains.poll_refused() {
                    rows.push(row(query.index, Status::NotSent, now));
                }
                under_way.retain(|(end, number)| {
                    let status = if fates[*number].1 { Status::Answered } else { Status::Timeout };
                    if *end <= now {
                        rows.push(row(*number as u64, status, now));
                    }
                    *end > now
                });
                for row in &rows {
                    prop_assert!(ends[row.index as usize].replace(now).is_none(), "ended twice");
                }
                chains.handle_rows(&mut rows, RunTime(now));
            }
            prop_assert!(chains.is_empty() && chains.awaited.is_empty() && chains.under_way.is_empty());
            prop_assert!(ends.iter().all(Option::is_some));
        }
    }
}
