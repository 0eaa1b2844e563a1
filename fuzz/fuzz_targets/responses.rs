//! Zones from responses: octets as two responses of two servers, cut where the first two octets say.
#![no_main]

use libfuzzer_sys::fuzz_target;

use ldplayer_zone::construct::{Builder, Options, Response};
use ldplayer_zone::{Zone, write};

fuzz_target!(|data: &[u8]| {
    let Some((&cut, data)) = data.split_first_chunk() else { return };
    let (first, second) = data.split_at(usize::from(u16::from_be_bytes(cut)).min(data.len()));
    let mut builder = Builder::default();
    for (server, message) in [([198, 41, 0, 4], first), ([192, 0, 2, 1], second)] {
        let response = Response { time_ns: 0, client: [10, 0, 0, 1].into(), server: server.into(), message };
        // Two messages hold less than can be numbered.
        builder.add(&response).expect("so little fits");
    }
    // As above.
    let built = builder.finish(Options::default()).expect("so little fits");
    for zone in &built.zones {
        // Whatever was said, what is made of it loads.
        assert!(Zone::from_records(&zone.records).is_ok());
        // What is thrown away cannot fail.
        write::zone(&zone.apex, &zone.records, &mut std::io::sink()).expect("a sink takes all");
    }
});
