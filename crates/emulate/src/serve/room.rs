//! How many TCP connections all workers of a server hold together, and who ends one when there are too many.
//!
//! Counting is one addition for each connection. A worker that has no other connection than the one too many asks the others,
//! which is rare; until one of them has ended one, there is one more than there should be.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ldplayer_net::poll::Wake;

/// The connections of all workers.
#[derive(Debug)]
pub struct Room {
    most: usize,
    taken: AtomicUsize,
    workers: Mutex<Vec<Member>>,
}

/// A worker, as the others reach it.
#[derive(Debug)]
struct Member {
    is_asked: Arc<AtomicBool>,
    wake: Arc<Wake>,
}

/// What a worker has of the room.
#[derive(Debug)]
pub struct Place {
    room: Arc<Room>,
    /// Whether another worker needs room.
    is_asked: Arc<AtomicBool>,
}

impl Room {
    /// For so many connections, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: AtomicUsize::new(0), workers: Mutex::default() }
    }

    /// A worker more, which is woken when it is asked to end a connection.
    pub fn join(room: &Arc<Self>, wake: Arc<Wake>) -> Place {
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
    /// Counts a connection in.
    pub fn take(&self) {
        self.room.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection out that has ended.
    pub fn give_back(&self) {
        self.room.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection out if there are too many; whether the caller is to end one. Of all workers that ask at the same time,
    /// only as many are told so as there are connections too many.
    pub fn give_back_excess(&self) -> bool {
        let less = |taken: usize| (taken > self.room.most).then(|| taken - 1);
        self.room.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Asks the other workers to end connections, if there are too many.
    pub fn ask_others(&self) {
        if !self.room.has_excess() {
            return;
        }
        let workers = self.room.workers.lock().unwrap_or_else(PoisonError::into_inner);
        for other in workers.iter().filter(|other| !Arc::ptr_eq(&other.is_asked, &self.is_asked)) {
            other.is_asked.store(true, Ordering::Relaxed);
            other.wake.wake();
        }
    }

    /// Whether another worker has asked since this was called last.
    pub fn take_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::Relaxed)
    }
}
