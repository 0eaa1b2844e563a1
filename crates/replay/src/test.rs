//! Messages for unit tests.

use bytes::Bytes;
use ldplayer_core::message::{CLASS_IN, QueryParts, flag};
use ldplayer_core::{Query, RunTime, Transport};

/// Query `number`, due at `due` nanoseconds.
pub fn query(number: u64, due: i64) -> Query {
    let mut wire = Vec::new();
    QueryParts { id: 1, flags: flag::RD, name: b"\x07example\0", qtype: 1, qclass: CLASS_IN, edns: None }
        .compose(&mut wire);
    Query {
        index: number,
        due: RunTime(due),
        client: "192.0.2.1".parse().unwrap(),
        client_port: 1_024,
        server: "198.51.100.1:53".parse().unwrap(),
        transport: Transport::Udp,
        class: None,
        expected: Default::default(),
        dependency: None,
        wire: Bytes::from(wire),
    }
}

/// The response to `query` with a response code.
pub fn response(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut wire = query.to_vec();
    wire[2] |= 0x80;
    wire[3] = rcode;
    wire
}
