//! Segments of TCP (RFC 9293) with the options for size, scale, selective acknowledgements, timestamps and Fast Open.

use std::net::{IpAddr, SocketAddr};
use std::ops::BitOr;

use super::checksum::Sum;
use super::ethernet::Link;
use super::ip::{Header, TCP};
use super::{BadFrame, Check};

/// Octets of a header without options.
pub const HEADER: usize = 20;
/// Maximum octets of options.
const OPTIONS: usize = 40;

const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;

/// Control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Synchronizes sequence numbers.
    pub const SYN: Self = Self(2);
    /// Resets the connection.
    pub const RST: Self = Self(4);
    /// Hand the data over.
    pub const PSH: Self = Self(8);
    /// The acknowledgement is significant.
    pub const ACK: Self = Self(16);

    /// Whether all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Timestamps (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The value that is echoed.
    pub echo: u32,
}

/// A Fast Open cookie (RFC 7413 section 4.1.1); empty in a request for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cookie {
    octets: [u8; 16],
    length: u8,
}

impl Cookie {
    /// A cookie of 4 to 16 octets, an even number, or the request for one; `None` for any other length.
    pub fn new(octets: &[u8]) -> Option<Self> {
        if !(matches!(octets.len(), 0 | 4..=16) && octets.len().is_multiple_of(2)) {
            return None;
        }
        let mut cookie = Self { octets: [0; 16], length: octets.len() as u8 };
        cookie.octets[..octets.len()].copy_from_slice(octets);
        Some(cookie)
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// Whether it is the request for a cookie.
    pub const fn is_request(&self) -> bool {
        self.length == 0
    }
}

/// Selective acknowledgements (RFC 2018): up to four ranges of sequence numbers, each from its first to behind its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl Sack {
    /// Adds a range, if there is room for it.
    pub fn push(&mut self, block: (u32, u32)) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    /// The ranges.
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Keeps the first `most` ranges.
    pub fn truncate(&mut self, most: usize) {
        self.count = self.count.min(most.min(4) as u8);
    }
}

/// The options that we understand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size that the sender takes.
    pub mss: Option<u16>,
    /// Shift of the sender's windows (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements may be sent.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sack: Sack,
    /// The cookie of Fast Open, or the request for it.
    pub fast_open: Option<Cookie>,
}

impl Options {
    /// Reads options. Those that are unknown are skipped.
    fn read(mut octets: &[u8]) -> Result<Self, BadFrame> {
        let mut options = Self::default();
        while let Some((&kind, rest)) = octets.split_first() {
            if kind == END {
                break;
            }
            if kind == NOTHING {
                octets = rest;
                continue;
            }
            let length = rest.first().map_or(0, |&length| usize::from(length));
            let value = octets.get(2..length).ok_or(BadFrame::TcpOption)?;
            options.take(kind, value)?;
            octets = &octets[length..];
        }
        Ok(options)
    }

