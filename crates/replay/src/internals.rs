//! Internals exposed to fuzz targets and benches; not part of the interface, and subject to change at any commit.

use std::net::SocketAddr;

use ldplayer_core::RunTime;
use quinn_proto::{Dir, Side, StreamId};
use rustls::{ContentType, Error};

use crate::connections::tls::{ALPN_DOT, Handshake, Tls, TlsClient};
use crate::connections::{TlsSettings, TlsTrust};
use crate::quic::{doq, http3};

/// Clients of any server of TLS 1.3, which resume nothing.
pub struct TlsSessions(TlsClient);

impl TlsSessions {
    /// What all sessions have in common.
    ///
    /// # Errors
    /// When the library supports no such handshake.
    pub fn new() -> Result<Self, Error> {
        TlsClient::new(&TlsSettings { trust: TlsTrust::Anybody, name: None, resumption: false }, ALPN_DOT).map(Self)
    }

    /// A session whose first message is ready to be sent.
    ///
    /// # Errors
    /// When the library allows no handshake.
    pub fn start(&self) -> Result<TlsSession, Error> {
        self.0.start(None, SocketAddr::from(([192, 0, 2, 1], 853)), RunTime(0), Handshake::Tls13).map(TlsSession)
    }
}

/// The client's side of a session, over octets in memory.
pub struct TlsSession(Tls);

impl TlsSession {
    /// Takes octets that arrived and appends their content to `content`.
    ///
    /// # Errors
    /// Why the session is over.
    pub fn read(&mut self, octets: &[u8], content: &mut Vec<u8>) -> Result<(), Error> {
        self.0.read(octets, content)
    }

    /// Encrypts content for [`Self::take_output`].
    ///
    /// # Errors
    /// When the session may not send.
    pub fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        self.0.write(content)
    }

    /// Appends the octets to send to `out`.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        self.0.take_output(out);
    }

    /// Whether the handshake is through.
    pub const fn is_up(&self) -> bool {
        self.0.is_up()
    }

    /// A record that a server with the session's keys could send, with this type and content; `None` before the session is up.
    pub fn forge(&mut self, kind: u8, content: &[u8]) -> Option<Vec<u8>> {
        self.0.forge(ContentType::from(kind), content)
    }
}

/// The answer on a stream of DNS over QUIC, to the query `asked`; `None` where it breaks the protocol.
pub fn doq_answer<'a>(asked: &[u8], octets: &'a [u8]) -> Option<&'a [u8]> {
    doq::split(asked, octets).ok()
}

/// What goes on the stream of a query, padded to a multiple of `block` octets.
pub fn doq_query(wire: &[u8], block: u16) -> Vec<u8> {
    doq::compose(wire, block).0.to_vec()
}

/// The body of a response over HTTP/3, which arrives in pieces, or the fault in it.
///
/// # Errors
/// The code of the fault, and whether it ends the connection.
pub fn http3_response<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, (u32, bool)> {
    let (mut response, mut body) = (http3::Response::default(), Vec::new());
    let mut pieces = pieces.into_iter();
    pieces.try_for_each(|piece| response.receive(piece, &mut body)).and_then(|()| response.end()).map_err(|fault| {
        match fault {
            http3::Fault::Connection(code) => (code, true),
            http3::Fault::Stream(_, code) => (code, false),
        }
    })?;
    Ok(body)
}

/// Streams that a server of HTTP/3 opens: each piece with the number of its stream, and whether that ends with it. Returns the
/// stream from which on it takes no requests, as each piece says so.
///
/// # Errors
/// The code that ends the connection.
pub fn http3_control<'a>(pieces: impl IntoIterator<Item = (u64, &'a [u8], bool)>) -> Result<Vec<u64>, u32> {
    let mut http3 = http3::Http3::default();
    let mut told = Vec::new();
    for (number, octets, has_ended) in pieces {
        told.extend(http3.receive(StreamId::new(Side::Server, Dir::Uni, number), octets, has_ended)?);
    }
    Ok(told)
}
