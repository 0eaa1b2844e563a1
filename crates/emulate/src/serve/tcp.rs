//! TCP connections of a server (RFC 7766), some with TLS (RFC 7858): pipelining, partial writes, idle timeout, bounded buffers.
//!
//! [`Connections`] owns the sockets of one worker; time is an argument. An idle connection has no buffers except for a partial
//! query or answer: working buffers are lent to it.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use ldplayer_core::transport::Transport;
use ldplayer_link::Schedule;
use ldplayer_net::poll::{Interest, Poll};
use rustix::net::sockopt::set_socket_linger;
use rustls::ServerConfig;

use super::options;
use super::room::Place;
use super::stream::Stream;
use super::transfer::Transfer;

/// Default limit of connections over all workers: an idle one makes room.
pub const CONNECTIONS: usize = 10_000;
/// Default idle timeout, in nanoseconds (RFC 7766 §6.2.3: a few seconds).
pub const IDLE_NS: i64 = 10_000_000_000;
/// Octets of answers that are written before the next query is answered. While they cannot be written, nothing is read.
const OUTPUT: usize = 65_536;
/// Read size in octets: twice the longest query with its length (RFC 1035 §4.2.2).
const INPUT: usize = 2 * 65_537;
/// Maximum number of reads from one connection per turn.
const READS: usize = 8;
/// No slot.
const NONE: u32 = u32::MAX;

/// Answers of a worker that may wait until they are late enough.
pub const LATE: usize = 100_000;

/// Whom a query was sent to and who sent it, and when it was read, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The address that is asked.
    pub local: IpAddr,
    /// The address that asks.
    pub peer: IpAddr,
    /// The moment.
    pub now: i64,
    /// What it came over.
    pub transport: Transport,
}

/// What becomes of the answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It is sent.
    Send,
    /// It is sent so many nanoseconds later: a fault.
    SendLater(i64),
    /// It is sent octet by octet, with so many nanoseconds between them, over a connection: a fault.
    SendSlowly(i64),
    /// It is sent from another port, over UDP: a fault.
    SendElsewhere,
    /// There is none to such a message. A connection is closed.
    Ignore,
    /// There is none: a fault. A connection stays.
    Drop,
    /// There is none, and a connection is reset: a fault.
    Reset,
}

/// Answers queries: appends the answer, and says what becomes of it.
pub trait Answer {
    /// Announces the next queries, each with its local address.
    fn look_ahead<'q>(&mut self, _queries: impl Iterator<Item = (IpAddr, &'q [u8])>) {}

    /// The zone transfer that a query asks for, if it may have it; another query is answered.
    fn transfer(&mut self, _ends: &Ends, _query: &[u8]) -> Option<Transfer> {
        None
    }

    /// `out` comes empty.
    fn answer(&mut self, ends: &Ends, query: &[u8], out: &mut Vec<u8>) -> Deed;
}

/// The connection of an answer that is sent later.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    slot: u32,
    serial: u64,
}

/// Counters of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ConnectionCounts {
    /// Accepted.
    pub accepted: u64,
    /// Closed by the client.
    pub closed: u64,
    /// Closed because idle.
    pub idle: u64,
    /// Closed to make room for another.
    pub evicted: u64,
    /// Failed, or closed after an invalid query.
    pub failed: u64,
}

impl std::ops::AddAssign for ConnectionCounts {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.closed += other.closed;
        self.idle += other.idle;
        self.evicted += other.evicted;
        self.failed += other.failed;
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By the client.
    Closed,
    /// Idle for too long.
    Idle,
    /// To make room for another.
    Evicted,
    /// By an error, of either side.
    Failed,
}

impl ConnectionCounts {
    /// Counts an end.
    pub const fn end(&mut self, end: End) {
        *match end {
            End::Closed => &mut self.closed,
            End::Idle => &mut self.idle,
            End::Evicted => &mut self.evicted,
            End::Failed => &mut self.failed,
        } += 1;
    }
}

/// The connections of a worker.
#[derive(Debug)]
pub struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Ends of the list of connections by activity: the longest idle and the most recently active.
    oldest: u32,
    newest: u32,
    place: Place,
    idle_ns: i64,
    first_token: u64,
    input: Box<[u8]>,
    output: Vec<u8>,
    reply: Vec<u8>,
    late: Schedule<Waiting>,
    counts: ConnectionCounts,
}

