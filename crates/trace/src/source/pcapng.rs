//! pcapng files: sections, interfaces, and enhanced, simple and obsolete packet blocks; other blocks are skipped.

use ldplayer_core::damage::Flaw;

use super::buffer::{Buffer, LazyPlace};
use super::packets::{MAX_LENGTH, Next, without_fcs};
use super::pcap;
use crate::Tally;
use crate::packet::Frame;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Size of the block frame: type, length, and length again at the end.
const FRAMING: usize = 12;
const OPTION_END: u16 = 0;
const OPTION_TSRESOL: u16 = 9;
const OPTION_FCSLEN: u16 = 13;
const OPTION_TSOFFSET: u16 = 14;
/// Maximum number of interfaces in a section.
const MAX_INTERFACES: usize = 65_536;

/// Octets scanned at a time for a block after damage.
const SEARCH: usize = 64 * 1024;

/// Whether a file begins as a pcapng.
pub(crate) fn is_pcapng(head: &[u8]) -> bool {
    head.starts_with(&SECTION.to_be_bytes())
}

/// Whether a section begins here, with its byte order.
pub(crate) fn begins_section(head: &[u8]) -> bool {
    is_pcapng(head) && head.get(8..12).is_some_and(|magic| byte_order(magic).is_some())
}

/// An interface of the current section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    link: u32,
    snap: usize,
    /// Timestamp units per second.
    units: u64,
    /// Seconds to add to each timestamp.
    offset_s: i64,
    /// Octets of the frame check sequence at the end of each frame.
    fcs: usize,
}

/// A pcapng file being read.
pub(crate) struct PcapNg {
    buffer: Buffer,
    section: Section,
    number: u64,
    last_time: i64,
}

/// The header of a block.
#[derive(Clone, Copy)]
struct Header {
    kind: u32,
    length: usize,
    big_endian: bool,
}

/// The state of a section.
#[derive(Default)]
struct Section {
    big_endian: bool,
    /// By number; a damaged description still takes one, so that the others keep theirs.
    interfaces: Vec<Option<Interface>>,
}

/// The position of packet data in a block.
struct Body {
    time_ns: Option<i64>,
    link: u32,
    from: usize,
    to: usize,
    cut: bool,
    interface: u32,
}

impl PcapNg {
    /// A reader at the start of a file, which is behind others with this `number` of packets.
    pub fn new(buffer: Buffer, number: u64) -> Self {
        Self { buffer, section: Section::default(), number, last_time: 0 }
    }

    /// The window over the file.
    pub fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// Packets so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Type and length of the current block; `None` at the end of the readable data, and where a pcap file begins.
    fn block(&mut self, tally: &mut Tally, name: &str) -> Option<(u32, usize)> {
        loop {
            let place = self.buffer.place(self.number + 1);
            if pcap::begins_file(self.buffer.peek(pcap::FILE_HEADER)) {
                return None;
            }
            self.buffer.peek(FRAMING);
            let head = self.buffer.seen();
            let there = head.len();
            if there < FRAMING {
                if there > 0 || self.buffer.has_failed() {
                    let reason = self.buffer.end_within_record();
                    self.buffer.consume(there);
                    tally.damage(reason, there as u64, || place.named(name));
                }
                return None;
            }
            if let Some(block) = self.header(head).filter(|block| self.is_whole(block.length)) {
                if let Some(cut) = self.file_within(&block) {
                    // The end of this file is missing, and another file follows.
                    self.buffer.consume(cut);
                    tally.damage(Flaw::BadBlock, cut as u64, || place.named(name));
                    continue;
                }
                if block.kind == SECTION {
                    self.section = Section { big_endian: block.big_endian, interfaces: Vec::new() };
                }
                return Some((block.kind, block.length));
            }
            if !self.recover(place, tally, name) {
                return None;
            }
        }
    }

    /// Parses type and length; `None` if implausible.
    fn header(&self, head: &[u8]) -> Option<Header> {
        let big_endian = if is_pcapng(head) { byte_order(&head[8..12])? } else { self.section.big_endian };
        let order = Section { big_endian, interfaces: Vec::new() };
        let (kind, length) = (order.long_at(head, 0)?, order.length(head)?);
        Some(Header { kind, length, big_endian })
    }

    /// Whether the current block is complete, with its length repeated at the end.
    fn is_whole(&mut self, length: usize) -> bool {
        let block = self.buffer.peek(length);
        block.len() == length && block[4..8] == block[length - 4..]
    }

