//! The kernel's sockets of a worker's clients: sends the datagrams of the machines in batches per socket, and reads what arrives.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use ldplayer_core::{RunTime, Transport};
use ldplayer_net::poll::EVENTS;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch};

use super::refused::{Next, Refusals};
use super::streams::SocketStreams;
use super::{Arrived, Reading, TIMED_BATCH, refuse};
use crate::quic::{Outgoing, Quic};
use crate::route::{Route, SocketKey, Sources};
use crate::settings::Settings;
use crate::slab::Slot;
use crate::sockets::{Carries, Sockets};
use crate::targets::Targets;
use crate::udp::{Arrival, Udp};
use crate::worker::WorkerEnd;
use crate::worker::clock::RunClock;
use crate::worker::transports::Transports;

/// The sockets.
pub struct SocketNetwork {
    clock: RunClock,
    sockets: Sockets,
    /// Those of connections.
    streams: SocketStreams,
    /// Maximum number of queries over UDP that one call sends.
    batch: usize,
    /// Whether the kernel timestamps sent queries over UDP.
    stamps: bool,
    sending: Vec<(SocketKey, Slot)>,
    packets: Vec<Outgoing>,
    send: SendBatch,
    receive: ReceiveBatch,
    /// Which of several ready sockets is read first: they take turns.
    turn: usize,
    /// Sends postponed because the kernel's buffer was full.
    postponed: u64,
    /// The kernel's error for the first datagram that it refused permanently.
    refused: Option<String>,
}

