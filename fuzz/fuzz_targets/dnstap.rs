//! Frames behind the head of a stream of dnstap.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The control frame that begins the stream.
const HEAD: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(HEAD, data));
