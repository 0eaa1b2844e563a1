//! Tests of the machine against good and bad servers on a simulated network: each query gets exactly one outcome, the right one.

use std::collections::HashMap;

use ldplayer_core::{Outcome, Reason, RunTime, Segments, Status};
use proptest::prelude::*;

use super::simulation::{
    Accept, DELAY, Network, Reply, TIMEOUT, accounts_hold, answer, config, framed, number, policy, route, tcp_query,
};
use super::{Action, Connections, WRITE_AT_ONCE, framing};
use crate::table::{Config, ConnectionCounts, Machine, Policy};

fn statuses(rows: &[Outcome]) -> Vec<(u64, Status, Option<Reason>)> {
    rows.iter().map(|row| (row.index, row.status, row.reason)).collect()
}

fn answered(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, Status, Option<Reason>)> {
    numbers.into_iter().map(|number| (number, Status::Answered, None)).collect()
}

fn latencies(rows: &[Outcome]) -> Vec<i64> {
    rows.iter().map(|row| row.answered.unwrap() - row.submitted.unwrap()).collect()
}

#[test]
fn a_fresh_connection_takes_two_round_trips_and_a_reused_one_takes_one() {
    let mut network = Network::honest(policy());
    let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 1, 100), tcp_query(2, 2, 100)]);
    assert_eq!(statuses(&rows), answered(0..3));
    assert_eq!(latencies(&rows), [4 * DELAY, 2 * DELAY, 4 * DELAY]);
    let paid: Vec<_> = rows.iter().map(|row| (row.connect_ns, row.reused)).collect();
    assert_eq!(paid, [(Some(2 * DELAY), false), (None, true), (Some(2 * DELAY), false)]);
    assert_eq!(rows[0].connection, rows[1].connection);
    assert_ne!(rows[0].connection, rows[2].connection, "clients share no connection");
    assert!(rows.iter().all(|row| row.client_port == 4_000 && row.submitted == Some(row.intended)));
    accounts_hold(&network, &rows, 3);
}

#[test]
fn queries_that_come_while_a_connection_is_opened_share_it() {
    let mut network = Network::honest(policy());
    let rows = network.replay((0..3).map(|number| tcp_query(number, 1, number as i64)));
    assert_eq!(latencies(&rows), [40, 39, 38]);
    assert!(rows.iter().all(|row| !row.reused && row.connection == Some(0)));
    assert_eq!(rows.iter().filter(|row| row.connect_ns.is_some()).count(), 1, "one query pays");
}

#[test]
fn an_idle_connection_is_closed_after_its_time_and_not_before() {
    let mut network = Network::honest(policy());
    network.replay([tcp_query(0, 1, 0)]);
    let since = network.now;
    network.pass(since + 4_999);
    assert_eq!(network.machine.connection_counts().open, 1);
    network.pass(since + 5_000);
    let counts = *network.machine.connection_counts();
    assert_eq!(counts, ConnectionCounts { opened: 1, peak_open: 1, closed_idle: 1, ..ConnectionCounts::default() });
    assert_eq!(network.machine.poll_timeout(), None);
    let rows = network.replay([tcp_query(1, 1, 9_000)]);
    assert_eq!((rows[0].connection, rows[0].reused), (Some(1), false));
}

#[test]
fn a_server_that_tells_a_shorter_time_is_heeded() {
    // An answer with the option edns-tcp-keepalive (RFC 7828).
    fn telling(message: &[u8], units: u16) -> Reply {
        let mut response = crate::test::response(message, 0);
        response[11] = 1;
        response.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 6, 0, 11, 0, 2]);
        response.extend_from_slice(&units.to_be_bytes());
        let mut out = Vec::new();
        framing::append(&mut out, &response, u16::from_be_bytes([response[0], response[1]]), 0);
        Reply::Segments(vec![out])
    }
    const UNIT: i64 = 100_000_000;
    let policy = Policy { idle_timeout: 10 * UNIT, ..policy() };
    for (units, lasts) in [(3, 3 * UNIT), (0, 0), (20, 10 * UNIT)] {
        let mut network = Network::new(config(policy), move |_, message| vec![telling(message, units)]);
        let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 1, 60)]);
        assert_eq!(statuses(&rows), answered(0..2));
        let since = network.now;
        network.pass(since + lasts - 1);
        assert_eq!(network.machine.connection_counts().open, u64::from(lasts > 0));
        network.pass(since + lasts);
        assert_eq!(network.machine.connection_counts().open, 0);
        accounts_hold(&network, &rows, 2);
    }
}

