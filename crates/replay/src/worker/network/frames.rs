//! The frames of a worker's clients without sockets: out of the machines, and what arrives back to them.

use std::io;

use ldplayer_core::{Reason, RunTime};
use ldplayer_net::packets::BATCH;
use ldplayer_net::refusal::Refusal;
use ldplayer_net::veth;

use super::{Arrived, Reading, TIMED_BATCH, refuse};
use crate::frames::{Cargo, EnqueueError, Enqueued, Flushed, Frames, Received, ReceivedDatagram};
use crate::monitor::Monitor;
use crate::settings::Settings;
use crate::udp::Arrival;
use crate::worker::WorkerEnd;
use crate::worker::clock::RunClock;
use crate::worker::transports::Transports;

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

/// The frames on an interface.
pub struct FrameNetwork {
    clock: RunClock,
    frames: Frames,
    /// Maximum number of queries that one call sends: of a timed replay, it limits the error of their common timestamp.
    batch: usize,
    /// Sends postponed because the kernel's buffer was full.
    postponed: u64,
    /// The kernel's error for the first frame that it refused permanently.
    refused: Option<String>,
}

impl FrameNetwork {
    /// The network over `frames`; with `stamps`, the kernel timestamps sent queries.
    ///
    /// # Errors
    /// They cannot be stamped.
    pub fn new(clock: RunClock, settings: &Settings, mut frames: Frames, stamps: bool) -> io::Result<Self> {
        if stamps {
            frames.stamp_sends()?;
        }
        let batch = if settings.fast { BATCH } else { TIMED_BATCH };
        Ok(Self { clock, frames, batch, postponed: 0, refused: None })
    }

    /// Sends queued queries as frames, in batches, and returns how many frames have left.
    pub fn transmit(&mut self, transports: &mut Transports, mut hold: impl FnMut()) -> usize {
        let mut left = self.flush_whole_batches(transports);
        loop {
            let on_link = self.put_queries(transports);
            left += on_link;
            hold();
            if on_link == 0 && self.frames.queued() == 0 {
                return left;
            }
            let count = self.flush(transports);
            left += count;
            if on_link == 0 && count == 0 {
                self.postponed += 1;
                return left;
            }
        }
    }

    /// Carries out actions of connections, and sends segments and QUIC packets as frames. Returns the number of both.
    pub fn drive(&mut self, transports: &mut Transports) -> usize {
        let now = self.clock.now();
        let (streams, machine) = (&mut self.frames.streams, &mut transports.connections);
        if streams.poll_timeout().is_some_and(|deadline| deadline <= now) {
            streams.handle_timeout(now, machine);
        }
        let done = streams.drive(now, machine);
        done + self.drive_segments(transports, now) + self.drive_quic(transports)
    }

    /// Waits up to `timeout` nanoseconds for a frame, and returns 1 if there is one. The ring is looked at without a system call.
    pub fn wait(&self, timeout: i64) -> usize {
        if timeout == 0 { 0 } else { self.frames.wait(timeout).into() }
    }

    /// Reads up to `most` frames that have arrived, and returns their number.
    pub fn receive(&mut self, transports: &mut Transports, most: usize) -> usize {
        self.read(transports, most).count
    }

    /// Reads all frames that had arrived by `until`. Returns their number, and whether these were all.
    pub fn receive_until(&mut self, transports: &mut Transports, until: RunTime, reading: Reading) -> (usize, bool) {
        let mut received = 0;
        loop {
            let arrived = self.read(transports, BATCH);
            received += arrived.count;
            if arrived.count < BATCH || arrived.oldest > until {
                return (received, true);
            }
            if reading.is_over() {
                return (received, false);
            }
        }
    }

    /// When a frame has crossed the link, or a connection without a socket has something to do next. That is rounded up: its timers are
    /// of tens of milliseconds.
    pub fn deadline(&self, now: RunTime) -> i64 {
        let timer = self.frames.streams.poll_timeout().map_or(i64::MAX, |deadline| deadline.0.max(now.0 + TIMER));
        self.frames.poll_timeout().map_or(timer, |due| due.0.min(timer))
    }

