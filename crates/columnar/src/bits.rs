//! Bit-packed booleans, which Parquet also uses to tell values from nulls.

use crate::encoding::{run, varint};

/// Bits one after the other, the lowest of an octet first.
#[derive(Debug, Default)]
pub struct Bits {
    octets: Vec<u8>,
    /// The bits of an octet that is not full yet.
    begun: u8,
    length: usize,
    ones: usize,
}

impl Bits {
    /// Appends a bit.
    #[inline]
    pub fn push(&mut self, bit: bool) {
        self.begun |= u8::from(bit) << (self.length % 8);
        self.length += 1;
        self.ones += usize::from(bit);
        if self.length.is_multiple_of(8) {
            self.octets.push(self.begun);
            self.begun = 0;
        }
    }

    /// Appends `count` bits of one value.
    pub fn push_many(&mut self, bit: bool, count: usize) {
        let to_edge = (8 - self.length % 8) % 8;
        let single = count.min(to_edge);
        (0..single).for_each(|_| self.push(bit));
        let whole = (count - single) / 8;
        self.octets.resize(self.octets.len() + whole, if bit { 0xff } else { 0 });
        self.length += whole * 8;
        self.ones += if bit { whole * 8 } else { 0 };
        (0..count - single - whole * 8).for_each(|_| self.push(bit));
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many of them are set.
    pub const fn ones(&self) -> usize {
        self.ones
    }

    /// Appends the bits from `start`, a multiple of eight, to `end`, packed.
    pub(crate) fn pack(&self, start: usize, end: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets[start / 8..end.div_ceil(8).min(self.octets.len())]);
        if end.div_ceil(8) > self.octets.len() {
            out.push(self.begun);
        }
    }

    /// Appends the bits from `start`, a multiple of eight, to `end` as definition levels behind their length: a run where
    /// all bits are equal.
    pub(crate) fn levels(&self, start: usize, end: usize, out: &mut Vec<u8>) {
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        if self.ones == 0 || self.ones == self.length {
            run(u32::from(self.ones > 0), end - start, 1, out);
        } else {
            varint(((end - start).div_ceil(8) as u64) << 1 | 1, out);
            self.pack(start, end, out);
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Makes it empty. Its memory stays.
    pub fn clear(&mut self) {
        self.octets.clear();
        (self.begun, self.length, self.ones) = (0, 0, 0);
    }
}
