//! Updates checksums after changes to a packet (RFC 1071, RFC 1624 §3).

/// The difference that a change makes to the covered octets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change(u64);

impl Change {
    /// Notes that `old` becomes `new`, of the same, even length and at an even offset of the covered octets.
    pub fn replace(&mut self, old: &[u8], new: &[u8]) {
        debug_assert!(old.len() == new.len() && old.len().is_multiple_of(2));
        let put = |octets: &[u8]| u64::from(u16::from_be_bytes([octets[0], octets[1]]));
        self.0 += old.chunks_exact(2).map(|pair| 0xffff - put(pair)).sum::<u64>();
        self.0 += new.chunks_exact(2).map(put).sum::<u64>();
    }

    /// Notes the change of a longer part by its sums before and after.
    pub fn replace_sum(&mut self, old: u16, new: u16) {
        self.replace(&old.to_be_bytes(), &new.to_be_bytes());
    }

    /// The checksum after the change (equation 3 of RFC 1624).
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(u64::from(!checksum) + self.0)
    }
}

/// The one's complement sum of octets; an odd last one is padded with a zero.
pub fn sum(octets: &[u8]) -> u16 {
    let words = octets.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)));
    fold(words.sum())
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1624() {
        // §4: 0x5555 becomes 0x3285 in a header with checksum 0xdd2f; the answer is 0x0000, not 0xffff.
        let mut change = Change::default();
        change.replace(&[0x55, 0x55], &[0x32, 0x85]);
        assert_eq!(change.apply(0xdd2f), 0x0000);
    }
}
