//! The encodings of numbers in Parquet pages: runs and bit packing (RLE), and packed differences (DELTA_BINARY_PACKED).

/// Differences in a block, and in each of the parts that have a width of their own.
const BLOCK: usize = 128;
const PART: usize = 32;

/// Bits one after the other, the lowest of an octet first.
#[derive(Debug, Default)]
pub(super) struct Bits {
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

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// How many of them are set.
    pub const fn ones(&self) -> usize {
        self.ones
    }

    /// Appends the bits from `start`, a multiple of eight, to `end`, packed.
    pub fn pack(&self, start: usize, end: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets[start / 8..end.div_ceil(8).min(self.octets.len())]);
        if end.div_ceil(8) > self.octets.len() {
            out.push(self.begun);
        }
    }

    /// Appends the bits from `start`, a multiple of eight, to `end` as definition levels behind their length: a run where all are equal.
    pub fn levels(&self, start: usize, end: usize, out: &mut Vec<u8>) {
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

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.octets.clear();
        (self.begun, self.length, self.ones) = (0, 0, 0);
    }
}

/// Appends places in a dictionary of `entries`: the width of each, then a run where there is but one entry, else packed bits.
pub(super) fn places(places: &[u32], entries: usize, out: &mut Vec<u8>) {
    let width = (usize::BITS - entries.saturating_sub(1).leading_zeros()).max(1);
    out.push(width as u8);
    if entries <= 1 {
        return run(0, places.len(), width, out);
    }
    let groups = places.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    pack(places.iter().map(|&place| u64::from(place)), width, out);
    out.resize(end, 0);
}

/// Appends numbers as their differences. Those of a column of 32 bits must not differ by more than that.
pub(super) fn differences(numbers: &[i64], out: &mut Vec<u8>) {
    for number in [BLOCK, BLOCK / PART, numbers.len()] {
        varint(number as u64, out);
    }
    let Some(first) = numbers.first() else { return varint(0, out) };
    signed(*first, out);
    let mut before = *first;
    let mut block = [0_i64; BLOCK];
    for part in numbers[1..].chunks(BLOCK) {
        for (difference, &number) in block.iter_mut().zip(part) {
            *difference = number.wrapping_sub(before);
            before = number;
        }
        difference_block(&block[..part.len()], out);
    }
}

/// Appends a block: the least difference, the widths of its parts, and what each difference is above the least.
fn difference_block(block: &[i64], out: &mut Vec<u8>) {
    let least = block.iter().copied().min().unwrap_or(0);
    signed(least, out);
    let above = |difference: &i64| difference.wrapping_sub(least) as u64;
    let widths_at = out.len();
    out.extend_from_slice(&[0; BLOCK / PART]);
    for (number, part) in block.chunks(PART).enumerate() {
        let width = u64::BITS - part.iter().map(above).fold(0, |all, each| all | each).leading_zeros();
        out[widths_at + number] = width as u8;
        let end = out.len() + width as usize * PART / 8;
        pack(part.iter().map(above), width, out);
        out.resize(end, 0);
    }
}

/// Appends a value that occurs `count` times, of at most 32 bits.
fn run(value: u32, count: usize, width: u32, out: &mut Vec<u8>) {
    varint((count as u64) << 1, out);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Appends numbers of `width` bits each, the lowest bit of an octet first; the last octet is filled with zeros.
fn pack(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut held, mut filled) = (0_u64, 0);
    for number in numbers {
        held |= number << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&held.to_le_bytes());
            filled -= u64::BITS;
            // What of the number is in the octets already is shifted out; all of it is where none of it is left.
            held = number.checked_shr(width - filled).unwrap_or(0);
        }
    }
    out.extend_from_slice(&held.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Seven bits an octet, the lowest first.
fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number of either sign, those near zero short.
fn signed(number: i64, out: &mut Vec<u8>) {
    varint((number << 1 ^ number >> 63) as u64, out);
}