#[derive(Debug)]
struct Slot {
    connection: Option<Connection>,
    /// The number of its connection among those that it has had.
    serial: u64,
    last: i64,
    older: u32,
    newer: u32,
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    local: IpAddr,
    peer: IpAddr,
    /// A partial query.
    rest: Vec<u8>,
    /// Unwritten answers, the first octets of which may have been written.
    output: Vec<u8>,
    written: usize,
    /// Goes before the queries behind it.
    transfer: Option<Box<Transfer>>,
    /// So does this.
    slow: Option<Box<Slow>>,
    interest: Interest,
    has_ended: bool,
}

/// Answers that are sent octet by octet: a fault.
#[derive(Debug)]
struct Slow {
    octets: Vec<u8>,
    sent: usize,
    every: i64,
}

impl Connections {
    /// No connections. Their poll tokens begin with `first_token`.
    pub fn new(place: Place, idle_ns: i64, first_token: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            place,
            idle_ns,
            first_token,
            input: vec![0; INPUT].into(),
            output: Vec::with_capacity(OUTPUT),
            reply: Vec::with_capacity(OUTPUT),
            late: Schedule::new(usize::from(u16::MAX), LATE),
            counts: ConnectionCounts::default(),
        }
    }

    /// Takes an accepted connection, which begins with a handshake if there are settings of TLS. If there are too many, another one is closed.
    pub fn handle_accepted(
        &mut self,
        now: i64,
        (stream, tls): (TcpStream, Option<&Arc<ServerConfig>>),
        peer: IpAddr,
        poll: &Poll,
    ) {
        self.counts.accepted += 1;
        let Ok(connection) = Stream::new(stream, tls).and_then(|stream| Connection::new(stream, peer)) else {
            self.counts.failed += 1;
            return;
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { connection: None, serial: 0, last: now, older: NONE, newer: NONE });
            self.slots.len() as u32 - 1
        });
        if poll.add(connection.stream.tcp(), self.first_token + u64::from(at)).is_err() {
            self.counts.failed += 1;
            self.free.push(at);
            return;
        }
        let slot = &mut self.slots[at as usize];
        (slot.connection, slot.last) = (Some(connection), now);
        slot.serial += 1;
        self.link(at);
        self.place.take();
        // Either one of this worker other than the new one, or one of another worker.
        while self.oldest != self.newest && self.place.give_back_excess() {
            self.remove(self.oldest, End::Evicted);
        }
        self.place.ask_others();
    }

    /// Closes surplus connections at the request of another worker, longest idle first.
    pub fn make_room(&mut self) {
        if self.place.take_asked() {
            while self.oldest != NONE && self.place.give_back_excess() {
                self.remove(self.oldest, End::Evicted);
            }
        }
    }

    /// Closes the longest idle connection to free its descriptor; returns whether there was one.
    pub fn evict(&mut self) -> bool {
        let at = self.oldest;
        if at != NONE {
            self.end(at, End::Evicted);
        }
        at != NONE
    }

    /// Reads, answers and writes without blocking.
    pub fn handle_ready(&mut self, now: i64, token: u64, poll: &Poll, answer: &mut impl Answer) {
        let at = (token - self.first_token) as u32;
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        let Some(connection) = &mut slot.connection else { return };
        // What comes without being waited for is an error.
        if connection.interest == Interest::Nothing && connection.slow.is_some() {
            return self.end(at, End::Failed);
        }
        slot.last = now;
        let waiting = Waiting { slot: at, serial: slot.serial };
        let Self { input, output, reply, late, idle_ns, .. } = self;
        let mut work = Work { input, output, reply, late, waiting, now, idle_ns: *idle_ns };
        let end = connection
            .work(&mut work, answer)
            .or_else(|| connection.watch(poll, token).is_err().then_some(End::Failed));
        self.unlink(at);
        self.link(at);
        if let Some(end) = end {
            self.end(at, end);
        }
    }

    /// Sends answers that are late enough, goes on with slow ones, and closes connections that have been idle for too long.
    pub fn handle_timeout(&mut self, now: i64, poll: &Poll, answer: &mut impl Answer) {
        while let Some(due) = self.late.pop(now) {
            let waiting @ Waiting { slot: at, serial } = due.tag;
            let slot = &mut self.slots[at as usize];
            let connection = slot.connection.as_mut().filter(|_| slot.serial == serial);
            let Some(connection) = connection else { continue };
            let token = self.first_token + u64::from(at);
            let next = match due.packet {
                [] => connection.step(),
                packet => {
                    connection.append(packet);
                    None
                }
            };
            let (is_slow, was_slow) = (next.is_some(), due.packet.is_empty());
            if connection.flush().and_then(|_| connection.watch(poll, token)).is_err() {
                self.end(at, End::Failed);
                continue;
            }
            if was_slow {
                slot.last = now;
                self.unlink(at);
                self.link(at);
            }
            if let Some(every) = next {
                self.late.push(now.saturating_add(every), waiting, &[]);
            }
            // The queries that waited behind.
            if was_slow && !is_slow {
                self.handle_ready(now, token, poll, answer);
            }
        }
        while self.idle_at().is_some_and(|due| due <= now) {
            self.end(self.oldest, End::Idle);
        }
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<i64> {
        self.idle_at().into_iter().chain(self.late.next_due()).min()
    }

    /// When the connection that has been idle for longest is closed.
    fn idle_at(&self) -> Option<i64> {
        let oldest = self.slots.get(self.oldest as usize)?;
        Some(oldest.last.saturating_add(self.idle_ns))
    }

    /// The counters since the last call.
    pub fn take_counts(&mut self) -> ConnectionCounts {
        mem::take(&mut self.counts)
    }

    fn end(&mut self, at: u32, end: End) {
        self.place.give_back();
        self.remove(at, end);
    }

    fn remove(&mut self, at: u32, end: End) {
        self.unlink(at);
        // Closing the only descriptor also removes it from the poll.
        self.slots[at as usize].connection = None;
        self.free.push(at);
        self.counts.end(end);
    }

    fn link(&mut self, at: u32) {
        let newest = mem::replace(&mut self.newest, at);
        let slot = &mut self.slots[at as usize];
        (slot.older, slot.newer) = (newest, NONE);
        match self.slots.get_mut(newest as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Slot { older, newer, .. } = self.slots[at as usize];
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }
}

/// Buffers lent to a connection while it works.
struct Work<'a> {
    input: &'a mut [u8],
    output: &'a mut Vec<u8>,
    reply: &'a mut Vec<u8>,
    late: &'a mut Schedule<Waiting>,
    /// The connection itself, for answers that are sent later.
    waiting: Waiting,
    now: i64,
    idle_ns: i64,
}

