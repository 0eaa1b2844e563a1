//! What is on its way: a slab of queries, threaded on lists in the order of their deadlines.
//!
//! All queries of a list have the same timeout, so that a list in the order of sending is sorted by deadline and
//! needs no timer wheel. Links are slots, so that removal is constant and nothing is allocated per query.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use ldplayer_core::{Outcome, Query, Reason, RunTime, Status};

use crate::route::{Route, SocketKey};

/// A slot of the slab.
pub type Slot = u32;

/// The end of a list.
const NONE: Slot = Slot::MAX;

/// Where a query stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for the worker to send it.
    Queued,
    /// Sent, not answered.
    Outstanding,
    /// Timed out and recorded; kept so that a late answer is known.
    Lingering,
}

/// One query on its way. Kept small: hundreds of thousands may be on their way, and each is visited twice.
#[derive(Debug)]
pub struct Pending {
    /// Row of the transaction in the trace.
    pub index: u64,
    /// When it was due.
    pub due: RunTime,
    /// When the kernel took it; meaningless while it is queued.
    pub submitted: RunTime,
    /// When it leaves its list.
    pub deadline: RunTime,
    /// The message as recorded.
    pub wire: Bytes,
    /// The server asked.
    pub server: SocketAddr,
    /// The client's address in the run.
    pub client: IpAddr,
    /// The client's port in the run; meaningless while it is queued.
    pub client_port: u16,
    /// The ID under which it is sent.
    pub id: u16,
    /// The socket that it uses.
    pub socket: SocketKey,
    /// Whether its source address must be set by hand.
    pub set_source: bool,
    /// Where it stands.
    pub stage: Stage,
    previous: Slot,
    next: Slot,
}

impl Pending {
    /// A queued query on no list.
    pub fn new(query: Query, route: &Route, socket: SocketKey, id: u16) -> Self {
        Self {
            index: query.index,
            due: query.due,
            submitted: RunTime(0),
            deadline: RunTime(i64::MAX),
            wire: query.wire,
            server: route.server,
            client: route.source.unwrap_or(query.client),
            client_port: 0,
            id,
            socket,
            set_source: route.source.is_some(),
            stage: Stage::Queued,
            previous: NONE,
            next: NONE,
        }
    }

    /// The row of this query, ended with `status`.
    pub fn outcome(&self, status: Status, reason: Option<Reason>) -> Outcome {
        let sent = self.stage != Stage::Queued;
        Outcome {
            index: self.index,
            client: self.client,
            client_port: self.client_port,
            server: self.server,
            intended: self.due,
            submitted: sent.then_some(self.submitted),
            status,
            reason,
            query_bytes: self.wire.len() as u16,
            ..Outcome::EMPTY
        }
    }
}

/// A list of pending queries, sorted by deadline.
#[derive(Debug)]
pub struct List {
    first: Slot,
    last: Slot,
    length: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE, length: 0 }
    }
}

impl List {
    /// How many queries are on it.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// The query with the earliest deadline.
    pub fn first(&self) -> Option<Slot> {
        (self.first != NONE).then_some(self.first)
    }
}

/// The slab: slots are reused, memory grows to the most that was ever on its way.
#[derive(Debug, Default)]
pub struct Slab {
    slots: Vec<Option<Pending>>,
    free: Vec<Slot>,
}

impl Slab {
    /// Stores a query and returns its slot.
    pub fn insert(&mut self, pending: Pending) -> Slot {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(pending);
            return slot;
        }
        self.slots.push(Some(pending));
        (self.slots.len() - 1) as Slot
    }

    /// Takes a query out; it must be on no list.
    pub fn remove(&mut self, slot: Slot) -> Option<Pending> {
        let pending = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(pending)
    }

    /// The query in `slot`.
    pub fn get(&self, slot: Slot) -> Option<&Pending> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The query in `slot`, to be changed.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Pending> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Puts a query at the end of a list, where its deadline belongs since timeouts are equal.
    pub fn append(&mut self, list: &mut List, slot: Slot) {
        let last = list.last;
        self.link(slot, last, NONE);
        match self.get_mut(last) {
            Some(previous) => previous.next = slot,
            None => list.first = slot,
        }
        list.last = slot;
        list.length += 1;
    }

    /// Takes a query off its list.
    pub fn unlink(&mut self, list: &mut List, slot: Slot) {
        let Some((previous, next)) = self.get(slot).map(|pending| (pending.previous, pending.next)) else {
            return;
        };
        match self.get_mut(previous) {
            Some(pending) => pending.next = next,
            None => list.first = next,
        }
        match self.get_mut(next) {
            Some(pending) => pending.previous = previous,
            None => list.last = previous,
        }
        self.link(slot, NONE, NONE);
        list.length -= 1;
    }

    fn link(&mut self, slot: Slot, previous: Slot, next: Slot) {
        if let Some(pending) = self.get_mut(slot) {
            pending.previous = previous;
            pending.next = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::query;
    use proptest::prelude::*;

    fn pending(number: u64) -> Pending {
        let socket = SocketKey::Own(0);
        let route = Route { socket, source: None, server: "127.0.0.1:53".parse().unwrap() };
        Pending::new(query(number, 0), &route, socket, 0)
    }

    fn order(slab: &Slab, list: &List) -> Vec<u64> {
        let mut slot = list.first;
        let step = || {
            let pending = slab.get(slot)?;
            slot = pending.next;
            Some(pending.index)
        };
        std::iter::from_fn(step).collect()
    }

    proptest! {
        #[test]
        fn a_list_keeps_its_order_through_any_removals(removed in prop::collection::vec(0usize..20, 0..40)) {
            let (mut slab, mut list) = (Slab::default(), List::default());
            let slots: Vec<Slot> = (0..20).map(|number| slab.insert(pending(number))).collect();
            slots.iter().for_each(|&slot| slab.append(&mut list, slot));
            let mut expected: Vec<u64> = (0..20).collect();
            for at in removed {
                if expected.contains(&(at as u64)) {
                    slab.unlink(&mut list, slots[at]);
                    prop_assert_eq!(slab.remove(slots[at]).unwrap().index, at as u64);
                    expected.retain(|&number| number != at as u64);
                }
                prop_assert_eq!(order(&slab, &list), expected.clone());
                prop_assert_eq!(list.len(), expected.len());
            }
        }
    }

    #[test]
    fn slots_are_reused() {
        let mut slab = Slab::default();
        let first = slab.insert(pending(1));
        slab.remove(first);
        assert_eq!(slab.insert(pending(2)), first);
        assert!(slab.remove(99).is_none());
    }
}
