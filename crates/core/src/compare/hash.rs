//! A hash that is the same on every machine and in every release, since fingerprints travel between hosts.

const K: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Adds `octets` to the hash so far.
pub fn octets(state: u64, octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<8>();
    let state = words.iter().fold(state, |state, word| fold(state ^ u64::from_le_bytes(*word), K[0]));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    number(fold(state ^ u64::from_le_bytes(last), K[0]), octets.len() as u64)
}

/// Adds a label to the hash so far, whatever its case (RFC 4343).
pub fn label(state: u64, label: &[u8]) -> u64 {
    let (words, rest) = label.as_chunks::<8>();
    let lower = |mut word: [u8; 8]| {
        word.make_ascii_lowercase();
        u64::from_le_bytes(word)
    };
    let state = words.iter().fold(state, |state, word| fold(state ^ lower(*word), K[0]));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    number(fold(state ^ lower(last), K[0]), label.len() as u64)
}

/// Adds a number to the hash so far.
pub const fn number(state: u64, number: u64) -> u64 {
    fold(state ^ number, K[1]).wrapping_add(number ^ K[0])
}

/// Both halves of the product.
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}
