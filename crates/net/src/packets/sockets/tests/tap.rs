//! Frames out by a TAP device, against sockets of the host that they arrive at.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use super::super::tap::TapSender;
use super::super::{BATCH, FrameSender, Interface, SenderKind};
use super::frames;
use super::link::{add, drain};
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::tun::Tun;
use crate::veth;

const SERVER: &str = "203.0.113.9:53";

/// Makes a namespace with such a device, and calls a function there with its sender.
fn with_tap<T: Send>(work: impl FnOnce(&Interface, Arc<Tun>) -> T + Send) -> T {
    let namespace = Namespace::create().unwrap();
    veth::connect(&namespace, veth::MTU).unwrap();
    let inside = || work(&Interface::find(veth::QUERIES).unwrap(), Arc::new(Tun::open_tap(veth::QUERIES).unwrap()));
    namespace.run(inside).unwrap()
}

/// A query to [`SERVER`] with this number in it, without a UDP checksum.
fn query(number: u16) -> Vec<u8> {
    let datagram = [&[0xc0, 0, 0, 53, 0, 10, 0, 0][..], &number.to_be_bytes()].concat();
    let mut frame = frames::ipv4(17, 0, 0, &datagram);
    frame[..6].copy_from_slice(&veth::HOST_MAC);
    frame[30..34].copy_from_slice(&[203, 0, 113, 9]);
    let sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn server() -> UdpSocket {
    let server = UdpSocket::bind(SERVER).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    server
}

fn heard(server: &UdpSocket) -> u16 {
    let mut octets = [0; 2];
    assert_eq!(server.recv(&mut octets).unwrap(), 2);
    u16::from_be_bytes(octets)
}

#[test]
fn frames_arrive_in_their_order_in_batches_of_any_size_by_one_call_or_by_many() {
    with_tap(|interface, tap| {
        let server = server();
        let with = [TapSender::new(interface, tap.clone()), TapSender::new(interface, tap.clone()).by_calls()];
        assert!(with[0].is_by_one_call(), "this kernel has io_uring");
        for mut sender in with {
            let mut number = 0;
            for size in [1, 2, 3, BATCH, BATCH - 1, 1, 40] {
                for _ in 0..size {
                    let frame = query(number);
                    sender.room().unwrap()[..frame.len()].copy_from_slice(&frame);
                    sender.commit(frame.len());
                    number += 1;
                }
                assert_eq!(sender.room().is_none(), size == BATCH);
                assert_eq!((sender.queued(), sender.flush().unwrap(), sender.queued()), (size, size, 0));
                let first = number - size as u16;
                assert!((first..number).all(|expected| heard(&server) == expected));
            }
            assert_eq!((sender.flush().unwrap(), sender.drops()), (0, 0));
        }
    });
}

#[test]
fn frames_for_a_device_that_is_down_are_given_up_one_by_one_and_later_ones_arrive() {
    with_tap(|interface, tap| {
        let server = server();
        let netlink = Netlink::open().unwrap();
        for by_one_call in [true, false] {
            let sender = TapSender::new(interface, tap.clone());
            let mut sender = if by_one_call { sender } else { sender.by_calls() };
            netlink.interface_down(interface.index).unwrap();
            let frame = query(7);
            for _ in 0..3 {
                sender.room().unwrap()[..frame.len()].copy_from_slice(&frame);
                sender.commit(frame.len());
            }
            for left in [2, 1, 0] {
                let error = sender.flush().unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
                assert_eq!((sender.queued(), sender.drops()), (left, 3 - left as u64));
            }
            netlink.interface_up(interface.index, veth::MTU.into(), 1_000).unwrap();
            sender.room().unwrap()[..frame.len()].copy_from_slice(&frame);
            sender.commit(frame.len());
            assert_eq!((sender.flush().unwrap(), heard(&server), sender.drops()), (1, 7, 3));
        }
    });
}

#[test]
fn several_senders_share_a_queue_that_no_other_program_can_have_meanwhile() {
    with_tap(|interface, tap| {
        let server = server();
        assert!(Tun::open_tap(veth::QUERIES).is_err());
        for number in 0..3 {
            let mut sender = FrameSender::open_tap(interface, tap.clone()).unwrap();
            add(&mut sender, &query(number));
            drain(&mut sender);
            assert_eq!(heard(&server), number);
            assert!(sender.stamp_sends().is_err());
        }
        drop(tap);
        // A program that another test starts in this process has the device, too, until it runs.
        let is_free = || Tun::open_tap(veth::QUERIES).is_ok();
        assert!((0..1_000).any(|_| is_free() || pause()));
        assert!(FrameSender::open(interface, SenderKind::Packet).is_ok());
    });
}

/// Lets others run for a while.
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(10));
    false
}
