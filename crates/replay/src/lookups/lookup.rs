//! A lookup: whom it asks next, and what it makes of what it hears.

use ldplayer_core::client::{FAILURE, Growth, Order, Ports, Reaction, SMALLER_BELOW_NS, Stub, Turn};
use ldplayer_core::{Attempt, Expected, Fingerprint, Ignore, Message, Outcome, Query, RunTime, Status, Transport};

use super::Ask;
use super::memory::{Level, Memory};
use super::pairs::{self, Held, Place};
use crate::slab::Slot;

/// A lookup that has not ended.
#[derive(Debug)]
pub struct Lookup {
    pub query: Query,
    pub stub: Stub,
    pub serial: u32,
    pub begun: RunTime,
    /// What its pair is found by, its place in that, and the answer that waits for that of the other.
    pub key: Option<(u64, bool)>,
    pub pair: Option<Place>,
    pub held: Option<Box<Held>>,
    /// The number of servers of its client, and the one that its list begins with in this turn.
    pub servers: usize,
    pub begin: usize,
    pub turn: usize,
    /// How long the turn lasts, in nanoseconds, and when it ends.
    pub wait: i64,
    pub deadline: RunTime,
    /// Attempts so far, and those before this turn.
    pub attempts: u8,
    pub before: u8,
    /// How often it went on after a failure.
    pub failures: u8,
    /// Failures in this turn, and whether all servers were asked in it, of a client that stays with the one that answered last.
    pub failed_now: usize,
    pub asked_all: bool,
    /// The server asked last, how often that has changed, and how many servers were asked.
    pub last: Option<u8>,
    pub changes: u8,
    pub picked: usize,
    /// Whether a server was asked once more with EDNS after a failure that may be about that.
    pub has_insisted: bool,
    /// Whether EDNS was left out.
    pub is_without_edns: bool,
    /// How often each server was asked, and whether this is the second time in a row with the same query, of a client that asks the quickest.
    pub asked: Vec<u8>,
    pub is_repeat: bool,
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

/// How a lookup goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// With its next turn.
    Turn,
    /// With all servers, in the same turn.
    AskAll,
    /// It waits for the other servers.
    Wait,
}

impl Lookup {
    /// A lookup that begins at `now`.
    pub fn new(now: RunTime, query: Query, stub: Stub, serial: u32, servers: usize) -> Self {
        let key = if stub.pairs { pairs::key(&query) } else { None };
        Self {
            query,
            stub,
            serial,
            begun: now,
            key,
            pair: None,
            held: None,
            servers,
            begin: if stub.rotate { serial as usize % servers } else { 0 },
            turn: 0,
            wait: 0,
            deadline: now,
            attempts: 0,
            before: 0,
            failures: 0,
            failed_now: 0,
            asked_all: false,
            last: None,
            changes: 0,
            picked: 0,
            has_insisted: false,
            is_without_edns: false,
            asked: if stub.order == Order::Quickest { vec![0; servers] } else { Vec::new() },
            is_repeat: false,
            skipped: 0,
            resends: 0,
            submitted: None,
            id: stub.keep_id.then_some(serial as u16),
            failed: None,
        }
    }

    /// An attempt at the server of a place in the list, as the client asks that.
    pub fn ask(&mut self, slot: Slot, server: usize, memory: &Memory) -> Option<Ask> {
        let number = self.attempts;
        self.attempts = number.checked_add(1)?;
        if self.last.replace(server as u8) != Some(server as u8) {
            self.changes += u8::from(number > 0);
            self.picked += 1;
        }
        let attempt = Attempt {
            lookup: slot,
            serial: self.serial,
            number,
            server: server as u8,
            port: self.stub.port(server as u8, number, self.failures, self.changes),
            id: self.id,
            is_compared: self.query.expected != Expected::Nothing,
        };
        let mut query = Query { expected: Expected::Attempt(attempt), ..self.query.clone() };
        let level = memory.level(query.client, server);
        if level != Level::Full
            && let Some(wire) = without_edns(&query)
        {
            query.wire = wire.into();
        }
        if level == Level::OverTcp && query.transport == Transport::Udp {
            query.transport = Transport::Tcp;
        }
        Some(Ask { query, server })
    }

