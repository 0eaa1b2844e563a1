//! Segments to be sent.

use std::net::SocketAddr;

use ldplayer_core::RunTime;

use super::active::{Active, NEVER};
use super::config::Config;
use super::connection::{Connection, FAST_OPEN, NAGLE, SACK, State, TIMESTAMPS, UNSCALED};
use super::sequence::{after, before, later};
use super::{Tcp, milliseconds, servers};
use crate::frame::segment::Outgoing;
use crate::frame::{Cookie, Flags, Options, Segment, Timestamps};

/// A reset that acknowledges nothing.
pub const RESET: Flags = Flags::RST;
/// A reset in answer to what acknowledged nothing.
pub const RESET_ACKNOWLEDGE: Flags = Flags(Flags::RST.0 | Flags::ACK.0);
/// Nothing but an acknowledgement.
pub const ACKNOWLEDGE: Flags = Flags::ACK;

/// A segment without data that no active part stands for.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: Flags,
    pub window: u16,
    pub timestamps: Option<Timestamps>,
}

impl Reply {
    /// A reply with zeros.
    pub const fn new(from: SocketAddr, to: SocketAddr, flags: Flags) -> Self {
        Self { from, to, sequence: 0, acknowledgement: 0, flags, window: 0, timestamps: None }
    }

    fn outgoing<'a>(self) -> Outgoing<'a> {
        let segment = Segment {
            source_port: self.from.port(),
            destination_port: self.to.port(),
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags: self.flags,
            window: self.window,
            options: Options { timestamps: self.timestamps, ..Options::default() },
            payload: &[],
        };
        Outgoing { from: self.from, to: self.to, segment }
    }
}

/// A segment of a connection, before it is put together.
#[derive(Clone, Copy, Debug)]
struct Plan {
    sequence: u32,
    flags: Flags,
    /// Which of the data it carries.
    start: usize,
    length: usize,
}

impl Plan {
    const fn end(&self) -> u32 {
        let flags = self.flags.has(Flags::SYN) as u32 + self.flags.has(Flags::FIN) as u32;
        self.sequence.wrapping_add(self.length as u32).wrapping_add(flags)
    }
}

