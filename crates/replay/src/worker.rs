//! A worker: the one place of a replay that reads the clock and calls the kernel.

mod packets;

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use ldplayer_core::{Outcome, Query, Reason, RunTime, Transport};
use ldplayer_net::clock;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch};

use crate::connections::{ALPN_DOT, Connections, Doh, TlsClient};
use crate::monitor::{Gauge, Monitor};
use crate::pace::{Pace, Wait};
use crate::quic::{ALPN_DOQ, Doh3, Outgoing, Quic, QuicTls};
use crate::route::{Router, SocketKey, Sources};
use crate::settings::Settings;
use crate::slab::Slot;
use crate::sockets::{Carries, Sockets};
use crate::stall::Stalls;
use crate::streams::Streams;
use crate::table::{Config, ConnectionCounts, Machine, Policy};
use crate::udp::{Arrival, Udp, UdpConfig};

/// Rows handed to the recorder at once.
pub const ROWS: usize = 1_024;
/// Rows and gauges are handed over this often, in nanoseconds …
const FLUSH_EVERY: i64 = 50_000_000;
/// … or, while a query is soon due, at least this often: to wake the recorder takes up to 20 µs.
const FLUSH_AT_LEAST: i64 = 200_000_000;
/// How long a worker without a query waits before it looks at its feed again, in nanoseconds.
const FEED_EVERY: i64 = 200_000;
/// How long outstanding queries may still be answered after an interrupt, in nanoseconds.
const GRACE: i64 = 1_000_000_000;
/// Datagrams taken at once while a query is soon due, so that it is not held up.
const SMALL_RECEIVE: usize = 8;
/// What counts as soon, in nanoseconds.
const SOON: i64 = 50_000;
/// Sleeps up to this long, in nanoseconds, do not end when an answer comes: it waits with the kernel's stamp until the next
/// query is sent, and costs no wake-up of its own.
const DOZE: i64 = 1_000_000;
/// The least time of an answer that others come before, in nanoseconds: no server answers faster over connections.
const ANSWER: i64 = 1_000;
/// A replay without times that waits for many answers looks away for so long, in nanoseconds: as long as it sleeps until
/// something comes, each answer costs the server's core a wake-up of this one.
const NAP: std::ops::RangeInclusive<i64> = 20_000..=200_000;
/// Queries of a timed replay sent by one call at most: it bounds the error of their common time to about 15 µs.
const TIMED_BATCH: usize = 16;
/// Queries for connections taken at once by a replay without times, at most: what goes out on a connection together leaves
/// in one segment, and an answered replay over connections is bound by the segments that the kernel carries.
const STREAM_BATCH: usize = 64 << 10;
/// Sends repeated after an error that belongs to an earlier datagram.
const SEND_TRIES: usize = 8;

/// The machines of connections of a worker, which number theirs by turns: that over TCP …
const TCP: u64 = 0;
/// … and that over QUIC.
const QUIC: u64 = 1;

/// What a worker leaves behind.
#[derive(Clone, Debug, Default)]
pub struct WorkerEnd {
    /// Times in which the host kept the core from a spinning worker.
    pub stalls: Stalls,
    /// Queries that reached the worker after they were due.
    pub fed_late: u64,
    /// Hand-overs that had to wait for the recorder.
    pub recorder_full: u64,
    /// Sends put off because the kernel's buffer was full.
    pub postponed: u64,
    /// What the kernel said to the first query that it refused for good.
    pub refused: Option<String>,
    /// UDP sockets opened.
    pub sockets: usize,
    /// What became of connections.
    pub connections: ConnectionCounts,
}

/// Where a worker gets its queries and leaves its rows.
pub struct Links {
    /// Batches of queries of this worker's clients, in the order of their due times.
    pub feed: Receiver<Vec<Query>>,
    /// Finished rows.
    pub rows: Sender<(usize, Vec<Outcome>)>,
    /// Emptied buffers to fill again.
    pub spare: Receiver<Vec<Outcome>>,
}

