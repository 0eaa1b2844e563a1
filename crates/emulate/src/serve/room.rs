//! Limits the TCP connections of all workers together, and chooses which one to close.
//!
//! Counting is one addition per connection. A worker whose only connection is the one too many asks the others to close one,
//! which is rare; until then, there is one connection above the limit.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// The connections of all workers.
#[derive(Debug)]
pub struct Room {
    most: usize,
    taken: AtomicUsize,
    workers: Mutex<Vec<Member>>,
}

/// A worker, as seen by the others.
#[derive(Debug)]
struct Member {
    is_asked: Arc<AtomicBool>,
    wake: Waker,
}

/// A worker's share of the limit.
#[derive(Debug)]
pub struct Place {
    room: Arc<Room>,
    /// Whether another worker needs room.
    is_asked: Arc<AtomicBool>,
}

impl Room {
    /// For at most this many connections, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: AtomicUsize::new(0), workers: Mutex::default() }
    }

    /// Adds a worker, which is woken when it must close a connection.
    pub fn join(room: &Arc<Self>, wake: Waker) -> Place {
        let is_asked = Arc::new(AtomicBool::new(false));
        let member = Member { is_asked: Arc::clone(&is_asked), wake };
        room.workers.lock().unwrap_or_else(PoisonError::into_inner).push(member);
        Place { room: Arc::clone(room), is_asked }
    }

    fn has_excess(&self) -> bool {
        self.taken.load(Ordering::Relaxed) > self.most
    }
}

impl Place {
    /// Counts an accepted connection.
    pub fn take(&self) {
        self.room.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a closed connection.
    pub fn give_back(&self) {
        self.room.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a closed connection if there are too many; returns whether the caller must close one. Of all workers that ask at the same
    /// time, only as many are told to as there are connections too many.
    pub fn give_back_excess(&self) -> bool {
        let less = |taken: usize| (taken > self.room.most).then(|| taken - 1);
        self.room.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Asks the other workers to close connections, if there are too many.
    pub fn ask_others(&self) {
        if !self.room.has_excess() {
            return;
        }
        let workers = self.room.workers.lock().unwrap_or_else(PoisonError::into_inner);
        for other in workers.iter().filter(|other| !Arc::ptr_eq(&other.is_asked, &self.is_asked)) {
            other.is_asked.store(true, Ordering::Relaxed);
            other.wake.wake_by_ref();
        }
    }

    /// Whether another worker has asked since the last call.
    pub fn take_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::Relaxed)
    }
}
