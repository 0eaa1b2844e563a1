//! The UDP machine: assigns IDs, matches answers by socket and ID, and tracks timeouts.
//!
//! It owns no socket and reads no clock. See the crate's documentation for the order of the calls.

use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hashbrown::HashMap;
use ldplayer_core::message::{HEADER, flag};
use ldplayer_core::{Attempt, Expected, Message, Outcome, Query, Reason, RunTime, Status};

use crate::answered::Answered;
use crate::counts::Counts;
use crate::ids::Ids;
use crate::matching::repeats_question;
use crate::pending::Pending;
use crate::response_sink::ResponseSink;
use crate::route::{Route, SHARED_SOCKETS, SocketKey};
use crate::slab::{List, Slab, Slot};
use crate::stage::Stage;
use crate::stamps::Stamps;
use crate::strays::Strays;

/// IDs tried on a socket before it counts as full.
const ID_TRIES: u32 = 64;
/// Settings of the machine.
#[derive(Clone, Copy, Debug)]
pub struct UdpConfig {
    /// Query timeout, in nanoseconds.
    pub query_timeout: i64,
    /// How much longer late answers are recognised, in nanoseconds.
    pub linger: i64,
    /// The first ID.
    pub seed: u64,
    /// Whether a query for which no ID is free waits for one, instead of not being sent: in replays without times.
    pub waits_for_ids: bool,
    /// Bitmask of classes that retry truncated answers over TCP; the lowest bit also stands for clients without a class. Their truncated
    /// answers do not end the query, but are handed out.
    pub tc_fallback: u64,
}

/// A query to be handed to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The socket.
    pub socket: SocketKey,
    /// The source address, if it must be set.
    pub source: Option<IpAddr>,
    /// The server.
    pub server: SocketAddr,
    /// The ID that replaces the recorded one.
    pub id: u16,
    /// The message as recorded.
    pub wire: &'a Bytes,
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The socket it arrived on.
    pub socket: SocketKey,
    /// Who sent it.
    pub peer: SocketAddr,
    /// The local address it was sent to, where known.
    pub local: Option<IpAddr>,
    /// The kernel's receive timestamp, or the time of the call.
    pub at: RunTime,
    /// The payload.
    pub octets: &'a [u8],
}

/// The machine of one worker.
pub struct Udp {
    config: UdpConfig,
    slab: Slab<Pending>,
    by_id: HashMap<u64, Slot, NeighbourState>,
    /// Queries whose key has their server in it.
    by_server: usize,
    next_id: Vec<u16>,
    queued: VecDeque<Slot>,
    /// A query for which no ID was free, in a replay that waits for one.
    waiting: Option<(Query, Route)>,
    outstanding: List,
    lingering: List,
    answered: Answered,
    ids: Ids,
    truncated: Vec<Pending>,
    outcomes: Vec<Outcome>,
    counts: Counts,
    strays: Strays,
    /// How responses are handled.
    pub sink: ResponseSink,
    /// Kernel send timestamps, if requested.
    stamps: Option<Stamps>,
}

impl Udp {
    /// A machine without any queries.
    pub fn new(config: UdpConfig) -> Self {
        Self {
            config,
            slab: Slab::default(),
            by_id: HashMap::default(),
            by_server: 0,
            next_id: Vec::new(),
            queued: VecDeque::new(),
            waiting: None,
            outstanding: List::default(),
            lingering: List::default(),
            answered: Answered::default(),
            ids: Ids::new(),
            truncated: Vec::new(),
            outcomes: Vec::new(),
            counts: Counts::default(),
            strays: Strays::default(),
            sink: ResponseSink::default(),
            stamps: None,
        }
    }

    /// Enables kernel send timestamps ([`Self::handle_stamp`]).
    pub fn with_send_stamps(self) -> Self {
        Self { stamps: Some(Stamps::default()), ..self }
    }

    /// Takes a query that is due.
    pub fn handle_query(&mut self, query: Query, route: Route) {
        self.counts.taken += u64::from(query.expected.is_counted());
        let refuse = |udp: &mut Self, reason| {
            udp.finish_judged(Outcome::not_sent(&query, reason), &query.wire, &query.expected, None);
        };
        if !(HEADER..=usize::from(u16::MAX) - 8 - 40).contains(&query.wire.len()) {
            return refuse(self, Reason::BadMessage);
        }
        if let Expected::Attempt(Attempt { id: Some(id), serial, .. }) = query.expected
            && let Some(is_by_server) = self.same_id(&route, id, serial)
        {
            return self.place_as(Pending { is_by_server, ..Pending::new(query, &route, route.socket, id) });
        }
        match self.free_id(route.socket) {
            Some(free) => self.place(query, &route, free),
            None if self.config.waits_for_ids => self.waiting = Some((query, route)),
            None => refuse(self, Reason::OutOfIds),
        }
    }

