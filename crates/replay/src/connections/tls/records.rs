//! Records of an established TLS 1.3 session: rustls' handshake state is dropped, its keys and tickets are kept.

use rustls::client::ClientConnectionData;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::kernel::KernelConnection;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, ExtractedSecrets, HandshakeType, InvalidMessage,
    PeerMisbehaved, ProtocolVersion, Tls13CipherSuite,
};

use super::RECORD;
use crate::budget::{ITEM, KEYS};

/// Octets before the content of a record (RFC 8446 §5.1).
const HEAD: usize = 5;
/// Octets of a record beside its content and padding: the header, the type of the content, and the tag (RFC 8446 §5.2).
const BESIDE: usize = HEAD + 1 + 16;
/// Octets of the content of an encrypted record at most (RFC 8446 §5.2).
const ENCRYPTED: usize = RECORD + 256;
/// Octets before the body of a handshake message (RFC 8446 §4).
const MESSAGE_HEAD: usize = 4;
/// The longest message that can come after a handshake: a ticket, with room for its content.
const MESSAGE: usize = 1 << 17;
/// The level of an alert that ends a session (RFC 8446 §6).
const FATAL: u8 = 2;
/// The level of a warning alert, also used for close_notify.
const WARNING: u8 = 1;
/// KeyUpdate that asks for one in return, and one that does not (RFC 8446 §4.6.3).
const UPDATE_REQUESTED: u8 = 1;
const UPDATE_NOT_REQUESTED: u8 = 0;

/// The two directions of a session.
pub struct Records {
    kernel: KernelConnection<ClientConnectionData>,
    sealer: Box<dyn MessageEncrypter>,
    /// Records sealed with the key.
    sealed: u64,
    opener: Box<dyn MessageDecrypter>,
    /// Records opened with the key.
    opened: u64,
    /// The part of a handshake message that has arrived.
    message: Vec<u8>,
    /// The peer has asked for a new key. However often it does, it gets one, before what is written next (RFC 8446 §4.6.3): so
    /// one that asks and reads nothing has no memory of ours.
    owes_key: bool,
    /// Our side has sent close_notify or an alert; nothing more may be sent.
    is_closed: bool,
    /// What came that is of no use, for [`crate::budget`].
    cost: u32,
}

impl Records {
    /// Carries on a session with its secrets.
    ///
    /// # Errors
    /// When it is not one of TLS 1.3.
    pub fn new((secrets, kernel): (ExtractedSecrets, KernelConnection<ClientConnectionData>)) -> Result<Self, Error> {
        let suite = suite(&kernel)?;
        let ((sealed, write), (opened, read)) = (secrets.tx, secrets.rx);
        let (sealer, opener) = (sealer(suite, write)?, opener(suite, read)?);
        Ok(Self {
            kernel,
            sealer,
            sealed,
            opener,
            opened,
            message: Vec::new(),
            owes_key: false,
            is_closed: false,
            cost: 0,
        })
    }

    /// Takes the whole records off `input`; appends their content to `content` and what is to be sent to `output`. Whether the
    /// peer has ended its side.
    ///
    /// # Errors
    /// Why the session is over; `output` has the alert for the peer.
    pub fn read(&mut self, input: &mut Vec<u8>, content: &mut Vec<u8>, output: &mut Vec<u8>) -> Result<bool, Error> {
        let mut done = 0;
        let mut result = Ok(false);
        while let Ok(false) = result
            && let Some(length) = whole_record(&input[done..])
        {
            result = match length {
                Ok(length) => {
                    let record = &mut input[done..done + length];
                    done += length;
                    self.open(record, content)
                }
                Err(error) => Err(error),
            };
        }
        input.drain(..done);
        if let Some(alert) = result.as_ref().err().and_then(alert_of) {
            self.tell(FATAL, alert, output);
        }
        result
    }

    /// What has come that is of no use, since the last call.
    pub const fn take_cost(&mut self) -> u32 {
        std::mem::replace(&mut self.cost, 0)
    }

