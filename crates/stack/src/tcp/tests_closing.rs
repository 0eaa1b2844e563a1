//! Tests of closing, resets, forgeries, TIME_WAIT, timestamps, Fast Open and ICMP, by scripts of segments.

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::RunTime;

use super::connection::State;
use super::script::{SERVER_START, Script, plain, stream};
use super::{Config, Event, Failure, OpenError, OpenOptions, Tcp};
use crate::frame::{Flags, IcmpError, IcmpKind, Options, Quoted, Segment, ip};

fn state(script: &Script) -> State {
    script.tcp.connections[script.at.slot].state()
}

#[test]
fn rfc_9293_section_3_6_the_client_closes_first_and_waits() {
    let mut script = Script::opened();
    script.run("write 30\nclose\n> FP. 1:31 ack 1\n> -\n< . 1 ack 32\n> -");
    assert_eq!(state(&script), State::FinWait2);
    script.run("+ 100\n< F. 1 ack 32\n> . 32 ack 2\n> -");
    assert_eq!((state(&script), script.tcp.active()), (State::TimeWait, 0));
    script.run("+ 30000\n< F. 1 ack 32\n> . 32 ack 2\n+ 59900\n! -");
    assert_eq!(script.tcp.len(), 1, "FIN that is sent again begins the time anew");
    script.run("+ 110\n> -");
    assert!(script.tcp.is_empty() && script.tcp.poll_timeout().is_none());
}

#[test]
fn one_whose_time_wait_begins_anew_does_not_hold_up_others() {
    let mut first = Script::opened();
    first.run("close\n> F. 1 ack 1\n< F. 1 ack 2\n> . 2 ack 2\n+ 10000");
    let (local, start, at) = (first.local, first.start, first.at);
    let mut script = Script::at(first.tcp, first.now, &OpenOptions::default());
    script.run("> S 0\n< S. 0 ack 1\n! opened\n> . 1 ack 1\nclose\n> F. 1 ack 1\n< F. 1 ack 2\n> . 2 ack 2\n+ 30000");
    (script.local, script.start, script.at) = (local, start, at);
    script.run("< F. 1 ack 2\n> . 2 ack 2\n+ 29990");
    assert_eq!(script.tcp.len(), 2);
    script.run("+ 20");
    assert_eq!(script.tcp.len(), 1);
    script.run("+ 30000");
    assert!(script.tcp.is_empty() && script.tcp.poll_timeout().is_none());
}

#[test]
fn rfc_9293_section_3_6_the_server_closes_first_and_nothing_stays() {
    let mut script = Script::opened();
    script.run("< F. 1 ack 1\n! closed\n! -\nwrite 10\n> P. 1:11 ack 2\n< . 2 ack 11\nclose\n> F. 11 ack 2");
    assert_eq!(state(&script), State::LastAck);
    script.run("< . 2 ack 12\n> -");
    assert!(script.tcp.is_empty());
}

#[test]
fn an_answer_of_fin_rides_on_ours() {
    Script::opened().run("< F. 1 ack 1\n! closed\nclose\n> F. 1 ack 2\n> -");
}

#[test]
fn rfc_9293_section_3_6_both_close_at_once() {
    let mut script = Script::opened();
    script.run("close\n> F. 1 ack 1\n< F. 1 ack 1\n> . 2 ack 2\n> -");
    assert_eq!(state(&script), State::Closing);
    script.run("< . 2 ack 2");
    assert_eq!(state(&script), State::TimeWait);
}

#[test]
fn fin_that_also_acknowledges_ours_ends_in_time_wait_at_once() {
    let mut script = Script::opened();
    script.run("close\n> F. 1 ack 1\n< F. 1 ack 2\n> . 2 ack 2\n> -");
    assert_eq!(state(&script), State::TimeWait);
}

