//! run.json, which may come from a stranger: any octets are a run whose report can be printed, or an error of one line.
#![no_main]

use ldplayer_report::RunText;
use ldplayer_results::read_document;
use ldplayer_run::RunSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let directory = ldplayer_fuzz::directory("run.json", data);
    match read_document::<RunSpec>(directory) {
        Ok(document) => assert!(
            !RunText(&document.report).to_string().is_empty() && !RunText(&document.report).outcome().contains('\n')
        ),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
