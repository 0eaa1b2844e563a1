//! Comparing answers: any octets have a fingerprint, whatever is left out, and any text is a rule of what is or an error of one line.
#![no_main]

use ldplayer_core::{Answer, Differs, Fingerprint, Ignore, IgnoreRule, Message, compare};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8])| {
    let (text, data) = input;
    let rules = match text.parse::<IgnoreRule>() {
        Ok(rule) => {
            assert_eq!(rule.to_string().parse::<IgnoreRule>(), Ok(rule.clone()), "{rule}");
            vec![rule]
        }
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            Vec::new()
        }
    };
    let Some(message) = Message::new(data) else { return };
    let found = Fingerprint::of(&message, &Ignore::of(&rules));
    assert_eq!(found.judge(found), (Answer::Match, Differs::NOTHING));
    assert_eq!(compare::responses(&message, &message, &Ignore::of(&rules)), (Answer::Match, Differs::NOTHING));
});