    /// The server at a place of the list, as this lookup goes through it.
    pub const fn server(&self, place: usize) -> usize {
        (self.begin + place) % self.servers
    }

    /// The turn that begins at `now`: that of a server which the client does not leave out, or stays with.
    pub fn next_turn(&mut self, now: RunTime, memory: &mut Memory) -> Option<Turn> {
        let client = self.query.client;
        loop {
            let mut turn = self.stub.turn(self.turn, self.servers)?;
            match self.stub.order {
                Order::Current => {
                    self.begin = memory.current(client) % self.servers;
                    if memory.level(client, self.begin) == Level::OverTcp {
                        turn.wait = turn.wait.saturating_mul(2);
                    }
                }
                Order::LastGood => {
                    self.begin = memory.current(client) % self.servers;
                    self.asked_all = self.turn > 0 || memory.is_to_test(now, client);
                    turn.server = turn.server.filter(|_| !self.asked_all || self.servers == 1);
                }
                Order::Quickest => {
                    self.pick(memory)?;
                    turn.wait = memory.timeout(client, self.begin, self.stub.timeout);
                }
                Order::OneByOne | Order::All | Order::ThenAll => {}
            }
            let server = turn.server.map(|place| self.server(place)).filter(|server| *server < 64);
            if server.is_none_or(|server| self.skipped >> server & 1 == 0) {
                return Some(turn);
            }
            self.turn += 1;
        }
    }

    /// Chooses one of the quickest servers, or stays with that of the turn before; `None` if all were asked as often as they may be.
    fn pick(&mut self, memory: &Memory) -> Option<()> {
        if self.is_repeat {
            return Some(());
        }
        let may_ask: Vec<bool> = self.asked.iter().map(|&asked| asked < self.stub.attempts).collect();
        let drawn = u64::from(self.serial) << 8 | u64::from(self.attempts);
        let drawn = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        self.begin = memory.quickest(self.query.client, &may_ask, self.stub.timeout, drawn as usize)?;
        self.asked[self.begin] += 1;
        Some(())
    }

    /// A response in time, whatever it says, shows how quick its server is.
    pub fn note_round_trip(&self, attempt: Attempt, row: &Outcome, memory: &mut Memory) {
        if self.stub.growth == Growth::RoundTrips
            && attempt.number >= self.before
            && let Some((submitted, answered)) = row.submitted.zip(row.answered)
        {
            memory.note_round_trip(
                self.query.client,
                attempt.server.into(),
                self.stub.timeout,
                Ok(answered - submitted),
            );
        }
    }

    /// Leaves a server out that failed, if the client does so and has others.
    pub const fn skip(&mut self, server: u8) {
        if self.stub.skip_failed && self.servers > 1 && server < 64 {
            self.skipped |= 1 << server;
        }
    }

    /// Whether one more failure, with this code if it has one, is the last: `current` has then tried as many servers as it has, and of
    /// `last-good` all servers that were asked at once have refused, or one has failed.
    pub fn is_last_failure(&self, rcode: Option<u16>) -> bool {
        match self.stub.order {
            Order::Current => self.picked >= self.servers,
            Order::LastGood => self.asked_all && (rcode == Some(FAILURE) || self.failed_now + 1 >= self.asked_now()),
            Order::OneByOne | Order::All | Order::ThenAll | Order::Quickest => false,
        }
    }

    /// Attempts in this turn.
    const fn asked_now(&self) -> usize {
        (self.attempts - self.before) as usize
    }

    /// How it goes on after the failure of a server.
    pub fn after_failure(&mut self, server: u8, memory: &mut Memory) -> After {
        self.failed_now += 1;
        self.is_repeat = false;
        match self.stub.order {
            Order::LastGood if self.asked_all => After::Wait,
            Order::LastGood => {
                self.asked_all = true;
                After::AskAll
            }
            Order::Current => {
                memory.leave(self.query.client, server.into(), self.servers);
                After::Turn
            }
            Order::OneByOne | Order::All | Order::ThenAll | Order::Quickest => After::Turn,
        }
    }

