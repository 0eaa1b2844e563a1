//! A lookup: whom it asks next, and what it makes of what it hears.

use ldplayer_core::client::{FORMERR, Order, Ports, Reaction, Stub, Turn};
use ldplayer_core::{Attempt, Expected, Fingerprint, Ignore, Message, Outcome, Query, RunTime, Status};

use super::Ask;
use crate::slab::Slot;

/// A lookup that has not ended.
#[derive(Debug)]
pub struct Lookup {
    pub query: Query,
    pub stub: Stub,
    pub serial: u32,
    /// The number of servers of its client, and the one that it began with.
    pub servers: usize,
    pub begin: usize,
    pub turn: usize,
    /// When the turn ends.
    pub deadline: RunTime,
    /// Attempts so far, and those before this turn.
    pub attempts: u8,
    pub before: u8,
    /// How often it went on after a failure.
    pub failures: u8,
    /// The servers that have failed, of a client that leaves them out: the bit of each of the first 64.
    pub skipped: u64,
    /// How often in this turn a server was asked again after its failure.
    pub resends: u8,
    pub submitted: Option<RunTime>,
    /// The ID of all attempts, of one that keeps it.
    pub id: Option<u16>,
    /// The last attempt that failed.
    pub failed: Option<Box<Failed>>,
}

/// An attempt that failed.
#[derive(Debug)]
pub struct Failed {
    pub row: Outcome,
    pub found: Option<Fingerprint>,
}

impl Lookup {
    /// An attempt at the server of a place in the list.
    pub fn ask(&mut self, slot: Slot, server: usize) -> Option<Ask> {
        let number = self.attempts;
        self.attempts = number.checked_add(1)?;
        let attempt = Attempt {
            lookup: slot,
            serial: self.serial,
            number,
            server: server as u8,
            port: self.stub.port(server as u8, number, self.failures),
            id: self.id,
            is_compared: self.query.expected != Expected::Nothing,
        };
        let query = Query { expected: Expected::Attempt(attempt), ..self.query.clone() };
        Some(Ask { query, server })
    }

    /// The server at a place of the list, as this lookup goes through it.
    pub const fn server(&self, place: usize) -> usize {
        (self.begin + place) % self.servers
    }

    /// The turn that begins now: that of a server which the client does not leave out.
    pub fn next_turn(&mut self) -> Option<Turn> {
        loop {
            let turn = self.stub.turn(self.turn, self.servers)?;
            let server = turn.server.map(|place| self.server(place)).filter(|server| *server < 64);
            if server.is_none_or(|server| self.skipped >> server & 1 == 0) {
                return Some(turn);
            }
            self.turn += 1;
        }
    }

    /// Leaves a server out that failed, if the client does so and has others.
    pub const fn skip(&mut self, server: u8) {
        if self.stub.skip_failed && self.servers > 1 && server < 64 {
            self.skipped |= 1 << server;
        }
    }

    /// What the client does, now that an attempt has ended so.
    pub fn reaction(&self, attempt: Attempt, row: &Outcome) -> Reaction {
        let is_of_turn = attempt.number >= self.before;
        let on_failure = match self.stub.turn(self.turn, self.servers) {
            // One socket for all servers has no errors of any of them.
            Some(turn) if turn.server.is_some() && is_of_turn && self.stub.order != Order::All => Reaction::Next,
            _ => Reaction::Ignore,
        };
        match row.status {
            Status::Answered | Status::Late if is_of_turn || self.hears(attempt) => {
                let rcode = row.rcode.unwrap_or(0);
                let is_about_edns = rcode == FORMERR && self.has_edns();
                let reaction =
                    if is_about_edns { self.stub.reaction_with_edns(rcode) } else { self.stub.reaction(rcode) };
                match reaction {
                    Reaction::Next => on_failure,
                    reaction => reaction,
                }
            }
            // Its turn ends by the client's own time.
            Status::Timeout | Status::Answered | Status::Late | Status::Stray => Reaction::Ignore,
            _ => on_failure,
        }
    }

    /// Whether the client takes an answer to an earlier attempt: one that takes new ports after a failure has closed those before.
    pub fn hears(&self, attempt: Attempt) -> bool {
        let is_open = || attempt.port == self.stub.port(attempt.server, attempt.number, self.failures);
        self.stub.late && (self.stub.ports != Ports::UntilFailure || is_open())
    }

    /// Whether its attempts have EDNS.
    pub fn has_edns(&self) -> bool {
        Message::new(&self.query.wire).is_some_and(|query| query.opt_offset().is_some())
    }

    /// Leaves EDNS out of further attempts; `None` if there is none in the query.
    pub fn drop_edns(&mut self) -> Option<()> {
        self.query.wire = Message::new(&self.query.wire)?.without_edns()?.into();
        Some(())
    }

    /// Keeps what the lookup ends as, if nothing better comes.
    pub fn note_failure(&mut self, row: Outcome, found: Option<Fingerprint>) {
        let status = match row.status {
            Status::Timeout => return,
            Status::NotSent if self.submitted.is_some() => return,
            Status::Late => Status::Answered,
            status => status,
        };
        self.failed = Some(Box::new(Failed { row: Outcome { status, ..row }, found }));
    }

    /// The row of the lookup, compared with what the query expects.
    pub fn judged(&self, row: Outcome, found: Option<Fingerprint>, ignore: &Ignore) -> Outcome {
        let Some(expected) = self.query.expected.response() else { return row };
        row.judged(found.map(|found| Fingerprint::of(&expected, ignore).judge(found)))
    }

    /// The row of the lookup that ended as this row of an attempt.
    pub fn row(&self, row: Outcome) -> Outcome {
        Outcome { intended: self.query.due, submitted: self.submitted, attempts: self.attempts, attempt: None, ..row }
    }
}
