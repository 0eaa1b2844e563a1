//! Tests of opening, data, acknowledgements and retransmission, by scripts of segments.

use ldplayer_core::Segments;

use super::script::{Script, plain};
use super::{Config, OpenOptions};

#[test]
fn rfc_9293_section_3_5_a_query_and_its_response_leave_an_idle_connection_without_an_active_part() {
    let mut script = Script::opened();
    assert_eq!(script.tcp.active(), 0);
    script.run(
        "write 30
         > P. 1:31 ack 1
         > -
         + 10
         < P. 1:101 ack 31
         = 1:101
         > -
         + 39
         > -
         + 4
         > . 31 ack 101
         > -",
    );
    assert_eq!((script.tcp.active(), script.tcp.poll_timeout()), (0, None));
}

#[test]
fn the_acknowledgement_of_the_handshake_rides_on_the_first_query() {
    Script::new(plain(), &OpenOptions::default()).run(
        "> S 0
         > -
         < S. 0 ack 1 win 60000 mss 1000
         ! opened
         write 30
         > P. 1:31 ack 1
         > -",
    );
}

#[test]
fn what_is_written_before_the_connection_is_open_follows_when_it_is() {
    let data = super::script::stream(1, 31);
    Script::new(plain(), &OpenOptions { data: &data, ..OpenOptions::default() }).run(
        "write 10
         > S 0
         > -
         < S. 0 ack 1 mss 1000
         ! opened
         > P. 1:41 ack 1
         > -",
    );
}

#[test]
fn rfc_9293_section_3_8_1_what_is_lost_is_sent_again_with_a_timeout_that_doubles() {
    let mut script = Script::opened();
    script.run(
        "write 30
         > P. 1:31 ack 1
         + 195
         > -
         + 7
         > P. 1:31 ack 1
         > -
         + 395
         > -
         + 10
         > P. 1:31 ack 1
         < . 1 ack 31
         > -
         + 100000
         > -",
    );
    assert_eq!((script.tcp.counts().timeouts, script.tcp.counts().retransmitted), (2, 2));
}

#[test]
fn a_server_that_falls_silent_is_given_up_after_the_configured_retransmissions() {
    let mut script = Script::opened();
    script.run("write 30\n> P. 1:31 ack 1");
    let (ms, sent) = script.exhaust();
    assert_eq!(sent, usize::from(Config::default().retransmits));
    // 0.2 s doubling, from the tenth on 120 s: as Linux, between 13 and 30 minutes (RFC 1122 section 4.2.3.5).
    assert!((800_000..1_100_000).contains(&ms), "{ms}");
    script.run("! timed out\n! -");
    assert!(script.tcp.is_empty());
}

#[test]
fn rfc_6298_section_2_1_syn_is_sent_again_after_a_second_and_six_times_in_all() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    script.run(
        "> S 0
         > -
         + 998
         > -
         + 4
         > S 0
         > -
         + 1995
         > -
         + 8
         > S 0",
    );
    let (ms, sent) = script.exhaust();
    assert_eq!(sent, 4);
    assert!((123_900..124_100).contains(&ms), "{ms}");
    script.run("! timed out\n! -");
}

#[test]
fn rfc_9293_section_3_10_7_3_a_reset_in_answer_to_syn_is_a_refusal_if_it_acknowledges_that() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    script.run("> S 0\n< R. 0 ack 2\n! -\n< R 0\n! -\n< R. 0 ack 1\n! refused\n! -\n> -");
    assert_eq!((script.tcp.counts().resets_ignored, script.tcp.counts().failed, script.tcp.len()), (2, 1, 0));
}

#[test]
fn rfc_5961_section_4_a_challenge_in_answer_to_syn_is_reset_and_syn_sent_again_at_once() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    script.run(
        "> S 0
         < . 500 ack 77
         > R 77
         > S 0
         > -
         < S. 0 ack 1 mss 1000
         ! opened
         > . 1 ack 1",
    );
    assert_eq!(script.tcp.counts().resets_out, 1);
}

#[test]
fn a_server_that_only_challenges_is_given_up_in_time() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    script.run("> S 0");
    for _ in 0..6 {
        script.run("< . 500 ack 77\n> R 77\n> S 0\n> -");
    }
    script.run("< . 500 ack 77\n> R 77\n> -");
    script.exhaust();
    script.run("! timed out");
}