    /// Appends `content` in records to `output`.
    ///
    /// # Errors
    /// When nothing may be sent any more.
    pub fn write(&mut self, content: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        for part in content.chunks(RECORD) {
            let limit = suite(&self.kernel)?.common.confidentiality_limit;
            if self.owes_key || self.sealed >= limit {
                self.update(output)?;
            }
            self.seal(ContentType::ApplicationData, part, output)?;
        }
        Ok(())
    }

    /// Appends to `output` that nothing more comes (RFC 8446 §6.1).
    pub fn close(&mut self, output: &mut Vec<u8>) {
        self.tell(WARNING, AlertDescription::CloseNotify, output);
    }

    fn tell(&mut self, level: u8, alert: AlertDescription, output: &mut Vec<u8>) {
        // One that cannot be encrypted cannot be sent, and nothing else can.
        let _ = self.seal(ContentType::Alert, &[level, alert.into()], output);
        self.is_closed = true;
    }

    fn open(&mut self, record: &mut [u8], content: &mut Vec<u8>) -> Result<bool, Error> {
        let (length, kind) = (record.len(), ContentType::from(record[0]));
        if kind != ContentType::ApplicationData {
            return Err(unexpected(kind));
        }
        let message = InboundOpaqueMessage::new(kind, ProtocolVersion::TLSv1_2, &mut record[HEAD..]);
        let plain = self.opener.decrypt(message, self.opened)?;
        self.opened += 1;
        self.cost += (length.saturating_sub(BESIDE + plain.payload.len())) as u32;
        if plain.typ != ContentType::ApplicationData || plain.payload.is_empty() {
            self.cost += ITEM + plain.payload.len() as u32;
        }
        match plain.typ {
            // RFC 8446 §5.4.
            ContentType::Alert | ContentType::Handshake if plain.payload.is_empty() => {
                return Err(unexpected(plain.typ));
            }
            ContentType::ApplicationData if self.message.is_empty() => content.extend_from_slice(plain.payload),
            ContentType::Alert => return take_alert(plain.payload),
            ContentType::Handshake => {
                self.message.extend_from_slice(plain.payload);
                self.take_messages()?;
            }
            kind => return Err(unexpected(kind)),
        }
        Ok(false)
    }

    /// Takes the handshake messages that are whole: tickets and new keys.
    fn take_messages(&mut self) -> Result<(), Error> {
        let mut messages = std::mem::take(&mut self.message);
        while let Some(&[kind, a, b, c]) = messages.first_chunk::<MESSAGE_HEAD>() {
            let end = MESSAGE_HEAD + u32::from_be_bytes([0, a, b, c]) as usize;
            if end > MESSAGE {
                return Err(InvalidMessage::HandshakePayloadTooLarge.into());
            }
            let Some(body) = messages.get(MESSAGE_HEAD..end) else { break };
            match HandshakeType::from(kind) {
                HandshakeType::NewSessionTicket => self.kernel.handle_new_session_ticket(body)?,
                // What follows a new key is encrypted with it.
                HandshakeType::KeyUpdate if messages.len() == end => self.take_key(body)?,
                HandshakeType::KeyUpdate => return Err(PeerMisbehaved::KeyEpochWithPendingFragment.into()),
                _ => return Err(unexpected(ContentType::Handshake)),
            }
            self.cost += KEYS;
            messages.drain(..end);
        }
        if !messages.is_empty() {
            self.message = messages;
        }
        Ok(())
    }

    /// The peer uses its next key from now on.
    fn take_key(&mut self, body: &[u8]) -> Result<(), Error> {
        match body {
            [UPDATE_REQUESTED] => self.owes_key = true,
            [UPDATE_NOT_REQUESTED] => {}
            _ => return Err(InvalidMessage::InvalidKeyUpdate.into()),
        }
        let (opened, secrets) = self.kernel.update_rx_secret()?;
        (self.opener, self.opened) = (opener(suite(&self.kernel)?, secrets)?, opened);
        Ok(())
    }

    /// Uses the next key to send from now on.
    fn update(&mut self, output: &mut Vec<u8>) -> Result<(), Error> {
        let message = [HandshakeType::KeyUpdate.into(), 0, 0, 1, UPDATE_NOT_REQUESTED];
        self.seal(ContentType::Handshake, &message, output)?;
        let (sealed, secrets) = self.kernel.update_tx_secret()?;
        (self.sealer, self.sealed) = (sealer(suite(&self.kernel)?, secrets)?, sealed);
        self.owes_key = false;
        Ok(())
    }