#[test]
fn without_an_idle_time_each_answer_closes() {
    let mut network = Network::honest(Policy { idle_timeout: 0, ..policy() });
    let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 1, 100)]);
    assert_eq!(latencies(&rows), [4 * DELAY; 2]);
    assert_eq!((network.machine.connection_counts().closed_idle, network.machine.connection_counts().open), (2, 0));
}

#[test]
fn a_connection_is_closed_after_its_last_query() {
    let mut network = Network::honest(Policy { queries_per_connection: 2, ..policy() });
    let rows = network.replay((0..5).map(|number| tcp_query(number, 1, 100 * number as i64)));
    let connections: Vec<_> = rows.iter().map(|row| row.connection.unwrap()).collect();
    assert_eq!(connections, [0, 0, 1, 1, 2]);
    let counts = network.machine.connection_counts();
    assert_eq!((counts.closed_spent, counts.open), (2, 1));
    accounts_hold(&network, &rows, 5);
}

#[test]
fn a_full_pipeline_opens_another_connection_and_an_idle_one_is_gone_back_to() {
    let mut network = Network::honest(Policy { pipeline: 2, ..policy() });
    let dues = [0, 1, 2, 100, 101];
    let rows = network.replay(dues.iter().zip(0..).map(|(&due, number)| tcp_query(number, 1, due)));
    let connections: Vec<_> = rows.iter().map(|row| row.connection.unwrap()).collect();
    assert_eq!(connections[..3], [0, 0, 1]);
    assert!(rows[3].reused && rows[4].reused);
    assert_eq!(network.machine.connection_counts().opened, 2);
}

#[test]
fn answers_may_come_in_any_order() {
    let mut held = Vec::new();
    let mut network = Network::new(config(policy()), move |_, message| {
        held.push(framed(message));
        if held.len() < 3 { vec![] } else { vec![Reply::Segments(held.drain(..).rev().collect())] }
    });
    let rows = network.replay((0..3).map(|number| tcp_query(number, 1, 0)));
    assert_eq!(statuses(&rows), answered(0..3));
    accounts_hold(&network, &rows, 3);
}

/// How a stream is cut into segments.
type Cut = fn(Vec<u8>) -> Vec<Vec<u8>>;

#[test]
fn answers_are_read_however_they_are_cut() {
    let cuts: [Cut; 3] = [
        |octets| octets.chunks(1).map(<[u8]>::to_vec).collect(),
        |octets| vec![octets[..2].to_vec(), octets[2..].to_vec()],
        |octets| vec![octets],
    ];
    for cut in cuts {
        let mut held = Vec::new();
        let mut network = Network::new(config(policy()), move |_, message| {
            held.extend(framed(message));
            // Two answers to a segment, where it is not cut.
            if held.len() < 2 * framed(message).len() {
                vec![]
            } else {
                vec![Reply::Segments(cut(std::mem::take(&mut held)))]
            }
        });
        let rows = network.replay((0..4).map(|number| tcp_query(number, 1, 0)));
        assert_eq!(statuses(&rows), answered(0..4));
        assert!(
            network.machine.table.connection(0).unwrap().active().is_none_or(|active| active.buffers.is_none()),
            "nothing is in flight"
        );
    }
}

#[test]
fn the_first_octet_of_an_answer_has_a_time_of_its_own() {
    let mut rest = Vec::new();
    let mut network = Network::new(config(policy()), move |_, message| {
        let mut octets = std::mem::take(&mut rest);
        octets.extend(framed(message));
        // All but its first octet waits for the next answer.
        if octets.len() == framed(message).len() {
            rest = octets.split_off(1);
        }
        vec![Reply::Segments(vec![octets])]
    });
    let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 1, 100)]);
    let times = rows.iter().map(|row| (row.first_byte.unwrap().0, row.answered.unwrap().0));
    let both = 100 + 2 * DELAY;
    assert_eq!(times.collect::<Vec<_>>(), [(4 * DELAY, both), (both, both)]);
}

