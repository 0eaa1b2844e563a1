//! Frames out: both kinds of sockets.

use super::super::{BATCH, ETHERNET, Filter, FrameRing, FrameSender, SenderKind};
use super::link::{add, drain, receive, send};
use super::{Link, frames};
use crate::clock::realtime_ns;
use crate::netlink::Netlink;

const KINDS: [SenderKind; 2] = [SenderKind::Packet, SenderKind::Xdp];

fn open(link: &Link, kind: SenderKind) -> (FrameSender, FrameRing) {
    let sender = link.on(0, |interface| FrameSender::open(interface, kind).unwrap());
    let ring = link.on(1, |interface| FrameRing::open(interface, &Filter::all(), 1 << 20).unwrap());
    (sender, ring)
}

/// Frames of different lengths, from the shortest to those of a full MTU, that tell their numbers.
fn numbered(count: u32, mtu: usize) -> Vec<Vec<u8>> {
    let frame = |number: u32| {
        let mut payload = number.to_be_bytes().to_vec();
        let length = if number % 8 == 7 { mtu } else { 46 + (number as usize * 331) % (mtu - 45) };
        payload.resize(length, number as u8);
        frames::ethernet(0x88b5, &payload)
    };
    (0..count).map(frame).collect()
}

#[test]
fn frames_arrive_whole_in_order_and_with_a_stamp_whichever_socket_sends_them() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, mut ring) = open(&link, kind);
        let sent = numbered(500, 1_500);
        let before = realtime_ns();
        send(&mut sender, &sent);
        let seen = receive(&mut ring, sent.len());
        let after = realtime_ns();
        assert_eq!(seen.iter().map(|seen| &seen.octets).collect::<Vec<_>>(), sent.iter().collect::<Vec<_>>());
        assert!(seen.iter().all(|seen| (before..=after).contains(&seen.stamp_ns)), "{kind:?}");
        assert!(seen.is_sorted_by_key(|seen| seen.stamp_ns));
        assert!(seen.iter().all(|seen| seen.length == seen.octets.len() && seen.vlan.is_none() && !seen.is_outgoing));
        assert!(sent.iter().any(|frame| frame.len() == 1_514), "one is of the full MTU");
        assert_eq!(ring.drops(), 0);
    }
}

#[test]
fn a_full_batch_has_no_room_until_it_is_flushed() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, mut ring) = open(&link, kind);
        let sent = numbered(2 * BATCH as u32, 1_500);
        for batch in sent.chunks(BATCH) {
            batch.iter().for_each(|frame| add(&mut sender, frame));
            assert_eq!((sender.queued(), sender.room().is_none()), (BATCH, true), "{kind:?}");
            sender.commit(60);
            assert_eq!(sender.queued(), BATCH, "nothing is added without a room");
            assert_eq!(sender.flush().unwrap(), BATCH, "one flush sends a batch");
            assert_eq!((sender.queued(), sender.flush().unwrap()), (0, 0));
        }
        let seen = receive(&mut ring, sent.len());
        assert_eq!(seen.into_iter().map(|seen| seen.octets).collect::<Vec<_>>(), sent);
    }
}

#[test]
fn a_room_is_the_same_until_it_is_committed_and_survives_a_flush() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, mut ring) = open(&link, kind);
        let [first, second] = [1, 2].map(|number| frames::ethernet(0x88b5, &[number; 60]));
        add(&mut sender, &first);
        sender.room().unwrap()[..40].copy_from_slice(&second[..40]);
        drain(&mut sender);
        let room = sender.room().unwrap();
        assert_eq!(room.len(), 1_500 + ETHERNET);
        room[40..second.len()].copy_from_slice(&second[40..]);
        sender.commit(second.len());
        drain(&mut sender);
        assert_eq!(receive(&mut ring, 2).into_iter().map(|seen| seen.octets).collect::<Vec<_>>(), [first, second]);
    }
}

#[test]
fn a_vlan_tag_arrives_beside_the_frame_and_the_second_one_in_it() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, mut ring) = open(&link, kind);
        let frame = frames::ethernet(0x88b5, &[7; 1_500]);
        let inner = frames::tagged(0x8100, 0x2064, &frame);
        let outer = frames::tagged(0x88a8, 0x0003, &frames::tagged(0x8100, 0x0005, &frame[..1_000]));
        send(&mut sender, [&frame, &inner, &outer]);
        let seen: Vec<(Option<u16>, Vec<u8>)> =
            receive(&mut ring, 3).into_iter().map(|seen| (seen.vlan, seen.octets)).collect();
        let once = frames::tagged(0x8100, 0x0005, &frame[..1_000]);
        assert_eq!(seen, [(None, frame.clone()), (Some(0x2064), frame), (Some(3), once)], "{kind:?}");
    }
}