    /// A record that no real server makes, under a key that becomes the peer's: for fuzz targets and tests.
    ///
    /// # Errors
    /// The session is not TLS 1.3, or the record is too long.
    pub fn forge(&mut self, typ: ContentType, content: &[u8]) -> Result<Vec<u8>, Error> {
        let secret = || (AeadKey::from([7; 32]), Iv::from([7; 12]));
        let aead = suite(&self.kernel)?.aead_alg;
        (self.opener, self.opened) = (aead.decrypter(secret().0, secret().1), 0);
        let payload = OutboundChunks::Single(content);
        let plain = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_3, payload };
        aead.encrypter(secret().0, secret().1).encrypt(plain, 0).map(|record| record.encode())
    }

    fn seal(&mut self, typ: ContentType, content: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::EncryptError);
        }
        let plain =
            OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_3, payload: OutboundChunks::Single(content) };
        let record = self.sealer.encrypt(plain, self.sealed)?;
        self.sealed += 1;
        output.extend_from_slice(&record.encode());
        Ok(())
    }
}

/// The length of the record at the beginning of `input`, once it is complete; or why it is invalid.
fn whole_record(input: &[u8]) -> Option<Result<usize, Error>> {
    let &[_, _, _, high, low] = input.first_chunk::<HEAD>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > ENCRYPTED {
        return Some(Err(InvalidMessage::MessageTooLarge.into()));
    }
    (input.len() >= HEAD + length).then_some(Ok(HEAD + length))
}

/// Whether an alert says that the peer has ended its side.
fn take_alert(body: &[u8]) -> Result<bool, Error> {
    let &[_, description] = body else { return Err(InvalidMessage::MessageTooShort.into()) };
    match AlertDescription::from(description) {
        AlertDescription::CloseNotify => Ok(true),
        // Of no consequence: the end of the side follows (RFC 8446 §6.1).
        AlertDescription::UserCanceled => Ok(false),
        alert => Err(Error::AlertReceived(alert)),
    }
}

fn unexpected(got: ContentType) -> Error {
    Error::InappropriateMessage { expect_types: vec![ContentType::ApplicationData], got_type: got }
}

/// The alert sent to the peer for an error found on this side.
const fn alert_of(error: &Error) -> Option<AlertDescription> {
    Some(match error {
        Error::AlertReceived(_) => return None,
        Error::DecryptError => AlertDescription::BadRecordMac,
        Error::PeerSentOversizedRecord | Error::InvalidMessage(InvalidMessage::MessageTooLarge) => {
            AlertDescription::RecordOverflow
        }
        Error::InvalidMessage(_) => AlertDescription::DecodeError,
        Error::InappropriateMessage { .. } | Error::PeerMisbehaved(_) => AlertDescription::UnexpectedMessage,
        _ => AlertDescription::InternalError,
    })
}

fn suite(kernel: &KernelConnection<ClientConnectionData>) -> Result<&'static Tls13CipherSuite, Error> {
    kernel.negotiated_cipher_suite().tls13().ok_or(Error::HandshakeNotComplete)
}

fn sealer(suite: &Tls13CipherSuite, secrets: ConnectionTrafficSecrets) -> Result<Box<dyn MessageEncrypter>, Error> {
    let (key, iv) = parts(secrets)?;
    Ok(suite.aead_alg.encrypter(key, iv))
}

fn opener(suite: &Tls13CipherSuite, secrets: ConnectionTrafficSecrets) -> Result<Box<dyn MessageDecrypter>, Error> {
    let (key, iv) = parts(secrets)?;
    Ok(suite.aead_alg.decrypter(key, iv))
}