    /// Where in the current block another file begins, if what follows is no block.
    fn file_within(&mut self, block: &Header) -> Option<usize> {
        let section = Section { big_endian: block.big_endian, interfaces: Vec::new() };
        let seen = self.buffer.peek(block.length + pcap::FILE_HEADER);
        let behind = seen.get(block.length..).filter(|behind| behind.len() >= FRAMING)?;
        let is_known = section.long_at(behind, 0).is_some_and(is_known) && section.length(behind).is_some();
        if is_known || pcap::begins_any(behind) {
            return None;
        }
        (1..block.length).find(|&at| pcap::begins_any(&seen[at..]))
    }

    /// Counts the damage of the current block and goes to the next readable one; `false` if there is none.
    #[cold]
    fn recover(&mut self, place: LazyPlace, tally: &mut Tally, name: &str) -> bool {
        let cut = self.buffer.is_at_end()
            && self.header(self.buffer.seen()).is_some_and(|block| block.length > self.buffer.seen().len());
        let found = self.resynchronise();
        let reason = if cut && !found { self.buffer.end_within_record() } else { Flaw::BadBlock };
        tally.damage(reason, self.buffer.passed() - place.offset, || place.named(name));
        found
    }

    /// Skips to the next complete block of a known type, or file; `false` if there is none. Scans each octet once.
    fn resynchronise(&mut self) -> bool {
        self.buffer.consume(1);
        loop {
            self.buffer.peek(SEARCH + pcap::FILE_HEADER);
            let shortest = if self.buffer.is_at_end() { FRAMING } else { pcap::FILE_HEADER };
            let seen = self.buffer.seen();
            let Some(last) = seen.len().checked_sub(shortest) else {
                self.buffer.consume_rest();
                return false;
            };
            let known = |block: &Header| is_known(block.kind);
            let found = |octets: &[u8]| match pcap::begins_file(octets) {
                true => Some(0),
                false => self.header(octets).filter(known).map(|block| block.length),
            };
            match (0..=last).find_map(|at| Some((at, found(&seen[at..])?))) {
                None => self.buffer.consume(last + 1),
                Some((at, length)) => {
                    self.buffer.consume(at);
                    if length == 0 || self.is_whole(length) {
                        return true;
                    }
                    self.buffer.consume(1);
                }
            }
        }
    }
}

