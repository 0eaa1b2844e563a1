//! The lookups of clients that react: what each of them asks, whom, and until when, as its model says.
//!
//! A lookup is a query of the trace; its attempts are queries of their own to the machines, which tell how each of them ended. It owns no
//! socket and reads no clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use ldplayer_core::client::{ClientModel, FORMERR, Order, Ports, RESENDS, Reaction, Stub, Turn, is_usable};
use ldplayer_core::{Attempt, Expected, Fingerprint, Ignore, Message, Outcome, Policy, Query, Reason, RunTime, Status};

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
    open: Slab<Lookup>,
    /// The next attempts are numbered from here; tells lookups in the same slot apart.
    serial: u32,
    /// When the turns of lookups end. Those that have ended are passed over.
    timers: BinaryHeap<Reverse<(RunTime, Slot, u32)>>,
    asks: VecDeque<Ask>,
    outcomes: Vec<Outcome>,
    counts: Counts,
}

/// A lookup that has not ended.
#[derive(Debug)]
struct Lookup {
    query: Query,
    stub: Stub,
    serial: u32,
    /// The number of servers of its client, and the one that it began with.
    servers: usize,
    begin: usize,
    turn: usize,
    /// When the turn ends.
    deadline: RunTime,
    /// Attempts so far, and those before this turn.
    attempts: u8,
    before: u8,
    /// How often it went on after a failure.
    failures: u8,
    /// The servers that have failed, of a client that leaves them out: the bit of each of the first 64.
    skipped: u64,
    /// How often in this turn a server was asked again after its failure.
    resends: u8,
    submitted: Option<RunTime>,
    /// The ID of all attempts, of one that keeps it.
    id: Option<u16>,
    /// The last attempt that failed.
    failed: Option<Box<Failed>>,
}

/// An attempt that failed.
#[derive(Debug)]
struct Failed {
    row: Outcome,
    found: Option<Fingerprint>,
}

