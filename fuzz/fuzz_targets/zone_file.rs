//! Zone files: any text ends in a zone or in an error of one line, and a zone that there is answers for its apex.
#![no_main]

use std::path::Path;

use ldplayer_core::message::QueryParts;
use ldplayer_zone::{Scratch, Transport, Zone, load, respond};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut open = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let read = load::text_of(data, Path::new("zone"), Some(b"\x07example\0"), &mut open);
    let zone = match read.and_then(|records| Zone::from_records(&records)) {
        Ok((zone, findings)) => {
            assert!(findings.iter().all(|finding| !finding.to_string().contains('\n')));
            zone
        }
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    for qtype in [1, 2, 6, 43, 255] {
        let (mut query, mut out) = (Vec::new(), Vec::new());
        let edns = Some((1232, true));
        QueryParts { id: 0, flags: 0, name: zone.apex(), qtype, qclass: zone.class(), edns }.compose(&mut query);
        assert!(respond(&zone, &query, Transport::Udp, &mut Scratch::default(), &mut out).sends);
        assert!(out.len() <= 1232);
    }
});
