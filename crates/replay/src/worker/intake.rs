//! The queries of a worker that are still to come: from its feed, and those that wait for answers to others.

use crossbeam_channel::{Receiver, TryRecvError};
use ldplayer_core::{Outcome, Query, Reason, RunTime};

use crate::chains::Chains;

/// How long before its earliest due time a query that waits is taken from the feed, in nanoseconds.
const AHEAD: i64 = 100_000_000;

/// The queries to come.
pub struct Intake {
    feed: Receiver<Vec<Query>>,
    batch: std::vec::IntoIter<Query>,
    next: Option<Query>,
    /// Whether the feed may bring more.
    is_open: bool,
    /// Whether the feed had nothing when it was last asked.
    starved: bool,
    is_timed: bool,
    taken: u64,
    late: u64,
    chains: Chains,
    /// Of each machine, the rows that the chains have seen.
    seen: [usize; 3],
}

impl Intake {
    /// What `feed` brings: batches of queries, sorted by due time, where they are timed; by the earliest one, of those that wait.
    pub fn new(feed: Receiver<Vec<Query>>, is_timed: bool, chains: Chains) -> Self {
        let batch = Vec::new().into_iter();
        let seen = [0; 3];
        Self { feed, batch, next: None, is_open: true, starved: false, is_timed, taken: 0, late: 0, chains, seen }
    }

    /// When the next query is due. Takes the next batch from the feed if necessary.
    pub fn peek(&mut self, now: RunTime) -> Option<RunTime> {
        self.fill(now);
        while let Some(query) = self.next.take_if(|query| is_to_wait(query, now)) {
            self.next = self.chains.handle_query(query);
            self.fill(now);
        }
        self.next_due()
    }

    /// Takes the next batch from the feed if necessary.
    fn fill(&mut self, now: RunTime) {
        if self.next.is_none() {
            self.next = self.batch.next();
        }
        if self.next.is_none() && self.is_open {
            match self.feed.try_recv() {
                Ok(batch) => self.accept(batch, now),
                Err(TryRecvError::Empty) => self.starved = true,
                Err(TryRecvError::Disconnected) => self.is_open = false,
            }
        }
    }

    /// The next query of the feed, if [`Self::peek`] found one.
    pub const fn next(&self) -> Option<&Query> {
        self.next.as_ref()
    }

    /// When the next query is due of those that were taken from the feed.
    pub fn next_due(&self) -> Option<RunTime> {
        let next = self.next.as_ref().map(|query| query.due);
        next.into_iter().chain(self.chains.next_due()).min()
    }

    /// The query that [`Self::peek`] found.
    pub fn take(&mut self) -> Option<Query> {
        self.take_if(|_| true)
    }

    /// The same, if it `is_wanted`.
    pub fn take_if(&mut self, is_wanted: impl FnOnce(&Query) -> bool) -> Option<Query> {
        let due = self.next.as_ref().map(|query| query.due);
        match self.chains.next_due().filter(|released| due.is_none_or(|due| *released <= due)) {
            Some(_) => self.chains.poll_query(is_wanted),
            None => self.next.take_if(|query| is_wanted(query)),
        }
    }

    /// Looks at the new rows of all machines, whose queries others may have waited for.
    pub fn handle_rows(&mut self, rows: [&mut Vec<Outcome>; 3], now: impl Fn() -> RunTime) {
        for (rows, seen) in rows.into_iter().zip(&mut self.seen) {
            if self.chains.is_watching() {
                self.chains.handle_rows(&mut rows[*seen..], now());
            }
            *seen = rows.len();
        }
    }

    /// The rows that were seen have been handed over.
    pub const fn note_flushed(&mut self) {
        self.seen = [0; 3];
    }

    /// A query that waited and is not to be sent, and why.
    pub fn poll_refused(&mut self) -> Option<(Query, Reason)> {
        self.chains.poll_refused()
    }

    /// Lets no query wait any more, for an interrupted run.
    pub fn handle_interrupt(&mut self) {
        self.chains.handle_interrupt();
    }

    /// No more is taken from the feed.
    pub const fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether no query is to come any more.
    pub fn has_ended(&self) -> bool {
        !self.is_open && self.next.is_none() && self.chains.is_empty()
    }

    /// Whether the feed may bring more.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether it waits for the feed.
    pub const fn is_waiting(&self) -> bool {
        self.is_open && self.next.is_none()
    }

    /// Queries taken from the feed.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Queries that came after they were due.
    pub const fn late(&self) -> u64 {
        self.late
    }

    fn accept(&mut self, batch: Vec<Query>, now: RunTime) {
        self.taken += batch.len() as u64;
        self.batch = batch.into_iter();
        self.next = self.batch.next();
        let overdue = self.next.as_ref().is_some_and(|query| query.due < now);
        if std::mem::take(&mut self.starved) && overdue && self.is_timed {
            self.late += 1 + self.batch.as_slice().iter().filter(|query| query.due < now).count() as u64;
        }
    }
}

/// Whether the chains take a query now: others wait for it, or it is soon due at the earliest.
fn is_to_wait(query: &Query, now: RunTime) -> bool {
    query.dependency.as_ref().is_some_and(|dependency| dependency.follows.is_none() || query.due - now <= AHEAD)
}
