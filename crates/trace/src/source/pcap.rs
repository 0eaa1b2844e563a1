//! Classic pcap files, with microseconds or nanoseconds, in both byte orders.

use std::io;

use ldplayer_core::damage::Flaw;

use super::buffer::{Buffer, LazyPlace};
use super::packets::{Captured, Packets, SANE_LENGTH, without_fcs};
use crate::Tally;
use crate::packet::Frame;

/// Octets of the file header.
const FILE_HEADER: usize = 24;
/// Octets of a record header.
const RECORD_HEADER: usize = 16;
/// Octets scanned at a time for a plausible record after damage.
const SEARCH: usize = 64 * 1024;
/// Maximum plausible time between neighbouring records in seconds.
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

/// The link type, and the octets of frame check sequences: the field says in its upper four bits how many pairs of octets
/// those are, if the bit with the value 0x04000000 is set (draft-ietf-opsawg-pcap, section 4).
fn link_type(field: u32) -> (u32, usize) {
    let pairs = if field & 0x0400_0000 != 0 { field >> 28 } else { 0 };
    (field & 0xffff, 2 * pairs as usize)
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

/// A classic pcap being read.
pub(crate) struct Pcap {
    buffer: Buffer,
    format: Format,
    link: u32,
    /// Octets of the frame check sequence at the end of each frame.
    fcs: usize,
    /// The snapshot length declared by the file.
    snap: usize,
    /// Maximum accepted length of a packet in octets.
    longest: usize,
    number: u64,
    /// Seconds of the last two records; one of them may be damaged.
    last_seconds: [Option<i64>; 2],
}

impl Pcap {
    /// Parses the file header; `None` if the file ends within it.
    pub fn open(mut buffer: Buffer) -> io::Result<Option<Self>> {
        if let (true, Some(error)) = (buffer.peek(FILE_HEADER).len() < FILE_HEADER, buffer.error()) {
            return Err(error);
        }
        let head = buffer.peek(FILE_HEADER);
        let Some(format) = Format::of(head).filter(|_| head.len() >= FILE_HEADER) else { return Ok(None) };
        let snap = format.long(head, 16) as usize;
        let longest = snap.clamp(SANE_LENGTH, super::packets::MAX_LENGTH);
        let (link, fcs) = link_type(format.long(head, 20));
        buffer.consume(FILE_HEADER);
        Ok(Some(Self { buffer, format, link, fcs, snap, longest, number: 0, last_seconds: [None; 2] }))
    }

    /// Whether a header can be that of a record. Zeros, as from a lost disk block, cannot.
    fn is_sane(&self, record: &Record) -> bool {
        let fractions = if self.format.nanoseconds { 1_000_000_000 } else { 1_000_000 };
        let all_zero = record.seconds == 0 && record.fraction == 0 && record.captured | record.original == 0;
        record.captured <= self.longest && record.fraction < fractions && !all_zero
    }

    /// Whether a record is also consistent with those before it.
    fn is_plausible(&self, record: &Record) -> bool {
        let near = |last: &i64| (record.seconds - last).abs() <= PLAUSIBLE_S;
        let mut known = self.last_seconds.iter().flatten().peekable();
        let in_time = known.peek().is_none() || known.any(near);
        self.is_sane(record) && in_time && record.captured > 0 && record.captured <= record.original
    }

    /// Whether to read the current record: one with unusual lengths must be followed by a plausible one.
    #[inline]
    fn is_credible(&mut self, record: &Record) -> bool {
        let usual = record.captured == record.original || (record.captured == self.snap && self.snap < record.original);
        self.is_sane(record) && (usual || self.is_followed(record))
    }

    /// Whether a plausible record or the end of the file follows the current one.
    fn is_followed(&mut self, record: &Record) -> bool {
        let header = self.format.record_header;
        let next = header + record.captured;
        let seen = self.buffer.peek(next + header);
        if seen.len() < next + header {
            return seen.len() == next;
        }
        let followed = Record::read(self.format, &seen[next..]);
        self.is_plausible(&followed)
    }

    /// Skips to the next plausible record that is followed by another; `false` if there is none. Scans each octet once.
    #[cold]
    fn resynchronise(&mut self) -> bool {
        let header = self.format.record_header;
        self.buffer.consume(1);
        loop {
            self.buffer.peek(SEARCH + header);
            let seen = self.buffer.seen();
            let Some(last) = seen.len().checked_sub(header) else {
                self.buffer.consume_rest();
                return false;
            };
            let mut records = (0..=last).map(|at| (at, Record::read(self.format, &seen[at..])));
            match records.find(|(_, record)| self.is_plausible(record)) {
                None => self.buffer.consume(last + 1),
                Some((at, record)) => {
                    self.buffer.consume(at);
                    if self.is_followed(&record) {
                        return true;
                    }
                    self.buffer.consume(1);
                }
            }
        }
    }

    /// The current record; `None` at the end of the readable data.
    #[inline]
    fn record(&mut self, tally: &mut Tally, name: &str) -> Option<(Record, LazyPlace)> {
        let header = self.format.record_header;
        loop {
            let place = self.buffer.place(self.number + 1);
            let head = self.buffer.peek(header);
            let there = head.len();
            if there < header {
                if there > 0 || self.buffer.has_failed() {
                    let reason = self.buffer.end_within_record();
                    self.buffer.consume(there);
                    tally.damage(reason, there as u64, || place.named(name));
                }
                return None;
            }
            let record = Record::read(self.format, head);
            if self.is_credible(&record) && self.buffer.peek(header + record.captured).len() == header + record.captured
            {
                return Some((record, place));
            }
            if !self.recover(&record, place, tally, name) {
                return None;
            }
        }
    }

    /// Counts the damage of the current record and goes to the next readable one; `false` if there is none.
    #[cold]
    fn recover(&mut self, record: &Record, place: LazyPlace, tally: &mut Tally, name: &str) -> bool {
        let cut = self.is_sane(record) && self.buffer.is_at_end();
        let found = self.resynchronise();
        let reason = if cut && !found { self.buffer.end_within_record() } else { Flaw::BadRecord };
        tally.damage(reason, self.buffer.passed() - place.offset, || place.named(name));
        found
    }
}

impl Packets for Pcap {
    #[inline]
    fn next(&mut self, tally: &mut Tally, name: &str) -> Option<Captured<'_>> {
        let (record, place) = self.record(tally, name)?;
        self.number += 1;
        self.last_seconds = [Some(record.seconds), self.last_seconds[0]];
        let time_ns = record.time_ns(self.format);
        let cut = record.captured < record.original;
        let frame = Frame { number: self.number, offset: place.offset, time_ns, link: self.link, cut };
        let header = self.format.record_header;
        let length = without_fcs(record.captured, record.original, self.fcs);
        let octets = &self.buffer.take(header + record.captured)[header..header + length];
        Some(Captured { frame, octets })
    }

    fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames of a file with this field of the link type, each as it was captured and as long as it was on the link.
    fn read(field: u32, frames: &[(&[u8], u32)]) -> Vec<(u32, bool, Vec<u8>)> {
        let mut file = [&0xa1b2_c3d4_u32.to_be_bytes()[..], &[0, 2, 0, 4], &[0; 8], &[0, 4, 0, 0]].concat();
        file.extend_from_slice(&field.to_be_bytes());
        for (octets, original) in frames {
            for word in [1_475_762_100, 0, octets.len() as u32, *original] {
                file.extend_from_slice(&word.to_be_bytes());
            }
            file.extend_from_slice(octets);
        }
        let mut pcap = Pcap::open(Buffer::new(Box::new(io::Cursor::new(file)))).unwrap().unwrap();
        let (mut tally, mut read) = (Tally::default(), Vec::new());
        while let Some(captured) = pcap.next(&mut tally, "test") {
            read.push((captured.frame.link, captured.frame.cut, captured.octets.to_vec()));
        }
        assert!(tally.damaged.is_empty(), "{tally:?}");
        read
    }

    #[test]
    fn the_upper_bits_of_the_link_type_tell_of_frame_check_sequences() {
        let frame = |octets: &[u8], cut| (1, cut, octets.to_vec());
        // Four octets are two pairs.
        let whole = read(0x2400_0001, &[(b"abcFCS!", 7)]);
        assert_eq!(whole, [frame(b"abc", false)]);
        // Without the bit that marks it as present, nothing is removed.
        assert_eq!(read(0x2000_0001, &[(b"abcFCS!", 7)]), [frame(b"abcFCS!", false)]);
        // Of a truncated frame, only the captured part of the sequence is removed.
        let cut = read(0x2400_0001, &[(b"abcdeFC", 9), (b"abc", 9), (b"abc", 3)]);
        assert_eq!(cut, [frame(b"abcde", true), frame(b"abc", true), frame(b"", false)]);
    }
}