    fn place(&mut self, query: Query, route: &Route, (socket, id): (SocketKey, u16)) {
        self.place_as(Pending::new(query, route, socket, id));
    }

    fn place_as(&mut self, pending: Pending) {
        self.by_server += usize::from(pending.is_by_server);
        let key = key_of(&pending);
        let slot = self.slab.insert(pending);
        self.by_id.insert(key, slot);
        self.queued.push_back(slot);
    }

    /// Whether an attempt can have the ID of its lookup, and whether its key then has the server in it. An earlier attempt at the same server ends: no
    /// client could tell which of them an answer is to.
    fn same_id(&mut self, route: &Route, id: u16, serial: u32) -> Option<bool> {
        let plain = key(route.socket, id);
        for (key, is_by_server) in [(plain, false), (with_server(plain, route.server), true)] {
            let Some(slot) = self.by_id.get(&key).copied() else { return Some(is_by_server) };
            let is_earlier = |pending: &&Pending| {
                let of_lookup = matches!(pending.expected, Expected::Attempt(attempt) if attempt.serial == serial);
                of_lookup && pending.server == route.server && pending.stage != Stage::Queued
            };
            if let Some(stage) = self.slab.get(slot).filter(is_earlier).map(|pending| pending.stage) {
                if stage == Stage::Outstanding {
                    self.expire(slot, None);
                }
                self.release(slot);
                return Some(is_by_server);
            }
        }
        None
    }

    /// The query that a datagram of this ID from or to a server is about, with its key: one that has the server in its key, if it fits.
    fn find(
        &self,
        socket: SocketKey,
        id: u16,
        server: Option<SocketAddr>,
        fits: impl Fn(&Pending) -> bool,
    ) -> Option<(u64, Slot)> {
        let plain = key(socket, id);
        if self.by_server > 0 {
            let beside = server.map(|server| with_server(plain, server));
            let found = beside.and_then(|key| Some((key, *self.by_id.get(&key)?)));
            let found = found.filter(|&(_, slot)| self.slab.get(slot).is_some_and(&fits));
            if found.is_some() {
                return found;
            }
        }
        self.by_id.get(&plain).map(|&slot| (plain, slot))
    }

    /// Whether no query waits for an ID: one that does gets it now, if there is one. The caller gives no other query before.
    pub fn has_ids(&mut self) -> bool {
        let Some((query, route)) = self.waiting.take() else { return true };
        match self.free_id(route.socket) {
            Some(free) => self.place(query, &route, free),
            None => self.waiting = Some((query, route)),
        }
        self.waiting.is_none()
    }

    /// Records a query that cannot be sent.
    pub fn handle_unroutable(&mut self, query: &Query, reason: Reason) {
        self.counts.taken += u64::from(query.expected.is_counted());
        self.finish_judged(Outcome::not_sent(query, reason), &query.wire, &query.expected, None);
    }

    /// The next query to hand to the kernel. Answer with [`Self::handle_sent`], [`Self::handle_unsent`] or
    /// [`Self::handle_postponed`].
    pub fn poll_transmit(&mut self) -> Option<Slot> {
        self.queued.pop_front()
    }

