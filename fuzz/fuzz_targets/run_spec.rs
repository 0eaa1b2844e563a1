//! Specifications of runs: any text is a value, which is read back as it is printed, or an error of one line that names its own.
#![no_main]

use ldplayer_run::RunSpec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match RunSpec::parse(text) {
    Ok(spec) => {
        let printed = spec.to_toml();
        let read = RunSpec::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        // By what they print, since a number that is none is not equal to itself.
        assert_eq!(format!("{read:?}"), format!("{spec:?}"), "{printed}");
    }
    Err(error) => ldplayer_fuzz::check_error((error.line, &error.what), text),
});
