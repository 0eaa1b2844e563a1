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

/// Octets that a record adds to its content, at most (RFC 8446 §5.2).
const RECORD_OVERHEAD: usize = 5 + 256;
/// Octets of content in a record at most (RFC 8446 §5.1).
const RECORD: usize = 1 << 14;
/// The head of the record that EndOfEarlyData travels in: encrypted, 21 octets: four of the message (RFC 8446 §4.5), one of
/// the content's type and 16 of the tag. No other message of a client in a handshake is as short.
const END_OF_EARLY_DATA: [u8; 5] = [23, 3, 3, 0, 21];

/// The session of one connection. Idle, it holds no octets of either direction.
pub struct Tls {
    /// The handshake; with TLS 1.2 the session as a whole.
    session: Option<Box<UnbufferedClientConnection>>,
    /// The session once it is up.
    records: Option<Box<Records>>,
    /// Records that have not come whole.
    input: Vec<u8>,
    /// Records to be sent.
    output: Vec<u8>,
    /// When the handshake began.
    pub began: RunTime,
    /// Content may be sent.
    is_up: bool,
    /// The peer has said that it sends no more.
    has_ended: bool,
    is_resumed: bool,
    /// What the peer has chosen to speak.
    protocol: Option<&'static [u8]>,
    early: Early,
}

/// Where content stands that is sent before the handshake is through.
#[derive(Default)]
struct Early {
    /// It may be sent now.
    is_open: bool,
    /// Octets of it that may still be sent.
    room: usize,
    /// The server took it.
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
    /// When the configuration allows no handshake.
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
        };
        tls.advance(&[], &mut Vec::new())?;
        Ok(tls)
    }

    /// Takes octets that arrived and appends their content to `content`.
    ///
    /// # Errors
    /// Why the session is over. What [`Self::take_output`] gives then tells the peer.
    pub fn read(&mut self, octets: &[u8], content: &mut Vec<u8>) -> Result<(), Error> {
        self.input.extend_from_slice(octets);
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
        if result.is_err() && self.records.is_none() {
            // The alert is queued behind the error; that it cannot be encoded, too, changes nothing.
            let _ = self.advance(&[], &mut Vec::new());
        }
        result
    }

    /// Encrypts `content` for [`Self::take_output`].
    ///
    /// # Errors
    /// When the session may not send, or not any more.
    pub fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        match &mut self.records {
            Some(records) => records.write(content, &mut self.output),
            None => self.advance(content, &mut Vec::new()),
        }
    }

    /// Allows so many octets of content before the handshake is through, where the session does at all.
    pub const fn allow_early(&mut self, octets: usize) {
        self.early.room = octets;
    }

    /// Octets of content that [`Self::write_early`] takes now.
    pub const fn early_room(&self) -> usize {
        if self.early.is_open { self.early.room } else { 0 }
    }

    /// Whether the server took what was sent before the handshake was through; what it did not take is lost.
    pub const fn is_early_accepted(&self) -> bool {
        self.early.is_accepted
    }

    /// Encrypts `content` for [`Self::take_output`], to be read by the server before the handshake is through.
    ///
    /// # Errors
    /// When it is longer than [`Self::early_room`], or the session may not send any more.
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

    /// What tells the peer that nothing more comes (RFC 8446 §6.1).
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

    /// Appends what is to be sent to `out`.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.output);
        self.output = Vec::new();
    }

    /// Whether there is something to be sent.
    pub const fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether the handshake is through.
    pub const fn is_up(&self) -> bool {
        self.is_up
    }

    /// The protocol that the peer has chosen (RFC 7301), if it has.
    pub const fn protocol(&self) -> Option<&'static [u8]> {
        self.protocol
    }

    /// Whether the peer has ended its side.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the session is the continuation of an earlier one.
    pub const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Once the handshake is through, lets go of what only handshakes need: some 1,100 octets. What has come in part stays
    /// with the library, which may have decrypted it already.
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

    /// A record that a server could send, once the session is up, for fuzz targets and tests.
    pub fn forge(&mut self, kind: ContentType, content: &[u8]) -> Option<Vec<u8>> {
        self.records.as_mut()?.forge(kind, content).ok()
    }

    /// Carries the session on as far as its input goes, and sends `content` once it may.
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
                    // As long as it is not done, early data can be added to it.
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

/// The room is given at once: the library counts what it was asked to encrypt, whether it had room or not.
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

/// Appends what `write` writes into the room it is given; it says how much that was, or how much it needs, or that it cannot.
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

/// The reason of a failed handshake, as rows have it.
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
