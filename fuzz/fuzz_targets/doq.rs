//! Streams of DNS over QUIC: what a server sends is one message with the ID 0 and without edns-tcp-keepalive or breaks the
//! protocol, and no query goes out with that option.
#![no_main]

use libfuzzer_sys::fuzz_target;

use ldplayer_core::Message;
use ldplayer_replay::internals::{doq_answer, doq_query};

fuzz_target!(|data: &[u8]| {
    if let Some(message) = doq_answer(&[], data) {
        assert_eq!((message, &message[..2]), (&data[2..], &[0, 0][..]));
        assert!(Message::new(message).is_some_and(|message| message.keepalive().is_none()));
    }
    let Some((&block, wire)) = data.split_first() else { return };
    if (12..60_000).contains(&wire.len()) {
        let stream = doq_query(wire, u16::from(block));
        let sent = &stream[2..];
        assert_eq!(usize::from(u16::from_be_bytes([stream[0], stream[1]])), sent.len());
        assert!(Message::new(sent).is_some_and(|message| message.keepalive().is_none()));
        // What is sent once more is what was sent.
        assert_eq!(doq_query(sent, 0), stream);
    }
});
