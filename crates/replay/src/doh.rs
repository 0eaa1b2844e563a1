//! DNS-over-HTTPS requests (RFC 8484 §4.1), for any version of HTTP.

pub mod integer;
mod response;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use rustls::pki_types::ServerName;

pub use self::response::{Block, BlockReader, Meaning, ResponseHead};
use crate::padding;

/// The media type of a DNS message (RFC 8484 §6).
pub const MESSAGE: &[u8] = b"application/dns-message";

/// The part of a GET target before the query.
const VARIABLE: &[u8] = b"?dns=";
/// The alphabet of base64url (RFC 4648 §5).
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The port of HTTPS, which is omitted from an authority (RFC 9110 §4.2.2).
pub const HTTPS_PORT: u16 = 443;

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DohMethod {
    /// POST: the query is the body.
    #[default]
    Post,
    /// GET: the query is encoded in the target.
    Get,
}

/// Settings of DNS over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DohSettings {
    /// The method.
    pub method: DohMethod,
    /// The path.
    path: String,
}

/// An invalid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid path `{0}`: use one such as /dns-query, in printable ASCII without ? and #")]
pub struct BadPath(pub String);

impl DohMethod {
    /// The name of the method.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Get => "get",
        }
    }
}

/// An unknown method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown method `{0}`: use post or get")]
pub struct UnknownMethod(String);

impl FromStr for DohMethod {
    type Err = UnknownMethod;

    fn from_str(word: &str) -> Result<Self, UnknownMethod> {
        let found = [Self::Post, Self::Get].into_iter().find(|method| method.as_str() == word);
        found.ok_or_else(|| UnknownMethod(word.to_owned()))
    }
}

impl fmt::Display for DohMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl DohSettings {
    /// The default path.
    pub const PATH: &'static str = "/dns-query";

    /// Settings with this path.
    ///
    /// # Errors
    /// The path is invalid.
    pub fn new(method: DohMethod, path: &str) -> Result<Self, BadPath> {
        let is_path =
            path.starts_with('/') && path.bytes().all(|octet| octet.is_ascii_graphic() && !b"?#".contains(&octet));
        if is_path { Ok(Self { method, path: path.to_owned() }) } else { Err(BadPath(path.to_owned())) }
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether requests may be sent as early data, which requires a safe method (RFC 8470 §4, RFC 9110 §9.2.1).
    pub fn is_safe(&self) -> bool {
        self.method == DohMethod::Get
    }
}

impl Default for DohSettings {
    fn default() -> Self {
        Self { method: DohMethod::default(), path: Self::PATH.to_owned() }
    }
}

/// The requests of all clients of a worker. The part common to a server, `H`, is made once.
#[derive(Debug)]
pub struct Requests<H> {
    /// The settings.
    pub settings: DohSettings,
    /// The server's name, if it is not its address.
    name: Option<String>,
    heads: Vec<(SocketAddr, H)>,
    /// A message buffer.
    message: Vec<u8>,
}

impl<H> Requests<H> {
    /// Requests by `settings`, to servers of this name where it is given.
    pub fn new(settings: &DohSettings, name: Option<&ServerName<'_>>) -> Self {
        let name = name.map(|name| name.to_str().into_owned());
        Self { settings: settings.clone(), name, heads: Vec::new(), message: Vec::new() }
    }

    /// The common part of requests to `server`, which `make` makes from settings, name and address; and the query `wire`,
    /// padded to a multiple of `block` octets.
    pub fn prepare(
        &mut self,
        server: SocketAddr,
        wire: &[u8],
        block: u16,
        make: fn(&DohSettings, Option<&str>, SocketAddr) -> H,
    ) -> (&H, &[u8]) {
        let known = self.heads.iter().position(|(known, _)| *known == server);
        let place = known.unwrap_or_else(|| {
            self.heads.push((server, make(&self.settings, self.name.as_deref(), server)));
            self.heads.len() - 1
        });
        self.message.clear();
        padding::append(&mut self.message, wire, block);
        (&self.heads[place].1, &self.message)
    }
}

/// The authority (RFC 9110 §7.2).
pub fn authority(name: Option<&str>, server: SocketAddr) -> String {
    let host = match (name, server) {
        (Some(name), _) if name.contains(':') => format!("[{name}]"),
        (Some(name), _) => name.to_owned(),
        (None, SocketAddr::V4(v4)) => v4.ip().to_string(),
        (None, SocketAddr::V6(v6)) => format!("[{}]", v6.ip()),
    };
    if server.port() == HTTPS_PORT { host } else { format!("{host}:{}", server.port()) }
}

/// Length of the GET target for a query of `length` octets.
pub const fn target_length(path: &[u8], length: usize) -> usize {
    path.len() + VARIABLE.len() + (length * 4).div_ceil(3)
}

/// Appends the GET target for the query `wire`.
pub fn append_target(out: &mut Vec<u8>, path: &[u8], wire: &[u8]) {
    out.extend_from_slice(path);
    out.extend_from_slice(VARIABLE);
    append_base64url(out, wire);
}

/// Appends a message with ID 0, so that caches recognise repeated queries (RFC 8484 §4.1).
fn append_base64url(out: &mut Vec<u8>, wire: &[u8]) {
    let octet = |at: usize| if at < 2 { 0 } else { wire.get(at).copied().unwrap_or(0) };
    for start in (0..wire.len()).step_by(3) {
        let group = u32::from_be_bytes([0, octet(start), octet(start + 1), octet(start + 2)]);
        let digits = [18, 12, 6, 0].map(|shift| ALPHABET[(group >> shift & 0x3f) as usize]);
        out.extend_from_slice(&digits[..(wire.len() - start).min(3) + 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_has_no_padding() {
        for (wire, text) in [
            (&[0, 0, 0xff][..], "AAD_"),
            (&[0, 0, 0xff, 0xff], "AAD__w"),
            (&[0, 0, 0xff, 0xff, 0xfe], "AAD___4"),
            (&[9, 9, 0xff, 0xef, 0xbe, 0xfb], "AAD_7777"),
        ] {
            let mut out = Vec::new();
            append_base64url(&mut out, wire);
            assert_eq!(out.len(), (wire.len() * 4).div_ceil(3));
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn the_authority_names_other_ports_and_brackets_ipv6() {
        for (name, server, expected) in [
            (None, "192.0.2.1:443", "192.0.2.1"),
            (None, "192.0.2.1:8443", "192.0.2.1:8443"),
            (None, "[2001:db8::1]:443", "[2001:db8::1]"),
            (None, "[2001:db8::1]:444", "[2001:db8::1]:444"),
            (Some("dns.test"), "192.0.2.1:443", "dns.test"),
            (Some("dns.test"), "192.0.2.1:8443", "dns.test:8443"),
            (Some("2001:db8::1"), "[2001:db8::1]:443", "[2001:db8::1]"),
        ] {
            assert_eq!(authority(name, server.parse().unwrap()), expected);
        }
    }

    #[test]
    fn a_target_is_as_long_as_told() {
        for length in 12..20 {
            let mut out = Vec::new();
            append_target(&mut out, b"/dns-query", &vec![7; length]);
            assert_eq!(out.len(), target_length(b"/dns-query", length));
        }
    }

    #[test]
    fn paths_are_checked() {
        assert_eq!(DohSettings::new(DohMethod::Get, "/a/b").unwrap().path(), "/a/b");
        for path in ["", "dns-query", "/a b", "/a?b", "/a#b", "/ä"] {
            assert!(DohSettings::new(DohMethod::Get, path).is_err(), "{path}");
        }
    }
}