    /// Whether a frame waits to leave.
    pub fn is_sending(&self) -> bool {
        self.frames.queued() > 0
    }

    /// Whether segments of connections are in flight, which wait for this thread.
    pub fn is_acknowledging(&self) -> bool {
        self.frames.streams.is_active()
    }

    /// Whether frames cross an emulated link to the servers, beside the interface's own.
    pub const fn is_delaying(&self) -> bool {
        self.frames.is_delaying()
    }

    /// Closes all connections towards their servers, as the kernel does when a process ends, and waits for a moment until they have
    /// closed, too.
    pub fn close(&mut self, transports: &mut Transports, monitor: &Monitor) {
        let begun = self.clock.now();
        let mut since = begun;
        transports.quic.handle_end(begun);
        loop {
            let now = self.clock.now();
            if now - begun >= CLOSING {
                return;
            }
            let is_more = self.frames.streams.close_some(now, CLOSED_AT_ONCE, &mut transports.connections);
            // Last of all, connections acknowledge the data that arrived.
            let received = self.read_whole_ring(transports);
            self.drive(transports);
            if is_more {
                since = now;
            } else if self.has_closed() || now - since >= LINGER || monitor.is_aborted() {
                return;
            } else if received == 0 {
                self.wait(TIMER);
            }
        }
    }

    /// Notes what the kernel has dropped so far.
    pub fn note_losses(&mut self, end: &mut WorkerEnd) {
        end.receive_drops = self.frames.drops();
        end.link_lost = veth::lost();
    }

    /// Writes the counts of frames and the first refusal into `end`.
    pub fn note_end(&mut self, end: &mut WorkerEnd) {
        end.frames = self.frames.counts().clone();
        end.link = self.frames.link_counts().cloned();
        end.postponed = self.postponed;
        end.refused = self.refused.take();
    }

    /// Sends what waits, or has crossed the link by now. Returns how many frames have left.
    fn flush_whole_batches(&mut self, transports: &mut Transports) -> usize {
        let mut left = 0;
        loop {
            let count = self.flush(transports);
            left += count;
            if count < BATCH {
                return left;
            }
        }
    }

    /// Adds queued queries to the batch, or gives them to the link; returns how many have left by that.
    fn put_queries(&mut self, transports: &mut Transports) -> usize {
        let (now, udp) = (self.clock.now(), &mut transports.udp);
        let mut left = 0;
        while self.frames.queued() < self.batch && left < self.batch {
            let Some(slot) = udp.poll_transmit() else { break };
            let Some(transmit) = udp.transmit(slot) else { continue };
            match self.frames.put_query(now, slot, &transmit) {
                Ok(Enqueued::Queued) => {}
                Ok(Enqueued::Left(slot, port)) => {
                    udp.handle_sent(slot, now, port);
                    left += 1;
                }
                Err(EnqueueError::Never(reason)) => refuse(udp, slot, reason, now),
                Err(EnqueueError::Full) => {
                    udp.handle_postponed(slot);
                    break;
                }
            }
        }
        left
    }

    /// Sends segments as frames. Returns how many frames have left.
    fn drive_segments(&mut self, transports: &mut Transports, now: RunTime) -> usize {
        let mut left = 0;
        loop {
            let is_all = self.frames.put_segments(now);
            let count = self.flush(transports);
            left += count;
            if is_all || count == 0 {
                return left;
            }
        }
    }

    /// Sends pending QUIC packets as frames. Returns how many frames have left.
    fn drive_quic(&mut self, transports: &mut Transports) -> usize {
        let mut left = 0;
        loop {
            let (now, quic) = (self.clock.now(), &mut transports.quic);
            let Some(outgoing) = quic.poll_transmit(now) else { break };
            match self.frames.put_quic(now, outgoing) {
                Ok(Enqueued::Queued) => {}
                Ok(Enqueued::Left(outgoing, port)) => quic.handle_sent(outgoing, now, port),
                Err((outgoing, EnqueueError::Never(reason))) => quic.handle_unsent(outgoing, now, reason),
                Err((outgoing, EnqueueError::Full)) => {
                    quic.handle_postponed(outgoing);
                    let count = self.flush(transports);
                    left += count;
                    if count == 0 {
                        return left;
                    }
                }
            }
        }
        left + self.flush(transports)
    }