#[test]
fn a_full_kernel_buffer_delays_and_loses_nothing() {
    let mut network = Network::honest(policy());
    network.room = 5;
    let rows = network.replay((0..3).map(|number| tcp_query(number, 1, 10 * number as i64)));
    assert_eq!(statuses(&rows), answered(0..3));
    assert!(latencies(&rows)[0] >= 4 * DELAY + (tcp_query(0, 1, 0).wire.len() as i64 + 2) / 5 - 1);
    assert!(network.machine.table.connection(0).unwrap().active().is_none_or(|active| active.buffers.is_none()));
    accounts_hold(&network, &rows, 3);
}

#[test]
fn a_server_that_closes_after_each_answer_is_seen_as_such() {
    let mut network = Network::new(config(policy()), |_, message| vec![answer(message), Reply::Close]);
    let rows = network.replay((0..3).map(|number| tcp_query(number, 1, 200 * number as i64)));
    assert_eq!(statuses(&rows), answered(0..3));
    let connections: Vec<_> = rows.iter().map(|row| (row.connection.unwrap(), row.resent)).collect();
    assert_eq!(connections, [(0, false), (1, false), (2, false)]);
    assert_eq!(network.machine.connection_counts().closed_by_server, 3);
}

#[test]
fn queries_of_an_ended_connection_are_sent_again_once_and_keep_their_first_time() {
    // The first connection ends with a query read and none answered, the second serves.
    let mut network =
        Network::new(
            config(policy()),
            |connection, message| {
                if connection == 0 { vec![Reply::Close] } else { vec![answer(message)] }
            },
        );
    let rows = network.replay((0..2).map(|number| tcp_query(number, 1, 0)));
    assert_eq!(statuses(&rows), answered(0..2));
    assert!(rows.iter().all(|row| row.resent && row.connection == Some(1)));
    assert_eq!(latencies(&rows), [8 * DELAY; 2]);
    assert_eq!(network.machine.connection_counts().resent, 2);
    accounts_hold(&network, &rows, 2);
}

#[test]
fn a_query_is_not_sent_a_third_time() {
    for (reply, reason) in [(true, Reason::ClosedByServer), (false, Reason::ResetByServer)] {
        let mut network =
            Network::new(config(policy()), move |_, _| vec![if reply { Reply::Close } else { Reply::Reset }]);
        let rows = network.replay([tcp_query(0, 1, 0)]);
        assert_eq!(statuses(&rows), [(0, Status::Reset, Some(reason))]);
        assert_eq!((network.seen.len(), rows[0].resent), (2, true));
        accounts_hold(&network, &rows, 1);
    }
}

#[test]
fn half_an_answer_before_a_reset_is_none() {
    let mut network = Network::new(config(policy()), |connection, message| match connection {
        0 => vec![Reply::Segments(vec![framed(message)[..9].to_vec()]), Reply::Reset],
        _ => vec![answer(message)],
    });
    let rows = network.replay([tcp_query(0, 1, 0)]);
    assert_eq!(statuses(&rows), answered([0]));
    assert!(rows[0].resent);
}

#[test]
fn a_server_that_never_accepts_fails_the_connection() {
    let mut network = Network::honest(policy());
    network.accept = Accept::Never;
    let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 1, 300)]);
    let reason = Some(Reason::ConnectTimeout);
    assert_eq!(statuses(&rows), [(0, Status::ConnectFailed, reason), (1, Status::ConnectFailed, reason)]);
    assert_eq!((network.now, network.machine.connection_counts().failed), (400, 1));
    accounts_hold(&network, &rows, 2);
}

