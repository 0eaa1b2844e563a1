//! DNS-over-HTTPS requests as HTTP/2 header blocks: everything but the query is encoded once.

use std::net::SocketAddr;

use super::hpack::{append_field, append_text};
use super::table::number;
use crate::doh::integer::append_integer;
use crate::doh::{self, DohMethod, DohSettings, MESSAGE};

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
        append_field(&mut before, number::AUTHORITY, doh::authority(name, server).as_bytes());
        match settings.method {
            DohMethod::Post => {
                append_field(&mut before, number::PATH, settings.path().as_bytes());
                append_field(&mut before, number::ACCEPT, MESSAGE);
                append_field(&mut before, number::CONTENT_TYPE, MESSAGE);
            }
            DohMethod::Get => append_field(&mut behind, number::ACCEPT, MESSAGE),
        }
        Self { method: settings.method, path: settings.path().as_bytes().to_vec(), before, behind }
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
                append_integer(out, 0, 7, doh::target_length(&self.path, wire.len()));
                doh::append_target(out, &self.path, wire);
            }
        }
        out.extend_from_slice(&self.behind);
    }
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
    fn lengths_are_decimal() {
        for length in [12, 99, 100, 65_535] {
            let fields = head(DohMethod::Post, None, "192.0.2.1:443", &vec![0; length]);
            assert_eq!(value(&fields, "content-length"), length.to_string());
        }
    }
}
