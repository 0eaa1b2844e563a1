//! Options for serving encrypted queries, and the certificate for them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::anyhow;
use ldplayer_core::cidr::canonical;
use ldplayer_emulate::serve::{Encrypted, identity};

use crate::failure::Failure;

/// The port of DNS over TLS and over QUIC (RFC 7858 §3.1, RFC 9250 §4.1.1), and that of HTTPS.
const PORT: u16 = 853;
const HTTPS_PORT: u16 = 443;

/// Options of commands that serve a zone set.
#[derive(clap::Args)]
pub struct Encrypting {
    /// Serve over TLS, too, at this address; port 853 unless it has another
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_port_853, hide_short_help = true)]
    dot: Vec<SocketAddr>,
    /// Serve over HTTPS, too, at https://ADDR:PORT/dns-query: over HTTP/2, and over HTTP/3 on the same port of UDP; port 443 unless it has another
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_port_443, hide_short_help = true)]
    doh: Vec<SocketAddr>,
    /// Serve over QUIC, too, at this address; port 853 unless it has another
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse_port_853, hide_short_help = true)]
    doq: Vec<SocketAddr>,
    /// The certificate for --dot, --doh and --doq (PEM), with the key in FILE.key; both are made where there is no such file.
    /// Clients trust FILE as their CA
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    certificate: Option<PathBuf>,
}

impl Encrypting {
    /// Whether any option was given.
    pub fn is_given(&self) -> bool {
        self.addresses().next().is_some() || self.certificate.is_some()
    }

    fn addresses(&self) -> impl Iterator<Item = &SocketAddr> {
        self.dot.iter().chain(&self.doh).chain(&self.doq)
    }

    /// The addresses, and the settings of TLS; `None` if no address was given.
    ///
    /// # Errors
    /// The certificate cannot be used or made, or is of nothing.
    pub fn encrypted(&self) -> Result<Option<Encrypted>, Failure> {
        let addresses: Vec<_> = self.addresses().map(SocketAddr::ip).collect();
        if addresses.is_empty() {
            return match &self.certificate {
                Some(_) => Err(anyhow!("--certificate is of encrypted queries: add --dot, --doh or --doq").into()),
                None => Ok(None),
            };
        }
        let (config, is_made) = identity::tls(self.certificate.as_deref(), &addresses)?;
        match &self.certificate {
            Some(file) if is_made => tell!("ldplayer: {}: made; clients trust it as their CA", file.display()),
            None => tell!(
                "ldplayer: clients cannot verify the certificate; --certificate FILE writes one that they can trust"
            ),
            Some(_) => {}
        }
        let Self { dot, doh, doq, .. } = self;
        Ok(Some(Encrypted { dot: dot.clone(), doh: doh.clone(), doq: doq.clone(), config }))
    }
}

fn parse_port_853(word: &str) -> Result<SocketAddr, String> {
    parse_address(word, PORT)
}

fn parse_port_443(word: &str) -> Result<SocketAddr, String> {
    parse_address(word, HTTPS_PORT)
}

/// An address to listen on, at this port unless it has another one.
pub fn parse_address(word: &str, port: u16) -> Result<SocketAddr, String> {
    let address = word.parse().or_else(|_| word.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)));
    address
        .map(canonical)
        .map_err(|_| "expected an address, with or without a port: 127.0.0.1, 127.0.0.1:5300, [::1]:5300".to_owned())
}
