//! Waits for sockets, and reads answers, errors and readiness.

use std::io;

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_net::pace::Wait;
use ldplayer_net::poll::EVENTS;
use ldplayer_net::udp::BATCH;

use super::hand_over::{FLUSH_AT_LEAST, FLUSH_EVERY};
use super::{SOON, Worker};
use crate::route::SocketKey;
use crate::sockets::Carries;
use crate::streams::Streams;
use crate::udp::Arrival;

/// How long a worker without a query waits before it checks its feed again, in nanoseconds.
const FEED_EVERY: i64 = 200_000;
/// Maximum number of datagrams read at once while a query is soon due; more if more queries have just been sent.
const SMALL_RECEIVE: usize = 8;
/// Sleeps up to this long, in nanoseconds, are not interrupted by answers: these wait with the kernel's timestamp until the next
/// query is sent, and cost no wake-up.
const DOZE: i64 = 1_000_000;
/// How long a round reads on while a query is due, in nanoseconds: what arrives must not hold the schedule back, and what is due
/// must not keep answers unread.
const READING: i64 = 1_000_000;
/// How long timeouts wait at most for what had arrived before to be read, in nanoseconds: a server that sends faster than it can be read
/// has its queries time out all the same.
const PATIENCE: i64 = 50_000_000;

/// The result of a read.
pub(super) struct Came {
    /// The number of datagrams, or 1 for something else.
    pub(super) count: usize,
    /// When the first of the datagrams arrived.
    pub(super) oldest: RunTime,
}

impl Came {
    pub(super) const NOTHING: Self = Self { count: 0, oldest: RunTime(i64::MAX) };
}

