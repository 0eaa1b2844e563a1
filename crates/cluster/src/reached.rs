//! How far the reading of a shard has come.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use ldplayer_core::Query;

/// The value of [`Reached`] when all queries have been read.
const ALL: i64 = i64::MAX;

/// The progress of reading a shard, for observers.
#[derive(Debug, Default)]
pub struct Reached {
    /// Set to end the reading: the dealer may be gone.
    pub given_up: AtomicBool,
    /// Due time of the last query read, in nanoseconds of run time.
    to_ns: AtomicI64,
    skipped: AtomicU64,
}

impl Reached {
    /// The run time up to which queries have been read; `None` if all have been.
    pub fn to_ns(&self) -> Option<i64> {
        Some(self.to_ns.load(Ordering::Relaxed)).filter(|&to| to != ALL)
    }

    /// Queries skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Notes that queries have been read up to this moment.
    pub fn note(&self, to_ns: i64) {
        self.to_ns.store(to_ns, Ordering::Relaxed);
    }

    /// Notes that all have been read.
    pub fn note_all(&self) {
        self.note(ALL);
    }

    /// Skips and counts queries due before `from_ns`.
    pub fn skip(&self, queries: &mut Vec<Query>, from_ns: Option<i64>) {
        let before = queries.len();
        queries.retain(|query| from_ns.is_none_or(|from| query.due.0 >= from));
        self.skipped.fetch_add((before - queries.len()) as u64, Ordering::Relaxed);
    }
}
