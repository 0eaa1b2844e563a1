//! Unidirectional streams of HTTP/3: the client's control stream, and those opened by the server (RFC 9114 §6.2).

use quinn_proto::{Dir, Side, StreamId, VarInt};

use super::frames::{Frames, Reader, Treatment, kind, take_number};
use super::{CONTROL, code};

/// Types of streams of one direction (RFC 9114 §6.2).
mod stream {
    pub const CONTROL: u64 = 0;
    pub const PUSH: u64 = 1;
}

/// What is spoken on a connection beside requests.
#[derive(Debug, Default)]
pub struct Http3 {
    /// The client's control stream, once opened, and the part of it that is still unwritten.
    pub control: Option<(StreamId, &'static [u8])>,
    streams: Vec<(StreamId, Stream)>,
    heard: ControlState,
}

/// A stream of a server.
#[derive(Debug)]
enum Stream {
    /// Its type has not arrived completely; the octets so far.
    New(Vec<u8>),
    /// Control.
    Control(Frames),
    /// Ignored: QPACK streams (there is no dynamic table) and unknown types.
    Other,
}

/// What a server has said on its control stream.
#[derive(Debug, Default)]
struct ControlState {
    has_settings: bool,
    /// The stream from which on it takes no requests.
    goaway: Option<u64>,
}

impl Http3 {
    /// Opens the client's control stream, on the stream `id`.
    pub const fn begin(&mut self, id: StreamId) {
        self.control = Some((id, CONTROL));
    }

    /// Takes what came on a stream of the server's. Returns the stream from which on it takes no requests, where it said so.
    ///
    /// # Errors
    /// The code to end the connection with.
    pub fn receive(&mut self, id: StreamId, octets: &[u8], has_ended: bool) -> Result<Option<u64>, u32> {
        let before = self.heard.goaway;
        let known = self.streams.iter().position(|(known, _)| *known == id);
        let mut stream = known.map_or(Stream::New(Vec::new()), |place| self.streams.swap_remove(place).1);
        let mut rest = octets;
        let joined;
        if let Stream::New(kept) = &mut stream {
            kept.extend_from_slice(octets);
            joined = std::mem::take(kept);
            rest = &joined;
            stream = match take_number(&mut rest) {
                Some(kind) => self.begin_stream(kind)?,
                None => Stream::New(rest.to_vec()),
            };
        }
        if let Stream::Control(frames) = &mut stream {
            frames.receive(rest, &mut self.heard)?;
            if has_ended {
                return Err(code::CLOSED_CRITICAL_STREAM);
            }
        }
        // One that ends before its type is known is none (RFC 9114 §6.2).
        if !has_ended {
            self.streams.push((id, stream));
        }
        Ok(self.heard.goaway.filter(|_| self.heard.goaway != before))
    }

    fn begin_stream(&self, kind: u64) -> Result<Stream, u32> {
        let has_control = self.streams.iter().any(|(_, stream)| matches!(stream, Stream::Control(_)));
        match kind {
            stream::CONTROL if has_control => Err(code::STREAM_CREATION_ERROR),
            stream::CONTROL => Ok(Stream::Control(Frames::default())),
            stream::PUSH => Err(code::ID_ERROR),
            _ => Ok(Stream::Other),
        }
    }
}

impl Reader for ControlState {
    type Fault = u32;

    fn begin(&mut self, kind: u64, length: u64) -> Result<Treatment, u32> {
        /// Octets of the longest number.
        const NUMBER: u64 = 8;
        match kind {
            kind::SETTINGS if !self.has_settings => {
                self.has_settings = true;
                Ok(Treatment::Skip)
            }
            _ if !self.has_settings => Err(code::MISSING_SETTINGS),
            kind::GOAWAY if length <= NUMBER => Ok(Treatment::Collect),
            kind::GOAWAY => Err(code::FRAME_ERROR),
            kind::SETTINGS | kind::DATA | kind::HEADERS | kind::PUSH_PROMISE | kind::MAX_PUSH_ID => {
                Err(code::FRAME_UNEXPECTED)
            }
            // There can be no push that it ends (RFC 9114 §7.2.3).
            kind::CANCEL_PUSH => Err(code::ID_ERROR),
            kind if kind::OF_HTTP2.contains(&kind) => Err(code::FRAME_UNEXPECTED),
            _ => Ok(Treatment::Skip),
        }
    }