impl Tcp {
    /// The next segment to be sent at `now`; it borrows its data from the machine. It counts as sent.
    pub fn poll_transmit(&mut self, now: RunTime) -> Option<Outgoing<'_>> {
        if let Some(reply) = self.replies.pop_front() {
            self.counts.segments_out += 1;
            return Some(reply.outgoing());
        }
        let (place, plan) = loop {
            let &place = self.ready.front()?;
            if let Some(plan) = self.plan(place) {
                break (place, plan);
            }
            self.ready.pop_front();
            self.actives[place].is_queued = false;
            if self.actives[place].is_used {
                self.watch_window(now, place);
                self.settle(place);
            }
        };
        self.counts.segments_out += 1;
        Some(self.transmit(now, place, plan))
    }

    /// What a connection has to say next.
    fn plan(&mut self, place: u32) -> Option<Plan> {
        let active = &mut self.actives[place];
        if !active.is_used {
            return None;
        }
        let connection = &self.connections[active.connection];
        if connection.state() == State::SynSent {
            let sequence = active.unacknowledged;
            return active.syn_due.then_some(Plan { sequence, flags: Flags::SYN, start: 0, length: 0 });
        }
        let plan =
            resend(active, connection).or_else(|| probe(active, connection)).or_else(|| send(active, connection));
        plan.or_else(|| {
            let flags = Flags::ACK;
            (active.acks_due > 0).then_some(Plan { sequence: connection.sent, flags, start: 0, length: 0 })
        })
    }

    fn transmit(&mut self, now: RunTime, place: u32, plan: Plan) -> Outgoing<'_> {
        let slot = self.actives[place].connection;
        let (plan, options) = if plan.flags.has(Flags::SYN) {
            self.synchronize(now, slot, place)
        } else {
            (plan, self.options(now, slot, place))
        };
        self.account(now, slot, place, plan);
        let (from, to) = self.addresses_of(slot);
        let connection = &self.connections[slot];
        let is_syn = plan.flags.has(Flags::SYN);
        let segment = Segment {
            source_port: from.port(),
            destination_port: to.port(),
            sequence: plan.sequence,
            acknowledgement: if is_syn { 0 } else { connection.received },
            flags: plan.flags,
            window: window(&self.config, connection, is_syn),
            options,
            payload: &self.actives[place].output()[plan.start..plan.start + plan.length],
        };
        Outgoing { from, to, segment }
    }

    /// Notes that a segment is sent.
    fn account(&mut self, now: RunTime, slot: u32, place: u32, plan: Plan) {
        let connection = &mut self.connections[slot];
        let active = &mut self.actives[place];
        if !plan.flags.has(Flags::SYN) {
            active.acks_due = active.acks_due.saturating_sub(1);
            (active.ack_at, active.full_segments) = (NEVER, 0);
            active.acknowledged = connection.received;
        }
        let end = plan.end();
        if end == plan.sequence {
            return;
        }
        let is_new = !before(plan.sequence, active.highest);
        if is_new {
            self.counts.octets_out += plan.length as u64;
            active.timed = active.timed.or(Some((end, now.0)));
        } else {
            self.counts.retransmitted += 1;
            active.segments.resent = active.segments.resent.saturating_add(1);
            // An acknowledgement would not say which of both it is for (Karn; RFC 6298 section 3).
            active.timed = None;
        }
        connection.sent = later(connection.sent, end);
        active.highest = later(active.highest, end);
        if active.resend_at == NEVER || plan.flags.has(Flags::SYN) {
            active.resend_at = now.0.saturating_add(active.rtt.timeout(active.backoff, &self.config));
        }
    }

    /// The options of a segment other than SYN.
    fn options(&self, now: RunTime, slot: u32, place: u32) -> Options {
        let connection = &self.connections[slot];
        let mut options = Options { timestamps: self.timestamps(now, slot), ..Options::default() };
        if let Some(input) = self.actives[place].input.as_ref().filter(|_| connection.has(SACK)) {
            options.sack = input.sack();
            options.sack.truncate(if options.timestamps.is_some() { 3 } else { 4 });
        }
        options
    }

    /// Our clock and the server's, if the connection has timestamps.
    fn timestamps(&self, now: RunTime, slot: u32) -> Option<Timestamps> {
        let connection = &self.connections[slot];
        let value = || milliseconds(now).wrapping_add(self.stamp_offset(slot));
        connection.has(TIMESTAMPS).then(|| Timestamps { value: value(), echo: connection.recent })
    }

    /// SYN, with data if the server has given a cookie (RFC 7413 section 4.2.1).
    fn synchronize(&mut self, now: RunTime, slot: u32, place: u32) -> (Plan, Options) {
        let sequence = self.actives[place].unacknowledged;
        let mut plan = Plan { sequence, flags: Flags::SYN, start: 0, length: 0 };
        let connection = &self.connections[slot];
        let server = self.servers.get(connection.server);
        let mut options = Options {
            mss: Some(servers::mss(server.address.ip(), self.config.mtu)),
            window_scale: Some(self.config.window_scale()),
            sack_permitted: connection.has(SACK),
            timestamps: self.timestamps(now, slot),
            ..Options::default()
        };
        let is_first = self.actives[place].retries == 0;
        if connection.has(FAST_OPEN) && is_first && !server.is_fast_open_lost {
            let client = self.addresses_of(slot).0.ip();
            let (cookie, mss) = self.cookies.get(client, connection.server).unwrap_or((Cookie::default(), 0));
            options.fast_open = Some(cookie);
            if !cookie.is_request() {
                self.counts.fast_opens += 1;
                plan.length = self.actives[place].output().len().min(self.syn_room(slot, mss, options.len()));
            }
        }
        let active = &mut self.actives[place];
        active.syn_due = false;
        active.syn_data = plan.length as u16;
        (plan, options)
    }

    /// Sees to it that a closed window is probed (RFC 9293 section 3.8.6.1).
    fn watch_window(&mut self, now: RunTime, place: u32) {
        let active = &mut self.actives[place];
        let connection = &self.connections[active.connection];
        let waits = !active.output().is_empty() && active.resend_at == NEVER;
        if waits && connection.window() == 0 && connection.state() != State::SynSent {
            active.closed_since = active.closed_since.min(now.0);
            active.resend_at = now.0.saturating_add(active.rtt.timeout(active.backoff, &self.config));
        }
    }

    /// Puts an answer of a connection on its way that has no active part.
    pub(super) fn reply_from(&mut self, now: RunTime, slot: u32, flags: Flags) {
        let (from, to) = self.addresses_of(slot);
        let connection = &self.connections[slot];
        let reply = Reply {
            sequence: connection.sent,
            acknowledgement: connection.received,
            window: window(&self.config, connection, false),
            timestamps: self.timestamps(now, slot),
            ..Reply::new(from, to, flags)
        };
        self.reply(reply);
    }
}

