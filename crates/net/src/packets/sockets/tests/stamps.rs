//! Stamps of frames out, beside frames that the kernel refuses.

use std::io;

use super::super::{BATCH, Filter, FrameRing, FrameSender, SenderKind};
use super::link::{add, drain, receive, send};
use super::{Link, frames};
use crate::clock::realtime_ns;
use crate::netlink::Netlink;

fn open(link: &Link) -> FrameSender {
    let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    sender.stamp_sends().unwrap();
    sender
}

fn set_mtu(link: &Link, end: usize, mtu: u32) {
    link.on(end, |interface| Netlink::open().unwrap().interface_up(interface.index, mtu, 1_000).unwrap());
}

fn stamps(sender: &mut FrameSender) -> Vec<(u32, i64)> {
    let mut stamps = Vec::new();
    let count = sender.read_stamps(|number, ns| stamps.push((number, ns))).unwrap();
    assert_eq!(count, stamps.len());
    stamps
}

fn numbers(sender: &mut FrameSender) -> Vec<u32> {
    stamps(sender).into_iter().map(|(number, _)| number).collect()
}

#[test]
fn each_frame_has_the_stamp_of_its_own_flush() {
    let link = Link::new(1_500);
    let mut sender = open(&link);
    let frame = frames::ethernet(0x88b5, &[1; 60]);
    let mut around = Vec::new();
    for _ in 0..300 {
        let before = realtime_ns();
        send(&mut sender, [&frame]);
        around.push(before..=realtime_ns());
    }
    let stamps = stamps(&mut sender);
    assert_eq!(stamps.len(), around.len());
    for ((expected, around), (number, ns)) in (0..).zip(around).zip(stamps) {
        assert!(number == expected && around.contains(&ns), "{expected}: {number} at {ns}, sent in {around:?}");
    }
    assert_eq!(numbers(&mut sender), [], "each is told of once");
}

#[test]
fn numbers_go_on_over_batches_and_reads() {
    let link = Link::new(1_500);
    let mut sender = open(&link);
    let batch = vec![frames::ethernet(0x88b5, &[1; 60]); 3 * BATCH + 5];
    for round in 0..3 {
        send(&mut sender, &batch);
        let first = round * batch.len() as u32;
        assert_eq!(numbers(&mut sender), (first..first + batch.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn stamps_are_told_of_only_when_asked_for_and_begin_anew_when_asked_again() {
    let link = Link::new(1_500);
    let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    let frame = frames::ethernet(0x88b5, &[1; 60]);
    send(&mut sender, [&frame; 3]);
    assert_eq!(numbers(&mut sender), []);
    for count in [4, 2] {
        sender.stamp_sends().unwrap();
        send(&mut sender, std::iter::repeat_n(&frame, count));
    }
    assert_eq!(numbers(&mut sender), [0, 1]);
}

#[test]
fn a_frame_that_is_refused_has_no_number_wherever_it_was_refused() {
    // Above the MTU: by more than a tag, where nothing is allocated, and by less, where the frame is made before it is looked at.
    for over in [100, 3] {
        let link = Link::new(1_500);
        let mut sender = open(&link);
        let [good, bad] = [60, 900 + over].map(|length| frames::ethernet(0x88b5, &vec![1; length]));
        set_mtu(&link, 0, 900);
        for frame in [&good, &good, &bad, &good, &bad, &bad, &good] {
            add(&mut sender, frame);
        }
        let mut refused = 0;
        while sender.queued() > 0 {
            refused += usize::from(sender.flush().is_err());
        }
        assert_eq!((refused, sender.drops()), (3, 3));
        assert_eq!(numbers(&mut sender), [0, 1, 2, 3], "{over} octets above the MTU");
    }
}

#[test]
fn a_frame_that_the_other_end_has_no_room_for_is_stamped_by_the_kernel_and_left_out() {
    let link = Link::new(1_500);
    let mut sender = open(&link);
    let mut ring = link.on(1, |interface| FrameRing::open(interface, &Filter::all(), 1 << 20).unwrap());
    let [good, long] = [60, 1_400].map(|length| frames::ethernet(0x88b5, &vec![1; length]));
    set_mtu(&link, 1, 900);
    for frame in [&good, &long, &good] {
        add(&mut sender, frame);
    }
    assert_eq!(sender.flush().unwrap(), 1);
    let between = realtime_ns();
    drain(&mut sender);
    assert_eq!((receive(&mut ring, 2).len(), sender.drops()), (2, 1));
    let stamps = stamps(&mut sender);
    assert!(
        matches!(stamps[..], [(0, first), (1, last)] if first <= between && between <= last),
        "{between}: {stamps:?}"
    );
}

#[test]
fn frames_that_were_dropped_without_a_carrier_are_left_out() {
    let link = Link::new(1_500);
    let mut sender = open(&link);
    let frame = frames::ethernet(0x88b5, &[1; 60]);
    send(&mut sender, [&frame; 2]);
    link.down(1);
    add(&mut sender, &frame);
    drain(&mut sender);
    assert_eq!(sender.drops(), 1);
    set_mtu(&link, 1, 1_500);
    send(&mut sender, [&frame; 2]);
    assert_eq!(numbers(&mut sender), [0, 1, 2, 3]);
}

#[test]
fn stamps_beyond_what_the_kernel_keeps_are_lost_and_the_others_stay_right() {
    let link = Link::new(1_500);
    let mut sender = open(&link);
    let frame = frames::ethernet(0x88b5, &[1; 60]);
    let many = 20_000;
    send(&mut sender, std::iter::repeat_n(&frame, many));
    let first = numbers(&mut sender);
    assert!(first.len() < many && first.iter().copied().eq(0..first.len() as u32), "{} stamps", first.len());
    send(&mut sender, [&frame]);
    assert_eq!(numbers(&mut sender), [many as u32]);
}

#[test]
fn a_sender_of_af_xdp_says_that_it_has_no_stamps() {
    let link = Link::new(1_500);
    let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Xdp).unwrap());
    for error in [sender.stamp_sends().unwrap_err(), sender.read_stamps(|_, _| ()).unwrap_err()] {
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("only AF_PACKET"), "{error}");
    }
}
