//! Tests of connections that are taken out of the machine while they are idle.

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::RunTime;

use super::script::{Script, plain};
use super::{Config, Event, OpenOptions, Tcp};
use crate::frame::{Flags, Options, Segment, Timestamps};

/// Parks the connection of a script and puts it back, which gives it another handle.
fn park_for_a_moment(script: &mut Script) {
    let parked = script.tcp.park(script.at).unwrap();
    assert!(script.tcp.is_empty() && !script.tcp.knows(script.local, script.server));
    script.at = script.tcp.resume(script.local.ip(), script.server, &parked).unwrap();
    assert_eq!(script.tcp.tuple(script.at), Some((script.local, script.server)));
}

#[test]
fn a_parked_connection_takes_22_octets() {
    assert_eq!((size_of::<super::Parked>(), align_of::<super::Parked>()), (22, 1));
}

#[test]
fn a_connection_goes_on_where_it_was_parked() {
    let mut script = Script::opened();
    park_for_a_moment(&mut script);
    script.run(
        "write 30
         > P. 1:31 ack 1
         > -
         < P. 1:11 ack 31
         = 1:11
         > . 31 ack 11
         > -",
    );
    park_for_a_moment(&mut script);
    script.run(
        "< F. 11 ack 31
         ! closed
         > . 31 ack 12
         close
         > F. 31 ack 12
         < . 12 ack 32
         > -",
    );
    assert!(script.tcp.is_empty());
}

#[test]
fn only_a_connection_that_is_open_both_ways_and_has_nothing_in_flight_is_parked() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    assert_eq!(script.tcp.park(script.at), None, "SYN is in flight");
    script.run("> S 0\n< S. 0 ack 1 win 60000 mss 1000\n! opened\n> . 1 ack 1\n> -\nwrite 30\n> P. 1:31 ack 1\n> -");
    assert_eq!(script.tcp.park(script.at), None, "data is in flight");
    script.run("< F. 1 ack 31\n! closed\n> . 31 ack 2\n> -");
    assert_eq!(script.tcp.park(script.at), None, "the server has closed");
    script.run("close\n> F. 31 ack 2\n> -");
    assert_eq!(script.tcp.park(script.at), None, "the handle is dead");
}

#[test]
fn a_connection_is_not_put_back_where_there_is_another_of_its_tuple() {
    let mut script = Script::opened();
    let parked = script.tcp.park(script.at).unwrap();
    let at = script.tcp.resume(script.local.ip(), script.server, &parked);
    assert!(at.is_some() && script.tcp.resume(script.local.ip(), script.server, &parked).is_none());
    assert_eq!(script.tcp.len(), 1);
}

#[test]
fn that_a_connection_rests_is_told_only_where_it_is_asked_for() {
    let mut script = Script::new(Config { tells_rest: true, ..plain() }, &OpenOptions::default());
    script.run("> S 0\n< S. 0 ack 1 win 60000 mss 1000\n! opened\n> . 1 ack 1\n> -\n! rests\n! -");
    assert_eq!(Script::opened().run("! -").tcp.active(), 0);
}

/// Opens a connection of an IPv6 client whose server sends timestamps; returns the client's address and the timestamps of its segments so far.
fn open_v6(tcp: &mut Tcp, client: IpAddr, now: RunTime) -> (SocketAddr, u32) {
    let (_, port) = tcp.open(now, client, server_v6(), &OpenOptions::default()).unwrap();
    let local = SocketAddr::new(client, port);
    let syn = tcp.poll_transmit(now).unwrap().segment;
    let stamp = syn.options.timestamps.unwrap().value;
    let options = Options { timestamps: Some(Timestamps { value: 9, echo: stamp }), ..Options::default() };
    let segment = Segment {
        source_port: 53,
        destination_port: port,
        sequence: 7,
        acknowledgement: syn.sequence.wrapping_add(1),
        flags: Flags::SYN | Flags::ACK,
        window: 60_000,
        options,
        payload: &[],
    };
    tcp.handle_segment(now, server_v6(), local, &segment);
    while tcp.poll_transmit(now).is_some() {}
    (local, stamp)
}

fn server_v6() -> SocketAddr {
    "[2001:db8::53]:53".parse().unwrap()
}

/// Timestamps that go back would be thrown away by the server (RFC 7323 section 5).
#[test]
fn timestamps_of_an_ipv6_client_go_on_though_another_has_taken_the_number_of_its_address() {
    let [one, two]: [IpAddr; 2] = ["2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()];
    let mut tcp = Tcp::new(Config::default());
    let (local, stamp) = open_v6(&mut tcp, one, RunTime(0));
    let Some(Event::Opened(at)) = tcp.poll_event() else { panic!("it is open") };
    let parked = tcp.park(at).unwrap();
    open_v6(&mut tcp, two, RunTime(0));
    let again = tcp.resume(local.ip(), server_v6(), &parked).unwrap();
    let later = RunTime(5_000_000);
    assert_eq!(tcp.write(again, later, b"query"), 5);
    let segment = tcp.poll_transmit(later).unwrap().segment;
    assert_eq!(segment.options.timestamps, Some(Timestamps { value: stamp.wrapping_add(5), echo: 9 }));
}
