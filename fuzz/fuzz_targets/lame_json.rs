//! lame.json of a zone set: any octets are lame servers or an error of one line.
#![no_main]

use ldplayer_emulate::serve::lame::Lame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match Lame::read(ldplayer_fuzz::directory("lame.json", data)) {
        Ok(lame) => drop(lame.is_lame(b"\x03com\0", [192, 0, 2, 1].into())),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
