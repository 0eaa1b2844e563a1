//! The certificate of a server over TLS: read from files, or made for it.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The ending of the file that has the key, behind the name of the certificate's file.
const KEY: &str = "key";
/// Names in a certificate that is made: reserved ones, which no other host has (RFC 6761 §6.2, §6.3).
const NAMES: [&str; 2] = ["localhost", "server.ldplayer.test"];
/// The protocol of DNS over TLS, for clients that name one (RFC 7858 §3.1, IANA's registry).
const ALPN: &[u8] = b"dot";

/// Why a server has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read, written or used.
    #[error("{}: {problem}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No certificate can be made.
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    /// The certificate is of no use to TLS.
    #[error("the certificate cannot be used: {0}")]
    Use(#[from] rustls::Error),
}

/// A certificate with its key, both as PEM.
struct Pem {
    certificate: String,
    key: String,
}

/// The settings of TLS with the certificate of a file and the key of the file with `.key` behind its name. Where there is no such file, both are made
/// for these addresses and written; without a file, they stay in memory. Returns whether they were made.
///
/// # Errors
/// A file cannot be read or written, or has no certificate or key.
pub fn tls(file: Option<&Path>, addresses: &[IpAddr]) -> Result<(Arc<ServerConfig>, bool), IdentityError> {
    let (pem, is_made) = match file {
        Some(file) if file.exists() => (read(file)?, false),
        _ => (made(addresses)?, true),
    };
    if let (Some(file), true) = (file, is_made) {
        write(&key_file(file), &pem.key, 0o600)?;
        write(file, &pem.certificate, 0o644)?;
    }
    Ok((Arc::new(config(&pem, file)?), is_made))
}

fn key_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(KEY);
    name.into()
}

fn read(file: &Path) -> Result<Pem, IdentityError> {
    let text = |file: &Path| fs::read_to_string(file).map_err(|error| failed(file, &error));
    Ok(Pem { certificate: text(file)?, key: text(&key_file(file))? })
}

fn failed(file: &Path, problem: &dyn std::fmt::Display) -> IdentityError {
    IdentityError::File { file: file.to_owned(), problem: problem.to_string() }
}

fn write(file: &Path, text: &str, mode: u32) -> Result<(), IdentityError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written = opened.and_then(|mut out: fs::File| -> io::Result<()> { out.write_all(text.as_bytes()) });
    written.map_err(|error| failed(file, &error))
}

fn made(addresses: &[IpAddr]) -> Result<Pem, IdentityError> {
    let addresses = addresses.iter().filter(|address| !address.is_unspecified()).map(IpAddr::to_string);
    let names: Vec<String> = NAMES.map(str::to_owned).into_iter().chain(addresses).collect();
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
    Ok(Pem { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn config(pem: &Pem, file: Option<&Path>) -> Result<ServerConfig, IdentityError> {
    let file = file.unwrap_or(Path::new("--certificate"));
    let chain = CertificateDer::pem_slice_iter(pem.certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| failed(file, &error))?;
    if chain.is_empty() {
        return Err(failed(file, &"no certificate in it (PEM)"));
    }
    let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).map_err(|error| failed(&key_file(file), &error))?;
    let builder =
        ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.ticketer = Ticketer::new()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_then_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        assert!(tls(Some(&file), &["192.0.2.1".parse().unwrap()]).unwrap().1);
        let (before, key) = (fs::read(&file).unwrap(), fs::metadata(folder.path().join("ca.pem.key")).unwrap());
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);
        assert!(!tls(Some(&file), &[]).unwrap().1);
        assert_eq!(fs::read(&file).unwrap(), before);
        assert!(tls(None, &[]).unwrap().1);
    }

    #[test]
    fn what_is_no_certificate_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        fs::write(&file, "nothing").unwrap();
        let error = tls(Some(&file), &[]).unwrap_err().to_string();
        assert!(error.contains("ca.pem.key: No such file"), "{error}");
        fs::write(folder.path().join("ca.pem.key"), "nothing").unwrap();
        let error = tls(Some(&file), &[]).unwrap_err().to_string();
        assert!(error.ends_with("ca.pem: no certificate in it (PEM)"), "{error}");
        let error = tls(Some(&folder.path().join("no/such/ca.pem")), &[]).unwrap_err().to_string();
        assert!(error.contains("ca.pem.key: No such file"), "{error}");
    }
}
