//! Pairs out of the rows of a run: each query with the one that belongs to it, whatever became of either.

mod common;

use common::{outcome, unanswered};
use ldplayer_core::{Outcome, Reason, RunTime, Segments, Status, Transport};
use ldplayer_results::ratio::read_pairs;

/// The row of a client's query over a transport, answered after so many microseconds.
fn row(index: u64, client: u8, transport: Transport, took_us: i64) -> Outcome {
    let due = index as i64 * 1_000_000;
    Outcome {
        client: [10, 64, 0, client].into(),
        transport,
        answered: Some(RunTime(due + took_us * 1_000)),
        ..outcome(index, due)
    }
}

#[test]
fn queries_are_paired_by_client_and_round_in_the_order_of_the_trace() {
    let tcp = Outcome {
        connect_ns: Some(9_000),
        first_byte: Some(RunTime(2_030_000)),
        segments: Some(Segments { arrived: 2, resent: 1 }),
        length_apart: true,
        connection: Some(4),
        ..row(2, 1, Transport::Tcp, 50)
    };
    let rows = vec![
        // The second client's are mixed with those of the first, and rows come in the order in which they end.
        row(5, 1, Transport::Udp, 21),
        unanswered(row(3, 2, Transport::Tcp, 0)),
        row(1, 2, Transport::Udp, 20),
        row(0, 1, Transport::Udp, 10),
        tcp,
        Outcome { status: Status::Late, ..row(3, 2, Transport::Tcp, 900) },
        Outcome {
            status: Status::ConnectFailed,
            reason: Some(Reason::ConnectTimeout),
            ..unanswered(row(4, 1, Transport::Tcp, 0))
        },
        row(6, 1, Transport::Dot, 60),
        // The last round was cut short: it has no pair.
        row(7, 1, Transport::Udp, 22),
    ];
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run");
    common::run(&run, rows);
    let pairs = read_pairs(&run).unwrap();
    let told: Vec<_> = pairs[&Transport::Tcp]
        .iter()
        .map(|pair| (pair.client.to_string(), pair.udp.took, pair.other.took, pair.other.reason.clone()))
        .collect();
    let expected = [
        ("10.64.0.1".to_owned(), Some(10_000), Some(50_000), None),
        ("10.64.0.1".to_owned(), Some(21_000), None, Some("connect_timeout".to_owned())),
        ("10.64.0.2".to_owned(), Some(20_000), None, None),
    ];
    assert_eq!(told, expected);
    let first = &pairs[&Transport::Tcp][0].other;
    assert_eq!(
        (first.connect, first.rest, first.segments),
        (Some(9_000), Some(20_000), Some(Segments { arrived: 2, resent: 1 }))
    );
    assert!(first.length_apart && !pairs[&Transport::Tcp][0].udp.length_apart);
    assert_eq!(pairs[&Transport::Dot].len(), 1);
}
