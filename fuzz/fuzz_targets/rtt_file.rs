//! Files of round-trip times and the words for links: any text is what it says or an error of one line.
#![no_main]

use ldplayer_link::{Jitter, Loss, Prefixes, Rate, Rtt};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = text.parse::<Prefixes>() {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    // A word may name a file, which is not there.
    let _ = Rtt::parse(text, |_| Ok(text.to_owned()));
    let _ = (text.parse::<Jitter>(), text.parse::<Loss>(), text.parse::<Rate>());
});