#[test]
fn rfc_1122_section_4_2_3_2_every_second_full_segment_is_acknowledged_at_once() {
    Script::opened().run(
        "< P. 1:1461 ack 1
         = 1:1461
         > -
         < P. 1461:2921 ack 1
         > . 1 ack 2921
         > -
         < P. 2921:3421 ack 1
         > -
         + 41
         > . 1 ack 3421",
    );
}

#[test]
fn a_full_segment_that_more_follows_is_acknowledged_at_once_since_nagles_algorithm_may_hold_that_back() {
    Script::opened().run("< . 1:1461 ack 1\n> . 1 ack 1461\n< P. 1461:1561 ack 1\n> -\n+ 41\n> . 1 ack 1561");
    Script::opened().run("< . 1:1461 ack 1\n< . 1461:2921 ack 1\n< P. 2921:3000 ack 1\n> . 1 ack 3000\n> -");
}

#[test]
fn segments_that_the_device_has_joined_count_as_what_they_were() {
    Script::opened().run("< P. 1:2921 ack 1\n> . 1 ack 2921\n> -");
    Script::opened().run("< P. 1:1900 ack 1\n> -\n+ 41\n> . 1 ack 1900\n> -");
}

#[test]
fn a_length_that_is_written_apart_from_its_message_is_acknowledged_at_once() {
    Script::opened().run("< P. 1:3 ack 1\n= 1:3\n> . 1 ack 3\n< P. 3:103 ack 1\n> -\n+ 42\n> . 1 ack 103");
}

#[test]
fn an_acknowledgement_rides_on_data() {
    Script::opened().run("< P. 1:101 ack 1\nwrite 20\n> P. 1:21 ack 101\n> -\n< . 101 ack 21\n+ 100\n> -");
}

#[test]
fn rfc_5681_section_4_2_what_is_ahead_is_acknowledged_once_each_and_read_when_the_gap_is_filled() {
    let mut script = Script::opened();
    script.run(
        "< . 11:21 ack 1
         = -
         < . 21:31 ack 1
         < . 41:51 ack 1
         > . 1 ack 1
         > . 1 ack 1
         > . 1 ack 1
         > -
         ! -
         < . 1:11 ack 1
         = 1:11
         ! data
         read 11:31
         > . 1 ack 31
         > -
         < . 25:45 ack 1
         = 31:45
         ! data
         read 45:51
         > . 1 ack 51
         > -
         ! -",
    );
    assert_eq!((script.tcp.counts().out_of_order, script.tcp.active()), (3, 0));
}

#[test]
fn data_that_arrives_before_older_data_is_read_comes_behind_it() {
    Script::opened().run(
        "< . 11:21 ack 1
         < . 1:11 ack 1
         = 1:11
         < . 21:31 ack 1
         = -
         ! data
         ! data
         read 11:31
         < . 31:41 ack 1
         = 31:41",
    );
}

#[test]
fn duplicates_and_keepalive_probes_are_acknowledged() {
    let mut script = Script::opened();
    script.run(
        "< P. 1:101 ack 1
         + 50
         > . 1 ack 101
         < P. 1:101 ack 1
         = -
         > . 1 ack 101
         < . 100 ack 1
         = -
         > . 1 ack 101
         < P. 51:151 ack 1
         = 101:151
         ! -",
    );
    assert_eq!((script.tcp.counts().duplicates, script.tcp.counts().octets_in), (2, 150));
}

#[test]
fn rfc_2018_section_4_what_is_ahead_is_told_in_blocks_if_both_sides_permit_it() {
    Script::new(Config { sack: true, ..plain() }, &OpenOptions::default()).run(
        "> S 0
         < S. 0 ack 1 mss 1000 sackok
         > . 1 ack 1
         < . 11:21 ack 1
         > . 1 ack 1 sack 11:21
         < . 31:41 ack 1
         > . 1 ack 1 sack 31:41 sack 11:21
         < . 21:31 ack 1
         > . 1 ack 1 sack 11:41
         < . 1:11 ack 1
         > . 1 ack 41 sack 41:41"
            .replace(" sack 41:41", "")
            .as_str(),
    );
    Script::new(Config { sack: true, ..plain() }, &OpenOptions::default())
        .run("> S 0\n< S. 0 ack 1 mss 1000\n> . 1 ack 1\n< . 11:21 ack 1\n> . 1 ack 1");
}

