//! Tests of DNS over QUIC against a server on a simulated network.

use ldplayer_core::{Outcome, Reason, RunTime, Status, Transport};

use super::simulation::{
    Accept, DELAY, Faults, MS, Network, Reply, TIMEOUT, answer, doq_query, framed, policy, server, settings, usual,
};
use super::{ALPN_DOQ, doq};
use crate::connections::{TlsSettings, TlsTrust};
use crate::route::{Route, SocketKey};
use crate::table::{Machine, Policy};

type MakeOctets = fn(&[u8]) -> Vec<u8>;
type MakeReply = fn(&[u8]) -> Reply;

/// How many ways through the network a query took.
fn ways(rows: &[Outcome]) -> Vec<i64> {
    rows.iter().map(|row| (row.answered.unwrap() - row.submitted.unwrap()) / DELAY).collect()
}

fn all_answered(rows: &[Outcome]) -> bool {
    rows.iter().all(|row| row.status == Status::Answered)
}

#[test]
fn a_fresh_connection_takes_two_round_trips_and_a_reused_one_takes_one() {
    let mut network = Network::honest(policy());
    let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 200)]);
    assert!(rows.iter().all(|row| row.status == Status::Answered && row.transport == Transport::Doq), "{rows:?}");
    assert_eq!(ways(&rows), [4, 2]);
    assert_eq!((rows[0].connect_ns, rows[0].handshake_ns), (None, Some(2 * DELAY)));
    assert_eq!((rows[0].reused, rows[1].reused, rows[1].handshake_ns, rows[1].resumed), (false, true, None, false));
    assert_eq!((rows[0].client_port, rows[1].client_port, rows[1].connection), (4_000, 4_000, Some(0)));
    let counts = network.machine.connection_counts();
    assert_eq!((counts.opened, counts.resumed, counts.failed, counts.open), (1, 0, 0, 1));
    assert!(network.seen.iter().all(|(_, message)| message[..2] == [0, 0]), "IDs must be 0 (RFC 9250 §4.2.1)");
}

#[test]
fn clients_have_connections_of_their_own_and_many_queries_at_once() {
    let mut network = Network::honest(policy());
    let rows = network.replay((0..150).map(|number| doq_query(number, (number % 3) as u8, number as i64 / 10)));
    assert!(all_answered(&rows));
    assert_eq!(network.machine.connection_counts().opened, 3);
    let connection = |client: usize| rows.iter().skip(client).step_by(3).map(|row| row.connection).collect::<Vec<_>>();
    assert!((0..3).all(|client| connection(client).windows(2).all(|pair| pair[0] == pair[1])));
}

#[test]
fn a_client_resumes_its_own_sessions_and_nobody_else_s() {
    let policy = Policy { queries_per_connection: 1, ..policy() };
    for (resumption, expected) in [(true, [false, true, false, true]), (false, [false; 4])] {
        let settings = TlsSettings { resumption, ..settings() };
        // The answer comes when the tickets have come, and ends the connection.
        let mut network = Network::new(policy, &settings, usual(), |_, message| answer(message));
        let queries = [(1, 0), (1, 200), (2, 400), (2, 600)];
        let queries = queries.into_iter().zip(0..).map(|((client, due), number)| doq_query(number, client, due));
        let rows = network.replay(queries);
        assert!(all_answered(&rows));
        assert_eq!(rows.iter().map(|row| row.resumed).collect::<Vec<_>>(), expected);
        let counts = network.machine.connection_counts();
        assert_eq!(counts.resumed, expected.iter().filter(|&&resumed| resumed).count() as u64);
        assert_eq!((counts.opened, counts.closed_spent, counts.open), (4, 4, 0));
    }
}

/// A policy whose clients send early data and leave a connection after its first idle moment.
fn early() -> Policy {
    Policy { early_data: true, idle_timeout: 50 * MS, ..policy() }
}

fn early_server() -> quinn_proto::ServerConfig {
    server("server.pem", ALPN_DOQ, 100, true)
}

