//! Certificate verification: accepts certificates that chain to a trusted one, or are trusted themselves.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::TlsError;

/// Whose certificates are accepted.
#[derive(Clone, Debug)]
pub enum TlsTrust {
    /// Those that lead to one of these, and these themselves.
    Certificates(Arc<Certificates>),
    /// Any, unchecked.
    Anybody,
}

/// Certificates that are trusted.
#[derive(Debug)]
pub struct Certificates {
    anchors: Arc<RootCertStore>,
    whole: Vec<CertificateDer<'static>>,
}

impl TlsTrust {
    /// Trust in the certificates of a PEM file.
    ///
    /// # Errors
    /// When the file cannot be read, or has no certificate.
    pub fn from_file(file: &Path) -> Result<Self, TlsError> {
        let failed = |why: String| TlsError::Certificates { file: file.to_owned(), why };
        let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
        let (mut anchors, mut whole) = (RootCertStore::empty(), Vec::new());
        for certificate in certificates {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            anchors.add(certificate.clone()).map_err(|error| failed(error.to_string()))?;
            whole.push(certificate);
        }
        if anchors.is_empty() {
            return Err(failed("the file has no certificate".to_owned()));
        }
        Ok(Self::Certificates(Arc::new(Certificates { anchors: Arc::new(anchors), whole })))
    }

    /// What checks the certificates of servers.
    ///
    /// # Errors
    /// When the library cannot use the trusted certificates.
    pub fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError> {
        match self {
            Self::Certificates(trusted) => {
                let anchors = Arc::clone(&trusted.anchors);
                let chain = WebPkiServerVerifier::builder_with_provider(anchors, Arc::clone(provider)).build()?;
                Ok(Arc::new(Pinning { chain, trusted: Arc::clone(trusted) }))
            }
            Self::Anybody => Ok(Arc::new(Unchecked(Arc::clone(provider)))),
        }
    }
}

/// Accepts certificates that lead to a trusted one, and those that are among the trusted ones themselves: `openssl req -x509`
/// makes certificates that say that they are a CA's, with which no server may show itself otherwise (RFC 5280 §4.2.1.9).
#[derive(Debug)]
struct Pinning {
    chain: Arc<WebPkiServerVerifier>,
    trusted: Arc<Certificates>,
}

impl ServerCertVerifier for Pinning {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result = self.chain.verify_server_cert(certificate, chain, name, ocsp, now);
        if result.is_ok() || !self.trusted.whole.iter().any(|trusted| trusted == certificate) {
            return result;
        }
        let result = match result {
            // The library has already checked the validity period: an expired certificate has its own error.
            Err(Error::InvalidCertificate(error)) if is_about_issuer(&error) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
            }
            other => other.map(|_| ()),
        };
        match result {
            Err(Error::InvalidCertificate(error)) if has_no_name(&error) => {}
            other => other?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Whether nothing is wrong with a certificate but who has issued it, and for what.
fn is_about_issuer(error: &CertificateError) -> bool {
    match error {
        CertificateError::UnknownIssuer => true,
        CertificateError::Other(error) => {
            matches!(error.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

/// Whether a certificate is for no name, rather than for other ones. One that is trusted as it is needs none.
fn has_no_name(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty())
}

/// Accepts any certificate, and spends no time on it.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ldplayer_core::Reason;
    use rustls::crypto::ring::default_provider;

    use super::super::reason;
    use super::*;
    use crate::connections::tests_tls::data;

    /// Seconds of 2026, in which the certificates of the tests are valid.
    const NOW: u64 = 1_780_000_000;

    /// What becomes of a server that shows a certificate to a client that trusts those in a file.
    fn shown(certificate: &str, trusted: &str, name: &str, now: u64) -> Result<(), Reason> {
        let verifier = TlsTrust::from_file(&data(trusted)).unwrap().verifier(&Arc::new(default_provider())).unwrap();
        let certificate = CertificateDer::from_pem_file(data(certificate)).unwrap();
        let (name, now) = (ServerName::try_from(name).unwrap(), UnixTime::since_unix_epoch(Duration::from_secs(now)));
        verifier.verify_server_cert(&certificate, &[], &name, &[], now).map(|_| ()).map_err(|error| reason(&error))
    }

    #[test]
    fn a_certificate_that_is_trusted_itself_is_accepted_in_its_time_and_for_its_names() {
        // A CA's, which is for no name; one that another one has signed; one that has signed itself.
        assert_eq!(shown("ca.pem", "ca.pem", "dns.test", NOW), Ok(()));
        for certificate in ["server.pem", "stranger.pem"] {
            assert_eq!(shown(certificate, certificate, "dns.test", NOW), Ok(()), "{certificate}");
            assert_eq!(shown(certificate, certificate, "other.test", NOW), Err(Reason::CertificateName));
            assert_eq!(shown(certificate, certificate, "192.0.2.1", NOW), Err(Reason::CertificateName));
        }
        // They are valid from 2000 to 2100.
        for certificate in ["ca.pem", "server.pem", "stranger.pem"] {
            for now in [900_000_000, 4_200_000_000] {
                assert_eq!(
                    shown(certificate, certificate, "dns.test", now),
                    Err(Reason::CertificateTime),
                    "{certificate}"
                );
            }
        }
        assert_eq!(shown("expired.pem", "expired.pem", "dns.test", NOW), Err(Reason::CertificateTime));
    }

    #[test]
    fn what_is_not_trusted_is_not_accepted_for_being_a_ca_or_for_having_signed_itself() {
        assert_eq!(shown("server.pem", "ca.pem", "dns.test", NOW), Ok(()));
        for (certificate, trusted) in
            [("stranger.pem", "ca.pem"), ("ca.pem", "stranger.pem"), ("server.pem", "stranger.pem")]
        {
            assert_eq!(
                shown(certificate, trusted, "dns.test", NOW),
                Err(Reason::CertificateUntrusted),
                "{certificate}"
            );
        }
    }
}
