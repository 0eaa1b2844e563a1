//! Capture files of both formats: frames with a time and a link type.

use std::io;
use std::ops::Range;

use super::buffer::Buffer;
use super::pcap::Pcap;
use super::pcapng::{PcapNg, is_pcapng};
use crate::Tally;
use crate::packet::Frame;

/// Maximum frame length in files that do not declare a larger one.
pub(crate) const SANE_LENGTH: usize = 256 * 1024;
/// Maximum frame length in any file.
pub(crate) const MAX_LENGTH: usize = 16 << 20;

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Captured<'a> {
    /// Its metadata.
    pub frame: Frame,
    /// Its octets, as far as they were captured.
    pub octets: &'a [u8],
}

/// What comes next in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A frame; its octets are these of the last `record` ones taken from the buffer.
    Packet {
        /// The metadata.
        frame: Frame,
        /// Octets of the record.
        record: usize,
        /// The frame within the record.
        place: Range<usize>,
    },
    /// A file of the other format, put behind this one.
    Other,
    /// The end.
    End,
}

/// Octets of a frame without the frame check sequence at its end: `fcs` of the octets that it had on the link, of which
/// fewer may have been captured.
pub(crate) fn without_fcs(captured: usize, original: usize, fcs: usize) -> usize {
    captured.min(original.max(captured).saturating_sub(fcs))
}

/// A reader of one format.
enum Reader {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// Capture files of any format put behind each other, as `cat` does, as one; mostly it is one.
pub(crate) struct Files(Reader);

impl Files {
    /// The files in a buffer; `None` if it ends within the header of the first.
    pub fn open(mut buffer: Buffer) -> io::Result<Option<Self>> {
        if is_pcapng(buffer.peek(4)) {
            return Ok(Some(Self(Reader::PcapNg(PcapNg::new(buffer, 0)))));
        }
        Ok(Pcap::open(buffer, 0)?.map(|pcap| Self(Reader::Pcap(pcap))))
    }

    /// The next frame; `None` at the end. Damage of the file itself goes to `tally`, its place in the input `name`.
    pub fn next(&mut self, tally: &mut Tally, name: &str) -> Option<Captured<'_>> {
        loop {
            let next = match &mut self.0 {
                Reader::Pcap(pcap) => pcap.next(tally, name),
                Reader::PcapNg(pcapng) => pcapng.next(tally, name),
            };
            match next {
                Next::Packet { frame, record, place } => {
                    return Some(Captured { frame, octets: &self.buffer().taken(record)[place] });
                }
                Next::Other if self.change() => {}
                Next::Other | Next::End => return None,
            }
        }
    }

    /// Goes on with the other format. False where the header that was seen is not there.
    #[cold]
    fn change(&mut self) -> bool {
        let buffer = std::mem::replace(self.buffer(), Buffer::empty());
        let other = match &self.0 {
            Reader::Pcap(pcap) => Some(Reader::PcapNg(PcapNg::new(buffer, pcap.number()))),
            Reader::PcapNg(pcapng) => Pcap::open(buffer, pcapng.number()).ok().flatten().map(Reader::Pcap),
        };
        other.map(|other| self.0 = other).is_some()
    }

    /// The window over the input.
    pub fn buffer(&mut self) -> &mut Buffer {
        match &mut self.0 {
            Reader::Pcap(pcap) => pcap.buffer(),
            Reader::PcapNg(pcapng) => pcapng.buffer(),
        }
    }
}
