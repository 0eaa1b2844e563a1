//! The path without sockets: frames out of the machines, and what arrives back to them.

use std::io;

use ldplayer_core::{Reason, RunTime};
use ldplayer_net::clock;
use ldplayer_net::packets::BATCH;
use ldplayer_net::refusal::Refusal;

use super::receive::Came;
use super::transports::Transports;
use super::{TIMED_BATCH, Worker};
use crate::frames::{Cargo, Flushed, Frames, Put, Received, ReceivedDatagram, Unput};
use crate::udp::Arrival;

/// Least time between two looks at the timers of connections while a worker sleeps, in nanoseconds.
const TIMER: i64 = 1_000_000;
/// Connections closed at once at the end: what their servers answer has room in the ring.
const CLOSED_AT_ONCE: usize = 256;
/// How long servers may take to close connections at the end, behind the last that was closed here, in nanoseconds …
const LINGER: i64 = 1_000_000_000;
/// … and how long closing may take in all: of millions of connections, the rest is left to the servers' own timeouts.
const CLOSING: i64 = 10_000_000_000;
/// Maximum number of frames read before the worker looks at its queries again.
const READ_AT_ONCE: usize = 4 * BATCH;
/// Frames that a ring has room for, about.
const RING: usize = 32 << 10;

impl Worker<'_> {
    /// Sends queued queries as frames, in batches, and returns how many frames have left.
    pub(super) fn transmit_frames(&mut self) -> usize {
        let mut left = self.flush_whole_batches();
        loop {
            let on_link = self.put_queries();
            left += on_link;
            self.hold();
            if on_link == 0 && self.frames.as_ref().is_none_or(|frames| frames.queued() == 0) {
                return left;
            }
            let count = self.flush_frames();
            left += count;
            if on_link == 0 && count == 0 {
                self.end.postponed += 1;
                return left;
            }
        }
    }

    /// Sends what waits, or has crossed the link by now. Returns how many frames have left.
    fn flush_whole_batches(&mut self) -> usize {
        let mut left = 0;
        loop {
            let count = self.flush_frames();
            left += count;
            if count < BATCH {
                return left;
            }
        }
    }

    /// Adds queued queries to the batch, or gives them to the link; returns how many have left by that. The limit of a timed replay is
    /// that of their common timestamp.
    fn put_queries(&mut self) -> usize {
        let most = if self.settings.fast { BATCH } else { TIMED_BATCH };
        let now = self.now();
        let Some(frames) = &mut self.frames else { return 0 };
        let udp = &mut self.transports.udp;
        let mut left = 0;
        while frames.queued() < most && left < most {
            let Some(slot) = udp.poll_transmit() else { break };
            let Some(transmit) = udp.transmit(slot) else { continue };
            match frames.put_query(now, slot, &transmit) {
                Ok(Put::Queued) => {}
                Ok(Put::Left(slot, port)) => {
                    udp.handle_sent(slot, now, port);
                    left += 1;
                }
                Err(Unput::Never(Reason::Unreachable)) => udp.handle_unreachable(slot, now),
                Err(Unput::Never(reason)) => udp.handle_unsent(slot, reason),
                Err(Unput::Full) => {
                    udp.handle_postponed(slot);
                    break;
                }
            }
        }
        left
    }

    /// Carries out actions of connections, and sends segments and QUIC packets as frames. Returns the number of both.
    pub(super) fn drive_frames(&mut self) -> usize {
        let now = self.now();
        let Some(frames) = &mut self.frames else { return 0 };
        let machine = &mut self.transports.streams.machine;
        if frames.streams.poll_timeout().is_some_and(|deadline| deadline <= now) {
            frames.streams.handle_timeout(now, machine);
        }
        let done = frames.streams.drive(now, machine);
        done + self.drive_segments(now) + self.drive_quic_frames()
    }

    /// Sends segments as frames. Returns how many frames have left.
    fn drive_segments(&mut self, now: RunTime) -> usize {
        let mut left = 0;
        loop {
            let Some(frames) = &mut self.frames else { return left };
            let is_all = frames.put_segments(now);
            let count = self.flush_frames();
            left += count;
            if is_all || count == 0 {
                return left;
            }
        }
    }

    /// Sends pending QUIC packets as frames. Returns how many frames have left.
    pub(super) fn drive_quic_frames(&mut self) -> usize {
        let mut left = 0;
        loop {
            let now = self.now();
            let Some(frames) = &mut self.frames else { return left };
            let Some(outgoing) = self.transports.quic.poll_transmit(now) else { break };
            match frames.put_quic(now, outgoing) {
                Ok(Put::Queued) => {}
                Ok(Put::Left(outgoing, port)) => self.transports.quic.handle_sent(outgoing, now, port),
                Err((outgoing, Unput::Never(reason))) => self.transports.quic.handle_unsent(outgoing, now, reason),
                Err((outgoing, Unput::Full)) => {
                    self.transports.quic.handle_postponed(outgoing);
                    let count = self.flush_frames();
                    left += count;
                    if count == 0 {
                        return left;
                    }
                }
            }
        }
        left + self.flush_frames()
    }

    /// When a frame has crossed the link, or a connection without a socket has something to do next. That is rounded up: its timers are
    /// of tens of milliseconds.
    pub(super) fn frames_deadline(&self, now: RunTime) -> i64 {
        let Some(frames) = &self.frames else { return i64::MAX };
        let timer = frames.streams.poll_timeout().map_or(i64::MAX, |deadline| deadline.0.max(now.0 + TIMER));
        frames.poll_timeout().map_or(timer, |due| due.0.min(timer))
    }

    /// Closes all connections towards their servers, as the kernel does when a process ends, and waits for a moment until they have
    /// closed, too.
    ///
    /// # Errors
    /// The error of the wait itself.
    pub(super) fn close_frames(&mut self) -> io::Result<()> {
        let begun = self.now();
        let mut since = begun;
        loop {
            let now = self.now();
            if now - begun >= CLOSING {
                return Ok(());
            }
            let Some(frames) = &mut self.frames else { return Ok(()) };
            let machine = &mut self.transports.streams.machine;
            let is_more = frames.streams.close_some(now, CLOSED_AT_ONCE, machine);
            // The last that a connection does is to acknowledge what has arrived.
            let came = self.read_whole_ring();
            self.drive_frames();
            if is_more {
                since = now;
            } else if self.has_closed() || now - since >= LINGER || self.monitor.is_aborted() {
                return Ok(());
            } else if came == 0 {
                self.wait(TIMER)?;
            }
        }
    }

    /// Whether no connection waits for its server, and nothing is on its way there.
    fn has_closed(&self) -> bool {
        self.frames
            .as_ref()
            .is_none_or(|frames| !frames.streams.is_active() && frames.is_idle() && frames.queued() == 0)
    }

    /// One system call for the frames that wait. All get the time of the call: never later than the actual time, so that no latency is too
    /// short. Returns how many have left or are given up.
    pub(super) fn flush_frames(&mut self) -> usize {
        let before = self.now();
        let Some(frames) = &mut self.frames else { return 0 };
        match frames.flush(before) {
            Ok(Flushed { left, lost }) => {
                for _ in 0..left {
                    let cargo = frames.take_cargo();
                    frames.note_left(match cargo {
                        Some(Cargo::Query(slot, _)) => Some((slot, before)),
                        _ => None,
                    });
                    match cargo {
                        Some(Cargo::Query(slot, port)) => self.transports.udp.handle_sent(slot, before, port),
                        Some(Cargo::Quic(outgoing, port)) => self.transports.quic.handle_sent(outgoing, before, port),
                        None => {}
                    }
                }
                (0..lost).for_each(|_| self.give_up_frame(Reason::SendError));
                self.read_stamps();
                left + lost
            }
            Err(error) => {
                self.end.refused.get_or_insert_with(|| error.to_string());
                let is_unreachable = Refusal::of(&error) == Refusal::Unreachable;
                let reason = if is_unreachable { Reason::Unreachable } else { Reason::SendError };
                let count = frames.given_up();
                (0..count).for_each(|_| self.give_up_frame(reason));
                count
            }
        }
    }

    /// Notes when the kernel handed queries to the device.
    fn read_stamps(&mut self) {
        let to_run_time = clock::realtime_offset_ns() + self.origin;
        let Some(frames) = &mut self.frames else { return };
        let udp = &mut self.transports.udp;
        frames.read_stamps(|slot, submitted, stamp_ns| udp.note_sent(slot, submitted, RunTime(stamp_ns - to_run_time)));
    }

    /// Ends what the first frame carried, which the kernel does not send.
    fn give_up_frame(&mut self, reason: Reason) {
        let now = self.now();
        match self.frames.as_mut().and_then(Frames::take_cargo) {
            Some(Cargo::Query(slot, _)) => self.refuse(slot, reason),
            Some(Cargo::Quic(outgoing, _)) => self.transports.quic.handle_unsent(outgoing, now, reason),
            None => {}
        }
    }

    /// Reads up to `most` frames that have arrived.
    pub(super) fn read_frames(&mut self, most: usize) -> Came {
        let to_run_time = clock::realtime_offset_ns() + self.origin;
        let now = self.now();
        let Some(frames) = &mut self.frames else { return Came::NOTHING };
        let (transports, mut oldest) = (&mut self.transports, RunTime(i64::MAX));
        let time = |stamp_ns: i64| RunTime(stamp_ns - to_run_time).min(now);
        let count = frames.receive(now, most.min(READ_AT_ONCE), time, |streams, at, received| {
            oldest = oldest.min(at);
            let machine = &mut transports.streams.machine;
            match received {
                Received::Datagram(datagram) => take_datagram(transports, at, &datagram),
                Received::Segment(from, to, segment) => {
                    streams.handle_segment((at, now), (from, to), &segment, machine);
                }
                Received::Refused(ReceivedDatagram { is_quic: true, octets, .. }) => {
                    transports.quic.handle_refused(octets)
                }
                Received::Refused(datagram) => transports.udp.handle_refused(datagram.socket, datagram.octets),
                Received::Icmp(error) => streams.handle_icmp(at, &error, machine),
            }
        });
        Came { count, oldest }
    }

    /// Reads what is in the ring, as far as it has room at once: servers may send on. Returns the number of frames.
    fn read_whole_ring(&mut self) -> usize {
        let mut received = 0;
        while received < RING {
            let came = self.read_frames(READ_AT_ONCE).count;
            received += came;
            if came < READ_AT_ONCE {
                break;
            }
        }
        received
    }

    /// Reads all frames that had arrived by `until`, or until time is up; later arrivals do not prolong it. Returns their number, and
    /// whether these were all.
    pub(super) fn read_frames_until(&mut self, until: RunTime, is_time_up: impl Fn(RunTime) -> bool) -> (usize, bool) {
        let mut received = 0;
        loop {
            let came = self.read_frames(BATCH);
            received += came.count;
            if came.count < BATCH || came.oldest > until {
                return (received, true);
            }
            if is_time_up(self.now()) {
                return (received, false);
            }
        }
    }
}

/// Hands a datagram to its machine.
fn take_datagram(transports: &mut Transports, at: RunTime, datagram: &ReceivedDatagram<'_>) {
    let &ReceivedDatagram { socket, peer, local, octets, .. } = datagram;
    let arrival = Arrival { socket, peer, local: Some(local), at, octets };
    if datagram.is_quic {
        transports.quic.handle_datagram(&arrival);
    } else {
        transports.udp.handle_datagram(&arrival);
    }
}
