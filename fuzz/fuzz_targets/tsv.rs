//! Lines behind the header of a TSV trace with all of its columns.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The header line.
const HEAD: &[u8] = b"time\tsrc\tsrc_port\tdst\tdst_port\ttransport\tqname\tqtype\tqclass\tflags\tedns\n";

fuzz_target!(|data: &[u8]| ldplayer_fuzz::read(HEAD, data));