impl SocketNetwork {
    /// No sockets but the shared ones.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new(
        clock: RunClock,
        settings: &Settings,
        targets: Targets,
        fast_batch: usize,
        stamps: bool,
    ) -> io::Result<Self> {
        let mut sockets = Sockets::new(settings.sources.clone(), targets, stamps)?;
        open_shared(&mut sockets, settings);
        let batch = if settings.fast { fast_batch } else { TIMED_BATCH };
        Ok(Self {
            clock,
            sockets,
            streams: SocketStreams::new(clock, settings.count_segments, settings.fast),
            batch,
            stamps,
            sending: Vec::with_capacity(batch),
            packets: Vec::with_capacity(BATCH),
            send: SendBatch::new(),
            receive: ReceiveBatch::new(),
            turn: 0,
            postponed: 0,
            refused: None,
        })
    }

    /// Hands queued queries to the kernel, in a batch per socket, and returns how many it accepted.
    pub fn transmit(&mut self, udp: &mut Udp, mut hold: impl FnMut()) -> usize {
        let mut sent = 0;
        loop {
            self.collect(udp);
            hold();
            let count = self.send_batches(udp);
            sent += count;
            if count < self.sending.len() || count == 0 {
                return sent;
            }
        }
    }

    /// Carries out actions of connections, and sends QUIC datagrams. Returns the number of both.
    pub fn drive(&mut self, transports: &mut Transports) -> usize {
        self.streams.drive(&mut transports.connections, self.sockets.poll()) + self.drive_quic(&mut transports.quic)
    }

    /// Waits up to `timeout` nanoseconds, and returns the number of ready sockets.
    ///
    /// # Errors
    /// The error of the wait itself.
    pub fn wait(&mut self, timeout: i64) -> io::Result<usize> {
        self.sockets.wait(timeout)
    }

    /// Reads the ready sockets, up to `most` datagrams in total, and the ready connections. Connections that are not read in time are
    /// noted, since their readiness is signalled only once.
    pub fn receive(&mut self, transports: &mut Transports, ready: usize, most: usize, reading: Reading) -> usize {
        self.turn = self.turn.wrapping_add(1);
        let mut received = self.streams.read_more(&mut transports.connections, reading);
        for number in 0..ready {
            let number = (number + self.turn) % ready;
            let has_time = !reading.is_over();
            let limit = if has_time { most.saturating_sub(received).min(BATCH) } else { 0 };
            received += self.read(transports, number, limit, has_time).count;
        }
        received
    }

    /// Reads everything that had arrived by `until`. Returns how much that was, and whether it was all.
    ///
    /// # Errors
    /// The error of the wait itself.
    pub fn receive_until(
        &mut self,
        transports: &mut Transports,
        until: RunTime,
        reading: Reading,
    ) -> io::Result<(usize, bool)> {
        let mut received = 0;
        loop {
            let ready = self.sockets.wait(0)?;
            let mut may_be_more = ready == EVENTS;
            let mut oldest = RunTime(i64::MAX);
            for number in 0..ready {
                let arrived = self.read(transports, number, BATCH, true);
                received += arrived.count;
                may_be_more |= arrived.count == BATCH;
                oldest = oldest.min(arrived.oldest);
            }
            received += self.streams.read_more(&mut transports.connections, reading);
            if !self.has_unread() && (!may_be_more || oldest > until) {
                return Ok((received, true));
            }
            if reading.is_over() {
                return Ok((received, false));
            }
        }
    }

    /// Whether any connection has more to read, which is not signalled again.
    pub fn has_unread(&self) -> bool {
        self.streams.has_unread()
    }

    /// Opens the socket of a new client.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn open(&mut self, route: &Route, transport: Transport) -> io::Result<()> {
        let carries = match transport {
            Transport::Udp => Carries::Dns,
            _ => Carries::Quic(route.server.port()),
        };
        self.sockets.get(route.socket, carries, route.server).map(drop)
    }

    /// Closes QUIC connections towards their servers, as the kernel does for TCP.
    pub fn close(&mut self, transports: &mut Transports) {
        transports.quic.handle_end(self.clock.now());
        self.drive_quic(&mut transports.quic);
    }

    /// Writes the counts of sockets and the first refusal into `end`.
    pub fn note_end(&mut self, end: &mut WorkerEnd) {
        end.sockets = self.sockets.len();
        end.receive_drops = self.sockets.drops();
        end.postponed = self.postponed;
        end.refused = self.refused.take().or_else(|| self.streams.take_refused());
    }

    // ---- Queries over UDP.

    /// Fills `sending` with queued queries, grouped by socket and in order.
    fn collect(&mut self, udp: &mut Udp) {
        self.sending.clear();
        while self.sending.len() < self.batch {
            let Some(slot) = udp.poll_transmit() else { break };
            let Some(transmit) = udp.transmit(slot) else { continue };
            self.sending.push((transmit.socket, slot));
        }
        // A batch for a single socket, as is common, is already sorted; the sort is stable and the batch small.
        if self.sending.iter().any(|(key, _)| *key != self.sending[0].0) {
            self.sending.sort_by_key(|(key, _)| key.index());
        }
    }

    /// Sends `sending`, in a batch per socket. If the buffer of one socket is full, others are still sent.
    fn send_batches(&mut self, udp: &mut Udp) -> usize {
        let (mut sent, mut first) = (0, 0);
        while let Some(&(key, _)) = self.sending.get(first) {
            let of_socket = self.sending[first..].iter().take_while(|(other, _)| *other == key).count();
            let count = self.send_collected(udp, key, first..first + of_socket);
            if count < of_socket {
                self.postpone(udp, first + count..first + of_socket);
            }
            sent += count;
            first += of_socket;
        }
        sent
    }

    /// Returns queries of `sending` to the head of the queue.
    fn postpone(&mut self, udp: &mut Udp, which: Range<usize>) {
        self.postponed += 1;
        for &(_, slot) in self.sending[which].iter().rev() {
            udp.handle_postponed(slot);
        }
    }

    /// Sends the part `which` of `sending`, all of one socket, and reports to the machine. Returns how many queries are no
    /// longer queued.
    fn send_collected(&mut self, udp: &mut Udp, key: SocketKey, which: Range<usize>) -> usize {
        let (mut next, mut refusals) = (which.start, Refusals::default());
        while next < which.end {
            match self.send_once(udp, key, next..which.end).map_err(|error| (refusals.judge(&error), error)) {
                Ok(0) => break,
                Err((Next::Later, _)) => {
                    udp.handle_send_error(key);
                    break;
                }
                Ok(count) => {
                    next += count;
                    if self.stamps {
                        self.fetch_datagram_errors(udp, key);
                    }
                    refusals = Refusals::default();
                }
                Err((Next::Again, _)) => {
                    udp.handle_send_error(key);
                    self.fetch_datagram_errors(udp, key);
                }
                Err((Next::Never(reason), error)) => {
                    self.refused.get_or_insert_with(|| error.to_string());
                    udp.handle_send_error(key);
                    refuse(udp, self.sending[next].1, reason, self.clock.now());
                    next += 1;
                    refusals = Refusals::default();
                }
            }
        }
        next - which.start
    }

    /// One system call for the part `which` of `sending`. Each datagram gets the time of the call: never later than the
    /// actual time, so that no latency is too short, and earlier by at most the duration of a batch.
    fn send_once(&mut self, udp: &mut Udp, key: SocketKey, which: Range<usize>) -> io::Result<usize> {
        let slots = &self.sending[which];
        let first = slots.first().and_then(|&(_, slot)| udp.transmit(slot));
        let Some(server) = first.map(|transmit| transmit.server) else { return Ok(0) };
        let socket = self.sockets.get(key, Carries::Dns, server)?;
        let connected = socket.is_connected();
        let before = self.clock.now();
        let datagrams = slots.iter().map(|&(_, slot)| query_datagram(udp, slot, connected));
        let count = self.send.send(socket, datagrams)?;
        let port = socket.local().port();
        for &(_, slot) in &slots[..count] {
            udp.handle_sent(slot, before, port);
        }
        Ok(count)
    }

    // ---- Datagrams of QUIC.

    /// Sends pending QUIC datagrams. Returns their number.
    fn drive_quic(&mut self, quic: &mut Quic) -> usize {
        let mut sent = 0;
        while let Some((key, carries)) = self.collect_packets(quic) {
            let count = self.send_packets(quic, key, carries);
            sent += count;
            if count == 0 {
                break;
            }
        }
        sent
    }

    /// Fills `packets` with datagrams of one socket.
    fn collect_packets(&mut self, quic: &mut Quic) -> Option<(SocketKey, Carries)> {
        let now = self.clock.now();
        let mut socket = None;
        while self.packets.len() < TIMED_BATCH {
            let Some(outgoing) = quic.poll_transmit(now) else { break };
            let of_it = (outgoing.socket, Carries::Quic(outgoing.server.port()));
            if socket.is_some_and(|socket| socket != of_it) {
                quic.handle_postponed(outgoing);
                break;
            }
            socket = Some(of_it);
            self.packets.push(outgoing);
        }
        socket
    }

    /// Sends `packets` and reports to the machine. Returns how many are no longer queued.
    fn send_packets(&mut self, quic: &mut Quic, key: SocketKey, carries: Carries) -> usize {
        let (mut done, mut refusals) = (0, Refusals::default());
        while !self.packets.is_empty() {
            match self.send_packets_once(quic, key, carries).map_err(|error| (refusals.judge(&error), error)) {
                Ok(0) | Err((Next::Later, _)) => {
                    self.postponed += 1;
                    break;
                }
                Ok(count) => {
                    done += count;
                    refusals = Refusals::default();
                }
                Err((Next::Again, _)) => self.fetch_packet_errors(quic, key, carries),
                Err((Next::Never(reason), error)) => {
                    self.refused.get_or_insert_with(|| error.to_string());
                    quic.handle_unsent(self.packets.remove(0), self.clock.now(), reason);
                    done += 1;
                    refusals = Refusals::default();
                }
            }
        }
        while let Some(outgoing) = self.packets.pop() {
            quic.handle_postponed(outgoing);
        }
        done
    }

    /// One system call for `packets`.
    fn send_packets_once(&mut self, quic: &mut Quic, key: SocketKey, carries: Carries) -> io::Result<usize> {
        let Some(server) = self.packets.first().map(|outgoing| outgoing.server) else { return Ok(0) };
        let socket = self.sockets.get(key, carries, server)?;
        let (connected, port) = (socket.is_connected(), socket.local().port());
        let before = self.clock.now();
        let count = self.send.send(socket, self.packets.iter().map(|outgoing| packet_datagram(outgoing, connected)))?;
        for outgoing in self.packets.drain(..count) {
            quic.handle_sent(outgoing, before, port);
        }
        Ok(count)
    }

    // ---- What arrives.

    /// Reads a ready socket: up to `limit` datagrams; or a connection, if there `is_time` for it.
    fn read(&mut self, transports: &mut Transports, number: usize, limit: usize, is_time: bool) -> Arrived {
        let ready = self.sockets.ready(number);
        if SocketStreams::is_ours(ready.token) {
            self.streams.handle_ready(&mut transports.connections, &ready, is_time);
            return Arrived { count: 1, ..Arrived::NOTHING };
        }
        let (key, carries, socket) = self.sockets.at(ready.token);
        if ready.error {
            match carries {
                Carries::Dns => self.fetch_datagram_errors(&mut transports.udp, key),
                Carries::Quic(_) => self.fetch_packet_errors(&mut transports.quic, key, carries),
            }
            return Arrived { count: 1, ..Arrived::NOTHING };
        }
        if limit == 0 {
            return Arrived::NOTHING;
        }
        // An error of a connected socket is also in the error queue, which wakes the worker again.
        let Ok(count) = self.receive.receive(socket, limit) else { return Arrived::NOTHING };
        let (offset, now) = (self.clock.wall_offset(), self.clock.now());
        let mut oldest = RunTime(i64::MAX);
        for received in self.receive.iter() {
            let Some(peer) = received.peer else { continue };
            let at = received.stamp_ns.map_or(now, |stamp| RunTime(stamp - offset).min(now));
            oldest = oldest.min(at);
            let arrival = Arrival { socket: key, peer, local: received.local, at, octets: received.octets };
            match carries {
                Carries::Dns => transports.udp.handle_datagram(&arrival),
                Carries::Quic(_) => transports.quic.handle_datagram(&arrival),
            }
        }
        Arrived { count, oldest }
    }

    /// Fetches errors of earlier queries over UDP, and timestamps of sent ones.
    fn fetch_datagram_errors(&mut self, udp: &mut Udp, key: SocketKey) {
        let Some(socket) = self.sockets.find(key, Carries::Dns) else { return };
        if self.receive.receive_errors(socket).is_err() {
            return;
        }
        let offset = self.clock.wall_offset();
        for refused in self.receive.iter() {
            match refused.sent {
                Some(stamp) => udp.handle_stamp(key, stamp.number, RunTime(stamp.ns - offset)),
                None => udp.handle_refused(key, refused.peer, refused.octets),
            }
        }
    }

    /// Fetches errors of earlier datagrams of QUIC.
    fn fetch_packet_errors(&mut self, quic: &mut Quic, key: SocketKey, carries: Carries) {
        let Some(socket) = self.sockets.find(key, carries) else { return };
        if self.receive.receive_errors(socket).is_ok() {
            self.receive.iter().for_each(|refused| quic.handle_refused(refused.octets));
        }
    }
}

