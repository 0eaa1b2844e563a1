//! Findings of made-up pairs: each with the case in which it would be false.

use ldplayer_core::{Segments, Status, Transport};

use super::figures::quantiles;
use super::{Exchange, Line, Pair};

const MS: f64 = 1e6;
/// The response time over UDP of most tests.
const RTT: f64 = 20.0;

/// A query that was answered after so many milliseconds, or never.
fn exchange(took_ms: Option<f64>) -> Exchange {
    Exchange {
        due: 0,
        status: if took_ms.is_some() { Status::Answered } else { Status::Timeout },
        reason: None,
        took: took_ms.map(|ms| (ms * MS) as i64),
        connect: None,
        handshake: None,
        rest: took_ms.map(|_| 0),
        rcode: took_ms.map(|_| 0),
        is_truncated: false,
        response_bytes: 80,
        is_resent: false,
        segments: Some(Segments { arrived: 1, resent: 0 }),
        length_apart: false,
    }
}

/// A pair of one of 50 clients, a round trip away, whose query over the other transport took so many of them.
fn pair(number: usize, round_trips: Option<f64>) -> Pair {
    // No two are just the same.
    let rtt = RTT + (number % 7) as f64 * 0.01;
    let mut other = exchange(round_trips.map(|ratio| ratio * rtt));
    other.connect = round_trips.map(|_| (rtt * MS) as i64);
    Pair { client: [10, 64, 0, (number % 50) as u8].into(), udp: exchange(Some(rtt)), other }
}

/// So many pairs of a shape.
fn pairs(count: usize, make: impl Fn(usize) -> Pair) -> Vec<Pair> {
    (0..count).map(make).collect()
}

fn line(pairs: &[Pair]) -> Line {
    Line::new("192.0.2.1:53".to_owned(), Transport::Tcp, pairs, Vec::new())
}

fn codes(pairs: &[Pair]) -> Vec<&'static str> {
    line(pairs).findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn two_round_trips_are_normal_over_tcp_and_three_over_tls() {
    assert_eq!(codes(&pairs(100, |number| pair(number, Some(2.0)))), ["normal"]);
    let three = pairs(100, |number| pair(number, Some(3.0)));
    let dot = Line::new("192.0.2.1:853".to_owned(), Transport::Dot, &three, Vec::new());
    assert_eq!(dot.findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["normal"]);
}

fn apart(number: usize, round_trips: f64, rest_ms: f64) -> Pair {
    let mut pair = pair(number, Some(round_trips));
    (pair.other.length_apart, pair.other.rest) = (true, Some((rest_ms * MS) as i64));
    pair.other.segments = Some(Segments { arrived: 2, resent: 0 });
    pair
}

#[test]
fn three_are_a_split_length_only_where_that_was_seen() {
    // Two of 120 connections had their length in one segment with the response.
    let split = pairs(120, |number| if number < 2 { pair(number, Some(2.0)) } else { apart(number, 3.0, RTT) });
    let found = line(&split).findings;
    assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["split_length"]);
    assert!(found[0].evidence[0].starts_with("on 118 of 120 connections the two octets"), "{found:?}");
    assert!(found[0].evidence[0].contains("20.0 ms later (1.0 round trips"), "{found:?}");
    assert!(found[0].evidence[1].contains("on 118 of 120 connections"), "{found:?}");
    assert_eq!(codes(&pairs(120, |number| pair(number, Some(3.0)))), ["one_more_round_trip"]);
    // With a delayed acknowledgement it is more than three, and from the same cause.
    assert_eq!(codes(&pairs(120, |number| apart(number, 5.0, 3.0 * RTT))), ["split_length"]);
    assert_eq!(codes(&pairs(120, |number| pair(number, Some(5.0)))), ["above_expected"]);
}

/// A pair of a client at one of ten distances whose answer over the other transport takes round trips and a constant time.
fn at_distances(number: usize, round_trips: f64, constant_ms: f64) -> Pair {
    let rtt = 10.0 + (number % 10) as f64 * 8.0;
    let mut other = exchange(Some(rtt * round_trips + constant_ms));
    other.connect = Some((rtt * MS) as i64);
    Pair { client: [10, 64, 0, (number % 10) as u8].into(), udp: exchange(Some(rtt)), other }
}