    /// The transmission for a slot of [`Self::poll_transmit`].
    pub fn transmit(&self, slot: Slot) -> Option<Transmit<'_>> {
        let pending = self.slab.get(slot)?;
        Some(Transmit {
            socket: pending.socket,
            source: pending.source,
            server: pending.server,
            id: self.ids.hide(pending.id),
            wire: &pending.wire,
        })
    }

    /// The kernel accepted the query at `at`; `port` is the socket's.
    pub fn handle_sent(&mut self, slot: Slot, at: RunTime, port: u16) {
        self.submit(slot, at, port);
        if let (Some(stamps), Some(pending)) = (&mut self.stamps, self.slab.get(slot)) {
            stamps.note(pending.socket.index(), slot, pending.submitted);
        }
    }

    /// The kernel handed the datagram with a `number` among those of its socket to the device at `at`.
    pub fn handle_stamp(&mut self, socket: SocketKey, number: u32, at: RunTime) {
        let found = self.stamps.as_mut().and_then(|stamps| stamps.take(socket.index(), number));
        if let Some((slot, submitted)) = found {
            self.note_sent(slot, submitted, at);
        }
    }

    /// The query in `slot`, submitted then, was handed to the device at `at`.
    pub fn note_sent(&mut self, slot: Slot, submitted: RunTime, at: RunTime) {
        // The query may have ended and its slot been reused, for example by a copy of it with the same row.
        if let Some(pending) = self.slab.get_mut(slot).filter(|pending| pending.submitted == submitted) {
            // The two timestamps are of two clocks, which may differ by some nanoseconds.
            pending.sent = Some(at.max(pending.submitted));
        }
    }

    /// The kernel refused a datagram of a socket, but may have numbered it.
    pub fn handle_send_error(&mut self, socket: SocketKey) {
        self.stamps.iter_mut().for_each(|stamps| stamps.lose(socket.index()));
    }

    fn submit(&mut self, slot: Slot, at: RunTime, port: u16) {
        let Some(pending) = self.slab.get_mut(slot) else { return };
        pending.submitted = at;
        pending.client_port = port;
        pending.stage = Stage::Outstanding;
        pending.deadline = at + self.config.query_timeout;
        self.counts.sent += u64::from(pending.expected.is_counted());
        self.sink.note_sent(&pending.expected, at);
        self.slab.append(&mut self.outstanding, slot);
    }

    /// The kernel refused the query permanently.
    pub fn handle_unsent(&mut self, slot: Slot, reason: Reason) {
        if let Some(pending) = self.release(slot) {
            self.finish_unanswered(&pending, Status::NotSent, Some(reason));
        }
    }

    /// The kernel has no route to the query's server, as reported by a call at `at`.
    pub fn handle_unreachable(&mut self, slot: Slot, at: RunTime) {
        self.submit(slot, at, 0);
        if let Some(pending) = self.release(slot) {
            self.finish_unanswered(&pending, Status::ConnectFailed, Some(Reason::Unreachable));
        }
    }

    /// The kernel's buffer is full: the query returns to the head of the queue.
    pub fn handle_postponed(&mut self, slot: Slot) {
        self.queued.push_front(slot);
    }

    /// Handles a datagram: an answer, a late answer, or a stray.
    pub fn handle_datagram(&mut self, arrival: &Arrival<'_>) {
        let Some(message) = Message::new(arrival.octets).filter(Message::is_response) else {
            return self.stray(arrival, Reason::Garbage);
        };
        let id = self.ids.reveal(message.id());
        let fits = |pending: &Pending| mismatch(pending, arrival, &message).is_none();
        let Some((key, slot)) = self.find(arrival.socket, id, Some(arrival.peer), fits) else {
            let seen = self.answered.has(key(arrival.socket, id));
            return self.stray(arrival, if seen { Reason::Duplicate } else { Reason::UnknownId });
        };
        match self.slab.get(slot).and_then(|pending| mismatch(pending, arrival, &message)) {
            Some(reason) => self.stray(arrival, reason),
            None if self.is_forgotten_at(slot, arrival.at) => self.stray(arrival, Reason::UnknownId),
            None => self.answer(slot, key, arrival, &message),
        }
    }

    /// Moves a query to the stage that it has at `at`, even if timeouts have not been handled up to then; returns
    /// whether the period for late
    /// answers is over, too.
    fn is_forgotten_at(&mut self, slot: Slot, at: RunTime) -> bool {
        let is_overdue = |udp: &Self, stage| {
            udp.slab.get(slot).is_some_and(|pending| pending.stage == stage && pending.deadline <= at)
        };
        if is_overdue(self, Stage::Outstanding) {
            self.expire(slot, None);
        }
        let is_forgotten = is_overdue(self, Stage::Lingering);
        if is_forgotten {
            self.release(slot);
        }
        is_forgotten
    }

    /// Handles a query returned by the error queue: its destination, if that is known, refused it.
    pub fn handle_refused(&mut self, socket: SocketKey, server: Option<SocketAddr>, octets: &[u8]) {
        let Some(message) = Message::new(octets) else { return };
        let fits = |pending: &Pending| server == Some(pending.server) && pending.stage == Stage::Outstanding;
        let Some((_, slot)) = self.find(socket, self.ids.reveal(message.id()), server, fits) else { return };
        if self.slab.get(slot).is_none_or(|pending| pending.stage != Stage::Outstanding) {
            return;
        }
        if let Some(pending) = self.release(slot) {
            self.finish_unanswered(&pending, Status::Refused, None);
        }
    }

    /// Ends the queries whose time is over at `now`.
    pub fn handle_timeout(&mut self, now: RunTime) {
        while let Some(slot) = self.overdue(&self.outstanding, now) {
            self.expire(slot, None);
        }
        while let Some(slot) = self.overdue(&self.lingering, now) {
            self.release(slot);
        }
    }

    /// Ends all outstanding queries, for an interrupted run.
    pub fn handle_interrupt(&mut self) {
        if let Some((query, _)) = self.waiting.take() {
            let row = Outcome::not_sent(&query, Reason::Interrupted);
            self.finish_judged(row, &query.wire, &query.expected, None);
        }
        while let Some(slot) = self.outstanding.first() {
            self.expire(slot, Some(Reason::Interrupted));
        }
        while let Some(slot) = self.queued.pop_front() {
            self.handle_unsent(slot, Reason::Interrupted);
        }
    }

    /// When [`Self::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let deadline = |list: &List| Some(self.slab.get(list.first()?)?.deadline);
        [deadline(&self.outstanding), deadline(&self.lingering)].into_iter().flatten().min()
    }

    /// The finished rows since the caller last emptied it.
    pub fn outcomes(&mut self) -> &mut Vec<Outcome> {
        &mut self.outcomes
    }

    /// A query whose answer was truncated. It has been counted as sent here; the caller counts its outcome.
    pub fn poll_truncated(&mut self) -> Option<Pending> {
        self.truncated.pop()
    }

    /// Sent queries without an outcome, including those that [`Self::poll_truncated`] returns.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len() + self.truncated.len()
    }

    /// Queries waiting for [`Self::poll_transmit`], and that which waits for an ID.
    pub fn queued(&self) -> usize {
        self.queued.len() + usize::from(self.waiting.is_some())
    }

    /// Responses that belong to no query.
    pub const fn strays(&self) -> &Strays {
        &self.strays
    }

    /// The accounts.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    fn answer(&mut self, slot: Slot, key: u64, arrival: &Arrival<'_>, message: &Message<'_>) {
        let Some(pending) = self.release(slot) else { return };
        self.answered.note(key);
        if message.has(flag::TC) && pending.stage == Stage::Outstanding && self.falls_back(pending.class) {
            return self.truncated.push(pending);
        }
        let status = if pending.stage == Stage::Lingering { Status::Late } else { Status::Answered };
        let row = Outcome {
            // The two timestamps are of two clocks, which may differ by some nanoseconds.
            answered: Some(arrival.at.max(pending.submitted)),
            ..pending.outcome(status, None)
        };
        let row = row.with_response(message);
        self.finish_judged(row, &pending.wire, &pending.expected, Some(message));
    }

    /// Whether a class retries truncated answers over TCP.
    fn falls_back(&self, class: Option<u8>) -> bool {
        self.config.tc_fallback.unbounded_shr(u32::from(class.unwrap_or_default())) & 1 == 1
    }

    fn stray(&mut self, arrival: &Arrival<'_>, reason: Reason) {
        self.counts.add(Status::Stray);
        if !self.strays.add(reason, self.counts.sent) {
            return;
        }
        let row = Outcome {
            client: arrival.local.unwrap_or(Outcome::EMPTY.client),
            server: arrival.peer,
            intended: arrival.at,
            answered: Some(arrival.at),
            status: Status::Stray,
            reason: Some(reason),
            response_bytes: arrival.octets.len() as u16,
            ..Outcome::EMPTY
        };
        self.outcomes.push(match Message::new(arrival.octets) {
            Some(message) => row.with_response(&message),
            None => row,
        });
    }

    /// Records a timeout and keeps the query for a while to recognise a late answer.
    fn expire(&mut self, slot: Slot, reason: Option<Reason>) {
        self.slab.unlink(&mut self.outstanding, slot);
        let linger = self.config.linger;
        let Some(pending) = self.slab.get_mut(slot) else { return };
        pending.stage = Stage::Lingering;
        pending.deadline = pending.deadline + linger;
        let row = pending.outcome(Status::Timeout, reason);
        let (wire, expected) = (pending.wire.clone(), pending.expected.clone());
        self.slab.append(&mut self.lingering, slot);
        self.finish_judged(row, &wire, &expected, None);
    }

    fn finish_unanswered(&mut self, pending: &Pending, status: Status, reason: Option<Reason>) {
        self.finish_judged(pending.outcome(status, reason), &pending.wire, &pending.expected, None);
    }

    /// Records a row whose response is compared and kept. Queries to a reference server and attempts of lookups are not counted.
    fn finish_judged(&mut self, row: Outcome, wire: &Bytes, expected: &Expected, response: Option<&Message<'_>>) {
        if expected.is_counted() {
            self.counts.add(row.status);
        }
        let judged = self.sink.judge(row, wire, expected, response);
        self.outcomes.extend(judged);
    }

    fn overdue(&self, list: &List, now: RunTime) -> Option<Slot> {
        let slot = list.first()?;
        self.slab.get(slot).is_some_and(|pending| pending.deadline <= now).then_some(slot)
    }

    /// Takes a query off its list, and frees its ID and slot.
    fn release(&mut self, slot: Slot) -> Option<Pending> {
        match self.slab.get(slot)?.stage {
            Stage::Queued => {}
            Stage::Outstanding => self.slab.unlink(&mut self.outstanding, slot),
            Stage::Lingering => self.slab.unlink(&mut self.lingering, slot),
        }
        let pending = self.slab.remove(slot)?;
        self.by_id.remove(&key_of(&pending));
        self.by_server -= usize::from(pending.is_by_server);
        Some(pending)
    }

    /// A free ID on the wanted socket, or on another shared one only if that is full: its client then has
    /// more outstanding queries than a socket has IDs.
    fn free_id(&mut self, wanted: SocketKey) -> Option<(SocketKey, u16)> {
        let SocketKey::Shared { v6, number } = wanted else {
            return self.free_id_on(wanted).map(|id| (wanted, id));
        };
        (0..SHARED_SOCKETS).find_map(|further| {
            let socket = SocketKey::Shared { v6, number: (number + further) % SHARED_SOCKETS };
            self.free_id_on(socket).map(|id| (socket, id))
        })
    }

    /// Takes a free ID on a socket. One that only waits for a late answer is reused.
    fn free_id_on(&mut self, socket: SocketKey) -> Option<u16> {
        let number = socket.index() as usize;
        while self.next_id.len() <= number {
            self.next_id.push((self.config.seed ^ self.next_id.len() as u64) as u16);
        }
        let id = self.next_free(socket)?;
        if let Some(slot) = self.by_id.get(&key(socket, id)).copied() {
            self.release(slot);
        }
        self.next_id[number] = id;
        Some(id)
    }

    /// The next free ID on a socket. IDs count up, so that it is nearly always the next one, and close to the last one in the table.
    fn next_free(&self, socket: SocketKey) -> Option<u16> {
        let last = self.next_id.get(socket.index() as usize).copied().unwrap_or(0);
        let is_free = |id: &u16| {
            let slot = self.by_id.get(&key(socket, *id));
            let pending = slot.and_then(|&slot| self.slab.get(slot));
            pending.is_none_or(|pending| pending.stage == Stage::Lingering)
        };
        (1..=ID_TRIES).map(|further| last.wrapping_add(further as u16)).find(is_free)
    }
}

