//! From captured packets to DNS messages: link, encapsulations, IP, fragments, UDP and TCP.

pub(crate) mod defrag;
pub(crate) mod ip;
pub(crate) mod link;
pub(crate) mod tcp;
pub(crate) mod tunnel;
pub(crate) mod twice;
pub(crate) mod unwrap;

/// The metadata of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Number in the capture, from 1.
    pub number: u64,
    /// Offset of its record in octets.
    pub offset: u64,
    /// When it was captured, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Link type (LINKTYPE_ registry).
    pub link: u32,
    /// Whether its end is missing from the capture.
    pub cut: bool,
    /// The interface, where the capture has several.
    pub interface: u32,
}

/// A 16-bit big-endian word, if it is there.
pub(crate) fn word(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]))
}

/// A 32-bit big-endian word, if it is there.
pub(crate) fn long(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(word(octets, at)?) << 16 | u32::from(word(octets, at + 2)?))
}
