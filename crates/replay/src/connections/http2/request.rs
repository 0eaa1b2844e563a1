//! Requests of DNS over HTTPS (RFC 8484 §4.1): all but the query in them is encoded once.

use std::net::SocketAddr;

use super::hpack::{append_field, append_integer, append_text};
use super::table::number;

/// The media type of a DNS message (RFC 8484 §6).
const MESSAGE: &[u8] = b"application/dns-message";
/// What a query follows in the target of GET.
const VARIABLE: &[u8] = b"?dns=";
/// The alphabet of base64url (RFC 4648 §5).
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The port of HTTPS, which an authority does not name (RFC 9110 §4.2.2).
pub const HTTPS_PORT: u16 = 443;

/// How a query is put into a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DohMethod {
    /// As the body.
    #[default]
    Post,
    /// In the target, encoded.
    Get,
}

/// How clients ask over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DohSettings {
    /// How a query is put into a request.
    pub method: DohMethod,
    /// The path asked for.
    path: String,
}

/// A path that no request can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no path; give one such as /dns-query, of visible ASCII without ? and #")]
pub struct BadPath(pub String);

impl DohMethod {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Get => "get",
        }
    }
}

impl DohSettings {
    /// The path that servers have unless told otherwise.
    pub const PATH: &'static str = "/dns-query";

    /// Settings with this path.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(method: DohMethod, path: &str) -> Result<Self, BadPath> {
        let is_path =
            path.starts_with('/') && path.bytes().all(|octet| octet.is_ascii_graphic() && !b"?#".contains(&octet));
        if is_path { Ok(Self { method, path: path.to_owned() }) } else { Err(BadPath(path.to_owned())) }
    }

    /// The path asked for.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Default for DohSettings {
    fn default() -> Self {
        Self { method: DohMethod::default(), path: Self::PATH.to_owned() }
    }
}

/// The header block of requests to one server, but for what depends on the query.
#[derive(Clone, Debug)]
pub struct Head {
    method: DohMethod,
    path: Vec<u8>,
    before: Vec<u8>,
    behind: Vec<u8>,
}

impl Head {
    /// The header block for requests to `server` under its `name`, or else its address.
    pub fn new(settings: &DohSettings, name: Option<&str>, server: SocketAddr) -> Self {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        let method = if settings.method == DohMethod::Get { number::GET } else { number::POST };
        append_integer(&mut before, 0x80, 7, method);
        append_integer(&mut before, 0x80, 7, number::HTTPS);
        append_field(&mut before, number::AUTHORITY, authority(name, server).as_bytes());
        match settings.method {
            DohMethod::Post => {
                append_field(&mut before, number::PATH, settings.path.as_bytes());
                append_field(&mut before, number::ACCEPT, MESSAGE);
                append_field(&mut before, number::CONTENT_TYPE, MESSAGE);
            }
            DohMethod::Get => append_field(&mut behind, number::ACCEPT, MESSAGE),
        }
        Self { method: settings.method, path: settings.path.clone().into_bytes(), before, behind }
    }

    /// Whether the query follows as a body.
    pub fn has_body(&self) -> bool {
        self.method == DohMethod::Post
    }

    /// Appends the header block for the query `wire`, a message whose ID is not looked at.
    pub fn append(&self, out: &mut Vec<u8>, wire: &[u8]) {
        out.extend_from_slice(&self.before);
        match self.method {
            DohMethod::Post => append_length(out, wire.len()),
            DohMethod::Get => {
                append_integer(out, 0, 4, number::PATH);
                append_integer(out, 0, 7, self.path.len() + VARIABLE.len() + (wire.len() * 4).div_ceil(3));
                out.extend_from_slice(&self.path);
                out.extend_from_slice(VARIABLE);
                append_base64url(out, wire);
            }
        }
        out.extend_from_slice(&self.behind);
    }
}

/// The authority asked for (RFC 9110 §7.2).
fn authority(name: Option<&str>, server: SocketAddr) -> String {
    let host = match (name, server) {
        (Some(name), _) => name.to_owned(),
        (None, SocketAddr::V4(v4)) => v4.ip().to_string(),
        (None, SocketAddr::V6(v6)) => format!("[{}]", v6.ip()),
    };
    if server.port() == HTTPS_PORT { host } else { format!("{host}:{}", server.port()) }
}

/// Appends `content-length`.
fn append_length(out: &mut Vec<u8>, mut length: usize) {
    let mut digits = [b'0'; 8];
    let mut at = digits.len();
    while at == digits.len() || (length > 0 && at > 0) {
        at -= 1;
        digits[at] = b'0' + (length % 10) as u8;
        length /= 10;
    }
    append_integer(out, 0, 4, number::CONTENT_LENGTH);
    append_text(out, &digits[at..]);
}

/// Appends a message with the ID 0, which lets caches take the same question for the same (RFC 8484 §4.1).
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
    use super::super::hpack::tests::read;
    use super::*;

    fn head(method: DohMethod, name: Option<&str>, server: &str, wire: &[u8]) -> Vec<(String, String)> {
        let settings = DohSettings::new(method, "/dns-query").unwrap();
        let mut block = Vec::new();
        Head::new(&settings, name, server.parse().unwrap()).append(&mut block, wire);
        read(&block).unwrap()
    }

    fn value<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
        &fields.iter().find(|field| field.0 == name).unwrap().1
    }

    #[test]
    fn the_request_of_rfc_8484_is_made() {
        // RFC 8484 §4.1.1, whose message has the ID 0 already.
        let mut wire = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        wire.extend_from_slice(b"\x03www\x07example\x03com\0\0\x01\0\x01");
        let get = head(DohMethod::Get, Some("dnsserver.example.net"), "192.0.2.1:443", &wire);
        let expected = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "dnsserver.example.net"),
            (":path", "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB"),
            ("accept", "application/dns-message"),
        ];
        assert_eq!(get, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let post = head(DohMethod::Post, Some("dnsserver.example.net"), "192.0.2.1:443", &wire);
        let expected = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "dnsserver.example.net"),
            (":path", "/dns-query"),
            ("accept", "application/dns-message"),
            ("content-type", "application/dns-message"),
            ("content-length", "33"),
        ];
        assert_eq!(post, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

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
            (Some("dns.test"), "192.0.2.1:8443", "dns.test:8443"),
        ] {
            let fields = head(DohMethod::Post, name, server, &[0; 12]);
            assert_eq!(value(&fields, ":authority"), expected);
        }
    }

    #[test]
    fn lengths_are_decimal() {
        for length in [12, 99, 100, 65_535] {
            let fields = head(DohMethod::Post, None, "192.0.2.1:443", &vec![0; length]);
            assert_eq!(value(&fields, "content-length"), length.to_string());
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
