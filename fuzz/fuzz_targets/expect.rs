//! What is expected of a server: any text is an expectation, which is read back as it is printed, or an error of one line.
#![no_main]

use ldplayer_results::Expectation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match text.parse::<Expectation>() {
    Ok(expectation) => assert_eq!(expectation.to_string().parse(), Ok(expectation), "{expectation}"),
    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
});