#[test]
fn fin_that_is_lost_is_sent_again_alone_or_with_its_data() {
    Script::opened().run("close\n> F. 1 ack 1\n+ 1005\n> F. 1 ack 1\n< . 1 ack 2\n> -\n+ 10000\n> -");
    let mut script = Script::opened();
    script.run(
        "write 1500\nclose\n> . 1:1001 ack 1\n> FP. 1001:1501 ack 1\n< . 1 ack 1001\n+ 1005\n> FP. 1001:1501 ack 1",
    );
    script.run("< . 1 ack 1502");
    assert_eq!(state(&script), State::FinWait2);
}

#[test]
fn a_server_that_never_closes_is_forgotten_in_time() {
    let mut script = Script::opened();
    script.run("close\n> F. 1 ack 1\n< . 1 ack 2\n+ 59000\n> -");
    assert_eq!(script.tcp.len(), 1);
    script.run("+ 1100\n> -\n! -");
    assert!(script.tcp.is_empty());
}

#[test]
fn a_window_that_opens_after_all_was_taken_octet_by_octet_does_not_stop_the_wait_for_the_servers_fin() {
    let mut script = Script::opened();
    script.run("< . 1 ack 1 win 0\nwrite 1\nclose\n> -\n+ 1010\n> P. 1:2 ack 1\n< . 1 ack 2 win 0\n> F. 2 ack 1");
    script.run("< . 1 ack 3 win 0\n> -\n< . 1 ack 3 win 500\n> -");
    assert_eq!(state(&script), State::FinWait2);
    script.run("+ 60100\n> -");
    assert!(script.tcp.is_empty());
}

#[test]
fn two_sides_out_of_step_do_not_answer_each_other_for_ever() {
    let mut script = Script::opened();
    let mut answers = 0;
    for _ in 0..1_500 {
        script.run("< . 90000 ack 1");
        answers += usize::from(script.next().is_some());
    }
    assert_eq!(answers, 1_000);
}

#[test]
fn fin_ahead_of_its_data_is_taken_when_that_has_arrived() {
    Script::opened().run("< F. 11 ack 1\n! -\n> . 1 ack 1\n< . 1:11 ack 1\n= 1:11\n! closed\n> . 1 ack 12");
    Script::opened().run("< F. 6:11 ack 1\n! -\n< . 1:6 ack 1\n= 1:6\n! data\n! closed\nread 6:11\n> . 1 ack 12");
}

#[test]
fn data_behind_fin_is_ignored() {
    let mut script = Script::opened();
    script.run("< F. 1:11 ack 1\n= 1:11\n! closed\n> . 1 ack 12\n< P. 12:20 ack 1\n= -\n> . 1 ack 12\n! -");
    assert_eq!(script.tcp.counts().after_fin, 1);
}

#[test]
fn rfc_9293_section_3_6_1_data_after_close_resets_the_connection() {
    let mut script = Script::opened();
    script.run("close\n> F. 1 ack 1\n< P. 1:11 ack 2\n> R. 2 ack 1\n> -\n! -");
    assert!(script.tcp.is_empty());
    assert_eq!((script.tcp.counts().data_after_close, script.tcp.counts().resets_out), (1, 1));
}

#[test]
fn an_aborted_connection_is_reset_and_one_that_is_not_open_is_forgotten() {
    let mut script = Script::opened();
    script.run("write 10\n> P. 1:11 ack 1\nabort\n> R. 11 ack 1\n> -\n! -");
    assert!(script.tcp.is_empty());
    for end in ["abort", "close"] {
        let mut script = Script::new(plain(), &OpenOptions::default());
        script.run(&format!("> S 0\n{end}\n> -\n! -"));
        assert!(script.tcp.is_empty());
        script.run("< S. 0 ack 1\n> R 1\n> -");
    }
}

