//! Frame Streams, the container of dnstap: length-prefixed data frames between control frames.
//!
//! A length of zero announces a control frame (its own length and its type follow); all numbers are big-endian. The format
//! is that of the fstrm library, written down in the header `fstrm/control.h`.

use ldplayer_core::damage::Flaw;

use super::buffer::{Buffer, LazyPlace};
use crate::Tally;

/// Maximum plausible length of a frame in octets: two messages of 64 KiB with metadata need far less.
pub(crate) const MAX_FRAME: usize = 1 << 20;
/// Maximum length of a control frame in octets, as in the fstrm library.
pub(crate) const MAX_CONTROL: usize = 512;
/// Size of a length field in octets.
const LENGTH: usize = 4;
/// Octets scanned at a time for the next frame after damage.
const SEARCH: usize = 64 * 1024;
/// The control field with the content type.
const CONTENT_TYPE: u32 = 1;

/// Types of control frames.
pub(crate) mod control {
    /// The answer to READY: frames may be sent.
    pub const ACCEPT: u32 = 1;
    /// Frames follow.
    pub const START: u32 = 2;
    /// No more frames follow.
    pub const STOP: u32 = 3;
    /// A sender asks to begin.
    pub const READY: u32 = 4;
    /// The answer to STOP.
    pub const FINISH: u32 = 5;
}

/// Whether data begin with the control frame of a new stream.
pub(crate) fn is_framestream(head: &[u8]) -> bool {
    let word = |at: usize| head.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes);
    let sane = word(4).is_some_and(|length| (4..=MAX_CONTROL as u32).contains(&length));
    word(0) == Some(0) && sane && matches!(word(8), Some(control::START | control::READY))
}

/// A control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Its type, one of [`control`] if it is known.
    pub kind: u32,
    /// Its content types.
    pub contents: Vec<Vec<u8>>,
}

impl Control {
    /// A control frame of this type with one content type or none.
    pub fn new(kind: u32, content: Option<&[u8]>) -> Self {
        Self { kind, contents: content.map(<[u8]>::to_vec).into_iter().collect() }
    }

    /// Reads what follows the length of a control frame; `None` where it is damaged.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let (kind, mut rest) = octets.split_first_chunk()?;
        let mut contents = Vec::new();
        while !rest.is_empty() {
            let (field, behind) = rest.split_first_chunk()?;
            let (length, behind) = behind.split_first_chunk()?;
            let (value, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            if u32::from_be_bytes(*field) == CONTENT_TYPE {
                contents.push(value.to_vec());
            }
            rest = behind;
        }
        Some(Self { kind: u32::from_be_bytes(*kind), contents })
    }

    /// The frame with the zero and the length before it.
    pub fn compose(&self) -> Vec<u8> {
        let fields: usize = self.contents.iter().map(|content| 8 + content.len()).sum();
        let mut octets = Vec::with_capacity(12 + fields);
        for word in [0, 4 + fields as u32, self.kind] {
            octets.extend_from_slice(&word.to_be_bytes());
        }
        for content in &self.contents {
            octets.extend_from_slice(&CONTENT_TYPE.to_be_bytes());
            octets.extend_from_slice(&(content.len() as u32).to_be_bytes());
            octets.extend_from_slice(content);
        }
        octets
    }

    /// Whether the stream may carry this content type: it declares it, or none.
    pub fn allows(&self, content: &[u8]) -> bool {
        self.contents.is_empty() || self.contents.iter().any(|mine| mine == content)
    }
}

/// A stream of frames being read. After a damaged frame, reading resumes at the next plausible one.
pub(crate) struct Frames {
    buffer: Buffer,
    /// Whether octets can be the content of a frame; used to resynchronise.
    plausible: fn(&[u8]) -> bool,
    /// Frames found so far, damaged ones included.
    number: u64,
}

impl Frames {
    /// The frames of a stream.
    pub fn new(buffer: Buffer, plausible: fn(&[u8]) -> bool) -> Self {
        Self { buffer, plausible, number: 0 }
    }

    /// The control frame at the start of the stream, left in place; `None` where it is damaged.
    pub fn head(&mut self) -> Option<Control> {
        let length = control_length(self.buffer.peek(2 * LENGTH))?;
        Control::parse(self.buffer.peek(2 * LENGTH + length).get(2 * LENGTH..2 * LENGTH + length)?)
    }

    /// The window over the stream.
    pub fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// The next frame and where it begins; `None` at the end. Damage goes to `tally`, its place in the input `name`.
    pub fn next(&mut self, tally: &mut Tally, name: &str) -> Option<(LazyPlace, &[u8])> {
        loop {
            let place = self.buffer.place(self.number + 1);
            let head = self.buffer.peek(LENGTH);
            if head.is_empty() {
                if self.buffer.has_failed() {
                    tally.damage(Flaw::UnreadableRest, 0, || place.named(name));
                }
                return None;
            }
            if let Some(length) = self.control() {
                self.buffer.consume(2 * LENGTH + length);
                continue;
            }
            self.number += 1;
            if let Some(length) = self.whole() {
                self.buffer.consume(LENGTH);
                return Some((place, self.buffer.take(length)));
            }
            let whole_length = self.is_cut();
            let found = self.search();
            let reason = if whole_length && !found { self.buffer.end_within_record() } else { Flaw::BadFrame };
            tally.damage(reason, self.buffer.passed() - place.offset, || place.named(name));
            if !found {
                return None;
            }
        }
    }

    /// Length of the current frame, if it is a control frame.
    fn control(&mut self) -> Option<usize> {
        let length = control_length(self.buffer.peek(2 * LENGTH))?;
        let octets = self.buffer.peek(2 * LENGTH + length).get(2 * LENGTH..)?;
        (octets.len() == length).then(|| Control::parse(octets))?.map(|_| length)
    }