/// One worker thread.
pub struct Worker<'a> {
    number: usize,
    settings: &'a Settings,
    monitor: &'a Monitor,
    links: Links,
    origin: i64,
    udp: Udp,
    streams: Streams,
    quic: Quic,
    router: Router,
    sockets: Sockets,
    pace: Pace,
    batch: std::vec::IntoIter<Query>,
    next: Option<Query>,
    fed: bool,
    starved: bool,
    interrupted_at: Option<RunTime>,
    flushed: RunTime,
    lag: i64,
    /// Queries may have a connection in common.
    shares: bool,
    /// The last query was for such a connection …
    on_streams: bool,
    /// … and the window is being filled.
    filling: bool,
    /// It looked away last, and is to see what came meanwhile.
    napped: bool,
    idle_since: Option<RunTime>,
    sending: Vec<Slot>,
    packets: Vec<Outgoing>,
    send: SendBatch,
    receive: ReceiveBatch,
    end: WorkerEnd,
}

impl<'a> Worker<'a> {
    /// A worker whose run time 0 is at `origin` of the monotonic clock.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn new(
        number: usize,
        origin: i64,
        settings: &'a Settings,
        monitor: &'a Monitor,
        links: Links,
    ) -> io::Result<Self> {
        let mut sockets = Sockets::new(settings.sources.clone())?;
        open_shared(&mut sockets, settings)?;
        Ok(Self {
            number,
            settings,
            monitor,
            links,
            origin,
            udp: Udp::new(udp_config(settings)),
            streams: Streams::new(connections(number, settings)?, origin),
            quic: quic(number, settings)?,
            router: Router::new(settings.sources.clone(), settings.servers, settings.max_sockets),
            sockets,
            pace: Pace::new(settings.precision),
            batch: Vec::new().into_iter(),
            next: None,
            fed: true,
            starved: false,
            interrupted_at: None,
            flushed: RunTime(0),
            lag: 0,
            shares: policies(settings).iter().any(|policy| policy.pipeline.min(policy.queries_per_connection) > 1),
            on_streams: false,
            filling: true,
            napped: false,
            idle_since: None,
            sending: Vec::with_capacity(BATCH),
            packets: Vec::with_capacity(BATCH),
            send: SendBatch::new(),
            receive: ReceiveBatch::new(),
            end: WorkerEnd::default(),
        })
    }

    /// Replays until the feed has ended and every query has its outcome.
    ///
    /// # Errors
    /// What the kernel said to the wait itself; errors of single queries are rows.
    pub fn run(mut self) -> io::Result<WorkerEnd> {
        while !self.is_done() {
            let now = self.now();
            self.watch_stalls(now);
            self.heed_interrupt(now);
            let taken = self.take_due(now);
            let sent = self.transmit();
            self.udp.handle_timeout(now);
            self.streams.machine.handle_timeout(now);
            self.quic.handle_timeout(now);
            let driven = self.drive();
            let received = self.rest(taken + sent + driven > 0)?;
            if taken + sent + driven + received > 0 {
                self.idle_since = None;
            }
            self.flush_when_due(now);
        }
        self.flush();
        self.close_quic();
        self.end.sockets = self.sockets.len();
        self.end.connections = self.connection_counts();
        self.end.refused = self.end.refused.or(self.streams.refused);
        Ok(self.end)
    }

    fn now(&self) -> RunTime {
        RunTime(clock::monotonic_ns() - self.origin)
    }

    fn is_done(&self) -> bool {
        !self.fed && self.next.is_none() && self.udp.queued() == 0 && self.outstanding() == 0
    }

    /// Queries under way, over whatever transport.
    fn outstanding(&self) -> usize {
        self.udp.outstanding() + self.streams.machine.outstanding() + self.quic.outstanding()
    }

    /// Asks again over TCP what was truncated over UDP, and carries out what connections want. Returns how much that was.
    fn drive(&mut self) -> usize {
        while let Some(pending) = self.udp.poll_truncated() {
            let now = self.now();
            self.streams.machine.handle_truncated(now, pending);
        }
        self.streams.drive(self.sockets.poll()) + self.drive_quic()
    }

    fn connection_counts(&self) -> ConnectionCounts {
        self.streams.machine.connection_counts().plus(self.quic.connection_counts())
    }

    /// Hands the queries that are due to the machine, one batch at most, and returns how many.
    fn take_due(&mut self, now: RunTime) -> usize {
        let room = BATCH.saturating_sub(self.udp.queued());
        let most = if self.settings.fast { STREAM_BATCH } else { TIMED_BATCH };
        let (mut datagrams, mut for_connections) = (0, 0);
        while datagrams < room && for_connections < most && self.is_due(now) {
            let Some(query) = self.next.take() else { break };
            let is_datagram = query.transport == Transport::Udp;
            self.on_streams = self.shares && !is_datagram;
            *(if is_datagram { &mut datagrams } else { &mut for_connections }) += 1;
            self.start(query, now);
        }
        datagrams + for_connections
    }

    fn is_due(&mut self, now: RunTime) -> bool {
        let Some(due) = self.peek(now) else { return false };
        if self.settings.fast { self.has_window() } else { due <= now }
    }

    /// Whether the window has room for a whole batch, or for a quarter of a small window: sending one by one as
    /// answers come would cost a wake-up of the server for each. Where connections are shared it is filled once half of it is
    /// free, so that several queries share a segment; where they are not, so many at once would only flood the server's queue
    /// of connections to accept.
    fn has_window(&mut self) -> bool {
        let taken = self.outstanding() + self.udp.queued();
        let room = self.settings.window.saturating_sub(taken);
        if self.on_streams {
            self.filling = room > 0 && (self.filling || room >= self.settings.window / 2);
            return self.filling;
        }
        room >= BATCH.min(self.settings.window.div_ceil(4)) || (room > 0 && self.udp.queued() > 0)
    }

    /// For how long a replay without times has nothing to send at least, in nanoseconds: until half of the window is free.
    fn nap(&self) -> Option<i64> {
        let until = self.settings.window - self.settings.window / 2;
        let answers = self.outstanding().saturating_sub(until) as i64;
        let nap = (answers * ANSWER).min(*NAP.end());
        (self.settings.fast && self.on_streams && !self.filling && NAP.contains(&nap)).then_some(nap)
    }

    /// When the next query is due. Takes the next batch from the feed where needed.
    fn peek(&mut self, now: RunTime) -> Option<RunTime> {
        if self.next.is_none() {
            self.next = self.batch.next();
        }
        if self.next.is_none() && self.fed {
            match self.links.feed.try_recv() {
                Ok(batch) => self.accept(batch, now),
                Err(TryRecvError::Empty) => self.starved = true,
                Err(TryRecvError::Disconnected) => self.fed = false,
            }
        }
        self.next.as_ref().map(|query| query.due)
    }

    fn accept(&mut self, batch: Vec<Query>, now: RunTime) {
        self.batch = batch.into_iter();
        self.next = self.batch.next();
        let overdue = self.next.as_ref().is_some_and(|query| query.due < now);
        if std::mem::take(&mut self.starved) && overdue && !self.settings.fast {
            self.end.fed_late += 1 + self.batch.as_slice().iter().filter(|query| query.due < now).count() as u64;
        }
    }

    fn start(&mut self, mut query: Query, now: RunTime) {
        if self.settings.fast {
            query.due = now;
        }
        let lag = now - query.due;
        self.lag = self.lag.max(lag);
        if self.interrupted_at.is_some() {
            self.udp.handle_unroutable(&query, Reason::Interrupted);
        } else if !self.speaks(query.transport) {
            self.udp.handle_unroutable(&query, Reason::Transport);
        } else if self.settings.max_lag.is_some_and(|most| lag > most) {
            self.udp.handle_unroutable(&query, Reason::Lag);
        } else {
            match self.router.route(&query) {
                Ok(route) if query.transport == Transport::Udp => self.udp.handle_query(query, route),
                Ok(mut route) => {
                    match query.transport {
                        Transport::Tcp => {}
                        Transport::Doh2 | Transport::Doh3 => route.server.set_port(self.settings.doh_port),
                        _ => route.server.set_port(self.settings.tls_port),
                    }
                    match query.transport {
                        Transport::Doq | Transport::Doh3 => self.quic.handle_query(now, query, route),
                        _ => self.streams.machine.handle_query(now, query, route),
                    }
                }
                Err(reason) => self.udp.handle_unroutable(&query, reason),
            }
        }
    }

    const fn speaks(&self, transport: Transport) -> bool {
        match transport {
            Transport::Udp | Transport::Tcp => true,
            Transport::Dot | Transport::Doh2 | Transport::Doh3 | Transport::Doq => self.settings.tls.is_some(),
        }
    }

    /// Hands what is queued to the kernel, a batch for each socket, and returns how many it took.
    fn transmit(&mut self) -> usize {
        let mut sent = 0;
        while let Some(key) = self.collect() {
            let count = self.send_collected(key);
            sent += count;
            if count == 0 {
                break;
            }
        }
        sent
    }

    /// Fills `sending` with queued queries of one socket.
    fn collect(&mut self) -> Option<SocketKey> {
        self.sending.clear();
        let mut socket = None;
        let most = if self.settings.fast { BATCH } else { TIMED_BATCH };
        while self.sending.len() < most {
            let Some(slot) = self.udp.poll_transmit() else { break };
            let Some(transmit) = self.udp.transmit(slot) else { continue };
            if socket.is_some_and(|socket| socket != transmit.socket) {
                self.udp.handle_postponed(slot);
                break;
            }
            socket = Some(transmit.socket);
            self.sending.push(slot);
        }
        socket
    }

    /// Sends `sending` and tells the machine. Returns how many queries came to an end of their queueing.
    fn send_collected(&mut self, key: SocketKey) -> usize {
        let mut done = 0;
        for _ in 0..SEND_TRIES {
            match self.send_once(key, done) {
                Ok(count) => done += count,
                Err(error) => match Refusal::of(&error) {
                    Refusal::Earlier => self.fetch_errors(key, Carries::Dns),
                    Refusal::Full => {
                        self.end.postponed += 1;
                        break;
                    }
                    Refusal::Final(reason) => {
                        self.end.refused.get_or_insert_with(|| error.to_string());
                        self.udp.handle_unsent(self.sending[done], reason);
                        done += 1;
                    }
                },
            }
            if done == self.sending.len() {
                return done;
            }
        }
        for &slot in self.sending[done..].iter().rev() {
            self.udp.handle_postponed(slot);
        }
        done
    }

    /// One system call for `sending` from `first` on. Each datagram gets the time of the call: never later than the
    /// truth, so that no latency is flattered, and earlier by at most the length of a batch.
    fn send_once(&mut self, key: SocketKey, first: usize) -> io::Result<usize> {
        let slots = &self.sending[first..];
        let Some(server) = slots.first().and_then(|&slot| self.udp.transmit(slot)).map(|transmit| transmit.server)
        else {
            return Ok(0);
        };
        let socket = self.sockets.get(key, Carries::Dns, server)?;
        let connected = socket.is_connected();
        let before = clock::monotonic_ns() - self.origin;
        let datagrams = slots.iter().map(|&slot| datagram(&self.udp, slot, connected));
        let count = self.send.send(socket, datagrams)?;
        let port = socket.local().port();
        for &slot in &slots[..count] {
            self.udp.handle_sent(slot, RunTime(before), port);
        }
        Ok(count)
    }

    /// Waits for the next thing to do and takes what arrives. Returns how many datagrams came.
    fn rest(&mut self, busy: bool) -> io::Result<usize> {
        let now = self.now();
        let due = self.peek(now);
        let due = due.filter(|_| !self.settings.fast || self.has_window());
        if due.is_none() && !self.fed && self.outstanding() == 0 {
            return Ok(0);
        }
        let due = match due {
            Some(_) if self.settings.fast => now.0,
            Some(due) => due.0,
            None => i64::MAX,
        };
        let other = self.other_deadline(now);
        let limit = if due.saturating_sub(now.0) < SOON && !self.settings.fast { SMALL_RECEIVE } else { BATCH };
        let timeout = match self.pace.wait(now.0, due.min(other)) {
            Wait::Spin => 0,
            Wait::Sleep(_) if busy || due <= now.0 => 0,
            Wait::Sleep(ns) => ns,
        };
        let is_opening_any = self.streams.machine.is_opening_any() || self.quic.is_opening_any();
        if (1..=DOZE).contains(&timeout) && !is_opening_any {
            clock::sleep_until(self.origin + now.0 + timeout);
            self.woke(now.0 + timeout, due < other);
            return Ok(0);
        }
        let nap = self.nap().filter(|&nap| nap < timeout && !is_opening_any && !self.napped);
        self.napped = nap.is_some();
        if let Some(nap) = nap {
            clock::sleep_until(self.origin + now.0 + nap);
            return Ok(0);
        }
        let ready = self.sockets.wait(timeout)?;
        self.woke(now.0 + timeout, timeout > 0 && ready == 0 && due < other);
        Ok((0..ready).map(|number| self.read(number, limit)).sum())
    }

    /// Lets the pace learn from a sleep that only its own end ended.
    fn woke(&mut self, wanted: i64, is_telling: bool) {
        if is_telling {
            let woke = self.now();
            self.pace.woke(wanted, woke.0);
        }
    }

    /// The next thing to do beside sending: a timeout, a hand-over, a look at the feed, the end of the grace time.
    fn other_deadline(&self, now: RunTime) -> i64 {
        let timeouts = [self.udp.poll_timeout(), self.streams.machine.poll_timeout(), self.quic.poll_timeout()];
        let timeout = timeouts.into_iter().flatten().min().map_or(i64::MAX, |deadline| deadline.0);
        let overdue = now - self.flushed >= FLUSH_EVERY;
        let flush = self.flushed.0 + if overdue { FLUSH_AT_LEAST } else { FLUSH_EVERY };
        let feed = if self.fed && self.next.is_none() { now.0 + FEED_EVERY } else { i64::MAX };
        timeout.min(flush).min(feed)
    }

    /// Takes what has come for a socket that is ready.
    fn read(&mut self, number: usize, limit: usize) -> usize {
        let ready = self.sockets.ready(number);
        if Streams::is_ours(ready.token) {
            self.streams.handle_ready(&ready);
            return 1;
        }
        let (key, carries, socket) = self.sockets.at(ready.token);
        if ready.error {
            self.fetch_errors(key, carries);
            return 1;
        }
        // An error of a connected socket is told by the error queue, too, and wakes the worker again.
        let Ok(count) = self.receive.receive(socket, limit) else { return 0 };
        let offset = clock::realtime_offset_ns();
        let arrived = clock::monotonic_ns();
        for received in self.receive.iter() {
            let Some(peer) = received.peer else { continue };
            let at = received.stamp_ns.map_or(arrived, |stamp| (stamp - offset).min(arrived));
            let at = RunTime(at - self.origin);
            let arrival = Arrival { socket: key, peer, local: received.local, at, octets: received.octets };
            match carries {
                Carries::Dns => self.udp.handle_datagram(&arrival),
                Carries::Quic(_) => self.quic.handle_datagram(&arrival),
            }
        }
        count
    }

    fn fetch_errors(&mut self, key: SocketKey, carries: Carries) {
        let Some(socket) = self.sockets.find(key, carries) else { return };
        if self.receive.receive_errors(socket).is_ok() {
            for refused in self.receive.iter() {
                match carries {
                    Carries::Dns => self.udp.handle_refused(key, refused.octets),
                    Carries::Quic(_) => self.quic.handle_refused(refused.octets),
                }
            }
        }
    }

    /// A spinning worker looks at the clock every microsecond or so; a longer gap is the host's doing.
    fn watch_stalls(&mut self, now: RunTime) {
        if let Some(since) = self.idle_since.filter(|_| self.pace.is_spinning()) {
            self.end.stalls.observe(since, now);
        }
        self.idle_since = Some(now);
    }

    fn heed_interrupt(&mut self, now: RunTime) {
        if !self.monitor.is_stopped() {
            return;
        }
        let since = *self.interrupted_at.get_or_insert(now);
        while let Some(query) = self.peek(now).and_then(|_| self.next.take()) {
            self.start(query, now);
        }
        if now - since >= GRACE.min(self.settings.query_timeout) {
            self.udp.handle_interrupt();
            self.streams.machine.handle_interrupt(now);
            self.quic.handle_interrupt(now);
        }
    }

    fn flush_when_due(&mut self, now: RunTime) {
        let since = now - self.flushed;
        let is_time = since >= FLUSH_AT_LEAST || (since >= FLUSH_EVERY && !self.is_soon_due());
        let rows = [self.udp.outcomes(), self.streams.machine.outcomes(), self.quic.outcomes()];
        if is_time || rows.into_iter().any(|rows| rows.len() >= ROWS) {
            self.flushed = now;
            self.flush();
        }
    }

    fn is_soon_due(&self) -> bool {
        !self.settings.fast && self.next.as_ref().is_some_and(|query| query.due - self.now() < SOON)
    }

    /// Hands the rows to the recorder and the accounts to whoever watches.
    fn flush(&mut self) {
        let gauge: &Gauge = &self.monitor.workers[self.number];
        let machine = &mut self.streams.machine;
        gauge.set(&self.udp.counts().plus(machine.counts()).plus(self.quic.counts()));
        gauge.set_connections(&machine.connection_counts().plus(self.quic.connection_counts()));
        gauge.lag_ns.store(std::mem::take(&mut self.lag), Ordering::Relaxed);
        let rows = [self.udp.outcomes(), machine.outcomes(), self.quic.outcomes()];
        for rows in rows.into_iter().filter(|rows| !rows.is_empty()) {
            let spare = self.links.spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(ROWS * 2));
            let rows = std::mem::replace(rows, spare);
            if self.links.rows.is_full() {
                self.end.recorder_full += 1;
            }
            // The recorder only goes away when the run is being torn down by a panic elsewhere.
            let _ = self.links.rows.send((self.number, rows));
        }
    }
}

