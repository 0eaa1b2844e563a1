//! Frames: any octets are what they mean or a reason, what was read is written back as it was, and fragments stay within their limits.
#![no_main]

use std::net::IpAddr;

use ldplayer_core::RunTime;
use ldplayer_stack::fragments::{Limits, Reassembler};
use ldplayer_stack::frame::{Check, Content, Ethernet, Link, Packet, Segment, Transport, ip, udp};
use ldplayer_stack::neighbours::{Asking, Neighbour, answer_arp, answer_discovery};
use libfuzzer_sys::fuzz_target;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// What is written is read as it was.
fn write_back(source: IpAddr, destination: IpAddr, transport: &Transport<'_>) {
    let (mut frame, link) = (vec![0; 70_000], Link::none());
    let length = match transport {
        Transport::Udp(it) => {
            let [from, to] = [(source, it.source_port), (destination, it.destination_port)];
            udp::write(&mut frame, &link, from, to, it.payload)
        }
        Transport::Tcp(segment) => segment.write(&mut frame, &link, source, destination),
        _ => return,
    };
    // Options of any order and number need more room than a header has once each is padded.
    let Some(length) = length else { return };
    // What we write is a whole packet.
    let packet = Packet::read(&frame[..length]).unwrap();
    match (Transport::read(&packet, Check::Verify), transport) {
        (Ok(Transport::Udp(again)), Transport::Udp(it)) => assert_eq!(again, *it),
        (Ok(Transport::Tcp(again)), Transport::Tcp(it)) => assert_eq!(again, Segment { options: it.options, ..*it }),
        (other, _) => panic!("{other:?}"),
    }
}

fn look_at(ethernet: &Ethernet<'_>, check: Check, reassembler: &mut Reassembler, now: i64) {
    let mut answer = [0; 200];
    match Content::read(ethernet.ethertype, ethernet.payload, check) {
        Ok(Content::Arp(arp)) => {
            answer_arp(&arp, MAC, ethernet.vlan, |_| true, &mut answer);
            let ours = IpAddr::V4(arp.target_ip);
            if let Some(mut neighbour) = Neighbour::new(arp.sender_ip.into(), ours, MAC, Asking::default()) {
                neighbour.want(RunTime(now));
                neighbour.handle_arp(RunTime(now), &arp);
            }
        }
        Ok(Content::Fragment(packet)) => {
            if let Some(whole) = reassembler.handle_fragment(RunTime(now), &packet) {
                assert!(whole.payload.len() <= 65_535 && whole.fragment.is_none());
                let _ = Transport::read(&whole, check);
            }
        }
        Ok(Content::Transport(_, _, Transport::Discovery(message))) => {
            answer_discovery(&message, ethernet.source, MAC, ethernet.vlan, |_| true, &mut answer);
        }
        Ok(Content::Transport(source, destination, transport)) => write_back(source, destination, &transport),
        Err(reason) => assert!(ldplayer_stack::frame::BadFrame::ALL.contains(&reason)),
    }
}

fuzz_target!(|frames: Vec<Vec<u8>>| {
    let mut reassembler = Reassembler::new(Limits { datagrams: 3, octets: 10_000, timeout_ns: 4 });
    for (now, frame) in frames.iter().enumerate() {
        let both = [Check::Verify, Check::Trust];
        if let Ok(ethernet) = Ethernet::read(frame) {
            both.iter().for_each(|&check| look_at(&ethernet, check, &mut reassembler, now as i64));
        }
        // Most octets are no frame: they are an IP packet, too, of the version that they begin with.
        let ethertype = if frame.first().is_some_and(|first| first >> 4 == 6) { 0x86dd } else { 0x0800 };
        let ethernet = Ethernet { destination: MAC, source: MAC, vlan: None, ethertype, payload: frame };
        both.iter().for_each(|&check| look_at(&ethernet, check, &mut reassembler, now as i64));
        let addresses = [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])];
        for protocol in [ip::TCP, ip::UDP, ip::ICMP] {
            let header = ip::Header::new(addresses[0], addresses[1], protocol);
            let packet = Packet {
                source: header.source,
                destination: header.destination,
                protocol,
                hop_limit: 255,
                fragment: None,
                payload: frame,
            };
            if let Ok(transport) = Transport::read(&packet, Check::Trust) {
                write_back(addresses[0], addresses[1], &transport);
            }
        }
        assert!(reassembler.len() <= 3);
    }
});
