//! How a worker waits, and what it takes from the kernel: answers, refusals, what connections have become ready for.

use std::io;

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_net::pace::Wait;
use ldplayer_net::udp::BATCH;

use super::hand_over::{FLUSH_AT_LEAST, FLUSH_EVERY};
use super::{SOON, Worker};
use crate::route::SocketKey;
use crate::sockets::Carries;
use crate::streams::Streams;
use crate::udp::Arrival;

/// How long a worker without a query waits before it looks at its feed again, in nanoseconds.
const FEED_EVERY: i64 = 200_000;
/// Datagrams taken at once while a query is soon due, so that it is not held up.
const SMALL_RECEIVE: usize = 8;
/// Sleeps up to this long, in nanoseconds, do not end when an answer comes: it waits with the kernel's stamp until the next
/// query is sent, and costs no wake-up of its own.
const DOZE: i64 = 1_000_000;

impl Worker<'_> {
    /// Waits for the next thing to do and takes what arrives. Returns how many datagrams came.
    pub(super) fn rest(&mut self, busy: bool) -> io::Result<usize> {
        let now = self.now();
        let due = self.peek(now);
        let due = due.filter(|_| !self.settings.fast || self.has_window());
        if due.is_none() && !self.fed && self.transports.outstanding() == 0 {
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
        let is_opening_any = self.transports.is_opening_any();
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
        let timeout = self.transports.poll_timeout().map_or(i64::MAX, |deadline| deadline.0);
        let overdue = now - self.flushed >= FLUSH_EVERY;
        let flush = self.flushed.0 + if overdue { FLUSH_AT_LEAST } else { FLUSH_EVERY };
        let feed = if self.fed && self.next.is_none() { now.0 + FEED_EVERY } else { i64::MAX };
        timeout.min(flush).min(feed)
    }

    /// Takes what has come for a socket that is ready.
    fn read(&mut self, number: usize, limit: usize) -> usize {
        let ready = self.sockets.ready(number);
        if Streams::is_ours(ready.token) {
            self.transports.streams.handle_ready(&ready);
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
                Carries::Dns => self.transports.udp.handle_datagram(&arrival),
                Carries::Quic(_) => self.transports.quic.handle_datagram(&arrival),
            }
        }
        count
    }

    pub(super) fn fetch_errors(&mut self, key: SocketKey, carries: Carries) {
        let Some(socket) = self.sockets.find(key, carries) else { return };
        if self.receive.receive_errors(socket).is_ok() {
            for refused in self.receive.iter() {
                match carries {
                    Carries::Dns => self.transports.udp.handle_refused(key, refused.octets),
                    Carries::Quic(_) => self.transports.quic.handle_refused(refused.octets),
                }
            }
        }
    }
}