impl Connection {
    fn new(stream: Stream, peer: IpAddr) -> io::Result<Self> {
        let local = stream.tcp().local_addr()?.ip();
        let (rest, output, interest) = (Vec::new(), Vec::new(), Interest::Read);
        Ok(Self {
            stream,
            local,
            peer,
            rest,
            output,
            written: 0,
            transfer: None,
            slow: None,
            interest,
            has_ended: false,
        })
    }

    /// Works until reading or writing would block; returns how the connection ends, if it does.
    fn work(&mut self, work: &mut Work<'_>, answer: &mut impl Answer) -> Option<End> {
        if self.output.is_empty() {
            mem::swap(&mut self.output, work.output);
        }
        let mut filled = self.rest.len();
        work.input[..filled].copy_from_slice(&self.rest);
        let end = self.turns(work, &mut filled, answer).unwrap_or(Some(End::Failed));
        self.rest.clear();
        self.rest.extend_from_slice(&work.input[..filled]);
        if filled == 0 {
            self.rest = Vec::new();
        }
        if self.output.is_empty() {
            mem::swap(&mut self.output, work.output);
        }
        end
    }

    fn turns(&mut self, work: &mut Work<'_>, filled: &mut usize, answer: &mut impl Answer) -> io::Result<Option<End>> {
        let mut reads = 0;
        loop {
            if !self.flush()? || self.slow.is_some() {
                return Ok(None);
            }
            self.go_on(work.reply);
            if !self.answer(work, filled, answer) {
                return Ok(Some(End::Failed));
            }
            if !self.output.is_empty() {
                continue;
            }
            if self.has_ended {
                return Ok(Some(End::Closed));
            }
            if reads == READS {
                return Ok(None);
            }
            reads += 1;
            match self.stream.read(&mut work.input[*filled..]) {
                Ok(0) => self.has_ended = true,
                Ok(count) => *filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes messages of the transfer under way, as far as there is room.
    fn go_on(&mut self, message: &mut Vec<u8>) {
        while let Some(transfer) = &mut self.transfer
            && self.output.len() < OUTPUT
        {
            match transfer.next(message) {
                true => append(&mut self.output, message),
                false => self.transfer = None,
            }
        }
    }

    /// Answers the complete queries in the input, as far as there is room for answers.
    fn answer(&mut self, work: &mut Work<'_>, filled: &mut usize, answer: &mut impl Answer) -> bool {
        let mut at = 0;
        while self.transfer.is_none()
            && self.slow.is_none()
            && self.output.len() < OUTPUT
            && let Some(query) = message(&work.input[at..*filled])
        {
            work.reply.clear();
            let transport = if self.stream.is_encrypted() { Transport::Dot } else { Transport::Tcp };
            let ends = Ends { local: self.local, peer: self.peer, now: work.now, transport };
            if let Some(transfer) = answer.transfer(&ends, query) {
                at += 2 + query.len();
                self.transfer = Some(Box::new(transfer));
                self.go_on(work.reply);
                continue;
            }
            let deed = answer.answer(&ends, query, work.reply);
            if transport.is_encrypted() {
                options::complete(query, Some(work.idle_ns), work.reply);
            }
            match deed {
                Deed::Send => append(&mut self.output, work.reply),
                Deed::SendLater(by) => drop(work.late.push(work.now.saturating_add(by), work.waiting, work.reply)),
                Deed::SendSlowly(every) => {
                    let mut octets = Vec::new();
                    append(&mut octets, work.reply);
                    self.slow = Some(Box::new(Slow { octets, sent: 0, every }));
                    work.late.push(work.now.saturating_add(every), work.waiting, &[]);
                }
                Deed::Drop | Deed::SendElsewhere => {}
                Deed::Ignore => return false,
                Deed::Reset => {
                    // Without time to linger, closing resets.
                    let _ = set_socket_linger(self.stream.tcp(), Some(Duration::ZERO));
                    return false;
                }
            }
            at += 2 + query.len();
        }
        work.input.copy_within(at..*filled, 0);
        *filled -= at;
        true
    }

    /// One more answer to be written.
    fn append(&mut self, answer: &[u8]) {
        append(self.slow.as_mut().map_or(&mut self.output, |slow| &mut slow.octets), answer);
    }

    /// Queues the next octet of a slow answer; returns the nanoseconds until the one after it, if there is one.
    fn step(&mut self) -> Option<i64> {
        let slow = self.slow.as_mut()?;
        self.output.extend(slow.octets.get(slow.sent));
        slow.sent += 1;
        let next = (slow.sent < slow.octets.len()).then_some(slow.every);
        if next.is_none() {
            self.slow = None;
        }
        next
    }

    /// Writes answers; returns whether all of them are written.
    fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        self.stream.drain()
    }

    /// Polls for writing if there are unwritten answers, otherwise for reading.
    fn watch(&mut self, poll: &Poll, token: u64) -> io::Result<()> {
        let is_full = !self.output.is_empty() || self.stream.is_full();
        let interest = match self.slow {
            _ if is_full => Interest::Write,
            Some(_) => Interest::Nothing,
            None => Interest::Read,
        };
        if mem::replace(&mut self.interest, interest) == interest {
            return Ok(());
        }
        poll.change(self.stream.tcp(), token, interest)
    }
}

/// Adds a message to a stream. It is never longer than its length field allows.
pub fn append(stream: &mut Vec<u8>, message: &[u8]) {
    stream.extend_from_slice(&(message.len() as u16).to_be_bytes());
    stream.extend_from_slice(message);
}

/// The first complete message of a stream.
pub fn message(stream: &[u8]) -> Option<&[u8]> {
    let (length, rest) = stream.split_first_chunk()?;
    rest.get(..u16::from_be_bytes(*length).into())
}

#[cfg(test)]
mod tests {
    use super::super::room::Room;
    use super::*;
    use std::net::TcpListener;
    use std::sync::Arc;

    use ldplayer_net::poll::Wake;

    const SECOND: i64 = 1_000_000_000;

    /// Answers each query with itself as often as its first octet says; none with a zero.
    struct Repeat;

    impl Answer for Repeat {
        fn answer(&mut self, ends: &Ends, query: &[u8], out: &mut Vec<u8>) -> Deed {
            assert!(ends.local.is_loopback() && ends.peer.is_loopback());
            (0..query[0]).for_each(|_| out.extend_from_slice(query));
            match query {
                [0, ..] => Deed::Ignore,
                b"\x01late" => Deed::SendLater(3 * SECOND),
                b"\x01lost" => Deed::Drop,
                b"\x01drip" => Deed::SendSlowly(SECOND),
                b"\x01reset" => Deed::Reset,
                _ => Deed::Send,
            }
        }
    }

    struct Bed {
        poll: Poll,
        listener: TcpListener,
        connections: Connections,
    }

    impl Bed {
        fn new(most: usize) -> Self {
            Self::of(&Arc::new(Room::new(most)))
        }

        /// One worker of several.
        fn of(room: &Arc<Room>) -> Self {
            let listener = ldplayer_net::tcp::listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
            let place = Room::join(room, Arc::new(Wake::new().unwrap()).into());
            Self { poll: Poll::new().unwrap(), listener, connections: Connections::new(place, 10 * SECOND, 100) }
        }

        fn connect(&mut self, now: i64) -> TcpStream {
            let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            client.set_nodelay(true).unwrap();
            let (stream, peer) = self.listener.accept().unwrap();
            self.connections.handle_accepted(now, (stream, None), peer.ip(), &self.poll);
            client
        }

        /// Waits for the next event and handles it.
        fn turn(&mut self, now: i64) {
            let tokens: Vec<u64> = self.poll.wait(20 * SECOND).unwrap().map(|ready| ready.token).collect();
            assert!(!tokens.is_empty(), "nothing happens");
            tokens.iter().for_each(|&token| self.connections.handle_ready(now, token, &self.poll, &mut Repeat));
        }

        fn turn_until(&mut self, now: i64, done: impl Fn(&ConnectionCounts) -> bool) {
            while !done(&self.connections.counts) {
                self.turn(now);
            }
        }
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u16).to_be_bytes(), message].concat()
    }

