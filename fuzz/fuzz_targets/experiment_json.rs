//! experiment.json, which may come from a stranger: any octets are a record or an error of one line.
#![no_main]

use ldplayer_experiment::{Record, overview};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let directory = ldplayer_fuzz::directory("experiment.json", data);
    match Record::read(directory) {
        Ok(record) => drop(overview(directory, &record, false)),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
