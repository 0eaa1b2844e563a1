//! A list of public suffixes: any text is a list or an error of one line.
#![no_main]

use ldplayer_zone::construct::Suffixes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Suffixes::parse(text) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
});