#[test]
fn rfc_5961_section_3_2_a_reset_goes_behind_all_that_was_ever_sent_as_the_server_believes_no_other() {
    let mut script = Script::opened();
    script.run(
        "write 2000\n> . 1:1001 ack 1\n> P. 1001:2001 ack 1\n+ 205\n> . 1:1001 ack 1\n> -\nabort\n> R. 2001 ack 1",
    );
}

#[test]
fn a_dead_handle_does_nothing() {
    let mut script = Script::opened();
    script.run("abort\n> R. 1 ack 1\nwrite 10\nwrote 0\nclose\nabort\n> -");
    assert_eq!((script.tcp.read(script.at, &mut [0; 9]), script.tcp.tuple(script.at)), (0, None));
}

#[test]
fn rfc_5961_section_3_2_only_the_very_next_number_resets() {
    let mut script = Script::opened();
    script.run("< R 2\n! -\n> . 1 ack 1\n< R 60000\n> . 1 ack 1\n< R 70000\n> -\n< R 0\n> -\n! -");
    assert_eq!((script.tcp.counts().challenge_acks, script.tcp.counts().resets_ignored), (2, 4));
    script.run("< R 1\n! reset\n> -");
    assert!(script.tcp.is_empty());
}

#[test]
fn rfc_5961_section_3_2_blind_resets_all_over_the_number_space_do_not_hit_but_in_one_place() {
    let mut script = Script::opened();
    for place in (0..u32::MAX).step_by(65_000) {
        let segment = Segment {
            source_port: 53,
            destination_port: script.local.port(),
            sequence: SERVER_START.wrapping_add(place),
            acknowledgement: 0,
            flags: Flags::RST,
            window: 0,
            options: Options::default(),
            payload: &[],
        };
        script.tcp.handle_segment(script.now, script.server, script.local, &segment);
    }
    script.run("! -");
    assert_eq!(state(&script), State::Established);
}

#[test]
fn rfc_5961_section_4_2_syn_on_an_open_connection_is_challenged() {
    let mut script = Script::opened();
    script.run("< S 1\n> . 1 ack 1\n< S 5000\n> . 1 ack 1\n< S. 0 ack 1\n> . 1 ack 1\n! -");
    assert_eq!(script.tcp.counts().challenge_acks, 3);
}

#[test]
fn rfc_5961_section_5_2_data_that_acknowledges_what_never_was_is_challenged() {
    let mut script = Script::opened();
    script.run("< P. 1:11 ack 2\n= -\n> . 1 ack 1\nwrite 10\n> P. 1:11 ack 1\n< P. 1:11 ack 12\n= -\n> . 11 ack 1");
    assert_eq!((script.tcp.counts().challenge_acks, script.tcp.counts().bad_acknowledgements), (2, 2));
    let mut script = Script::opened();
    script.start = script.start.wrapping_sub(100_000);
    script.run("< P. 1:11 ack 1\n= -\n! -");
    assert_eq!(script.tcp.counts().bad_acknowledgements, 1);
}

#[test]
fn rfc_5961_section_7_challenges_are_limited() {
    let mut script = Script::opened();
    for _ in 0..1_100 {
        script.run("< R 2");
    }
    assert_eq!((script.tcp.counts().challenge_acks, script.tcp.counts().challenges_withheld), (1_000, 100));
    script.run("> . 1 ack 1\n+ 1000\n< R 2");
    assert_eq!(script.tcp.counts().challenge_acks, 1_001);
}

#[test]
fn rfc_1337_resets_do_not_end_time_wait() {
    let mut script = Script::opened();
    script.run("close\n> F. 1 ack 1\n< F. 1 ack 2\n> . 2 ack 2\n< R 2\n> -");
    assert_eq!(state(&script), State::TimeWait);
}

