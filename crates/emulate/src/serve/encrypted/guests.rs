//! The open connections of the thread: their bound, which they share with those of all workers, and their idle timeout.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::serve::room::{Place, Room};
use crate::serve::tcp::{ConnectionCounts, End};

/// The connections of one kind.
pub struct Guests {
    place: Place,
    open: RefCell<BTreeMap<u64, Rc<State>>>,
    next: Cell<u64>,
    counts: Cell<ConnectionCounts>,
}

/// What a connection's tasks know of it.
pub struct State {
    last: Cell<Instant>,
    /// Why it is to end.
    end: Cell<Option<End>>,
    ending: Notify,
}

/// An open connection. Dropping it counts its end.
pub struct Guest {
    guests: Rc<Guests>,
    number: u64,
    /// For its tasks.
    pub state: Rc<State>,
}

impl Guests {
    /// None yet.
    pub fn new(room: &Arc<Room>, wake: &Waker) -> Rc<Self> {
        let place = Room::join(room, wake.clone());
        Rc::new(Self { place, open: RefCell::default(), next: Cell::new(0), counts: Cell::default() })
    }

    /// A new connection. If there are too many, the one that has been idle for longest is told to end.
    pub fn enter(self: &Rc<Self>) -> Guest {
        let state = Rc::new(State { last: Cell::new(Instant::now()), end: Cell::new(None), ending: Notify::new() });
        let number = self.next.replace(self.next.get() + 1);
        self.count(|counts| counts.accepted += 1);
        self.open.borrow_mut().insert(number, Rc::clone(&state));
        self.place.take();
        while self.open.borrow().len() > 1 && self.place.give_back_excess() {
            self.evict();
        }
        self.place.ask_others();
        Guest { guests: Rc::clone(self), number, state }
    }

    /// Ends surplus connections at the request of another worker.
    pub fn make_room(&self) {
        if self.place.take_asked() {
            while !self.open.borrow().is_empty() && self.place.give_back_excess() {
                self.evict();
            }
        }
    }

    /// The counters since the last call.
    pub fn take_counts(&self) -> ConnectionCounts {
        self.counts.take()
    }

    fn evict(&self) {
        let mut open = self.open.borrow_mut();
        let oldest = open.iter().min_by_key(|(_, state)| state.last.get()).map(|(number, _)| *number);
        if let Some(state) = oldest.and_then(|number| open.remove(&number)) {
            state.end(End::Evicted);
        }
    }

    fn count(&self, change: impl FnOnce(&mut ConnectionCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

impl State {
    /// Something was asked or answered.
    pub fn touch(&self) {
        self.last.set(Instant::now());
    }

    /// Tells the connection to end.
    pub fn end(&self, end: End) {
        self.end.set(Some(end));
        self.ending.notify_one();
    }
}

impl Guest {
    /// Returns when it has been idle for so long, or is to end otherwise.
    pub async fn ended(&self, idle: Duration) -> End {
        loop {
            if let Some(end) = self.state.end.get() {
                return end;
            }
            let due = self.state.last.get() + idle;
            if Instant::now() >= due {
                self.state.end.set(Some(End::Idle));
                return End::Idle;
            }
            tokio::select! {
                () = self.state.ending.notified() => {}
                () = sleep_until(due) => {}
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // One that was evicted has given its place back.
        if self.guests.open.borrow_mut().remove(&self.number).is_some() {
            self.guests.place.give_back();
        }
        let end = self.state.end.get().unwrap_or(End::Closed);
        self.guests.count(|counts| counts.end(end));
    }
}
