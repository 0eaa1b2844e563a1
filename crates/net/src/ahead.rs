//! Hints to the processor: what will be read soon. Whoever has several things to read waits for memory once instead of once each.

/// Octets that memory gives at once.
const LINE: usize = 64;

/// Begins to fetch values into the caches, `octets` of them at most, and does not wait for them. Nothing changes but the time that reading
/// them takes. A no-op on other processors than x86-64.
#[inline]
pub fn fetch<T>(values: &[T], octets: usize) {
    let octets = size_of_val(values).min(octets);
    let first = values.as_ptr().cast::<u8>();
    // Values need not begin with a line: the last of them is in the line of their last octet.
    (0..octets).step_by(LINE).chain(octets.checked_sub(1)).for_each(|at| fetch_line(first.wrapping_add(at)));
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch_line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it neither reads for the program nor faults, whatever the address is.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
const fn fetch_line(_at: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_they_were_whatever_is_asked_for() {
        let values: Vec<u32> = (0..1_000).collect();
        for octets in [0, 1, 63, 64, 65, 4_000, usize::MAX] {
            fetch(&values, octets);
            fetch(&values[..octets.min(3)], octets);
        }
        fetch::<u64>(&[], 64);
        fetch(&[()], 64);
        assert_eq!(values.iter().sum::<u32>(), 499_500);
    }
}
