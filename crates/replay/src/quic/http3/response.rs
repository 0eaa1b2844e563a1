//! An HTTP/3 response, read incrementally (RFC 9114 §4.1).

use ldplayer_core::Reason;

use super::frames::{Frames, Reader, Treatment, kind};
use super::{Fault, code, qpack};
use crate::doh::{Block, ResponseHead};

/// Octets of a body at most: a DNS message.
const BODY: u64 = u16::MAX as u64;
/// Octets of a field section at most. Nothing breaks when a longer one is not read, since it changes no table.
const SECTION: u64 = 1 << 14;

/// The server broke a rule of responses.
const MALFORMED: Fault = Fault::Stream(Reason::Garbage, code::MESSAGE_ERROR);
/// The response is longer than any answer is.
const TOO_LONG: Fault = Fault::Stream(Reason::Garbage, code::REQUEST_CANCELLED);
/// A frame stands where none of its type may.
const UNEXPECTED: Fault = Fault::Connection(code::FRAME_UNEXPECTED);

/// A response of which the end has not come.
#[derive(Debug, Default)]
pub struct Response {
    frames: Frames,
    head: ResponseHead,
    /// Octets of the body that frames have begun with.
    length: u64,
    has_trailers: bool,
}

impl Response {
    /// Takes octets of the stream, and appends the body's to `body`.
    ///
    /// # Errors
    /// Why the response is no answer, as soon as that is known: an HTTP status other than 200 is with the first field section.
    pub fn receive(&mut self, octets: &[u8], body: &mut Vec<u8>) -> Result<(), Fault> {
        let Self { frames, head, length, has_trailers } = self;
        frames.receive(octets, &mut Reading { head, length, has_trailers, body })
    }

    /// The server has ended the stream.
    ///
    /// # Errors
    /// When the response is not whole.
    pub fn end(&self) -> Result<(), Fault> {
        self.frames.end().map_err(Fault::Connection)?;
        let is_whole = self.head.status != 0 && self.head.allows(self.length as usize, true);
        if is_whole { Ok(()) } else { Err(MALFORMED) }
    }
}

/// The frames of a response, as they are read.
struct Reading<'a> {
    head: &'a mut ResponseHead,
    length: &'a mut u64,
    has_trailers: &'a mut bool,
    body: &'a mut Vec<u8>,
}

impl Reader for Reading<'_> {
    type Fault = Fault;

    fn begin(&mut self, kind: u64, length: u64) -> Result<Treatment, Fault> {
        match kind {
            kind::HEADERS if *self.has_trailers => Err(UNEXPECTED),
            kind::HEADERS if self.head.status != 0 => {
                *self.has_trailers = true;
                Ok(Treatment::Skip)
            }
            kind::HEADERS if length > SECTION => Err(TOO_LONG),
            kind::HEADERS => Ok(Treatment::Collect),
            kind::DATA if self.head.status == 0 || *self.has_trailers => Err(UNEXPECTED),
            kind::DATA => self.begin_data(length),
            kind::PUSH_PROMISE => Err(Fault::Connection(code::ID_ERROR)),
            kind::SETTINGS | kind::GOAWAY | kind::CANCEL_PUSH | kind::MAX_PUSH_ID => Err(UNEXPECTED),
            kind if kind::OF_HTTP2.contains(&kind) => Err(UNEXPECTED),
            _ => Ok(Treatment::Skip),
        }
    }

    fn content(&mut self, kind: u64, content: &[u8]) -> Result<(), Fault> {
        if kind == kind::DATA {
            self.body.extend_from_slice(content);
            return Ok(());
        }
        match qpack::read(content)? {
            // Those come before the one that counts (RFC 9114 §4.1).
            Block::Response(head) if head.status < 200 => Ok(()),
            Block::Response(head) => {
                *self.head = head;
                head.check().map_err(|reason| match reason {
                    Reason::HttpStatus => Fault::Stream(reason, code::REQUEST_CANCELLED),
                    _ => MALFORMED,
                })
            }
            Block::Trailers | Block::Malformed => Err(MALFORMED),
        }
    }
}

impl Reading<'_> {
    fn begin_data(&mut self, length: u64) -> Result<Treatment, Fault> {
        let length = self.length.saturating_add(length);
        if length > BODY {
            return Err(TOO_LONG);
        }
        if !self.head.allows(length as usize, false) {
            return Err(MALFORMED);
        }
        *self.length = length;
        Ok(Treatment::Stream)
    }
}

#[cfg(test)]
mod tests {
    use super::super::append_number;
    use super::*;
    use crate::doh::integer::append_integer;
    use proptest::prelude::*;

