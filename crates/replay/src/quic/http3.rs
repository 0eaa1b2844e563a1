//! The part of HTTP/3 that DNS over HTTPS needs (RFC 9114): requests out, responses in, and the streams that control both.
//!
//! Field sections use the static table only: the client admits no dynamic one (RFC 9204 §3.2.3) and makes none.

mod qpack;
mod request;

use std::borrow::Cow;

use ldplayer_core::Reason;
use quinn_proto::StreamId;

pub use self::request::Head;

/// What clients offer to speak (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
/// Streams that a server may open: those of control and of QPACK, and some of types that are passed over (RFC 9114 §6.2).
pub const UNI_STREAMS: u32 = 8;
/// Octets of a frame of control that are waited for.
const CONTROL_MOST: usize = 1 << 14;

/// Why a connection or stream is ended (RFC 9114 §8.1, RFC 9204 §6).
pub mod code {
    /// No error.
    pub const NO_ERROR: u32 = 0x100;
    /// The server opened a stream that it may not.
    pub const STREAM_CREATION_ERROR: u32 = 0x103;
    /// A stream that must stay has ended.
    pub const CLOSED_CRITICAL_STREAM: u32 = 0x104;
    /// A frame at the wrong place.
    pub const FRAME_UNEXPECTED: u32 = 0x105;
    /// A frame of the wrong form.
    pub const FRAME_ERROR: u32 = 0x106;
    /// More than can be meant well.
    pub const EXCESSIVE_LOAD: u32 = 0x107;
    /// An identifier that nobody gave.
    pub const ID_ERROR: u32 = 0x108;
    /// Control does not begin with settings.
    pub const MISSING_SETTINGS: u32 = 0x10a;
    /// The server has done nothing about a request.
    pub const REQUEST_REJECTED: u32 = 0x10b;
    /// The answer is not wanted any more.
    pub const REQUEST_CANCELLED: u32 = 0x10c;
    /// A field section that cannot be read.
    pub const DECOMPRESSION_FAILED: u32 = 0x200;
}

/// Types of frames (RFC 9114 §7.2).
mod kind {
    pub const DATA: u64 = 0x0;
    pub const HEADERS: u64 = 0x1;
    pub const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub const PUSH_PROMISE: u64 = 0x5;
    pub const GOAWAY: u64 = 0x7;
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// Those of HTTP/2 that HTTP/3 has not (RFC 9114 §7.2.8).
    pub const OF_HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];
}

/// What begins the client's control stream: its type, and settings that repeat the defaults (RFC 9114 §6.2.1, §7.2.4).
pub const CONTROL: &[u8] = &[0x00, kind::SETTINGS as u8, 4, 0x01, 0, 0x07, 0];

/// What is wrong with what a server sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is to be ended with this code.
    Connection(u32),
    /// The response is none.
    Stream(Reason),
}

/// Reads a number of variable length off `octets` (RFC 9000 §16); `None` while it is not all there.
pub fn take_number(octets: &mut &[u8]) -> Option<u64> {
    let first = *octets.first()?;
    let (number, rest) = octets.split_at_checked(1 << (first >> 6))?;
    *octets = rest;
    Some(number[1..].iter().fold(u64::from(first & 0x3f), |number, &octet| number << 8 | u64::from(octet)))
}

/// Appends a number below 2^30.
fn append_number(out: &mut Vec<u8>, number: usize) {
    match number {
        0..=0x3f => out.push(number as u8),
        0x40..=0x3fff => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        _ => out.extend_from_slice(&(number as u32 & 0x3fff_ffff | 0x8000_0000).to_be_bytes()),
    }
}

/// Takes a frame off `octets`: its type and content; `None` while it is not all there.
pub fn take_frame<'a>(octets: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let mut rest = *octets;
    let (kind, length) = (take_number(&mut rest)?, take_number(&mut rest)?);
    let (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *octets = rest;
    Some((kind, content))
}

