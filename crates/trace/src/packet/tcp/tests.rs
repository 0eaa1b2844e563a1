//! Tests of segments in order, out of order and missing.

use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Seen {
    messages: Vec<(u64, Vec<u8>)>,
    senders: Vec<SocketAddr>,
    cut: Vec<Vec<u8>>,
    /// The time of each message, and the time of the frame that yielded it.
    times: Vec<(i64, i64)>,
    troubles: Vec<Trouble>,
    now: i64,
}

impl Sink for Seen {
    fn message(&mut self, flow: &Flow, message: &[u8]) {
        self.messages.push((flow.stream, message.to_vec()));
        self.senders.push(flow.from);
        self.times.push((flow.frame.time_ns, self.now));
    }
    fn cut(&mut self, _: &Flow, beginning: &[u8]) {
        self.cut.push(beginning.to_vec());
    }
    fn trouble(&mut self, _: &Flow, trouble: Trouble) {
        self.troubles.push(trouble);
    }
}

fn message(number: u8, length: usize) -> Vec<u8> {
    let mut message = vec![number; length];
    message[2..6].copy_from_slice(&[1, 0, 0, 1]);
    message
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn segment(sequence: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
    Segment { source: 1_024, destination: 53, sequence, acknowledgement: 0, flags, payload, missing: 0 }
}

fn replay(segments: &[Segment<'_>]) -> Seen {
    let (mut tcp, mut seen) = (Reassembly::default(), Seen::default());
    let (from, to) = ("192.0.2.1:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
    segments.iter().for_each(|segment| tcp.add(from, to, segment, &Frame::default(), &mut seen));
    tcp.finish(&mut seen);
    seen
}

fn stream() -> (Vec<Vec<u8>>, Vec<u8>) {
    let messages: Vec<Vec<u8>> = (0..5).map(|number| message(number, 20 + 31 * usize::from(number))).collect();
    let octets = messages.iter().flat_map(|message| framed(message)).collect();
    (messages, octets)
}

proptest! {
    #[test]
    fn any_cut_order_and_repetition_yields_the_messages(
        cuts in prop::collection::btree_set(1_usize..410, 0..30),
        seed in any::<u64>(),
        start in any::<u32>(),
    ) {
        let (messages, octets) = stream();
        let mut bounds: Vec<usize> = cuts.into_iter().filter(|&cut| cut < octets.len()).collect();
        bounds.insert(0, 0);
        bounds.push(octets.len());
        let mut parts: Vec<Segment<'_>> = bounds
            .windows(2)
            .flat_map(|pair| [(pair[0], pair[1]), (pair[0], (pair[1] + 5).min(octets.len()))])
            .map(|(from, to)| segment(start.wrapping_add(1 + from as u32), 0, &octets[from..to]))
            .collect();
        let count = parts.len();
        (0..count).for_each(|at| parts.swap(at, (seed as usize).wrapping_mul(at + 7) % count));
        parts.insert(0, segment(start, SYN, &[]));
        let seen = replay(&parts);
        prop_assert_eq!(seen.messages.into_iter().map(|(_, message)| message).collect::<Vec<_>>(), messages);
        prop_assert!(seen.troubles.is_empty());
    }

    #[test]
    fn no_segments_make_it_panic(segments in prop::collection::vec((any::<u32>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)), 0..30)) {
        let segments: Vec<Segment<'_>> = segments.iter().map(|(sequence, flags, data)| segment(*sequence, *flags, data)).collect();
        replay(&segments);
    }

    #[test]
    fn no_octets_make_the_header_panic(octets in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Segment::parse(&octets, 0);
    }
}

proptest! {
    /// One segment a message or several, each captured up to `snap` octets.
    #[test]
    fn messages_that_were_cut_are_told_and_those_behind_them_found(snap in 14_usize..60, size in 10_usize..200) {
        let (messages, octets) = stream();
        let mut parts = vec![segment(9, SYN, &[])];
        let mut at = 0;
        for message in &messages {
            let whole = &octets[at..at + 2 + message.len()];
            for (number, part) in whole.chunks(snap + size).enumerate() {
                let seen = &part[..part.len().min(snap)];
                let sequence = 10 + (at + number * (snap + size)) as u32;
                parts.push(Segment { missing: part.len() - seen.len(), ..segment(sequence, 0, seen) });
            }
            at += whole.len();
        }
        let seen = replay(&parts);
        prop_assert!(seen.troubles.is_empty());
        let (short, long): (Vec<_>, Vec<_>) = messages.iter().partition(|message| 2 + message.len() <= snap);
        prop_assert_eq!(seen.messages.iter().map(|(_, message)| message).collect::<Vec<_>>(), short);
        prop_assert_eq!(seen.cut.len(), long.len());
        prop_assert!(seen.cut.iter().zip(long).all(|(cut, whole)| cut[..] == whole[..snap - 2]));
    }
}

#[test]
fn a_connection_that_began_before_the_capture_is_joined_at_a_message() {
    let (messages, octets) = stream();
    let second = 2 + messages[0].len();
    let seen = replay(&[segment(50, 0, &[0xff; 30]), segment(80, 0, &octets[second..])]);
    assert_eq!(seen.troubles, [Trouble::MidStream]);
    assert_eq!(seen.messages.len(), 4);
}

#[test]
fn a_gap_is_told_and_reading_goes_on_behind_it() {
    let (messages, octets) = stream();
    let third = 4 + messages[0].len() + messages[1].len();
    let seen =
        replay(&[segment(0, SYN, &[]), segment(1, 0, &octets[..10]), segment(1 + third as u32, 0, &octets[third..])]);
    assert_eq!(seen.troubles, [Trouble::Gap]);
    assert_eq!(seen.messages.len(), 3);
}

#[test]
fn what_a_reset_sets_free_keeps_its_sender() {
    let (mut tcp, mut seen) = (Reassembly::default(), Seen::default());
    let (client, server): (SocketAddr, SocketAddr) =
        ("192.0.2.9:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
    let (one, two) = (framed(&message(1, 20)), framed(&message(2, 30)));
    tcp.add(server, client, &segment(0, SYN, &[]), &Frame::default(), &mut seen);
    tcp.add(server, client, &segment(1 + one.len() as u32, 0, &two), &Frame::default(), &mut seen);
    tcp.add(client, server, &segment(0, RST, &[]), &Frame::default(), &mut seen);
    assert_eq!((seen.senders, seen.messages.len(), seen.troubles), (vec![server], 1, vec![Trouble::Gap]));
    assert_eq!(tcp.octets, 0);
}

#[test]
fn a_hole_too_wide_to_wait_for_is_told_and_left_behind() {
    let one = framed(&message(1, 20));
    let seen = replay(&[segment(0, SYN, &[]), segment(1, 0, &one), segment(3 << 20, 0, &one)]);
    assert_eq!((seen.messages.len(), seen.troubles), (2, vec![Trouble::Gap]));
}

#[test]
fn unfinished_messages_of_all_connections_are_bounded_together() {
    let (mut tcp, mut seen) = (Reassembly::default(), Seen::default());
    let big = [&[0xff, 0xff][..], &message(1, 60_000)].concat();
    for port in 1_024..5_024 {
        let client = SocketAddr::new("192.0.2.1".parse().unwrap(), port);
        tcp.add(client, "192.0.2.2:53".parse().unwrap(), &segment(0, 0, &big), &Frame::default(), &mut seen);
        assert!(tcp.octets <= MAX_OCTETS + big.len());
    }
    assert!(!seen.troubles.is_empty());
}

#[test]
fn a_port_used_again_is_another_connection() {
    let one = framed(&message(1, 20));
    let seen =
        replay(&[segment(0, SYN, &[]), segment(1, FIN, &one), segment(9_000, SYN, &[]), segment(9_001, FIN, &one)]);
    assert_eq!(seen.messages.iter().map(|(stream, _)| *stream).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_length_too_short_for_dns_is_told() {
    let seen = replay(&[segment(0, SYN, &[]), segment(1, 0, &[0, 3, 1, 2, 3])]);
    assert_eq!(seen.troubles, [Trouble::BadLength]);
}

const MS: i64 = 1_000_000;

/// Connections between a client and a server of which each frame has a number and a time.
struct Wire {
    tcp: Reassembly,
    seen: Seen,
    frames: u64,
}

impl Wire {
    fn new() -> Self {
        Self { tcp: Reassembly::default(), seen: Seen::default(), frames: 0 }
    }

    fn send(&mut self, ms: i64, by_client: bool, segment: &Segment<'_>) {
        let (client, server) = ("192.0.2.9:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        let (from, to) = if by_client { (client, server) } else { (server, client) };
        self.frames += 1;
        let frame = Frame { number: self.frames, time_ns: ms * MS, ..Frame::default() };
        self.seen.now = ms;
        self.tcp.add(from, to, segment, &frame, &mut self.seen);
    }

    /// Lets time pass, as frames of other connections do.
    fn pass(&mut self, ms: i64) {
        self.seen.now = ms;
        self.tcp.give_up(ms * MS, &mut self.seen);
    }

    /// The times of messages, and when they were yielded, in milliseconds.
    fn times(&self) -> Vec<(i64, i64)> {
        self.seen.times.iter().map(|(time, now)| (time / MS, *now)).collect()
    }
}

/// A client that sends eight queries, one every two seconds, of which the first is not in the capture; the server answers
/// each ten milliseconds later, and says so with `flags`.
fn eight_queries_without_the_first(flags: u8) -> Wire {
    let mut wire = Wire::new();
    wire.send(0, true, &segment(0, SYN, &[]));
    wire.send(1, false, &Segment { acknowledgement: 1, ..segment(0, SYN | flags, &[]) });
    let (query, answer) = (framed(&message(1, 30)), framed(&message(2, 60)));
    let (query_length, answer_length) = (query.len() as u32, answer.len() as u32);
    for number in 0..8 {
        let ms = 100 + 2_000 * i64::from(number);
        if number > 0 {
            wire.send(ms, true, &segment(1 + number * query_length, ACK, &query));
        }
        let acknowledgement = 1 + (number + 1) * query_length;
        wire.send(ms + 10, false, &Segment { acknowledgement, ..segment(1 + number * answer_length, flags, &answer) });
    }
    wire.tcp.finish(&mut wire.seen);
    wire
}

#[test]
fn a_segment_missing_in_the_capture_moves_no_query_that_the_peer_acknowledged() {
    let wire = eight_queries_without_the_first(ACK);
    let queries: Vec<i64> = (1..8).map(|number| 100 + 2_000 * number).collect();
    let client: SocketAddr = "192.0.2.9:1024".parse().unwrap();
    let all: Vec<_> = wire.times().into_iter().zip(&wire.seen.senders).collect();
    let of_client: Vec<i64> = all.iter().filter(|(_, from)| **from == client).map(|((time, _), _)| *time).collect();
    assert_eq!((of_client, all.len()), (queries, 15));
    // Each comes before its answer, which is how they are paired; the first behind the hole with the acknowledgement of it.
    assert!(all.windows(2).all(|pair| pair[0].0.0 <= pair[1].0.0), "{all:?}");
    assert_eq!(wire.seen.troubles, [Trouble::Gap]);
    assert_eq!(wire.tcp.octets, 0);
}

#[test]
fn a_missing_segment_that_nobody_acknowledges_is_waited_for_a_second() {
    let wire = eight_queries_without_the_first(0);
    let client: SocketAddr = "192.0.2.9:1024".parse().unwrap();
    let all = wire.times().into_iter().zip(&wire.seen.senders);
    let of_client: Vec<_> = all.filter(|(_, from)| **from == client).map(|(times, _)| times).collect();
    let times: Vec<i64> = of_client.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, (1..8).map(|number| 100 + 2_000 * number).collect::<Vec<_>>());
    // The first frame of more than a second later frees the second query; those behind it are in order again.
    assert_eq!(of_client[0], (2_100, 4_100));
    assert!(of_client[1..].iter().all(|(time, now)| time == now), "{of_client:?}");
}

#[test]
fn other_connections_end_the_wait_for_a_missing_segment() {
    let mut wire = Wire::new();
    let query = framed(&message(1, 30));
    wire.send(0, true, &segment(0, SYN, &[]));
    wire.send(5, true, &segment(1 + query.len() as u32, 0, &query));
    assert!(!wire.tcp.is_due(1_005 * MS));
    assert!(wire.tcp.is_due(1_006 * MS));
    wire.pass(1_006);
    assert_eq!((wire.times(), wire.tcp.octets), (vec![(5, 1_006)], 0));
    assert!(!wire.tcp.is_due(i64::MAX));
}

#[test]
fn a_late_segment_frees_what_waits_for_it_and_each_has_its_own_time() {
    let mut wire = Wire::new();
    let (one, two, three) = (framed(&message(1, 30)), framed(&message(2, 30)), framed(&message(3, 30)));
    let both = [&one[..], &two].concat();
    // The end of the second query comes with the third, before the first and the beginning of the second.
    let cut = one.len() + 10;
    wire.send(0, true, &segment(0, SYN, &[]));
    wire.send(10, true, &segment(1 + cut as u32, 0, &[&both[cut..], &three].concat()));
    wire.send(20, true, &segment(1, 0, &both[..cut]));
    wire.tcp.finish(&mut wire.seen);
    assert_eq!(wire.times(), [(20, 20), (20, 20), (10, 20)]);
    assert!(wire.seen.troubles.is_empty());
}

#[test]
fn times_as_far_apart_as_can_be_written_are_no_overflow() {
    let mut tcp = Reassembly::default();
    let (from, to) = ("192.0.2.1:1024".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
    let query = framed(&message(1, 30));
    for time_ns in [i64::MIN, i64::MAX, i64::MIN] {
        let frame = Frame { time_ns, ..Frame::default() };
        tcp.add(from, to, &segment(0, SYN, &[]), &frame, &mut Seen::default());
        tcp.add(from, to, &segment(1_000, 0, &query), &frame, &mut Seen::default());
        tcp.give_up(time_ns, &mut Seen::default());
    }
    tcp.finish(&mut Seen::default());
}

proptest! {
    #[test]
    fn whatever_lacks_each_message_that_is_there_has_its_own_time(
        lacks in prop::collection::vec(any::<bool>(), 1..40),
        gaps in prop::collection::vec(0_i64..3_000, 40),
        acknowledged in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut wire = Wire::new();
        wire.send(0, true, &segment(0, SYN, &[]));
        let (mut ms, mut place, mut there) = (0, 1, Vec::new());
        for (number, lacks) in lacks.iter().enumerate() {
            ms += gaps[number];
            wire.pass(ms);
            let query = framed(&message(number as u8, 20 + number));
            if !lacks {
                wire.send(ms, true, &segment(place, 0, &query));
                there.push(ms);
            }
            place += query.len() as u32;
            if acknowledged[number] {
                wire.send(ms, false, &Segment { acknowledgement: place, ..segment(0, ACK, &[]) });
            }
        }
        wire.pass(ms + 3_000);
        let times = wire.times();
        prop_assert_eq!(times.iter().map(|(time, _)| *time).collect::<Vec<_>>(), there);
        // None was held back for longer than a second and the pause until the next frame.
        prop_assert!(times.iter().all(|(time, now)| now - time <= 1_000 + 3_000), "{:?}", times);
        prop_assert_eq!(wire.tcp.octets, 0);
    }
}
