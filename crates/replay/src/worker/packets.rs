//! Sends the datagrams of the QUIC machine in batches per socket.

use std::io;

use ldplayer_core::RunTime;
use ldplayer_net::clock;
use ldplayer_net::udp::Datagram;

use super::refused::{Next, Refusals};
use super::{TIMED_BATCH, Worker};
use crate::quic::Outgoing;
use crate::route::SocketKey;
use crate::sockets::Carries;

impl Worker<'_> {
    /// Sends pending QUIC datagrams. Returns their number.
    pub(super) fn drive_quic(&mut self) -> usize {
        let mut sent = 0;
        while let Some((key, carries)) = self.collect_packets() {
            let count = self.send_packets(key, carries);
            sent += count;
            if count == 0 {
                break;
            }
        }
        sent
    }

    /// Closes QUIC connections towards their servers, as the kernel does for TCP.
    pub(super) fn close_quic(&mut self) {
        self.transports.quic.handle_end(self.now());
        self.drive_quic();
    }

    /// Fills `packets` with datagrams of one socket.
    fn collect_packets(&mut self) -> Option<(SocketKey, Carries)> {
        let now = self.now();
        let mut socket = None;
        while self.packets.len() < TIMED_BATCH {
            let Some(outgoing) = self.transports.quic.poll_transmit(now) else { break };
            let of_it = (outgoing.socket, Carries::Quic(outgoing.server.port()));
            if socket.is_some_and(|socket| socket != of_it) {
                self.transports.quic.handle_postponed(outgoing);
                break;
            }
            socket = Some(of_it);
            self.packets.push(outgoing);
        }
        socket
    }

    /// Sends `packets` and reports to the machine. Returns how many are no longer queued.
    fn send_packets(&mut self, key: SocketKey, carries: Carries) -> usize {
        let (mut done, mut refusals) = (0, Refusals::default());
        while !self.packets.is_empty() {
            match self.send_packets_once(key, carries).map_err(|error| (refusals.judge(&error), error)) {
                Ok(0) | Err((Next::Later, _)) => {
                    self.end.postponed += 1;
                    break;
                }
                Ok(count) => {
                    done += count;
                    refusals = Refusals::default();
                }
                Err((Next::Again, _)) => self.fetch_errors(key, carries),
                Err((Next::Never(reason), error)) => {
                    self.end.refused.get_or_insert_with(|| error.to_string());
                    let now = self.now();
                    self.transports.quic.handle_unsent(self.packets.remove(0), now, reason);
                    done += 1;
                    refusals = Refusals::default();
                }
            }
        }
        while let Some(outgoing) = self.packets.pop() {
            self.transports.quic.handle_postponed(outgoing);
        }
        done
    }

    /// One system call for `packets`.
    fn send_packets_once(&mut self, key: SocketKey, carries: Carries) -> io::Result<usize> {
        let Some(server) = self.packets.first().map(|outgoing| outgoing.server) else { return Ok(0) };
        let socket = self.sockets.get(key, carries, server)?;
        let (connected, port) = (socket.is_connected(), socket.local().port());
        let before = RunTime(clock::monotonic_ns() - self.origin);
        let count = self.send.send(socket, self.packets.iter().map(|outgoing| datagram(outgoing, connected)))?;
        for outgoing in self.packets.drain(..count) {
            self.transports.quic.handle_sent(outgoing, before, port);
        }
        Ok(count)
    }
}

fn datagram(outgoing: &Outgoing, connected: bool) -> Datagram<'_> {
    let (head, tail) =
        outgoing.octets.split_first_chunk().map_or(([0; 2], [].as_slice()), |(head, tail)| (*head, tail));
    Datagram {
        head,
        tail,
        source: outgoing.source.filter(|_| !connected),
        peer: (!connected).then_some(outgoing.server),
    }
}
