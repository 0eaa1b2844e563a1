//! The certificate that servers of an experiment show, made once for it by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ldplayer_net::programs;

use crate::error::ExperimentError;

/// The name in it, which no host has (RFC 6761 §6.2).
pub(crate) const NAME: &str = "server.ldplayer.test";

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one in the folder, unless it is there already. Its key is on P-256, as those of most servers are.
    pub fn make(folder: &Path) -> Result<Self, ExperimentError> {
        let made = Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        if made.certificate.exists() && made.key.exists() {
            return Ok(made);
        }
        let failed = |what: String| ExperimentError::Certificate(what);
        fs::create_dir_all(folder).map_err(|source| ExperimentError::Output { path: folder.to_owned(), source })?;
        let openssl = programs::find("openssl")
            .ok_or_else(|| failed("openssl is not installed: sudo apt-get install openssl".to_owned()))?;
        let mut command = Command::new(openssl);
        command.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "3650",
        ]);
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
