//! Replies: whatever is asked of a signed zone, the reply is no longer than it may be, and its question can be read.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use ldplayer_core::{Cidr, Message};
use ldplayer_zone::{Pick, Scratch, Transport, Zone, load, respond, serial_of};
use libfuzzer_sys::fuzz_target;

/// One zone of each kind of denial.
static ZONES: LazyLock<[Zone; 2]> = LazyLock::new(|| {
    let texts = [
        include_bytes!("../../crates/zone/tests/zones/nsec.zone").as_slice(),
        include_bytes!("../../crates/zone/tests/zones/nsec3-opt-out.zone"),
    ];
    texts.map(|text| {
        let read =
            load::text_of(text, Path::new("zone"), Some(b"\0"), &mut |_| Err(std::io::ErrorKind::NotFound.into()));
        // The bundled zones are sound.
        Zone::from_records(&read.expect("records")).expect("a zone").0
    })
});

fuzz_target!(|data: &[u8]| {
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let by_subnet = Pick::BySubnet(Cidr::new([192, 0, 2, 1].into(), 32));
    let _ = serial_of(data);
    for (zone, pick) in ZONES.iter().flat_map(|zone| [(zone, Pick::Fixed), (zone, by_subnet)]) {
        for (transport, most) in [(Transport::Udp, 1232), (Transport::Tcp, 65_535)] {
            out.clear();
            scratch.set_pick(pick);
            let reply = respond(zone, data, transport, &mut scratch, &mut out);
            assert!(out.len() <= most && reply.length == out.len());
            if let (Some(question), Some(message)) = (reply.question, Message::new(&out)) {
                assert_eq!(message.question(), Some(question));
            }
        }
    }
});
