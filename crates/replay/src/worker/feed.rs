//! Takes due queries from the feed, and decides which cannot be sent.

use std::hint;

use crossbeam_channel::TryRecvError;
use ldplayer_core::{Query, Reason, RunTime, Transport};
use ldplayer_net::refusal::Refusal;
use ldplayer_net::udp::BATCH;

use super::{TIMED_BATCH, Worker};
use crate::route::Route;
use crate::sockets::Carries;

/// Maximum number of queries for connections that an unpaced replay takes at once: queries written together leave
/// in one segment, and the number of segments limits an answered replay over connections.
const STREAM_BATCH: usize = 64 << 10;
/// So long before a query over UDP is due a spinning worker begins with it, in nanoseconds: finding its client's data, which is in no cache, and
/// writing its packet takes most of that, and ten times as long without optimization.
const AHEAD: i64 = if cfg!(debug_assertions) { 20_000 } else { 2_000 };

/// Ports run out when this many sockets in a row take longer than [`SLOW_OPEN`] to open: the kernel tries ports at random, and finds one within
/// microseconds while many are free.
const SLOW_OPENS: u32 = 8;
/// In nanoseconds.
const SLOW_OPEN: i64 = 150_000;

/// What became of the socket of a new client.
enum Opened {
    Quickly,
    /// Like those before it: clients to come would be late.
    Slowly,
    /// There are no ports or descriptors left.
    Not,
}

impl Worker<'_> {
    /// Hands due queries to their machines, at most one batch, and returns their number.
    pub(super) fn take_due(&mut self, now: RunTime) -> usize {
        // One that waits for an ID may have it now.
        self.transports.udp.has_ids();
        let batch = if self.settings.fast { self.fast_batch } else { BATCH };
        let room = batch.saturating_sub(self.transports.udp.queued());
        let most = if self.settings.fast { STREAM_BATCH } else { TIMED_BATCH };
        let (mut datagrams, mut for_connections) = (0, 0);
        while datagrams < room && for_connections < most && self.is_due(now) {
            let Some(query) = self.next.take() else { break };
            let is_datagram = query.transport == Transport::Udp;
            self.on_streams = self.shares && !is_datagram;
            *(if is_datagram { &mut datagrams } else { &mut for_connections }) += 1;
            self.start(query, now);
        }
        let taken = datagrams + for_connections;
        if taken == 0 { self.take_ahead(now).into() } else { taken }
    }

    /// Takes the next query shortly before it is due, for [`Self::hold`] to have it ready. Returns whether there is one. Connections send what
    /// they take at once, and so does the link of [`crate::frames`] that delays.
    fn take_ahead(&mut self, now: RunTime) -> bool {
        let may = self.pace.is_spinning()
            && !self.settings.fast
            && self.transports.udp.queued() == 0
            && self.frames.as_ref().is_none_or(|frames| !frames.is_delaying());
        let is_near = |query: &mut Query| query.transport == Transport::Udp && query.due - now <= AHEAD;
        let Some(query) = self.next.take_if(|query| may && is_near(query)) else { return false };
        self.ahead = Some(query.due);
        self.on_streams = false;
        self.start(query, now);
        true
    }

    /// Waits until the query is due that was taken ahead of its time.
    pub(super) fn hold(&mut self) {
        let Some(due) = self.ahead.take() else { return };
        let began = self.now();
        let mut now = began;
        while now < due {
            hint::spin_loop();
            let next = self.now();
            self.end.stalls.observe(now, next);
            now = next;
        }
        self.load.note_sleep(now - began);
    }

    fn is_due(&mut self, now: RunTime) -> bool {
        let Some(due) = self.peek(now) else { return false };
        if self.settings.fast { self.has_window() } else { due <= now }
    }

    /// When the next query is due. Takes the next batch from the feed if necessary.
    pub(super) fn peek(&mut self, now: RunTime) -> Option<RunTime> {
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
        self.end.taken += batch.len() as u64;
        self.batch = batch.into_iter();
        self.next = self.batch.next();
        let overdue = self.next.as_ref().is_some_and(|query| query.due < now);
        if std::mem::take(&mut self.starved) && overdue && !self.settings.fast {
            self.end.fed_late += 1 + self.batch.as_slice().iter().filter(|query| query.due < now).count() as u64;
        }
    }

    pub(super) fn start(&mut self, mut query: Query, now: RunTime) {
        if self.settings.fast {
            query.due = now;
        }
        let lag = now - query.due;
        self.lag = self.lag.max(lag);
        self.load.note_lag(lag);
        if self.interrupted_at.is_some() {
            self.transports.handle_unroutable(&query, Reason::Interrupted);
        } else if !self.speaks(query.transport) {
            self.transports.handle_unroutable(&query, Reason::Transport);
        } else if self.settings.max_lag.is_some_and(|most| lag > most) {
            self.transports.handle_unroutable(&query, Reason::Lag);
        } else {
            match self.route(&query) {
                Ok(route) => self.ask(now, query, route),
                Err(reason) => self.transports.handle_unroutable(&query, reason),
            }
        }
    }

    /// The route of a query. A client whose socket cannot be opened, for want of ports or descriptors, shares the socket of another client.
    fn route(&mut self, query: &Query) -> Result<Route, Reason> {
        let route = self.router.route(query)?;
        if !self.router.is_new() || self.frames.is_some() {
            return Ok(route);
        }
        match self.open(&route, query.transport) {
            Opened::Quickly => Ok(route),
            Opened::Slowly => {
                self.limit_sockets(&route, self.router.routed(route.server.is_ipv6()));
                Ok(route)
            }
            Opened::Not => {
                let shared = self.router.share(query.client, route.server).ok_or(Reason::NoSource)?;
                self.limit_sockets(&route, self.router.routed(route.server.is_ipv6()) - 1);
                Ok(shared)
            }
        }
    }

    /// Opens the socket of a new client.
    fn open(&mut self, route: &Route, transport: Transport) -> Opened {
        let carries = match transport {
            Transport::Udp => Carries::Dns,
            _ => Carries::Quic(route.server.port()),
        };
        let began = self.now();
        let opened = self.sockets.get(route.socket, carries, route.server).map(drop);
        let is_slow = self.now() - began > SLOW_OPEN;
        self.slow_opens = if is_slow { self.slow_opens + 1 } else { 0 };
        match opened {
            Err(error) if Refusal::of(&error) == Refusal::NoSource => Opened::Not,
            Ok(()) if self.slow_opens >= SLOW_OPENS => Opened::Slowly,
            // Other errors are met again when the query is sent.
            _ => Opened::Quickly,
        }
    }

    /// Gives new clients no socket beyond the first `most`, neither to the server nor to the reference server.
    fn limit_sockets(&mut self, route: &Route, most: u32) {
        let v6 = route.server.is_ipv6();
        self.router.limit(v6, most);
        if let Some(pairs) = &mut self.pairs {
            pairs.limit(v6, most);
        }
    }

    const fn speaks(&self, transport: Transport) -> bool {
        !transport.is_encrypted() || self.settings.tls.is_some()
    }
}