#[test]
fn when_both_timeouts_are_equal_it_is_the_connection_that_failed() {
    let mut network = Network::honest(Policy { connect_timeout: TIMEOUT, ..policy() });
    network.accept = Accept::Never;
    let rows = network.replay([tcp_query(0, 1, 0)]);
    assert_eq!(statuses(&rows), [(0, Status::ConnectFailed, Some(Reason::ConnectTimeout))]);
}

#[test]
fn a_refused_connection_fails_at_once() {
    let mut network = Network::honest(policy());
    network.accept = Accept::Refuse;
    let rows = network.replay([tcp_query(0, 1, 0)]);
    assert_eq!(statuses(&rows), [(0, Status::ConnectFailed, Some(Reason::ConnectionRefused))]);
    assert_eq!(network.now, 2 * DELAY);
}

#[test]
fn a_server_that_accepts_and_never_answers_times_out() {
    let mut network = Network::new(config(policy()), |_, _| vec![]);
    let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 1, 500)]);
    assert_eq!(statuses(&rows), [(0, Status::Timeout, None), (1, Status::Timeout, None)]);
    assert_eq!((network.now, network.machine.connection_counts().opened), (500 + TIMEOUT, 1));
    accounts_hold(&network, &rows, 2);
}

#[test]
fn a_late_answer_is_a_timeout_and_a_late_row() {
    let mut first = None;
    let mut network = Network::new(config(policy()), move |_, message| match first.take() {
        Some(kept) => vec![Reply::Segments(vec![kept]), answer(message)],
        None => {
            first = Some(framed(message));
            vec![]
        }
    });
    let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 1, 1_200)]);
    assert_eq!(statuses(&rows), [(0, Status::Timeout, None), (0, Status::Late, None), (1, Status::Answered, None)]);
    accounts_hold(&network, &rows, 2);
}

#[test]
fn wrong_ids_wrong_questions_and_garbage_are_strays() {
    let mut network = Network::new(config(policy()), |_, message| {
        let (mut id, mut question) = (framed(message), framed(message));
        id[2] ^= 0x40;
        question[2 + 14] ^= 0x01;
        let (garbage, short) = (vec![0, 3, 1, 2, 3], vec![0, 0]);
        vec![Reply::Segments(vec![id, question, garbage, short]), answer(message)]
    });
    let rows = network.replay([tcp_query(0, 1, 0)]);
    assert_eq!(statuses(&rows[..1]), answered([0]));
    let strays: Vec<_> = rows[1..].iter().map(|row| (row.status, row.reason.unwrap(), row.connection)).collect();
    let stray = |reason| (Status::Stray, reason, Some(0));
    assert_eq!(strays, [Reason::UnknownId, Reason::QuestionMismatch, Reason::Garbage, Reason::Garbage].map(stray));
}

/// A second answer was told as one that nobody had waited for.
#[test]
fn a_second_answer_over_a_connection_is_a_duplicate() {
    let mut network = Network::new(config(policy()), |_, message| vec![answer(message), answer(message)]);
    let rows = network.replay([tcp_query(0, 1, 0)]);
    let strays: Vec<_> = rows.iter().filter(|row| row.status == Status::Stray).map(|row| row.reason).collect();
    assert_eq!(strays, [Some(Reason::Duplicate)]);
    assert_eq!(rows.iter().filter(|row| row.status == Status::Answered).count(), 1);
}

#[test]
fn a_kernel_without_ports_or_descriptors_leaves_queries_unsent() {
    let mut network = Network::honest(policy());
    network.machine.handle_query(RunTime(0), tcp_query(0, 1, 0), route());
    assert_eq!(network.machine.poll_action(), Some(super::Action::Open(0)));
    network.machine.handle_unopened(0, Reason::NoSource);
    let rows = network.replay([]);
    assert_eq!(statuses(&rows), [(0, Status::NotSent, Some(Reason::NoSource))]);
    accounts_hold(&network, &rows, 1);
}

#[test]
fn an_idle_connection_makes_room_and_without_one_nothing_is_sent() {
    let mut network = Network::new(Config { most: 1, ..config(policy()) }, |_, message| vec![answer(message)]);
    let rows = network.replay([tcp_query(0, 1, 0), tcp_query(1, 2, 100), tcp_query(2, 3, 101)]);
    assert_eq!(
        statuses(&rows),
        [(0, Status::Answered, None), (1, Status::Answered, None), (2, Status::NotSent, Some(Reason::NoSource))]
    );
    assert_eq!(network.machine.connection_counts().closed_for_room, 1);
    accounts_hold(&network, &rows, 3);
}