#[test]
fn rfc_5681_section_3_2_three_duplicates_send_the_first_segment_again() {
    let mut script = Script::opened();
    script.run(
        "write 5000
         > . 1:1001 ack 1
         > . 1001:2001 ack 1
         > . 2001:3001 ack 1
         > . 3001:4001 ack 1
         > P. 4001:5001 ack 1
         > -
         < . 1 ack 1
         < . 1 ack 1
         > -
         < . 1 ack 1
         > . 1:1001 ack 1
         > -
         < . 1 ack 1
         > -
         < . 1 ack 5001
         > -
         + 100000
         > -",
    );
    assert_eq!((script.tcp.counts().fast_retransmits, script.tcp.counts().timeouts), (1, 0));
}

#[test]
fn rfc_6582_section_3_2_a_partial_acknowledgement_in_recovery_sends_the_next_loss_again() {
    Script::opened().run(
        "write 5000
         > . 1:1001 ack 1
         > . 1001:2001 ack 1
         > . 2001:3001 ack 1
         > . 3001:4001 ack 1
         > P. 4001:5001 ack 1
         < . 1 ack 1
         < . 1 ack 1
         < . 1 ack 1
         > . 1:1001 ack 1
         < . 1 ack 2001
         > . 2001:3001 ack 1
         > -
         < . 1 ack 5001
         > -",
    );
}

#[test]
fn duplicates_with_another_window_or_data_are_no_sign_of_loss() {
    let mut script = Script::opened();
    script.run("write 2000\n> . 1:1001 ack 1\n> P. 1001:2001 ack 1");
    script.run("< . 1 ack 1 win 50001\n< . 1 ack 1 win 50002\n< . 1 ack 1 win 50003\n< . 1:101 ack 1 win 50003");
    assert_eq!(script.tcp.counts().fast_retransmits, 0);
}

#[test]
fn rfc_6928_ten_segments_are_sent_at_first_and_two_more_for_each_that_is_acknowledged() {
    let mut script = Script::opened();
    script.run("write 60000");
    let count = |script: &mut Script| std::iter::from_fn(|| script.next().map(|_| ())).count();
    assert_eq!(count(&mut script), 10);
    script.run("< . 1 ack 1001");
    assert_eq!(count(&mut script), 2);
    script.run("< . 1 ack 2001");
    assert_eq!(count(&mut script), 2);
}

#[test]
fn after_a_timeout_one_segment_is_sent_and_then_more() {
    let mut script = Script::opened();
    script.run("write 5000\n> . 1:1001 ack 1\n> . 1001:2001 ack 1\n> . 2001:3001 ack 1\n> . 3001:4001 ack 1");
    script.run("> P. 4001:5001 ack 1\n+ 210\n> . 1:1001 ack 1\n> -\n< . 1 ack 1001\n> . 1001:2001 ack 1");
    script.run("> . 2001:3001 ack 1\n> -\n< . 1 ack 5001\n> -");
}

#[test]
fn rfc_9293_section_3_7_4_nagles_algorithm_holds_small_segments_back_where_it_is_on() {
    let mut script = Script::new(plain(), &OpenOptions { nagle: true, ..OpenOptions::default() });
    script.run("> S 0\n< S. 0 ack 1 mss 1000\n! opened\nwrite 10\n> P. 1:11 ack 1\nwrite 10\nwrite 10\n> -");
    script.run(
        "< . 1 ack 11\n> P. 11:31 ack 1\nwrite 1200\n> . 31:1031 ack 1\n> -\n< . 1 ack 1031\n> P. 1031:1231 ack 1",
    );
    Script::opened().run("write 10\n> P. 1:11 ack 1\nwrite 10\n> P. 11:21 ack 1");
}

#[test]
fn the_send_buffer_is_bounded_and_room_is_told() {
    let config = Config { send_buffer: 1_000, ..plain() };
    Script::new(config, &OpenOptions::default()).run(
        "write 1500
         wrote 1000
         write 10
         wrote 0
         > S 0
         < S. 0 ack 1 mss 400
         ! opened
         > . 1:401 ack 1
         > . 401:801 ack 1
         > P. 801:1001 ack 1
         < . 1 ack 401
         ! -
         < . 1 ack 801
         ! writable
         write 800
         wrote 800
         ! -",
    );
}

