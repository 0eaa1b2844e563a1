//! Rows of runs that were never made.

use std::net::{Ipv4Addr, SocketAddr};

use ldplayer_core::{Outcome, Query, RunTime, Status, Transport};

/// The row of a query that was sent when it was due, a millisecond after the one before, and answered after so long.
pub fn answered(index: u64, took_ns: i64, rcode: u16) -> Outcome {
    let due = RunTime(index as i64 * 1_000_000);
    let query = Query {
        index,
        due,
        client: Ipv4Addr::new(192, 0, 2, 1).into(),
        client_port: 0,
        server: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53),
        transport: Transport::Udp,
        class: None,
        expected: Default::default(),
        dependency: None,
        wire: Default::default(),
    };
    let unfinished = Outcome::unfinished(&query);
    Outcome {
        status: Status::Answered,
        submitted: Some(due),
        answered: Some(due + took_ns),
        rcode: Some(rcode),
        ..unfinished
    }
}