fn parts(secrets: ConnectionTrafficSecrets) -> Result<(AeadKey, Iv), Error> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        // The provider has no other suites.
        _ => Err(Error::EncryptError),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use ldplayer_core::RunTime;
    use rustls::ServerConnection;

    use super::*;
    use crate::connections::tests_tls::{server, settings};
    use crate::connections::tls::{ALPN_DOT, Handshake, Tls, TlsClient};

    /// A session that is up, and its server.
    struct Pair {
        tls: Tls,
        server: ServerConnection,
    }

    impl Pair {
        fn new() -> Self {
            let client = TlsClient::new(&settings(), ALPN_DOT).unwrap();
            let address = "198.51.100.1:853".parse().unwrap();
            let tls = client.start(None, address, RunTime(0), Handshake::Tls13).unwrap();
            let mut pair = Self { tls, server: ServerConnection::new(server("server.pem")).unwrap() };
            while !pair.tls.is_up() || pair.server.is_handshaking() {
                pair.serve();
                let records = pair.responses();
                pair.tls.read(&records, &mut Vec::new()).unwrap();
            }
            pair.serve();
            assert!(pair.tls.records.is_some() && pair.tls.session.is_none());
            pair
        }

        /// Carries what the client has to send; what the server reads of it.
        fn serve(&mut self) -> Vec<u8> {
            let (mut out, mut content) = (Vec::new(), Vec::new());
            self.tls.take_output(&mut out);
            let mut rest = out.as_slice();
            while !rest.is_empty() {
                self.server.read_tls(&mut rest).unwrap();
                self.server.process_new_packets().unwrap();
                // The end of what there is comes as an error.
                let _ = self.server.reader().read_to_end(&mut content);
            }
            content
        }

        fn responses(&mut self) -> Vec<u8> {
            let mut out = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut out).unwrap();
            }
            out
        }

        /// Content goes both ways.
        fn is_working(&mut self) -> bool {
            self.tls.write(b"there").unwrap();
            let there = self.serve();
            self.server.writer().write_all(b"back").unwrap();
            let (octets, mut back) = (self.responses(), Vec::new());
            self.tls.read(&octets, &mut back).unwrap();
            there == b"there" && back == b"back"
        }

        fn records(&mut self) -> &mut Records {
            self.tls.records.as_mut().unwrap()
        }

        fn forge(&mut self, kind: ContentType, content: &[u8]) -> Vec<u8> {
            self.tls.forge(kind, content).unwrap()
        }

        /// The alert that the server reads of what the client sends last.
        fn alert(&mut self) -> Option<AlertDescription> {
            let mut out = Vec::new();
            self.tls.take_output(&mut out);
            self.server.read_tls(&mut out.as_slice()).unwrap();
            match self.server.process_new_packets() {
                Err(Error::AlertReceived(alert)) => Some(alert),
                _ => None,
            }
        }
    }

    #[test]
    fn a_session_that_is_up_carries_content_in_pieces_of_any_size() {
        let mut pair = Pair::new();
        assert!(pair.is_working());
        let long: Vec<u8> = (0..40_000).map(|number| number as u8).collect();
        pair.tls.write(&long).unwrap();
        assert_eq!(pair.serve(), long);
        pair.server.writer().write_all(&long[..20_000]).unwrap();
        let (octets, mut content) = (pair.responses(), Vec::new());
        for piece in octets.chunks(7) {
            pair.tls.read(piece, &mut content).unwrap();
        }
        assert_eq!(content, &long[..20_000]);
        assert_eq!(pair.tls.input.capacity(), 0);
    }

    #[test]
    fn either_side_may_take_a_new_key() {
        let mut pair = Pair::new();
        for _ in 0..3 {
            pair.server.refresh_traffic_keys().unwrap();
            assert!(pair.is_working());
            let Tls { records, output, .. } = &mut pair.tls;
            records.as_mut().unwrap().update(output).unwrap();
            assert!(pair.is_working());
        }
    }

    #[test]
    fn a_key_is_answered_with_one_where_that_is_asked_for() {
        let mut pair = Pair::new();
        pair.tls.write(b"with the first key").unwrap();
        assert_eq!(pair.serve(), b"with the first key");
        pair.records().message = vec![24, 0, 0, 1, UPDATE_REQUESTED];
        pair.records().take_messages().unwrap();
        assert_eq!((pair.records().opened, pair.records().sealed > 0), (0, true));
        pair.tls.write(b"with the next key").unwrap();
        assert_eq!((pair.records().sealed, pair.serve().as_slice()), (1, &b"with the next key"[..]));
        pair.records().message = vec![24, 0, 0, 1, 2];
        assert!(pair.records().take_messages().is_err());
        pair.records().message = vec![24, 0, 0, 1, 0, 4];
        assert!(pair.records().take_messages().is_err());
    }

    #[test]
    fn a_peer_that_asks_for_many_keys_and_reads_nothing_is_owed_one() {
        let mut pair = Pair::new();
        for _ in 0..1_000 {
            pair.records().message = vec![24, 0, 0, 1, UPDATE_REQUESTED];
            pair.records().take_messages().unwrap();
        }
        assert_eq!(pair.tls.output.len(), 0);
        pair.tls.write(b"content").unwrap();
        pair.tls.write(b" and more").unwrap();
        let record = HEAD + 1 + 16;
        assert_eq!(pair.tls.output.len(), (record + 5) + (record + 7) + (record + 9), "one key, and the content");
        assert_eq!(pair.serve(), b"content and more");
    }

    #[test]
    fn a_handshake_record_or_an_alert_of_no_octets_ends_the_session() {
        for kind in [ContentType::Handshake, ContentType::Alert] {
            let mut pair = Pair::new();
            let octets = pair.forge(kind, &[]);
            assert!(pair.tls.read(&octets, &mut Vec::new()).is_err());
            assert_eq!(pair.alert(), Some(AlertDescription::UnexpectedMessage), "{kind:?}");
        }
        let mut pair = Pair::new();
        let octets = pair.forge(ContentType::ApplicationData, &[]);
        assert_eq!(pair.tls.read(&octets, &mut Vec::new()), Ok(()), "content may have none");
    }

    #[test]
    fn a_key_is_left_before_it_has_sealed_too_much() {
        let mut pair = Pair::new();
        let limit = suite(&pair.records().kernel).unwrap().common.confidentiality_limit;
        pair.records().sealed = limit;
        pair.tls.write(b"content").unwrap();
        assert_eq!(pair.records().sealed, 1);
    }

    #[test]
    fn an_octet_changed_ends_the_session() {
        let mut pair = Pair::new();
        pair.server.writer().write_all(b"back").unwrap();
        let mut octets = pair.responses();
        *octets.last_mut().unwrap() ^= 1;
        assert_eq!(pair.tls.read(&octets, &mut Vec::new()), Err(Error::DecryptError));
        assert_eq!(pair.alert(), Some(AlertDescription::BadRecordMac));
        assert!(pair.tls.write(b"more").is_err());
    }

    #[test]
    fn records_that_have_no_place_end_the_session() {
        let cases = [
            (&[22, 3, 3, 0, 1, 0][..], AlertDescription::UnexpectedMessage),
            (&[20, 3, 3, 0, 1, 1], AlertDescription::UnexpectedMessage),
            (&[23, 3, 3, 0x41, 1], AlertDescription::RecordOverflow),
            (&[23, 3, 3, 0, 0], AlertDescription::BadRecordMac),
        ];
        for (octets, alert) in cases {
            let mut pair = Pair::new();
            assert!(pair.tls.read(octets, &mut Vec::new()).is_err());
            assert_eq!(pair.alert(), Some(alert), "{octets:?}");
        }
        for message in [&[1, 0, 0, 0][..], &[4, 2, 0, 1], &[4, 0, 0, 1, 0]] {
            let mut pair = Pair::new();
            pair.records().message = message.to_vec();
            assert!(pair.records().take_messages().is_err(), "{message:?}");
        }
    }

    #[test]
    fn the_end_of_a_side_is_told_once_and_understood() {
        let mut pair = Pair::new();
        pair.server.send_close_notify();
        let octets = pair.responses();
        pair.tls.read(&octets, &mut Vec::new()).unwrap();
        assert!(pair.tls.has_ended());
        assert!(pair.tls.close().is_some_and(|words| !words.is_empty()));
        assert!(pair.tls.close().is_some_and(|words| words.is_empty()));
        let mut pair = Pair::new();
        let words = pair.tls.close().unwrap();
        pair.server.read_tls(&mut words.as_slice()).unwrap();
        assert!(pair.server.process_new_packets().unwrap().peer_has_closed());
    }
}