    /// Nobody answered in this turn.
    pub fn note_silence(&mut self, memory: &mut Memory) {
        match self.stub.order {
            Order::Current => self.leave_silent(memory),
            Order::Quickest => {
                let is_short = self.wait < SMALLER_BELOW_NS && self.has_edns(self.begin as u8, memory);
                self.is_repeat = is_short && !self.is_repeat;
                if !self.is_repeat {
                    memory.note_round_trip(self.query.client, self.begin, self.stub.timeout, Err(self.wait));
                }
            }
            Order::OneByOne | Order::All | Order::ThenAll | Order::LastGood => {}
        }
    }

    fn leave_silent(&self, memory: &mut Memory) {
        if self.stub.downgrade > 0 {
            memory.note_silence(self.query.client, self.begin, self.stub.downgrade);
        }
        memory.leave(self.query.client, self.begin, self.servers);
    }

    /// A server gave the answer that the client takes.
    pub fn note_answer(&self, server: u8, is_usable: bool, memory: &mut Memory) {
        let (client, server) = (self.query.client, usize::from(server));
        match self.stub.order {
            Order::LastGood => memory.stay(client, server),
            Order::Current | Order::Quickest if self.is_without_edns && is_usable => {
                memory.note_lack_of_edns(client, server);
            }
            Order::Current if self.stub.downgrade > 0 => memory.note_answer(client, server),
            _ => {}
        }
    }

    /// What the client does, now that an attempt has ended so.
    pub fn reaction(&self, attempt: Attempt, row: &Outcome, memory: &Memory) -> Reaction {
        let is_of_turn = attempt.number >= self.before;
        let on_failure = match self.stub.turn(self.turn, self.servers) {
            Some(turn) if turn.server.is_some() && is_of_turn => Reaction::Next,
            _ => Reaction::Ignore,
        };
        match row.status {
            Status::Answered | Status::Late if is_of_turn || self.hears(attempt) => {
                let rcode = row.rcode.unwrap_or(0);
                let reaction = match self.stub.reaction_with_edns(rcode) {
                    Reaction::WithoutEdns if !self.has_edns(attempt.server, memory) => self.stub.reaction(rcode),
                    reaction => reaction,
                };
                match reaction {
                    Reaction::Next if self.stub.order != Order::LastGood => on_failure,
                    reaction => reaction,
                }
            }
            // Its turn ends by the client's own time.
            Status::Timeout | Status::Answered | Status::Late | Status::Stray => Reaction::Ignore,
            _ if self.hears_errors(row.transport) => on_failure,
            _ => Reaction::Ignore,
        }
    }

    /// Whether the client hears that a server cannot be reached: one socket for all servers has no errors of any of them, and Unbound
    /// passes over those of its UDP sockets.
    fn hears_errors(&self, transport: Transport) -> bool {
        match self.stub.order {
            Order::All | Order::LastGood => false,
            Order::Quickest => transport != Transport::Udp,
            _ => true,
        }
    }

    /// Whether the client takes an answer to an earlier attempt: one that takes new ports has closed those before.
    pub fn hears(&self, attempt: Attempt) -> bool {
        let closes = matches!(self.stub.ports, Ports::UntilFailure | Ports::ByChange);
        let port = self.stub.port(attempt.server, attempt.number, self.failures, self.changes);
        self.stub.late && (!closes || attempt.port == port)
    }

    /// Whether an attempt at this server has EDNS.
    pub fn has_edns(&self, server: u8, memory: &Memory) -> bool {
        let is_full = memory.level(self.query.client, server.into()) == Level::Full;
        is_full && Message::new(&self.query.wire).is_some_and(|query| query.opt_offset().is_some())
    }

    /// Leaves EDNS out of further attempts; `None` if there is none in the query.
    pub fn drop_edns(&mut self) -> Option<()> {
        self.query.wire = without_edns(&self.query)?.into();
        self.is_without_edns = true;
        Some(())
    }

    /// Whether it leaves EDNS out after a failure with this code, and does not ask once more with it.
    pub fn is_to_drop_edns(&mut self, rcode: u16) -> bool {
        !self.stub.insists(rcode) || std::mem::replace(&mut self.has_insisted, true)
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

/// The message of a query without its OPT record; `None` if it has none.
fn without_edns(query: &Query) -> Option<Vec<u8>> {
    Message::new(&query.wire)?.without_edns()
}
