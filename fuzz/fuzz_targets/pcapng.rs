//! Blocks behind the section header of a pcapng and an interface of link type RAW.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Section header and interface description, little-endian.
const HEAD: [u8; 48] = [
    0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
    28, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0, 101, 0, 0, 0, 0, 0, 4, 0, 20, 0, 0, 0,
];

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(&HEAD, data));