    /// Length of the current frame, if it is complete and plausible.
    fn whole(&mut self) -> Option<usize> {
        let length = frame_length(self.buffer.peek(LENGTH))?;
        let octets = self.buffer.peek(LENGTH + length).get(LENGTH..)?;
        (octets.len() == length && (self.plausible)(octets)).then_some(length)
    }

    /// Whether the stream ends within the current frame.
    fn is_cut(&mut self) -> bool {
        let head = self.buffer.peek(2 * LENGTH);
        let control = control_length(head).map(|length| 2 * LENGTH + length);
        let wanted = frame_length(head).map(|length| LENGTH + length).or(control).unwrap_or(2 * LENGTH);
        self.buffer.peek(wanted).len() < wanted
    }

    /// Skips to the next frame; `false` if there is none.
    fn search(&mut self) -> bool {
        self.buffer.consume(1);
        loop {
            let seen = self.buffer.peek(SEARCH);
            let candidate = seen.windows(LENGTH + 1).position(may_begin);
            match candidate {
                Some(at) => {
                    self.buffer.consume(at);
                    if self.whole().is_some() {
                        return true;
                    }
                    self.buffer.consume(1);
                }
                None => {
                    let passed = seen.len().saturating_sub(LENGTH);
                    if passed == 0 || self.buffer.is_at_end() {
                        self.buffer.consume(passed + LENGTH);
                        return false;
                    }
                    self.buffer.consume(passed);
                }
            }
        }
    }
}

/// Length of the control frame that begins here, if any.
fn control_length(head: &[u8]) -> Option<usize> {
    let (zero, rest) = head.split_first_chunk::<LENGTH>()?;
    let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    (u32::from_be_bytes(*zero) == 0 && (4..=MAX_CONTROL).contains(&length)).then_some(length)
}

/// Length of the frame that begins here, if plausible.
fn frame_length(head: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*head.first_chunk()?) as usize;
    (1..=MAX_FRAME).contains(&length).then_some(length)
}

/// Whether a frame of Protocol Buffers may begin here: a sane length, and the key of a low field of any encoding.
fn may_begin(octets: &[u8]) -> bool {
    frame_length(octets).is_some() && octets[LENGTH] & 0x80 == 0 && octets[LENGTH] >> 3 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn frames(octets: &[u8]) -> Frames {
        let reader = Box::new(io::Cursor::new(octets.to_vec()));
        Frames::new(Buffer::new(reader), |frame| matches!(frame, [8, _]))
    }

    fn frame(octets: &[u8]) -> Vec<u8> {
        [&(octets.len() as u32).to_be_bytes(), octets].concat()
    }

    /// The second octet of each frame, and the damage.
    fn read(octets: &[u8]) -> (Vec<u8>, Tally) {
        let (mut frames, mut tally, mut found) = (frames(octets), Tally::default(), Vec::new());
        while let Some((_, frame)) = frames.next(&mut tally, "f") {
            found.push(frame[1]);
        }
        (found, tally)
    }

    fn stream() -> Vec<u8> {
        let start = Control::new(control::START, Some(b"protobuf:x")).compose();
        let stop = Control::new(control::STOP, None).compose();
        [start, frame(&[8, 1]), frame(&[8, 2]), frame(&[8, 3]), stop].concat()
    }

    #[test]
    fn control_frames_are_read_back() {
        for control in [Control::new(control::READY, Some(b"protobuf:x")), Control::new(control::FINISH, None)] {
            let octets = control.compose();
            assert_eq!(Control::parse(&octets[8..]), Some(control.clone()));
            assert_eq!(is_framestream(&octets), control.kind == control::READY);
            assert_eq!(frames(&octets).head(), Some(control));
        }
        assert!(Control::new(control::START, Some(b"a")).allows(b"a"));
        assert!(!Control::new(control::START, Some(b"a")).allows(b"b"));
        assert_eq!(Control::parse(&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 9, b'x']), None);
    }

    #[test]
    fn frames_come_in_order_whatever_control_frames_are_between_them() {
        assert_eq!(read(&stream()), (vec![1, 2, 3], Tally::default()));
        assert_eq!(read(&[stream(), stream()].concat()), (vec![1, 2, 3, 1, 2, 3], Tally::default()));
    }

    #[test]
    fn a_stream_cut_off_keeps_what_came_before() {
        let octets = stream();
        for cut in 1..6 {
            let (found, tally) = read(&octets[..octets.len() - 12 - cut]);
            assert_eq!(found, [1, 2]);
            assert_eq!(tally.damaged.len(), 1, "{cut}: {tally:?}");
            let first = &tally.damaged[0];
            assert_eq!((first.reason.as_str(), first.first.packet), ("truncated_capture", 3), "{cut}");
        }
        let (found, tally) = read(&octets[..octets.len() - 3]);
        assert_eq!((found.len(), tally.damaged[0].reason.as_str()), (3, "truncated_capture"));
    }

    #[test]
    fn a_wrong_length_costs_its_frame_only() {
        let (start, octets) = (stream().len() - 12 - 18, stream());
        for length in [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 7], [0xff, 0, 0, 0], [0, 0, 1, 0]] {
            let mut octets = octets.clone();
            octets[start + 6..start + 10].copy_from_slice(&length);
            let (found, tally) = read(&octets);
            assert_eq!(found, [1, 3], "{length:?}");
            assert_eq!((tally.damaged[0].reason, tally.damaged[0].first.packet), (Flaw::BadFrame, 2), "{length:?}");
            assert_eq!(tally.damaged[0].first.offset, start as u64 + 6);
        }
    }
}
