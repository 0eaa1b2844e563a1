//! Connections whose stream is inside TLS: handshakes, records in and out.

use ldplayer_core::{Reason, RunTime};

use super::connection::{Connection, State};
use super::{Connections, End, tls};
use crate::slab::Slot;

impl Connections {
    pub(super) fn start_tls(&mut self, at: Slot, now: RunTime) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.state = State::Handshaking;
        let (client, transport) = (connection.client, connection.transport);
        let server = self.servers[usize::from(connection.server)];
        let session = self.tls_of(transport).and_then(|tls| tls.start(client, server, now).ok());
        let Some(connection) = self.connections.get_mut(at) else { return };
        match session {
            Some(session) => {
                connection.tls = Some(Box::new(session));
                self.call(at);
            }
            None => self.handle_failed(at, Reason::Handshake),
        }
    }

    /// Takes TLS records: the handshake, and the content of the stream.
    pub(super) fn handle_records(&mut self, at: Slot, now: RunTime, octets: &[u8]) {
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        let Some(connection) = self.connections.get(at) else { return };
        let number = connection.number;
        if let Some(tls) = self.tls_of(connection.transport) {
            tls.set_client(connection.client);
        }
        let Some(connection) = self.connections.get_mut(at) else { return };
        let Some(session) = &mut connection.tls else { return };
        let result = session.read(octets, &mut content);
        let (is_up, has_ended) = (session.is_up(), session.has_ended());
        if is_up && connection.state == State::Handshaking {
            self.finish_handshake(at, now);
        }
        self.handle_content(at, now, &content);
        self.content = content;
        // The content may have ended the connection, and its slot may have a new one.
        if self.number(at) != Some(number) {
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
        let Some(session) = self.connections.get(at).and_then(|connection| connection.tls.as_ref()) else { return };
        let (took, is_resumed) = (now - session.began, session.is_resumed());
        if !self.start_http2(at) {
            return self.handle_failed(at, Reason::Alpn);
        }
        if let Some(opener) = self.opener(at) {
            opener.row.handshake_ns = Some(took);
        }
        self.connection_counts.resumed += u64::from(is_resumed);
        self.come_up(at, now);
    }

    pub(super) fn compose_tls(&mut self, at: Slot, now: RunTime, out: &mut Vec<u8>) {
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        if self.connections.get(at).is_some_and(Connection::is_open) {
            self.compose_queue(at, now, &mut content);
        }
        let session = self.connections.get_mut(at).and_then(|connection| connection.tls.as_mut());
        let written = session.map(|session| {
            let written = if content.is_empty() { Ok(()) } else { session.write(&content) };
            session.take_output(out);
            written
        });
        self.content = content;
        if written.is_some_and(|written| written.is_err()) {
            self.handle_closed(at, now, End::Reset);
        }
    }
}
