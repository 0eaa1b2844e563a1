//! Lookups for A and AAAA of one name that a client makes together, as glibc does: what becomes of one depends on the other.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

use hashbrown::HashMap;
use ldplayer_core::{Attempt, Fingerprint, Message, Outcome, Query, RunTime, Transport};

use super::Lookups;
use super::lookup::Lookup;
use crate::slab::{Slab, Slot};

/// The second lookup comes within this time of the first, in nanoseconds. Resolvers send both within microseconds.
const TOGETHER_NS: i64 = 10_000_000;
/// Types of the first and of the second.
const TYPES: [u16; 2] = [1, 28];

/// How a client asks for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// At once, from one port.
    #[default]
    AtOnce,
    /// For AAAA when it has the answer for A: `single-request` of resolv.conf(5).
    InTurn,
    /// In turn, each from a port of its own: `single-request-reopen`.
    Reopen,
}

impl Mode {
    /// How it goes on where a server has answered one of both only; `None` where it takes that.
    const fn next(self) -> Option<Self> {
        match self {
            Self::AtOnce => Some(Self::InTurn),
            Self::InTurn => Some(Self::Reopen),
            Self::Reopen => None,
        }
    }
}

/// What has become of one of both in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its turn comes after the other's answer.
    NotAsked,
    Asked,
    /// The server answered that it cannot.
    Failed,
    /// The server answered.
    Taken,
}

/// Two lookups that go through the servers together. The time of the turns is that of the first.
#[derive(Debug)]
struct Pair {
    lookups: [Slot; 2],
    states: [State; 2],
    mode: Mode,
}

/// The place of a lookup in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub pair: Slot,
    pub which: usize,
}

/// An answer that is taken when the other lookup of the pair has ended, or when none has come.
#[derive(Debug)]
pub struct Held {
    attempt: Attempt,
    row: Outcome,
    found: Option<Fingerprint>,
}

/// The pairs of a worker, and the lookups whose second may still come.
#[derive(Debug, Default)]
pub struct Pairs {
    together: Slab<Pair>,
    alone: HashMap<u64, Alone>,
}

#[derive(Clone, Copy, Debug)]
struct Alone {
    slot: Slot,
    serial: u32,
    is_second: bool,
}

impl Pairs {
    /// A lookup has ended, or has its second.
    pub fn forget(&mut self, lookup: &Lookup) {
        let Some((key, _)) = lookup.key else { return };
        if self.alone.get(&key).is_some_and(|alone| alone.serial == lookup.serial) {
            self.alone.remove(&key);
        }
    }
}

/// What the queries of a pair have in common, and whether this one is for AAAA; `None` of one that is alone.
pub fn key(query: &Query) -> Option<(u64, bool)> {
    // A query that waits for this answer must not wait for the other one as well.
    let is_followed = query.dependency.as_ref().is_some_and(|of| of.followers > 0);
    if query.transport != Transport::Udp || is_followed {
        return None;
    }
    let message = Message::new(&query.wire)?;
    let question = message.question()?;
    let is_second = TYPES.iter().position(|qtype| *qtype == question.qtype)? == 1;
    let mut hasher = DefaultHasher::new();
    (query.client, query.client_port, query.class, question.qclass).hash(&mut hasher);
    question.name.iter().for_each(|octet| hasher.write_u8(octet.to_ascii_lowercase()));
    Some((hasher.finish(), is_second))
}

impl Lookup {
    /// Whether its second may still come.
    fn may_have_second(&self, now: RunTime) -> bool {
        self.key.is_some()
            && self.pair.is_none()
            && self.turn == 0
            && self.failures == 0
            && now - self.begun < TOGETHER_NS
    }

    /// Whether it has an answer, and no second has come in time.
    pub fn is_alone(&self, now: RunTime) -> bool {
        self.pair.is_none() && self.held.is_some() && now - self.begun >= TOGETHER_NS
    }

    /// An answer of a turn before is no answer of this one.
    fn drop_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.note_failure(held.row, held.found);
        }
    }
}

impl Lookups {
    /// Begins a lookup: with the other of its pair, if that has begun.
    pub(super) fn begin(&mut self, now: RunTime, slot: Slot) {
        match self.partner(now, slot) {
            Some((other, is_second)) => self.join(now, if is_second { [other, slot] } else { [slot, other] }, slot),
            None => self.begin_turn(now, slot),
        }
    }

    /// The lookup that this one goes with; notes it for that where none has begun.
    fn partner(&mut self, now: RunTime, slot: Slot) -> Option<(Slot, bool)> {
        let lookup = self.open.get(slot)?;
        let (key, is_second) = lookup.key?;
        let serial = lookup.serial;
        let found = self.pairs.alone.insert(key, Alone { slot, serial, is_second }).filter(|other| {
            let lookup = self.open.get(other.slot).filter(|lookup| lookup.serial == other.serial);
            other.is_second != is_second && lookup.is_some_and(|lookup| lookup.may_have_second(now))
        })?;
        self.pairs.alone.remove(&key);
        Some((found.slot, is_second))
    }

