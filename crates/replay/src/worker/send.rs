//! What a worker hands to the kernel for the machine of UDP: batches of queries of one socket.

use std::io;

use ldplayer_core::{Reason, RunTime};
use ldplayer_net::clock;
use ldplayer_net::udp::{BATCH, Datagram};

use super::refused::{Next, Refusals};
use super::{TIMED_BATCH, Worker};
use crate::route::SocketKey;
use crate::slab::Slot;
use crate::sockets::Carries;
use crate::udp::Udp;

impl Worker<'_> {
    /// Hands what is queued to the kernel, a batch for each socket, and returns how many it took.
    pub(super) fn transmit(&mut self) -> usize {
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
            let Some(slot) = self.transports.udp.poll_transmit() else { break };
            let Some(transmit) = self.transports.udp.transmit(slot) else { continue };
            if socket.is_some_and(|socket| socket != transmit.socket) {
                self.transports.udp.handle_postponed(slot);
                break;
            }
            socket = Some(transmit.socket);
            self.sending.push(slot);
        }
        socket
    }

    /// Sends `sending` and tells the machine. Returns how many queries came to an end of their queueing.
    fn send_collected(&mut self, key: SocketKey) -> usize {
        let (mut done, mut refusals) = (0, Refusals::default());
        while done < self.sending.len() {
            match self.send_once(key, done).map_err(|error| (refusals.judge(&error), error)) {
                Ok(0) | Err((Next::Later, _)) => {
                    self.end.postponed += 1;
                    break;
                }
                Ok(count) => {
                    done += count;
                    refusals = Refusals::default();
                }
                Err((Next::Again, _)) => self.fetch_errors(key, Carries::Dns),
                Err((Next::Never(reason), error)) => {
                    self.end.refused.get_or_insert_with(|| error.to_string());
                    self.refuse(self.sending[done], reason);
                    done += 1;
                    refusals = Refusals::default();
                }
            }
        }
        for &slot in self.sending[done..].iter().rev() {
            self.transports.udp.handle_postponed(slot);
        }
        done
    }

    /// Ends a query that the kernel does not send. One that has no way to its server has failed, as it would over TCP.
    fn refuse(&mut self, slot: Slot, reason: Reason) {
        if reason == Reason::Unreachable {
            let now = self.now();
            self.transports.udp.handle_unreachable(slot, now);
        } else {
            self.transports.udp.handle_unsent(slot, reason);
        }
    }

    /// One system call for `sending` from `first` on. Each datagram gets the time of the call: never later than the
    /// truth, so that no latency is flattered, and earlier by at most the length of a batch.
    fn send_once(&mut self, key: SocketKey, first: usize) -> io::Result<usize> {
        let slots = &self.sending[first..];
        let Some(server) =
            slots.first().and_then(|&slot| self.transports.udp.transmit(slot)).map(|transmit| transmit.server)
        else {
            return Ok(0);
        };
        let socket = self.sockets.get(key, Carries::Dns, server)?;
        let connected = socket.is_connected();
        let before = clock::monotonic_ns() - self.origin;
        let datagrams = slots.iter().map(|&slot| datagram(&self.transports.udp, slot, connected));
        let count = self.send.send(socket, datagrams)?;
        let port = socket.local().port();
        for &slot in &slots[..count] {
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
