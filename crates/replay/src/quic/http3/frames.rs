//! Frames of HTTP/3 off a stream of octets that comes in pieces (RFC 9114 §7): content is handed on as it comes, and of what
//! nobody wants nothing is kept.

use super::code;

/// Octets of a frame's header at most: two numbers of variable length (RFC 9000 §16).
const HEADER: usize = 16;

/// Types of frames (RFC 9114 §7.2).
pub mod kind {
    /// A part of a body.
    pub const DATA: u64 = 0x0;
    /// A field section.
    pub const HEADERS: u64 = 0x1;
    /// The end of a push.
    pub const CANCEL_PUSH: u64 = 0x3;
    /// What the sender allows.
    pub const SETTINGS: u64 = 0x4;
    /// A response that nobody asked for.
    pub const PUSH_PROMISE: u64 = 0x5;
    /// The sender takes no new requests.
    pub const GOAWAY: u64 = 0x7;
    /// How many pushes a client allows.
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// Those of HTTP/2 that HTTP/3 has not (RFC 9114 §7.2.8).
    pub const OF_HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];
}

/// Reads a number of variable length off `octets` (RFC 9000 §16); `None` while it is not all there.
pub fn take_number(octets: &mut &[u8]) -> Option<u64> {
    let first = *octets.first()?;
    let (number, rest) = octets.split_at_checked(1 << (first >> 6))?;
    *octets = rest;
    Some(number[1..].iter().fold(u64::from(first & 0x3f), |number, &octet| number << 8 | u64::from(octet)))
}

/// Appends a number below 2^30.
pub fn append_number(out: &mut Vec<u8>, number: usize) {
    match number {
        0..=0x3f => out.push(number as u8),
        0x40..=0x3fff => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        _ => out.extend_from_slice(&(number as u32 & 0x3fff_ffff | 0x8000_0000).to_be_bytes()),
    }
}

/// What to do with the content of a frame, decided by its type and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Hand it on when it is there as a whole.
    Collect,
    /// Hand it on as it comes.
    Stream,
    /// Pass it over.
    Skip,
}

/// A frame of which the end has not come.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: u64,
    /// Octets of its content that have not come.
    left: u64,
    treatment: Treatment,
}

/// The frames of one stream.
#[derive(Debug, Default)]
pub struct Frames {
    open: Option<Open>,
    /// What has come of a frame's header, or of content that is collected.
    kept: Vec<u8>,
}

/// What reads the frames of a stream.
pub trait Reader {
    /// Why a stream is read no further.
    type Fault;

    /// A frame of this type begins, whose content has so many octets.
    ///
    /// # Errors
    /// When it may not stand here.
    fn begin(&mut self, kind: u64, length: u64) -> Result<Treatment, Self::Fault>;

    /// Content of a frame: all of it, or the next part, as [`Self::begin`] has said.
    ///
    /// # Errors
    /// When it may not be that.
    fn content(&mut self, kind: u64, content: &[u8]) -> Result<(), Self::Fault>;
}

impl Frames {
    /// Takes octets of the stream.
    ///
    /// # Errors
    /// Those of `reader`.
    pub fn receive<R: Reader>(&mut self, mut octets: &[u8], reader: &mut R) -> Result<(), R::Fault> {
        loop {
            let open = match self.open {
                Some(open) => open,
                None => match self.take_header(&mut octets) {
                    Some((kind, left)) => Open { kind, left, treatment: reader.begin(kind, left)? },
                    None => return Ok(()),
                },
            };
            let count = usize::try_from(open.left).map_or(octets.len(), |left| left.min(octets.len()));
            let (content, rest) = octets.split_at(count);
            octets = rest;
            let left = open.left - count as u64;
            self.open = (left > 0).then_some(Open { left, ..open });
            self.hand_on(open, content, left == 0, reader)?;
            if left > 0 {
                return Ok(());
            }
        }
    }

    fn hand_on<R: Reader>(
        &mut self,
        Open { kind, treatment, .. }: Open,
        content: &[u8],
        is_whole: bool,
        reader: &mut R,
    ) -> Result<(), R::Fault> {
        match treatment {
            Treatment::Skip => Ok(()),
            Treatment::Stream => reader.content(kind, content),
            Treatment::Collect if is_whole && self.kept.is_empty() => reader.content(kind, content),
            Treatment::Collect => {
                self.kept.extend_from_slice(content);
                if !is_whole {
                    return Ok(());
                }
                reader.content(kind, &std::mem::take(&mut self.kept))
            }
        }
    }

