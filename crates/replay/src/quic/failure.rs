//! Reasons for which the server or the network ends a connection.

use ldplayer_core::{Reason, RunTime, Status};
use quinn_proto::{ConnectionError, TransportErrorCode};

use super::{Quic, tls_of};
use crate::slab::Slot;
use crate::table::{End, Machine};

/// Error codes of TLS alerts (RFC 9001 §4.8) …
const ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
/// … of which this one says that there is no protocol in common (RFC 7301 §3.2) …
const NO_APPLICATION_PROTOCOL: u64 = 0x178;
/// … and the code of a server that takes no connection (RFC 9000 §20.1).
const CONNECTION_REFUSED: u64 = 0x2;

impl Quic {
    /// A connection is over, by the server's doing or the network's.
    pub(super) fn handle_lost(&mut self, at: Slot, now: RunTime, error: &ConnectionError) {
        let Some(connection) = self.table.connection(at) else { return };
        let failed = tls_of(&self.doq, &self.doh3, connection.transport).and_then(|tls| tls.check().failed);
        if !connection.is_open() {
            let (reason, status) = failure(error, failed);
            self.table.note_failed();
            return self.fail(at, reason, status);
        }
        let end = if is_in_order(error, connection.no_error()) { End::Closed } else { End::Reset };
        let reason = if end == End::Closed { Reason::ClosedByServer } else { Reason::ResetByServer };
        self.requeue_all(at, now, end, reason);
    }
}

/// Why a connection did not open; `certificate` is the fault of the server's certificate.
fn failure(error: &ConnectionError, certificate: Option<Reason>) -> (Reason, Status) {
    let of_code = |code: TransportErrorCode, otherwise: Reason| match u64::from(code) {
        NO_APPLICATION_PROTOCOL => (Reason::Alpn, Status::TlsFailed),
        code if ALERTS.contains(&code) => (Reason::Handshake, Status::TlsFailed),
        CONNECTION_REFUSED => (Reason::ConnectionRefused, Status::ConnectFailed),
        _ => (otherwise, Status::ConnectFailed),
    };
    match (error, certificate) {
        (_, Some(reason)) => (reason, Status::TlsFailed),
        (ConnectionError::TransportError(error), _) => of_code(error.code, Reason::Protocol),
        (ConnectionError::ConnectionClosed(close), _) => of_code(close.error_code, Reason::ClosedByServer),
        (ConnectionError::ApplicationClosed(_), _) => (Reason::ClosedByServer, Status::ConnectFailed),
        (ConnectionError::Reset, _) => (Reason::ResetByServer, Status::ConnectFailed),
        (ConnectionError::TimedOut, _) => (Reason::ConnectTimeout, Status::ConnectFailed),
        _ => (Reason::Handshake, Status::ConnectFailed),
    }
}

/// Whether the server ended a connection in order: with no error, or silently since it was idle for as long as it had said.
fn is_in_order(error: &ConnectionError, no_error: u32) -> bool {
    match error {
        ConnectionError::ApplicationClosed(close) => u64::from(close.error_code) == u64::from(no_error),
        ConnectionError::ConnectionClosed(close) => close.error_code == TransportErrorCode::NO_ERROR,
        ConnectionError::TimedOut => true,
        _ => false,
    }
}
