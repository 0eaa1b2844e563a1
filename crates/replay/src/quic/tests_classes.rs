//! Tests over QUIC of client classes with different policies, and of padding.

use ldplayer_core::message::{CLASS_IN, QueryParts, flag};
use ldplayer_core::{Outcome, Query};

use super::simulation::{MS, Network, answer, doq_query, policy, server, settings};
use super::{ALPN_DOQ, Quic};
use crate::table::{Machine, Policy};

/// Three queries of one client of `class`, 500 ms apart.
fn queries(class: u8) -> impl Iterator<Item = Query> {
    (0..3).map(move |number| {
        let query = doq_query(u64::from(class) * 3 + number, class + 1, number as i64 * 500);
        Query { class: Some(class), ..query }
    })
}

fn of(rows: &[Outcome], class: u8) -> Vec<(u64, bool, bool)> {
    let rows = rows.iter().filter(|row| row.class == Some(class));
    rows.map(|row| (row.connection.unwrap(), row.resumed, row.early_data)).collect()
}

#[test]
fn each_class_has_its_own_idle_timeout_tickets_and_early_data() {
    let closing = Policy { idle_timeout: 50 * MS, ..policy() };
    let classes = [
        policy(),
        Policy { resumption: false, early_data: true, ..closing },
        closing,
        Policy { early_data: true, ..closing },
    ];
    let any_early = Policy { early_data: true, ..policy() };
    let mut network =
        Network::new(any_early, &settings(), server("server.pem", ALPN_DOQ, 100, true), |_, message| answer(message));
    network.machine = std::mem::replace(
        &mut network.machine,
        Quic::new(super::simulation::config(policy()), std::time::Instant::now(), None, None),
    )
    .with_classes(&classes);
    let rows = network.replay((0..4).flat_map(queries));
    let (kept, fresh, resumed, early) = (of(&rows, 0), of(&rows, 1), of(&rows, 2), of(&rows, 3));
    assert!(kept.iter().all(|row| row.0 == kept[0].0), "{kept:?}");
    let how = |rows: &[(u64, bool, bool)]| rows.iter().map(|row| (row.1, row.2)).collect::<Vec<_>>();
    assert_eq!(how(&fresh), [(false, false); 3]);
    assert_eq!(how(&resumed), [(false, false), (true, false), (true, false)]);
    assert_eq!(how(&early), [(false, false), (true, true), (true, true)]);
    assert_eq!(network.machine.connection_counts().opened, 1 + 3 + 3 + 3);
}

#[test]
fn queries_with_edns_are_padded_and_their_length_is_told() {
    let mut network = Network::honest(policy());
    let mut query = doq_query(0, 1, 0);
    let mut wire = Vec::new();
    QueryParts {
        id: 9,
        flags: flag::RD,
        name: b"\x07example\0",
        qtype: 1,
        qclass: CLASS_IN,
        edns: Some((1_232, true)),
    }
    .compose(&mut wire);
    query.wire = wire.into();
    let rows = network.replay([query, doq_query(1, 1, 1)]);
    let lengths: Vec<usize> = network.seen.iter().map(|(_, message)| message.len()).collect();
    assert_eq!(lengths, [128, 25], "the one without EDNS stays as it is");
    assert_eq!(rows.iter().map(|row| usize::from(row.query_bytes)).collect::<Vec<_>>(), lengths);
}
