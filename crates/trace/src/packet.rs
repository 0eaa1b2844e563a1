//! From captured packets to DNS messages: link, IP, fragments, UDP and TCP.

pub(crate) mod defrag;
pub(crate) mod ip;
pub(crate) mod link;
pub(crate) mod tcp;

/// A 16-bit big-endian word, if it is there.
pub(crate) fn word(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]))
}

/// A 32-bit big-endian word, if it is there.
pub(crate) fn long(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(word(octets, at)?) << 16 | u32::from(word(octets, at + 2)?))
}