/// The window in the header.
fn window(config: &Config, connection: &Connection, is_syn: bool) -> u16 {
    if is_syn || connection.has(UNSCALED) { config.window.min(u16::MAX.into()) as u16 } else { config.scaled_window() }
}

/// The first segment in flight once more, up to where FIN is.
fn resend(active: &mut Active, connection: &Connection) -> Option<Plan> {
    if !std::mem::take(&mut active.resend_due) || active.unacknowledged == connection.sent {
        return None;
    }
    let in_flight = connection.sent.wrapping_sub(active.base) as usize;
    let length = active.output().len().min(in_flight).min(connection.mss.into());
    Some(piece(active, 0, length, in_flight > active.output().len()))
}

/// One octet beyond the closed window.
fn probe(active: &mut Active, connection: &Connection) -> Option<Plan> {
    let is_due = std::mem::take(&mut active.probe_due) && connection.window() == 0;
    (is_due && !active.output().is_empty()).then(|| piece(active, 0, 1, false))
}

/// What may be sent next by the windows of the server and of congestion.
fn send(active: &Active, connection: &Connection) -> Option<Plan> {
    let end = active.end();
    if after(connection.sent, end) {
        return None;
    }
    let start = connection.sent.wrapping_sub(active.base) as usize;
    let left = active.output().len() - start;
    if left == 0 {
        return active.has_fin.then(|| piece(active, start, 0, true));
    }
    let flight = active.flight(connection.sent);
    let room = connection.window().min(active.congestion).saturating_sub(flight) as usize;
    let length = left.min(connection.mss.into()).min(room);
    let is_last = length == left;
    let is_full = length == usize::from(connection.mss);
    // Silly windows are avoided (RFC 9293 section 3.8.6.2.1): a part that is neither full nor the last waits for more room,
    // unless nothing else would make the server answer.
    let is_worth = is_full || is_last || flight == 0;
    let waits_by_nagle = connection.has(NAGLE) && !is_full && flight > 0 && !active.has_fin;
    if length == 0 || !is_worth || waits_by_nagle {
        return None;
    }
    Some(piece(active, start, length, active.has_fin && is_last))
}

/// A part of the data, with FIN if all that is left is in it.
fn piece(active: &Active, start: usize, length: usize, may_end: bool) -> Plan {
    let is_last = start + length == active.output().len();
    let push = if length > 0 && is_last { Flags::PSH } else { Flags::default() };
    let fin = if may_end && is_last && active.has_fin { Flags::FIN } else { Flags::default() };
    Plan { sequence: active.base.wrapping_add(start as u32), flags: Flags::ACK | push | fin, start, length }
}
