//! The QUIC configuration shared by all clients of a worker: TLS, tickets, tokens, transport parameters.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use ldplayer_core::Reason;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionHandle, ConnectionIdGenerator, Endpoint, NoneTokenStore,
    RandomConnectionIdGenerator, TokenStore, TransportConfig, VarInt,
};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme, version};

use crate::connections::TlsSettings;
use crate::connections::tls::{Tickets, reason};
use crate::table::Key;

/// Octets of the ID that a client makes up for the server; it must have eight (RFC 9000 §7.2).
const INITIAL_ID: usize = 8;
/// Octets that a server may send on a stream before they are read: an answer, its framing, and more.
const STREAM_WINDOW: u32 = 1 << 17;
/// The same for all streams of a connection together.
const WINDOW: u32 = 4 << 20;
/// Octets of queries that a connection takes at once, beyond what any server admits.
const SEND_WINDOW: u64 = 64 << 20;

/// What is wrong with the settings of QUIC.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] Error),
    /// The certificates trusted cannot be used.
    #[error("trusted certificates: {0}")]
    Roots(#[from] rustls::client::VerifierBuilderError),
    /// The library of TLS has no cipher suite that QUIC begins with (RFC 9001 §5.2).
    #[error("{0}")]
    Cipher(#[from] quinn_proto::crypto::rustls::NoInitialCipherSuite),
}

/// What the connections of a worker's clients over one transport are made from.
pub struct QuicTls {
    config: ClientConfig,
    tickets: Arc<Tickets>,
    tokens: Arc<Tokens>,
    checks: Arc<Checks>,
    initial: Arc<Mutex<[u8; INITIAL_ID]>>,
    name: Option<String>,
}

impl fmt::Debug for QuicTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicTls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What became of the server's certificate in the calls since [`QuicTls::begin`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// It was shown: the handshake is a full one.
    pub was_made: bool,
    /// Why it was not accepted.
    pub failed: Option<Reason>,
}

impl QuicTls {
    /// Clients that behave as `settings` say, speak `alpn`, and let the server open `uni_streams` streams. They send early
    /// data where `early_data` says so and the server lets them. QUIC is always TLS 1.3 (RFC 9001 §4.2).
    ///
    /// # Errors
    /// When the library supports no such handshake.
    pub fn new(settings: &TlsSettings, alpn: &[u8], uni_streams: u32, early_data: bool) -> Result<Self, QuicError> {
        let provider = Arc::new(default_provider());
        let checks = Arc::new(Checks::default());
        let inner = settings.trust.verifier(&provider)?;
        let verifier = Arc::new(Noting { inner, checks: Arc::clone(&checks) });
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let (tickets, tokens) = (Arc::new(Tickets::default()), Arc::new(Tokens::default()));
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls.enable_early_data = early_data && settings.resumption;
        tls.resumption = match settings.resumption {
            true => Resumption::store(Arc::clone(&tickets) as _),
            false => Resumption::disabled(),
        };
        let initial = Arc::new(Mutex::new([0; INITIAL_ID]));
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(Arc::new(transport(uni_streams)));
        config.token_store(if settings.resumption { Arc::clone(&tokens) as _ } else { Arc::new(NoneTokenStore) });
        let last = Arc::clone(&initial);
        config.initial_dst_cid_provider(Arc::new(move || {
            let id = RandomConnectionIdGenerator::new(INITIAL_ID).generate_cid();
            lock(&last).copy_from_slice(&id);
            id
        }));
        let name = settings.name.as_ref().map(|name| name.to_str().into_owned());
        Ok(Self { config, tickets, tokens, checks, initial, name })
    }

    /// A connection of the client in `key` to its server, whose address is `server`, and the ID to which its first packets go.
    ///
    /// # Errors
    /// When the server's address or name allows none.
    pub fn connect(
        &self,
        endpoint: &mut Endpoint,
        now: Instant,
        key: Key,
        server: SocketAddr,
        resumption: bool,
    ) -> Result<(ConnectionHandle, Connection, u64), ConnectError> {
        self.begin(key, resumption);
        let of_address;
        let name = match &self.name {
            Some(name) => name,
            None => {
                of_address = server.ip().to_string();
                &of_address
            }
        };
        let (handle, connection) = endpoint.connect(now, self.config.clone(), server, name)?;
        Ok((handle, connection, u64::from_be_bytes(*lock(&self.initial))))
    }

    /// The calls into connections that follow are for this client and server; the client keeps tickets for resumption or does
    /// not.
    pub fn begin(&self, key: Key, resumption: bool) {
        let key = resumption.then_some(key);
        self.tickets.set_key(key);
        self.tokens.set_key(key);
        *lock(&self.checks.0) = Check::default();
    }

    /// What the calls since [`Self::begin`] saw of a certificate.
    pub fn check(&self) -> Check {
        *lock(&self.checks.0)
    }
}

// One thread uses what is locked; were it to panic inside, no more than a ticket or token would be wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parameters of connections that are many and carry little. The idle time is the server's to say and the client's to
/// keep: the policy closes connections that are idle for too long.
fn transport(uni_streams: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(uni_streams))
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(SEND_WINDOW)
        .send_fairness(false)
        .mtu_discovery_config(None)
        .datagram_receive_buffer_size(None)
        .datagram_send_buffer_size(0)
        .enable_segmentation_offload(false);
    transport
}

/// The address validation tokens of the clients (RFC 9000 §8.1.3), one for each server; no client uses another one's.
#[derive(Debug, Default)]
struct Tokens(Mutex<TokenMap>);

#[derive(Debug, Default)]
struct TokenMap {
    key: Option<Key>,
    tokens: HashMap<Key, Bytes, foldhash::fast::FixedState>,
}

impl Tokens {
    fn set_key(&self, key: Option<Key>) {
        lock(&self.0).key = key;
    }
}

// The key tells more than the server's name.
impl TokenStore for Tokens {
    fn insert(&self, _: &str, token: Bytes) {
        let mut kept = lock(&self.0);
        if let Some(key) = kept.key {
            kept.tokens.insert(key, token);
        }
    }

    fn take(&self, _: &str) -> Option<Bytes> {
        let mut kept = lock(&self.0);
        let key = kept.key?;
        kept.tokens.remove(&key)
    }
}

#[derive(Debug, Default)]
struct Checks(Mutex<Check>);

/// Notes that a certificate was shown and what is wrong with it: of both, QUIC hands on no more than the TLS alert, which is
/// the same for several faults.
#[derive(Debug)]
struct Noting {
    inner: Arc<dyn ServerCertVerifier>,
    checks: Arc<Checks>,
}

impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result = self.inner.verify_server_cert(certificate, chain, name, ocsp, now);
        *lock(&self.checks.0) = Check { was_made: true, failed: result.as_ref().err().map(reason) };
        result
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