impl Section {
    fn long(&self, octets: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) }
    }

    fn signed(&self, value: &[u8]) -> Option<i64> {
        let octets = value.get(..8)?.try_into().ok()?;
        Some(if self.big_endian { i64::from_be_bytes(octets) } else { i64::from_le_bytes(octets) })
    }

    fn word_at(&self, octets: &[u8], at: usize) -> Option<u16> {
        let octets = [*octets.get(at)?, *octets.get(at + 1)?];
        Some(if self.big_endian { u16::from_be_bytes(octets) } else { u16::from_le_bytes(octets) })
    }

    /// Length of the block that begins here; `None` if implausible.
    fn length(&self, head: &[u8]) -> Option<usize> {
        let length = self.long_at(head, 4)? as usize;
        (length >= FRAMING && length.is_multiple_of(4) && length <= MAX_LENGTH).then_some(length)
    }

    fn long_at(&self, octets: &[u8], at: usize) -> Option<u32> {
        Some(self.long(octets.get(at..at + 4)?.try_into().ok()?))
    }

    /// Adds an interface description block; `false` if it is damaged or exceeds the limit.
    fn add_interface(&mut self, block: &[u8]) -> bool {
        let interface = self.interface(block).filter(|_| self.interfaces.len() < MAX_INTERFACES);
        if self.interfaces.len() < MAX_INTERFACES {
            self.interfaces.push(interface);
        }
        interface.is_some()
    }

    /// Parses an interface description block.
    fn interface(&self, block: &[u8]) -> Option<Interface> {
        let mut interface = Interface {
            link: u32::from(self.word_at(block, 8)?),
            snap: self.long_at(block, 12)? as usize,
            units: 1_000_000,
            offset_s: 0,
            fcs: 0,
        };
        let options = block.get(16..block.len() - 4)?;
        let mut at = 0;
        while let (Some(code), Some(length)) = (self.word_at(options, at), self.word_at(options, at + 2)) {
            let value = options.get(at + 4..at + 4 + usize::from(length))?;
            match code {
                OPTION_TSRESOL => interface.units = units(*value.first()?)?,
                OPTION_FCSLEN => interface.fcs = fcs_octets(*value.first()?),
                OPTION_TSOFFSET => interface.offset_s = self.signed(value)?,
                OPTION_END => break,
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        Some(interface)
    }

    /// The packet of a block; `None` if the block is damaged.
    fn body(&self, kind: u32, block: &[u8]) -> Option<Body> {
        let number = match kind {
            ENHANCED_PACKET => self.long_at(block, 8)? as usize,
            PACKET => usize::from(self.word_at(block, 8)?),
            _ => 0,
        };
        let interface = (*self.interfaces.get(number)?)?;
        if kind == SIMPLE_PACKET {
            let snap = if interface.snap == 0 { usize::MAX } else { interface.snap };
            let original = self.long_at(block, 8)? as usize;
            let captured = original.min(snap).min(block.len().checked_sub(16)?);
            let to = 12 + without_fcs(captured, original, interface.fcs);
            return Some(Body {
                time_ns: None,
                link: interface.link,
                from: 12,
                to,
                cut: captured < original,
                interface: 0,
            });
        }
        let stamp = u64::from(self.long_at(block, 12)?) << 32 | u64::from(self.long_at(block, 16)?);
        let (captured, original) = (self.long_at(block, 20)? as usize, self.long_at(block, 24)? as usize);
        let time_ns = Some(interface.time_ns(stamp)?);
        let to = 28 + without_fcs(captured, original, interface.fcs);
        let body =
            Body { time_ns, link: interface.link, from: 28, to, cut: captured < original, interface: number as u32 };
        (28 + captured + 4 <= block.len()).then_some(body)
    }
}

impl Interface {
    fn time_ns(&self, stamp: u64) -> Option<i64> {
        let ns = u128::from(stamp) * 1_000_000_000 / u128::from(self.units);
        i64::try_from(ns).ok()?.checked_add(self.offset_s.checked_mul(1_000_000_000)?)
    }
}

/// Octets from if_fcslen. The specification counts bits, Wireshark octets; the plausible values of the two do not
/// overlap.
fn fcs_octets(length: u8) -> usize {
    usize::from(if length >= 16 { length / 8 } else { length })
}

/// Units in a second from if_tsresol: a power of ten, or of two with the highest bit set.
fn units(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 { 10_u64.checked_pow(exponent) } else { 1_u64.checked_shl(exponent) }
}

/// Whether this is the type of a block that nearly all files are made of.
fn is_known(kind: u32) -> bool {
    matches!(kind, SECTION | INTERFACE..=ENHANCED_PACKET)
}

fn byte_order(magic: &[u8]) -> Option<bool> {
    match magic {
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(true),
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(false),
        _ => None,
    }
}

impl PcapNg {
    /// What comes next. Damage of the file itself goes to `tally`, its place in the input `name`.
    pub fn next(&mut self, tally: &mut Tally, name: &str) -> Next {
        while let Some((kind, length)) = self.block(tally, name) {
            let place = self.buffer.place(self.number + 1);
            if !matches!(kind, PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                let block = self.buffer.take(length);
                if kind == INTERFACE && !self.section.add_interface(block) {
                    tally.damage(Flaw::BadInterface, length as u64, || place.named(name));
                }
                continue;
            }
            self.number += 1;
            let body = self.section.body(kind, self.buffer.take(length));
            let Some(body) = body else {
                tally.damage(Flaw::BadBlock, length as u64, || place.named(name));
                continue;
            };
            // A simple packet block has no time: it gets the previous packet's.
            self.last_time = body.time_ns.unwrap_or(self.last_time);
            let Body { link, cut, from, to, interface, .. } = body;
            let frame =
                Frame { number: self.number, offset: place.offset, time_ns: self.last_time, link, cut, interface };
            return Next::Packet { frame, record: length, place: from..to };
        }
        if pcap::begins_file(self.buffer.peek(pcap::FILE_HEADER)) { Next::Other } else { Next::End }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packets::Files;
    use super::*;

    /// A block in big-endian order.
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (FRAMING + body.len().next_multiple_of(4)) as u32;
        let mut block = [&kind.to_be_bytes()[..], &length.to_be_bytes(), body].concat();
        block.resize(length as usize - 4, 0);
        block.extend_from_slice(&length.to_be_bytes());
        block
    }

    fn section() -> Vec<u8> {
        block(SECTION, &[&[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0][..], &[0xff; 8]].concat())
    }

    fn interface(link: u8, options: &[u8]) -> Vec<u8> {
        block(INTERFACE, &[&[0, link, 0, 0, 0, 0, 0, 0][..], options].concat())
    }

    fn enhanced(interface: u8, stamp: u64, octets: &[u8]) -> Vec<u8> {
        let length = (octets.len() as u32).to_be_bytes();
        let body = [&[0, 0, 0, interface][..], &stamp.to_be_bytes(), &length, &length, octets].concat();
        block(ENHANCED_PACKET, &body)
    }

    /// Time, link type and octets.
    type Seen = (i64, u32, Vec<u8>);

    /// The frames, and the reasons of damage.
    fn read(content: Vec<u8>) -> (Vec<Seen>, Vec<&'static str>) {
        let mut packets = Files::open(Buffer::new(Box::new(std::io::Cursor::new(content)))).unwrap().unwrap();
        let (mut tally, mut frames) = (Tally::default(), Vec::new());
        while let Some(captured) = packets.next(&mut tally, "test") {
            frames.push((captured.frame.time_ns, captured.frame.link, captured.octets.to_vec()));
        }
        (frames, tally.damaged.iter().map(|damage| damage.reason.as_str()).collect())
    }

    #[test]
    fn an_interface_without_options_is_fine_in_either_byte_order() {
        let content = [section(), interface(1, &[]), enhanced(0, 5, b"abc")].concat();
        assert_eq!(read(content), (vec![(5_000, 1, b"abc".to_vec())], vec![]));
    }

    #[test]
    fn resolution_and_offset_of_time_stamps_count() {
        let nanoseconds = interface(1, &[0, 9, 0, 1, 9, 0, 0, 0, 0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
        let powers_of_two = interface(101, &[0, 9, 0, 1, 0x8a, 0, 0, 0]);
        let content = [section(), nanoseconds, powers_of_two, enhanced(0, 7, b"n"), enhanced(1, 512, b"t")].concat();
        let (frames, damage) = read(content);
        assert_eq!(frames, [(2_000_000_007, 1, b"n".to_vec()), (500_000_000, 101, b"t".to_vec())]);
        assert!(damage.is_empty());
    }

    #[test]
    fn frame_check_sequences_are_no_part_of_frames() {
        let bits = interface(1, &[0, 13, 0, 1, 32, 0, 0, 0]);
        let octets = interface(1, &[0, 13, 0, 1, 4, 0, 0, 0]);
        let content = [section(), bits, octets, enhanced(0, 1, b"abcFCS!"), enhanced(1, 2, b"defFCS!")].concat();
        let (frames, damage) = read(content);
        assert_eq!((frames[0].2.as_slice(), frames[1].2.as_slice()), (&b"abc"[..], &b"def"[..]));
        assert!(damage.is_empty());
    }

    #[test]
    fn a_damaged_interface_keeps_its_number() {
        let broken = interface(1, &[0, 9, 0, 1, 0x7f, 0, 0, 0]);
        let content = [section(), broken, interface(101, &[]), enhanced(1, 1, b"x"), enhanced(0, 2, b"y")].concat();
        let (frames, damage) = read(content);
        assert_eq!((frames.len(), frames[0].1), (1, 101));
        assert_eq!(damage, ["bad_interface", "bad_block"]);
    }

    #[test]
    fn a_simple_packet_block_has_the_time_of_the_packet_before() {
        let simple = block(SIMPLE_PACKET, &[&3_u32.to_be_bytes()[..], b"abc"].concat());
        let content = [section(), interface(1, &[]), enhanced(0, 5, b"e"), simple].concat();
        assert_eq!(read(content).0[1], (5_000, 1, b"abc".to_vec()));
        let tiny = [section(), interface(1, &[]), block(SIMPLE_PACKET, &[])].concat();
        assert_eq!(read(tiny), (vec![], vec!["bad_block"]));
    }

    #[test]
    fn a_length_of_4_gigabytes_ends_the_reading_with_its_place() {
        let mut content = [section(), interface(1, &[]), enhanced(0, 5, b"e")].concat();
        content.extend_from_slice(&[0, 0, 0, 6, 0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0]);
        let (frames, damage) = read(content);
        assert_eq!((frames.len(), damage), (1, vec!["bad_block"]));
    }

    #[test]
    fn a_new_section_has_interfaces_of_its_own() {
        let content = [section(), interface(1, &[]), section(), interface(101, &[]), enhanced(0, 1, b"x")].concat();
        assert_eq!(read(content).0[0].1, 101);
    }
}
