//! Opening connections: ports, initial sequence numbers, and the answer to SYN.

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::RunTime;
use ldplayer_core::random::{draw, subkey};

use super::acknowledge::initial_window;
use super::active::NEVER;
use super::connection::{FAST_OPEN, Key, SACK, State, TIMESTAMPS};
use super::output::{RESET, Reply};
use super::sequence::{after, before};
use super::{Event, Failure, Handle, Input, OpenError, OpenOptions, Tcp, milliseconds, new_connection, servers};
use crate::frame::{Flags, Segment};

/// The first port that is used: lower ones are for servers.
const FIRST_PORT: u16 = 1_024;
/// Octets that timestamps take of each segment.
const TIMESTAMP_OCTETS: u16 = 12;
/// What a server takes that does not say (RFC 9293 section 3.7.1).
const MSS_V4: u16 = 536;
const MSS_V6: u16 = 1_220;
/// The least segment that we believe in, so that options never fill it.
const LEAST_MSS: u16 = 88;
/// Age from which a tuple in TIME_WAIT may be used again with timestamps, in milliseconds (RFC 6191, as Linux has it).
const REUSE_MS: u32 = 1_000;
/// Sequences of draws.
const PORTS: u64 = 1;
const SEQUENCE_NUMBERS: u64 = 2;
const STAMPS: u64 = 3;

impl Tcp {
    /// Opens a connection from an address of a client, and returns its handle and port. [`Event::Opened`] or
    /// [`Event::Failed`] follows if it fails; data written before is sent once the connection is open.
    ///
    /// The port is drawn by the seed, the two addresses and the count of connections (RFC 6056 section 3.3.3), the initial
    /// sequence number by the seed, the tuple and a clock (RFC 6528 section 3); neither is meant to hold against an attacker
    /// who knows the seed.
    ///
    /// # Errors
    /// If there is no port, or too much of something.
    pub fn open(
        &mut self,
        now: RunTime,
        local: IpAddr,
        server: SocketAddr,
        options: &OpenOptions<'_>,
    ) -> Result<(Handle, u16), OpenError> {
        if local.is_ipv6() != server.is_ipv6() {
            return Err(OpenError::Family);
        }
        if self.connections.len() >= self.config.max_connections {
            return Err(OpenError::TooManyConnections);
        }
        let number = self.servers.number(server, self.config.mtu).ok_or(OpenError::TooManyServers)?;
        let (client, is_v6) = match local {
            IpAddr::V4(v4) => (v4.to_bits(), false),
            IpAddr::V6(v6) => (self.addresses.acquire(v6), true),
        };
        let Some((port, reused)) = self.choose_port(now, client, number, is_v6) else {
            if is_v6 {
                self.addresses.release(client);
            }
            return Err(OpenError::NoPort);
        };
        let slot = self.insert(now, (client, number, port, is_v6), options, reused);
        self.counts.opened += 1;
        Ok((self.connections.handle(slot), port))
    }

    /// A port that is free, and the sequence number to go on from if it was in TIME_WAIT.
    fn choose_port(&mut self, now: RunTime, client: u32, server: u32, is_v6: bool) -> Option<(u16, Option<u32>)> {
        let (worker, workers) = (u32::from(self.config.worker), u32::from(self.config.workers));
        let from = u32::from(FIRST_PORT);
        let first = from + (worker + workers - from % workers) % workers;
        let count = u32::from(u16::MAX).checked_sub(first)? / workers + 1;
        let key = subkey(self.config.seed, PORTS);
        let offset = draw(key, u64::from(self.client_draw(client, is_v6)) << 32 | u64::from(server)) as u32;
        let mut reusable = None;
        for step in 0..count {
            let place = offset.wrapping_add(self.chosen).wrapping_add(step) % count;
            let port = (first + place * workers) as u16;
            match self.find_key((client, server, port, is_v6)) {
                None => {
                    self.chosen = self.chosen.wrapping_add(step + 1);
                    return Some((port, None));
                }
                Some(slot) if reusable.is_none() && self.is_reusable(now, slot) => reusable = Some((port, slot)),
                Some(_) => {}
            }
        }
        let (port, slot) = reusable?;
        self.chosen = self.chosen.wrapping_add(1);
        let sent = self.connections[slot].sent;
        self.replace(slot);
        Some((port, Some(sent)))
    }