#[test]
fn segments_of_no_connection_are_reset_but_resets_are_not() {
    let mut script = Script::opened();
    script.run(
        "abort\n> R. 1 ack 1\n< P. 1:11 ack 9\n> R 9\n< R. 1 ack 9\n> -\n< S 5\n> R. 0 ack 6"
            .replace("> R. 0 ack 6", "")
            .as_str(),
    );
    let answer = script.next().unwrap().segment;
    assert_eq!(
        (answer.sequence, answer.acknowledgement),
        (0, SERVER_START.wrapping_add(6)),
        "RFC 9293 section 3.10.7.1"
    );
    assert_eq!(script.tcp.counts().unknown, 3);
}

/// The settings with timestamps.
fn stamped() -> Config {
    Config { timestamps: true, ..plain() }
}

#[test]
fn rfc_7323_section_3_timestamps_are_a_clock_and_the_servers_is_echoed() {
    let mut script = Script::new(stamped(), &OpenOptions::default());
    let first = script.next().unwrap().segment.options.timestamps.unwrap();
    assert_eq!(first.echo, 0);
    script.run("+ 50\n< S. 0 ack 1 mss 1000 ts 700 1\n! opened\nwrite 2000");
    let sent = script.next().unwrap().segment;
    let stamps = sent.options.timestamps.unwrap();
    assert_eq!((stamps.value.wrapping_sub(first.value), stamps.echo, sent.payload.len()), (50, 700, 988));
}

#[test]
fn rfc_7323_section_3_2_they_are_not_used_with_a_server_that_has_none() {
    let mut script = Script::new(stamped(), &OpenOptions::default());
    script.run("> S 0\n< S. 0 ack 1 mss 1000\n! opened\nwrite 2000");
    let sent = script.next().unwrap().segment;
    assert_eq!((sent.options.timestamps, sent.payload.len()), (None, 1_000));
}

#[test]
fn rfc_7323_section_5_segments_that_are_older_or_not_stamped_are_dropped() {
    let mut script = Script::new(stamped(), &OpenOptions::default());
    script.run("> S 0\n< S. 0 ack 1 mss 1000 ts 4294967290 1\n> . 1 ack 1\n< P. 1:101 ack 1 ts 3 1\n= 1:101\n! opened");
    script.run("< P. 101:111 ack 1 ts 4294967295 1\n= -\n> . 1 ack 101\n< P. 101:111 ack 1\n= -\n> -");
    assert_eq!((script.tcp.counts().paws, script.tcp.counts().without_timestamp), (1, 1));
    script.run("< R 101\n! reset");
}

#[test]
fn rfc_7323_section_4_3_the_first_of_two_segments_that_are_acknowledged_at_once_is_echoed() {
    let mut script = Script::new(stamped(), &OpenOptions::default());
    script
        .run("> S 0\n< S. 0 ack 1 mss 1000 ts 10 1\n> . 1 ack 1\n< P. 1:101 ack 1 ts 20 1\n< P. 101:201 ack 1 ts 30 1");
    script.run("+ 50");
    assert_eq!(script.next().unwrap().segment.options.timestamps.unwrap().echo, 20);
    script.run("< P. 201:301 ack 1 ts 40 1\n+ 50");
    assert_eq!(script.next().unwrap().segment.options.timestamps.unwrap().echo, 40);
}

/// A machine whose only port to the server is in TIME_WAIT.
fn waiting(config: Config, stamps: &str) -> Script {
    // Of all ports, one has the remainder 1,024.
    let config = Config { worker: 1_024, workers: u16::MAX, ..config };
    let mut script = Script::new(config, &OpenOptions::default());
    assert_eq!(script.local.port(), 1_024);
    script.run(&format!("> S 0\n< S. 0 ack 1 mss 1000 {stamps}\n! opened\n> . 1 ack 1\nclose\n> F. 1 ack 1"));
    script.run(&format!("< F. 1 ack 2 {stamps}\n> . 2 ack 2"));
    script
}

