//! Which frames get into the ring of which worker.

use super::super::{Filter, FrameRing, FrameSender, SenderKind};
use super::Link;
use super::link::{frames, receive, send};

const WORKERS: u16 = 3;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The end of the packets sent; it goes to everyone.
const LAST: u8 = 0xee;

/// Sends the frames, each alone and in one and two VLANs, and returns which of them each worker got: their numbers, three
/// times in a row.
fn deal(sent: &[Vec<u8>]) -> Vec<Vec<usize>> {
    let link = Link::new(1_500);
    let mut rings: Vec<FrameRing> = link.on(1, |interface| {
        let open = |worker| FrameRing::open(interface, &Filter::of_worker(worker, WORKERS), 1 << 20).unwrap();
        (0..WORKERS).map(open).collect()
    });
    let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    let once: Vec<_> = sent.iter().map(|frame| frames::tagged(0x8100, 7, frame)).collect();
    // The kernel takes the outer tag off; two kinds may be the inner one.
    let inner = [0x8100, 0x88a8];
    let twice = sent.iter().zip(inner.iter().cycle());
    let twice: Vec<_> =
        twice.map(|(frame, &kind)| frames::tagged(0x88a8, 8, &frames::tagged(kind, 7, frame))).collect();
    let end = frames::ethernet(0x0806, &[LAST; 46]);
    send(&mut sender, sent.iter().chain(&once).chain(&twice).chain([&end]));
    rings.iter_mut().map(|ring| numbers(ring, sent, &end)).collect()
}

/// The numbers of the frames that got into a ring, up to the last one sent.
fn numbers(ring: &mut FrameRing, sent: &[Vec<u8>], end: &[u8]) -> Vec<usize> {
    let mut numbers = Vec::new();
    loop {
        let seen = receive(ring, 1).pop().expect("the last frame goes to everyone");
        if seen.octets == end {
            return numbers;
        }
        let mut octets = seen.octets;
        if matches!(octets[12..14], [0x81, 0x00] | [0x88, 0xa8]) {
            octets.drain(12..16);
        }
        numbers.push(sent.iter().position(|frame| *frame == octets).expect("it was sent"));
    }
}

fn thrice(numbers: impl Iterator<Item = usize> + Clone) -> Vec<usize> {
    numbers.clone().chain(numbers.clone()).chain(numbers).collect()
}

#[test]
fn each_worker_gets_the_ports_that_are_its_own_of_both_protocols_and_families() {
    let ports = [0, 1, 2, 3, 1_024, 5_353, 32_768, 40_000, 65_533, 65_534, 65_535];
    let mut sent = Vec::new();
    let mut owners = Vec::new();
    for port in ports {
        let payload = frames::ports(port, &[port as u8; 46]);
        for protocol in [UDP, TCP] {
            for options in [0, 1, 10] {
                sent.push(frames::ipv4(protocol, 0, options, &payload));
            }
            sent.push(frames::ipv6(protocol, &payload));
            // The kernel sets "do not fragment", which is no fragment.
            sent.push(frames::ipv4(protocol, 0x4000, 0, &payload));
        }
        owners.resize(sent.len(), port % WORKERS);
    }
    for (worker, got) in deal(&sent).into_iter().enumerate() {
        let own = (0..sent.len()).filter(|&number| usize::from(owners[number]) == worker);
        assert_eq!(got, thrice(own), "worker {worker}");
    }
}

#[test]
fn every_worker_gets_what_tells_no_port() {
    let payload = frames::ports(1, &[5; 46]);
    let sent = [
        frames::ethernet(0x0806, &[1; 46]),
        frames::ipv4(1, 0, 0, &[3; 46]),
        frames::ipv6(58, &[136; 46]),
        // The first fragment, one in between and the last one.
        frames::ipv4(UDP, 0x2000, 0, &payload),
        frames::ipv4(UDP, 0x2010, 0, &payload),
        frames::ipv4(TCP, 0x0010, 0, &payload),
        frames::ipv6(44, &payload),
        frames::ipv6(0, &payload),
        frames::ipv6(43, &payload),
        frames::ipv6(60, &payload),
    ];
    assert_eq!(deal(&sent), vec![thrice(0..sent.len()); WORKERS.into()]);
}

#[test]
fn no_worker_gets_what_no_client_speaks_or_what_is_cut_short() {
    let payload = frames::ports(1, &[5; 46]);
    let sent = [
        frames::ethernet(0x88b5, &payload),
        frames::ethernet(0x88cc, &payload),
        frames::ipv4(2, 0, 0, &payload),
        frames::ipv4(47, 0, 0, &payload),
        frames::ipv6(59, &payload),
        frames::ipv6(132, &payload),
        frames::ethernet(0x0800, &[0x45]),
        frames::ipv4(UDP, 0, 0, &[0, 53]),
        frames::ipv6(UDP, &[0, 53]),
    ];
    assert_eq!(deal(&sent), vec![Vec::<usize>::new(); WORKERS.into()]);
}

#[test]
fn a_single_worker_gets_every_port() {
    for workers in [0, 1] {
        let link = Link::new(1_500);
        let filter = Filter::of_worker(0, workers);
        let mut ring = link.on(1, |interface| FrameRing::open(interface, &filter, 1 << 16).unwrap());
        let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
        let sent = [1, 2, 65_535].map(|port| frames::ipv4(UDP, 0, 0, &frames::ports(port, &[9; 46])));
        send(&mut sender, &sent);
        assert_eq!(receive(&mut ring, 3).into_iter().map(|seen| seen.octets).collect::<Vec<_>>(), sent);
    }
}

#[test]
fn what_neighbours_say_is_taken_and_nothing_else_and_a_vlan_shows() {
    const ICMPV6: u8 = 58;
    let link = Link::new(1_500);
    let mut ring = link.on(1, |interface| FrameRing::open(interface, &Filter::neighbours(), 1 << 20).unwrap());
    let mut sender = link.on(0, |interface| FrameSender::open(interface, SenderKind::Packet).unwrap());
    let arp = frames::ethernet(0x0806, &[1; 46]);
    let discovery = frames::ipv6(ICMPV6, &[2; 46]);
    let query = frames::ipv6(UDP, &frames::ports(53, &[3; 46]));
    let inside = frames::tagged(0x8100, 7, &arp);
    let end = frames::ethernet(0x0806, &[LAST; 46]);
    send(&mut sender, [&inside, &query, &arp, &query, &discovery, &end]);
    let mut seen = receive(&mut ring, 4);
    assert_eq!(seen.remove(0).vlan, Some(7), "the kernel takes the tag off before the filter runs");
    let octets: Vec<_> = seen.into_iter().map(|frame| frame.octets).collect();
    assert_eq!(octets, [arp, discovery, end]);
}