    /// Makes a pair of two lookups: the one in slot `new`, which begins now, and one that has begun.
    fn join(&mut self, now: RunTime, lookups: [Slot; 2], new: Slot) {
        let which = usize::from(lookups[1] == new);
        let Some(other) = self.open.get(lookups[1 - which]) else { return };
        let (begin, is_taken) = (other.begin, other.held.is_some());
        let mode = self.memory.mode(other.query.client);
        let mut states = [State::Asked; 2];
        states[1 - which] = if is_taken { State::Taken } else { State::Asked };
        let waits = mode != Mode::AtOnce && which == 1 && !is_taken;
        states[which] = if waits { State::NotAsked } else { State::Asked };
        let pair = self.pairs.together.insert(Pair { lookups, states, mode });
        for (which, slot) in lookups.into_iter().enumerate() {
            let Some(lookup) = self.open.get_mut(slot) else { continue };
            (lookup.pair, lookup.begin) = (Some(Place { pair, which }), begin);
            lookup.failures = u8::from(mode == Mode::Reopen && slot == new);
        }
        if !waits {
            self.begin_turn(now, new);
        }
    }

    /// An attempt has an answer that its client takes: now, or with that of the other lookup of its pair.
    pub(super) fn take(&mut self, now: RunTime, attempt: Attempt, row: Outcome, found: Option<Fingerprint>) {
        let Some(lookup) = self.open.get_mut(attempt.lookup) else { return };
        match lookup.pair {
            None if !lookup.may_have_second(now) => self.accept(attempt, row, found),
            None => {
                lookup.held = Some(Box::new(Held { attempt, row, found }));
                let (until, serial) = (lookup.begun + TOGETHER_NS, lookup.serial);
                self.timers.push(Reverse((until, attempt.lookup, serial)));
            }
            Some(place) => {
                lookup.held = Some(Box::new(Held { attempt, row, found }));
                self.settle(now, place, State::Taken);
            }
        }
    }

    /// A server answered a lookup of a pair that it cannot, or could not be reached.
    pub(super) fn note_failed_half(&mut self, now: RunTime, place: Place, was_reached: bool) {
        if was_reached { self.settle(now, place, State::Failed) } else { self.next_round(now, place.pair, true) }
    }

    fn settle(&mut self, now: RunTime, place: Place, state: State) {
        let Some(pair) = self.pairs.together.get_mut(place.pair) else { return };
        pair.states[place.which] = state;
        match (state, pair.states[1 - place.which]) {
            (State::Taken, State::NotAsked) => {
                pair.states[1] = State::Asked;
                let second = pair.lookups[1];
                self.begin_turn(now, second);
            }
            (_, State::Asked) => {}
            (State::Failed, State::Failed | State::NotAsked) => self.next_round(now, place.pair, true),
            _ => self.finish_pair(place.pair),
        }
    }

    /// The time of a turn is over: asks the next server, or the same one in another way where it has answered one of both.
    pub(super) fn end_round(&mut self, now: RunTime, pair: Slot) {
        let Some(of) = self.pairs.together.get_mut(pair) else { return };
        if !of.states.contains(&State::Taken) {
            return self.next_round(now, pair, false);
        }
        let Some(mode) = of.mode.next() else { return self.finish_pair(pair) };
        of.mode = mode;
        let first = of.lookups[0];
        if let Some(lookup) = self.open.get(first) {
            self.memory.set_mode(lookup.query.client, mode);
        }
        self.begin_round(now, pair, false);
    }

    /// Both go over to the next turn, from new ports after a failure.
    fn next_round(&mut self, now: RunTime, pair: Slot, has_failed: bool) {
        let Some(of) = self.pairs.together.get(pair) else { return };
        for slot in of.lookups {
            self.open.get_mut(slot).into_iter().for_each(|lookup| lookup.turn += 1);
        }
        self.begin_round(now, pair, has_failed);
    }

    fn begin_round(&mut self, now: RunTime, pair: Slot, has_failed: bool) {
        let Some(of) = self.pairs.together.get_mut(pair) else { return };
        let ([first, second], mode) = (of.lookups, of.mode);
        let is_at_once = mode == Mode::AtOnce;
        of.states = [State::Asked, if is_at_once { State::Asked } else { State::NotAsked }];
        let most =
            [first, second].into_iter().filter_map(|slot| self.open.get(slot)).map(|lookup| lookup.failures).max();
        let next = most.unwrap_or(0).saturating_add(1);
        for (slot, apart) in [(first, 0), (second, u8::from(mode == Mode::Reopen))] {
            let Some(lookup) = self.open.get_mut(slot) else { continue };
            lookup.drop_held();
            if has_failed || mode == Mode::Reopen {
                lookup.failures = next.saturating_add(apart);
            }
        }
        // Without a further turn, both end here.
        self.begin_turn(now, first);
        if is_at_once {
            self.begin_turn(now, second);
        }
    }

    /// Takes what has been answered; the other lookup, if any, ends without an answer.
    fn finish_pair(&mut self, pair: Slot) {
        let Some(of) = self.pairs.together.remove(pair) else { return };
        for slot in of.lookups {
            let Some(lookup) = self.open.get_mut(slot) else { continue };
            lookup.pair = None;
            if lookup.held.is_some() { self.release(slot) } else { self.give_up(slot, None) }
        }
    }

    /// Ends a lookup with the answer that it has.
    pub(super) fn release(&mut self, slot: Slot) {
        if let Some(held) = self.open.get_mut(slot).and_then(|lookup| lookup.held.take()) {
            self.accept(held.attempt, held.row, held.found);
        }
    }

    /// Parts a pair whose lookup in `slot` gives up; returns those that give up.
    pub(super) fn part(&mut self, slot: Slot) -> [Option<Slot>; 2] {
        let place = self.open.get(slot).and_then(|lookup| lookup.pair);
        let Some(of) = place.and_then(|place| self.pairs.together.remove(place.pair)) else {
            return [Some(slot), None];
        };
        of.lookups.map(|slot| {
            let lookup = self.open.get_mut(slot)?;
            lookup.pair = None;
            lookup.drop_held();
            Some(slot)
        })
    }
}