#[test]
fn early_data_takes_one_round_trip() {
    let mut network = Network::new(early(), &settings(), early_server(), |_, message| answer(message));
    let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 500), doq_query(2, 1, 500), doq_query(3, 1, 800)]);
    assert!(all_answered(&rows), "{rows:?}");
    assert_eq!(ways(&rows), [4, 2, 2, 2]);
    assert_eq!(rows.iter().map(|row| row.early_data).collect::<Vec<_>>(), [false, true, true, true]);
    assert!(rows[1..].iter().all(|row| row.resumed && !row.reused && !row.resent));
    assert_eq!((rows[1].handshake_ns, rows[2].handshake_ns), (Some(2 * DELAY), None));
    assert_eq!(network.machine.connection_counts().resumed, 2);
}

#[test]
fn rejected_early_data_is_sent_again_on_the_same_connection_and_is_not_early() {
    let mut network = Network::new(early(), &settings(), early_server(), |_, message| answer(message));
    assert!(all_answered(&network.replay([doq_query(0, 1, 0)])));
    network.pass(300 * MS);
    // A server with other keys knows no ticket of the client.
    network.reconfigure(early_server());
    let rows = network.replay([doq_query(1, 1, 500), doq_query(2, 1, 500)]);
    assert!(all_answered(&rows), "{rows:?}");
    assert!(rows.iter().all(|row| !row.early_data && !row.resumed && !row.resent && row.connection == Some(1)));
    assert_eq!(ways(&rows), [4, 4]);
    assert_eq!(network.seen.len(), 3, "each query is seen once");
}

#[test]
fn what_must_not_be_replayed_waits_for_the_handshake() {
    let mut network = Network::new(early(), &settings(), early_server(), |_, message| answer(message));
    let mut update = doq_query(1, 1, 500);
    let mut wire = update.wire.to_vec();
    wire[2] |= 5 << 3;
    update.wire = wire.into();
    let rows = network.replay([doq_query(0, 1, 0), update]);
    assert!(all_answered(&rows), "{rows:?}");
    assert_eq!((rows[1].early_data, rows[1].resumed, ways(&rows)[1]), (false, true, 4));
}

#[test]
fn early_data_is_sent_only_where_it_is_asked_for() {
    let policy = Policy { early_data: false, ..early() };
    let mut network = Network::new(policy, &settings(), early_server(), |_, message| answer(message));
    let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 500)]);
    assert_eq!(
        rows.iter().map(|row| (row.resumed, row.early_data)).collect::<Vec<_>>(),
        [(false, false), (true, false)]
    );
    assert_eq!(ways(&rows), [4, 4]);
}

#[test]
fn a_retry_costs_a_round_trip_more() {
    let mut network = Network::honest(policy());
    network.accept = Accept::Retry;
    let rows = network.replay([doq_query(0, 1, 0)]);
    assert!(all_answered(&rows));
    assert_eq!(ways(&rows), [6]);
}

#[test]
fn bad_certificates_fail_the_handshake_with_their_reason() {
    let other = TlsSettings { name: Some(TlsSettings::parse_name("other.test").unwrap()), ..settings() };
    let named = TlsSettings { name: Some(TlsSettings::parse_name("dns.test").unwrap()), ..settings() };
    let anybody = TlsSettings { trust: TlsTrust::Anybody, ..settings() };
    for (certificate, alpn, settings, reason) in [
        ("expired.pem", ALPN_DOQ, settings(), Some(Reason::CertificateTime)),
        ("stranger.pem", ALPN_DOQ, settings(), Some(Reason::CertificateUntrusted)),
        ("server.pem", ALPN_DOQ, other, Some(Reason::CertificateName)),
        ("server.pem", b"h3", settings(), Some(Reason::Alpn)),
        ("server.pem", ALPN_DOQ, named, None),
        ("expired.pem", ALPN_DOQ, anybody.clone(), None),
        ("stranger.pem", ALPN_DOQ, anybody, None),
    ] {
        let config = server(certificate, alpn, 100, false);
        let mut network = Network::new(policy(), &settings, config, |_, message| answer(message));
        let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 1)]);
        let status = if reason.is_some() { Status::TlsFailed } else { Status::Answered };
        assert!(rows.iter().all(|row| (row.status, row.reason) == (status, reason)), "{certificate}: {rows:?}");
        let counts = network.machine.connection_counts();
        assert_eq!((counts.failed, counts.opened), (u64::from(reason.is_some()), u64::from(reason.is_none())));
    }
}