    /// The type and length of the next frame; `None` while they are not all there.
    fn take_header(&mut self, octets: &mut &[u8]) -> Option<(u64, u64)> {
        let known = self.kept.len();
        if known == 0
            && let Some((header, used)) = header(octets)
        {
            *octets = &octets[used..];
            return Some(header);
        }
        let more = octets.len().min(HEADER - known);
        self.kept.extend_from_slice(&octets[..more]);
        let found = header(&self.kept);
        *octets = &octets[found.map_or(more, |(_, used)| used - known)..];
        if found.is_some() {
            self.kept.clear();
        }
        found.map(|(header, _)| header)
    }

    /// Whether the stream may end here: between two frames.
    ///
    /// # Errors
    /// That the connection is to be ended with H3_FRAME_ERROR (RFC 9114 §7.1).
    pub fn end(&self) -> Result<(), u32> {
        if self.open.is_none() && self.kept.is_empty() { Ok(()) } else { Err(code::FRAME_ERROR) }
    }
}

/// A frame's type and length, and how many octets they take.
fn header(octets: &[u8]) -> Option<((u64, u64), usize)> {
    let mut rest = octets;
    let header = (take_number(&mut rest)?, take_number(&mut rest)?);
    Some((header, octets.len() - rest.len()))
}

/// Takes a whole frame off `octets`: its type and content.
#[cfg(test)]
pub fn take_frame<'a>(octets: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let ((kind, length), used) = header(octets)?;
    let (content, rest) = octets[used..].split_at_checked(usize::try_from(length).ok()?)?;
    *octets = rest;
    Some((kind, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Notes what comes: even types are collected, odd ones come in parts, those from 0x20 on are passed over.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Notes {
        begun: Vec<(u64, u64)>,
        content: Vec<(u64, Vec<u8>)>,
    }

    impl Reader for Notes {
        type Fault = ();

        fn begin(&mut self, kind: u64, length: u64) -> Result<Treatment, ()> {
            self.begun.push((kind, length));
            if kind % 2 == 1 {
                self.content.push((kind, Vec::new()));
            }
            Ok(match kind {
                0x20.. => Treatment::Skip,
                _ if kind.is_multiple_of(2) => Treatment::Collect,
                _ => Treatment::Stream,
            })
        }

        fn content(&mut self, kind: u64, content: &[u8]) -> Result<(), ()> {
            match self.content.last_mut() {
                Some((last, parts)) if kind % 2 == 1 && *last == kind => parts.extend_from_slice(content),
                _ => self.content.push((kind, content.to_vec())),
            }
            Ok(())
        }
    }

    #[test]
    fn of_a_frame_that_is_passed_over_nothing_is_kept_however_long_it_says_it_is() {
        let (mut frames, mut notes) = (Frames::default(), Notes::default());
        frames.receive(&[0x21, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &mut notes).unwrap();
        for _ in 0..100 {
            frames.receive(&[7; 10_000], &mut notes).unwrap();
        }
        assert_eq!((notes.begun, frames.kept.capacity() <= HEADER), (vec![(0x21, (1 << 62) - 1)], true));
        assert_eq!(frames.end(), Err(code::FRAME_ERROR));
    }

    proptest! {
        #[test]
        fn frames_cut_anywhere_mean_the_same(
            contents in prop::collection::vec((0u8..0x26, prop::collection::vec(any::<u8>(), 0..200)), 0..12),
            cuts in prop::collection::vec(1usize..60, 1..20),
        ) {
            let mut octets = Vec::new();
            for (kind, content) in &contents {
                octets.push(*kind);
                append_number(&mut octets, content.len());
                octets.extend_from_slice(content);
            }
            let (mut whole, mut cut) = (Notes::default(), Notes::default());
            let mut frames = Frames::default();
            prop_assert_eq!((frames.receive(&octets, &mut whole), frames.end()), (Ok(()), Ok(())));
            let (mut frames, mut rest, mut cuts) = (Frames::default(), octets.as_slice(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                frames.receive(piece, &mut cut).unwrap();
                rest = behind;
            }
            prop_assert_eq!(frames.end(), Ok(()));
            prop_assert_eq!(&whole, &cut);
            let expected: Vec<_> = contents.iter().map(|(kind, content)| (u64::from(*kind), content.len() as u64)).collect();
            prop_assert_eq!(whole.begun, expected);
            if let Some((_, half)) = octets.split_last() {
                let mut frames = Frames::default();
                let received = frames.receive(half, &mut Notes::default());
                prop_assert_eq!((received, frames.end()), (Ok(()), Err(code::FRAME_ERROR)));
            }
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