/// Why `arrival` is not the answer to `pending`.
fn mismatch(pending: &Pending, arrival: &Arrival<'_>, message: &Message<'_>) -> Option<Reason> {
    let went_elsewhere = arrival.local.zip(pending.source).is_some_and(|(local, source)| local != source);
    if pending.stage == Stage::Queued || pending.server != arrival.peer || went_elsewhere {
        return Some(Reason::UnknownId);
    }
    (!repeats_question(&pending.wire, message)).then_some(Reason::QuestionMismatch)
}

fn key(socket: SocketKey, id: u16) -> u64 {
    u64::from(socket.index()) << 16 | u64::from(id)
}

/// The key of a query to this server beside others of the same socket and ID: its upper bits, which no socket needs, stand for the server.
fn with_server(key: u64, server: SocketAddr) -> u64 {
    let address = match server.ip() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let folded = (0..8).fold(server.port(), |folded, part| folded.rotate_left(5) ^ (address >> (16 * part)) as u16);
    key ^ u64::from(folded | 1) << 48
}

fn key_of(pending: &Pending) -> u64 {
    let plain = key(pending.socket, pending.id);
    if pending.is_by_server { with_server(plain, pending.server) } else { plain }
}

/// A hash of [`key`] that maps consecutive IDs of a socket to neighbouring buckets: with hundreds of thousands
/// outstanding, a scattered table costs a cache miss per query. The keys cannot be chosen by outsiders.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbour(u64);

