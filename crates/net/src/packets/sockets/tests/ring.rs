//! The ring: order, room, drops, and slots that say what cannot be.

use std::thread;

use super::super::{Filter, FrameRing, FrameRings, FrameSender, SenderKind};
use super::Link;
use super::link::{frames, read, receive, send};
use crate::poll::Poll;

/// Slots of a ring of one block, for an MTU of 1,500 octets.
const SLOTS: usize = 40;

fn open(link: &Link) -> (FrameSender, FrameRing) {
    let sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    let ring = link.on(1, |interface| FrameRing::open(interface, &Filter::all(), 1).unwrap());
    (sender, ring)
}

fn numbered(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| frames::ethernet(0x88b5, &[number as u8; 60])).collect()
}

/// Waits until the kernel has dropped so many, ten seconds at most.
fn wait_for_drops(ring: &mut FrameRing, count: u64) -> u64 {
    let clock = std::time::Instant::now();
    while ring.drops() < count && clock.elapsed().as_secs() < 10 {
        thread::yield_now();
    }
    ring.drops()
}

#[test]
fn what_finds_no_room_is_counted_and_the_rest_is_kept() {
    let link = Link::new(1_500);
    let (mut sender, mut ring) = open(&link);
    let sent = numbered(2 * SLOTS + 7);
    for round in 1..=3 {
        send(&mut sender, &sent);
        assert_eq!(wait_for_drops(&mut ring, round * (SLOTS as u64 + 7)), round * (SLOTS as u64 + 7));
        let mut seen = Vec::new();
        assert_eq!(read(&mut ring, usize::MAX, &mut seen), SLOTS);
        assert_eq!(seen.into_iter().map(|seen| seen.octets).collect::<Vec<_>>(), sent[..SLOTS]);
    }
}

#[test]
fn a_ring_is_read_round_and_round_and_never_more_than_asked_for() {
    let link = Link::new(1_500);
    let (mut sender, mut ring) = open(&link);
    for round in 0..20 {
        let sent = numbered(3 + round);
        send(&mut sender, &sent);
        let mut seen = receive(&mut ring, 2);
        assert_eq!(seen.len(), 2);
        seen.extend(receive(&mut ring, sent.len() - 2));
        assert_eq!(seen.into_iter().map(|seen| seen.octets).collect::<Vec<_>>(), sent);
        assert_eq!(ring.read(0, |_| ()) + ring.read(9, |_| ()), 0);
    }
    assert_eq!(ring.drops(), 0);
}

#[test]
fn a_ring_of_several_blocks_keeps_as_many_frames_as_it_has_slots() {
    let link = Link::new(1_500);
    let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    let mut ring = link.on(1, |interface| FrameRing::open(interface, &Filter::all(), 3 << 16).unwrap());
    let sent = numbered(3 * SLOTS + 1);
    for round in 1..=2 {
        send(&mut sender, &sent);
        assert_eq!(wait_for_drops(&mut ring, round), round);
        let mut seen = Vec::new();
        assert_eq!(read(&mut ring, usize::MAX, &mut seen), 3 * SLOTS);
        assert_eq!(seen.into_iter().map(|seen| seen.octets).collect::<Vec<_>>(), sent[..3 * SLOTS]);
    }
}

#[test]
fn a_ring_is_readable_while_a_frame_is_in_it() {
    let link = Link::new(1_500);
    let (mut sender, mut ring) = open(&link);
    let mut poll = Poll::new().unwrap();
    poll.add(&ring, 0).unwrap();
    assert_eq!(poll.wait(0).unwrap().count(), 0);
    send(&mut sender, &numbered(1));
    assert_eq!(poll.wait(10_000_000_000).unwrap().count(), 1);
    assert_eq!(ring.read(1, |frame| assert!(!frame.is_outgoing)), 1);
    assert_eq!(poll.wait(0).unwrap().count(), 0);
}

#[test]
fn what_a_host_sends_by_itself_is_not_in_its_own_ring() {
    let link = Link::new(1_500);
    let (mut sender, mut theirs) = open(&link);
    let mut ours = link.on(0, |interface| FrameRing::open(interface, &Filter::all(), 1).unwrap());
    let mut other = link.on(1, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    let sent = numbered(2);
    send(&mut sender, &sent[..1]);
    assert_eq!(receive(&mut theirs, 1)[0].octets, sent[0]);
    send(&mut other, &sent[1..]);
    assert_eq!(receive(&mut ours, 1)[0].octets, sent[1], "the first that it sees");
}

#[test]
fn long_frames_beyond_the_room_beside_the_ring_are_cut_and_say_so() {
    const MTU: usize = 20_000;
    let link = Link::new(MTU as u32);
    let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    let mut ring = link.on(1, |interface| FrameRing::open(interface, &Filter::all(), 1 << 24).unwrap());
    let long = frames::ethernet(0x88b5, &[5; MTU]);
    // None is read before all were sent, which are more octets than the kernel may keep.
    send(&mut sender, std::iter::repeat_n(&long, 1_200));
    let last = frames::ethernet(0x88b5, b"the last one, which fits a slot, whatever was before it......");
    send(&mut sender, [&last]);
    let mut seen = Vec::new();
    let mut poll = Poll::new().unwrap();
    poll.add(&ring, 0).unwrap();
    while seen.last().is_none_or(|frame: &super::link::Seen| frame.octets != last) {
        assert_eq!(poll.wait(10_000_000_000).unwrap().count(), 1);
        read(&mut ring, usize::MAX, &mut seen);
    }
    seen.pop();
    let (whole, cut): (Vec<_>, Vec<_>) = seen.into_iter().partition(|seen| seen.octets.len() == seen.length);
    assert!(!whole.is_empty() && !cut.is_empty(), "{} whole and {} cut", whole.len(), cut.len());
    assert!(whole.iter().all(|seen| seen.octets == long));
    assert!(cut.iter().all(|seen| seen.length == long.len() && long.starts_with(&seen.octets)));
}

#[test]
fn a_ring_whose_interface_goes_down_says_so_once() {
    let link = Link::new(1_500);
    let (_sender, ring) = open(&link);
    let mut poll = Poll::new().unwrap();
    poll.add(&ring, 0).unwrap();
    assert!(ring.take_error().unwrap().is_none());
    link.down(1);
    assert!(poll.wait(10_000_000_000).unwrap().all(|ready| ready.error));
    assert_eq!(ring.take_error().unwrap().unwrap().raw_os_error(), Some(libc::ENETDOWN));
    assert_eq!(poll.wait(0).unwrap().count(), 0);
}

#[test]
fn a_wait_that_an_interface_ends_by_going_down_is_the_only_one_that_it_ends() {
    const TENTH: i64 = 100_000_000;
    let link = Link::new(1_500);
    let rings = link.on(1, |interface| FrameRings::open(interface, None, &Filter::all(), 1).unwrap());
    link.down(1);
    assert_eq!(rings.wait(i64::MAX).unwrap_err().raw_os_error(), Some(libc::ENETDOWN));
    let begun = crate::clock::monotonic_ns();
    assert!(!rings.wait(TENTH).unwrap());
    assert!(crate::clock::monotonic_ns() - begun >= TENTH);
}
