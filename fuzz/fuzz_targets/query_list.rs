//! Lists of queries: what follows a line of one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(b"example.com A\n", data));