    fn read(client: &mut TcpStream, octets: usize) -> Vec<u8> {
        let mut got = vec![0; octets];
        client.read_exact(&mut got).unwrap();
        got
    }

    #[test]
    fn queries_in_one_segment_and_octet_by_octet_are_answered_in_turn() {
        let mut bed = Bed::new(10);
        let mut client = bed.connect(0);
        client.write_all(&[framed(b"\x01first"), framed(b"\x02x")].concat()).unwrap();
        bed.turn(0);
        assert_eq!(read(&mut client, 8 + 6), [framed(b"\x01first"), framed(b"\x02x\x02x")].concat());
        for octet in framed(b"\x01slow") {
            client.write_all(&[octet]).unwrap();
            bed.turn(0);
        }
        assert_eq!(read(&mut client, 7), framed(b"\x01slow"));
        client.shutdown(std::net::Shutdown::Write).unwrap();
        bed.turn(0);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert_eq!(
            bed.connections.take_counts(),
            ConnectionCounts { accepted: 1, closed: 1, ..ConnectionCounts::default() }
        );
    }

    #[test]
    fn what_the_client_does_not_read_holds_its_queries_back_and_is_written_later() {
        let mut bed = Bed::new(10);
        let mut client = bed.connect(0);
        let query = framed(&[200; 300]);
        let (count, octets) = (400, 400 * (2 + 60_000));
        let asked = query.repeat(count);
        let mut writer = client.try_clone().unwrap();
        let asking = std::thread::spawn(move || {
            writer.write_all(&asked).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        // Without a reader, the socket is full before all is answered.
        while bed.connections.slots[0].connection.as_ref().unwrap().interest == Interest::Read {
            bed.turn(0);
        }
        let pending = bed.connections.slots[0].connection.as_ref().unwrap().output.len();
        assert!(pending > 0 && pending < OUTPUT + 60_002, "{pending}");
        let reading = std::thread::spawn(move || read(&mut client, octets));
        bed.turn_until(0, |counts| counts.closed == 1);
        asking.join().unwrap();
        let answer = framed(&[200; 60_000]);
        assert!(reading.join().unwrap().chunks(answer.len()).all(|chunk| chunk == answer));
    }

    /// Sends queries until the server has no more room for answers.
    fn flood(bed: &mut Bed, client: &mut TcpStream) {
        client.set_nonblocking(true).unwrap();
        let asked = framed(&[200; 300]).repeat(400);
        while bed.connections.slots[0].connection.as_ref().unwrap().interest == Interest::Read {
            let _ = client.write(&asked);
            bed.turn(0);
        }
    }

    #[test]
    fn a_client_that_goes_without_reading_costs_no_turns() {
        let reset = |client: TcpStream| {
            // What came and was not read makes a reset of the end.
            drop(client);
            None
        };
        let half_close = |client: TcpStream| {
            client.shutdown(std::net::Shutdown::Write).unwrap();
            Some(client)
        };
        for (way, ends) in
            [(&reset as &dyn Fn(TcpStream) -> Option<TcpStream>, true), (&half_close, false), (&Some, false)]
        {
            let mut bed = Bed::new(10);
            let mut client = bed.connect(0);
            flood(&mut bed, &mut client);
            let _client = way(client);
            if ends {
                bed.turn_until(0, |counts| counts.failed == 1);
            }
            let mut turns = 0;
            loop {
                let Some(token) = bed.poll.wait(0).unwrap().next().map(|ready| ready.token) else { break };
                bed.connections.handle_ready(0, token, &bed.poll, &mut Repeat);
                turns += 1;
                assert!(turns < 100, "the connection is ready for ever");
            }
            bed.connections.handle_timeout(10 * SECOND, &bed.poll, &mut Repeat);
            let counts = bed.connections.take_counts();
            assert_eq!((counts.failed, counts.idle), (u64::from(ends), u64::from(!ends)));
            assert_eq!(bed.connections.poll_timeout(), None);
        }
    }

    #[test]
    fn idle_connections_end_and_active_ones_stay() {
        let mut bed = Bed::new(10);
        let (mut active, mut idle) = (bed.connect(0), bed.connect(SECOND));
        assert_eq!(bed.connections.poll_timeout(), Some(10 * SECOND));
        active.write_all(&framed(b"\x01x")).unwrap();
        bed.turn(5 * SECOND);
        assert_eq!(bed.connections.poll_timeout(), Some(11 * SECOND));
        bed.connections.handle_timeout(11 * SECOND - 1, &bed.poll, &mut Repeat);
        assert_eq!(bed.connections.counts.idle, 0);
        bed.connections.handle_timeout(11 * SECOND, &bed.poll, &mut Repeat);
        assert_eq!(bed.connections.counts.idle, 1);
        assert_eq!((idle.read(&mut [0]).unwrap(), read(&mut active, 4)), (0, framed(b"\x01x")));
        assert_eq!(bed.connections.poll_timeout(), Some(15 * SECOND));
    }

    #[test]
    fn a_late_answer_leaves_when_it_is_due_and_others_before_it() {
        let mut bed = Bed::new(10);
        let mut client = bed.connect(0);
        client.write_all(&[framed(b"\x01late"), framed(b"\x01lost"), framed(b"\x01x")].concat()).unwrap();
        bed.turn(SECOND);
        assert_eq!(read(&mut client, 4), framed(b"\x01x"));
        assert_eq!(bed.connections.poll_timeout(), Some(4 * SECOND));
        bed.connections.handle_timeout(4 * SECOND, &bed.poll, &mut Repeat);
        assert_eq!(read(&mut client, 7), framed(b"\x01late"));
        assert_eq!(bed.connections.poll_timeout(), Some(11 * SECOND), "the connection stays");
    }

    #[test]
    fn a_slow_answer_goes_octet_by_octet_and_queries_wait_behind_it() {
        let mut bed = Bed::new(10);
        let mut client = bed.connect(0);
        client.write_all(&[framed(b"\x01late"), framed(b"\x01drip"), framed(b"\x01x")].concat()).unwrap();
        bed.turn(0);
        for (at, octet) in framed(b"\x01drip").into_iter().enumerate() {
            let due = (at as i64 + 1) * SECOND;
            assert_eq!(bed.connections.poll_timeout(), Some(due));
            bed.connections.handle_timeout(due, &bed.poll, &mut Repeat);
            assert_eq!(read(&mut client, 1), [octet], "{at}");
        }
        // The late one is behind it, and then the query that waited.
        for (at, octet) in framed(b"\x01late").into_iter().enumerate() {
            bed.connections.handle_timeout((at as i64 + 8) * SECOND, &bed.poll, &mut Repeat);
            assert_eq!(read(&mut client, 1), [octet], "{at}");
        }
        assert_eq!(read(&mut client, 4), framed(b"\x01x"));
        client.write_all(&framed(b"\x01y")).unwrap();
        bed.turn(15 * SECOND);
        assert_eq!(read(&mut client, 4), framed(b"\x01y"));
        assert_eq!(bed.connections.poll_timeout(), Some(25 * SECOND), "the connection stays");
    }

    #[test]
    fn a_client_that_goes_while_an_answer_is_slow_costs_no_turns() {
        let mut bed = Bed::new(10);
        let mut client = bed.connect(0);
        client.write_all(&framed(b"\x01drip")).unwrap();
        bed.turn(0);
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        bed.turn(0);
        assert_eq!((bed.connections.counts.failed, bed.connections.idle_at()), (1, None));
    }

    #[test]
    fn a_late_answer_of_a_connection_that_has_ended_goes_to_nobody() {
        let mut bed = Bed::new(10);
        let mut gone = bed.connect(0);
        gone.write_all(&framed(b"\x01late")).unwrap();
        bed.turn(0);
        drop(gone);
        bed.turn_until(0, |counts| counts.closed + counts.failed == 1);
        let mut next = bed.connect(SECOND);
        bed.connections.handle_timeout(3 * SECOND, &bed.poll, &mut Repeat);
        next.write_all(&framed(b"\x01x")).unwrap();
        bed.turn(3 * SECOND);
        assert_eq!(read(&mut next, 4), framed(b"\x01x"));
    }

    #[test]
    fn a_fault_resets_a_connection() {
        let mut bed = Bed::new(10);
        let mut client = bed.connect(0);
        client.write_all(&framed(b"\x01reset")).unwrap();
        bed.turn(0);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(bed.connections.take_counts().failed, 1);
    }

    #[test]
    fn the_longest_idle_makes_room() {
        let mut bed = Bed::new(2);
        let (mut first, mut second) = (bed.connect(0), bed.connect(1));
        first.write_all(&framed(b"\x01x")).unwrap();
        bed.turn(2);
        let _third = bed.connect(3);
        assert_eq!((second.read(&mut [0]).unwrap(), bed.connections.counts.evicted), (0, 1));
        assert_eq!((bed.connections.slots.len(), bed.connections.free.len()), (3, 1));
        assert!(bed.connections.evict() && bed.connections.evict() && !bed.connections.evict());
        assert_eq!(bed.connections.poll_timeout(), None);
    }

    #[test]
    fn workers_share_the_bound_and_none_ends_a_connection_that_fits() {
        let room = Arc::new(Room::new(3));
        let (mut busy, mut quiet) = (Bed::of(&room), Bed::of(&room));
        // All on one worker, as the kernel may deal them out.
        let held: Vec<TcpStream> = (0..3).map(|now| busy.connect(now)).collect();
        assert_eq!(busy.connections.take_counts(), ConnectionCounts { accepted: 3, ..ConnectionCounts::default() });
        // The other worker has none to end but the one that came, so it asks.
        let _client = quiet.connect(3);
        quiet.connections.make_room();
        assert_eq!(quiet.connections.take_counts(), ConnectionCounts { accepted: 1, ..ConnectionCounts::default() });
        busy.connections.make_room();
        busy.connections.make_room();
        assert_eq!(busy.connections.take_counts(), ConnectionCounts { evicted: 1, ..ConnectionCounts::default() });
        assert_eq!((&held[0]).read(&mut [0]).unwrap(), 0, "the one that was idle for longest");
        // With one gone, there is room again.
        drop(held);
        busy.turn_until(4, |counts| counts.closed == 2);
        let _more: Vec<TcpStream> = (4..6).map(|now| quiet.connect(now)).collect();
        quiet.connections.make_room();
        assert_eq!(quiet.connections.take_counts(), ConnectionCounts { accepted: 2, ..ConnectionCounts::default() });
    }

    #[test]
    fn what_is_no_query_ends_the_connection() {
        let mut bed = Bed::new(10);
        let mut client = bed.connect(0);
        client.write_all(&framed(b"\0")).unwrap();
        bed.turn(0);
        assert_eq!((client.read(&mut [0]).unwrap_or(0), bed.connections.counts.failed), (0, 1));
    }
}
