//! Queries paired with their responses: by addresses, ports, connection, ID and question.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use hashbrown::HashMap;
use ldplayer_core::{Message, TraceTime, Transaction, Transport};

/// How long a response is waited for, in nanoseconds of the trace.
const PATIENCE: i64 = 10_000_000_000;
/// A step of the time stamps that may be a mistake, in nanoseconds.
const JUMP: i64 = 60_000_000_000;
/// Open queries of one key that a response is compared with.
const MAX_COMPARED: usize = 16;
/// Transactions that wait at most.
const MAX_WAITING: usize = 1 << 17;
/// Octets of messages that wait at most.
const MAX_OCTETS: usize = 64 << 20;
/// Octets that the messages of one allocation take.
const ARENA: usize = 64 * 1024;

/// A message with where it came from.
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

/// Transactions in the making, in the order in which they began.
#[derive(Default)]
pub(crate) struct Pairing {
    waiting: VecDeque<Waiting>,
    /// Number of the first of `waiting`.
    first: u64,
    /// The open queries of each key, chained through `waiting`.
    open: HashMap<u64, Chain, foldhash::fast::FixedState>,
    octets: usize,
    clock: Clock,
    arena: BytesMut,
}

/// The oldest and the newest of the open queries with one key.
#[derive(Clone, Copy)]
struct Chain {
    oldest: u64,
    newest: u64,
}

/// The time of the capture, which a single wrong time stamp does not move.
#[derive(Default)]
struct Clock {
    now: Option<TraceTime>,
    jumped: bool,
}

impl Clock {
    fn see(&mut self, time: TraceTime) {
        let far = self.now.is_some_and(|now| (time - now).abs() > JUMP);
        // The second far time stamp in a row is believed.
        if !far || self.jumped {
            self.now = Some(time);
        }
        self.jumped = far && !self.jumped;
    }

    /// Whether `time` is too far away to belong to what is seen now.
    fn is_past(&self, time: TraceTime) -> bool {
        self.now.is_some_and(|now| (now - time).abs() > PATIENCE)
    }
}

struct Waiting {
    transaction: Transaction,
    key: u64,
    /// The next open query of the same key.
    next: Option<u64>,
    open: bool,
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

    /// Moves what is complete, or has waited long enough, to `batch`; all of it at the `end`.
    pub fn drain(&mut self, batch: &mut Vec<Transaction>, end: bool) {
        while let Some(front) = self.waiting.front() {
            let old = self.clock.is_past(front.transaction.time);
            let full = self.waiting.len() > MAX_WAITING || self.octets > MAX_OCTETS;
            if front.open && !old && !full && !end {
                break;
            }
            self.yield_front(batch);
        }
    }

    fn yield_front(&mut self, batch: &mut Vec<Transaction>) {
        let Some(front) = self.waiting.pop_front() else { return };
        if front.open {
            // The first of all is the oldest of its key.
            self.unchain(front.key, self.first, None, front.next);
        }
        self.first += 1;
        self.octets -= size(&front.transaction);
        batch.push(front.transaction);
    }

    fn add_query(&mut self, seen: &Seen<'_>, message: &Message<'_>) {
        let (client, server) = (seen.from, seen.to);
        let key = key(client, server, seen.stream, message.id());
        let number = self.first + self.waiting.len() as u64;
        let query = Some(self.keep(seen.octets));
        self.push(seen, client, server, query, None, Some(key));
        self.chain(key, number);
    }

    fn add_response(&mut self, seen: &Seen<'_>, message: &Message<'_>) {
        let (client, server) = (seen.to, seen.from);
        let key = key(client, server, seen.stream, message.id());
        let response = self.keep(seen.octets);
        let Some((number, previous)) = self.matching(key, client, server, seen.time, message) else {
            return self.push(seen, client, server, None, Some(response), None);
        };
        self.octets += response.len();
        let waiting = &mut self.waiting[(number - self.first) as usize];
        waiting.open = false;
        waiting.transaction.response_delay = Some(seen.time - waiting.transaction.time);
        waiting.transaction.response = Some(response);
        let next = waiting.next;
        self.unchain(key, number, previous, next);
    }

