//! DNS over HTTP/3: shared settings, and the control streams of each connection.

use std::net::SocketAddr;

use bytes::Bytes;
use ldplayer_core::{Reason, RunTime, Transport};
use quinn_proto::{Dir, StreamId};

use super::http3::{self, Head};
use super::request::Request;
use super::tls::{QuicError, QuicTls};
use super::{Quic, doq};
use crate::connections::TlsSettings;
use crate::doh::{DohSettings, Requests};
use crate::slab::Slot;
use crate::table::Machine;

/// What all connections of a worker over HTTP/3 have in common.
#[derive(Debug)]
pub struct Doh3 {
    /// Their sessions, with tickets of their own.
    pub tls: QuicTls,
    requests: Requests<Head>,
}

impl Doh3 {
    /// Clients that ask as `settings` say.
    ///
    /// # Errors
    /// When the library supports no such handshake.
    pub fn new(tls: &TlsSettings, settings: &DohSettings, early_data: bool) -> Result<Self, QuicError> {
        let quic = QuicTls::new(tls, http3::ALPN, http3::UNI_STREAMS, early_data)?;
        Ok(Self { tls: quic, requests: Requests::new(settings, tls.name.as_ref()) })
    }

    /// The client's side of a stream: the request of a query to `server`, padded to a multiple of `block` octets, and the
    /// length of the message.
    pub fn compose(&mut self, server: SocketAddr, wire: &[u8], block: u16) -> (Bytes, u16) {
        let (head, message) = self.requests.prepare(server, wire, block, Head::new);
        (head.compose(message), message.len() as u16)
    }
}

impl Quic {
    /// Whether a query may be sent before the handshake is through: where it does no harm when somebody replays it.
    pub(super) fn may_be_early(&self, request: &Request) -> bool {
        let is_safe = || self.doh3.as_ref().is_some_and(|doh3| doh3.requests.settings.is_safe());
        doq::is_replayable(&request.wire) && (request.row.transport != Transport::Doh3 || is_safe())
    }

    /// Opens the client's control stream, once (RFC 9114 §6.2.1). A server has to admit this stream and what is on it (§6.2);
    /// one that does not gets requests all the same.
    pub(super) fn begin_http3(&mut self, at: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let Some(http3) = connection.own.http3.as_mut().filter(|http3| http3.control.is_none()) else { return };
        if let Some(id) = connection.own.session.streams().open(Dir::Uni) {
            http3.begin(id);
            self.write_control(at);
        }
    }

    /// Writes as much of the client's control stream as the server has room for.
    pub(super) fn write_control(&mut self, at: Slot) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let Some((id, rest)) = connection.own.http3.as_mut().and_then(|http3| http3.control.as_mut()) else { return };
        while !rest.is_empty()
            && let Ok(count) = connection.own.session.send_stream(*id).write(rest)
        {
            *rest = &rest[count..];
        }
    }

    /// Takes the streams that a server has opened.
    pub(super) fn accept_streams(&mut self, at: Slot, now: RunTime) {
        while let Some(id) =
            self.table.connection_mut(at).and_then(|connection| connection.own.session.streams().accept(Dir::Uni))
        {
            self.read_control(at, id, now);
        }
    }

    /// Takes the octets that arrived on a stream that the server opened.
    pub(super) fn read_control(&mut self, at: Slot, id: StreamId, now: RunTime) {
        let Some(connection) = self.table.connection_mut(at) else { return };
        let Some(http3) = &mut connection.own.http3 else { return };
        let mut content = Vec::new();
        let mut stream = connection.own.session.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let has_ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => content.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(error) => break error != quinn_proto::ReadError::Blocked,
            }
        };
        // The connection is looked after in any case.
        let _ = chunks.finalize();
        match http3.receive(id, &content, has_ended) {
            Ok(None) => {}
            Ok(Some(from)) => self.leave(at, now, from),
            Err(code) => self.abort(at, now, code),
        }
    }

    /// The server goes away: it answers no requests on streams from this one on, and the connection takes no new ones (RFC
    /// 9114 §5.2).
    fn leave(&mut self, at: Slot, now: RunTime, from: u64) {
        self.table.leave_idle(at);
        let Some(connection) = self.table.connection_mut(at) else { return };
        connection.own.is_leaving = true;
        let mut next = connection.first_written();
        while let Some(slot) = next {
            next = self.table.next(slot);
            if self.table.request(slot).is_some_and(|request| request.id >= Some(from)) {
                self.detach_written(at, slot);
                self.reassign(slot, now, Reason::ClosedByServer);
            }
        }
        while let Some(slot) = self.table.connection(at).and_then(|connection| connection.first_queued()) {
            self.table.detach_queued(at, slot);
            self.reassign(slot, now, Reason::ClosedByServer);
        }
        self.settle(at, now);
    }
}
