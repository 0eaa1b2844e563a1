//! State shared by the workers of a server, none of it touched per query: zones, requests of the owner, sums.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::faults::Faults;
use super::marks::Marks;
use super::set::ZoneSet;
use super::sums::{Counted, Sums};

/// State shared by the owner and the workers.
pub struct Shared {
    current: Mutex<Current>,
    epoch: AtomicU64,
    is_stopping: AtomicBool,
    workers: Mutex<Workers>,
    followed: Condvar,
    sums: Mutex<Sums>,
}

/// The zones being served, and marks of used record sets.
#[derive(Clone)]
pub struct Current {
    /// The zones.
    pub set: Arc<ZoneSet>,
    /// Marks of their record sets, if tracked.
    pub marks: Option<Arc<Marks>>,
    /// Faults to make on purpose.
    pub faults: Option<Arc<Faults>>,
}

#[derive(Debug, Default)]
struct Workers {
    at_work: usize,
    /// Workers that have not yet handled the last call.
    waited_for: usize,
}

impl Shared {
    /// For a server of this set.
    pub fn new(current: Current) -> Self {
        Self {
            current: Mutex::new(current),
            epoch: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            workers: Mutex::default(),
            followed: Condvar::new(),
            sums: Mutex::default(),
        }
    }

    /// What is being served.
    pub fn current(&self) -> Current {
        lock(&self.current).clone()
    }

    /// The number of calls by the owner.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether the workers must stop.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Replaces the zones; workers take the new ones when called.
    pub fn replace(&self, current: Current) -> Current {
        std::mem::replace(&mut *lock(&self.current), current)
    }

    /// Registers a worker.
    pub fn begin(&self) {
        lock(&self.workers).at_work += 1;
    }

    /// Calls the workers, which `wake` wakes, and returns when all of them have responded or ended.
    pub fn call(&self, wake: impl FnOnce()) {
        let mut workers = lock(&self.workers);
        workers.waited_for = workers.at_work;
        drop(workers);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        wake();
        let is_waiting = |workers: &mut Workers| workers.waited_for > 0;
        drop(self.followed.wait_while(lock(&self.workers), is_waiting).unwrap_or_else(PoisonError::into_inner));
    }

    /// A worker has responded to the call.
    pub fn done(&self) {
        let mut workers = lock(&self.workers);
        workers.waited_for = workers.waited_for.saturating_sub(1);
        self.followed.notify_all();
    }

    /// A worker has ended; by an error if one is given.
    pub fn end(&self, failure: Option<String>) {
        if failure.is_some() {
            self.sums().failure = failure;
        }
        lock(&self.workers).at_work -= 1;
        self.done();
    }

    /// Tells the workers to stop.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// The sums so far.
    pub fn sums(&self) -> MutexGuard<'_, Sums> {
        lock(&self.sums)
    }

    /// Adds a worker's counters.
    pub fn add(&self, counted: Counted) {
        self.sums().add(counted);
    }
}

/// State left by a panicking worker is consistent: each change is one assignment or addition.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
