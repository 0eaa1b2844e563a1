//! TLS without sockets: a client session over the unbuffered interface of rustls.

mod client;
mod records;
mod tickets;
mod trust;

use std::fmt;
use std::sync::Arc;

use ldplayer_core::{Reason, RunTime};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, TransmitTlsData, UnbufferedStatus, WriteTraffic};
use rustls::{AlertDescription, CertificateError, ClientConfig, ContentType, Error, HandshakeKind, ProtocolVersion};

pub use self::client::{ALPN_DOT, ALPN_H2, Handshake, TlsClient, TlsError, TlsSettings};
use self::records::Records;
pub use self::tickets::Tickets;
pub use self::trust::TlsTrust;

/// Maximum overhead of a record, in octets (RFC 8446 §5.2).
const RECORD_OVERHEAD: usize = 5 + 256;
/// More than a record of TLS 1.2 with one octet of content has octets (RFC 5246 §6.2.3).
const SMALL_RECORD: usize = 40;
/// Maximum content of a record, in octets (RFC 8446 §5.1).
const RECORD: usize = 1 << 14;
/// The header of the record with EndOfEarlyData: encrypted, 21 octets: four of the message (RFC 8446 §4.5), one of
/// the content type and 16 of the tag. No other handshake message of a client is as short.
const END_OF_EARLY_DATA: [u8; 5] = [23, 3, 3, 0, 21];

/// The session of one connection. When idle, it buffers nothing.
pub struct Tls {
    /// The handshake; with TLS 1.2 the whole session.
    session: Option<Box<UnbufferedClientConnection>>,
    /// The established session.
    records: Option<Box<Records>>,
    /// Incomplete records.
    input: Vec<u8>,
    /// Records to be sent.
    output: Vec<u8>,
    /// When the handshake began.
    pub began: RunTime,
    /// Whether content may be sent.
    is_up: bool,
    /// Whether the peer has sent close_notify.
    has_ended: bool,
    is_resumed: bool,
    /// The protocol chosen by the peer (ALPN).
    protocol: Option<&'static [u8]>,
    early: Early,
    /// What came that is of no use, for [`crate::budget`].
    cost: u32,
}

/// The state of early data.
#[derive(Default)]
struct Early {
    /// It may be sent now.
    is_open: bool,
    /// Octets that may still be sent.
    room: usize,
    /// Whether the server accepted it.
    is_accepted: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("is_up", &self.is_up).field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl Tls {
    /// A session whose first message is ready to be sent.
    ///
    /// # Errors
    /// The configuration allows no handshake.
    pub fn start(
        config: &Arc<ClientConfig>,
        name: rustls::pki_types::ServerName<'static>,
        now: RunTime,
    ) -> Result<Self, Error> {
        let mut tls = Self {
            session: Some(Box::new(UnbufferedClientConnection::new(Arc::clone(config), name)?)),
            records: None,
            input: Vec::new(),
            output: Vec::new(),
            began: now,
            is_up: false,
            has_ended: false,
            is_resumed: false,
            protocol: None,
            early: Early::default(),
            cost: 0,
        };
        tls.advance(&[], &mut Vec::new())?;
        Ok(tls)
    }

    /// Handles received octets and appends their content to `content`.
    ///
    /// # Errors
    /// Why the session has ended. [`Self::take_output`] then returns the alert for the peer.
    pub fn read(&mut self, octets: &[u8], content: &mut Vec<u8>) -> Result<(), Error> {
        self.input.extend_from_slice(octets);
        let before = content.len();
        let is_counted = self.records.is_some();
        let result = match &mut self.records {
            Some(records) => {
                let result = records.read(&mut self.input, content, &mut self.output);
                result.map(|has_ended| self.has_ended |= has_ended)
            }
            None => self.advance(&[], content).and_then(|()| self.settle()),
        };
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        self.cost += match &mut self.records {
            Some(records) if is_counted => records.take_cost(),
            _ => octets.len().saturating_sub((content.len() - before) * SMALL_RECORD) as u32,
        };
        if result.is_err() && self.records.is_none() {
            // The alert is queued behind the error; if it cannot be encoded, nothing changes.
            let _ = self.advance(&[], &mut Vec::new());
        }
        result
    }

    /// What has come that is of no use, since the last call.
    pub const fn take_cost(&mut self) -> u32 {
        std::mem::replace(&mut self.cost, 0)
    }

    /// Encrypts `content` for [`Self::take_output`].
    ///
    /// # Errors
    /// The session may not send, yet or any more.
    pub fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        match &mut self.records {
            Some(records) => records.write(content, &mut self.output),
            None => self.advance(content, &mut Vec::new()),
        }
    }