#[test]
fn frames_of_a_large_mtu_leave_and_arrive() {
    for (kind, mtu) in [(SenderKind::Packet, 9_000), (SenderKind::Packet, 20_000), (SenderKind::Xdp, 4_078)] {
        let link = Link::new(mtu);
        let (mut sender, mut ring) = open(&link, kind);
        let sent = numbered(100, mtu as usize);
        // The kernel's backlog holds fewer octets of long frames than of short ones beside the ring.
        for part in sent.chunks(4) {
            send(&mut sender, part);
            let seen: Vec<_> = receive(&mut ring, part.len()).into_iter().map(|seen| seen.octets).collect();
            assert_eq!(seen, part);
        }
    }
}

#[test]
fn after_an_interface_went_down_a_flush_says_so() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, _ring) = open(&link, kind);
        add(&mut sender, &frames::ethernet(0x88b5, &[1; 60]));
        add(&mut sender, &frames::ethernet(0x88b5, &[2; 60]));
        link.down(0);
        assert_eq!(sender.flush().unwrap_err().raw_os_error(), Some(libc::ENETDOWN), "{kind:?}");
        // AF_PACKET gives up the frame that was refused; of AF_XDP the kernel has both.
        assert_eq!(sender.queued(), if kind == SenderKind::Packet { 1 } else { 2 });
    }
}

#[test]
fn a_frame_that_the_kernel_refuses_does_not_hold_up_the_others() {
    let link = Link::new(1_500);
    let (mut sender, mut ring) = open(&link, SenderKind::Packet);
    let good = frames::ethernet(0x88b5, &[1; 60]);
    add(&mut sender, &frames::ethernet(0x88b5, &[2; 1_000]));
    add(&mut sender, &good);
    link.on(0, |interface| Netlink::open().unwrap().interface_up(interface.index, 900, 1_000).unwrap());
    assert_eq!(sender.flush().unwrap_err().raw_os_error(), Some(libc::EMSGSIZE), "it is above the MTU by now");
    assert_eq!((sender.flush().unwrap(), sender.drops()), (1, 1));
    assert_eq!(receive(&mut ring, 1)[0].octets, good);
}

#[test]
fn frames_without_a_carrier_are_counted_as_dropped_and_block_nothing_for_ever() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, _ring) = open(&link, kind);
        for frame in &numbered(3, 1_500) {
            add(&mut sender, frame);
        }
        link.down(1);
        assert_eq!(sender.flush().unwrap(), 0, "{kind:?}");
        let mut flushes = 1;
        while sender.queued() > 0 && flushes < 100_000 {
            assert_eq!(sender.flush().unwrap(), 0);
            flushes += 1;
        }
        assert_eq!((sender.queued(), sender.drops()), (0, 3), "{kind:?}");
        // AF_PACKET keeps a frame for a while, as a full queue looks the same.
        assert_eq!(flushes > 10_000, kind == SenderKind::Packet, "{flushes} flushes");
    }
}

#[test]
fn what_is_shorter_than_a_header_is_not_added_and_what_is_longer_than_the_room_is_cut() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, mut ring) = open(&link, kind);
        let frame = frames::ethernet(0x88b5, &[3; 1_500]);
        sender.room().unwrap()[..frame.len()].copy_from_slice(&frame);
        for length in [0, 1, 13] {
            sender.commit(length);
            assert_eq!(sender.queued(), 0, "{kind:?}");
        }
        // The header says that there is a tag, for which the room is just long enough.
        let tagged = frames::tagged(0x8100, 5, &frame);
        sender.room().unwrap().copy_from_slice(&tagged);
        sender.commit(usize::MAX);
        drain(&mut sender);
        assert_eq!(receive(&mut ring, 1)[0].octets, frame);
    }
}

#[test]
fn buffers_do_not_run_out_however_many_frames_are_sent() {
    for kind in KINDS {
        let link = Link::new(1_500);
        let (mut sender, mut ring) = open(&link, kind);
        let frame = frames::ethernet(0x88b5, &[3; 60]);
        for _ in 0..100 {
            (0..BATCH).for_each(|_| add(&mut sender, &frame));
            drain(&mut sender);
            assert_eq!(receive(&mut ring, BATCH).len(), BATCH, "{kind:?}");
        }
        assert_eq!((sender.drops(), ring.drops()), (0, 0));
    }
}
