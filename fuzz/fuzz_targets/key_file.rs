//! Files of private keys, as dnssec-keygen writes them: any text is a key, which is read back as it is written, or an error of one line.
#![no_main]

use ldplayer_zone::sign::{Role, private_text, read_private};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match read_private(text, Role::Zsk) {
    Ok(key) => {
        // What was written is read.
        let again = read_private(&private_text(&key), Role::Zsk).expect("what was written is read");
        assert_eq!((key.tag(), key.data()), (again.tag(), again.data()));
    }
    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
});