/// 40 ms before each answer over TCP was called a round trip more, which it is for a client that is 40 ms away.
#[test]
fn a_constant_delay_is_told_from_a_round_trip_by_clients_of_different_distances() {
    let finding = |trips: f64, constant: f64| {
        let found = line(&pairs(200, |number| at_distances(number, trips, constant))).findings;
        (found[0].code, found[0].text.clone(), found[0].evidence.join("; "))
    };
    let (code, text, evidence) = finding(2.0, 40.0);
    assert_eq!(code, "constant_delay");
    assert!(
        text.contains("comes 40 ms after it could") && evidence.contains("40.0 ms and 2.00 round trips"),
        "{text} {evidence}"
    );
    let (code, text, evidence) = finding(3.0, 0.0);
    assert_eq!(code, "one_more_round_trip");
    assert!(text.ends_with("of unknown cause") && evidence.contains("3.00 round trips"), "{text} {evidence}");
    assert_eq!(finding(2.0, 0.5).0, "normal");
    // Clients that are all as far away cannot tell, and it is said.
    let same = line(&pairs(200, |number| pair(number, Some(3.0)))).findings;
    assert!(same[0].text.contains("or a delay of that length"), "{same:?}");
}

#[test]
fn a_split_length_has_a_cause_only_where_the_response_waits_as_long_as_an_acknowledgement_takes() {
    let text = |rest: &dyn Fn(f64) -> f64| {
        let of = |number: usize| {
            let mut pair = at_distances(number, 2.0, 0.0);
            let rtt = pair.udp.took.unwrap() as f64 / MS;
            let later = (rest(rtt) * MS) as i64;
            (pair.other.length_apart, pair.other.rest) = (true, Some(later));
            pair.other.took = pair.other.took.map(|took| took + later);
            pair
        };
        let found = line(&pairs(200, of)).findings;
        assert_eq!(found[0].code, "split_length", "{found:?}");
        found[0].text.clone()
    };
    assert!(text(&|rtt| rtt).contains("Nagle"));
    assert!(text(&|rtt| rtt + 40.0).contains("Nagle"), "with a delayed acknowledgement");
    for rest in [&(|_| 45.0) as &dyn Fn(f64) -> f64, &|_| 200.0, &|rtt| rtt * 2.0] {
        assert!(text(rest).ends_with("of unknown cause"));
    }
}

#[test]
fn several_segments_that_cost_nothing_are_told_apart_from_those_that_wait() {
    let both = |number| {
        let mut pair = pair(number, Some(2.0));
        pair.other.segments = Some(Segments { arrived: 2, resent: 0 });
        pair
    };
    assert_eq!(codes(&pairs(60, both)), ["split_response", "normal"]);
    assert_eq!(codes(&pairs(60, |number| apart(number, 2.0, 0.1))), ["split_response", "normal"]);
    // A long response needs several, and a segment that was lost comes twice.
    for spoil in [
        |pair: &mut Pair| pair.other.response_bytes = 3_000,
        |pair: &mut Pair| {
            pair.other.segments = Some(Segments { arrived: 2, resent: 1 });
        },
    ] {
        let spoiled = |number| {
            let mut pair = both(number);
            spoil(&mut pair);
            pair
        };
        assert_eq!(codes(&pairs(60, spoiled)), ["normal"]);
    }
}

/// A pair whose connection came up only when its SYN was sent again.
fn slow_to_connect(number: usize) -> Pair {
    let mut pair = pair(number, Some(52.0));
    pair.other.connect = Some(1_020_000_000);
    pair
}

/// A pair whose connection came up at once and whose query was read late.
fn slow_to_answer(number: usize) -> Pair {
    pair(number, Some(40.0))
}