#[test]
fn rfc_9293_section_3_8_6_1_a_closed_window_is_probed_until_it_opens() {
    let mut script = Script::opened();
    script.run(
        "< . 1 ack 1 win 0
         write 30
         > -
         + 205
         > . 1:2 ack 1
         > -
         < . 1 ack 1 win 0
         + 395
         > -
         + 12
         > . 1:2 ack 1
         < . 1 ack 2 win 0
         > -
         + 1000
         > . 2:3 ack 1
         < . 1 ack 2 win 5000
         > P. 2:31 ack 1
         > -
         < . 1 ack 31 win 5000
         + 100000
         > -",
    );
    assert_eq!((script.tcp.counts().probes, script.tcp.active()), (3, 0));
}

#[test]
fn a_window_that_stays_closed_ends_the_connection_in_time_with_its_reason() {
    let mut script = Script::opened();
    script.run("< . 1 ack 1 win 0\nwrite 30\n> -");
    let since = script.now;
    let mut probes = 0;
    let mut last = String::new();
    while !script.tcp.is_empty() && probes < 1_000 {
        script.now = script.tcp.poll_timeout().unwrap();
        script.tcp.handle_timeout(script.now);
        while let Some(sent) = script.next() {
            last = format!("{:?}", sent.segment.flags);
            probes += 1;
        }
        // The server is alive: it acknowledges each probe, and does not open its window.
        script.run("< . 1 ack 1 win 0");
    }
    let s = (script.now - since) / 1_000_000_000;
    assert!((300..430).contains(&s), "{s}");
    assert_eq!(last, format!("{:?}", super::output::RESET_ACKNOWLEDGE));
    script.run("! zero window\n! -");
}

#[test]
fn a_window_that_closes_over_data_in_flight_is_probed_with_that() {
    Script::opened().run(
        "write 2000
         > . 1:1001 ack 1
         > P. 1001:2001 ack 1
         < . 1 ack 1001 win 0
         + 205
         > . 1001:1002 ack 1
         > -
         < . 1 ack 1001 win 3000
         > P. 1001:2001 ack 1
         < . 1 ack 2001
         > -
         + 100000
         > -",
    );
}

#[test]
fn rfc_9293_section_3_8_6_2_1_a_small_window_is_filled_when_nothing_is_in_flight() {
    Script::opened().run(
        "< . 1 ack 1 win 100
         write 250
         > . 1:101 ack 1
         > -
         < . 1 ack 101 win 100
         > . 101:201 ack 1
         < . 1 ack 201 win 100
         > P. 201:251 ack 1",
    );
}

#[test]
fn old_segments_do_not_bring_back_old_windows() {
    Script::opened()
        .run("< P. 1:101 ack 1 win 10\nwrite 30\n> . 1:11 ack 101\n< . 1 ack 1 win 5000\n> . 11 ack 101\n> -");
}

#[test]
fn rfc_7323_section_2_windows_are_scaled_if_both_sides_say_so() {
    let config = Config { window: 1 << 20, ..plain() };
    for (scale, ours) in [(" scale 7", 32_768), ("", 65_535)] {
        let mut script = Script::new(config, &OpenOptions::default());
        let syn = script.next().unwrap().segment;
        assert_eq!((syn.window, syn.options.window_scale), (65_535, Some(5)));
        script.run(&format!("< S. 0 ack 1 win 10 mss 100{scale}\nwrite 2000"));
        let sent = script.next().unwrap().segment;
        assert_eq!((sent.window, sent.payload.len()), (ours, if scale.is_empty() { 10 } else { 100 }));
        // The window of SYN-ACK is not scaled (RFC 7323 section 2.2).
        script.run("< . 1 ack 11 win 10");
        let room: usize = std::iter::from_fn(|| script.next().map(|sent| sent.segment.payload.len())).sum();
        assert!(if scale.is_empty() { room == 10 } else { room > 500 }, "{room}");
    }
}

#[test]
fn the_mss_is_the_smaller_of_both_or_the_default() {
    for (option, expected) in [("mss 9000", 1_460), ("mss 1200", 1_200), ("", 536), ("mss 1", 88)] {
        let mut script = Script::new(plain(), &OpenOptions::default());
        assert_eq!(script.next().unwrap().segment.options.mss, Some(1_460));
        script.run(&format!("< S. 0 ack 1 win 60000 {option}\nwrite 5000"));
        assert_eq!(script.next().unwrap().segment.payload.len(), expected, "{option}");
    }
}

