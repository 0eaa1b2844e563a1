//! A manifest of a data set: any octets are parts whose files stay in the set, or an error of one line.
#![no_main]

use ldplayer_trace::set::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The folder is the set, and the file one of its parts.
    match Manifest::of(ldplayer_fuzz::directory("_manifest/a.json", data)) {
        Ok(manifest) => drop((manifest.holes(), manifest.overlaps(), manifest.tally())),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
