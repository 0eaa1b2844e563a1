//! Tests of the memory that connections take.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use allocation_counter::measure;
use ldplayer_core::RunTime;

use super::{Config, OpenOptions, Tcp};
use crate::frame::{Flags, Options, Segment};

/// Opens connections one after the other, each of which has asked once, and leaves them idle.
fn idle(connections: u32, client: fn(u32) -> IpAddr) -> Tcp {
    let mut tcp = Tcp::new(Config { timestamps: false, ..Config::default() });
    for number in 0..connections {
        open(&mut tcp, client(number), RunTime(i64::from(number) * 1_000));
    }
    assert_eq!((tcp.len(), tcp.active()), (connections as usize, 0));
    tcp
}

fn open(tcp: &mut Tcp, client: IpAddr, now: RunTime) {
    let server = match client {
        IpAddr::V4(_) => SocketAddr::from(([198, 51, 100, 53], 53)),
        IpAddr::V6(_) => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 53], 53)),
    };
    let (at, port) = tcp.open(now, client, server, &OpenOptions::default()).unwrap();
    let local = SocketAddr::new(client, port);
    let syn = tcp.poll_transmit(now).unwrap().segment.sequence;
    let mut answer = |flags: Flags, sequence, ack: u32, payload: &'static [u8]| {
        let segment = Segment {
            source_port: 53,
            destination_port: port,
            sequence,
            acknowledgement: syn.wrapping_add(ack),
            flags,
            window: 60_000,
            options: Options::default(),
            payload,
        };
        tcp.handle_segment(now, server, local, &segment);
        while tcp.poll_event().is_some() {}
        if payload.is_empty() && flags.has(Flags::SYN) {
            tcp.write(at, now, &[1; 40]);
        }
        while tcp.poll_transmit(now).is_some() {}
    };
    answer(Flags::SYN | Flags::ACK, 7, 1, &[]);
    // So short a response is acknowledged at once.
    answer(Flags::ACK, 8, 41, &[1; 10]);
}

/// What one more connection takes, beside what the machine has for those that are active.
fn octets_each(connections: u32, client: fn(u32) -> IpAddr) -> i64 {
    let held = |connections| {
        let mut tcp = None;
        let held = measure(|| tcp = Some(idle(connections, client))).bytes_current;
        drop(tcp);
        held
    };
    (held(connections) - held(1_024)) / i64::from(connections - 1_024)
}

#[test]
fn the_active_part_of_a_connection_takes_at_most_256_octets() {
    assert!(size_of::<super::active::Active>() <= 256, "{}", size_of::<super::active::Active>());
}

#[test]
fn an_idle_connection_of_a_million_takes_at_most_45_octets() {
    let each = octets_each(1_000_000, |number| Ipv4Addr::from_bits(number).into());
    assert!(each <= 45, "{each}");
}

#[test]
fn an_idle_connection_over_ipv6_takes_at_most_73_octets_with_the_address_of_its_client() {
    let each = octets_each(98 << 10, |number| Ipv6Addr::from_bits(u128::from(number) << 64 | 1).into());
    assert!(each <= 73, "{each}");
}

#[test]
fn several_connections_of_a_client_share_its_ipv6_address() {
    let each = octets_each(100_000, |number| Ipv6Addr::from_bits(u128::from(number % 1_000)).into());
    assert!(each <= 46, "{each}");
}

#[test]
fn a_query_on_a_connection_allocates_nothing_once_buffers_are_there() {
    let mut tcp = Tcp::new(Config::default());
    (0..2_000).for_each(|number| open(&mut tcp, Ipv4Addr::from_bits(number).into(), RunTime(0)));
    let before = tcp.len();
    let allocated = measure(|| {
        // Within the block that there is room in.
        (2_000..2_040).for_each(|number| open(&mut tcp, Ipv4Addr::from_bits(number).into(), RunTime(0)));
    });
    assert_eq!((tcp.len() - before, allocated.count_total), (40, 0));
}
