//! Integers of HPACK and QPACK (RFC 7541 §5.1, RFC 9204 §4.1.1): in the last bits of an octet, and in the following ones where they do not suffice.

/// Takes an integer with a prefix of so many bits (RFC 7541 §5.1); `None` when it is cut short or above 28 bits and a prefix.
pub fn take_integer(octets: &mut &[u8], bits: u32) -> Option<u32> {
    let (&first, mut rest) = octets.split_first()?;
    let most = u8::MAX >> (u8::BITS - bits);
    let mut value = u32::from(first & most);
    if value == u32::from(most) {
        for shift in (0..28).step_by(7) {
            let (&next, behind) = rest.split_first()?;
            rest = behind;
            value += u32::from(next & 0x7f) << shift;
            if next & 0x80 == 0 {
                *octets = rest;
                return Some(value);
            }
        }
        return None;
    }
    *octets = rest;
    Some(value)
}

/// Appends an integer with a prefix of so many bits; `head` has the other bits of the first octet.
pub fn append_integer(out: &mut Vec<u8>, head: u8, bits: u32, value: usize) {
    let most = usize::from(u8::MAX >> (u8::BITS - bits));
    if value < most {
        return out.push(head | value as u8);
    }
    out.push(head | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_those_of_appendix_c_1() {
        for (bits, octets, value) in [(5, &[0x0a][..], 10), (5, &[0x1f, 0x9a, 0x0a], 1_337), (8, &[0x2a], 42)] {
            assert_eq!(take_integer(&mut &octets[..], bits), Some(value));
            let mut out = Vec::new();
            append_integer(&mut out, 0, bits, value as usize);
            assert_eq!(out, octets);
        }
    }

    proptest! {
        #[test]
        fn integers_are_read_as_written(bits in 1u32..=8, value in 0usize..1 << 27) {
            let mut out = Vec::new();
            append_integer(&mut out, 0, bits, value);
            prop_assert_eq!(take_integer(&mut &out[..], bits), Some(value as u32));
        }
    }
}
