//! The lookups of clients that react: what each of them asks, whom, and until when, as its model says.
//!
//! A lookup is a query of the trace; its attempts are queries of their own to the machines, which tell how each of them ended. It owns no
//! socket and reads no clock.

mod lookup;
mod memory;
mod pairs;
mod round_trip;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_pairs;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use ldplayer_core::client::{ClientModel, RESENDS, Reaction, Stub, is_usable};
use ldplayer_core::{Attempt, Fingerprint, Ignore, Outcome, Policy, Query, Reason, RunTime, Status};

use self::lookup::{After, Lookup};
use self::memory::Memory;
use self::pairs::{Pairs, Place};
use crate::counts::Counts;
use crate::response_sink::{AttemptEnd, AttemptEvent};
use crate::slab::{Slab, Slot};

/// Servers of a client at most; further ones are not asked.
const MOST_SERVERS: usize = u8::MAX as usize;

/// An attempt that is to be sent.
#[derive(Debug)]
pub struct Ask {
    /// The query, as an attempt.
    pub query: Query,
    /// The place of the server in the client's list.
    pub server: usize,
}

/// The lookups of a worker.
pub struct Lookups {
    /// What clients of each class do; one entry where there are no classes.
    models: Vec<ClientModel>,
    /// What comparisons ignore.
    ignore: Arc<Ignore>,
    memory: Memory,
    open: Slab<Lookup>,
    pairs: Pairs,
    /// The next attempts are numbered from here; tells lookups in the same slot apart.
    serial: u32,
    /// When the turns of lookups end. Those that have ended are passed over.
    timers: BinaryHeap<Reverse<(RunTime, Slot, u32)>>,
    asks: VecDeque<Ask>,
    outcomes: Vec<Outcome>,
    counts: Counts,
}