#[test]
fn servers_that_do_not_listen_refuse_or_keep_silent_fail_the_connection() {
    for (accept, reason, after) in [
        (Accept::Never, Reason::ConnectTimeout, 4_000 * MS),
        (Accept::Refuse, Reason::ConnectionRefused, 2 * DELAY),
        (Accept::Closed, Reason::ConnectionRefused, 0),
    ] {
        let mut network = Network::honest(policy());
        network.accept = accept;
        let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 0)]);
        assert!(rows.iter().all(|row| (row.status, row.reason) == (Status::ConnectFailed, Some(reason))), "{rows:?}");
        assert_eq!(network.now, after, "{reason}");
        // A refusal comes before the second query does.
        let failed = if accept == Accept::Closed { 2 } else { 1 };
        let counts = network.machine.connection_counts();
        assert_eq!((counts.failed, counts.opened, counts.open), (failed, 0, 0));
    }
}

#[test]
fn a_version_that_nobody_else_speaks_fails_the_connection() {
    let mut network = Network::honest(policy());
    network.accept = Accept::Never;
    network.pass(0);
    // A version negotiation packet needs the IDs of the first packet, so it is made of one (RFC 9000 §17.2.1).
    let query = doq_query(0, 1, 0);
    let route = super::Route {
        socket: super::SocketKey::Own(0),
        source: None,
        server: super::simulation::SERVER.parse().unwrap(),
    };
    let now = ldplayer_core::RunTime(0);
    network.machine.handle_query(now, query, route);
    let first = network.machine.poll_transmit(now).unwrap();
    let target = usize::from(first.octets[5]);
    let source = 7 + target..7 + target + usize::from(first.octets[6 + target]);
    let (target_id, source_id) =
        (first.octets[5..6 + target].to_vec(), first.octets[source.start - 1..source.end].to_vec());
    network.machine.handle_sent(first, now, 4_000);
    network
        .inject([&[0x80, 0, 0, 0, 0], source_id.as_slice(), target_id.as_slice(), &[0x0a, 0x1a, 0x2a, 0x3a]].concat());
    let rows = network.replay([]);
    assert_eq!((rows[0].status, rows[0].reason), (Status::ConnectFailed, Some(Reason::Handshake)));
}

#[test]
fn a_server_that_forgot_its_connections_resets_them_and_queries_are_sent_again() {
    let mut network = Network::honest(policy());
    assert!(all_answered(&network.replay([doq_query(0, 1, 0)])));
    network.pass(100 * MS);
    network.restart(usual());
    let rows = network.replay([doq_query(1, 1, 200), doq_query(2, 1, 200)]);
    assert!(
        rows.iter().all(|row| row.status == Status::Answered && row.resent && row.connection == Some(1)),
        "{rows:?}"
    );
    let counts = network.machine.connection_counts();
    assert_eq!((counts.reset, counts.resent, counts.opened, counts.open), (1, 2, 2, 1));
}

#[test]
fn a_server_that_closes_is_asked_again_once() {
    for (code, end) in [(doq::NO_ERROR, Reason::ClosedByServer), (4, Reason::ResetByServer)] {
        let once = move |connection: u64, message: &[u8]| match connection {
            0 => vec![Reply::Close(code)],
            _ => answer(message),
        };
        let mut network = Network::new(policy(), &settings(), usual(), once);
        let rows = network.replay([doq_query(0, 1, 0)]);
        assert!(rows[0].status == Status::Answered && rows[0].resent, "{rows:?}");
        let counts = network.machine.connection_counts();
        assert_eq!((counts.closed_by_server + counts.reset, counts.opened), (1, 2));
        let always = move |_: u64, _: &[u8]| vec![Reply::Close(code)];
        let mut network = Network::new(policy(), &settings(), usual(), always);
        let rows = network.replay([doq_query(0, 1, 0)]);
        assert_eq!((rows[0].status, rows[0].reason), (Status::Reset, Some(end)));
        let counts = network.machine.connection_counts();
        let expected = if code == doq::NO_ERROR { (2, 0) } else { (0, 2) };
        assert_eq!((counts.closed_by_server, counts.reset), expected);
    }
}

