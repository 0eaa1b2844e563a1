//! Lines behind the Fsdb header of the text columns of LDplayer.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The header line.
const HEAD: &[u8] = b"#fsdb -F t time srcip qname qclass qtype protocol\n";

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(HEAD, data));