impl Worker<'_> {
    /// Ends what is overdue at `now`, after reading everything that had arrived by then: this thread may not have run for a while, or
    /// may have had more to send than to read. Where that takes longer, rounds of sending are between. Returns how much was read.
    pub(super) fn end_overdue(&mut self, now: RunTime) -> io::Result<usize> {
        if self.transports.poll_timeout().is_none_or(|deadline| deadline > now) {
            self.overdue_since = None;
            return Ok(0);
        }
        let until = *self.overdue_since.get_or_insert(now);
        let (received, is_all) = self.read_until(until)?;
        if is_all || now - until >= PATIENCE {
            self.overdue_since = None;
            self.transports.handle_timeout(until);
        }
        Ok(received)
    }

    /// Reads everything that had arrived by `until`; later arrivals do not prolong it. Returns how much that was, and whether it was all:
    /// what is due next waits for [`READING`] at most.
    fn read_until(&mut self, until: RunTime) -> io::Result<(usize, bool)> {
        let began = self.now();
        let due = self.peek(began).map_or(i64::MAX, |due| due.0);
        if self.frames.is_some() {
            return Ok(self.read_frames_until(until, |now| is_time_up(now, began, due)));
        }
        let mut received = 0;
        loop {
            let ready = self.sockets.wait(0)?;
            let mut may_be_more = ready == EVENTS;
            let mut oldest = RunTime(i64::MAX);
            for number in 0..ready {
                let came = self.read(number, BATCH, true);
                received += came.count;
                may_be_more |= came.count == BATCH;
                oldest = oldest.min(came.oldest);
            }
            received += self.read_more(began, due);
            let is_unread = self.transports.streams.has_unread();
            if !is_unread && (!may_be_more || oldest > until) {
                return Ok((received, true));
            }
            if is_time_up(self.now(), began, due) {
                return Ok((received, false));
            }
        }
    }

    /// Reads on where the round before left connections unread.
    fn read_more(&mut self, began: RunTime, due: i64) -> usize {
        let origin = self.origin;
        let now = move || RunTime(clock::monotonic_ns() - origin);
        self.transports.streams.read_more(|| is_time_up(now(), began, due))
    }

    /// The number of datagrams to read before the next query, which is due in `left` nanoseconds: at least as many
    /// as have just been `sent`, so that answers do not pile up.
    const fn most_at_once(&self, left: i64, sent: usize) -> usize {
        let is_soon = 0 < left && left < SOON && !self.settings.fast;
        match (is_soon, sent > SMALL_RECEIVE) {
            (true, true) => sent,
            (true, false) => SMALL_RECEIVE,
            (false, _) => usize::MAX,
        }
    }

    /// Waits for the next event and reads what arrives, after `sent` queries have been sent. Returns how much was read.
    pub(super) fn rest(&mut self, sent: usize, busy: bool) -> io::Result<usize> {
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
        let most = self.most_at_once(due.saturating_sub(now.0), sent);
        let timeout = match self.pace.wait(now.0, due.min(other)) {
            Wait::Spin => 0,
            Wait::Sleep(_) if busy || due <= now.0 || self.transports.streams.has_unread() => 0,
            Wait::Sleep(ns) => ns,
        };
        let may_look_away = !self.transports.is_attentive();
        // The kernel acknowledges for its sockets; segments of connections without any wait for this thread.
        let may_doze = may_look_away && !self.frames.as_ref().is_some_and(|frames| frames.streams.is_active());
        if (1..=DOZE).contains(&timeout) && may_doze && !self.waits_to_fill() {
            self.sleep(now, timeout);
            self.woke(now.0 + timeout, due < other);
            return Ok(0);
        }
        if let Some(nap) = self.nap_between_looks().filter(|&nap| nap < timeout) {
            self.sleep(now, nap);
            return Ok(self.read_frames(most).count);
        }
        let nap = self.nap().filter(|&nap| nap < timeout && may_look_away && !self.napped);
        self.napped = nap.is_some();
        if let Some(nap) = nap {
            self.sleep(now, nap);
            return Ok(0);
        }
        let ready = self.wait(timeout)?;
        if timeout > 0 {
            self.load.note_sleep(self.now() - now);
        }
        self.woke(now.0 + timeout, timeout > 0 && ready == 0 && due < other);
        Ok(self.read_ready(ready, most, due))
    }

    /// Sleeps for so long from `now` on, whatever arrives.
    fn sleep(&mut self, now: RunTime, ns: i64) {
        clock::sleep_until(self.origin + now.0 + ns);
        self.load.note_sleep(self.now() - now);
    }

    /// Waits up to `timeout` for something to read, and returns the number of ready sockets. A ring is looked at without a system call.
    pub(super) fn wait(&mut self, timeout: i64) -> io::Result<usize> {
        match &self.frames {
            Some(_) if timeout == 0 => Ok(0),
            Some(frames) => Ok(frames.wait(timeout).into()),
            None => self.sockets.wait(timeout),
        }
    }

    /// Reads the ready sockets, up to `most` datagrams in total, and connections, of which those are noted that are not read in time for
    /// what is `due`: their readiness is signalled once.
    fn read_ready(&mut self, ready: usize, most: usize, due: i64) -> usize {
        if self.frames.is_some() {
            return self.read_frames(most).count;
        }
        self.turn = self.turn.wrapping_add(1);
        let began = self.now();
        let mut received = self.read_more(began, due);
        for number in 0..ready {
            let number = (number + self.turn) % ready;
            let has_time = !is_time_up(self.now(), began, due);
            let limit = if has_time { most.saturating_sub(received).min(BATCH) } else { 0 };
            received += self.read(number, limit, has_time).count;
        }
        received
    }

    /// Lets the pace learn from an uninterrupted sleep.
    fn woke(&mut self, wanted: i64, is_telling: bool) {
        if is_telling {
            let woke = self.now();
            self.pace.woke(wanted, woke.0);
        }
    }

    /// The next event other than sending: a timeout, a hand-over, a check of the feed, the end of the grace time, filling the window.
    fn other_deadline(&self, now: RunTime) -> i64 {
        let timeout = self.transports.poll_timeout().map_or(i64::MAX, |deadline| deadline.0);
        let overdue = now - self.flushed >= FLUSH_EVERY;
        let flush = self.flushed.0 + if overdue { FLUSH_AT_LEAST } else { FLUSH_EVERY };
        let feed = if self.fed && self.next.is_none() { now.0 + FEED_EVERY } else { i64::MAX };
        timeout.min(flush).min(feed).min(self.fill_deadline()).min(self.frames_deadline(now))
    }

    /// Reads a ready socket: up to `limit` datagrams; or a connection, if there `is_time` for it.
    fn read(&mut self, number: usize, limit: usize, is_time: bool) -> Came {
        let ready = self.sockets.ready(number);
        if Streams::is_ours(ready.token) {
            self.transports.streams.handle_ready(&ready, is_time);
            return Came { count: 1, ..Came::NOTHING };
        }
        let (key, carries, socket) = self.sockets.at(ready.token);
        if ready.error {
            self.fetch_errors(key, carries);
            return Came { count: 1, ..Came::NOTHING };
        }
        if limit == 0 {
            return Came::NOTHING;
        }
        // An error of a connected socket is also in the error queue, which wakes the worker again.
        let Ok(count) = self.receive.receive(socket, limit) else { return Came::NOTHING };
        let offset = clock::realtime_offset_ns();
        let arrived = clock::monotonic_ns();
        let mut oldest = i64::MAX;
        for received in self.receive.iter() {
            let Some(peer) = received.peer else { continue };
            let at = received.stamp_ns.map_or(arrived, |stamp| (stamp - offset).min(arrived)) - self.origin;
            oldest = oldest.min(at);
            let at = RunTime(at);
            let arrival = Arrival { socket: key, peer, local: received.local, at, octets: received.octets };
            match carries {
                Carries::Dns => self.transports.udp.handle_datagram(&arrival),
                Carries::Quic(_) => self.transports.quic.handle_datagram(&arrival),
            }
        }
        Came { count, oldest: RunTime(oldest) }
    }

    pub(super) fn fetch_errors(&mut self, key: SocketKey, carries: Carries) {
        let Some(socket) = self.sockets.find(key, carries) else { return };
        if self.receive.receive_errors(socket).is_ok() {
            let to_run_time = clock::realtime_offset_ns() + self.origin;
            for refused in self.receive.iter() {
                if let Some(stamp) = refused.sent {
                    self.transports.udp.handle_stamp(key, stamp.number, RunTime(stamp.ns - to_run_time));
                    continue;
                }
                match carries {
                    Carries::Dns => self.transports.udp.handle_refused(key, refused.octets),
                    Carries::Quic(_) => self.transports.quic.handle_refused(refused.octets),
                }
            }
        }
    }
}

/// Whether a round that `began` then to read has read for long enough, with the next query `due` then.
const fn is_time_up(now: RunTime, began: RunTime, due: i64) -> bool {
    now.0 >= due && now.0 - began.0 >= READING
}