#[test]
fn segments_are_counted_since_the_connection_was_idle() {
    let mut script = Script::new(plain(), &OpenOptions::default());
    script.run("> S 0\n> -\n+ 1010\n> S 0\n< S. 0 ack 1 mss 1000\n! opened\nwrite 10\n> P. 1:11 ack 1\n> -\n+ 1010\n> P. 1:11 ack 1");
    script.run("< P. 1:101 ack 11\n< P. 1:101 ack 11\n< P. 101:201 ack 11");
    assert_eq!(script.tcp.segments(script.at), Segments { arrived: 3, resent: 2 });
    script.run("> . 11 ack 201\n> -");
    assert_eq!(script.tcp.segments(script.at), Segments::default());
    script.run("write 10\n> P. 11:21 ack 201\n< P. 201:301 ack 21");
    assert_eq!(script.tcp.segments(script.at), Segments { arrived: 1, resent: 0 });
}

#[test]
fn acknowledgements_wait_as_long_as_is_configured() {
    for (ms, steps) in [(0, "> . 1 ack 101\n> -"), (200, "> -\n+ 199\n> -\n+ 3\n> . 1 ack 101\n> -")] {
        let config = Config { delayed_ack_ns: ms * 1_000_000, ..plain() };
        let mut script = Script::new(config, &OpenOptions::default());
        script.run("> S 0\n< S. 0 ack 1 mss 1000\n! opened\n> . 1 ack 1\n< P. 1:101 ack 1\n= 1:101").run(steps);
    }
}

#[test]
fn rfc_6298_section_3_what_was_sent_twice_measures_nothing() {
    let mut script = Script::opened();
    // Taken for a measurement, this acknowledgement would raise the timeout to 1.5 s.
    script.run(
        "write 30\n> P. 1:31 ack 1\n+ 205\n> P. 1:31 ack 1\n+ 300\n< . 1 ack 31\nwrite 10\n> P. 31:41 ack 1\n+ 205",
    );
    script.run("> P. 31:41 ack 1");
    // This one is a measurement.
    script.run("< . 1 ack 41\nwrite 10\n> P. 41:51 ack 1\n+ 195\n< . 1 ack 51\nwrite 10\n> P. 51:61 ack 1\n+ 205\n> -");
}

#[test]
fn rfc_2883_duplicates_that_say_that_something_came_twice_are_no_sign_of_loss() {
    let mut script = Script::opened();
    script.run("write 2000\n> . 1:1001 ack 1\n> P. 1001:2001 ack 1\n< . 1 ack 1001");
    for _ in 0..5 {
        script.run("< . 1 ack 1001 sack 1:1001\n> -");
    }
    assert_eq!(script.tcp.counts().fast_retransmits, 0);
}

#[test]
fn rfc_6298_section_3_a_fast_retransmission_measures_nothing_either() {
    let mut script = Script::opened();
    script.run("write 3000\n> . 1:1001 ack 1\n> . 1001:2001 ack 1\n> P. 2001:3001 ack 1");
    script.run("< . 1 ack 1\n< . 1 ack 1\n< . 1 ack 1\n> . 1:1001 ack 1\n+ 195\n< . 1 ack 3001");
    script.run("write 10\n> P. 3001:3011 ack 1\n+ 205\n> P. 3001:3011 ack 1");
}

#[test]
fn segments_that_arrive_meanwhile_do_not_put_off_the_probe_of_a_closed_window() {
    let mut script = Script::opened();
    script.run("< . 1 ack 1 win 0\nwrite 30\n> -\n+ 100\n< . 1 ack 1 win 0\n> -\n+ 105\n> . 1:2 ack 1");
}

#[test]
fn a_window_that_opens_and_closes_before_anything_is_sent_is_probed_again() {
    let mut script = Script::opened();
    script.run(
        "< . 1 ack 1 win 0\nwrite 30\n> -\n+ 205\n> . 1:2 ack 1\n> -\n< . 1 ack 1 win 900\n< . 1 ack 1 win 0\n> -",
    );
    script.run("+ 205\n> . 1:2 ack 1\n< . 1 ack 1 win 900\n> P. 1:31 ack 1");
}
