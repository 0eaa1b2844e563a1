//! Connections over HTTP/2: requests out, responses in, and streams that end without a response.

use ldplayer_core::{Reason, RunTime, Transport};

use super::connection::Connection;
use super::http2::{ErrorCode, Event, Head, Http2, STREAMS_AT_ONCE, frames};
use super::tls::{ALPN_H2, TlsClient};
use super::{Connections, TlsSettings};
use crate::doh::{DohSettings, Requests};
use crate::slab::Slot;
use crate::table::{End, Machine, Stage};

/// State shared by all HTTPS connections of a worker.
#[derive(Debug)]
pub struct Doh {
    /// Their TLS sessions, with separate tickets.
    pub tls: TlsClient,
    requests: Requests<Head>,
    /// The last limit of concurrent streams set by the server; assumed for new connections.
    most: u32,
}

impl Doh {
    /// With these settings.
    ///
    /// # Errors
    /// The library does not support the required handshake.
    pub fn new(tls: &TlsSettings, settings: &DohSettings) -> Result<Self, rustls::Error> {
        let tls_client = TlsClient::new(tls, ALPN_H2)?;
        Ok(Self { tls: tls_client, requests: Requests::new(settings, tls.name.as_ref()), most: STREAMS_AT_ONCE })
    }

    /// The assumed limit of concurrent streams of a new connection.
    pub const fn streams(&self) -> usize {
        self.most as usize
    }
}

impl Connections {
    /// Enables queries over HTTPS.
    pub fn with_doh(self, doh: Option<Doh>) -> Self {
        Self { doh, ..self }
    }

    /// The TLS configuration of a transport.
    pub(super) fn tls_of(&self, transport: Transport) -> Option<&TlsClient> {
        if transport == Transport::Doh2 { self.doh.as_ref().map(|doh| &doh.tls) } else { self.tls.as_ref() }
    }

    /// Begins HTTP/2 on a connection after its handshake, if required. Returns whether the server supports it.
    pub(super) fn start_http2(&mut self, at: Slot) -> bool {
        let Some(connection) = self.table.connection_mut(at) else { return false };
        if connection.transport != Transport::Doh2 {
            return true;
        }
        let is_agreed = connection.tls().is_some_and(|session| session.protocol() == Some(ALPN_H2));
        if let (true, Some(doh)) = (is_agreed, &self.doh) {
            connection.active_mut().http2 = Some(Box::new(Http2::new(doh.most)));
        }
        is_agreed
    }

    /// Appends the request of a queued query; returns its stream, and the length of the message.
    pub(super) fn compose_request(&mut self, at: Slot, slot: Slot, out: &mut Vec<u8>) -> Option<(u64, u16)> {
        let connection = self.table.connection(at)?;
        let server = self.table.server(connection);
        let class = connection.class;
        let block = self.table.policy(class).padding;
        let (connection, request) = self.table.pair_mut(at, slot)?;
        let http2 = connection.http2_mut()?;
        let doh = self.doh.as_mut()?;
        let (head, message) = doh.requests.prepare(server, &request.wire, block, Head::new);
        let length = message.len() as u16;
        let stream = http2.open(head, message, out);
        Some((u64::from(stream), length))
    }

