//! Integer encodings of Parquet pages: RLE with bit packing, and DELTA_BINARY_PACKED.

/// Differences in a block, and in each of the parts that have a width of their own.
const BLOCK: usize = 128;
const PART: usize = 32;
/// Dictionary indices looked at together: equal ones are written as a run, others packed. A multiple of eight.
const INDICES: usize = 512;

/// Appends indices into a dictionary of `entries`: their width in bits, then runs and packed bits.
pub(crate) fn indices(indices: &[u32], entries: usize, out: &mut Vec<u8>) {
    let width = (usize::BITS - entries.saturating_sub(1).leading_zeros()).max(1);
    out.push(width as u8);
    let mut equal = (0_u32, 0_usize);
    for block in indices.chunks(INDICES) {
        let first = block[0];
        if block.iter().any(|&index| index != first) {
            end_run(equal, width, out);
            equal = (0, 0);
            packed_indices(block, width, out);
        } else if equal.0 == first {
            equal.1 += block.len();
        } else {
            end_run(equal, width, out);
            equal = (first, block.len());
        }
    }
    end_run(equal, width, out);
}

fn end_run((index, count): (u32, usize), width: u32, out: &mut Vec<u8>) {
    if count > 0 {
        run(index, count, width, out);
    }
}

fn packed_indices(block: &[u32], width: u32, out: &mut Vec<u8>) {
    let groups = block.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    pack(block.iter().map(|&index| u64::from(index)), width, out);
    out.resize(end, 0);
}

/// Appends numbers as their differences. Those of a column of 32 bits must not differ by more than that.
pub(crate) fn differences(numbers: &[i64], out: &mut Vec<u8>) {
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
pub(crate) fn run(value: u32, count: usize, width: u32, out: &mut Vec<u8>) {
    varint((count as u64) << 1, out);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Appends numbers of `width` bits each, the lowest bit of an octet first; the last octet is filled with zeros.
fn pack(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
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
pub(crate) fn varint(mut number: u64, out: &mut Vec<u8>) {
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
