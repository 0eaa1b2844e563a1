//! DNS-over-HTTPS requests as HTTP/3 frames: everything but the query is encoded once.

use std::net::SocketAddr;

use bytes::Bytes;

use super::qpack::{append_entry, append_name};
use super::{append_number, kind};
use crate::doh::integer::append_integer;
use crate::doh::{self, DohMethod, DohSettings};

/// Entries of the static table (RFC 9204, Appendix A).
mod entry {
    pub const AUTHORITY: usize = 0;
    pub const PATH: usize = 1;
    pub const CONTENT_LENGTH: usize = 4;
    pub const GET: usize = 17;
    pub const POST: usize = 20;
    pub const HTTPS: usize = 23;
    pub const ACCEPT_MESSAGE: usize = 30;
    pub const CONTENT_TYPE_MESSAGE: usize = 44;
}

/// The field section of requests to one server, but for what depends on the query.
#[derive(Clone, Debug)]
pub struct Head {
    method: DohMethod,
    path: Vec<u8>,
    /// What comes before the path: it is the last of the pseudo-fields, which are before all others (RFC 9114 §4.3).
    before: Vec<u8>,
    behind: Vec<u8>,
}

impl Head {
    /// That of requests to `server` under its `name`, or else its address.
    pub fn new(settings: &DohSettings, name: Option<&str>, server: SocketAddr) -> Self {
        // The section needs no entry of a dynamic table (RFC 9204 §4.5.1).
        let (mut before, mut behind) = (vec![0, 0], Vec::new());
        let authority = doh::authority(name, server);
        append_entry(&mut before, if settings.method == DohMethod::Get { entry::GET } else { entry::POST });
        append_entry(&mut before, entry::HTTPS);
        append_name(&mut before, entry::AUTHORITY, authority.len());
        before.extend_from_slice(authority.as_bytes());
        append_entry(&mut behind, entry::ACCEPT_MESSAGE);
        if settings.method == DohMethod::Post {
            append_entry(&mut behind, entry::CONTENT_TYPE_MESSAGE);
        }
        Self { method: settings.method, path: settings.path().as_bytes().to_vec(), before, behind }
    }

    /// The request of the query `wire`, whose ID is 0 there (RFC 8484 §4.1): all of the client's side of a stream.
    pub fn compose(&self, wire: &[u8]) -> Bytes {
        let mut section =
            Vec::with_capacity(self.before.len() + self.path.len() + self.behind.len() + 24 + wire.len() * 4 / 3);
        section.extend_from_slice(&self.before);
        let mut out = Vec::new();
        match self.method {
            DohMethod::Get => {
                append_name(&mut section, entry::PATH, doh::target_length(&self.path, wire.len()));
                doh::append_target(&mut section, &self.path, wire);
                section.extend_from_slice(&self.behind);
                append_frame(&mut out, kind::HEADERS, &section);
            }
            DohMethod::Post => {
                append_name(&mut section, entry::PATH, self.path.len());
                section.extend_from_slice(&self.path);
                section.extend_from_slice(&self.behind);
                let length = wire.len().to_string();
                append_integer(&mut section, 0x50, 4, entry::CONTENT_LENGTH);
                append_integer(&mut section, 0, 7, length.len());
                section.extend_from_slice(length.as_bytes());
                append_frame(&mut out, kind::HEADERS, &section);
                append_frame(&mut out, kind::DATA, wire);
                let body = out.len() - wire.len();
                ldplayer_core::message::set_id(&mut out[body..], 0);
            }
        }
        out.into()
    }
}

fn append_frame(out: &mut Vec<u8>, kind: u64, content: &[u8]) {
    out.reserve(content.len() + 5);
    out.push(kind as u8);
    append_number(out, content.len());
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::super::frames::take_frame;
    use super::*;

    fn head(method: DohMethod) -> Head {
        let settings = DohSettings::new(method, "/dns-query").unwrap();
        Head::new(&settings, Some("dns.example"), "192.0.2.1:443".parse().unwrap())
    }

    #[test]
    fn a_query_is_the_body_of_post() {
        let request = head(DohMethod::Post).compose(b"\x12\x34query");
        let mut rest = &request[..];
        let (kind, section) = take_frame(&mut rest).unwrap();
        assert_eq!(kind, kind::HEADERS);
        let expected = [b"\x00\x00\xd4\xd7\x50\x0bdns.example\x51\x0a/dns-query\xde\xec\x54\x017".as_slice()].concat();
        assert_eq!(section, expected);
        assert_eq!(take_frame(&mut rest), Some((kind::DATA, b"\x00\x00query".as_slice())));
        assert!(rest.is_empty());
    }

    #[test]
    fn a_query_is_in_the_target_of_get() {
        // The example of RFC 8484 §4.1.1, but for its ID, which is 0 already.
        let query = b"\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01";
        let request = head(DohMethod::Get).compose(query);
        let mut rest = &request[..];
        let (_, section) = take_frame(&mut rest).unwrap();
        let target = b"/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        assert!(
            section.ends_with(&[&[0x51, target.len() as u8], target.as_slice(), &[0xde]].concat()) && rest.is_empty()
        );
    }
}
