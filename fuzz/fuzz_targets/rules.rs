//! Files of rules, with the expressions in them: any text is rules or an error of one line that names its own.
#![no_main]

use ldplayer_workload::mutate::Rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Rules::parse(text) {
        ldplayer_fuzz::check_error((error.line, &error.what), text);
    }
});
