//! What keeps a packet socket from being opened, in one clear line each.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::super::{Filter, FrameRing, FrameSender, Interface, PacketError, SenderKind, offloads, switch_off_offloads};
use super::link::{receive, send};
use super::{Link, frames};
use crate::namespace::Namespace;
use crate::netlink::{Netlink, VethEnd};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn open(interface: &Interface) -> [Result<(), PacketError>; 3] {
    [
        FrameSender::open(interface, SenderKind::Packet).map(drop),
        FrameSender::open(interface, SenderKind::Xdp).map(drop),
        FrameRing::open(interface, &Filter::all(), 1 << 16).map(drop),
    ]
}

#[test]
fn an_interface_is_found_with_its_address_and_mtu() {
    let link = Link::new(1_400);
    let found = link.on(0, Interface::clone);
    assert_eq!((found.name.as_str(), found.mtu, found.is_up, found.is_ethernet), ("ours", 1_400, true, true));
    assert_ne!(found.mac, [0; 6]);
    assert_ne!(found.mac, link.on(1, |other| other.mac));
    let text = link.ends[0].run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    assert!(text.contains("ours:"));
    let loopback = link.ends[0].run(|| Interface::find("lo").unwrap()).unwrap();
    assert_eq!((loopback.index, loopback.is_up, loopback.is_ethernet, loopback.mac), (1, false, false, [0; 6]));
}

#[test]
fn interfaces_that_are_missing_down_or_not_of_ethernet_are_told_apart() {
    let link = Link::new(1_500);
    for name in ["", "none", "a-name-that-is-too-long", "a\0b"] {
        let missing = link.ends[0].run(|| Interface::find(name)).unwrap().unwrap_err();
        assert!(matches!(&missing, PacketError::NoInterface { name: said } if said == name), "{missing}");
    }
    let loopback = link.ends[0].run(|| open(&Interface::find("lo").unwrap())).unwrap();
    assert!(loopback.iter().all(|result| matches!(result, Err(PacketError::NotEthernet { .. }))), "{loopback:?}");
    link.down(0);
    let down = link.on(0, open);
    assert!(down.iter().all(|result| matches!(result, Err(PacketError::Down { .. }))), "{down:?}");
    let gone = Interface { name: "gone".to_owned(), index: 99, is_up: true, ..link.on(1, Interface::clone) };
    let gone = link.ends[0].run(|| open(&gone)).unwrap();
    assert!(gone.iter().all(|result| matches!(result, Err(PacketError::NoInterface { .. }))), "{gone:?}");
}

#[test]
fn without_the_right_the_error_says_which_and_how_to_get_it() {
    let link = Link::new(1_500);
    // Capabilities are a thread's, and this one is the namespace's own.
    let (opened, offloads) = link.on(0, |interface| {
        let mut own = capabilities(None).unwrap();
        own.effective.remove(CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN);
        set_capabilities(None, own).unwrap();
        (open(interface), switch_off_offloads("ours"))
    });
    for result in opened {
        let error = result.unwrap_err();
        assert!(matches!(error, PacketError::NoRight { right: "cap_net_raw", .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("setcap cap_net_raw+ep") && !said.contains('\n'), "{said}");
    }
    assert!(matches!(offloads, Err(PacketError::NoRight { right: "cap_net_admin", .. })), "{offloads:?}");
}

#[test]
fn each_queue_has_one_af_xdp_socket_and_is_free_again_when_that_is_closed() {
    for count in [1, 2] {
        let link = Link::with_queues(1_500, count);
        let open = || link.on(0, |interface| FrameSender::open(interface, SenderKind::Xdp));
        let taken: Vec<_> = (0..count).map(|_| open().unwrap()).collect();
        assert!(matches!(open(), Err(PacketError::QueuesTaken { queues, .. }) if queues == count));
        let packet = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet));
        assert!(packet.is_ok(), "AF_PACKET needs no queue of its own");
        drop(taken);
        for _ in 0..3 {
            drop(open().unwrap());
        }
    }
}

/// Frames on such a queue stay there, and the kernel says nothing.
#[test]
fn a_queue_that_only_receives_is_not_taken_to_send_by() {
    let [here, there] =
        [1, 2].map(|queues| VethEnd { name: if queues == 1 { "one" } else { "two" }, mac: MAC, queues });
    let namespace = Namespace::create().unwrap();
    let taken = namespace.run(|| {
        let netlink = Netlink::open().unwrap();
        netlink.add_veth([here, there]).unwrap();
        [here, there].map(|end| {
            netlink.interface_up(netlink.index(end.name).unwrap(), 1_500, 1_000).unwrap();
            let interface = Interface::find(end.name).unwrap();
            let opened: Vec<_> = (0..4).map_while(|_| FrameSender::open(&interface, SenderKind::Xdp).ok()).collect();
            let next = FrameSender::open(&interface, SenderKind::Xdp).map(drop).unwrap_err();
            assert!(matches!(next, PacketError::QueuesTaken { queues, .. } if queues == end.queues), "{next}");
            opened.len()
        })
    });
    assert_eq!(taken.unwrap(), [1, 2]);
}

#[test]
fn af_xdp_sends_by_every_queue() {
    let link = Link::with_queues(1_500, 2);
    let mut ring = link.on(1, |interface| FrameRing::open(interface, &Filter::all(), 1 << 16).unwrap());
    let mut senders = [0, 1].map(|_| link.on(0, |interface| FrameSender::open(interface, SenderKind::Xdp).unwrap()));
    for (sender, number) in senders.iter_mut().zip(1..) {
        let frame = frames::ethernet(0x88b5, &[number; 60]);
        send(sender, [&frame]);
        assert_eq!(receive(&mut ring, 1)[0].octets, frame);
    }
}

#[test]
fn af_xdp_says_which_mtu_it_can_send() {
    let link = Link::new(9_000);
    let error = link.on(0, |interface| FrameSender::open(interface, SenderKind::Xdp)).map(drop).unwrap_err();
    assert!(matches!(error, PacketError::MtuTooLarge { mtu: 9_000, most: 4_078, .. }), "{error}");
}

#[test]
fn offloads_are_off_after_they_were_switched_off() {
    let link = Link::new(1_500);
    let before = link.on(1, |_| offloads("theirs").unwrap());
    assert!(before.tso && before.gso && before.tx_checksum, "veth has them: {before:?}");
    let after = link.on(1, |_| {
        switch_off_offloads("theirs").unwrap();
        offloads("theirs").unwrap()
    });
    assert!(!after.tso && !after.gso && !after.gro && !after.tx_checksum, "{after:?}");
    let missing = link.on(1, |_| [offloads("none").map(drop), switch_off_offloads("none")]);
    assert!(missing.iter().all(|result| matches!(result, Err(PacketError::NoInterface { .. }))), "{missing:?}");
}

#[test]
fn senders_and_rings_can_be_handed_to_another_thread() {
    let link = Link::new(1_500);
    let (sender, ring) = link.on(0, |interface| {
        let ring = FrameRing::open(interface, &Filter::all(), 1 << 16).unwrap();
        (FrameSender::open(interface, SenderKind::Xdp).unwrap(), ring)
    });
    std::thread::spawn(move || drop((sender, ring))).join().unwrap();
}
