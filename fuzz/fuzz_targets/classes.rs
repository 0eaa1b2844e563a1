//! Classes of clients: any text is classes whose shares are those of all clients, or an error of one line that names its own.
#![no_main]

use ldplayer_workload::read_classes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match read_classes(text) {
    Ok(classes) => assert!(!classes.is_empty()),
    Err(error) => ldplayer_fuzz::check_error((error.line, &error.what), text),
});
