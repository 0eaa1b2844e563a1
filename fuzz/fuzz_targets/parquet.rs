//! What follows the first four octets of a Parquet file; give it small traces as a corpus.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(b"PAR1", data));
