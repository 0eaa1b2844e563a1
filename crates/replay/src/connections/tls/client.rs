//! The TLS configuration shared by all clients of a worker.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ldplayer_core::RunTime;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Error, SupportedProtocolVersion, version};

use super::Tls;
use super::tickets::Tickets;
use super::trust::TlsTrust;
use crate::table::Key;

/// The protocol that clients of DNS over TLS offer (the registry of ALPN identifiers of RFC 7301).
pub const ALPN_DOT: &[u8] = b"dot";
/// The protocol that clients of DNS over HTTPS offer (RFC 9113 §3.2).
pub const ALPN_H2: &[u8] = b"h2";

/// How clients use TLS.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Whose certificates are accepted.
    pub trust: TlsTrust,
    /// The name that the server is asked for and that its certificate must have; `None` is the address asked.
    pub name: Option<ServerName<'static>>,
    /// Clients resume their own earlier sessions.
    pub resumption: bool,
}

/// What a handshake offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
    /// TLS 1.3, with content before the handshake is through.
    Tls13Early,
}

/// What is wrong with TLS settings.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates that cannot be read or has none.
    #[error("{}: {why}; give a PEM file of certificates", file.display())]
    Certificates {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No name.
    #[error("invalid server name `{0}`: give a domain name or an address")]
    Name(String),
}

impl TlsSettings {
    /// The server name of a word: a domain name or an address.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse_name(word: &str) -> Result<ServerName<'static>, TlsError> {
        ServerName::try_from(word.to_owned()).map_err(|_| TlsError::Name(word.to_owned()))
    }
}

/// What the sessions of a worker's clients are made from.
pub struct TlsClient {
    /// Of each [`Handshake`].
    configs: [Arc<ClientConfig>; 3],
    tickets: Arc<Tickets>,
    name: Option<ServerName<'static>>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// Clients that behave as `settings` say and offer `protocol`. They keep tickets for this protocol only.
    ///
    /// # Errors
    /// When the library supports no such handshake.
    pub fn new(settings: &TlsSettings, protocol: &[u8]) -> Result<Self, Error> {
        let tickets = Arc::new(Tickets::default());
        let resumption = match settings.resumption {
            true => Resumption::store(Arc::clone(&tickets) as _),
            false => Resumption::disabled(),
        };
        let config = |version| -> Result<ClientConfig, Error> {
            let mut config = config(&settings.trust, version)?;
            config.alpn_protocols = vec![protocol.to_vec()];
            config.resumption = resumption.clone();
            // So that a session that is up can do without what its handshake needed.
            config.enable_secret_extraction = true;
            Ok(config)
        };
        let (tls12, tls13) = (config(&version::TLS12)?, config(&version::TLS13)?);
        let mut early = tls13.clone();
        early.enable_early_data = true;
        Ok(Self { configs: [tls12, tls13, early].map(Arc::new), tickets, name: settings.name.clone() })
    }

    /// A session with `server`, for which the tickets under `key` are used; with `None` no session is resumed.
    ///
    /// # Errors
    /// When the configuration allows no handshake.
    pub fn start(
        &self,
        key: Option<Key>,
        server: SocketAddr,
        now: RunTime,
        handshake: Handshake,
    ) -> Result<Tls, Error> {
        self.set_key(key);
        let name = self.name.clone().unwrap_or_else(|| ServerName::from(server.ip()));
        let mut session = Tls::start(&self.configs[handshake as usize], name, now)?;
        session.allow_early(self.tickets.early());
        Ok(session)
    }

    /// The calls into sessions that follow are for this client and server; of `None` nothing is remembered.
    pub fn set_key(&self, key: Option<Key>) {
        self.tickets.set_key(key);
    }
}

/// A configuration for one version of TLS.
fn config(trust: &TlsTrust, version: &'static SupportedProtocolVersion) -> Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let verifier = trust.verifier(&provider).map_err(|error| Error::General(error.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version])?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}
