//! Classic pcap files: microseconds and nanoseconds, both byte orders.

use std::io;

use super::buffer::Buffer;
use super::packets::{Captured, Frame, Packets, SANE_LENGTH};
use crate::Tally;

/// Octets of the file header.
const FILE_HEADER: usize = 24;
/// Octets of a record header.
const RECORD_HEADER: usize = 16;
/// How far a plausible record is searched for behind a damaged one.
const SEARCH: usize = 1 << 20;
/// How far apart the times of neighbouring records may be to be plausible, in seconds.
const PLAUSIBLE_S: i64 = 86_400;

/// Whether a file begins as a classic pcap.
pub(crate) fn is_pcap(head: &[u8]) -> bool {
    Format::of(head).is_some()
}

/// Byte order, unit of the fractions, and octets of a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    big_endian: bool,
    nanoseconds: bool,
    /// The patched format of some old Linux distributions has 8 more octets a record.
    record_header: usize,
}

impl Format {
    fn of(head: &[u8]) -> Option<Self> {
        let magic: [u8; 4] = head.get(..4)?.try_into().ok()?;
        [false, true].into_iter().find_map(|big_endian| {
            let number = if big_endian { u32::from_be_bytes(magic) } else { u32::from_le_bytes(magic) };
            let (nanoseconds, record_header) = match number {
                0xa1b2_c3d4 => (false, RECORD_HEADER),
                0xa1b2_3c4d => (true, RECORD_HEADER),
                0xa1b2_cd34 => (false, RECORD_HEADER + 8),
                _ => return None,
            };
            Some(Self { big_endian, nanoseconds, record_header })
        })
    }

    fn long(self, octets: &[u8], at: usize) -> u32 {
        let octets = [octets[at], octets[at + 1], octets[at + 2], octets[at + 3]];
        if self.big_endian { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) }
    }
}

/// A record header.
#[derive(Clone, Copy, Debug)]
struct Record {
    seconds: i64,
    fraction: u32,
    captured: usize,
    original: usize,
}

impl Record {
    fn read(format: Format, octets: &[u8]) -> Self {
        Self {
            seconds: i64::from(format.long(octets, 0)),
            fraction: format.long(octets, 4),
            captured: format.long(octets, 8) as usize,
            original: format.long(octets, 12) as usize,
        }
    }

    fn time_ns(&self, format: Format) -> i64 {
        let unit = if format.nanoseconds { 1 } else { 1_000 };
        self.seconds * 1_000_000_000 + i64::from(self.fraction) * unit
    }
}

/// A classic pcap that is read.
pub(crate) struct Pcap {
    buffer: Buffer,
    format: Format,
    link: u32,
    longest: usize,
    number: u64,
    last_seconds: Option<i64>,
}

impl Pcap {
    /// Reads the file header; `None` where the file ends before it does.
    pub fn open(mut buffer: Buffer) -> io::Result<Option<Self>> {
        let head = buffer.peek(FILE_HEADER)?;
        let Some(format) = Format::of(head).filter(|_| head.len() >= FILE_HEADER) else { return Ok(None) };
        let longest = (format.long(head, 16) as usize).clamp(SANE_LENGTH, super::packets::MAX_LENGTH);
        // The upper bits tell of frame check sequences.
        let link = format.long(head, 20) & 0x0fff_ffff;
        buffer.consume(FILE_HEADER);
        Ok(Some(Self { buffer, format, link, longest, number: 0, last_seconds: None }))
    }

    fn is_sane(&self, record: &Record) -> bool {
        let fractions = if self.format.nanoseconds { 1_000_000_000 } else { 1_000_000 };
        record.captured <= self.longest && record.fraction < fractions
    }

    fn is_plausible(&self, record: &Record) -> bool {
        let near = self.last_seconds.is_none_or(|last| (record.seconds - last).abs() <= PLAUSIBLE_S);
        self.is_sane(record) && near && record.captured > 0 && record.captured <= record.original
    }

    /// Looks for two plausible records in a row behind a damaged one; `false` when there are none.
    fn resynchronise(&mut self) -> io::Result<bool> {
        let header = self.format.record_header;
        let window = self.buffer.peek(SEARCH)?.to_vec();
        for at in 1..window.len().saturating_sub(header) {
            let record = Record::read(self.format, &window[at..]);
            if !self.is_plausible(&record) {
                continue;
            }
            let next = at + header + record.captured;
            let followed = window.get(next..next + header).map(|octets| Record::read(self.format, octets));
            let fits = followed.map_or(next == window.len(), |followed| self.is_plausible(&followed));
            if fits {
                self.buffer.consume(at);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Packets for Pcap {
    fn next(&mut self, tally: &mut Tally, name: &str) -> io::Result<Option<Captured<'_>>> {
        let header = self.format.record_header;
        loop {
            let place = self.buffer.place(self.number + 1);
            let head = self.buffer.peek(header)?;
            if head.len() < header {
                if !head.is_empty() {
                    tally.damage("truncated_capture", || place.named(name));
                }
                return Ok(None);
            }
            let record = Record::read(self.format, head);
            if !self.is_sane(&record) {
                tally.damage("bad_record", || place.named(name));
                if self.resynchronise()? {
                    continue;
                }
                return Ok(None);
            }
            if self.buffer.peek(header + record.captured)?.len() < header + record.captured {
                tally.damage("truncated_capture", || place.named(name));
                return Ok(None);
            }
            self.number += 1;
            self.last_seconds = Some(record.seconds);
            let frame = Frame {
                number: self.number,
                offset: place.offset,
                time_ns: record.time_ns(self.format),
                link: self.link,
            };
            let octets = &self.buffer.take(header + record.captured)[header..];
            return Ok(Some(Captured { frame, octets }));
        }
    }
}
