//! Conditions of `ldplayer rows`: any text is a condition or an error of one line.
#![no_main]

use ldplayer_results::Selection;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Selection::new(Some(text), &[]) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
});
