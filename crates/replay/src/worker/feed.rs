//! Takes due queries from the feed, and decides which cannot be sent.

use crossbeam_channel::TryRecvError;
use ldplayer_core::{Query, Reason, RunTime, Transport};
use ldplayer_net::udp::BATCH;

use super::{TIMED_BATCH, Worker};

/// Maximum number of queries for connections that an unpaced replay takes at once: queries written together leave
/// in one segment, and the number of segments limits an answered replay over connections.
const STREAM_BATCH: usize = 64 << 10;

impl Worker<'_> {
    /// Hands due queries to their machines, at most one batch, and returns their number.
    pub(super) fn take_due(&mut self, now: RunTime) -> usize {
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
        datagrams + for_connections
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
            match self.router.route(&query) {
                Ok(route) => self.ask(now, query, route),
                Err(reason) => self.transports.handle_unroutable(&query, reason),
            }
        }
    }

    const fn speaks(&self, transport: Transport) -> bool {
        !transport.is_encrypted() || self.settings.tls.is_some()
    }
}