/// The body of the response on a stream that the server has ended.
///
/// # Errors
/// Why there is none: the server broke the protocol, or answered with another status than 200.
pub fn split(mut octets: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    let mut status = None;
    let mut body: Option<Cow<'_, [u8]>> = None;
    let mut has_trailers = false;
    while !octets.is_empty() {
        let (kind, content) = take_frame(&mut octets).ok_or(Fault::Connection(code::FRAME_ERROR))?;
        match kind {
            // Statuses below 200 come before the one that counts (RFC 9114 §4.1).
            kind::HEADERS if status.is_none() => status = Some(qpack::status(content)?).filter(|&status| status >= 200),
            kind::HEADERS if !has_trailers => has_trailers = true,
            kind::DATA if status.is_some() && !has_trailers => match &mut body {
                None => body = Some(content.into()),
                Some(body) => body.to_mut().extend_from_slice(content),
            },
            kind::PUSH_PROMISE => return Err(Fault::Connection(code::ID_ERROR)),
            kind::HEADERS | kind::DATA | kind::SETTINGS | kind::GOAWAY | kind::CANCEL_PUSH | kind::MAX_PUSH_ID => {
                return Err(Fault::Connection(code::FRAME_UNEXPECTED));
            }
            kind if kind::OF_HTTP2.contains(&kind) => return Err(Fault::Connection(code::FRAME_UNEXPECTED)),
            _ => {}
        }
    }
    match status {
        Some(200) => Ok(body.unwrap_or_default()),
        Some(_) => Err(Fault::Stream(Reason::HttpStatus)),
        None => Err(Fault::Stream(Reason::Garbage)),
    }
}

/// What a server has said on streams of its own.
#[derive(Debug, Default)]
pub struct Http3 {
    /// The client's control stream has been opened.
    pub is_begun: bool,
    streams: Vec<(StreamId, Stream)>,
    has_settings: bool,
}

/// A stream of a server.
#[derive(Debug)]
enum Stream {
    /// Its type is not known yet; what there is of it.
    New(Vec<u8>),
    /// Control; the beginning of a frame.
    Control(Vec<u8>),
    /// Nothing that is looked at: the streams of QPACK, of which no dynamic table makes use, and unknown ones.
    Other,
}

impl Http3 {
    /// Takes what came on a stream of the server's. Returns the stream from which on it takes no requests, where it said so.
    ///
    /// # Errors
    /// The code to end the connection with.
    pub fn receive(&mut self, id: StreamId, octets: &[u8], has_ended: bool) -> Result<Option<u64>, u32> {
        let known = self.streams.iter().position(|(known, _)| *known == id);
        let place = known.unwrap_or_else(|| {
            self.streams.push((id, Stream::New(Vec::new())));
            self.streams.len() - 1
        });
        if let Stream::New(kept) = &mut self.streams[place].1 {
            kept.extend_from_slice(octets);
            let kept = std::mem::take(kept);
            let mut rest = kept.as_slice();
            let Some(kind) = take_number(&mut rest) else {
                self.streams[place].1 = Stream::New(kept);
                return Ok(None);
            };
            let rest = rest.to_vec();
            self.streams[place].1 = self.kind_of(kind)?;
            return self.receive_known(place, &rest, has_ended);
        }
        self.receive_known(place, octets, has_ended)
    }

    fn kind_of(&self, kind: u64) -> Result<Stream, u32> {
        const CONTROL: u64 = 0;
        const PUSH: u64 = 1;
        let has_control = self.streams.iter().any(|(_, stream)| matches!(stream, Stream::Control(_)));
        match kind {
            CONTROL if has_control => Err(code::STREAM_CREATION_ERROR),
            CONTROL => Ok(Stream::Control(Vec::new())),
            PUSH => Err(code::ID_ERROR),
            _ => Ok(Stream::Other),
        }
    }

    fn receive_known(&mut self, place: usize, octets: &[u8], has_ended: bool) -> Result<Option<u64>, u32> {
        let Stream::Control(kept) = &mut self.streams[place].1 else {
            if has_ended {
                self.streams.swap_remove(place);
            }
            return Ok(None);
        };
        if has_ended {
            return Err(code::CLOSED_CRITICAL_STREAM);
        }
        kept.extend_from_slice(octets);
        let kept = std::mem::take(kept);
        let (mut rest, mut last) = (kept.as_slice(), None);
        while let Some((kind, content)) = take_frame(&mut rest) {
            last = self.take_control(kind, content)?.or(last);
        }
        if rest.len() > CONTROL_MOST {
            return Err(code::EXCESSIVE_LOAD);
        }
        self.streams[place].1 = Stream::Control(rest.to_vec());
        Ok(last)
    }

