//! Frames of HTTP/2 from a server: whatever comes, a stream ends once at most, and a frame is an event or ends the connection.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;

use ldplayer_replay::DohSettings;
use ldplayer_replay::http2::{Event, Head, Http2, STREAMS_AT_ONCE, frames};

/// An empty SETTINGS, with which a server begins.
const GREETING: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// Queries that are waited for.
const QUERIES: usize = 3;

fuzz_target!(|data: &[u8]| {
    let server = ([192, 0, 2, 1], 443).into();
    let head = Head::new(&DohSettings::default(), None, server);
    let mut http2 = Http2::new(STREAMS_AT_ONCE);
    let mut greeting = GREETING;
    if let Ok(Some(frame)) = frames::split(&mut greeting) {
        assert_eq!(http2.receive(&frame), Ok(Event::Settings));
    }
    let mut open: BTreeSet<u32> = (0..QUERIES).map(|_| http2.open(&head, &[1; 40], &mut Vec::new())).collect();
    let mut rest = data;
    while let Ok(Some(frame)) = frames::split(&mut rest) {
        match http2.receive(&frame) {
            Ok(Event::Response { stream, body, .. }) => {
                assert!(open.remove(&stream) && body.len() <= usize::from(u16::MAX));
            }
            Ok(Event::Reset { stream, .. } | Event::Malformed { stream } | Event::Unusable { stream, .. }) => {
                assert!(open.remove(&stream));
            }
            Ok(Event::Leaving { last }) => open.retain(|&stream| stream <= last),
            Ok(Event::Nothing | Event::Settings) => {}
            Err(_) => return,
        }
        assert_eq!(http2.open_streams(), open.len());
    }
});