fn query_datagram(udp: &Udp, slot: Slot, connected: bool) -> Datagram<'_> {
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

fn packet_datagram(outgoing: &Outgoing, connected: bool) -> Datagram<'_> {
    let (head, tail) =
        outgoing.octets.split_first_chunk().map_or(([0; 2], [].as_slice()), |(head, tail)| (*head, tail));
    Datagram {
        head,
        tail,
        source: outgoing.source.filter(|_| !connected),
        peer: (!connected).then_some(outgoing.server),
    }
}

/// Opens the shared sockets in advance: opening one takes too long for the first query. Errors are reported by
/// the queries that need them.
fn open_shared(sockets: &mut Sockets, settings: &Settings) {
    if settings.sources == Sources::Ports {
        return;
    }
    let any = |v6| if v6 { (Ipv6Addr::UNSPECIFIED, 0).into() } else { (Ipv4Addr::UNSPECIFIED, 0).into() };
    for v6 in [false, true].into_iter().filter(|&v6| settings.targets.has_family(v6)) {
        let server = settings.targets.only(v6).unwrap_or_else(|| any(v6));
        let mut keys = (0..settings.sources.spread(v6)).map(|number| SocketKey::Shared { v6, number });
        // If one cannot be opened, the next ones cannot either.
        let _ = keys.try_for_each(|key| sockets.get(key, Carries::Dns, server).map(|_| ()));
    }
}