    /// Allows this much early data, if the session supports it.
    pub const fn allow_early(&mut self, octets: usize) {
        self.early.room = octets;
    }

    /// Octets of content that [`Self::write_early`] accepts now.
    pub const fn early_room(&self) -> usize {
        if self.early.is_open { self.early.room } else { 0 }
    }

    /// Whether the server accepted early data; otherwise it is lost.
    pub const fn is_early_accepted(&self) -> bool {
        self.early.is_accepted
    }

    /// Encrypts `content` for [`Self::take_output`] as early data.
    ///
    /// # Errors
    /// It is longer than [`Self::early_room`], or the session may not send any more.
    pub fn write_early(&mut self, content: &[u8]) -> Result<(), Error> {
        if content.len() > self.early_room() {
            return Err(Error::HandshakeNotComplete);
        }
        self.early.room -= content.len();
        let session = self.session.as_mut().ok_or(Error::EncryptError)?;
        let UnbufferedStatus { discard, state } = session.process_tls_records(&mut self.input);
        let result = match state? {
            ConnectionState::TransmitTlsData(data) => encrypt_early(data, content, &mut self.output),
            _ => Err(Error::HandshakeNotComplete),
        };
        self.input.drain(..discard);
        result
    }

    /// Queues close_notify (RFC 8446 §6.1).
    pub fn close(&mut self) -> Option<Vec<u8>> {
        if let Some(records) = &mut self.records {
            records.close(&mut self.output);
            return Some(std::mem::take(&mut self.output));
        }
        let state = self.session.as_mut()?.process_tls_records(&mut self.input).state;
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return None };
        let output = &mut self.output;
        let queued = append(output, |room| match traffic.queue_close_notify(room) {
            Ok(count) => Ok(count),
            Err(EncryptError::InsufficientSize(error)) => Err(Some(error.required_size)),
            Err(EncryptError::EncryptExhausted) => Err(None),
        });
        queued.ok().map(|()| std::mem::take(output))
    }

    /// Appends the octets to send to `out`.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.output);
        self.output = Vec::new();
    }

    /// Whether there is something to be sent.
    pub const fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether the handshake is complete.
    pub const fn is_up(&self) -> bool {
        self.is_up
    }

    /// The protocol chosen by the peer (RFC 7301), if any.
    pub const fn protocol(&self) -> Option<&'static [u8]> {
        self.protocol
    }

    /// Whether the peer has closed its side.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the session was resumed.
    pub const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// After the handshake, drops what only handshakes need: some 1,100 octets. Partial input stays
    /// with the library, which may already have decrypted it.
    fn settle(&mut self) -> Result<(), Error> {
        let Some(session) = self.session.as_ref().filter(|_| self.is_up) else { return Ok(()) };
        let chosen = session.alpn_protocol();
        self.is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        self.protocol = [ALPN_DOT, ALPN_H2].into_iter().find(|protocol| chosen == Some(protocol));
        let is_done = self.input.is_empty() && session.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        if let Some(session) = self.session.take_if(|_| is_done) {
            self.records = Some(Box::new(Records::new(session.dangerous_into_kernel_connection()?)?));
        }
        Ok(())
    }

    /// A record as a server could send it on an established session, for fuzz targets and tests.
    pub fn forge(&mut self, kind: ContentType, content: &[u8]) -> Option<Vec<u8>> {
        self.records.as_mut()?.forge(kind, content).ok()
    }

    /// Advances the session as far as its input allows, and sends `content` when it is established.
    fn advance(&mut self, content: &[u8], received: &mut Vec<u8>) -> Result<(), Error> {
        let Self { session, input, output, is_up, has_ended, early, .. } = self;
        let session = session.as_mut().ok_or(Error::EncryptError)?;
        let mut content = Some(content).filter(|content| !content.is_empty());
        loop {
            let UnbufferedStatus { mut discard, state } = session.process_tls_records(input);
            let mut is_done = false;
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        received.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let begin = output.len();
                    append(output, |room| match data.encode(room) {
                        Ok(count) => Ok(count),
                        Err(EncodeError::InsufficientSize(error)) => Err(Some(error.required_size)),
                        Err(EncodeError::AlreadyEncoded) => Err(None),
                    })?;
                    early.is_accepted |= !*is_up && early.is_open && output[begin..].starts_with(&END_OF_EARLY_DATA);
                }
                ConnectionState::TransmitTlsData(mut data) => {
                    // Until it is finished, early data can be added to it.
                    early.is_open = data.may_encrypt_early_data().is_some();
                    is_done = early.is_open;
                    if !early.is_open {
                        data.done();
                    }
                }
                ConnectionState::WriteTraffic(mut traffic) => {
                    (*is_up, early.is_open) = (true, false);
                    is_done = true;
                    if let Some(content) = content.take() {
                        encrypt(&mut traffic, content, output)?;
                    }
                }
                ConnectionState::PeerClosed => *has_ended = true,
                _ => is_done = true,
            }
            input.drain(..discard);
            if is_done {
                return if content.is_none() { Ok(()) } else { Err(Error::HandshakeNotComplete) };
            }
        }
    }
}

