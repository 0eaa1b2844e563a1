//! Records behind the file header of a pcap: microseconds, little-endian, link type RAW.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The file header.
const HEAD: [u8; 24] = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(&HEAD, data));
