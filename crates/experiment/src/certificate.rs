//! Server certificates of an experiment: one for each key type, made once by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use ldplayer_net::programs;
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;

/// The name in the certificate; reserved, so that no host has it (RFC 6761 §6.2).
pub(crate) const NAME: &str = "server.ldplayer.test";

/// A key type of a certificate, which determines the cost of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyKind {
    /// RSA with 2,048 bits.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
    /// RSA with 3,072 bits.
    #[serde(rename = "rsa-3072")]
    Rsa3072,
    /// RSA with 4,096 bits.
    #[serde(rename = "rsa-4096")]
    Rsa4096,
    /// ECDSA on the curve P-256, the most common.
    #[default]
    #[serde(rename = "p-256")]
    P256,
    /// ECDSA on the curve P-384.
    #[serde(rename = "p-384")]
    P384,
    /// Ed25519 (RFC 8410).
    #[serde(rename = "ed25519")]
    Ed25519,
}

/// An unknown key type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown key type `{0}`: use rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or ed25519")]
pub struct NoKeyKind(String);

impl KeyKind {
    const ALL: [Self; 6] = [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096, Self::P256, Self::P384, Self::Ed25519];

    /// The name in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-2048",
            Self::Rsa3072 => "rsa-3072",
            Self::Rsa4096 => "rsa-4096",
            Self::P256 => "p-256",
            Self::P384 => "p-384",
            Self::Ed25519 => "ed25519",
        }
    }

    /// The arguments of `openssl req`.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Rsa2048 => &["-newkey", "rsa:2048"],
            Self::Rsa3072 => &["-newkey", "rsa:3072"],
            Self::Rsa4096 => &["-newkey", "rsa:4096"],
            Self::P256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Self::P384 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
            Self::Ed25519 => &["-newkey", "ed25519"],
        }
    }
}

impl FromStr for KeyKind {
    type Err = NoKeyKind;

    fn from_str(word: &str) -> Result<Self, NoKeyKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| NoKeyKind(word.to_owned()))
    }
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// Makes a certificate in a folder of its key type below `folder`, unless it exists.
    pub fn make(folder: &Path, kind: KeyKind) -> Result<Self, ExperimentError> {
        let folder = folder.join(kind.as_str());
        let made = Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        if made.certificate.exists() && made.key.exists() {
            return Ok(made);
        }
        let failed = |what: String| ExperimentError::Certificate(what);
        fs::create_dir_all(&folder).map_err(|source| ExperimentError::Output { path: folder.clone(), source })?;
        let openssl = programs::find("openssl")
            .ok_or_else(|| failed("openssl is not installed: sudo apt-get install openssl".to_owned()))?;
        let mut command = Command::new(openssl);
        command.args(["req", "-x509", "-nodes", "-days", "3650"]).args(kind.options());
        command.args(["-subj", &format!("/CN={NAME}"), "-addext", &format!("subjectAltName=DNS:{NAME}")]);
        command.arg("-keyout").arg(&made.key).arg("-out").arg(&made.certificate).stdin(Stdio::null());
        let output = command.output().map_err(|error| failed(format!("openssl: {error}")))?;
        if output.status.success() {
            return Ok(made);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " | ");
        Err(failed(format!("openssl req failed ({}): {said}", output.status)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_keys_are_read_back_and_written_as_they_are_read() {
        for kind in KeyKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert!(
            "rsa-1024"
                .parse::<KeyKind>()
                .unwrap_err()
                .to_string()
                .starts_with("unknown key type `rsa-1024`: use rsa-2048")
        );
    }

    #[test]
    fn each_kind_has_a_certificate_of_its_own_which_openssl_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let written = ["rsaEncryption", "rsaEncryption", "rsaEncryption", "prime256v1", "secp384r1", "ED25519"];
        for (kind, written) in KeyKind::ALL.into_iter().zip(written) {
            let made = Certificate::make(folder.path(), kind).unwrap();
            let openssl = programs::find("openssl").unwrap();
            let shown = Command::new(openssl).args(["x509", "-noout", "-text", "-in"]).arg(&made.certificate).output();
            let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
            assert!(shown.contains(written) && shown.contains(NAME), "{kind:?}: {shown}");
            let bits = kind.as_str().strip_prefix("rsa-").map(|bits| format!("({bits} bit)"));
            assert!(bits.is_none_or(|bits| shown.contains(&bits)), "{kind:?}: {shown}");
            let before = fs::metadata(&made.key).unwrap().modified().unwrap();
            Certificate::make(folder.path(), kind).unwrap();
            assert_eq!(fs::metadata(&made.key).unwrap().modified().unwrap(), before, "it is made once");
        }
    }
}