fn encrypt<Data>(traffic: &mut WriteTraffic<'_, Data>, content: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
    let records = content.len() / RECORD + 1;
    output.reserve(content.len() + records * RECORD_OVERHEAD);
    append(output, |room| match traffic.encrypt(content, room) {
        Ok(count) => Ok(count),
        Err(EncryptError::InsufficientSize(error)) => Err(Some(error.required_size)),
        Err(EncryptError::EncryptExhausted) => Err(None),
    })
}

/// All room is provided at once: the library counts what it was asked to encrypt, even if it had no room.
fn encrypt_early(
    mut data: TransmitTlsData<'_, ClientConnectionData>,
    content: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut early = data.may_encrypt_early_data().ok_or(Error::HandshakeNotComplete)?;
    for part in content.chunks(RECORD) {
        let begin = output.len();
        output.resize(begin + part.len() + RECORD_OVERHEAD, 0);
        let count = early.encrypt(part, &mut output[begin..]);
        output.truncate(begin + count.as_ref().map_or(0, |&count| count));
        count.map_err(|_| Error::EncryptError)?;
    }
    Ok(())
}

/// Appends what `write` writes into the room it is given; it returns the length, or the room it needs, or an error.
fn append(output: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> Result<(), Error> {
    let start = output.len();
    let mut room = output.capacity() - start;
    loop {
        output.resize(start + room, 0);
        match write(&mut output[start..]) {
            Ok(count) => {
                output.truncate(start + count);
                return Ok(());
            }
            Err(Some(needed)) if needed > room => room = needed,
            Err(_) => {
                output.truncate(start);
                return Err(Error::EncryptError);
            }
        }
    }
}

/// The reason of a failed handshake, for rows.
pub fn reason(error: &Error) -> Reason {
    match error {
        Error::InvalidCertificate(error) => match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Reason::CertificateTime,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Reason::CertificateName
            }
            _ => Reason::CertificateUntrusted,
        },
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => Reason::Alpn,
        _ => Reason::Handshake,
    }
}