#[test]
fn a_tuple_in_time_wait_is_not_used_again_without_timestamps() {
    let mut script = waiting(plain(), "");
    script.run("+ 30000");
    let (client, server) = (script.local.ip(), script.server);
    let again = script.tcp.open(script.now, client, server, &OpenOptions::default());
    assert_eq!(again, Err(OpenError::NoPort));
    script.run("+ 30100");
    assert!(script.tcp.open(script.now, client, server, &OpenOptions::default()).is_ok());
}

#[test]
fn rfc_6191_with_timestamps_it_is_after_a_second_and_goes_on_from_what_it_used() {
    let mut script = waiting(stamped(), "ts 5 1");
    let (client, server, before) = (script.local.ip(), script.server, script.tcp.connections[0].sent);
    script.run("+ 900");
    assert_eq!(script.tcp.open(script.now, client, server, &OpenOptions::default()), Err(OpenError::NoPort));
    script.run("+ 200");
    let (at, port) = script.tcp.open(script.now, client, server, &OpenOptions::default()).unwrap();
    assert_eq!((port, script.tcp.len(), script.tcp.counts().time_wait_reused), (1_024, 2, 1));
    assert!(super::sequence::after(script.tcp.connections[at.slot].sent, before));
    assert!(script.next().is_some());
    script.run("+ 60000");
    // SYN was sent again in the meantime, as the server is silent.
    assert!(script.next().is_some());
    assert_eq!(
        (script.tcp.len(), script.tcp.tuple(at).is_some()),
        (1, true),
        "the old slot is free, the new one is not"
    );
}

#[test]
fn rfc_6056_section_3_3_3_ports_are_those_of_the_worker_and_all_of_them_are_used() {
    let config = Config { worker: 7, workers: 1_000, ..plain() };
    let (client, server) = (IpAddr::from([192, 0, 2, 1]), SocketAddr::from(([198, 51, 100, 53], 53)));
    let mut tcp = Tcp::new(config);
    let open = |tcp: &mut Tcp| tcp.open(RunTime(0), client, server, &OpenOptions::default()).map(|(_, port)| port);
    let mut ports: Vec<u16> = (0..64).map(|_| open(&mut tcp).unwrap()).collect();
    assert_eq!(open(&mut tcp), Err(OpenError::NoPort));
    ports.sort_unstable();
    assert!(ports.iter().zip(2..).all(|(&port, thousand)| port == thousand * 1_000 + 7), "{ports:?}");
    let other = SocketAddr::from(([198, 51, 100, 54], 53));
    assert!(tcp.open(RunTime(0), client, other, &OpenOptions::default()).is_ok());
}

#[test]
fn the_same_seed_gives_the_same_ports_and_numbers_and_another_gives_others() {
    let drawn = |seed| {
        let script = Script::new(Config { seed, ..plain() }, &OpenOptions::default());
        (script.local.port(), script.start)
    };
    assert_eq!(drawn(1), drawn(1));
    assert!(drawn(1).0 != drawn(2).0 && drawn(1).1 != drawn(2).1);
}

#[test]
fn what_cannot_be_opened_has_its_reason() {
    let mut tcp = Tcp::new(Config { max_connections: 1, ..plain() });
    let (v4, v6) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([1_u16; 8]));
    let server = SocketAddr::new(v4, 53);
    assert_eq!(tcp.open(RunTime(0), v6, server, &OpenOptions::default()), Err(OpenError::Family));
    tcp.open(RunTime(0), v4, server, &OpenOptions::default()).unwrap();
    assert_eq!(tcp.open(RunTime(0), v4, server, &OpenOptions::default()), Err(OpenError::TooManyConnections));
}

const COOKIE: &str = "0102030405060708";

/// A machine that has the cookie of the server.
fn with_cookie() -> Script {
    let options = OpenOptions { fast_open: true, ..OpenOptions::default() };
    let mut script = Script::new(plain(), &options);
    script.run("> S 0 fo");
    script.run(&format!("< S. 0 ack 1 win 60000 mss 1000 fo {COOKIE}\n! opened\n> . 1 ack 1\nabort\n> R. 1 ack 1"));
    let data = stream(1, 31);
    let now = script.now;
    Script::at(script.tcp, now, &OpenOptions { data: &data, ..options })
}

