//! The Internet checksum (RFC 1071), summed by words of eight octets.

use std::net::IpAddr;

/// A sum in progress. It does not depend on the order of its parts, so that what is the same for many packets is summed once.
///
/// Words are summed in the order of octets of the machine: the checksum is the same (RFC 1071 section 2, B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds octets that begin at an even offset. Of a sum, only the octets added last may be odd in number.
    pub fn octets(self, octets: &[u8]) -> Self {
        let (words, rest) = octets.as_chunks::<8>();
        // Halves of 32 bits leave room for 2^32 carries, so that none has to be added on the way.
        let sum = words.iter().fold(self.0, |sum, word| {
            let word = u64::from_ne_bytes(*word);
            sum + (word & 0xffff_ffff) + (word >> 32)
        });
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = u64::from_ne_bytes(last);
        Self(sum + (last & 0xffff_ffff) + (last >> 32))
    }

    /// Adds a word of 16 bits.
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word.to_be() as u64)
    }

    /// Adds an address.
    pub fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.octets(&v4.octets()),
            IpAddr::V6(v6) => self.octets(&v6.octets()),
        }
    }

    /// Adds the pseudo-header of UDP, TCP or ICMPv6 (RFC 9293 section 3.1, RFC 8200 section 8.1), without the length.
    pub fn pseudo_header(self, source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        self.address(source).address(destination).word(protocol.into())
    }

    /// Adds a length, of 65,535 or more in IPv6 jumbograms only, which nobody sends.
    pub fn length(self, length: usize) -> Self {
        Self(self.0 + u64::from((length as u32).to_be() >> 16) + u64::from((length as u32).to_be() & 0xffff))
    }

    /// The checksum as the packet's field has it.
    pub const fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_ne_bytes()
    }

    /// The UDP checksum, in which zero means no checksum (RFC 768).
    pub const fn finish_udp(self) -> [u8; 2] {
        match self.finish() {
            [0, 0] => [0xff, 0xff],
            other => other,
        }
    }

    /// Whether a sum that includes the checksum is right.
    pub fn is_right(self) -> bool {
        self.finish() == [0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: one's complement of the sum of 16-bit words.
    fn plain(octets: &[u8]) -> [u8; 2] {
        let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        let mut sum: u64 = octets.chunks(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let octets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().octets(&octets).finish(), (!0xddf2_u16).to_be_bytes());
    }

    proptest! {
        #[test]
        fn any_octets_in_any_parts_have_the_checksum_of_the_definition(
            octets in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..100, word: u16, length in 0_usize..100_000,
        ) {
            let cut = (2 * cut).min(octets.len() & !1);
            let sum = Sum::default().octets(&octets[..cut]).octets(&octets[cut..]);
            prop_assert_eq!(sum.finish(), plain(&octets));
            let even = [&word.to_be_bytes(), &(length as u32).to_be_bytes()[..], &octets].concat();
            prop_assert_eq!(sum.word(word).length(length).finish(), plain(&even));
            let checked = [&plain(&octets), &octets[..]].concat();
            prop_assert!(Sum::default().octets(&checked).is_right());
        }
    }
}