#[test]
fn idle_connections_are_closed_by_the_client_or_by_the_server_s_own_time() {
    let mut network = Network::honest(Policy { idle_timeout: 300 * MS, ..policy() });
    assert!(all_answered(&network.replay([doq_query(0, 1, 0)])));
    network.pass(1_000 * MS);
    assert_eq!(network.machine.connection_counts().closed_idle, 1);
    // The server is told, and has nothing to end by itself.
    let sink = network.datagrams;
    network.pass(60_000 * MS);
    assert_eq!(network.datagrams, sink);

    let mut network = Network::honest(Policy { idle_timeout: 100_000 * MS, ..policy() });
    assert!(all_answered(&network.replay([doq_query(0, 1, 0)])));
    network.pass(40_000 * MS);
    let counts = network.machine.connection_counts();
    assert_eq!((counts.closed_by_server, counts.closed_idle, counts.open), (1, 0, 0));

    let mut network = Network::honest(Policy { idle_timeout: 0, ..policy() });
    assert!(all_answered(&network.replay([doq_query(0, 1, 0)])));
    assert_eq!(network.machine.connection_counts().closed_idle, 1);
}

#[test]
fn queries_beyond_the_server_s_limit_of_streams_take_another_connection() {
    let mut held = Vec::new();
    let config = server("server.pem", ALPN_DOQ, 2, false);
    let mut network = Network::new(policy(), &settings(), config, move |_, message| {
        held.push(message.to_vec());
        // The first two are never answered, so that their streams stay.
        if held.len() <= 2 { Vec::new() } else { answer(message) }
    });
    let rows = network.replay((0..4).map(|number| doq_query(number, 1, number as i64 * 100)));
    assert_eq!(rows.iter().map(|row| row.connection).collect::<Vec<_>>(), [Some(0), Some(0), Some(1), Some(1)]);
    assert!(all_answered(&rows[2..]));
    assert!(rows[..2].iter().all(|row| row.status == Status::Timeout));
    // Of those that come at once, all but two go on.
    let mut network = Network::new(policy(), &settings(), server("server.pem", ALPN_DOQ, 2, false), |_, m| answer(m));
    let rows = network.replay((0..5).map(|number| doq_query(number, 1, 0)));
    assert!(all_answered(&rows), "{rows:?}");
    assert_eq!(network.machine.connection_counts().opened, 3);
}

#[test]
fn a_server_that_admits_no_stream_leaves_queries_to_time_out() {
    let mut network = Network::new(policy(), &settings(), server("server.pem", ALPN_DOQ, 0, false), |_, m| answer(m));
    let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 100)]);
    assert!(rows.iter().all(|row| row.status == Status::Timeout), "{rows:?}");
    assert!(network.machine.connection_counts().opened <= 2);
}

#[test]
fn policies_of_pipeline_and_queries_per_connection_are_kept() {
    let mut network = Network::honest(Policy { pipeline: 2, ..policy() });
    let rows = network.replay((0..6).map(|number| doq_query(number, 1, 0)));
    assert!(all_answered(&rows));
    assert_eq!(network.machine.connection_counts().opened, 3);
    let mut network = Network::honest(Policy { queries_per_connection: 2, ..policy() });
    let rows = network.replay((0..6).map(|number| doq_query(number, 1, number as i64 * 100)));
    assert!(all_answered(&rows));
    let counts = network.machine.connection_counts();
    assert_eq!((counts.opened, counts.closed_spent), (3, 3));
}

