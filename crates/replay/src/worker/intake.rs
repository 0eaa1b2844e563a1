//! The queries of a worker that are still to come, from its feed.

use crossbeam_channel::{Receiver, TryRecvError};
use ldplayer_core::{Query, RunTime};

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
}

impl Intake {
    /// What `feed` brings: batches of queries, sorted by due time, where they are timed.
    pub fn new(feed: Receiver<Vec<Query>>, is_timed: bool) -> Self {
        let batch = Vec::new().into_iter();
        Self { feed, batch, next: None, is_open: true, starved: false, is_timed, taken: 0, late: 0 }
    }

    /// When the next query is due. Takes the next batch from the feed if necessary.
    pub fn peek(&mut self, now: RunTime) -> Option<RunTime> {
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
        self.next_due()
    }

    /// When the next query is due that was taken from the feed.
    pub fn next_due(&self) -> Option<RunTime> {
        self.next.as_ref().map(|query| query.due)
    }

    /// The query that [`Self::peek`] found.
    pub fn take(&mut self) -> Option<Query> {
        self.next.take()
    }

    /// The same, if it `is_wanted`.
    pub fn take_if(&mut self, is_wanted: impl FnOnce(&Query) -> bool) -> Option<Query> {
        self.next.take_if(|query| is_wanted(query))
    }

    /// No more is taken from the feed.
    pub const fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether no query is to come any more.
    pub const fn has_ended(&self) -> bool {
        !self.is_open && self.next.is_none()
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