    /// GOAWAY, the only content that is looked at: the stream of a request, and none behind one told before (RFC 9114 §5.2).
    fn content(&mut self, _: u64, mut content: &[u8]) -> Result<(), u32> {
        let number = take_number(&mut content).filter(|_| content.is_empty()).ok_or(code::FRAME_ERROR)?;
        let id = VarInt::from_u64(number).map(StreamId::from).map_err(|_| code::FRAME_ERROR)?;
        let is_request = id.initiator() == Side::Client && id.dir() == Dir::Bi;
        if !is_request || self.goaway.is_some_and(|told| told < number) {
            return Err(code::ID_ERROR);
        }
        self.goaway = Some(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::append_number;
    use super::*;
    use proptest::prelude::*;

    fn stream(number: u64) -> StreamId {
        StreamId::new(Side::Server, Dir::Uni, number)
    }

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![kind];
        append_number(&mut out, content.len());
        [out.as_slice(), content].concat()
    }

    /// A control stream that begins as it must.
    fn control(frames: &[Vec<u8>]) -> Vec<u8> {
        [&[0][..], &frame(4, &[1, 0]), &frames.concat()].concat()
    }

    #[test]
    fn control_begins_with_settings_and_may_have_goaway() {
        let mut http3 = Http3::default();
        assert_eq!(http3.receive(stream(0), &[], false), Ok(None));
        let octets = control(&[frame(0x21, b"x"), frame(7, &[12])]);
        let (last, first) = octets.split_last().unwrap();
        for octet in first {
            assert_eq!(http3.receive(stream(0), &[*octet], false), Ok(None));
        }
        assert_eq!(http3.receive(stream(0), &[*last], false), Ok(Some(12)));
        assert_eq!(http3.receive(stream(1), &[2, 9, 9, 9], false), Ok(None));
        assert_eq!(http3.receive(stream(2), &[0x40, 0x41, 1], true), Ok(None));
        assert_eq!(http3.receive(stream(0), &[], true), Err(code::CLOSED_CRITICAL_STREAM));
        // What nobody knows is passed over at any length.
        let long = control(&[frame(0x21, &[0; 100_000]), frame(7, &[4])]);
        assert_eq!(Http3::default().receive(stream(0), &long, false), Ok(Some(4)));
        for (octets, code) in [
            ([&[0][..], &frame(7, &[0])].concat(), code::MISSING_SETTINGS),
            (control(&[frame(4, &[])]), code::FRAME_UNEXPECTED),
            (control(&[frame(1, &[])]), code::FRAME_UNEXPECTED),
            (control(&[frame(3, &[0])]), code::ID_ERROR),
            (vec![1], code::ID_ERROR),
        ] {
            assert_eq!(Http3::default().receive(stream(0), &octets, false), Err(code), "{octets:?}");
        }
        let mut http3 = Http3::default();
        assert_eq!(http3.receive(stream(0), &[0], false), Ok(None));
        assert_eq!(http3.receive(stream(1), &[0], false), Err(code::STREAM_CREATION_ERROR));
    }

    #[test]
    fn goaway_names_the_stream_of_a_request_and_takes_nothing_back() {
        let said = |ids: &[&[u8]]| {
            let frames: Vec<_> = ids.iter().map(|id| frame(7, id)).collect();
            Http3::default().receive(stream(0), &control(&frames), false)
        };
        assert_eq!(said(&[&[8], &[8], &[4], &[0]]), Ok(Some(0)));
        assert_eq!(said(&[&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]]), Ok(Some((1 << 62) - 4)));
        assert_eq!(said(&[&[4], &[8]]), Err(code::ID_ERROR), "it grows");
        for id in 1..4 {
            assert_eq!(said(&[&[id]]), Err(code::ID_ERROR), "{id} is no stream of a request");
        }
        for id in [&[][..], &[0, 0], &[0x40], &[0; 9]] {
            assert_eq!(said(&[id]), Err(code::FRAME_ERROR), "{id:?}");
        }
    }

    #[test]
    fn a_stream_that_ends_before_its_type_is_known_is_forgotten() {
        let mut http3 = Http3::default();
        for number in 0..100 {
            assert_eq!(http3.receive(stream(number), &[], true), Ok(None));
            assert_eq!(http3.receive(stream(1_000 + number), &[0x40], false), Ok(None));
            assert_eq!(http3.receive(stream(1_000 + number), &[], true), Ok(None));
        }
        assert!(http3.streams.is_empty());
        assert_eq!(http3.receive(stream(2_000), &control(&[frame(7, &[4])]), false), Ok(Some(4)));
    }

    proptest! {
        #[test]
        fn any_octets_are_read_without_harm(pieces in prop::collection::vec((0u64..3, prop::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..20)) {
            let mut http3 = Http3::default();
            for (id, octets, has_ended) in pieces {
                let _ = http3.receive(stream(id), &octets, has_ended);
                prop_assert!(http3.streams.len() <= 3);
            }
        }
    }
}