    /// Handles octets of the frame stream.
    pub(super) fn handle_frames(&mut self, at: Slot, number: u64, now: RunTime, octets: &[u8]) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let (mut kept, mut arrival) = connection.take_input(now);
        kept.extend_from_slice(if kept.is_empty() { &[] } else { octets });
        let mut rest = if kept.is_empty() { octets } else { kept.as_slice() };
        loop {
            let Some(http2) = self.table.connection_mut(at).and_then(Connection::http2_mut) else {
                return;
            };
            let event = match frames::split(&mut rest) {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    let event = http2.receive(&frame);
                    let slot = self.table.find(number, u64::from(frame.stream));
                    slot.filter(|_| frame.is_response())
                        .into_iter()
                        .for_each(|slot| self.table.note_octets(slot, arrival.since));
                    arrival.since = now;
                    event
                }
                Err(code) => Err(code),
            };
            match event {
                Ok(event) => self.handle_event(at, number, now, event),
                Err(code) => return self.break_off(at, now, code),
            }
            let http2 = self.table.connection_mut(at).and_then(Connection::http2_mut);
            let cost = http2.map_or(0, Http2::take_cost);
            if self.charge(at, now, cost) {
                return;
            }
        }
        let done = kept.len() - if kept.is_empty() { 0 } else { rest.len() };
        let kept = if kept.is_empty() { rest.to_vec() } else { kept.split_off(done) };
        if let Some(connection) = self.table.connection_mut(at) {
            connection.keep_input(kept, arrival);
        }
        self.settle(at, now);
    }

    fn handle_event(&mut self, at: Slot, number: u64, now: RunTime, event: Event<'_>) {
        match event {
            Event::Nothing => {}
            Event::Settings => self.respread(at, now),
            Event::Leaving { last } => self.leave(at, now, last),
            Event::Response { stream, body } => {
                let Some(slot) = self.table.find(number, u64::from(stream)) else { return };
                // The stream identifies the query, so that its ID is irrelevant.
                match self.table.check(slot, &body) {
                    Ok(message) => self.answer(slot, now, &message),
                    Err(reason) => self.fail_stream(slot, now, reason),
                }
            }
            Event::Unusable { stream, reason } => self.fail_at(number, stream, now, reason),
            Event::Malformed { stream } => self.fail_at(number, stream, now, Reason::Garbage),
            Event::Reset { stream, is_refused } => {
                let Some(slot) = self.table.find(number, u64::from(stream)) else { return };
                match self.table.request(slot) {
                    Some(request) if is_refused && request.stage == Stage::Outstanding => {
                        self.table.detach_written(at, slot);
                        self.requeue(slot, now, Reason::StreamReset);
                    }
                    _ => self.fail_stream(slot, now, Reason::StreamReset),
                }
            }
        }
    }

    /// The query on a stream has ended without an answer.
    fn fail_at(&mut self, number: u64, stream: u32, now: RunTime, reason: Reason) {
        if let Some(slot) = self.table.find(number, u64::from(stream)) {
            self.fail_stream(slot, now, reason);
        }
    }

    /// Moves queries beyond the server's limit of streams to other connections. The first one stays, since
    /// a server that allows none may still change its mind.
    fn respread(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let Some(http2) = connection.http2() else { return };
        let kept = http2.room().max(1);
        if let Some(doh) = &mut self.doh {
            doh.most = http2.most().max(1);
        }
        if connection.queued() <= kept {
            return;
        }
        let mut next = connection.first_queued();
        for _ in 0..kept {
            next = next.and_then(|slot| self.table.next(slot));
        }
        while let Some(slot) = next {
            next = self.table.next(slot);
            self.table.detach_queued(at, slot);
            self.assign(now, slot);
        }
    }

    /// The server accepts no more streams on a connection: unprocessed queries move to another one.
    fn leave(&mut self, at: Slot, now: RunTime, last: u32) {
        self.table.leave_idle(at);
        let Some(connection) = self.table.connection(at) else { return };
        let mut next = connection.first_written();
        while let Some(slot) = next {
            next = self.table.next(slot);
            if self.table.request(slot).is_some_and(|request| request.id > Some(u64::from(last))) {
                self.table.detach_written(at, slot);
                self.reassign(slot, now, Reason::ClosedByServer);
            }
        }
        while let Some(slot) = self.table.connection(at).and_then(|connection| connection.first_queued()) {
            self.table.detach_queued(at, slot);
            self.reassign(slot, now, Reason::ClosedByServer);
        }
    }

    /// Closes a connection whose server violated the protocol, with an error.
    fn break_off(&mut self, at: Slot, now: RunTime, code: ErrorCode) {
        self.announce_close(at, code);
        match code {
            ErrorCode::EnhanceYourCalm => self.break_down(at, now, End::Flooded, Reason::Flooded),
            _ => self.break_down(at, now, End::Reset, Reason::Protocol),
        }
    }

    /// Queues final data for the server before a connection is closed.
    pub(super) fn announce_close(&mut self, at: Slot, code: ErrorCode) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let is_http2 = connection.http2().is_some();
        if connection.tls().is_none() {
            return;
        }
        let Some(session) = &mut connection.active_mut().tls else { return };
        if is_http2 {
            let mut goaway = Vec::new();
            frames::append_goaway(&mut goaway, code);
            // A session that accepts no more content can still send close_notify.
            let _ = session.write(&goaway);
        }
        if let Some(words) = session.close() {
            self.close_notify.push((at, words));
        }
    }
}