    fn take(&mut self, kind: u8, value: &[u8]) -> Result<(), BadFrame> {
        match (kind, value) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            // RFC 7323 section 2.3: more than 14 is 14.
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(14)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (SACK, blocks) if blocks.len().is_multiple_of(8) => blocks.as_chunks::<8>().0.iter().for_each(|block| {
                let &[a, b, c, d, e, f, g, h] = block;
                self.sack.push((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
            }),
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                let [value, echo] = [[a, b, c, d], [e, f, g, h]].map(u32::from_be_bytes);
                self.timestamps = Some(Timestamps { value, echo });
            }
            // A cookie of a wrong length is ignored (RFC 7413 section 4.1.1).
            (FAST_OPEN, cookie) => self.fast_open = Cookie::new(cookie),
            (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => return Err(BadFrame::TcpOption),
            _ => {}
        }
        Ok(())
    }

    /// Octets of the options, padded.
    pub fn len(&self) -> usize {
        let sack = self.sack.blocks().len();
        let plain = [(self.mss.is_some(), 4), (self.window_scale.is_some(), 4), (self.timestamps.is_some(), 12)];
        let plain: usize = plain.iter().filter(|(is_there, _)| *is_there).map(|(_, length)| length).sum();
        let permitted = if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        let cookie = self.fast_open.map_or(0, |cookie| (2 + cookie.octets().len()).next_multiple_of(4));
        plain + permitted + cookie + if sack > 0 { 4 + 8 * sack } else { 0 }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the options behind each other in words of four octets, in the order of Linux.
    fn write(&self, octets: &mut [u8]) {
        let mut at = 0;
        let mut put = |part: &[u8]| {
            octets[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            put(&[MSS, 4, a, b]);
        }
        match (self.sack_permitted, self.timestamps.is_some()) {
            (true, true) => put(&[SACK_PERMITTED, 2, TIMESTAMPS, 10]),
            (true, false) => put(&[NOTHING, NOTHING, SACK_PERMITTED, 2]),
            (false, true) => put(&[NOTHING, NOTHING, TIMESTAMPS, 10]),
            (false, false) => {}
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            put(&[NOTHING, WINDOW_SCALE, 3, shift]);
        }
        if let Some(cookie) = self.fast_open {
            let length = 2 + cookie.octets().len();
            put(&[FAST_OPEN, length as u8]);
            put(cookie.octets());
            put(&[NOTHING; 4][..length.next_multiple_of(4) - length]);
        }
        let blocks = self.sack.blocks();
        if !blocks.is_empty() {
            put(&[NOTHING, NOTHING, SACK, 2 + 8 * blocks.len() as u8]);
            for (first, end) in blocks {
                put(&first.to_be_bytes());
                put(&end.to_be_bytes());
            }
        }
    }
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// From which port.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// Sequence number of the first octet, or of SYN.
    pub sequence: u32,
    /// The next sequence number that the sender expects, if [`Flags::ACK`] is set.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// The receive window of the sender, not scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// Data.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a segment between two addresses.
    ///
    /// # Errors
    /// If a length, the checksum or an option is wrong.
    pub fn read(source: IpAddr, destination: IpAddr, octets: &'a [u8], check: Check) -> Result<Self, BadFrame> {
        let fixed: &[u8; HEADER] = octets.first_chunk().ok_or(BadFrame::Tcp)?;
        let header = usize::from(fixed[12] >> 4) * 4;
        if header < HEADER || header > octets.len() {
            return Err(BadFrame::Tcp);
        }
        let sum = || Sum::default().pseudo_header(source, destination, TCP).length(octets.len()).octets(octets);
        if check == Check::Verify && !sum().is_right() {
            return Err(BadFrame::TcpChecksum);
        }
        let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, _, flags, w0, w1, ..] = *fixed;
        let [source_port, destination_port, window] = [[s0, s1], [d0, d1], [w0, w1]].map(u16::from_be_bytes);
        let [sequence, acknowledgement] = [[q0, q1, q2, q3], [a0, a1, a2, a3]].map(u32::from_be_bytes);
        let options = Options::read(&octets[HEADER..header])?;
        let (flags, payload) = (Flags(flags), &octets[header..]);
        Ok(Self { source_port, destination_port, sequence, acknowledgement, flags, window, options, payload })
    }

    /// Sequence numbers that it takes: its data, SYN and FIN.
    pub fn length(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags.has(Flags::SYN)) + u32::from(self.flags.has(Flags::FIN))
    }

    /// Writes the frame; returns its length. `None` if it does not fit, or its options do not fit a header.
    pub fn write(&self, frame: &mut [u8], link: &Link, source: IpAddr, destination: IpAddr) -> Option<usize> {
        let options = self.options.len();
        let length = HEADER + options + self.payload.len();
        let ip = Header::new(source, destination, TCP);
        let at = link.write(frame, ip.ethertype())?;
        let at = at + ip.write(&mut frame[at..], length)?;
        let segment = frame.get_mut(at..at + length).filter(|_| options <= OPTIONS)?;
        self.write_header(segment, HEADER + options);
        segment[HEADER + options..].copy_from_slice(self.payload);
        let sum = Sum::default().pseudo_header(source, destination, TCP).length(length).octets(segment);
        segment[16..18].copy_from_slice(&sum.finish());
        Some(at + length)
    }

    fn write_header(&self, segment: &mut [u8], header: usize) {
        segment[..2].copy_from_slice(&self.source_port.to_be_bytes());
        segment[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        segment[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        segment[12..14].copy_from_slice(&[(header as u8 / 4) << 4, self.flags.0]);
        segment[14..16].copy_from_slice(&self.window.to_be_bytes());
        segment[16..20].fill(0);
        self.options.write(&mut segment[HEADER..header]);
    }
}

/// A segment on its way out, with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// From which address and port of ours.
    pub from: SocketAddr,
    /// To which server.
    pub to: SocketAddr,
    /// The segment.
    pub segment: Segment<'a>,
}

impl Outgoing<'_> {
    /// Writes the frame; returns its length. `None` if it does not fit.
    pub fn write(&self, frame: &mut [u8], link: &Link) -> Option<usize> {
        self.segment.write(frame, link, self.from.ip(), self.to.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Packet;
    use proptest::prelude::*;

    fn options() -> impl Strategy<Value = Options> {
        let some = |bits: u8, at: u8| bits & (1 << at) != 0;
        (any::<u8>(), any::<[u32; 4]>(), prop::collection::vec(any::<u8>(), 2..8)).prop_map(
            move |(bits, words, cookie)| {
                let mut sack = Sack::default();
                if some(bits, 0) {
                    sack.push((words[0], words[1]));
                }
                Options {
                    mss: some(bits, 1).then_some(words[0] as u16),
                    window_scale: some(bits, 2).then_some(words[0] as u8 % 15),
                    sack_permitted: some(bits, 3),
                    timestamps: some(bits, 4).then_some(Timestamps { value: words[2], echo: words[3] }),
                    sack,
                    fast_open: some(bits, 5).then(|| Cookie::new(&cookie[..cookie.len() & !1]).unwrap_or_default()),
                }
            },
        )
    }

    fn addresses(v6: bool) -> [IpAddr; 2] {
        let texts = if v6 { ["2001:db8::1", "2001:db8::53"] } else { ["192.0.2.1", "192.0.2.53"] };
        texts.map(|text| text.parse().unwrap())
    }

    proptest! {
        #[test]
        fn segments_are_read_back_and_a_changed_octet_is_noticed(
            v6: bool, words: [u32; 4], options in options(), payload in prop::collection::vec(any::<u8>(), 0..50),
            at: prop::sample::Index, flip in 1_u8..,
        ) {
            let [source, destination] = addresses(v6);
            let segment = Segment {
                source_port: words[0] as u16, destination_port: (words[0] >> 16) as u16, sequence: words[1],
                acknowledgement: words[2], flags: Flags(words[3] as u8 & 31), window: (words[3] >> 16) as u16, options,
                payload: &payload,
            };
            let mut frame = [0xaa; 200];
            let length = segment.write(&mut frame, &Link::none(), source, destination).unwrap();
            let octets = Packet::read(&frame[..length]).unwrap().payload;
            prop_assert_eq!(Segment::read(source, destination, octets, Check::Verify), Ok(segment));
            prop_assert_eq!(octets.len(), HEADER + options.len() + payload.len());
            let mut changed = octets.to_vec();
            let at = at.index(changed.len());
            changed[at] ^= flip;
            prop_assert!(Segment::read(source, destination, &changed, Check::Verify).is_err());
            prop_assert_eq!(segment.write(&mut frame[..length - 1], &Link::none(), source, destination), None);
        }

        #[test]
        fn any_octets_are_a_segment_or_a_reason(octets in prop::collection::vec(any::<u8>(), 0..80)) {
            let [source, destination] = addresses(false);
            if let Ok(segment) = Segment::read(source, destination, &octets, Check::Trust) {
                prop_assert!(segment.payload.len() <= octets.len() - HEADER && segment.options.sack.blocks().len() <= 4);
            }
        }
    }

    #[test]
    fn options_of_a_wrong_length_are_bad_and_unknown_ones_skipped() {
        let read = |octets: &[u8]| Options::read(octets);
        assert_eq!(read(&[MSS, 3, 1]), Err(BadFrame::TcpOption));
        assert_eq!(read(&[MSS, 4, 1]), Err(BadFrame::TcpOption));
        assert_eq!(read(&[99, 0, 1]), Err(BadFrame::TcpOption));
        assert_eq!(read(&[99, 1]), Err(BadFrame::TcpOption));
        assert_eq!(read(&[99]), Err(BadFrame::TcpOption));
        let skipped = read(&[99, 4, 1, 2, NOTHING, MSS, 4, 5, 220, END, MSS]).unwrap();
        assert_eq!(skipped, Options { mss: Some(1_500), ..Options::default() });
        assert_eq!(read(&[WINDOW_SCALE, 3, 200]).unwrap().window_scale, Some(14), "RFC 7323 section 2.3");
        assert_eq!(read(&[FAST_OPEN, 5, 1, 2, 3]).unwrap().fast_open, None, "RFC 7413 section 4.1.1");
    }

    #[test]
    fn impossible_headers_are_bad() {
        let [source, destination] = addresses(false);
        let mut octets = [0; HEADER];
        for offset in [0, 4 << 4, 6 << 4] {
            octets[12] = offset;
            assert_eq!(Segment::read(source, destination, &octets, Check::Trust), Err(BadFrame::Tcp));
        }
        assert_eq!(Segment::read(source, destination, &octets[1..], Check::Trust), Err(BadFrame::Tcp));
    }
}
