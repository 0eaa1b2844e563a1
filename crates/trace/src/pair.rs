//! Pairs queries with their responses by addresses, ports, connection, ID and question.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use ldplayer_core::{Message, TraceTime, Transaction, Transport};

use crate::arena::Arena;

/// Timeout for responses in nanoseconds of the trace.
const PATIENCE: i64 = 10_000_000_000;
/// Timeout for queries captured after their response, in nanoseconds of the trace. Clocks and queues of two taps differ by
/// milliseconds; clients wait longer before they repeat a query with the same ID.
const EARLY: i64 = 50_000_000;
/// A step of the timestamps that may be an error, in nanoseconds.
const JUMP: i64 = 60_000_000_000;
/// Maximum number of waiting messages that a message is compared with.
const MAX_COMPARED: usize = 256;
/// Maximum number of waiting transactions; the messages of one TCP segment may exceed it.
const MAX_WAITING: usize = 120_000;
/// Maximum total size of waiting messages in octets.
const MAX_OCTETS: usize = 32 << 20;
/// Number of hash chains; a power of two of about the number of waiting transactions.
const CHAINS: usize = 1 << 17;
/// Added to a number, it gives one that no waiting transaction has.
const NOWHERE: u32 = 1 << 31;

/// A message with its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// When.
    pub time: TraceTime,
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// What carried it.
    pub transport: Transport,
    /// Its connection.
    pub stream: Option<u64>,
    /// The message.
    pub octets: &'a [u8],
}

/// Incomplete transactions, in the order in which they began.
pub(crate) struct Pairing {
    waiting: VecDeque<Waiting>,
    /// Number of the first of `waiting`. Numbers wrap around, but are unique among those waiting.
    first: u32,
    /// The newest message of each chain. A number that is no longer waiting ends a chain, so that chains need no
    /// removal.
    newest: Vec<u32>,
    /// Number of responses that wait for their query.
    early: usize,
    octets: usize,
    max_waiting: usize,
    max_octets: usize,
    clock: Clock,
    arena: Arena,
}

/// The remaining room of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Transactions.
    pub rows: usize,
    /// Octets of messages; the last transaction may exceed it.
    pub octets: usize,
}

impl Pairing {
    /// For one of several inputs, which share the limits.
    pub fn one_of(inputs: usize) -> Self {
        Self {
            max_waiting: MAX_WAITING / inputs.max(1),
            max_octets: MAX_OCTETS / inputs.max(1),
            waiting: VecDeque::new(),
            first: 0,
            newest: vec![NOWHERE; CHAINS],
            early: 0,
            octets: 0,
            clock: Clock::default(),
            arena: Arena::default(),
        }
    }
}

/// The time of the capture, robust against a single wrong timestamp.
#[derive(Default)]
struct Clock {
    now: Option<TraceTime>,
    jumped: bool,
}

impl Clock {
    fn see(&mut self, time: TraceTime) {
        let far = self.now.is_some_and(|now| (time - now).abs() > JUMP);
        // The second distant timestamp in a row is accepted.
        if !far || self.jumped {
            self.now = Some(time);
        }
        self.jumped = far && !self.jumped;
    }

    /// Whether `time` is further than `patience` from the current time. Always false after a first distant timestamp, which may be
    /// an error or the end of a pause.
    fn is_past(&self, time: TraceTime, patience: i64) -> bool {
        !self.jumped && self.now.is_some_and(|now| (now - time).abs() > patience)
    }
}

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// A query without response.
    Response,
    /// A response without query.
    Query,
    /// Complete.
    Nothing,
    /// Merged into another one, to be skipped.
    All,
}

impl Lacks {
    fn patience(self) -> i64 {
        match self {
            Self::Response => PATIENCE,
            Self::Query => EARLY,
            Self::Nothing | Self::All => 0,
        }
    }
}

struct Waiting {
    transaction: Transaction,
    key: u64,
    /// The next older one of the chain; at its end, a number that is not waiting.
    older: u32,
    lacks: Lacks,
}