    /// Whether a tuple in TIME_WAIT may be reused (RFC 6191): timestamps let the server recognize old segments.
    fn is_reusable(&self, now: RunTime, slot: u32) -> bool {
        let connection = &self.connections[slot];
        let is_waiting = connection.state() == State::TimeWait && connection.has(TIMESTAMPS);
        let left = connection.active.wrapping_sub(milliseconds(now));
        let total = (self.config.time_wait_ns / 1_000_000) as u32;
        is_waiting && total.saturating_sub(left) >= REUSE_MS
    }

    fn insert(&mut self, now: RunTime, key: Key, options: &OpenOptions<'_>, reused: Option<u32>) -> u32 {
        let mss = self.servers.get(key.1).mss();
        let mut connection = new_connection(key, options);
        connection.mss = mss;
        connection.sent = self.initial_sequence(now, key, reused);
        if self.config.timestamps {
            connection.flags |= TIMESTAMPS;
        }
        if self.config.sack {
            connection.flags |= SACK;
        }
        let slot = self.connections.insert(connection);
        self.index.insert(&mut self.connections, slot);
        let place = self.activate(slot, now);
        let active = &mut self.actives[place];
        // The data follows SYN.
        active.base = active.base.wrapping_add(1);
        active.syn_due = true;
        let data = &options.data[..options.data.len().min(self.config.send_buffer as usize)];
        active.append(data);
        active.wants_room = data.len() < options.data.len();
        self.queue(place);
        slot
    }

    /// The initial sequence number (RFC 6528 section 3): a clock of 4 µs and a hash of the tuple. It lies ahead of what an
    /// earlier connection of the tuple used.
    fn initial_sequence(&self, now: RunTime, key: Key, reused: Option<u32>) -> u32 {
        let clock = now.0.div_euclid(4_000) as u32;
        let sequence = clock.wrapping_add(self.tuple_draw(SEQUENCE_NUMBERS, key));
        match reused {
            Some(sent) if !after(sequence, sent) => sent.wrapping_add(u16::MAX.into()),
            _ => sequence,
        }
    }

    /// What our timestamps are ahead of the clock (RFC 7323 section 7.1): the same for all connections of a tuple.
    pub(super) fn stamp_offset(&self, slot: u32) -> u32 {
        self.tuple_draw(STAMPS, self.connections.key(slot))
    }

    fn tuple_draw(&self, purpose: u64, (client, server, port, is_v6): Key) -> u32 {
        let key = (self.client_draw(client, is_v6), server, port, is_v6);
        draw(subkey(self.config.seed, purpose), super::connection::hash(key)) as u32
    }

    /// An IPv4 address, or a number that stands for an IPv6 address in draws, whatever number that has for the time being.
    fn client_draw(&self, client: u32, is_v6: bool) -> u32 {
        if !is_v6 {
            return client;
        }
        let bits = self.addresses.address(client).to_bits();
        draw((bits >> 64) as u64, bits as u64) as u32
    }