fn udp_config(settings: &Settings) -> UdpConfig {
    UdpConfig {
        query_timeout: settings.query_timeout,
        linger: settings.query_timeout,
        seed: settings.seed,
        tc_fallback: falling_back(settings),
    }
}

/// How clients use connections: each class of them, or all where there are none.
fn policies(settings: &Settings) -> &[Policy] {
    let all = std::slice::from_ref(&settings.policy);
    if settings.classes.is_empty() { all } else { &settings.classes }
}

/// The classes of clients that ask again over TCP, a bit for each.
fn falling_back(settings: &Settings) -> u64 {
    policies(settings).iter().zip(0..u64::BITS).map(|(policy, at)| u64::from(policy.tc_fallback) << at).sum()
}

fn connections(number: usize, settings: &Settings) -> io::Result<Connections> {
    let config = config(number, TCP, settings);
    let tls = settings.tls.as_ref();
    let dot = tls.map(|tls| TlsClient::new(tls, ALPN_DOT)).transpose().map_err(io::Error::other)?;
    let doh = tls.map(|tls| Doh::new(tls, &settings.doh)).transpose().map_err(io::Error::other)?;
    Ok(Connections::new(config, dot).with_doh(doh).with_classes(&settings.classes))
}

/// The machine of QUIC. What it knows as run time 0 is a moment like any other: only distances count.
fn quic(number: usize, settings: &Settings) -> io::Result<Quic> {
    let early_data = settings.policy.early_data || settings.classes.iter().any(|policy| policy.early_data);
    let doq = settings.tls.as_ref().map(|tls| QuicTls::new(tls, ALPN_DOQ, 0, early_data));
    let doq = doq.transpose().map_err(io::Error::other)?;
    let doh3 = settings.tls.as_ref().map(|tls| Doh3::new(tls, &settings.doh, early_data));
    let doh3 = doh3.transpose().map_err(io::Error::other)?;
    Ok(Quic::new(config(number, QUIC, settings), Instant::now(), doq, doh3).with_classes(&settings.classes))
}