#[test]
fn an_answer_that_breaks_the_protocol_ends_the_connection() {
    let cut = |message: &[u8]| framed(message)[..20].to_vec();
    let twice = |message: &[u8]| [framed(message), framed(message)].concat();
    let with_id = |message: &[u8]| {
        let mut octets = framed(message);
        octets[3] = 1;
        octets
    };
    let nothing = |_: &[u8]| Vec::new();
    // The option edns-tcp-keepalive (RFC 9250 §5.5.2).
    let with_keepalive = |message: &[u8]| {
        let mut response = crate::test::response(message, 0);
        response[11] = 1;
        response.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\0\0\0\x06\0\x0b\0\x02\0\x64");
        [&(response.len() as u16).to_be_bytes(), response.as_slice()].concat()
    };
    let broken: [MakeOctets; 5] = [cut, twice, with_id, nothing, with_keepalive];
    for make in broken {
        let mut network = Network::new(policy(), &settings(), usual(), move |connection, message| {
            let is_first = connection == 0 && message[19] == b'0';
            if is_first { vec![Reply::Whole(make(message))] } else { answer(message) }
        });
        let rows = network.replay([doq_query(0, 1, 0)]);
        assert_eq!((rows[0].status, rows[0].reason), (Status::Reset, Some(Reason::Protocol)), "{rows:?}");
        assert_eq!(network.machine.connection_counts().reset, 1);
        let rows = network.replay([doq_query(1, 1, 500)]);
        assert!(all_answered(&rows), "{rows:?}");
    }
}

#[test]
fn a_wrong_answer_or_a_reset_stream_fails_its_query_only() {
    let other_question = |message: &[u8]| {
        let mut octets = framed(message);
        octets[2 + 14] ^= 1;
        Reply::Whole(octets)
    };
    let query_back = |message: &[u8]| Reply::Whole([&(message.len() as u16).to_be_bytes(), message].concat());
    let bad: [(MakeReply, Reason); 3] = [
        (other_question, Reason::QuestionMismatch),
        (query_back, Reason::Garbage),
        (|_| Reply::ResetStream(1), Reason::StreamReset),
    ];
    for (make, reason) in bad {
        let mut network = Network::new(policy(), &settings(), usual(), move |_, message| {
            if message[14..20] == *b"000000" { vec![make(message)] } else { answer(message) }
        });
        let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 0), doq_query(2, 1, 100)]);
        assert_eq!((rows[0].status, rows[0].reason), (Status::Reset, Some(reason)), "{rows:?}");
        assert!(all_answered(&rows[1..]));
        let counts = network.machine.connection_counts();
        assert_eq!((counts.opened, counts.open), (1, 1));
    }
}

#[test]
fn an_answer_in_parts_is_one_and_half_an_answer_is_none() {
    let mut network = Network::new(policy(), &settings(), usual(), |_, message| match &message[14..20] {
        b"000000" => {
            let octets = framed(message);
            vec![
                Reply::Part(octets[..1].to_vec()),
                Reply::Part(octets[1..9].to_vec()),
                Reply::Whole(octets[9..].to_vec()),
            ]
        }
        _ => vec![Reply::Part(framed(message)[..9].to_vec())],
    });
    let rows = network.replay([doq_query(0, 1, 0), doq_query(1, 1, 0)]);
    assert_eq!((rows[0].status, rows[1].status), (Status::Answered, Status::Timeout));
    assert_eq!(rows[1].submitted.map(|at| at.0 + TIMEOUT), Some(network.now));
    // The server is told that the other half is not wanted, and the connection goes on.
    network.pass(TIMEOUT + 100 * MS);
    assert!(all_answered(&network.replay([doq_query(0, 1, network.now / MS)])));
    assert_eq!(network.machine.connection_counts().opened, 1);
}

#[test]
fn long_messages_pass_both_ways() {
    let mut network = Network::new(policy(), &settings(), usual(), |_, message| {
        let mut response = crate::test::response(message, 0);
        response.resize(60_000, 0);
        vec![Reply::Whole([&(response.len() as u16).to_be_bytes(), response.as_slice()].concat())]
    });
    let mut query = doq_query(0, 1, 0);
    let mut wire = query.wire.to_vec();
    wire.resize(40_000, 0);
    query.wire = wire.into();
    let rows = network.replay([query]);
    assert_eq!((rows[0].status, rows[0].response_bytes), (Status::Answered, 60_000));
    assert!(rows[0].first_byte < rows[0].answered, "the window of a new connection lets a part of it pass");
}

