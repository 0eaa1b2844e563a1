//! Classic pcap files, with microseconds or nanoseconds, in both byte orders.

use std::io;

use ldplayer_core::damage::Flaw;

use super::buffer::{Buffer, LazyPlace};
use super::packets::{MAX_LENGTH, Next, SANE_LENGTH, without_fcs};
use super::pcapng;
use crate::Tally;
use crate::packet::Frame;

/// Octets of the file header.
pub(crate) const FILE_HEADER: usize = 24;
/// Octets of a record header.
const RECORD_HEADER: usize = 16;
/// Octets scanned at a time for a plausible record after damage.
const SEARCH: usize = 64 * 1024;
/// Maximum plausible time between neighbouring records in seconds, and maximum plausible distance of a time zone.
const PLAUSIBLE_S: i64 = 86_400;

/// Whether a file begins as a classic pcap.
pub(crate) fn is_pcap(head: &[u8]) -> bool {
    Format::of(head).is_some()
}

/// Whether the header of a file stands here, complete and with nothing in it that no writer writes: octets within a file are looked at,
/// too.
pub(crate) fn begins_file(octets: &[u8]) -> bool {
    FileHeader::of(octets).is_some_and(|header| header.is_plausible)
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

/// What a file header says of the records behind it.
#[derive(Clone, Copy, Debug)]
struct FileHeader {
    format: Format,
    link: u32,
    /// Octets of the frame check sequence at the end of each frame.
    fcs: usize,
    /// The snapshot length declared by the file.
    snap: usize,
    /// Whether all fields have values that writers give them.
    is_plausible: bool,
}

impl FileHeader {
    /// Reads it; `None` if it is incomplete or none.
    fn of(head: &[u8]) -> Option<Self> {
        let format = Format::of(head).filter(|_| head.len() >= FILE_HEADER)?;
        let [version, zone, accuracy, snap, field] = [4, 8, 12, 16, 20].map(|at| format.long(head, at));
        // The version is two numbers of two octets.
        let version = if format.big_endian { version.rotate_right(16) } else { version };
        let (link, fcs) = link_type(field);
        let is_plausible = (version & 0xffff == 2 && version >> 16 <= 4)
            && i64::from(zone as i32).abs() <= PLAUSIBLE_S
            && accuracy <= 9
            && (field & 0x03ff_ffff) < 0x1_0000;
        Some(Self { format, link, fcs, snap: snap as usize, is_plausible })
    }

    /// Maximum accepted length of a packet in octets.
    fn longest(&self) -> usize {
        self.snap.clamp(SANE_LENGTH, MAX_LENGTH)
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

    /// Whether it may well be the neighbour of another. Most are; of the others, more than this is looked at.
    fn is_like(&self, other: &Self) -> bool {
        let is_near = (self.seconds - other.seconds).abs() <= PLAUSIBLE_S;
        is_near && self.captured > 0 && self.captured <= self.original
    }

    fn time_ns(&self, format: Format) -> i64 {
        let unit = if format.nanoseconds { 1 } else { 1_000 };
        self.seconds * 1_000_000_000 + i64::from(self.fraction) * unit
    }
}

/// A classic pcap being read, and further ones of this format behind it in the file.
pub(crate) struct Pcap {
    buffer: Buffer,
    file: FileHeader,
    /// Maximum accepted length of a packet in octets.
    longest: usize,
    number: u64,
    /// Seconds of the last two records of this file; one of them may be damaged.
    last_seconds: [Option<i64>; 2],
    /// Whether another file has begun whose header is damaged: what its records are is unknown.
    is_lost: bool,
}

impl Pcap {
    /// Parses the file header, behind other files with this `number` of packets; `None` if the file ends within it.
    pub fn open(mut buffer: Buffer, number: u64) -> io::Result<Option<Self>> {
        if let (true, Some(error)) = (buffer.peek(FILE_HEADER).len() < FILE_HEADER, buffer.error()) {
            return Err(error);
        }
        let Some(file) = FileHeader::of(buffer.peek(FILE_HEADER)) else { return Ok(None) };
        buffer.consume(FILE_HEADER);
        let longest = file.longest();
        Ok(Some(Self { buffer, file, longest, number, last_seconds: [None; 2], is_lost: false }))
    }

    /// The window over the file.
    pub fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// Packets so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether a header can be a record's. Zeros, as from a lost disk block, cannot.
    fn is_sane(&self, record: &Record) -> bool {
        let fractions = if self.file.format.nanoseconds { 1_000_000_000 } else { 1_000_000 };
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
        let usual = record.captured == record.original
            || (record.captured == self.file.snap && self.file.snap < record.original);
        self.is_sane(record) && (usual || self.is_followed(record))
    }

    /// Whether a plausible record, another file or the end follows the current record.
    fn is_followed(&mut self, record: &Record) -> bool {
        let header = self.file.format.record_header;
        let (format, next) = (self.file.format, header + record.captured);
        let seen = self.buffer.peek(next + FILE_HEADER);
        let behind = seen.get(next..).unwrap_or_default();
        if behind.len() < header {
            return seen.len() == next;
        }
        let (is_file, followed) = (begins_any(behind), Record::read(format, behind));
        is_file || self.is_plausible(&followed)
    }

    /// Skips to the next plausible record that is followed by another, or to the next file; `false` if there is none. Scans each octet
    /// once.
    #[cold]
    fn resynchronise(&mut self) -> bool {
        let header = self.file.format.record_header;
        self.buffer.consume(1);
        loop {
            self.buffer.peek(SEARCH + FILE_HEADER);
            let shortest = if self.buffer.is_at_end() { header } else { FILE_HEADER };
            let seen = self.buffer.seen();
            let Some(last) = seen.len().checked_sub(shortest) else {
                self.buffer.consume_rest();
                return false;
            };
            let fits = |octets: &[u8]| !self.is_lost && self.is_plausible(&Record::read(self.file.format, octets));
            match (0..=last).find(|&at| begins_any(&seen[at..]) || fits(&seen[at..])) {
                None => self.buffer.consume(last + 1),
                Some(at) => {
                    self.buffer.consume(at);
                    let head = self.buffer.peek(FILE_HEADER);
                    if begins_any(head) {
                        return true;
                    }
                    let record = Record::read(self.file.format, head);
                    if self.is_followed(&record) {
                        // Rather another file than a record with its header inside.
                        let file = self.file_within(header + record.captured);
                        self.buffer.consume(file.unwrap_or(0));
                        return true;
                    }
                    self.buffer.consume(1);
                }
            }
        }
    }

    /// Begins a file that was put behind this one, if its header is the next.
    ///
    /// A record may have a time that looks like the first octets of a header. What is neither that nor a plausible record is a
    /// damaged header: of the records behind it, the byte order and the unit of times are unknown.
    #[cold]
    fn begins_file(&mut self) -> bool {
        let head = self.buffer.peek(FILE_HEADER);
        if let Some(file) = FileHeader::of(head).filter(|file| file.is_plausible) {
            self.buffer.consume(FILE_HEADER);
            (self.file, self.longest) = (file, file.longest());
            (self.last_seconds, self.is_lost) = ([None; 2], false);
            return true;
        }
        let record = (head.len() >= RECORD_HEADER).then(|| Record::read(self.file.format, head));
        let is_section = pcapng::begins_section(head);
        self.is_lost |= !is_section && !record.is_some_and(|record| self.is_plausible(&record));
        false
    }

    /// Where in the current record, of this length with its header, another file begins, if what follows is no record: then the end of
    /// this file is missing.
    #[cold]
    fn file_within(&mut self, length: usize) -> Option<usize> {
        let seen = self.buffer.peek(length + FILE_HEADER);
        (1..length.min(seen.len())).find(|&at| begins_any(&seen[at..]))
    }

    /// The current record; `None` at the end of the readable data, and where a file of the other format begins.
    #[inline]
    fn record(&mut self, tally: &mut Tally, name: &str) -> Option<(Record, LazyPlace)> {
        loop {
            let header = self.file.format.record_header;
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
            let record = Record::read(self.file.format, head);
            if may_begin(head) {
                if self.begins_file() {
                    continue;
                }
                if pcapng::begins_section(self.buffer.peek(FILE_HEADER)) {
                    return None;
                }
            }
            match self.extent(&record) {
                Some(length) if length == header + record.captured => return Some((record, place)),
                Some(length) => {
                    // The end of this file is missing, and another file follows.
                    self.buffer.consume(length);
                    tally.damage(Flaw::BadRecord, length as u64, || place.named(name));
                }
                None if self.recover(&record, place, tally, name) => {}
                None => return None,
            }
        }
    }

    /// Octets of the current record, up to another file in the middle of it; `None` if it is no record or not complete.
    #[inline]
    fn extent(&mut self, record: &Record) -> Option<usize> {
        if self.is_lost || !self.is_credible(record) {
            return None;
        }
        let (format, header) = (self.file.format, self.file.format.record_header);
        let length = header + record.captured;
        let seen = self.buffer.peek(length + header);
        let (there, behind) = (seen.len(), seen.get(length..).unwrap_or_default());
        let next = (behind.len() >= header).then(|| (may_begin(behind), Record::read(format, behind)));
        // The header of another file may just fill the missing rest of this record.
        let is_filled = length.checked_sub(FILE_HEADER).is_some_and(|at| may_begin(seen.get(at..).unwrap_or_default()));
        let is_followed = match next {
            Some((may_begin, next)) => may_begin || self.is_sane(&next) && next.is_like(record),
            None => there == length,
        };
        if is_followed && !is_filled {
            return Some(length);
        }
        self.file_within(length).or((there >= length).then_some(length))
    }

    /// Counts the damage of the current record and goes to the next readable one; `false` if there is none.
    #[cold]
    fn recover(&mut self, record: &Record, place: LazyPlace, tally: &mut Tally, name: &str) -> bool {
        let is_short = self.is_sane(record) && !self.is_lost || self.buffer.seen().len() < FILE_HEADER;
        let cut = is_short && self.buffer.is_at_end();
        let found = self.resynchronise();
        let reason = if cut && !found { self.buffer.end_within_record() } else { Flaw::BadRecord };
        tally.damage(reason, self.buffer.passed() - place.offset, || place.named(name));
        found
    }
}

impl Pcap {
    /// What comes next. Damage of the file itself goes to `tally`, its place in the input `name`.
    #[inline]
    pub fn next(&mut self, tally: &mut Tally, name: &str) -> Next {
        let Some((record, place)) = self.record(tally, name) else {
            let other = pcapng::begins_section(self.buffer.peek(FILE_HEADER));
            return if other { Next::Other } else { Next::End };
        };
        self.number += 1;
        self.last_seconds = [Some(record.seconds), self.last_seconds[0]];
        let time_ns = record.time_ns(self.file.format);
        let cut = record.captured < record.original;
        let frame =
            Frame { number: self.number, offset: place.offset, time_ns, link: self.file.link, cut, interface: 0 };
        let header = self.file.format.record_header;
        let length = without_fcs(record.captured, record.original, self.file.fcs);
        self.buffer.consume(header + record.captured);
        Next::Packet { frame, record: header + record.captured, place: header..header + length }
    }
}

/// Whether the first four octets begin a capture file of any format.
#[inline]
fn may_begin(octets: &[u8]) -> bool {
    const FIRST: [u32; 7] = [0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1, 0xa1b2_cd34, 0x34cd_b2a1, 0x0a0d_0d0a];
    octets.first_chunk().is_some_and(|first| FIRST.contains(&u32::from_le_bytes(*first)))
}

/// Whether a capture file of any format begins here.
pub(crate) fn begins_any(octets: &[u8]) -> bool {
    begins_file(octets) || pcapng::begins_section(octets)
}

#[cfg(test)]
mod tests {
    use super::super::packets::Files;
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
        let mut pcap = Files::open(Buffer::new(Box::new(io::Cursor::new(file)))).unwrap().unwrap();
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