/// A waiting message, and the next newer one of its chain.
#[derive(Clone, Copy)]
struct ChainEntry {
    at: usize,
    newer: Option<usize>,
}

impl Pairing {
    /// Adds a message.
    pub fn add(&mut self, seen: &Seen<'_>, message: &Message<'_>) {
        self.clock.see(seen.time);
        if message.is_response() {
            self.add_response(seen, message);
        } else {
            self.add_query(seen, message);
        }
    }

    /// Adds a query with its `response`, from an input that pairs them itself. If the query is waiting already, completes it and
    /// returns `false`.
    pub fn add_both(&mut self, query: &Seen<'_>, response: &Seen<'_>, message: &Message<'_>) -> bool {
        let (client, server) = (query.from, query.to);
        let key = key(client, server, query.stream, message.id());
        let mut transaction = transaction(query, client, server);
        if self.matching(key, &transaction, message, Lacks::Response).is_some() {
            self.add(response, message);
            return false;
        }
        self.clock.see(response.time);
        transaction.query = Some(self.arena.keep(query.octets));
        transaction.response = Some(self.arena.keep(response.octets));
        transaction.response_delay = Some(response.time - query.time);
        self.push(transaction, key, Lacks::Nothing);
        true
    }

    /// Moves complete or expired transactions to `batch` while there is room; all of them at the `end`.
    pub fn drain(&mut self, batch: &mut Vec<Transaction>, room: &mut Room, end: bool) {
        while let Some(front) = self.waiting.front()
            && room.rows > 0
            && room.octets > 0
        {
            let full = self.waiting.len() > self.max_waiting || self.octets > self.max_octets;
            let lacks = matches!(front.lacks, Lacks::Response | Lacks::Query);
            if lacks && !full && !end && !self.clock.is_past(front.transaction.time, front.lacks.patience()) {
                break;
            }
            self.yield_front(batch, room);
        }
    }

    fn yield_front(&mut self, batch: &mut Vec<Transaction>, room: &mut Room) {
        let Some(front) = self.waiting.pop_front() else { return };
        self.first = self.first.wrapping_add(1);
        self.early -= usize::from(front.lacks == Lacks::Query);
        let octets = size(&front.transaction);
        self.octets -= octets;
        if front.lacks != Lacks::All {
            room.rows -= 1;
            room.octets = room.octets.saturating_sub(octets);
            batch.push(front.transaction);
        }
    }

    fn add_query(&mut self, seen: &Seen<'_>, message: &Message<'_>) {
        let (client, server) = (seen.from, seen.to);
        let key = key(client, server, seen.stream, message.id());
        let query = self.arena.keep(seen.octets);
        let mut transaction = transaction(seen, client, server);
        transaction.query = Some(query);
        let early = if self.early > 0 { self.matching(key, &transaction, message, Lacks::Query) } else { None };
        let Some(found) = early else { return self.push(transaction, key, Lacks::Response) };
        self.unchain(key, found);
        let response = &mut self.waiting[found.at];
        response.lacks = Lacks::All;
        self.octets -= size(&response.transaction);
        transaction.response_delay = Some(response.transaction.time - seen.time);
        transaction.response = response.transaction.response.take();
        self.early -= 1;
        self.push(transaction, key, Lacks::Nothing);
    }

    fn add_response(&mut self, seen: &Seen<'_>, message: &Message<'_>) {
        let (client, server) = (seen.to, seen.from);
        let key = key(client, server, seen.stream, message.id());
        let response = self.arena.keep(seen.octets);
        let mut transaction = transaction(seen, client, server);
        let Some(found) = self.matching(key, &transaction, message, Lacks::Response) else {
            transaction.response = Some(response);
            self.early += 1;
            return self.push(transaction, key, Lacks::Query);
        };
        self.unchain(key, found);
        self.octets += response.len();
        let waiting = &mut self.waiting[found.at];
        waiting.lacks = Lacks::Nothing;
        waiting.transaction.response_delay = Some(seen.time - waiting.transaction.time);
        waiting.transaction.response = Some(response);
    }