    /// A field section with the status 200, as an entry of the static table.
    const OK: [u8; 3] = [0, 0, 0xc0 | 25];

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![kind];
        append_number(&mut out, content.len());
        [out.as_slice(), content].concat()
    }

    /// The body of a response that comes in pieces of so many octets.
    fn read_in(pieces: usize, octets: &[u8]) -> Result<Vec<u8>, Fault> {
        let (mut response, mut body) = (Response::default(), Vec::new());
        octets.chunks(pieces).try_for_each(|piece| response.receive(piece, &mut body))?;
        response.end().map(|()| body)
    }

    fn read(parts: &[&[u8]]) -> Result<Vec<u8>, Fault> {
        let octets = parts.concat();
        let whole = read_in(usize::MAX, &octets);
        for pieces in [1, 2, 3, 7] {
            assert_eq!(read_in(pieces, &octets), whole, "{octets:?} in pieces of {pieces}");
        }
        whole
    }

    /// A field section of literals behind the status 200.
    fn head(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut section = OK.to_vec();
        for (name, value) in fields {
            append_integer(&mut section, 0x20, 3, name.len());
            section.extend_from_slice(name.as_bytes());
            append_integer(&mut section, 0, 7, value.len());
            section.extend_from_slice(value.as_bytes());
        }
        frame(1, &section)
    }

    #[test]
    fn responses_are_their_data_frames_between_what_is_passed_over() {
        let (head, data) = (frame(1, &OK), frame(0, b"ab"));
        let unknown = frame(0x21, b"grease");
        let early_hints = frame(1, &[0, 0, 0xc0 | 24]);
        assert_eq!(read(&[&head, &data]), Ok(b"ab".to_vec()));
        assert_eq!(
            read(&[&unknown, &early_hints, &head, &unknown, &data, &data, &head, &unknown]),
            Ok(b"abab".to_vec())
        );
        assert_eq!(read(&[&head]), Ok(Vec::new()));
        assert_eq!(read(&[]), Err(MALFORMED));
        assert_eq!(read(&[&early_hints]), Err(MALFORMED));
        let long = frame(0x21, &[0; 100_000]);
        assert_eq!(read(&[&long, &head, &long, &data, &long]), Ok(b"ab".to_vec()));
    }

    #[test]
    fn frames_that_may_not_stand_there_end_the_connection() {
        let (head, data) = (frame(1, &OK), frame(0, b"ab"));
        for (parts, code) in [
            (vec![data.clone()], code::FRAME_UNEXPECTED),
            (vec![head.clone(), data[..3].to_vec()], code::FRAME_ERROR),
            (vec![head.clone(), head.clone(), data.clone()], code::FRAME_UNEXPECTED),
            (vec![head.clone(), head.clone(), head.clone()], code::FRAME_UNEXPECTED),
            (vec![frame(4, &[])], code::FRAME_UNEXPECTED),
            (vec![frame(6, &[])], code::FRAME_UNEXPECTED),
            (vec![frame(5, &[])], code::ID_ERROR),
            (vec![frame(1, &[1, 0])], code::DECOMPRESSION_FAILED),
        ] {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            assert_eq!(read(&parts), Err(Fault::Connection(code)), "{parts:?}");
        }
    }

    #[test]
    fn another_status_is_told_with_the_first_section_whatever_follows() {
        let other = Err(Fault::Stream(Reason::HttpStatus, code::REQUEST_CANCELLED));
        let not_found = frame(1, &[0, 0, 0xc0 | 27]);
        assert_eq!(read(&[&not_found]), other);
        let (mut response, mut body) = (Response::default(), Vec::new());
        assert_eq!(response.receive(&not_found, &mut body).map(|()| Vec::<u8>::new()), other);
        let html = [&[0, 0, 0xc0 | 27, 0xc0 | 52][..], &[0x54, 6], b"200000"].concat();
        assert_eq!(read(&[&frame(1, &html), &frame(0, &[0; 200_000])]), other);
    }

    #[test]
    fn another_type_or_a_length_that_lies_is_no_answer() {
        let message = ("content-type", "Application/DNS-Message; x=y");
        let data = frame(0, b"answer");
        assert_eq!(read(&[&head(&[message, ("content-length", "6")]), &data]), Ok(b"answer".to_vec()));
        assert_eq!(read(&[&frame(1, &[0, 0, 0xc0 | 25, 0xc0 | 44]), &data]), Ok(b"answer".to_vec()));
        for section in [
            head(&[("content-type", "text/html")]),
            frame(1, &[0, 0, 0xc0 | 25, 0xc0 | 46]),
            frame(1, &[&OK[..], &[0x5f, 29, 1, b'x']].concat()),
            head(&[("content-length", "x")]),
            head(&[("content-length", "5")]),
            head(&[("content-length", "7")]),
            head(&[("content-length", "6"), ("content-length", "5")]),
            frame(1, &[&OK[..], &[0x54, 1, b'5']].concat()),
            // `content-length: 0` is an entry.
            frame(1, &[&OK[..], &[0xc0 | 4]].concat()),
            head(&[("X", "capital letters")]),
            head(&[(":path", "/")]),
            frame(1, &[&OK[..], &[0xc0 | 25]].concat()),
        ] {
            assert_eq!(read(&[&section, &data]), Err(MALFORMED), "{section:?}");
        }
    }

    #[test]
    fn what_is_longer_than_any_answer_is_given_up_and_is_no_fault_of_the_server() {
        let head = frame(1, &OK);
        let most = frame(0, &[0; BODY as usize]);
        assert_eq!(read_in(usize::MAX, &[&head[..], &most].concat()).map(|body| body.len()), Ok(BODY as usize));
        assert_eq!(read_in(usize::MAX, &[&head[..], &most, &frame(0, b"x")].concat()), Err(TOO_LONG));
        // The announced length counts, not the octets that arrived.
        assert_eq!(read_in(usize::MAX, &[&head[..], &[0, 0x80, 1, 0, 0]].concat()), Err(TOO_LONG));
        assert_eq!(read_in(usize::MAX, &[1, 0x80, 0, 0x40, 1]), Err(TOO_LONG));
    }

    proptest! {
        #[test]
        fn any_octets_are_a_response_or_a_fault(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(body) = read(&[&octets]) {
                prop_assert!(body.len() <= octets.len());
            }
        }
    }
}
