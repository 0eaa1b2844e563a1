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
    /// Queries that wait, numbered by arrival.
    waiting: HashMap<u64, Waiting, FixedState>,
    /// Queries that came and wait for others, or did.
    taken: u64,
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
    /// The numbers of those that have come.
    waiting: Vec<u64>,
    end: Option<End>,
}

/// A query until all have ended that it waits for.
#[derive(Debug)]
struct Waiting {
    query: Query,
    follows: Follows,
    /// What it follows from was there; otherwise it is due by the schedule.
    is_known: bool,
    has_answer: bool,
    /// Queries that have not ended.
    left: usize,
    /// When the last of the others ended.
    latest: RunTime,
}

impl Waiting {
    /// Hears that a query of this row has ended.
    fn hear(&mut self, row: u64, end: End) {
        self.latest = self.latest.max(end.at);
        if row == self.follows.index {
            self.has_answer = end.has_answer;
        }
    }
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
            waiting: HashMap::default(),
            taken: 0,
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
        let latest = RunTime(i64::MIN);
        let mut waiting = Waiting { query, follows, is_known: false, has_answer: false, left: 0, latest };
        self.taken += 1;
        for row in std::iter::once(follows.index).chain(dependency.also) {
            self.wait_for(row, &mut waiting);
        }
        if waiting.left == 0 {
            self.go_on(waiting);
        } else if self.waiting.len() >= MOST {
            self.under_way.insert(key(&waiting.query), follows);
            self.refused.push((waiting.query, Reason::TooManyWaiting));
        } else {
            self.waiting.insert(self.taken, waiting);
        }
        None
    }

    /// Has the query that came last wait for one of its client, unless that never came, or has ended.
    fn wait_for(&mut self, row: u64, waiting: &mut Waiting) {
        let before = (row, waiting.query.client);
        let Some(awaited) = self.awaited.get_mut(&before) else { return };
        waiting.is_known |= row == waiting.follows.index;
        awaited.to_come = awaited.to_come.saturating_sub(1);
        match awaited.end {
            None => {
                waiting.left += 1;
                awaited.waiting.push(self.taken);
            }
            Some(end) => {
                waiting.hear(row, end);
                if awaited.to_come == 0 {
                    self.awaited.remove(&before);
                }
            }
        }
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
        let numbers = std::mem::take(&mut awaited.waiting);
        if awaited.to_come == 0 {
            self.awaited.remove(&key);
        }
        for number in numbers {
            let Some(waiting) = self.waiting.get_mut(&number) else { continue };
            waiting.hear(key.0, end);
            waiting.left -= 1;
            if waiting.left == 0 {
                self.waiting.remove(&number).into_iter().for_each(|waiting| self.go_on(waiting));
            }
        }
    }

    /// What becomes of a query, now that all have ended that it waited for.
    fn go_on(&mut self, waiting: Waiting) {
        let Waiting { mut query, follows, is_known, has_answer, latest, .. } = waiting;
        if !is_known {
            query.due = follows.scheduled.max(latest);
            return self.released.push(Reverse(Released(query)));
        }
        query.due = latest + follows.think;
        self.under_way.insert(key(&query), follows);
        let class = usize::from(query.class.unwrap_or_default());
        if has_answer || self.goes_on.get(class).is_none_or(|goes_on| *goes_on) {
            self.released.push(Reverse(Released(query)));
        } else {
            self.refused.push((query, Reason::NothingToFollow));
        }
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
        for (_, Waiting { query, follows, is_known, .. }) in self.waiting.drain() {
            if is_known {
                self.under_way.insert(key(&query), follows);
            }
            self.refused.push((query, Reason::Interrupted));
        }
    }

    /// Whether no query waits or is to be sent.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.released.is_empty() && self.refused.is_empty()
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
        let dependency = Dependency { follows, also: Vec::new(), followers };
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

    #[test]
    fn a_query_waits_for_every_answer_that_its_client_had() {
        let both = |index: u64| {
            let mut query = query(index, Some((1, 5)), 0);
            query.dependency.as_mut().unwrap().also.extend([0, 77]);
            query
        };
        for (first, due) in [(0, 205), (1, 205)] {
            let mut chains = chains("glibc");
            assert!(
                chains.handle_query(query(0, None, 1)).is_some() && chains.handle_query(query(1, None, 1)).is_some()
            );
            assert!(chains.handle_query(both(2)).is_none());
            let ends = [Status::Timeout, Status::Answered];
            chains.handle_rows(&mut [row(first, ends[first as usize], 100)], RunTime(100));
            assert_eq!(released(&mut chains), []);
            let second = 1 - first;
            chains.handle_rows(&mut [row(second, ends[second as usize], 200)], RunTime(200));
            assert_eq!(released(&mut chains), [(2, due)], "by the answer that comes last; only that to 1 must be one");
            assert!(chains.is_empty() && chains.awaited.is_empty());
        }
    }

    proptest! {
        /// Whenever queries end, each is sent or refused once, and none before what it follows has ended.
        #[test]
        fn each_query_is_sent_or_refused_once(
            follows in prop::collection::vec(prop::option::of((0..8_usize, 0..50_i64)), 1..60),
            also in prop::collection::vec(prop::collection::btree_set(0..8_usize, 0..3), 60),
            fates in prop::collection::vec((0..40_i64, any::<bool>()), 60),
            is_stub in any::<bool>(),
        ) {
            let of = |number: usize| follows[number].filter(|(back, _)| *back < number).map(|(back, think)| (number - 1 - back, think));
            // Others that it waits for besides.
            let others = |number: usize| {
                let main = of(number).map(|(row, _)| row);
                let rows = also[number].iter().filter(|back| **back < number).map(move |back| number - 1 - back);
                rows.filter(move |row| main.is_some_and(|main| main != *row)).collect::<Vec<_>>()
            };
            let mut chains = chains(if is_stub { "glibc" } else { "open" });
            let mut ends: Vec<Option<i64>> = vec![None; follows.len()];
            let mut under_way: Vec<(i64, usize)> = Vec::new();
            let mut fed = 0;
            for now in 0..10_000 {
                if fed < follows.len() && now % 3 == 0 {
                    let waits = |other: &usize| of(*other).is_some_and(|(of, _)| of == fed) || others(*other).contains(&fed);
                    let followers = (0..follows.len()).filter(waits).count();
                    let mut next = query(fed as u64, of(fed).map(|(of, think)| (of as u64, think)), followers as u32);
                    next.dependency.as_mut().unwrap().also = others(fed).into_iter().map(|row| row as u64).collect();
                    under_way.extend(chains.handle_query(next).map(|_| (now + fates[fed].0, fed)));
                    fed += 1;
                }
                while let Some(query) = chains.poll_query(|query| query.due.0 <= now) {
                    let number = query.index as usize;
                    let (before, think) = of(number).unwrap();
                    let latest = others(number).into_iter().map(|row| ends[row].unwrap()).max();
                    prop_assert_eq!(query.due.0, ends[before].unwrap().max(latest.unwrap_or_default()) + think);
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