    /// The oldest waiting message that matches `message`, among the newest [`MAX_COMPARED`] of the chain. A response may lack
    /// the question, as some errors do and those that the capture cut.
    fn matching(&self, key: u64, ends: &Transaction, message: &Message<'_>, lacks: Lacks) -> Option<ChainEntry> {
        let (mut found, mut newer) = (None, None);
        let mut number = self.newest[chain(key)];
        for _ in 0..MAX_COMPARED {
            let at = number.wrapping_sub(self.first) as usize;
            let Some(waiting) = self.waiting.get(at) else { break };
            if waiting.key == key && waiting.lacks == lacks && waiting.fits(ends, message) {
                found = Some(ChainEntry { at, newer });
            }
            newer = Some(at);
            number = waiting.older;
        }
        found
    }

    /// Appends a transaction; an incomplete one also to its chain.
    fn push(&mut self, transaction: Transaction, key: u64, lacks: Lacks) {
        self.octets += size(&transaction);
        let number = self.first.wrapping_add(self.waiting.len() as u32);
        let mut older = number.wrapping_add(NOWHERE);
        if matches!(lacks, Lacks::Response | Lacks::Query) {
            let newest = std::mem::replace(&mut self.newest[chain(key)], number);
            // A number that is not waiting must not be mistaken for a later one once numbers wrap around.
            if (newest.wrapping_sub(self.first) as usize) < self.waiting.len() {
                older = newest;
            }
        }
        self.waiting.push_back(Waiting { transaction, key, older, lacks });
    }

    fn unchain(&mut self, key: u64, found: ChainEntry) {
        let older = self.waiting[found.at].older;
        match found.newer {
            Some(newer) => self.waiting[newer].older = older,
            None => self.newest[chain(key)] = older,
        }
    }
}

impl Waiting {
    /// Whether `message`, between the same ends, belongs to this one.
    fn fits(&self, ends: &Transaction, message: &Message<'_>) -> bool {
        let mine = &self.transaction;
        let in_time = (ends.time - mine.time).abs() <= self.lacks.patience();
        let known = mine.query.as_deref().or(mine.response.as_deref()).and_then(Message::new);
        let Some(known) = known.filter(|_| mine.client == ends.client && mine.server == ends.server && in_time) else {
            return false;
        };
        let response = if self.lacks == Lacks::Response { message } else { &known };
        let has_no_question = response.counts()[0] == 0 || (response.question().is_none() && response.is_cut());
        has_no_question || message.same_question(&known)
    }
}

fn transaction(seen: &Seen<'_>, client: SocketAddr, server: SocketAddr) -> Transaction {
    let Seen { time, transport, stream, .. } = *seen;
    Transaction {
        index: 0,
        time,
        client,
        server,
        transport,
        stream,
        query: None,
        response: None,
        response_delay: None,
        retry_of: None,
    }
}

fn size(transaction: &Transaction) -> usize {
    [&transaction.query, &transaction.response].into_iter().flatten().map(Bytes::len).sum()
}

fn chain(key: u64) -> usize {
    key as usize % CHAINS
}

/// A hash of the fields shared by query and response. `matching` distinguishes transactions with equal hashes.
fn key(client: SocketAddr, server: SocketAddr, stream: Option<u64>, id: u16) -> u64 {
    let ports = u64::from(client.port()) << 32 | u64::from(server.port()) << 16 | u64::from(id);
    let stream = stream.map_or(0, |stream| stream.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93));
    fold(fold(address(client.ip()), address(server.ip())), ports ^ stream)
}

fn address(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => fold((v6.to_bits() >> 64) as u64, v6.to_bits() as u64),
    }
}

