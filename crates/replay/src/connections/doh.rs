//! Connections whose stream is HTTP/2: requests out, responses in, and what becomes of queries whose stream ends otherwise.

use std::net::SocketAddr;

use ldplayer_core::{Message, Reason, RunTime, Status, Transport};
use rustls::pki_types::ServerName;

use super::connection::Connection;
use super::http2::{DohSettings, ErrorCode, Event, Head, Http2, STREAMS, STREAMS_AT_ONCE, frames};
use super::tls::{ALPN_H2, TlsClient};
use super::{Connections, TlsSettings};
use crate::life::{End, Stage};
use crate::matching::repeats_question;
use crate::padding;
use crate::slab::Slot;

/// What all connections of a worker over HTTPS have in common.
#[derive(Debug)]
pub struct Doh {
    /// Their sessions, with tickets of their own.
    pub tls: TlsClient,
    settings: DohSettings,
    /// The name that the server is asked for.
    name: Option<String>,
    /// The requests to each of the servers known.
    heads: Vec<(SocketAddr, Head)>,
    /// Streams at once that the server allowed last; what is expected of a connection that has not come up.
    most: u32,
    /// A message, for the time of a call.
    padded: Vec<u8>,
}

impl Doh {
    /// Clients that ask as `settings` say.
    ///
    /// # Errors
    /// When the library supports no such handshake.
    pub fn new(tls: &TlsSettings, settings: &DohSettings) -> Result<Self, rustls::Error> {
        let name = tls.name.as_ref().map(|name| match name {
            ServerName::IpAddress(address) => match std::net::IpAddr::from(*address) {
                std::net::IpAddr::V4(v4) => v4.to_string(),
                std::net::IpAddr::V6(v6) => format!("[{v6}]"),
            },
            name => name.to_str().into_owned(),
        });
        Ok(Self {
            tls: TlsClient::new(tls, ALPN_H2)?,
            settings: settings.clone(),
            name,
            heads: Vec::new(),
            most: STREAMS_AT_ONCE,
            padded: Vec::new(),
        })
    }

    fn head(&mut self, server: SocketAddr) -> &Head {
        let known = self.heads.iter().position(|(known, _)| *known == server);
        let place = known.unwrap_or_else(|| {
            self.heads.push((server, Head::new(&self.settings, self.name.as_deref(), server)));
            self.heads.len() - 1
        });
        &self.heads[place].1
    }
}

impl Connections {
    /// The same machine, for queries over HTTPS, too.
    pub fn with_doh(self, doh: Option<Doh>) -> Self {
        Self { doh, ..self }
    }

    /// What sessions of a transport are made from.
    pub(super) fn tls_of(&self, transport: Transport) -> Option<&TlsClient> {
        if transport == Transport::Doh2 { self.doh.as_ref().map(|doh| &doh.tls) } else { self.tls.as_ref() }
    }

    /// Whether a connection may have one more stream, where it has streams.
    pub(super) fn has_stream(&self, connection: &Connection) -> bool {
        match (&connection.own.http2, &self.doh) {
            (Some(http2), _) => http2.room() > connection.queue.len(),
            (None, Some(doh)) if connection.transport == Transport::Doh2 => connection.queue.len() < doh.most as usize,
            _ => true,
        }
    }

    /// Queries after which a connection is used no more.
    pub(super) fn queries_most(&self, connection: &Connection) -> u32 {
        let most = self.policy(connection.class).queries_per_connection;
        if connection.transport == Transport::Doh2 { most.min(STREAMS) } else { most }
    }

    /// Begins HTTP/2 on a connection whose handshake is through, where it is to be spoken. Whether the server speaks it.
    pub(super) fn start_http2(&mut self, at: Slot) -> bool {
        let Some(connection) = self.connections.get_mut(at) else { return false };
        if connection.transport != Transport::Doh2 {
            return true;
        }
        let is_agreed = connection.own.tls.as_ref().is_some_and(|session| session.protocol() == Some(ALPN_H2));
        if let (true, Some(doh)) = (is_agreed, &self.doh) {
            connection.own.http2 = Some(Box::new(Http2::new(doh.most)));
        }
        is_agreed
    }

    /// Appends the request of a query that is queued and returns its stream, and the length of the message.
    pub(super) fn compose_request(&mut self, at: Slot, slot: Slot, out: &mut Vec<u8>) -> Option<(u64, u16)> {
        let connection = self.connections.get_mut(at)?;
        let server = *self.servers.get(usize::from(connection.own.server))?;
        let http2 = connection.own.http2.as_mut()?;
        let doh = self.doh.as_mut()?;
        let mut message = std::mem::take(&mut doh.padded);
        message.clear();
        padding::append(&mut message, &self.requests.get(slot)?.wire, self.config.policy.padding);
        let stream = http2.open(doh.head(server), &message, out);
        let length = message.len() as u16;
        doh.padded = message;
        Some((u64::from(stream), length))
    }