    /// The open query that a response answers, and the one before it in its chain: the oldest that has the question. A
    /// response may leave the question out, as some errors do.
    fn matching(
        &self,
        key: u64,
        client: SocketAddr,
        server: SocketAddr,
        time: TraceTime,
        response: &Message<'_>,
    ) -> Option<(u64, Option<u64>)> {
        let (mut number, mut previous) = (self.open.get(&key)?.oldest, None);
        for _ in 0..MAX_COMPARED {
            let waiting = self.waiting.get(number.checked_sub(self.first)? as usize)?;
            let asked = &waiting.transaction;
            let same = asked.client == client && asked.server == server;
            let in_time = (time - asked.time).abs() <= PATIENCE;
            let query = Message::new(asked.query.as_ref()?)?;
            if same && in_time && (response.counts()[0] == 0 || response.same_question(&query)) {
                return Some((number, previous));
            }
            previous = Some(number);
            number = waiting.next?;
        }
        None
    }

    fn push(
        &mut self,
        seen: &Seen<'_>,
        client: SocketAddr,
        server: SocketAddr,
        query: Option<Bytes>,
        response: Option<Bytes>,
        key: Option<u64>,
    ) {
        let (time, transport, stream) = (seen.time, seen.transport, seen.stream);
        let transaction =
            Transaction { time, client, server, transport, stream, query, response, response_delay: None };
        self.octets += size(&transaction);
        self.waiting.push_back(Waiting { transaction, key: key.unwrap_or(0), next: None, open: key.is_some() });
    }

    /// Puts query `number` behind the other open ones of its key.
    fn chain(&mut self, key: u64, number: u64) {
        let chain = self.open.entry(key).or_insert(Chain { oldest: number, newest: number });
        let last = std::mem::replace(&mut chain.newest, number);
        if last != number {
            self.link(last, Some(number));
        }
    }

    /// Takes query `number`, between `previous` and `next`, out of its chain.
    fn unchain(&mut self, key: u64, number: u64, previous: Option<u64>, next: Option<u64>) {
        let Some(chain) = self.open.get_mut(&key) else { return };
        if chain.newest == number {
            match previous {
                Some(previous) => chain.newest = previous,
                None => {
                    self.open.remove(&key);
                    return;
                }
            }
        }
        match previous {
            Some(previous) => self.link(previous, next),
            None => chain.oldest = next.unwrap_or(number),
        }
    }

    fn link(&mut self, number: u64, next: Option<u64>) {
        let waiting = number.checked_sub(self.first).and_then(|at| self.waiting.get_mut(at as usize));
        if let Some(waiting) = waiting {
            waiting.next = next;
        }
    }

    /// Copies a message out of the reader's buffer. Many share an allocation, so that one message keeps no packet alive.
    fn keep(&mut self, octets: &[u8]) -> Bytes {
        if self.arena.capacity() - self.arena.len() < octets.len() {
            self.arena = BytesMut::with_capacity(ARENA.max(octets.len()));
        }
        self.arena.extend_from_slice(octets);
        self.arena.split().freeze()
    }
}

fn size(transaction: &Transaction) -> usize {
    [&transaction.query, &transaction.response].into_iter().flatten().map(Bytes::len).sum()
}

/// A hash of what query and response have in common. Equal hashes of other transactions are told apart by `matching`.
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

/// The high and low half of a 128-bit product, added: each bit of both reaches each of the result.
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
        let mut pairing = Pairing::default();
        let mut batch = Vec::new();
        let (client, server) = ("192.0.2.1:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        for &(time, id, name, response) in messages {
            let octets = message(id, name, response);
            let (from, to) = if response { (server, client) } else { (client, server) };
            let transport = Transport::Udp;
            let seen = Seen { time: TraceTime(time), from, to, transport, stream: None, octets: &octets };
            pairing.add(&seen, &Message::new(&octets).unwrap());
            pairing.drain(&mut batch, false);
        }
        pairing.drain(&mut batch, true);
        assert_eq!((pairing.octets, pairing.open.len()), (0, 0));
        batch.iter().map(|t| (t.query.is_some(), t.response.is_some(), t.response_delay)).collect()
    }

    const A: &[u8] = b"\x01a\0";
    const B: &[u8] = b"\x01b\0";

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
    fn a_response_after_ten_seconds_is_unasked() {
        let late = PATIENCE + 1;
        let paired = pair(&[(0, 1, A, false), (late, 2, B, false), (late, 1, A, true)]);
        assert_eq!(paired, [(true, false, None), (true, false, None), (false, true, None)]);
    }
}
