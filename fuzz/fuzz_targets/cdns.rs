//! Blocks behind the preamble of a C-DNS file: version 1, one set of parameters, blocks up to a break.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The preamble.
const HEAD: &[u8] = b"\x83\x65C-DNS\xa2\x00\x01\x03\x81\xa0\x9f";

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(HEAD, data));