impl Lookups {
    /// Those of clients with these policies; `None` where no client reacts.
    pub fn new(policies: &[Policy], ignore: &Arc<Ignore>) -> Option<Self> {
        let models: Vec<ClientModel> = policies.iter().map(|policy| policy.client).collect();
        models.iter().any(|model| *model != ClientModel::Open).then(|| Self {
            models,
            ignore: Arc::clone(ignore),
            memory: Memory::default(),
            open: Slab::default(),
            pairs: Pairs::default(),
            serial: 0,
            timers: BinaryHeap::new(),
            asks: VecDeque::new(),
            outcomes: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Whether the client of a query reacts.
    pub fn is_for(&self, query: &Query) -> bool {
        self.stub(query.class).is_some()
    }

    fn stub(&self, class: Option<u8>) -> Option<Stub> {
        match self.models.get(usize::from(class.unwrap_or_default())) {
            Some(ClientModel::Stub(stub)) => Some(*stub),
            Some(ClientModel::Open) | None => None,
        }
    }

    /// Takes a query of the trace, whose client has so many servers.
    pub fn handle_query(&mut self, now: RunTime, query: Query, servers: usize) {
        let Some(stub) = self.stub(query.class) else { return };
        self.counts.taken += 1;
        self.serial = self.serial.wrapping_add(1);
        let lookup = Lookup::new(now, query, stub, self.serial, servers.clamp(1, MOST_SERVERS));
        let slot = self.open.insert(lookup);
        self.begin(now, slot);
    }

    /// The next attempt to send.
    pub fn poll_ask(&mut self) -> Option<Ask> {
        self.asks.pop_front()
    }

    /// The machines say what became of an attempt.
    pub fn handle_event(&mut self, now: RunTime, event: AttemptEvent) {
        match event {
            AttemptEvent::Sent(attempt, at) => self.note_sent(attempt, at),
            AttemptEvent::Ended(end) => self.note_ended(now, end),
        }
    }

    /// Ends the turns whose time is over at `now`.
    pub fn handle_timeout(&mut self, now: RunTime) {
        while let Some(&Reverse((at, slot, serial))) = self.timers.peek() {
            if at > now {
                return;
            }
            self.timers.pop();
            let is_over = |lookup: &Lookup| lookup.serial == serial && (lookup.deadline <= now || lookup.is_alone(now));
            let Some(lookup) = self.open.get_mut(slot).filter(|lookup| is_over(lookup)) else { continue };
            match lookup.pair {
                // The turns of both are those of the first.
                Some(Place { pair, which: 0 }) => self.end_round(at, pair),
                Some(_) => {}
                None if lookup.is_alone(now) => self.release(slot),
                None => {
                    lookup.note_silence(&mut self.memory);
                    self.next_turn(at, slot);
                }
            }
        }
    }

    /// Ends all lookups, for an interrupted run.
    pub fn handle_interrupt(&mut self) {
        self.asks.clear();
        for slot in self.open.slots().collect::<Vec<_>>() {
            self.give_up(slot, Some(Reason::Interrupted));
        }
    }

    /// When [`Self::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Lookups that have not ended.
    pub const fn open(&self) -> usize {
        self.open.len()
    }

    /// The finished rows, of lookups and of attempts, since the caller last emptied them.
    pub const fn outcomes(&mut self) -> &mut Vec<Outcome> {
        &mut self.outcomes
    }

    /// The accounts, of lookups.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Asks whom the model says in this turn; gives up where there is no such turn.
    fn begin_turn(&mut self, now: RunTime, slot: Slot) {
        let Some(lookup) = self.open.get_mut(slot) else { return };
        let Some(turn) = lookup.next_turn(now, &mut self.memory) else { return self.give_up(slot, None) };
        (lookup.before, lookup.resends, lookup.failed_now) = (lookup.attempts, 0, 0);
        (lookup.wait, lookup.deadline) = (turn.wait, now + turn.wait);
        self.timers.push(Reverse((lookup.deadline, slot, lookup.serial)));
        let memory = &self.memory;
        match turn.server {
            Some(place) => {
                let server = lookup.server(place);
                self.asks.extend(lookup.ask(slot, server, memory));
            }
            None => self.asks.extend((0..lookup.servers).filter_map(|server| lookup.ask(slot, server, memory))),
        }
    }

    fn next_turn(&mut self, now: RunTime, slot: Slot) {
        if let Some(lookup) = self.open.get_mut(slot) {
            lookup.turn += 1;
            self.begin_turn(now, slot);
        }
    }

    /// The wait for an answer begins when the attempt has left.
    fn note_sent(&mut self, attempt: Attempt, at: RunTime) {
        let Some(lookup) = self.open.get_mut(attempt.lookup).filter(|lookup| lookup.serial == attempt.serial) else {
            return;
        };
        self.counts.sent += u64::from(lookup.submitted.is_none());
        lookup.submitted.get_or_insert(at);
        if attempt.number == lookup.before && at + lookup.wait > lookup.deadline {
            lookup.deadline = at + lookup.wait;
            self.timers.push(Reverse((lookup.deadline, attempt.lookup, lookup.serial)));
        }
    }

    fn note_ended(&mut self, now: RunTime, end: AttemptEnd) {
        let AttemptEnd { attempt, row, found } = end;
        if row.status != Status::NotSent {
            self.outcomes.push(Outcome { attempt: Some(attempt.number), ..row.clone() });
        }
        let Some(lookup) = self.open.get_mut(attempt.lookup).filter(|lookup| lookup.serial == attempt.serial) else {
            return;
        };
        lookup.note_round_trip(attempt, &row, &mut self.memory);
        match lookup.reaction(attempt, &row, &self.memory) {
            Reaction::Accept => self.take(now, attempt, row, found),
            Reaction::Ignore => lookup.note_failure(row, found),
            Reaction::Next if lookup.pair.is_some() => {
                let (place, was_reached) = (lookup.pair, row.rcode.is_some());
                lookup.note_failure(row, found);
                place.into_iter().for_each(|place| self.note_failed_half(now, place, was_reached));
            }
            Reaction::Next if lookup.is_last_failure(row.rcode) => match row.rcode {
                Some(_) => self.accept(attempt, row, found),
                None => {
                    lookup.note_failure(row, found);
                    self.give_up(attempt.lookup, None);
                }
            },
            Reaction::Next => {
                lookup.failures = lookup.failures.saturating_add(1);
                lookup.skip(attempt.server);
                lookup.note_failure(row, found);
                self.go_on(now, attempt);
            }
            Reaction::WithoutEdns => {
                let is_to_drop = lookup.is_to_drop_edns(row.rcode.unwrap_or(0));
                lookup.note_failure(row, found);
                if !is_to_drop || lookup.drop_edns().is_some() {
                    self.asks.extend(lookup.ask(attempt.lookup, attempt.server.into(), &self.memory));
                }
            }
            Reaction::Again => {
                lookup.note_failure(row, found);
                if lookup.resends < RESENDS {
                    lookup.resends += 1;
                    self.asks.extend(lookup.ask(attempt.lookup, attempt.server.into(), &self.memory));
                }
            }
        }
    }

    /// Goes on after a failure of an attempt: with the next turn, by asking all servers in this one, or by waiting for those already asked.
    fn go_on(&mut self, now: RunTime, attempt: Attempt) {
        let Some(lookup) = self.open.get_mut(attempt.lookup) else { return };
        match lookup.after_failure(attempt.server, &mut self.memory) {
            After::Turn => self.next_turn(now, attempt.lookup),
            After::AskAll => {
                let servers = 0..lookup.servers;
                self.asks.extend(servers.filter_map(|server| lookup.ask(attempt.lookup, server, &self.memory)));
            }
            After::Wait => {}
        }
    }

    /// Ends a lookup with the answer of an attempt. One that is of no use to whoever asked was the client's last all the same.
    fn accept(&mut self, attempt: Attempt, row: Outcome, found: Option<Fingerprint>) {
        let Some(lookup) = self.open.remove(attempt.lookup) else { return };
        self.pairs.forget(&lookup);
        let gave_up = !is_usable(row.rcode.unwrap_or(0));
        lookup.note_answer(attempt.server, !gave_up, &mut self.memory);
        let row = lookup.row(Outcome { status: Status::Answered, gave_up, ..row });
        self.finish(lookup.judged(row, found, &self.ignore));
    }

    /// Ends a lookup, and the other of its pair, without an answer that its client takes.
    fn give_up(&mut self, slot: Slot, reason: Option<Reason>) {
        self.part(slot).into_iter().flatten().for_each(|slot| self.end_unanswered(slot, reason));
    }

    fn end_unanswered(&mut self, slot: Slot, reason: Option<Reason>) {
        let Some(mut lookup) = self.open.remove(slot) else { return };
        self.pairs.forget(&lookup);
        let mut found = None;
        let row = match lookup.failed.take() {
            Some(failed) if reason.is_none() => {
                found = failed.found;
                failed.row
            }
            _ if lookup.submitted.is_none() => Outcome {
                status: Status::NotSent,
                // The second of a pair waits for the answer to the first.
                reason: reason.or(Some(if lookup.attempts == 0 { Reason::NothingToFollow } else { Reason::SendError })),
                ..Outcome::unfinished(&lookup.query)
            },
            _ => Outcome { status: Status::Timeout, reason, ..Outcome::unfinished(&lookup.query) },
        };
        let row = Outcome { gave_up: true, ..lookup.row(row) };
        self.finish(lookup.judged(row, found, &self.ignore));
    }

    fn finish(&mut self, row: Outcome) {
        self.counts.add(row.status);
        self.outcomes.push(row);
    }
}