#[test]
fn a_heavy_tail_is_a_queue_where_connections_wait_and_udp_does_not_suffer() {
    for slow in [slow_to_connect, slow_to_answer] {
        let tail =
            |share: usize| move |number| if number % 100 < share { slow(number) } else { pair(number, Some(2.0)) };
        let found = line(&pairs(200, tail(10))).findings;
        assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["accept_queue", "normal"]);
        assert!(found[0].evidence.iter().any(|evidence| evidence.starts_with("20 of 200 ")), "{found:?}");
        // Two in a hundred are no heavy tail …
        assert_eq!(codes(&pairs(200, tail(2))), ["normal"]);
        // … and where UDP is lost as often, the path is.
        let lossy = |number: usize| {
            let mut pair = tail(10)(number);
            if number % 20 == 7 {
                pair.udp = exchange(None);
            }
            pair
        };
        assert_eq!(codes(&pairs(200, lossy)), ["loss", "normal", "udp_lost"]);
    }
    // Clients that are a second away have not waited.
    let far = |number: usize| {
        let mut pair = pair(number, None);
        (pair.udp, pair.other) = (exchange(Some(1_000.0)), exchange(Some(2_000.0)));
        pair.other.connect = Some(1_000_000_000);
        pair
    };
    assert_eq!(codes(&pairs(100, far)), ["normal"]);
    // Ratios alone do not tell from what a tail is.
    let unknown = |number| pair(number, Some(if number.is_multiple_of(10) { 8.0 } else { 2.0 }));
    assert_eq!(codes(&pairs(200, unknown)), ["heavy_tail", "normal"]);
    // Everything slow by the same is no tail.
    assert_eq!(codes(&pairs(200, |number| pair(number, Some(8.0)))), ["above_expected"]);
}

fn refused(number: usize) -> Pair {
    let mut pair = pair(number, None);
    (pair.other.status, pair.other.reason) = (Status::Refused, Some("connection_refused".to_owned()));
    pair
}

#[test]
fn a_server_without_tcp_is_told_with_its_reasons() {
    let found = line(&pairs(40, refused)).findings;
    assert_eq!((found.len(), found[0].code), (1, "no_connections"));
    assert_eq!(found[0].evidence, ["UDP: 40 of 40 answered", "TCP: 0 of 40 answered (connection_refused 40)"]);
    let mostly = pairs(40, |number| if number < 5 { pair(number, Some(2.0)) } else { refused(number) });
    assert_eq!(codes(&mostly), ["mostly_failing"]);
    let silent = |number| Pair { udp: exchange(None), ..pair(number, Some(2.0)) };
    assert_eq!(codes(&pairs(40, silent)), ["no_udp"]);
    assert_eq!(codes(&pairs(40, |number| Pair { other: exchange(None), ..silent(number) })), ["no_answer"]);
}

/// Seen of NSD and BIND with TLS 1.3, in a capture: a ticket, its delayed acknowledgement, and then the response.
#[test]
fn an_answer_over_tls_that_waits_is_told_from_a_handshake_that_does() {
    let over_tls = |handshake: f64, round_trips: f64| {
        let made = pairs(80, |number| {
            let mut pair = pair(number, Some(round_trips));
            pair.other.handshake = pair.other.connect.map(|connect| (connect as f64 * handshake) as i64);
            pair
        });
        Line::new("192.0.2.1:853".to_owned(), Transport::Dot, &made, Vec::new()).findings
    };
    let held = over_tls(1.0, 4.5);
    assert_eq!(held[0].code, "held_response");
    assert!(held[0].evidence.iter().any(|told| told.contains("handshake 1.0, query to first byte 2.5")), "{held:?}");
    assert_eq!(over_tls(2.0, 4.0)[0].code, "one_more_round_trip");
    assert_eq!(over_tls(1.0, 3.0)[0].code, "normal");
}

#[test]
fn few_pairs_say_nothing() {
    assert_eq!(codes(&pairs(19, |number| pair(number, Some(2.0)))), ["too_few_pairs"]);
    assert_eq!(codes(&pairs(19, refused)), ["too_few_pairs"]);
    // An interrupted run has not asked.
    let unsent = |number| {
        let mut pair = pair(number, None);
        pair.other.status = Status::NotSent;
        pair
    };
    let mixed = pairs(60, |number| if number < 15 { pair(number, Some(2.0)) } else { unsent(number) });
    assert_eq!(codes(&mixed), ["too_few_pairs"]);
    assert_eq!(line(&mixed).pairs.not_sent, 45);
    assert_eq!(codes(&[]), ["too_few_pairs"]);
}

#[test]
fn without_a_network_ratios_say_nothing_of_round_trips() {
    let near =
        |ratio: f64| move |_| Pair { udp: exchange(Some(0.05)), other: exchange(Some(0.05 * ratio)), ..pair(0, None) };
    assert_eq!(codes(&pairs(100, near(2.0))), ["no_network"]);
    assert_eq!(codes(&pairs(100, near(3.0))), ["no_network"]);
    // Answers that wait for seconds are reported there, too.
    let queued = |number: usize| if number.is_multiple_of(5) { slow_to_answer(number) } else { near(2.0)(number) };
    assert_eq!(codes(&pairs(100, queued)), ["accept_queue", "no_network"]);
}