    /// Whether no connection waits for its server, and nothing is on its way there.
    fn has_closed(&self) -> bool {
        !self.frames.streams.is_active() && self.frames.is_idle() && self.frames.queued() == 0
    }

    /// One system call for the frames that wait. All get the time of the call: never later than the actual time, so that no latency is too
    /// short. Returns how many have left or are given up.
    fn flush(&mut self, transports: &mut Transports) -> usize {
        let before = self.clock.now();
        match self.frames.flush(before) {
            Ok(Flushed { left, lost }) => {
                for _ in 0..left {
                    let cargo = self.frames.take_cargo();
                    self.frames.note_left(match cargo {
                        Some(Cargo::Query(slot, _)) => Some((slot, before)),
                        _ => None,
                    });
                    match cargo {
                        Some(Cargo::Query(slot, port)) => transports.udp.handle_sent(slot, before, port),
                        Some(Cargo::Quic(outgoing, port)) => transports.quic.handle_sent(outgoing, before, port),
                        None => {}
                    }
                }
                (0..lost).for_each(|_| self.give_up(transports, Reason::SendError));
                self.read_stamps(transports);
                left + lost
            }
            Err(error) => {
                self.refused.get_or_insert_with(|| error.to_string());
                let is_unreachable = Refusal::of(&error) == Refusal::Unreachable;
                let reason = if is_unreachable { Reason::Unreachable } else { Reason::SendError };
                let count = self.frames.given_up();
                (0..count).for_each(|_| self.give_up(transports, reason));
                count
            }
        }
    }

    /// Notes when the kernel handed queries to the device.
    fn read_stamps(&mut self, transports: &mut Transports) {
        let (offset, udp) = (self.clock.wall_offset(), &mut transports.udp);
        self.frames.read_stamps(|slot, submitted, stamp_ns| udp.note_sent(slot, submitted, RunTime(stamp_ns - offset)));
    }

    /// Ends what the first frame carried, which the kernel does not send.
    fn give_up(&mut self, transports: &mut Transports, reason: Reason) {
        let now = self.clock.now();
        match self.frames.take_cargo() {
            Some(Cargo::Query(slot, _)) => refuse(&mut transports.udp, slot, reason, now),
            Some(Cargo::Quic(outgoing, _)) => transports.quic.handle_unsent(outgoing, now, reason),
            None => {}
        }
    }

    /// Reads up to `most` frames that have arrived.
    fn read(&mut self, transports: &mut Transports, most: usize) -> Arrived {
        let (offset, now) = (self.clock.wall_offset(), self.clock.now());
        let mut oldest = RunTime(i64::MAX);
        let time = |stamp_ns: i64| RunTime(stamp_ns - offset).min(now);
        let count = self.frames.receive(now, most.min(READ_AT_ONCE), time, |streams, at, received| {
            oldest = oldest.min(at);
            let machine = &mut transports.connections;
            match received {
                Received::Datagram(datagram) => take_datagram(transports, at, &datagram),
                Received::Segment(from, to, segment) => {
                    streams.handle_segment((at, now), (from, to), &segment, machine);
                }
                Received::Refused(ReceivedDatagram { is_quic: true, octets, .. }) => {
                    transports.quic.handle_refused(octets)
                }
                Received::Refused(datagram) => {
                    transports.udp.handle_refused(datagram.socket, Some(datagram.peer), datagram.octets)
                }
                Received::Icmp(error) => streams.handle_icmp(at, &error, machine),
            }
        });
        Arrived { count, oldest }
    }

    /// Reads the frames in the ring, at most one ring full since servers may keep sending. Returns their number.
    fn read_whole_ring(&mut self, transports: &mut Transports) -> usize {
        let mut received = 0;
        while received < RING {
            let count = self.receive(transports, READ_AT_ONCE);
            received += count;
            if count < READ_AT_ONCE {
                break;
            }
        }
        received
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
