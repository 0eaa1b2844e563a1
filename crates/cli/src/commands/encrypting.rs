//! Options for serving over TLS, and the certificate for it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ldplayer_core::cidr::canonical;
use ldplayer_emulate::serve::{Tls, identity};

use crate::failure::Failure;

/// The port of DNS over TLS (RFC 7858 §3.1).
const PORT: u16 = 853;

/// Options of commands that serve a zone set.
#[derive(clap::Args)]
pub struct Encrypting {
    /// Serve over TLS, too, at this address; port 853 unless it has another
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_dot, hide_short_help = true)]
    dot: Vec<SocketAddr>,
    /// The certificate for it (PEM), with the key in FILE.key; both are made where there is no such file. Clients trust FILE as
    /// their CA
    #[arg(long, value_name = "FILE", requires = "dot", hide_short_help = true)]
    certificate: Option<PathBuf>,
}

impl Encrypting {
    /// Whether an address was given.
    pub const fn is_given(&self) -> bool {
        !self.dot.is_empty()
    }

    /// The addresses, and the settings of TLS; `None` if none was given.
    ///
    /// # Errors
    /// The certificate cannot be used or made.
    pub fn tls(&self) -> Result<Option<Tls>, Failure> {
        if self.dot.is_empty() {
            return Ok(None);
        }
        let addresses: Vec<_> = self.dot.iter().map(SocketAddr::ip).collect();
        let (config, is_made) = identity::tls(self.certificate.as_deref(), &addresses)?;
        match &self.certificate {
            Some(file) if is_made => tell!("ldplayer: {}: made; clients trust it as their CA", file.display()),
            None => tell!(
                "ldplayer: clients cannot verify the certificate; --certificate FILE writes one that they can trust"
            ),
            Some(_) => {}
        }
        Ok(Some(Tls { listen: self.dot.clone(), config }))
    }
}

fn parse_dot(word: &str) -> Result<SocketAddr, String> {
    parse_address(word, PORT)
}

/// An address to listen on, at this port unless it has another one.
pub fn parse_address(word: &str, port: u16) -> Result<SocketAddr, String> {
    let address = word.parse().or_else(|_| word.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)));
    address
        .map(canonical)
        .map_err(|_| "expected an address, with or without a port: 127.0.0.1, 127.0.0.1:5300, [::1]:5300".to_owned())
}