    fn take_control(&mut self, kind: u64, mut content: &[u8]) -> Result<Option<u64>, u32> {
        match kind {
            kind::SETTINGS if !self.has_settings => self.has_settings = true,
            _ if !self.has_settings => return Err(code::MISSING_SETTINGS),
            kind::GOAWAY => return take_number(&mut content).map(Some).ok_or(code::FRAME_ERROR),
            kind::SETTINGS | kind::DATA | kind::HEADERS | kind::PUSH_PROMISE | kind::MAX_PUSH_ID => {
                return Err(code::FRAME_UNEXPECTED);
            }
            kind if kind::OF_HTTP2.contains(&kind) => return Err(code::FRAME_UNEXPECTED),
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quinn_proto::{Dir, Side};

    fn stream(number: u64) -> StreamId {
        StreamId::new(Side::Server, Dir::Uni, number)
    }

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![kind];
        append_number(&mut out, content.len());
        [out.as_slice(), content].concat()
    }

    /// A field section with the status 200, as an entry of the static table.
    const OK: [u8; 3] = [0, 0, 0xc0 | 25];

    #[test]
    fn responses_are_their_data_frames_between_what_is_passed_over() {
        let (head, data) = (frame(1, &OK), frame(0, b"ab"));
        let unknown = frame(0x21, b"grease");
        let early_hints = frame(1, &[0, 0, 0xc0 | 24]);
        let whole = |parts: &[&[u8]]| split(&parts.concat()).map(Cow::into_owned);
        assert_eq!(whole(&[&head, &data]), Ok(b"ab".to_vec()));
        assert_eq!(
            whole(&[&unknown, &early_hints, &head, &unknown, &data, &data, &head, &unknown]),
            Ok(b"abab".to_vec())
        );
        assert_eq!(whole(&[&head]), Ok(Vec::new()));
        assert_eq!(whole(&[&frame(1, &[0, 0, 0xc0 | 27]), &data]), Err(Fault::Stream(Reason::HttpStatus)));
        assert_eq!(whole(&[]), Err(Fault::Stream(Reason::Garbage)));
        for (parts, code) in [
            (vec![data.clone()], code::FRAME_UNEXPECTED),
            (vec![head.clone(), data[..3].to_vec()], code::FRAME_ERROR),
            (vec![head.clone(), head.clone(), data.clone()], code::FRAME_UNEXPECTED),
            (vec![frame(4, &[])], code::FRAME_UNEXPECTED),
            (vec![frame(6, &[])], code::FRAME_UNEXPECTED),
            (vec![frame(5, &[])], code::ID_ERROR),
            (vec![frame(1, &[1, 0])], code::DECOMPRESSION_FAILED),
        ] {
            assert_eq!(split(&parts.concat()), Err(Fault::Connection(code)), "{parts:?}");
        }
    }

    #[test]
    fn control_begins_with_settings_and_may_say_goodbye() {
        let mut http3 = Http3::default();
        assert_eq!(http3.receive(stream(0), &[], false), Ok(None));
        let control = [&[0][..], &frame(4, &[1, 0]), &frame(0x21, b"x"), &frame(7, &[12])].concat();
        let (last, first) = control.split_last().unwrap();
        for octet in first {
            assert_eq!(http3.receive(stream(0), &[*octet], false), Ok(None));
        }
        assert_eq!(http3.receive(stream(0), &[*last], false), Ok(Some(12)));
        assert_eq!(http3.receive(stream(1), &[2, 9, 9, 9], false), Ok(None));
        assert_eq!(http3.receive(stream(2), &[0x40, 0x41, 1], true), Ok(None));
        for (octets, has_ended, code) in
            [(vec![0], false, code::STREAM_CREATION_ERROR), (vec![1], false, code::ID_ERROR)]
        {
            assert_eq!(http3.receive(stream(3), &octets, has_ended), Err(code));
            http3.streams.retain(|(id, _)| *id != stream(3));
        }
        assert_eq!(http3.receive(stream(0), &[], true), Err(code::CLOSED_CRITICAL_STREAM));
        for (octets, code) in [
            ([&[0][..], &frame(7, &[0])].concat(), code::MISSING_SETTINGS),
            ([&[0][..], &frame(4, &[]), &frame(4, &[])].concat(), code::FRAME_UNEXPECTED),
            ([&[0][..], &frame(4, &[]), &frame(1, &[])].concat(), code::FRAME_UNEXPECTED),
            ([&[0][..], &frame(4, &[]), &[0x21, 0x80, 1, 0, 0], &[0; 20_000]].concat(), code::EXCESSIVE_LOAD),
        ] {
            assert_eq!(Http3::default().receive(stream(0), &octets, false), Err(code));
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_a_response_or_a_fault(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(body) = split(&octets) {
                prop_assert!(body.len() <= octets.len());
            }
            let _ = Http3::default().receive(stream(0), &octets, false);
        }

        #[test]
        fn numbers_are_read_as_written(number in 0usize..1 << 30) {
            let mut out = Vec::new();
            append_number(&mut out, number);
            prop_assert_eq!(take_number(&mut out.as_slice()), Some(number as u64));
            prop_assert_eq!(take_number(&mut &out[..out.len() - 1]), None);
        }
    }
}