/// Folds a 128-bit product into 64 bits, so that all bits of both factors affect the result.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xa076_1d64_78bd_642f);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::message::{CLASS_IN, QueryParts};

    fn message(id: u16, name: &[u8], response: bool) -> Vec<u8> {
        let mut wire = Vec::new();
        let flags = if response { 0x8000 } else { 0 };
        QueryParts { id, flags, name, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut wire);
        wire
    }

    /// Adds messages (time, ID, name, is a response) and returns (has a query, has a response, delay).
    fn pair(messages: &[(i64, u16, &[u8], bool)]) -> Vec<(bool, bool, Option<i64>)> {
        let mut pairing = Pairing::one_of(1);
        let mut batch = Vec::new();
        let mut room = Room { rows: usize::MAX, octets: usize::MAX };
        let (client, server) = ("192.0.2.1:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        for &(time, id, name, response) in messages {
            let octets = message(id, name, response);
            let (from, to) = if response { (server, client) } else { (client, server) };
            let transport = Transport::Udp;
            let seen = Seen { time: TraceTime(time), from, to, transport, stream: None, octets: &octets };
            pairing.add(&seen, &Message::new(&octets).unwrap());
            pairing.drain(&mut batch, &mut room, false);
        }
        pairing.drain(&mut batch, &mut room, true);
        assert_eq!((pairing.octets, pairing.early, pairing.waiting.len()), (0, 0, 0));
        batch.iter().map(|t| (t.query.is_some(), t.response.is_some(), t.response_delay)).collect()
    }

    const A: &[u8] = b"\x01a\0";
    const B: &[u8] = b"\x01b\0";

    #[test]
    fn the_first_query_behind_a_silence_finds_its_response() {
        let minutes = |count: i64| count * 60_000_000_000;
        let messages = [(0, 1, A, false), (1, 1, A, true), (minutes(2), 2, A, false), (minutes(2) + 3, 2, A, true)];
        assert_eq!(pair(&messages), [(true, true, Some(1)), (true, true, Some(3))]);
        let lost =
            [(0, 1, A, false), (minutes(2), 2, A, false), (minutes(4), 3, A, false), (minutes(4) + 1, 3, A, true)];
        assert_eq!(pair(&lost), [(true, false, None), (true, false, None), (true, true, Some(1))]);
    }

    #[test]
    fn a_response_finds_its_query() {
        assert_eq!(pair(&[(5, 1, A, false), (8, 1, A, true)]), [(true, true, Some(3))]);
    }

    #[test]
    fn responses_may_come_in_any_order() {
        let paired = pair(&[(0, 1, A, false), (1, 2, B, false), (2, 2, B, true), (4, 1, A, true)]);
        assert_eq!(paired, [(true, true, Some(4)), (true, true, Some(1))]);
    }

    #[test]
    fn another_question_or_id_is_no_answer() {
        let unpaired = [(true, false, None), (false, true, None)];
        assert_eq!(pair(&[(0, 1, A, false), (1, 1, B, true)]), unpaired);
        assert_eq!(pair(&[(0, 1, A, false), (1, 2, A, true)]), unpaired);
    }

    #[test]
    fn a_query_sent_again_is_another_transaction_answered_in_order() {
        let paired = pair(&[(0, 1, A, false), (10, 1, A, false), (12, 1, A, true), (15, 1, A, true)]);
        assert_eq!(paired, [(true, true, Some(12)), (true, true, Some(5))]);
    }

    #[test]
    fn questions_with_one_id_are_answered_in_any_order() {
        let paired = pair(&[(0, 1, A, false), (1, 1, B, false), (2, 1, B, true), (3, 1, A, true)]);
        assert_eq!(paired, [(true, true, Some(3)), (true, true, Some(1))]);
    }

    #[test]
    fn one_wrong_time_stamp_does_not_stop_the_pairing() {
        let far = 1_000_000 * PATIENCE;
        let paired = pair(&[(0, 1, A, false), (far, 9, B, false), (5, 1, A, true), (6, 2, A, false), (7, 2, A, true)]);
        assert_eq!(paired, [(true, true, Some(5)), (true, false, None), (true, true, Some(1))]);
    }

    #[test]
    fn a_response_late_without_anything_between_is_unasked_too() {
        let paired = pair(&[(0, 1, A, false), (PATIENCE + 1, 1, A, true)]);
        assert_eq!(paired, [(true, false, None), (false, true, None)]);
    }

    #[test]
    fn a_second_response_is_unasked() {
        let paired = pair(&[(0, 1, A, false), (1, 1, A, true), (2, 1, A, true)]);
        assert_eq!(paired, [(true, true, Some(1)), (false, true, None)]);
    }

    #[test]
    fn a_response_captured_just_before_its_query_is_its_response() {
        let early = |skew| pair(&[(0, 1, A, true), (skew, 1, A, false), (skew + 1, 2, B, false)]);
        assert_eq!(early(EARLY), [(true, true, Some(-EARLY)), (true, false, None)]);
        assert_eq!(early(EARLY + 1), [(false, true, None), (true, false, None), (true, false, None)]);
    }

    #[test]
    fn a_batch_takes_what_it_has_room_for() {
        let mut pairing = Pairing::one_of(1);
        let response = message(1, A, true);
        let (from, to) = ("192.0.2.2:53".parse().unwrap(), "192.0.2.1:1024".parse().unwrap());
        for time in 0..10 {
            let (time, transport) = (TraceTime(time), Transport::Udp);
            let seen = Seen { time, from, to, transport, stream: None, octets: &response };
            pairing.add(&seen, &Message::new(&response).unwrap());
        }
        let mut batch = Vec::new();
        pairing.drain(&mut batch, &mut Room { rows: 4, octets: usize::MAX }, true);
        pairing.drain(&mut batch, &mut Room { rows: 10, octets: response.len() + 1 }, true);
        assert_eq!((batch.len(), pairing.waiting.len()), (6, 4));
    }

    #[test]
    fn an_early_response_waits_for_its_own_query() {
        let paired = pair(&[(0, 1, A, true), (1, 1, B, false), (2, 1, A, false), (3, 1, B, true)]);
        assert_eq!(paired, [(true, true, Some(2)), (true, true, Some(-2))]);
    }

    #[test]
    fn many_with_one_id_are_answered_in_order() {
        let mut messages: Vec<(i64, u16, &[u8], bool)> = (0..200).map(|at| (at, 1, A, false)).collect();
        messages.extend((0..200).map(|at| (500 + at, 1, A, true)));
        assert!(pair(&messages).iter().all(|row| *row == (true, true, Some(500))));
    }

    #[test]
    fn what_waits_is_bounded_and_numbers_may_wrap_around() {
        let mut pairing = Pairing { first: u32::MAX - 1_000, ..Pairing::one_of(1) };
        let mut room = Room { rows: usize::MAX, octets: usize::MAX };
        let (mut batch, mut most) = (Vec::new(), 0);
        let query = message(1, A, false);
        let view = Message::new(&query).unwrap();
        for port in 0..2 * MAX_WAITING as u32 {
            let from = SocketAddr::new(IpAddr::from((port >> 16).to_be_bytes()), port as u16);
            let (time, to) = (TraceTime(0), "192.0.2.2:53".parse().unwrap());
            pairing.add(&Seen { time, from, to, transport: Transport::Udp, stream: None, octets: &query }, &view);
            pairing.drain(&mut batch, &mut room, false);
            most = most.max(pairing.waiting.len());
        }
        assert_eq!((most, batch.len()), (MAX_WAITING, MAX_WAITING));
        let last = pairing.waiting.back().unwrap().transaction.clone();
        let response = message(1, A, true);
        let view = Message::new(&response).unwrap();
        let seen = Seen {
            time: TraceTime(9),
            from: last.server,
            to: last.client,
            octets: &response,
            transport: Transport::Udp,
            stream: None,
        };
        pairing.add(&seen, &view);
        assert_eq!(pairing.waiting.back().unwrap().transaction.response_delay, Some(9));
    }

    #[test]
    fn a_response_after_ten_seconds_is_unasked() {
        let late = PATIENCE + 1;
        let paired = pair(&[(0, 1, A, false), (late, 2, B, false), (late, 1, A, true)]);
        assert_eq!(paired, [(true, false, None), (true, false, None), (false, true, None)]);
    }
}