#[test]
fn rfc_7413_section_4_2_1_with_a_cookie_data_goes_out_with_syn() {
    let mut script = with_cookie();
    script.run(&format!("> S 0:30 fo {COOKIE}\n> -\n< S. 0 ack 31 mss 1000\n! opened\n> . 31 ack 1\n> -"));
    assert_eq!((script.tcp.counts().fast_opens, script.tcp.counts().fast_opens_accepted), (1, 1));
    script.run("write 10\n> P. 31:41 ack 1");
}

#[test]
fn rfc_7413_section_4_2_1_data_that_the_server_has_not_taken_follows_and_the_cookie_is_forgotten() {
    let mut script = with_cookie();
    script.run(&format!(
        "> S 0:30 fo {COOKIE}\n< S. 0 ack 1 mss 1000\n! opened\n> P. 1:31 ack 1\n> -\n< . 1 ack 31\n> -"
    ));
    assert_eq!(script.tcp.counts().fast_opens_accepted, 0);
    let options = OpenOptions { fast_open: true, ..OpenOptions::default() };
    let now = script.now;
    Script::at(script.tcp, now, &options).run("> S 0 fo");
}

#[test]
fn rfc_7413_section_4_1_3_a_syn_that_is_lost_is_sent_again_without_and_the_server_is_spared_more() {
    let mut script = with_cookie();
    script.run(&format!("> S 0:30 fo {COOKIE}\n+ 1010\n> S 0\n> -\n< S. 0 ack 1 mss 1000\n! opened\n> P. 1:31 ack 1"));
    let options = OpenOptions { fast_open: true, ..OpenOptions::default() };
    let now = script.now;
    Script::at(script.tcp, now, &options).run("> S 0\n> -");
}

#[test]
fn data_with_syn_that_is_acknowledged_after_syn_was_sent_again_is_not_sent_twice() {
    let mut script = with_cookie();
    script.run(&format!("> S 0:30 fo {COOKIE}\n+ 1010\n> S 0\n< S. 0 ack 31 mss 1000\n! opened\n> . 31 ack 1\n> -"));
}

#[test]
fn data_with_syn_that_was_not_taken_waits_for_a_closed_window() {
    let mut script = with_cookie();
    script.run(&format!(
        "> S 0:30 fo {COOKIE}\n< S. 0 ack 1 win 0 mss 1000\n! opened\n> . 1 ack 1\n> -\n+ 205\n> . 1:2 ack 1"
    ));
}

#[test]
fn data_of_the_server_in_front_of_the_handshakes_end_is_taken() {
    with_cookie().run(&format!("> S 0:30 fo {COOKIE}\n< S. 0 ack 31 mss 1000\n! opened\n< P. 1:101 ack 31\n= 1:101"));
}

#[test]
fn an_icmp_error_ends_a_connection_that_is_being_opened() {
    for (kind, told) in [
        (IcmpKind::PortUnreachable, "! refused"),
        (IcmpKind::Unreachable(1), "! unreachable"),
        (IcmpKind::TimeExceeded, "! unreachable"),
    ] {
        let mut script = Script::new(plain(), &OpenOptions::default());
        script.run("> S 0");
        let error = |sequence, protocol| IcmpError {
            kind,
            quoted: Quoted { protocol, source: script.local, destination: script.server, sequence, rest: &[] },
        };
        let (forged, other, right) =
            (error(script.start.wrapping_add(1), ip::TCP), error(script.start, ip::UDP), error(script.start, ip::TCP));
        script.tcp.handle_icmp(&other);
        script.tcp.handle_icmp(&forged);
        assert_eq!(script.tcp.counts().errors_ignored, 1);
        script.tcp.handle_icmp(&right);
        script.run(told).run("> -");
    }
}

