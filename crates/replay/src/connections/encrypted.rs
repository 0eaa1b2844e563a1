//! Connections over TLS: handshakes, and records in and out.

use ldplayer_core::{Reason, RunTime, Transport};

use super::connection::Connection;
use super::tls::{self, Handshake};
use super::{Connections, framing};
use crate::slab::Slot;
use crate::table::{End, Key, Machine, State};

impl Connections {
    pub(super) fn start_tls(&mut self, at: Slot, now: RunTime) {
        let resuming_key = self.resuming_key(at);
        self.table.begin_handshake(at, now);
        let Some(connection) = self.table.connection(at) else { return };
        let transport = connection.transport;
        let server = self.table.server(connection);
        let policy = self.table.policy(connection.class);
        let handshake = match (policy.is_tls12(), policy.early_data) {
            (true, _) => Handshake::Tls12,
            // DNS needs no greeting before messages, so that these can be sent with the first TLS message.
            (false, true) if transport == Transport::Dot => Handshake::Tls13Early,
            (false, _) => Handshake::Tls13,
        };
        let session = self.tls_of(transport).and_then(|tls| tls.start(resuming_key, server, now, handshake).ok());
        let Some(connection) = self.table.connection_mut(at) else { return };
        match session {
            Some(session) => {
                connection.active_mut().tls = Some(Box::new(session));
                self.call(at);
            }
            None => self.handle_failed(at, Reason::Handshake),
        }
    }

    /// The client and server of a connection, if the client remembers sessions for resumption.
    fn resuming_key(&self, at: Slot) -> Option<Key> {
        let connection = self.table.connection(at)?;
        self.table.policy(connection.class).resumption.then(|| self.table.key(connection))
    }

    /// Handles TLS records: the handshake, and the content of the stream.
    pub(super) fn handle_records(&mut self, at: Slot, now: RunTime, octets: &[u8]) {
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        let resuming_key = self.resuming_key(at);
        let Some(connection) = self.table.connection(at) else { return };
        let number = connection.number;
        if let Some(tls) = self.tls_of(connection.transport) {
            tls.set_key(resuming_key);
        }
        let Some(connection) = self.table.connection_mut(at) else { return };
        let Some(session) = &mut connection.active_mut().tls else { return };
        let result = session.read(octets, &mut content);
        let cost = session.take_cost();
        let (is_up, has_ended) = (session.is_up(), session.has_ended());
        if is_up && connection.state() == State::Handshaking {
            self.finish_handshake(at, now);
        }
        self.handle_content(at, now, &content);
        self.content = content;
        // The content may have ended the connection, and its slot may have been reused.
        if self.number(at) != Some(number) {
            return;
        }
        if result.is_ok() && self.charge(at, now, cost) {
            return;
        }
        self.call(at);
        match result {
            Err(error) if !is_up => self.handle_failed(at, tls::reason(&error)),
            Err(_) => self.handle_closed(at, now, End::Reset),
            Ok(()) if has_ended => self.handle_closed(at, now, End::Closed),
            Ok(()) => {}
        }
    }

    pub(super) fn finish_handshake(&mut self, at: Slot, now: RunTime) {
        let Some(session) = self.table.connection(at).and_then(Connection::tls) else {
            return;
        };
        let (took, is_resumed, is_early) = (now - session.began, session.is_resumed(), session.is_early_accepted());
        if !self.start_http2(at) {
            return self.handle_failed(at, Reason::Alpn);
        }
        self.table.note_opener(at, |row| row.handshake_ns = Some(took));
        self.table.note_resumed(is_resumed);
        self.settle_early(at, is_early);
        self.come_up(at, now);
    }

    pub(super) fn compose_tls(&mut self, at: Slot, now: RunTime, out: &mut Vec<u8>) {
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        let is_open = self.table.connection(at).is_some_and(Connection::is_open);
        if is_open {
            self.compose_queue(at, now, out.len(), &mut content);
        } else {
            self.compose_early(at, now, &mut content);
        }
        let written = self.table.connection_mut(at).and_then(|connection| {
            let has_records = connection.has_records();
            let session = connection.active_mut().tls.as_mut()?;
            let mut rest = content.as_slice();
            let mut pieces = std::iter::from_fn(|| if has_records { take_one(&mut rest) } else { take_all(&mut rest) });
            let written = pieces.try_for_each(|piece| match is_open {
                true => session.write(piece),
                false => session.write_early(piece),
            });
            session.take_output(out);
            Some(written)
        });
        self.content = content;
        if written.is_some_and(|written| written.is_err()) {
            self.handle_closed(at, now, End::Reset);
        }
    }
}

/// The next message with its length, for a record of its own, as stubs write it (RFC 7858 §3.3 prescribes length-prefixed
/// messages but not records). Servers that ask OpenSSL for one message and then wait for the socket leave a second one in the same record
/// unread until more arrives: NSD 4.6.1 and dnsdist 1.7.3 do.
fn take_one<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let begin = *rest;
    match framing::split(rest) {
        Some(_) => Some(&begin[..begin.len() - rest.len()]),
        None => take_all(rest),
    }
}

/// Everything that is left.
fn take_all<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    Some(std::mem::take(rest)).filter(|rest| !rest.is_empty())
}