impl Lookups {
    /// Those of clients with these policies; `None` where no client reacts.
    pub fn new(policies: &[Policy], ignore: &Arc<Ignore>) -> Option<Self> {
        let models: Vec<ClientModel> = policies.iter().map(|policy| policy.client).collect();
        models.iter().any(|model| *model != ClientModel::Open).then(|| Self {
            models,
            ignore: Arc::clone(ignore),
            open: Slab::default(),
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
        let servers = servers.clamp(1, MOST_SERVERS);
        let lookup = Lookup {
            query,
            stub,
            serial: self.serial,
            servers,
            begin: if stub.rotate { self.serial as usize % servers } else { 0 },
            turn: 0,
            deadline: now,
            attempts: 0,
            before: 0,
            failures: 0,
            skipped: 0,
            resends: 0,
            submitted: None,
            id: stub.keep_id.then_some(self.serial as u16),
            failed: None,
        };
        let slot = self.open.insert(lookup);
        self.begin_turn(now, slot);
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
            let is_over = |lookup: &Lookup| lookup.serial == serial && lookup.deadline <= now;
            if self.open.get(slot).is_some_and(is_over) {
                self.next_turn(at, slot);
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
        let Some(turn) = lookup.next_turn() else { return self.give_up(slot, None) };
        (lookup.before, lookup.resends, lookup.deadline) = (lookup.attempts, 0, now + turn.wait);
        self.timers.push(Reverse((lookup.deadline, slot, lookup.serial)));
        match turn.server {
            Some(place) => {
                let server = lookup.server(place);
                self.asks.extend(lookup.ask(slot, server));
            }
            None => self.asks.extend((0..lookup.servers).filter_map(|server| lookup.ask(slot, server))),
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
        let wait = lookup.stub.turn(lookup.turn, lookup.servers).map_or(0, |turn| turn.wait);
        if attempt.number == lookup.before && at + wait > lookup.deadline {
            lookup.deadline = at + wait;
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
        match lookup.reaction(attempt, &row) {
            Reaction::Accept => self.accept(attempt.lookup, row, found),
            Reaction::Ignore => lookup.note_failure(row, found),
            Reaction::Next => {
                lookup.failures = lookup.failures.saturating_add(1);
                lookup.skip(attempt.server);
                lookup.note_failure(row, found);
                self.next_turn(now, attempt.lookup);
            }
            Reaction::WithoutEdns => {
                lookup.note_failure(row, found);
                if lookup.drop_edns().is_some() {
                    self.asks.extend(lookup.ask(attempt.lookup, attempt.server.into()));
                }
            }
            Reaction::Again => {
                lookup.note_failure(row, found);
                if lookup.resends < RESENDS {
                    lookup.resends += 1;
                    self.asks.extend(lookup.ask(attempt.lookup, attempt.server.into()));
                }
            }
        }
    }

    /// Ends a lookup with the answer of an attempt. One that is of no use to whoever asked was the client's last all the same.
    fn accept(&mut self, slot: Slot, row: Outcome, found: Option<Fingerprint>) {
        let Some(lookup) = self.open.remove(slot) else { return };
        let gave_up = !is_usable(row.rcode.unwrap_or(0));
        let row = lookup.row(Outcome { status: Status::Answered, gave_up, ..row });
        self.finish(lookup.judged(row, found, &self.ignore));
    }

    /// Ends a lookup without an answer that its client takes.
    fn give_up(&mut self, slot: Slot, reason: Option<Reason>) {
        let Some(mut lookup) = self.open.remove(slot) else { return };
        let mut found = None;
        let row = match lookup.failed.take() {
            Some(failed) if reason.is_none() => {
                found = failed.found;
                failed.row
            }
            _ if lookup.submitted.is_none() => Outcome {
                status: Status::NotSent,
                reason: reason.or(Some(Reason::SendError)),
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

impl Lookup {
    /// An attempt at the server of a place in the list.
    fn ask(&mut self, slot: Slot, server: usize) -> Option<Ask> {
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
    const fn server(&self, place: usize) -> usize {
        (self.begin + place) % self.servers
    }

    /// The turn that begins now: that of a server which the client does not leave out.
    fn next_turn(&mut self) -> Option<Turn> {
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
    const fn skip(&mut self, server: u8) {
        if self.stub.skip_failed && self.servers > 1 && server < 64 {
            self.skipped |= 1 << server;
        }
    }

    /// What the client does, now that an attempt has ended so.
    fn reaction(&self, attempt: Attempt, row: &Outcome) -> Reaction {
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
    fn hears(&self, attempt: Attempt) -> bool {
        let is_open = || attempt.port == self.stub.port(attempt.server, attempt.number, self.failures);
        self.stub.late && (self.stub.ports != Ports::UntilFailure || is_open())
    }

    /// Whether its attempts have EDNS.
    fn has_edns(&self) -> bool {
        Message::new(&self.query.wire).is_some_and(|query| query.opt_offset().is_some())
    }

    /// Leaves EDNS out of further attempts; `None` if there is none in the query.
    fn drop_edns(&mut self) -> Option<()> {
        self.query.wire = Message::new(&self.query.wire)?.without_edns()?.into();
        Some(())
    }

    /// Keeps what the lookup ends as, if nothing better comes.
    fn note_failure(&mut self, row: Outcome, found: Option<Fingerprint>) {
        let status = match row.status {
            Status::Timeout => return,
            Status::NotSent if self.submitted.is_some() => return,
            Status::Late => Status::Answered,
            status => status,
        };
        self.failed = Some(Box::new(Failed { row: Outcome { status, ..row }, found }));
    }

    /// The row of the lookup, compared with what the query expects.
    fn judged(&self, row: Outcome, found: Option<Fingerprint>, ignore: &Ignore) -> Outcome {
        let Some(expected) = self.query.expected.response() else { return row };
        row.judged(found.map(|found| Fingerprint::of(&expected, ignore).judge(found)))
    }

    /// The row of the lookup that ended as this row of an attempt.
    fn row(&self, row: Outcome) -> Outcome {
        Outcome { intended: self.query.due, submitted: self.submitted, attempts: self.attempts, attempt: None, ..row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::query;
    use ldplayer_core::message::QueryParts;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;
    const S: i64 = 1_000 * MS;

    /// Status, code, attempts, milliseconds, and whether the client gave up.
    type Ended = (Status, Option<u16>, u8, Option<i64>, bool);

    /// Lookups of clients of one model, and machines that send at once.
    struct Sim {
        lookups: Lookups,
        /// Attempts on their way, with the server.
        sent: Vec<(Attempt, usize, RunTime)>,
    }

    impl Sim {
        fn new(model: &str, servers: usize) -> Self {
            let policy = Policy { client: model.parse().unwrap(), ..Policy::default() };
            let lookups = Lookups::new(&[policy], &Arc::default()).unwrap();
            let mut sim = Self { lookups, sent: Vec::new() };
            sim.lookups.handle_query(RunTime(0), query(7, 0), servers);
            sim.send(0);
            sim
        }

        fn send(&mut self, now: i64) {
            while let Some(Ask { query, server }) = self.lookups.poll_ask() {
                let Expected::Attempt(attempt) = query.expected else { panic!("{query:?}") };
                self.lookups.handle_event(RunTime(now), AttemptEvent::Sent(attempt, RunTime(now)));
                self.sent.push((attempt, server, RunTime(now)));
            }
        }

        /// An attempt ends.
        fn end(&mut self, number: usize, now: i64, status: Status, rcode: Option<u16>) {
            let (attempt, _, submitted) = self.sent[number];
            let answered = rcode.map(|_| RunTime(now));
            let row =
                Outcome { submitted: Some(submitted), answered, status, rcode, ..Outcome::unfinished(&query(7, 0)) };
            let end = AttemptEnd { attempt, row, found: None };
            self.lookups.handle_event(RunTime(now), AttemptEvent::Ended(end));
            self.send(now);
        }

        fn answer(&mut self, number: usize, now: i64, rcode: u16) {
            self.end(number, now, Status::Answered, Some(rcode));
        }

        /// Lets time pass, timeout by timeout.
        fn run_until(&mut self, until: i64) {
            while let Some(at) = self.lookups.poll_timeout().filter(|at| at.0 <= until) {
                self.lookups.handle_timeout(at);
                self.send(at.0);
            }
        }

        /// Server and time in milliseconds of each attempt.
        fn asked(&self) -> String {
            let asked = self.sent.iter().map(|(_, server, at)| format!("{server}@{}", at.0 / MS));
            asked.collect::<Vec<_>>().join(" ")
        }

        /// How the lookup ended, once it has.
        fn row(&mut self) -> Option<Ended> {
            let mut rows: Vec<Outcome> =
                self.lookups.outcomes().drain(..).filter(|row| row.attempt.is_none()).collect();
            assert!(rows.len() <= 1, "{rows:?}");
            let row = rows.pop()?;
            assert_eq!((row.index, row.submitted), (7, Some(RunTime(0))));
            let took = row.answered.map(|answered| (answered - RunTime(0)) / MS);
            Some((row.status, row.rcode, row.attempts, took, row.gave_up))
        }
    }

    /// The model of musl went on at once after ICMP, which its one socket for all servers does not hear of.
    #[test]
    fn musl_does_not_hear_that_a_port_is_closed() {
        let refused = |model: &str| {
            let mut sim = Sim::new(model, 1);
            sim.end(0, MS, Status::Refused, None);
            sim.run_until(S);
            (sim.asked(), sim.lookups.open())
        };
        assert_eq!(refused("musl"), ("0@0".to_owned(), 1));
        assert_eq!(refused("glibc"), ("0@0 0@1".to_owned(), 1));
    }

    #[test]
    fn silence_leads_through_the_list_of_servers_and_to_a_timeout() {
        let mut glibc = Sim::new("glibc", 2);
        glibc.run_until(60 * S);
        assert_eq!(glibc.asked(), "0@0 1@5000 0@10000 1@15000");
        assert_eq!(glibc.row(), Some((Status::Timeout, None, 4, None, true)));
        assert_eq!((glibc.lookups.open(), glibc.lookups.counts().timed_out, glibc.lookups.counts().sent), (0, 1, 1));
    }

    #[test]
    fn a_failure_leads_to_the_next_server_at_once_and_is_the_answer_where_nothing_better_comes() {
        let mut glibc = Sim::new("glibc", 2);
        glibc.answer(0, 3 * MS, 2);
        assert_eq!(glibc.asked(), "0@0 1@3");
        glibc.answer(1, 9 * MS, 0);
        assert_eq!(glibc.row(), Some((Status::Answered, Some(0), 2, Some(9), false)));
        let mut alone = Sim::new("glibc", 1);
        [1, 2].into_iter().zip(0..).for_each(|(ms, number)| alone.answer(number, ms * MS, 5));
        assert_eq!(alone.row(), Some((Status::Answered, Some(5), 2, Some(2), true)));
        let mut refused = Sim::new("go", 1);
        [1, 2].into_iter().zip(0..).for_each(|(ms, number)| refused.end(number, ms * MS, Status::Refused, None));
        assert_eq!(refused.row(), Some((Status::Refused, None, 2, None, true)));
        assert_eq!(refused.lookups.counts().failed, 1);
    }

    #[test]
    fn one_that_asks_all_servers_takes_the_first_answer_and_passes_over_refusals() {
        let mut musl = Sim::new("musl", 2);
        assert_eq!(musl.asked(), "0@0 1@0");
        musl.answer(1, MS, 5);
        musl.run_until(3 * S);
        assert_eq!(musl.asked(), "0@0 1@0 0@2500 1@2500");
        musl.answer(0, 3 * S, 3);
        assert_eq!(musl.row(), Some((Status::Answered, Some(3), 4, Some(3_000), false)), "late, but the same ID");
    }

    #[test]
    fn a_server_failure_is_asked_again_twice_in_a_turn_by_musl() {
        let mut musl = Sim::new("musl", 1);
        (0..4).for_each(|number| {
            if number < musl.sent.len() {
                musl.answer(number, 4 * MS, 2)
            }
        });
        assert_eq!(musl.asked(), "0@0 0@4 0@4");
        musl.run_until(2_500 * MS);
        assert_eq!(musl.sent.len(), 4, "{}", musl.asked());
    }

    #[test]
    fn an_answer_to_an_earlier_attempt_is_taken_only_by_those_that_still_listen() {
        let mut glibc = Sim::new("glibc", 1);
        glibc.run_until(5 * S);
        glibc.end(0, 5_100 * MS, Status::Late, Some(0));
        assert_eq!(glibc.row(), Some((Status::Answered, Some(0), 2, Some(5_100), false)));
        let mut go = Sim::new("go", 1);
        go.run_until(5 * S);
        go.end(0, 5_100 * MS, Status::Late, Some(0));
        assert_eq!(go.row(), None);
        go.answer(1, 5_200 * MS, 0);
        assert_eq!(go.row(), Some((Status::Answered, Some(0), 2, Some(5_200), false)));
    }

    /// The model of glibc took an answer at a port that glibc has closed.
    #[test]
    fn an_answer_at_a_port_that_was_closed_after_a_failure_is_not_heard() {
        let mut glibc = Sim::new("glibc", 2);
        glibc.run_until(5 * S);
        glibc.answer(1, 5_010 * MS, 2);
        assert_eq!(glibc.asked(), "0@0 1@5000 0@5010");
        glibc.end(0, 5_020 * MS, Status::Late, Some(0));
        assert_eq!(glibc.row(), None);
        glibc.answer(2, 5_030 * MS, 0);
        assert_eq!(glibc.row(), Some((Status::Answered, Some(0), 3, Some(5_030), false)));
    }

    /// The model of c-ares went back to a server that had failed.
    #[test]
    fn a_server_that_failed_is_left_out_by_ares() {
        let mut ares = Sim::new("c-ares", 3);
        ares.run_until(5 * S);
        ares.answer(1, 5 * S, 2);
        ares.run_until(60 * S);
        assert_eq!(ares.asked(), "0@0 1@5000 2@5000 0@10000 2@20000 0@30000 2@50000");
        let mut alone = Sim::new("c-ares", 1);
        (0..4).for_each(|number| alone.answer(number, MS, 5));
        assert_eq!(alone.asked(), "0@0 0@1 0@1 0@1");
        let mut all_fail = Sim::new("c-ares", 2);
        (0..2).for_each(|number| all_fail.answer(number, MS, 2));
        assert_eq!(all_fail.row(), Some((Status::Answered, Some(2), 2, Some(1), true)));
    }

    /// A lookup of a query with EDNS whose client has these servers.
    fn with_edns(model: &str, servers: usize) -> Sim {
        let policy = Policy { client: model.parse().unwrap(), ..Policy::default() };
        let mut sim = Sim { lookups: Lookups::new(&[policy], &Arc::default()).unwrap(), sent: Vec::new() };
        let mut wire = Vec::new();
        let parts =
            QueryParts { id: 1, flags: 0, name: &[1, b'a', 0], qtype: 1, qclass: 1, edns: Some((1_232, false)) };
        parts.compose(&mut wire);
        sim.lookups.handle_query(RunTime(0), Query { wire: wire.into(), ..query(7, 0) }, servers);
        sim.send(0);
        sim
    }

    #[test]
    fn after_formerr_ares_leaves_edns_out_and_glibc_gives_up() {
        let octets =
            |sim: &Sim| sim.lookups.open.slots().map(|slot| sim.lookups.open.get(slot).unwrap().query.wire.len()).max();
        let mut ares = with_edns("c-ares", 2);
        let before = octets(&ares);
        ares.answer(0, MS, FORMERR);
        assert_eq!((ares.asked(), octets(&ares)), ("0@0 0@1".to_owned(), before.map(|octets| octets - 11)));
        ares.answer(1, 2 * MS, FORMERR);
        assert_eq!(
            ares.row(),
            Some((Status::Answered, Some(1), 2, Some(2), true)),
            "without EDNS it is the last answer"
        );
        let mut glibc = with_edns("glibc", 2);
        glibc.answer(0, MS, FORMERR);
        assert_eq!(glibc.row(), Some((Status::Answered, Some(1), 1, Some(1), true)));
    }

    #[test]
    fn what_cannot_be_sent_was_not_asked() {
        let policy = Policy { client: "glibc".parse().unwrap(), ..Policy::default() };
        let mut lookups = Lookups::new(&[policy], &Arc::default()).unwrap();
        lookups.handle_query(RunTime(0), query(7, 0), 1);
        while let Some(Ask { query, .. }) = lookups.poll_ask() {
            let Expected::Attempt(attempt) = query.expected else { panic!() };
            let row = Outcome::not_sent(&query, Reason::OutOfIds);
            lookups.handle_event(RunTime(0), AttemptEvent::Ended(AttemptEnd { attempt, row, found: None }));
        }
        let rows: Vec<_> = lookups.outcomes().drain(..).map(|row| (row.status, row.reason, row.attempt)).collect();
        assert_eq!(rows, [(Status::NotSent, Some(Reason::OutOfIds), None)]);
        assert_eq!((lookups.counts().sent, lookups.counts().not_sent), (0, 1));
    }

    #[test]
    fn an_interrupt_ends_every_lookup() {
        let mut sim = Sim::new("glibc", 2);
        sim.lookups.handle_interrupt();
        assert_eq!(sim.row(), Some((Status::Timeout, None, 1, None, true)));
        assert!(sim.lookups.poll_ask().is_none() && sim.lookups.open() == 0);
        sim.end(0, S, Status::Timeout, None);
        assert_eq!(sim.lookups.outcomes().len(), 1, "the attempt has its row all the same");
    }

    #[test]
    fn clients_that_do_not_react_have_no_lookups() {
        assert!(Lookups::new(&[Policy::default()], &Arc::default()).is_none());
        let classes = [Policy::default(), Policy { client: "go".parse().unwrap(), ..Policy::default() }];
        let lookups = Lookups::new(&classes, &Arc::default()).unwrap();
        let of = |class| lookups.is_for(&Query { class, ..query(1, 0) });
        assert_eq!([None, Some(0), Some(1), Some(9)].map(of), [false, false, true, false]);
    }

    proptest! {
        /// Whatever the servers do, each lookup has one row, with as many attempts as were sent, and ends in bounded time.
        #[test]
        fn a_lookup_ends_once_with_all_its_attempts(
            model in prop::sample::select(vec!["glibc", "musl", "go", "c-ares", "windows", "custom:rotate=on,order=then-all", "custom:rotate=on,skip-failed=on"]),
            servers in 1..4_usize,
            ends in prop::collection::vec((0..8_u8, 0..4_000_i64), 0..40),
        ) {
            let mut sim = Sim::new(model, servers);
            let mut ended = 0;
            let mut now = 0;
            for (what, after) in ends {
                now += after * MS;
                sim.run_until(now);
                if ended >= sim.sent.len() {
                    continue;
                }
                match what {
                    0..=5 => sim.answer(ended, now, [0, 2, 3, 4, 5, 2][usize::from(what)]),
                    6 => sim.end(ended, now, Status::Refused, None),
                    _ => sim.end(ended, now, Status::Timeout, None),
                }
                ended += 1;
            }
            sim.run_until(i64::MAX / 4);
            let attempts = sim.sent.len();
            let (.., told, _, _) = sim.row().unwrap();
            prop_assert_eq!(usize::from(told), attempts);
            prop_assert_eq!((sim.lookups.open(), sim.lookups.poll_ask().is_none()), (0, true));
        }
    }
}