#[test]
fn rfc_5927_section_5_errors_about_an_open_connection_are_only_remembered() {
    let mut script = Script::opened();
    script.run("write 30");
    script.tcp.handle_unreachable(script.local, script.server, script.start.wrapping_add(1), Failure::Unreachable);
    assert_eq!(script.tcp.counts().errors_ignored, 1, "nothing is in flight");
    script.run("> P. 1:31 ack 1");
    script.tcp.handle_unreachable(script.local, script.server, script.start.wrapping_add(1), Failure::Unreachable);
    assert_eq!(script.tcp.counts().soft_errors, 1);
    script.run("! -\n< . 1 ack 31\nwrite 10\n> P. 31:41 ack 1");
    script.tcp.handle_unreachable(script.local, script.server, script.start.wrapping_add(31), Failure::Unreachable);
    script.exhaust();
    script.run("! unreachable");
}

#[test]
fn rfc_1191_a_packet_that_is_too_big_is_sent_again_in_smaller_ones_at_once() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    script.run("> S 0\n< S. 0 ack 1 win 60000 mss 1460\n! opened\nwrite 2000\n> . 1:1461 ack 1\n> P. 1461:2001 ack 1");
    let quoted = script.start.wrapping_add(1);
    script.tcp.handle_too_big(script.local, script.server, script.start.wrapping_sub(9), 600);
    script.run("> -");
    script.tcp.handle_too_big(script.local, script.server, quoted, 1_000);
    script.run("> . 1:961 ack 1\n> . 961:1921 ack 1\n> P. 1921:2001 ack 1\n> -\n< . 1 ack 2001");
    assert_eq!((script.tcp.counts().mtu_lowered, script.tcp.counts().errors_ignored), (1, 1));
    let (client, server, now) = (script.local.ip(), script.server, script.now);
    let (at, _) = script.tcp.open(now, client, server, &OpenOptions::default()).unwrap();
    assert_eq!(script.tcp.connections[at.slot].mss, 960, "others to the server begin with it");
}

#[test]
fn rfc_5927_section_7_an_mtu_is_not_believed_below_what_any_link_has() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    script.run("> S 0\n< S. 0 ack 1 win 60000 mss 1460\n! opened\nwrite 1000\n> P. 1:1001 ack 1");
    script.tcp.handle_too_big(script.local, script.server, script.start.wrapping_add(1), 0);
    script.run("> . 1:513 ack 1\n> P. 513:1001 ack 1");
}

#[test]
fn connections_of_both_families_from_the_same_bits_are_told_apart() {
    let mut tcp = Tcp::new(plain());
    let (v4, v6) = (IpAddr::from([0, 0, 0, 0]), IpAddr::from([0_u16; 8]));
    let servers = [SocketAddr::new(v4, 53), SocketAddr::new(v6, 53)];
    let opened = [v4, v6].into_iter().zip(servers).map(|(client, server)| {
        let (at, port) = tcp.open(RunTime(0), client, server, &OpenOptions::default()).unwrap();
        (at, SocketAddr::new(client, port), server)
    });
    let opened: Vec<_> = opened.collect();
    for &(at, local, server) in &opened {
        assert_eq!(tcp.tuple(at), Some((local, server)));
        tcp.handle_unreachable(local, server, tcp.connections[at.slot].sent, Failure::Refused);
    }
    assert_eq!(tcp.poll_event(), None, "nothing was sent");
    while tcp.poll_transmit(RunTime(0)).is_some() {}
    for &(at, local, server) in &opened {
        let start = tcp.connections[at.slot].sent.wrapping_sub(1);
        tcp.handle_unreachable(local, server, start, Failure::Refused);
        assert_eq!(tcp.poll_event(), Some(Event::Failed(at, Failure::Refused)));
    }
    assert!(tcp.is_empty());
}