#[test]
fn an_interrupt_accounts_for_what_is_under_way() {
    let mut network = Network::new(config(policy()), |_, _| vec![]);
    network.schedule_all([tcp_query(0, 1, 0), tcp_query(1, 2, 100)]);
    network.pass(150);
    network.machine.handle_interrupt(RunTime(150));
    let rows = network.replay([]);
    let reason = Some(Reason::Interrupted);
    assert_eq!(statuses(&rows), [(0, Status::Timeout, reason), (1, Status::Timeout, reason)]);
    accounts_hold(&network, &rows, 2);
}

/// What a server of the property test does with a message.
fn misbehave(choice: u8, message: &[u8]) -> Vec<Reply> {
    match choice {
        0 => vec![],
        1 => vec![Reply::Close],
        2 => vec![Reply::Reset],
        3 => vec![answer(message), answer(message)],
        4 => vec![Reply::Segments(framed(message).chunks(3).map(<[u8]>::to_vec).collect())],
        5 => vec![Reply::Segments(vec![framed(message)[..7].to_vec()]), Reply::Close],
        6 => vec![answer(message), Reply::Close],
        7 => vec![Reply::Segments(vec![vec![0, 2, 9, 9]]), answer(message)],
        _ => vec![answer(message)],
    }
}

proptest! {
    #[test]
    fn whatever_the_server_does_each_query_ends_once_and_is_sent_twice_at_most(
        choices in prop::collection::vec(0u8..12, 1..60),
        dues in prop::collection::vec((0i64..3_000, 0u8..4), 1..60),
        (pipeline, per_connection, idle_timeout) in (1u32..5, 1u32..6, prop::sample::select(vec![0i64, 50, 5_000])),
        most in 1u32..6,
    ) {
        let policy = Policy { pipeline, queries_per_connection: per_connection, idle_timeout, ..policy() };
        let mut choice = choices.into_iter().cycle();
        let mut network = Network::new(Config { most, ..config(policy) }, move |_, message| {
            misbehave(choice.next().unwrap(), message)
        });
        let queries = dues.len() as u64;
        let dues = dues.into_iter().zip(0..);
        let rows = network.replay(dues.map(|((due, client), number)| tcp_query(number, client, due)).collect::<Vec<_>>());
        accounts_hold(&network, &rows, queries);
        let mut seen: HashMap<u64, u32> = HashMap::new();
        network.seen.iter().for_each(|(_, message)| *seen.entry(number(message)).or_default() += 1);
        for row in rows.iter().filter(|row| row.status.is_query()) {
            let times = seen.get(&row.index).copied().unwrap_or(0);
            prop_assert!(times <= 1 + u32::from(row.resent), "{times} times {row:?}");
        }
        let counts = network.machine.connection_counts();
        prop_assert!(counts.peak_open <= u64::from(most));
        network.pass(network.now + 20_000);
        prop_assert_eq!(network.machine.connection_counts().open, 0);
        prop_assert_eq!(network.machine.table.request_count(), 0, "a request was forgotten");
        prop_assert!(network.machine.table.is_clear());
    }

    #[test]
    fn any_octets_from_the_server_do_no_harm(
        segments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut network = Network::new(config(policy()), move |_, message| {
            let mut response = framed(message);
            for (at, octet) in &mutations {
                let at = at.index(response.len());
                response[at] = *octet;
            }
            vec![Reply::Segments(vec![response]), Reply::Segments(segments.clone())]
        });
        let rows = network.replay((0..3).map(|number| tcp_query(number, 1, 10 * number as i64)));
        accounts_hold(&network, &rows, 3);
    }
}

