//! One frame of Ethernet: tags, labels and tunnels around IP packets.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The file header: microseconds, little-endian, link type Ethernet.
const HEAD: [u8; 24] = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];

fuzz_target!(|data: &[u8]| {
    let length = (data.len() as u32).to_le_bytes();
    ldplayer_fuzz::read(&[&HEAD[..], &[0; 8], &length, &length].concat(), data);
});
