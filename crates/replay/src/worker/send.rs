//! Sends the datagrams of the UDP machine in batches per socket.

use std::io;
use std::ops::Range;

use ldplayer_core::{Reason, RunTime};
use ldplayer_net::clock;
use ldplayer_net::udp::Datagram;

use super::refused::{Next, Refusals};
use super::{TIMED_BATCH, Worker};
use crate::route::SocketKey;
use crate::slab::Slot;
use crate::sockets::Carries;
use crate::udp::Udp;

impl Worker<'_> {
    /// Hands queued queries to the kernel, in a batch per socket, and returns how many it accepted.
    pub(super) fn transmit(&mut self) -> usize {
        if self.frames.is_some() {
            return self.transmit_frames();
        }
        let mut sent = 0;
        loop {
            self.collect();
            self.hold();
            let count = self.send_batches();
            sent += count;
            if count < self.sending.len() || count == 0 {
                return sent;
            }
        }
    }

    /// Sends `sending`, in a batch per socket. If the buffer of one socket is full, others are still sent.
    fn send_batches(&mut self) -> usize {
        let (mut sent, mut first) = (0, 0);
        while let Some(&(key, _)) = self.sending.get(first) {
            let of_socket = self.sending[first..].iter().take_while(|(other, _)| *other == key).count();
            let count = self.send_collected(key, first..first + of_socket);
            if count < of_socket {
                self.postpone(first + count..first + of_socket);
            }
            sent += count;
            first += of_socket;
        }
        sent
    }

    /// Fills `sending` with queued queries, grouped by socket and in order.
    fn collect(&mut self) {
        self.sending.clear();
        let most = if self.settings.fast { self.fast_batch } else { TIMED_BATCH };
        while self.sending.len() < most {
            let Some(slot) = self.transports.udp.poll_transmit() else { break };
            let Some(transmit) = self.transports.udp.transmit(slot) else { continue };
            self.sending.push((transmit.socket, slot));
        }
        // A batch for a single socket, as is common, is already sorted; the sort is stable and the batch small.
        if self.sending.iter().any(|(key, _)| *key != self.sending[0].0) {
            self.sending.sort_by_key(|(key, _)| key.index());
        }
    }

    /// Returns queries of `sending` to the head of the queue.
    fn postpone(&mut self, which: Range<usize>) {
        self.end.postponed += 1;
        for &(_, slot) in self.sending[which].iter().rev() {
            self.transports.udp.handle_postponed(slot);
        }
    }

    /// Sends the part `which` of `sending`, all of one socket, and reports to the machine. Returns how many queries are no
    /// longer queued.
    fn send_collected(&mut self, key: SocketKey, which: Range<usize>) -> usize {
        let (mut next, mut refusals) = (which.start, Refusals::default());
        while next < which.end {
            match self.send_once(key, next..which.end).map_err(|error| (refusals.judge(&error), error)) {
                Ok(0) => break,
                Err((Next::Later, _)) => {
                    self.transports.udp.handle_send_error(key);
                    break;
                }
                Ok(count) => {
                    next += count;
                    if self.stamps {
                        self.fetch_errors(key, Carries::Dns);
                    }
                    refusals = Refusals::default();
                }
                Err((Next::Again, _)) => {
                    self.transports.udp.handle_send_error(key);
                    self.fetch_errors(key, Carries::Dns);
                }
                Err((Next::Never(reason), error)) => {
                    self.end.refused.get_or_insert_with(|| error.to_string());
                    self.transports.udp.handle_send_error(key);
                    self.refuse(self.sending[next].1, reason);
                    next += 1;
                    refusals = Refusals::default();
                }
            }
        }
        next - which.start
    }

    /// Ends a query that the kernel does not send. One without a route to its server has failed, as it would over TCP.
    pub(super) fn refuse(&mut self, slot: Slot, reason: Reason) {
        if reason == Reason::Unreachable {
            let now = self.now();
            self.transports.udp.handle_unreachable(slot, now);
        } else {
            self.transports.udp.handle_unsent(slot, reason);
        }
    }

    /// One system call for the part `which` of `sending`. Each datagram gets the time of the call: never later than the
    /// actual time, so that no latency is too short, and earlier by at most the duration of a batch.
    fn send_once(&mut self, key: SocketKey, which: Range<usize>) -> io::Result<usize> {
        let slots = &self.sending[which];
        let Some(server) =
            slots.first().and_then(|&(_, slot)| self.transports.udp.transmit(slot)).map(|transmit| transmit.server)
        else {
            return Ok(0);
        };
        let socket = self.sockets.get(key, Carries::Dns, server)?;
        let connected = socket.is_connected();
        let before = clock::monotonic_ns() - self.origin;
        let datagrams = slots.iter().map(|&(_, slot)| datagram(&self.transports.udp, slot, connected));
        let count = self.send.send(socket, datagrams)?;
        let port = socket.local().port();
        for &(_, slot) in &slots[..count] {
            self.transports.udp.handle_sent(slot, RunTime(before), port);
        }
        Ok(count)
    }
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