/// The limits of a machine of connections, of which a worker has one over TCP and, where there is TLS, one over QUIC.
fn config(number: usize, machine: u64, settings: &Settings) -> Config {
    let machines = 1 + u64::from(settings.tls.is_some());
    Config {
        policy: settings.policy,
        query_timeout: settings.query_timeout,
        linger: settings.query_timeout,
        most: connections_at_once(machine, &settings.sources, settings.max_sockets),
        seed: settings.seed,
        first: number as u64 * machines + machine,
        step: settings.workers as u64 * machines,
    }
}

/// Connections over TCP have a socket each. Those over QUIC share sockets, unless each client has one.
fn connections_at_once(machine: u64, sources: &Sources, sockets: u32) -> u32 {
    if machine == QUIC && *sources != Sources::Ports { u32::MAX } else { sockets }
}

/// Opens the first shared socket of each server ahead of time: opening one takes longer than the first query has.
fn open_shared(sockets: &mut Sockets, settings: &Settings) -> io::Result<()> {
    if settings.sources == Sources::Ports {
        return Ok(());
    }
    for server in [settings.servers.v4, settings.servers.v6].into_iter().flatten() {
        sockets.get(SocketKey::Shared { v6: server.is_ipv6(), number: 0 }, Carries::Dns, server)?;
    }
    Ok(())
}