type NeighbourState = BuildHasherDefault<Neighbour>;

impl Hasher for Neighbour {
    fn write(&mut self, octets: &[u8]) {
        octets.iter().for_each(|&octet| self.write_u64(self.0 << 8 | u64::from(octet)));
    }

    fn write_u64(&mut self, key: u64) {
        let (socket, id) = (key >> 16, key & 0xffff);
        // The table takes the bucket from the low bits and a tag from the seven highest bits.
        let tag = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xfe00_0000_0000_0000;
        self.0 = (socket.wrapping_mul(40_503) + id) & 0x01ff_ffff_ffff_ffff | tag;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response_sink::AttemptEvent;
    use crate::test::{query, response};

    const SERVER: &str = "127.0.0.1:53";
    const SHARED: SocketKey = SocketKey::Shared { v6: false, number: 0 };

    fn machine() -> Udp {
        Udp::new(UdpConfig { query_timeout: 1_000, linger: 500, seed: 1, tc_fallback: 1, waits_for_ids: false })
    }

    fn route() -> Route {
        Route { socket: SHARED, source: Some("192.0.2.1".parse().unwrap()), server: SERVER.parse().unwrap() }
    }

    /// Sends one query at `at` and returns the message that left.
    fn send(udp: &mut Udp, number: u64, at: i64) -> Vec<u8> {
        udp.handle_query(query(number, at), route());
        let slot = udp.poll_transmit().unwrap();
        let transmit = udp.transmit(slot).unwrap();
        let mut wire = transmit.wire.to_vec();
        ldplayer_core::message::set_id(&mut wire, transmit.id);
        udp.handle_sent(slot, RunTime(at), 4_000);
        wire
    }

    fn arrive(udp: &mut Udp, octets: &[u8], at: i64) {
        let (peer, local) = (SERVER.parse().unwrap(), Some("192.0.2.1".parse().unwrap()));
        udp.handle_datagram(&Arrival { socket: SHARED, peer, local, at: RunTime(at), octets });
    }

    fn statuses(udp: &mut Udp) -> Vec<(u64, Status, Option<Reason>)> {
        udp.outcomes().drain(..).map(|row| (row.index, row.status, row.reason)).collect()
    }

    #[test]
    fn an_answer_is_matched_and_timed() {
        let mut udp = machine();
        let sent = send(&mut udp, 7, 10);
        arrive(&mut udp, &response(&sent, 3), 25);
        let row = udp.outcomes().pop().unwrap();
        assert_eq!((row.index, row.status, row.rcode), (7, Status::Answered, Some(3)));
        assert_eq!((row.submitted, row.answered), (Some(RunTime(10)), Some(RunTime(25))));
        assert_eq!((row.client.to_string().as_str(), row.client_port), ("192.0.2.1", 4_000));
        assert_eq!((udp.outstanding(), udp.poll_timeout()), (0, None));
    }

    #[test]
    fn a_send_stamp_of_an_answered_query_is_not_that_of_a_copy_in_its_slot() {
        let mut udp = machine().with_send_stamps();
        let first = send(&mut udp, 7, 10);
        arrive(&mut udp, &response(&first, 0), 25);
        let copy = send(&mut udp, 7, 30);
        udp.handle_stamp(SHARED, 0, RunTime(11));
        arrive(&mut udp, &response(&copy, 0), 45);
        let sent: Vec<_> = udp.outcomes().drain(..).map(|row| (row.index, row.submitted, row.sent)).collect();
        assert_eq!(sent, [(7, Some(RunTime(10)), None), (7, Some(RunTime(30)), None)]);
        let stamped = send(&mut udp, 8, 50);
        udp.handle_stamp(SHARED, 2, RunTime(51));
        arrive(&mut udp, &response(&stamped, 0), 60);
        assert_eq!(udp.outcomes()[0].sent, Some(RunTime(51)));
    }

    #[test]
    fn a_truncated_answer_is_handed_out_once_and_only_where_it_is_asked_for() {
        let truncated = |sent: &[u8]| {
            let mut wire = response(sent, 0);
            wire[2] |= 0x02;
            wire
        };
        let mut udp = machine();
        let sent = send(&mut udp, 7, 10);
        arrive(&mut udp, &truncated(&sent), 25);
        assert_eq!(udp.outstanding(), 1, "it has no end yet");
        let handed = udp.poll_truncated().unwrap();
        assert_eq!((handed.index, handed.submitted), (7, RunTime(10)));
        assert!(udp.poll_truncated().is_none() && udp.outcomes().is_empty());
        assert_eq!((udp.outstanding(), udp.counts().sent, udp.counts().answered), (0, 1, 0));
        let mut udp = Udp::new(UdpConfig { tc_fallback: 0b10, ..machine().config });
        let sent = send(&mut udp, 7, 10);
        arrive(&mut udp, &truncated(&sent), 25);
        assert!(udp.poll_truncated().is_none() && udp.outcomes().pop().unwrap().tc);
        assert_eq!(
            [None, Some(0), Some(1), Some(2), Some(255)].map(|class| udp.falls_back(class)),
            [false, false, true, false, false]
        );
    }

    #[test]
    fn a_late_answer_is_a_timeout_and_a_late_row() {
        let mut udp = machine();
        let sent = send(&mut udp, 1, 0);
        assert_eq!(udp.poll_timeout(), Some(RunTime(1_000)));
        udp.handle_timeout(RunTime(999));
        assert!(statuses(&mut udp).is_empty());
        udp.handle_timeout(RunTime(1_000));
        arrive(&mut udp, &response(&sent, 0), 1_200);
        assert_eq!(statuses(&mut udp), [(1, Status::Timeout, None), (1, Status::Late, None)]);
        assert_eq!(udp.poll_timeout(), None);
    }

    #[test]
    fn the_stamp_of_an_answer_decides_and_not_when_it_is_read() {
        let mut udp = machine();
        let [in_time, late, later] = [1, 2, 3].map(|number| send(&mut udp, number, 0));
        // The worker did not run for a while: nothing has been ended, and all three answers wait.
        arrive(&mut udp, &response(&later, 0), 1_500);
        arrive(&mut udp, &response(&late, 0), 1_000);
        arrive(&mut udp, &response(&in_time, 0), 999);
        let (timeout, unknown) = (Status::Timeout, Some(Reason::UnknownId));
        let expected = [
            (3, timeout, None),
            (u64::MAX, Status::Stray, unknown),
            (2, timeout, None),
            (2, Status::Late, None),
            (1, Status::Answered, None),
        ];
        assert_eq!(statuses(&mut udp), expected);
        assert_eq!((udp.outstanding(), udp.poll_timeout()), (0, None));
    }

    #[test]
    fn after_the_linger_time_the_answer_is_a_stray() {
        let mut udp = machine();
        let sent = send(&mut udp, 1, 0);
        udp.handle_timeout(RunTime(1_000));
        udp.handle_timeout(RunTime(1_500));
        arrive(&mut udp, &response(&sent, 0), 1_600);
        let rows = statuses(&mut udp);
        assert_eq!(rows[1], (u64::MAX, Status::Stray, Some(Reason::UnknownId)));
    }

    #[test]
    fn a_second_answer_is_a_duplicate() {
        let mut udp = machine();
        let sent = send(&mut udp, 1, 0);
        arrive(&mut udp, &response(&sent, 0), 5);
        arrive(&mut udp, &response(&sent, 0), 6);
        assert_eq!(statuses(&mut udp)[1], (u64::MAX, Status::Stray, Some(Reason::Duplicate)));
    }

    #[test]
    fn garbage_and_wrong_questions_leave_the_query_outstanding() {
        let mut udp = machine();
        let sent = send(&mut udp, 1, 0);
        let mut other = response(&sent, 0);
        other[13] ^= 0x01;
        for octets in [b"garbage".as_slice(), &sent, &other] {
            arrive(&mut udp, octets, 5);
        }
        let reasons: Vec<_> = statuses(&mut udp).into_iter().map(|(_, _, reason)| reason).collect();
        assert_eq!(reasons, [Some(Reason::Garbage), Some(Reason::Garbage), Some(Reason::QuestionMismatch)]);
        assert_eq!(udp.outstanding(), 1);
    }

    #[test]
    fn another_server_cannot_answer() {
        let mut udp = machine();
        let octets = response(&send(&mut udp, 1, 0), 0);
        let peer = "127.0.0.2:53".parse().unwrap();
        udp.handle_datagram(&Arrival { socket: SHARED, peer, local: None, at: RunTime(1), octets: &octets });
        assert_eq!(statuses(&mut udp), [(u64::MAX, Status::Stray, Some(Reason::UnknownId))]);
    }

    #[test]
    fn a_refusal_ends_the_query_at_once() {
        let mut udp = machine();
        let sent = send(&mut udp, 1, 0);
        udp.handle_refused(SHARED, None, &sent);
        assert_eq!(statuses(&mut udp), [(1, Status::Refused, None)]);
        assert_eq!(udp.outstanding(), 0);
    }

    #[test]
    fn a_query_without_a_way_to_its_server_fails_and_is_in_the_accounts_as_such() {
        let mut udp = machine();
        udp.handle_query(query(1, 0), route());
        let slot = udp.poll_transmit().unwrap();
        udp.handle_unreachable(slot, RunTime(5));
        let row = udp.outcomes().pop().unwrap();
        assert_eq!((row.status, row.reason), (Status::ConnectFailed, Some(Reason::Unreachable)));
        assert_eq!((row.submitted, udp.outstanding(), udp.queued()), (Some(RunTime(5)), 0, 0));
        assert_eq!((udp.counts().sent, udp.counts().failed), (1, 1));
    }

    /// A fast replay from one address with 100,000 queries in flight discarded what had no ID.
    #[test]
    fn a_query_without_an_id_waits_for_one_where_times_do_not_count() {
        let mut udp = Udp::new(UdpConfig { waits_for_ids: true, ..machine().config });
        let own = Route { socket: SocketKey::Own(0), source: None, ..route() };
        let mut taken = 0;
        while udp.has_ids() {
            udp.handle_query(query(taken, 0), own);
            taken += 1;
        }
        while let Some(slot) = udp.poll_transmit() {
            udp.handle_sent(slot, RunTime(0), 1);
        }
        assert!(taken == 65_537 && udp.queued() == 1 && !udp.has_ids(), "{taken}");
        udp.handle_timeout(RunTime(1_000));
        assert!(udp.has_ids() && udp.queued() == 1, "what only waits for a late answer makes room");
        assert!(udp.outcomes().iter().all(|row| row.status == Status::Timeout));
        let slot = udp.poll_transmit().unwrap();
        assert_eq!(udp.slab.get(slot).unwrap().index, taken - 1);
    }

    #[test]
    fn outstanding_ids_are_never_given_twice_and_run_out_honestly() {
        let mut udp = machine();
        let mut ids = std::collections::HashSet::new();
        let own = Route { socket: SocketKey::Own(0), source: None, ..route() };
        for number in 0..66_000 {
            udp.handle_query(query(number, 0), own);
            if let Some(slot) = udp.poll_transmit() {
                assert!(ids.insert(udp.transmit(slot).unwrap().id));
                udp.handle_sent(slot, RunTime(0), 1);
            }
        }
        let refused = statuses(&mut udp);
        assert!(refused.iter().all(|row| row.2 == Some(Reason::OutOfIds)));
        assert_eq!(ids.len() + refused.len(), 66_000);
        assert_eq!(ids.len(), 65_536);
    }

    #[test]
    fn shared_sockets_take_over_when_one_is_full() {
        let mut udp = machine();
        for number in 0..150_000 {
            send(&mut udp, number, 0);
        }
        assert_eq!((udp.outstanding(), udp.outcomes().len()), (150_000, 0));
    }

    /// Sends an attempt of a lookup to a server, under an ID that the machine numbers so; returns the message that left.
    fn attempt(udp: &mut Udp, number: u8, server: &str, at: i64) -> Vec<u8> {
        let attempt = Attempt { lookup: 0, serial: 1, number, server: 0, port: 0, id: Some(700), is_compared: false };
        let query = Query { expected: Expected::Attempt(attempt), ..query(7, at) };
        udp.handle_query(query, Route { server: server.parse().unwrap(), ..route() });
        let slot = udp.poll_transmit().unwrap();
        let transmit = udp.transmit(slot).unwrap();
        let mut wire = transmit.wire.to_vec();
        ldplayer_core::message::set_id(&mut wire, transmit.id);
        udp.handle_sent(slot, RunTime(at), 4_000);
        wire
    }

    /// Number and status of the attempts that have ended.
    fn ended(udp: &mut Udp) -> Vec<(u8, Status)> {
        let ended = udp.sink.attempts.drain(..).filter_map(|event| match event {
            AttemptEvent::Ended(end) => Some((end.attempt.number, end.row.status)),
            AttemptEvent::Sent(..) => None,
        });
        ended.collect()
    }

    #[test]
    fn an_attempt_at_the_same_server_under_the_same_id_takes_the_place_of_the_one_before() {
        let mut udp = machine();
        let first = attempt(&mut udp, 0, SERVER, 0);
        let second = attempt(&mut udp, 1, SERVER, 100);
        assert_eq!((first, ended(&mut udp), udp.outstanding()), (second.clone(), vec![(0, Status::Timeout)], 1));
        arrive(&mut udp, &response(&second, 0), 120);
        assert_eq!((ended(&mut udp), udp.outstanding()), (vec![(1, Status::Answered)], 0));
        assert!(udp.outcomes().is_empty() && udp.counts().sent == 0, "lookups are counted elsewhere");
    }

    #[test]
    fn attempts_at_several_servers_under_one_id_are_told_apart_by_their_server() {
        let others = ["127.0.0.2:53", "127.0.0.3:53"];
        let mut udp = machine();
        let wire = attempt(&mut udp, 0, SERVER, 0);
        for (number, server) in (1..).zip(others) {
            assert_eq!(attempt(&mut udp, number, server, 10), wire);
        }
        assert_eq!(udp.outstanding(), 3);
        let answer = response(&wire, 0);
        let from = |server: &str, at| Arrival {
            socket: SHARED,
            peer: server.parse().unwrap(),
            local: None,
            at: RunTime(at),
            octets: &answer,
        };
        udp.handle_datagram(&from(others[1], 20));
        udp.handle_refused(SHARED, Some(others[0].parse().unwrap()), &wire);
        assert_eq!(ended(&mut udp), [(2, Status::Answered), (1, Status::Refused)]);
        udp.handle_datagram(&from("127.0.0.9:53", 30));
        assert_eq!(statuses(&mut udp), [(u64::MAX, Status::Stray, Some(Reason::UnknownId))]);
        udp.handle_datagram(&from(SERVER, 40));
        assert_eq!((ended(&mut udp), udp.outstanding(), udp.by_server), (vec![(0, Status::Answered)], 0, 0));
    }

    #[test]
    fn an_interrupt_accounts_for_everything() {
        let mut udp = machine();
        send(&mut udp, 1, 0);
        udp.handle_query(query(2, 0), route());
        udp.handle_interrupt();
        let reason = Some(Reason::Interrupted);
        assert_eq!(statuses(&mut udp), [(1, Status::Timeout, reason), (2, Status::NotSent, reason)]);
        let counts = udp.counts();
        assert_eq!((counts.taken, counts.sent, counts.timed_out, counts.not_sent), (2, 1, 1, 1));
    }
}
