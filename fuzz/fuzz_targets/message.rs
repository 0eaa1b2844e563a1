//! The view of a DNS message: whatever it is asked, it answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

use ldplayer_core::Message;

fuzz_target!(|data: &[u8]| {
    let Some(message) = Message::new(data) else { return };
    let _ = (message.edns(), message.rcode(), message.question());
    assert!(message.same_question(&message));
    if let (Some(octets), Some(question)) = (message.question_octets(), message.question()) {
        assert_eq!(octets.len(), question.len());
    }
});