    /// Takes octets of the stream of frames.
    pub(super) fn handle_frames(&mut self, at: Slot, number: u64, now: RunTime, octets: &[u8]) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let mut kept = connection.take_input();
        kept.extend_from_slice(if kept.is_empty() { &[] } else { octets });
        let mut rest = if kept.is_empty() { octets } else { kept.as_slice() };
        loop {
            let Some(http2) = self.connections.get_mut(at).and_then(|connection| connection.own.http2.as_mut()) else {
                return;
            };
            let event = match frames::split(&mut rest) {
                Ok(None) => break,
                Ok(Some(frame)) => http2.receive(&frame),
                Err(code) => Err(code),
            };
            match event {
                Ok(event) => self.handle_event(at, number, now, event),
                Err(code) => return self.break_off(at, now, code),
            }
        }
        let done = kept.len() - if kept.is_empty() { 0 } else { rest.len() };
        let kept = if kept.is_empty() { rest.to_vec() } else { kept.split_off(done) };
        if let Some(connection) = self.connections.get_mut(at) {
            connection.keep_input(kept);
        }
        self.settle(at, now);
    }

    fn handle_event(&mut self, at: Slot, number: u64, now: RunTime, event: Event<'_>) {
        match event {
            Event::Nothing => {}
            Event::Settings => self.respread(at, now),
            Event::Leaving { last } => self.leave(at, now, last),
            Event::Response { stream, status, body } => {
                let Some(&slot) = self.by_id.get(&(number, u64::from(stream))) else { return };
                match self.check(slot, status, &body) {
                    Ok(message) => self.answer(slot, now, &message),
                    Err(reason) => self.fail_stream(slot, reason),
                }
            }
            Event::Malformed { stream } => {
                self.by_id.get(&(number, u64::from(stream))).copied().into_iter().for_each(|slot| {
                    self.fail_stream(slot, Reason::Garbage);
                });
            }
            Event::Reset { stream, is_refused } => {
                let Some(&slot) = self.by_id.get(&(number, u64::from(stream))) else { return };
                match self.requests.get(slot) {
                    Some(request) if is_refused && request.stage == Stage::Outstanding => {
                        self.take_back(at, slot);
                        self.adopt(slot, now, Reason::StreamReset);
                    }
                    _ => self.fail_stream(slot, Reason::StreamReset),
                }
            }
        }
    }

    /// The answer in a response, or why there is none. Streams tell which query is answered, so that its ID tells nothing.
    fn check<'a>(&self, slot: Slot, status: u16, body: &'a [u8]) -> Result<Message<'a>, Reason> {
        if status != 200 {
            return Err(Reason::HttpStatus);
        }
        let message = Message::new(body).filter(Message::is_response).ok_or(Reason::Garbage)?;
        let asked = self.requests.get(slot).ok_or(Reason::Garbage)?;
        if repeats_question(&asked.wire, &message) { Ok(message) } else { Err(Reason::QuestionMismatch) }
    }

    /// Ends a query whose stream has ended without an answer. One that has timed out has its row already.
    fn fail_stream(&mut self, slot: Slot, reason: Reason) {
        let Some(request) = self.release(slot) else { return };
        if request.stage != Stage::Lingering {
            self.finish(request.end(Status::Reset, Some(reason)));
        }
    }

    /// Takes a request that was written off the list of its connection.
    fn take_back(&mut self, at: Slot, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(at) {
            self.requests.unlink(&mut connection.outstanding, slot);
        }
    }

    /// Queries that a connection cannot have streams for, by what the server allows, go on other ones. The first stays, since
    /// a server that allows none may still change its mind.
    fn respread(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(http2) = &connection.own.http2 else { return };
        let kept = http2.room().max(1);
        if let Some(doh) = &mut self.doh {
            doh.most = http2.most().max(1);
        }
        if connection.queue.len() <= kept {
            return;
        }
        let mut next = connection.queue.first();
        for _ in 0..kept {
            next = next.and_then(|slot| self.requests.next::<1>(slot));
        }
        while let Some(slot) = next {
            next = self.requests.next::<1>(slot);
            let Some(connection) = self.connections.get_mut(at) else { return };
            connection.taken -= 1;
            self.requests.unlink(&mut connection.queue, slot);
            self.assign(now, slot);
        }
    }

    /// The server takes no more streams on a connection: what it has not looked at is sent again on another one, once.
    fn leave(&mut self, at: Slot, now: RunTime, last: u32) {
        self.leave_idle(at);
        let Some(connection) = self.connections.get(at) else { return };
        let mut next = connection.outstanding.first();
        while let Some(slot) = next {
            next = self.requests.next::<1>(slot);
            if self.requests.get(slot).is_some_and(|request| request.id > Some(u64::from(last))) {
                self.take_back(at, slot);
                self.adopt(slot, now, Reason::ClosedByServer);
            }
        }
        while let Some(connection) = self.connections.get_mut(at)
            && let Some(slot) = connection.queue.first()
        {
            self.requests.unlink(&mut connection.queue, slot);
            self.adopt(slot, now, Reason::ClosedByServer);
        }
    }

    /// Ends a connection whose server broke the protocol, and tells it so.
    fn break_off(&mut self, at: Slot, now: RunTime, code: ErrorCode) {
        self.say_farewell(at, code);
        self.orphan(at, now, End::Reset, Reason::Protocol);
    }

    /// Leaves the worker what the server is to be told before a connection is closed.
    pub(super) fn say_farewell(&mut self, at: Slot, code: ErrorCode) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(session) = &mut connection.own.tls else { return };
        if connection.own.http2.is_some() {
            let mut goaway = Vec::new();
            frames::append_goaway(&mut goaway, code);
            // A session that takes no more content says its own farewell still.
            let _ = session.write(&goaway);
        }
        if let Some(words) = session.close() {
            self.last_words.push((at, words));
        }
    }

    /// Forgets a query that has timed out long ago, and lets the server do so.
    pub(super) fn give_up(&mut self, slot: Slot) {
        let Some(request) = self.release(slot) else { return };
        let at = request.connection;
        let connection = self.connections.get_mut(at).filter(|it| Some(it.number) == request.row.connection);
        let http2 = connection.and_then(|connection| connection.own.http2.as_mut());
        if http2.is_some_and(|http2| request.id.is_some_and(|stream| http2.cancel(stream as u32))) {
            self.call(at);
        }
    }
}