/// A server that drops TCP looks no better for it.
#[test]
fn failures_stay_in_as_endless() {
    let survivors = line(&pairs(100, |number| pair(number, if number % 5 < 2 { None } else { Some(2.0) })));
    assert_eq!((survivors.pairs.valid, survivors.pairs.only_udp), (60, 40));
    assert_eq!(survivors.failures["tcp"]["timeout"], 40);
    let [without, with] = [survivors.ratio, survivors.ratio_with_failures];
    assert!((1.99..2.01).contains(&without.p75.unwrap()) && (1.99..2.01).contains(&with.p50.unwrap()));
    assert_eq!((without.n, with.n, with.p75, with.max), (60, 100, None, None));
    assert!(survivors.findings.iter().any(|finding| finding.code == "failing"));
    assert!(!codes(&pairs(100, |number| pair(number, Some(2.0)))).contains(&"failing"));
}

#[test]
fn what_is_odd_about_answers_is_told_beside_the_ratios() {
    let normal = |number| pair(number, Some(2.0));
    let with = |spoil: fn(&mut Pair)| {
        codes(&pairs(100, |number| {
            let mut pair = normal(number);
            spoil(&mut pair);
            pair
        }))
    };
    assert_eq!(with(|pair| pair.other.rcode = Some(5)), ["normal", "error_answers"]);
    assert_eq!(with(|pair| pair.udp.is_truncated = true), ["normal", "udp_truncated"]);
    assert_eq!(with(|pair| pair.other.is_resent = true), ["normal", "closed_before_answer"]);
    let refused = pairs(100, |number| {
        let mut pair = normal(number);
        pair.udp.rcode = Some(5);
        pair
    });
    assert_eq!(line(&refused).findings[1].evidence, ["100 over udp: REFUSED"]);
}

/// Seen of NSD, whose limit is on by default.
#[test]
fn answers_that_are_dropped_and_truncated_in_part_are_a_rate_limit_and_no_loss() {
    let limited = |number: usize| {
        let mut pair = if number % 10 == 3 { slow_to_answer(number) } else { pair(number, Some(2.0)) };
        match number % 4 {
            0 => pair.udp = exchange(None),
            1 => pair.udp.is_truncated = true,
            _ => {}
        }
        pair
    };
    assert_eq!(codes(&pairs(200, limited)), ["accept_queue", "normal", "rate_limited"]);
    let lost = |number: usize| {
        let mut pair = limited(number);
        pair.udp.is_truncated = false;
        pair
    };
    assert_eq!(codes(&pairs(200, lost)), ["loss", "normal", "udp_lost"]);
}

#[test]
fn clients_are_parted_by_their_round_trip_time() {
    let far = |number: usize| {
        let mut pair = pair(number, Some(2.0));
        pair.client = [10, 64, 1, (number % 10) as u8].into();
        (pair.udp, pair.other) =
            (exchange(Some(150.0)), if number < 3 { exchange(None) } else { exchange(Some(450.0)) });
        pair
    };
    let both = [pairs(100, |number| pair(number, Some(2.0))), pairs(30, far)].concat();
    let classes = line(&both).rtt_classes;
    let told: Vec<_> = classes.iter().map(|class| (class.from_ms, class.clients, class.pairs, class.failed)).collect();
    assert_eq!(told, [(20.0, 50, 100, 0), (100.0, 10, 30, 3)]);
    assert!((2.99..3.01).contains(&classes[1].ratio.p50.unwrap()));
}

#[test]
fn the_histogram_has_bins_of_a_hundredth_and_all_of_the_pairs() {
    let ratios = [1.004, 1.006, 1.014, 25.0].map(|ratio| Pair {
        udp: exchange(Some(100.0)),
        other: exchange(Some(100.0 * ratio)),
        ..pair(0, None)
    });
    let line = line(&ratios);
    assert_eq!(line.histogram, [(1.0, 50.0), (1.01, 25.0), (25.0, 25.0)]);
    assert_eq!((line.above_10_percent, line.peak.unwrap().percent), (25.0, 75.0));
    let some = quantiles(&[1.0, 2.0, 3.0, 4.0], 4);
    assert_eq!((some.p50, some.p75, some.p10, quantiles(&[], 0).p50), (Some(4.0), None, Some(1.0), None));
}
