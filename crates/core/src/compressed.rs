//! Names in messages, where they may be compressed (RFC 1035 §4.1.4).

use crate::message::HEADER;
use crate::name::MAX_NAME;

/// Compression pointers followed for one name. Compressors point at names, not at pointers.
const JUMPS: usize = 128;
/// Labels of a name at most, the root's among them: each takes two octets at least.
const LABELS: usize = MAX_NAME / 2 + 1;

/// Writes the name at an offset of a message without compression and in lower case, and returns its length; `None` as for [`labels`].
pub fn expand(octets: &[u8], at: usize, name: &mut [u8; MAX_NAME]) -> Option<usize> {
    let mut length = 0;
    let mut fits = true;
    labels(octets, at, |label| {
        let place = name.get_mut(length..length + 1 + label.len());
        fits &= place.is_some();
        if let Some((first, rest)) = place.and_then(|place| place.split_first_mut()) {
            // The length of a label is at most 63.
            *first = label.len() as u8;
            rest.copy_from_slice(label);
            rest.make_ascii_lowercase();
        }
        length += 1 + label.len();
    })?;
    (fits && length < MAX_NAME).then_some(length + 1)
}

/// Gives each label of the name at an offset of a message, but for the root's. Returns the offset behind the name; `None` where it is damaged or
/// points forward (RFC 1035 §4.1.4).
pub fn labels<'a>(octets: &'a [u8], mut at: usize, mut each: impl FnMut(&'a [u8])) -> Option<usize> {
    let (mut behind, mut jumps, mut count) = (None, 0, 0);
    loop {
        match *octets.get(at)? {
            0 => return Some(behind.unwrap_or(at + 1)),
            high @ 0xc0..=0xff => {
                let target = usize::from(high & 0x3f) << 8 | usize::from(*octets.get(at + 1)?);
                behind = behind.or(Some(at + 2));
                jumps += 1;
                if target >= at || target < HEADER || jumps > JUMPS {
                    return None;
                }
                at = target;
            }
            length @ 1..=63 => {
                let next = at + 1 + usize::from(length);
                count += 1;
                each(octets.get(at + 1..next).filter(|_| count < LABELS)?);
                at = next;
            }
            _ => return None,
        }
    }
}
