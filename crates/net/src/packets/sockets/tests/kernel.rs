//! Frames that the kernel sends for sockets: checksums left out, segments joined.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use socket2::SockRef;

use super::super::{Checksum, Filter, FrameRing, switch_off_offloads};
use super::Link;
use super::link::{Seen, read, receive};

const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
/// Octets of a header of Ethernet, and of IPv4.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TCP: u8 = 6;

fn open(link: &Link) -> FrameRing {
    link.on(0, |interface| FrameRing::open(interface, &Filter::all(), 1 << 22).unwrap())
}

/// Sends a datagram from the other end to whoever is there.
fn broadcast(link: &Link, payload: &[u8]) {
    link.on(1, |_| {
        let socket = UdpSocket::bind((THEIRS, 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        assert_eq!(socket.send_to(payload, (Ipv4Addr::BROADCAST, 53)).unwrap(), payload.len());
    });
}

#[test]
fn a_datagram_of_a_socket_comes_without_its_checksum_unless_offloads_are_off() {
    let link = Link::new(1_500).addressed([OURS, THEIRS]);
    let mut ring = open(&link);
    broadcast(&link, b"query");
    let seen = receive(&mut ring, 1).pop().unwrap();
    assert_eq!(seen.checksum, Checksum::NotReady);
    assert!(seen.octets.ends_with(b"query") && seen.octets[..6] == [0xff; 6]);
    link.on(1, |_| switch_off_offloads("theirs").unwrap());
    broadcast(&link, b"again");
    let seen = receive(&mut ring, 1).pop().unwrap();
    assert!(seen.octets.ends_with(b"again"));
    assert_ne!(seen.checksum, Checksum::NotReady);
    assert_eq!(udp_sum(&seen.octets), 0xffff, "the checksum of RFC 768 is there and right");
}

/// The sum over a UDP datagram and its pseudo header, in an IPv4 packet without options: all ones if the checksum is right.
fn udp_sum(frame: &[u8]) -> u32 {
    let packet = &frame[ETHERNET..];
    let datagram = &packet[IPV4..usize::from(u16::from_be_bytes([packet[2], packet[3]]))];
    let words = packet[12..20].chunks(2).chain(datagram.chunks(2));
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let sum = sum + 17 + datagram.len() as u32;
    (sum & 0xffff) + (sum >> 16)
}

/// A stream of so many octets from the other end to a socket at ours, and the frames of it that the ring saw.
fn stream(link: &Link, octets: usize) -> Vec<Seen> {
    let mut ring = open(link);
    let listener = link.on(0, |_| TcpListener::bind((OURS, 0)).unwrap());
    // Bounds what is under way: the kernel has room for only so many long frames beside the ring, without rights for less.
    SockRef::from(&listener).set_recv_buffer_size(1 << 16).unwrap();
    let to: SocketAddr = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..octets).map(|at| (at / 7) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = link.on(1, |_| TcpStream::connect(to).unwrap());
            client.write_all(&sent).unwrap();
        });
        let mut server = listener.accept().unwrap().0;
        let mut received = Vec::new();
        let mut seen = Vec::new();
        let mut part = vec![0; 1 << 16];
        while let Ok(count @ 1..) = server.read(&mut part) {
            received.extend_from_slice(&part[..count]);
            // What was read was in the ring before it was in the socket.
            while read(&mut ring, 1_000, &mut seen) > 0 {}
        }
        while read(&mut ring, 1_000, &mut seen) > 0 {}
        assert_eq!(received.len(), sent.len());
        assert_eq!(ring.drops(), 0);
        assert_eq!(payload(&seen), sent);
        seen
    })
}

/// The octets of a stream, from the segments that carry them.
fn payload(seen: &[Seen]) -> Vec<u8> {
    let segments = seen.iter().filter(|seen| seen.octets[12..14] == [8, 0] && seen.octets[ETHERNET + 9] == TCP);
    let segments = segments.map(|seen| &seen.octets[ETHERNET + IPV4..]);
    let mut first = None;
    let mut parts = BTreeMap::new();
    for segment in segments {
        let sequence = u32::from_be_bytes(segment[4..8].try_into().unwrap());
        let is_syn = segment[13] & 2 != 0;
        let start = *first.get_or_insert(sequence.wrapping_add(u32::from(is_syn)));
        let octets = &segment[usize::from(segment[12] >> 4) * 4..];
        if !octets.is_empty() {
            parts.insert(sequence.wrapping_sub(start), octets);
        }
    }
    let mut stream = Vec::new();
    for (at, octets) in parts {
        let known = stream.len().saturating_sub(at as usize).min(octets.len());
        assert!(at as usize <= stream.len(), "octets {} to {at} were not seen", stream.len());
        stream.extend_from_slice(&octets[known..]);
    }
    stream
}

#[test]
fn a_stream_that_the_kernel_sends_in_joined_segments_arrives_untruncated() {
    let link = Link::new(1_500).addressed([OURS, THEIRS]);
    let seen = stream(&link, 300_000);
    assert!(seen.iter().all(|seen| seen.length == seen.octets.len()), "none is cut");
    assert!(seen.iter().any(|seen| seen.length > 1_514), "segments were joined");
}

#[test]
fn a_stream_sent_without_offloads_keeps_to_the_mtu() {
    let link = Link::new(1_500).addressed([OURS, THEIRS]);
    link.on(1, |_| switch_off_offloads("theirs").unwrap());
    let seen = stream(&link, 300_000);
    assert!(seen.iter().all(|seen| seen.length == seen.octets.len() && seen.length <= 1_514));
    assert!(seen.iter().all(|seen| seen.checksum != Checksum::NotReady));
}
