//! A file of versions of record sets: any octets are versions or an error of one line.
#![no_main]

use ldplayer_emulate::serve::versions::Content;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let Ok(content) = Content::parse(octets) else { return };
    for entry in &content.sets {
        match entry.read() {
            Ok((_, set)) => assert_eq!(set.versions.len(), entry.versions.len()),
            Err(problem) => assert!(!problem.contains('\n'), "{problem}"),
        }
    }
});