#[test]
fn a_bad_network_loses_no_query() {
    let faults = Faults { lost: 20, jitter: 30 * MS };
    for idle_timeout in [60, 20_000] {
        let (idle_timeout, long) = (idle_timeout * MS, 60_000 * MS);
        let policy =
            Policy { idle_timeout, connect_timeout: long, handshake_timeout: long, early_data: true, ..policy() };
        let mut network = Network::new(policy, &settings(), early_server(), |_, message| answer(message));
        network.faults = faults;
        let rows = network.replay((0..300).map(|number| doq_query(number, (number % 7) as u8, number as i64 * 15)));
        let answered = rows.iter().filter(|row| row.status == Status::Answered).count();
        assert!(answered > 270, "{answered} of 300");
        let of_queries = rows.iter().filter(|row| row.status.is_query()).count();
        assert_eq!(of_queries, 300);
        network.pass(60_000 * MS);
        assert_eq!(network.machine.outstanding(), 0);
    }
}

#[test]
fn garbage_is_passed_over() {
    let mut network = Network::honest(policy());
    assert!(all_answered(&network.replay([doq_query(0, 1, 0)])));
    for length in 0..1_300_usize {
        network.inject((0..length).map(|at| (at * 31 + length * 7) as u8).collect());
    }
    let rows = network.replay([doq_query(1, 1, 100)]);
    assert!(all_answered(&rows) && rows[0].reused);
}

#[test]
fn an_interrupt_accounts_for_everything_and_the_end_tells_the_servers() {
    let mut network = Network::new(policy(), &settings(), usual(), |_, _| Vec::new());
    network.replay([]);
    let now = ldplayer_core::RunTime(0);
    let route = super::Route {
        socket: super::SocketKey::Own(0),
        source: None,
        server: super::simulation::SERVER.parse().unwrap(),
    };
    network.machine.handle_query(now, doq_query(0, 1, 0), route);
    network.inject(Vec::new());
    network.pass(200 * MS);
    network.machine.handle_interrupt(ldplayer_core::RunTime(network.now));
    assert_eq!(network.machine.outcomes()[0].reason, Some(Reason::Interrupted));
    assert_eq!(network.machine.outstanding(), 0);
    network.machine.handle_end(ldplayer_core::RunTime(network.now));
    assert!(network.machine.poll_transmit(ldplayer_core::RunTime(network.now)).is_some());
    assert_eq!(network.machine.connection_counts().open, 1, "it is open at the end of the run");
}

#[test]
fn a_ticket_is_shown_to_no_server_but_the_one_that_gave_it() {
    let mut network = Network::honest(Policy { idle_timeout: 50 * MS, ..policy() });
    let mut resumed = Vec::new();
    for (number, port) in [853, 854, 853, 854].into_iter().enumerate() {
        network.address.set_port(port);
        let rows = network.replay([doq_query(number as u64, 1, network.now / MS + 100)]);
        assert!(all_answered(&rows) && rows[0].server.port() == port, "{rows:?}");
        resumed.push(rows[0].resumed);
        network.pass(5_000 * MS);
    }
    assert_eq!(resumed, [false, false, true, true]);
    assert_eq!(network.machine.connection_counts().opened, 4);
}

#[test]
fn a_query_moved_to_another_connection_claims_no_handshake_of_the_first() {
    // A server that admits no stream has done the handshake, and the query waits.
    let mut network = Network::new(policy(), &settings(), server("server.pem", ALPN_DOQ, 0, false), |_, m| answer(m));
    let route = Route { socket: SocketKey::Own(0), source: None, server: network.address };
    network.machine.handle_query(RunTime(0), doq_query(0, 1, 0), route);
    network.inject(Vec::new());
    network.pass(3 * DELAY);
    let row = |network: &Network, slot| network.machine.table.request(slot).unwrap().row.clone();
    let slot = network.machine.table.connection(0).unwrap().first_queued().unwrap();
    assert_eq!(row(&network, slot).handshake_ns, Some(2 * DELAY));
    // The other connection never comes up.
    network.accept = Accept::Never;
    network.machine.move_queue(0, RunTime(network.now));
    assert_eq!(network.machine.table.connection(1).unwrap().first_queued(), Some(slot));
    assert_eq!(row(&network, slot).handshake_ns, None);
    let rows = network.replay([]);
    assert_eq!((rows.len(), rows[0].handshake_ns, rows[0].connect_ns), (1, None, None));
}