fn datagram(udp: &Udp, slot: Slot, connected: bool) -> Datagram<'_> {
    let Some(transmit) = udp.transmit(slot) else {
        return Datagram { head: [0; 2], tail: &[], source: None, peer: None };
    };
    Datagram {
        head: transmit.id.to_be_bytes(),
        tail: &transmit.wire[2..],
        source: transmit.source.filter(|_| !connected),
        peer: (!connected).then_some(transmit.server),
    }
}

/// What a refused send means.
enum Refusal {
    /// The error belongs to an earlier datagram of the socket: fetch it and try again.
    Earlier,
    /// The kernel has no room now.
    Full,
    /// This datagram cannot be sent.
    Final(Reason),
}

impl Refusal {
    fn of(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        const ENOBUFS: i32 = 105;
        const EMSGSIZE: i32 = 90;
        const EMFILE: i32 = 24;
        match (error.kind(), error.raw_os_error()) {
            (Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable, _) => Self::Earlier,
            (Kind::WouldBlock, _) | (_, Some(ENOBUFS)) => Self::Full,
            (Kind::AddrNotAvailable | Kind::AddrInUse, _) | (_, Some(EMFILE)) => Self::Final(Reason::NoSource),
            (_, Some(EMSGSIZE)) => Self::Final(Reason::BadMessage),
            _ => Self::Final(Reason::SendError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_over_quic_that_share_sockets_are_not_bounded_by_their_number() {
        assert_eq!(connections_at_once(QUIC, &Sources::Original, 100), u32::MAX);
        assert_eq!(connections_at_once(QUIC, &Sources::Ports, 100), 100);
        assert_eq!(connections_at_once(TCP, &Sources::Original, 100), 100);
    }
}