    /// A segment arrived in answer to SYN (RFC 9293 section 3.10.7.3).
    pub(super) fn handle_answer<'a>(&mut self, now: RunTime, slot: u32, segment: &Segment<'a>) -> Option<Input<'a>> {
        let place = self.place(slot)?;
        let active = &self.actives[place];
        let flags = segment.flags;
        let ack = segment.acknowledgement;
        let is_ours = flags.has(Flags::ACK) && after(ack, active.unacknowledged) && !after(ack, active.highest);
        if flags.has(Flags::RST) {
            if is_ours {
                self.fail(slot, Failure::Refused);
            } else {
                self.counts.resets_ignored += 1;
            }
            return None;
        }
        if flags.has(Flags::ACK) && !is_ours {
            self.answer_old(place, segment);
            return None;
        }
        if !flags.has(Flags::SYN | Flags::ACK) {
            self.counts.meaningless += 1;
            return None;
        }
        self.establish(now, slot, place, segment);
        let mut behind = *segment;
        behind.sequence = segment.sequence.wrapping_add(1);
        behind.flags = Flags(segment.flags.0 & !Flags::SYN.0);
        let is_more = !segment.payload.is_empty() || flags.has(Flags::FIN);
        if is_more { self.take_data(now, slot, &behind) } else { None }
    }

    /// The server has an older connection of this tuple, and acknowledges what that has sent: it is reset, and SYN sent
    /// again at once, as often as it may be.
    fn answer_old(&mut self, place: u32, segment: &Segment<'_>) {
        self.counts.bad_acknowledgements += 1;
        let slot = self.actives[place].connection;
        let (from, to) = self.addresses_of(slot);
        let reply = Reply { sequence: segment.acknowledgement, ..Reply::new(from, to, RESET) };
        self.reply(reply);
        let active = &mut self.actives[place];
        let was_sent = !active.syn_due;
        if was_sent && active.retries < self.config.syn_retries {
            active.retries += 1;
            active.syn_due = true;
            self.queue(place);
        }
    }

    fn establish(&mut self, now: RunTime, slot: u32, place: u32, segment: &Segment<'_>) {
        self.agree(slot, segment);
        let ack = segment.acknowledgement;
        let active = &mut self.actives[place];
        let taken = ack.wrapping_sub(active.unacknowledged).saturating_sub(1);
        if let (Some((_, since)), 0) = (active.timed.take(), active.retries) {
            active.rtt.measure(now.0 - since);
        }
        let is_accepted = active.acknowledge(taken) > 0;
        active.unacknowledged = ack;
        (active.backoff, active.retries, active.syn_due) = (0, 0, false);
        active.resend_at = NEVER;
        let connection = &mut self.connections[slot];
        active.congestion = initial_window(connection.mss);
        connection.set_state(State::Established);
        connection.sent = ack;
        active.acknowledged = segment.sequence;
        // Data of SYN that the server has not taken is as if it had never been sent: it is no loss.
        active.highest = ack;
        active.ack_now();
        self.remember_cookie(slot, place, segment, is_accepted);
        self.counts.established += 1;
        self.tell(slot, Event::Opened);
        self.tell_room(slot, place);
        self.queue(place);
    }

    /// Takes the options of SYN-ACK: what both have offered is agreed upon.
    fn agree(&mut self, slot: u32, segment: &Segment<'_>) {
        let options = &segment.options;
        let connection = &mut self.connections[slot];
        connection.received = segment.sequence.wrapping_add(1);
        connection.window = segment.window;
        connection.set_scale(options.window_scale.unwrap_or(0));
        match options.timestamps {
            Some(stamps) if connection.has(TIMESTAMPS) => connection.recent = stamps.value,
            _ => connection.flags &= !TIMESTAMPS,
        }
        if !options.sack_permitted {
            connection.flags &= !SACK;
        }
        let server = self.servers.get(connection.server);
        let default = if server.address.is_ipv4() { MSS_V4 } else { MSS_V6 };
        let mss = options.mss.unwrap_or(default).max(LEAST_MSS).min(server.mss());
        connection.mss = data_octets(mss, connection.has(TIMESTAMPS));
        if options.window_scale.is_none() {
            self.unscale(slot);
        }
    }

    /// Without a scale of the server's, neither side scales (RFC 7323 section 2.2).
    fn unscale(&mut self, slot: u32) {
        self.connections[slot].flags |= super::connection::UNSCALED;
    }

    fn remember_cookie(&mut self, slot: u32, place: u32, segment: &Segment<'_>, is_accepted: bool) {
        let connection = &self.connections[slot];
        if !connection.has(FAST_OPEN) {
            return;
        }
        if is_accepted {
            self.counts.fast_opens_accepted += 1;
        }
        let number = connection.server;
        let client = self.addresses_of(slot).0.ip();
        let cookie = segment.options.fast_open.filter(|cookie| !cookie.is_request());
        if let Some(cookie) = cookie {
            let default = if client.is_ipv4() { MSS_V4 } else { MSS_V6 };
            let mss = segment.options.mss.unwrap_or(default).max(LEAST_MSS);
            self.cookies.insert(client, number, (cookie, mss));
        } else if self.actives[place].syn_data > 0 && !is_accepted {
            // The server does not take the cookie any more (RFC 7413 section 4.2.1).
            self.cookies.remove(client, number);
        }
    }

    /// Lowers the segments of a connection to what fits the path to its server.
    pub(super) fn fit_to_path(&mut self, slot: u32) {
        let connection = &mut self.connections[slot];
        let mss = data_octets(self.servers.get(connection.server).mss(), connection.has(TIMESTAMPS));
        connection.mss = connection.mss.min(mss);
    }

    /// Octets of data that SYN may carry with a cookie.
    pub(super) fn syn_room(&self, slot: u32, mss: u16, options: usize) -> usize {
        let server = self.servers.get(self.connections[slot].server);
        usize::from(mss.min(servers::mss(server.address.ip(), server.mtu))).saturating_sub(options)
    }
}

/// Octets of data in a segment of `mss` octets.
const fn data_octets(mss: u16, has_timestamps: bool) -> u16 {
    mss - if has_timestamps { TIMESTAMP_OCTETS } else { 0 }
}

/// Whether a sequence number lies in flight: sent and not acknowledged.
pub(super) fn is_in_flight(sequence: u32, unacknowledged: u32, highest: u32) -> bool {
    !before(sequence, unacknowledged) && before(sequence, highest)
}
