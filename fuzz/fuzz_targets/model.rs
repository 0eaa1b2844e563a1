//! Models of traffic: any text is a model or an error of one line that names its own.
#![no_main]

use std::path::Path;

use ldplayer_workload::generate::Model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Model::parse(text, Path::new("/nowhere")) {
        ldplayer_fuzz::check_error((error.line, &error.what), text);
    }
});