#[test]
fn a_blocked_connection_keeps_no_more_than_one_write_takes_and_is_not_asked_in_vain() {
    let mut machine = Connections::new(config(Policy { pipeline: 10_000, ..policy() }), None);
    (0..6_000).for_each(|number| machine.handle_query(RunTime(0), tcp_query(number, 1, 0), route()));
    assert_eq!(machine.poll_action(), Some(Action::Open(0)));
    machine.handle_opening(0, RunTime(0));
    machine.handle_opened(0, RunTime(10), 4_000);
    for time in 20..30 {
        let mut out = Vec::new();
        assert_eq!(machine.poll_action(), Some(Action::Write(0)));
        machine.compose(0, RunTime(time), &mut out);
        assert!((WRITE_AT_ONCE..WRITE_AT_ONCE + 100).contains(&out.len()), "{}", out.len());
        machine.handle_blocked(0, RunTime(time), &out[1..]);
        // What was to be written next is not, until the kernel has room.
        let mut more = Vec::new();
        while let Some(Action::Write(at)) = machine.poll_action() {
            machine.compose(at, RunTime(time), &mut more);
        }
        assert!(more.is_empty());
        machine.handle_writable(0);
    }
    // Those that were not written wait no longer than the others.
    machine.handle_timeout(RunTime(30 + TIMEOUT));
    assert_eq!(machine.counts().timed_out, 6_000);
}

/// The times are those of the segments, whatever the precision with which a worker then wakes up and reads them.
#[test]
fn answers_of_two_reads_keep_their_own_times_however_late_they_are_read() {
    for woken in [16, 400, 900] {
        let mut machine = Connections::new(config(policy()), None);
        (0..2).for_each(|number| machine.handle_query(RunTime(0), tcp_query(number, 1, 0), route()));
        machine.handle_opening(0, RunTime(0));
        machine.handle_opened(0, RunTime(5), 4_000);
        let mut written = Vec::new();
        machine.compose(0, RunTime(6), &mut written);
        machine.handle_timeout(RunTime(woken));
        let mut rest = written.as_slice();
        for time in [10, 13] {
            let answer = framed(framing::split(&mut rest).unwrap());
            machine.handle_input(0, RunTime(time), &answer);
        }
        let mut rows = std::mem::take(machine.outcomes());
        rows.sort_by_key(|row| row.index);
        assert_eq!(rows.iter().map(|row| row.answered).collect::<Vec<_>>(), [10, 13].map(|time| Some(RunTime(time))));
        assert_eq!(rows.iter().map(|row| row.first_byte).collect::<Vec<_>>(), [10, 13].map(|time| Some(RunTime(time))));
    }
}

#[test]
fn a_length_that_came_before_its_response_is_told_with_what_the_kernel_had_counted() {
    for (cuts, apart) in
        [(&[][..], false), (&[2], true), (&[1], false), (&[12], false), (&[1, 2], true), (&[2, 9], true)]
    {
        let mut machine = Connections::new(config(policy()), None);
        (0..2).for_each(|number| machine.handle_query(RunTime(0), tcp_query(number, 1, 0), route()));
        machine.handle_opening(0, RunTime(0));
        machine.handle_opened(0, RunTime(5), 4_000);
        let mut written = Vec::new();
        machine.compose(0, RunTime(6), &mut written);
        let mut rest = written.as_slice();
        for number in 0..2 {
            let answer = framed(framing::split(&mut rest).unwrap());
            let ends = cuts.iter().copied().chain([answer.len()]);
            let mut from = 0;
            for (arrived, end) in (1 + number * 10..).zip(ends) {
                let segments = Some(Segments { arrived, resent: 3 });
                machine.handle_counted(0, RunTime(10 + end as i64), &answer[from..end], segments);
                from = end;
            }
        }
        let mut rows = std::mem::take(machine.outcomes());
        rows.sort_by_key(|row| row.index);
        assert_eq!(rows.iter().map(|row| row.length_apart).collect::<Vec<_>>(), [apart; 2], "{cuts:?}");
        // Only the first one was all that had arrived on its connection.
        let first = Segments { arrived: cuts.len() as u16 + 1, resent: 3 };
        assert_eq!(rows.iter().map(|row| row.segments).collect::<Vec<_>>(), [Some(first), None], "{cuts:?}");
    }
}
