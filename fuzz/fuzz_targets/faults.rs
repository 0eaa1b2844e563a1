//! A file of faults: any text is rules or an error of one line.
#![no_main]

use ldplayer_emulate::serve::faults::Faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Faults::parse(text) {
        Ok(faults) => assert!(faults.names().count() < text.len()),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
