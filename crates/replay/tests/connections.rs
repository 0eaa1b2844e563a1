//! Queries over TCP through the kernel, against responders that behave and that do not.

mod common;
#[path = "common/link.rs"]
mod link;
#[path = "common/sources.rs"]
mod sources;
#[path = "common/streams.rs"]
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ldplayer_core::Policy;
use ldplayer_core::{Outcome, Query, Transport};
use ldplayer_replay::{ConnectionCounts, Monitor, Settings, Sources, Targets};

use common::{queries, replay, settings, tally};
use link::{any_port, on_each_path};
use sources::all_sources;
use streams::{Responder, TICK, framed, read_message};

on_each_path! {
    each_client_keeps_one_connection_from_its_own_address,
    a_query_a_connection_is_what_the_policy_says,
    every_source_of_clients_works_over_connections,
    a_window_bounds_connections_when_fast,
    a_window_that_is_full_is_looked_away_from_and_all_is_answered,
    a_full_window_over_connections_waits_for_answers_and_not_for_a_time,
    more_clients_than_sockets_take_turns,
    answers_cut_into_single_octets_are_whole,
    a_server_that_closes_after_each_answer_costs_connections_and_no_query,
    a_server_that_resets_every_second_query_is_asked_again_once,
    half_an_answer_and_a_half_close_end_in_a_reset_row,
    a_server_that_never_answers_times_out_on_open_connections,
    a_server_that_is_down_fails_every_connection,
    a_listener_that_never_accepts_ends_in_timeouts_of_either_kind,
    an_idle_client_closes_its_connection,
    truncated_answers_are_asked_for_over_tcp_and_stay_one_query,
    a_client_has_a_connection_for_each_server_that_its_queries_were_recorded_for,
}

/// What the responder does with a query, the n-th of its connection; `false` closes.
type Behaviour = fn(&mut TcpStream, u32, &[u8]) -> bool;

fn start(behaviour: Behaviour) -> Responder {
    Responder::start(move |mut stream, stopped| {
        let mut number = 0;
        while let Some(query) = read_message(&mut stream, stopped) {
            number += 1;
            if !behaviour(&mut stream, number, &query) {
                return;
            }
        }
    })
}

/// Writes the answer; a client that is gone does not matter.
fn answer(stream: &mut TcpStream, query: &[u8]) -> bool {
    stream.write_all(&framed(query)).is_ok()
}

fn honest(stream: &mut TcpStream, _: u32, query: &[u8]) -> bool {
    answer(stream, query)
}

/// Closes with a reset: octets that were not read see to that, or a linger time of 0.
fn reset(stream: &TcpStream) -> bool {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
    false
}

fn over_tcp(mut trace: Vec<Query>) -> Vec<Query> {
    trace.iter_mut().for_each(|query| query.transport = Transport::Tcp);
    trace
}

/// Settings with room for slow threads: what a test counts shall not depend on how busy the machine is.
fn patient(server: SocketAddr) -> Settings {
    Settings { query_timeout: 20_000_000_000, max_sockets: 2_000, ..settings(server) }
}

fn run_against(behaviour: Behaviour, change: impl FnOnce(&mut Settings)) -> (Vec<Outcome>, ConnectionCounts) {
    let responder = start(behaviour);
    let mut settings = patient(responder.address);
    change(&mut settings);
    let monitor = Monitor::new(settings.workers);
    let rows = replay(&settings, over_tcp(queries(500, 200_000)), &monitor);
    (rows, monitor.connections())
}

fn all_answered(rows: &[Outcome]) {
    assert_eq!(tally(rows), [(("answered".into(), None), 500)].into());
}

fn each_client_keeps_one_connection_from_its_own_address() {
    // What the server sees is an address of the pool; what the rows tell is the client of the trace.
    let from_pool = |stream: &mut TcpStream, _: u32, query: &[u8]| {
        let client = stream.peer_addr().unwrap().ip().to_string();
        ["127.9.", "198.18."].iter().any(|pool| client.starts_with(pool)) && answer(stream, query)
    };
    let (rows, counts) = run_against(from_pool, |_| ());
    all_answered(&rows);
    let mut of_client: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in &rows {
        of_client.entry(row.index % 50).or_default().insert((row.client, row.client_port, row.connection));
    }
    assert_eq!(of_client.len(), 50);
    assert!(of_client.values().all(|seen| seen.len() == 1), "a client used two connections");
    assert!(
        rows.iter().all(|row| row.client == IpAddr::from([10, 0, 0, (row.index % 50) as u8]) && row.client_port != 0)
    );
    assert_eq!(rows.iter().filter(|row| row.connect_ns.is_some()).count(), 50);
    assert_eq!((counts.opened, counts.open, counts.failed, counts.resent), (50, 50, 0, 0));
    assert!(rows.iter().all(|row| row.submitted >= Some(row.intended) && row.answered >= row.submitted));
}

fn a_query_a_connection_is_what_the_policy_says() {
    let (rows, counts) = run_against(honest, |settings| {
        settings.policy = Policy { queries_per_connection: 1, nagle: true, fast_open: true, ..Policy::default() };
    });
    all_answered(&rows);
    assert_eq!((counts.opened, counts.closed_spent, counts.open), (500, 500, 0));
    assert!(rows.iter().all(|row| !row.reused && row.connect_ns.is_some()));
}

fn every_source_of_clients_works_over_connections() {
    for sources in all_sources().into_iter().chain([Sources::Original]) {
        let responder = start(honest);
        let settings = Settings { sources, ..patient(responder.address) };
        let mut trace = over_tcp(queries(100, 100_000));
        // In a plain namespace, only addresses of the loopback network are local.
        trace.iter_mut().for_each(|query| query.client = [127, 9, 0, (query.index % 50) as u8 + 1].into());
        let rows = replay(&settings, trace, &Monitor::new(settings.workers));
        assert_eq!(tally(&rows), [(("answered".into(), None), 100)].into());
    }
}

fn a_window_bounds_connections_when_fast() {
    let (rows, counts) = run_against(honest, |settings| {
        settings.fast = true;
        settings.window = 3;
        settings.policy.pipeline = 1;
    });
    all_answered(&rows);
    // A slow answer may make a client's next query open another one.
    assert!((50..100).contains(&counts.opened), "{counts:?}");
}

fn a_window_that_is_full_is_looked_away_from_and_all_is_answered() {
    let (rows, _) = run_against(honest, |settings| {
        settings.fast = true;
        settings.window = 100;
    });
    all_answered(&rows);
}

/// A worker whose window was full slept a millisecond at a time without reading, several times over: 25,000 answers/s where there were 56,000.
fn a_full_window_over_connections_waits_for_answers_and_not_for_a_time() {
    let (rows, _) = run_against(honest, |settings| {
        settings.fast = true;
        settings.window = 1;
    });
    all_answered(&rows);
    let mut submitted: Vec<_> = rows.iter().filter_map(|row| row.submitted).collect();
    submitted.sort_unstable();
    let mut gaps: Vec<_> = submitted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    assert!(gaps[gaps.len() / 2] < 800_000, "half of the queries follow within {} ns", gaps[gaps.len() / 2]);
}

fn more_clients_than_sockets_take_turns() {
    let (rows, counts) = run_against(honest, |settings| {
        settings.max_sockets = 2;
        settings.fast = true;
        settings.window = 1;
    });
    all_answered(&rows);
    assert!(counts.peak_open <= 4 && counts.closed_for_room > 0, "{counts:?}");
}

fn answers_cut_into_single_octets_are_whole() {
    let (rows, _) = run_against(
        |stream, _, query| {
            stream.set_nodelay(true).unwrap();
            framed(query).iter().all(|&octet| stream.write_all(&[octet]).is_ok())
        },
        |_| (),
    );
    all_answered(&rows);
}

fn a_server_that_closes_after_each_answer_costs_connections_and_no_query() {
    let (rows, counts) = run_against(
        |stream, _, query| {
            answer(stream, query);
            false
        },
        |_| (),
    );
    // A query may meet a connection that the server has closed by then: it is sent again, and a second time it is lost.
    let statuses: BTreeSet<_> = tally(&rows).into_keys().collect();
    assert!(statuses.iter().all(|(status, _)| status == "answered" || status == "reset"), "{statuses:?}");
    let resent = rows.iter().filter(|row| row.resent).count() as u64;
    assert_eq!((counts.resent, counts.closed_idle), (resent, 0));
    // The last ones may be seen to end only after the run.
    assert_eq!(counts.closed_by_server + counts.reset + counts.open, counts.opened);
    assert!(counts.opened > 50, "{counts:?}");
}

fn a_server_that_resets_every_second_query_is_asked_again_once() {
    let (rows, counts) = run_against(
        |stream, number, query| if number.is_multiple_of(2) { reset(stream) } else { answer(stream, query) },
        |_| (),
    );
    let tally = tally(&rows);
    let known = |(status, reason): &(String, Option<&str>)| match status.as_str() {
        "answered" => true,
        "reset" => matches!(reason, Some("reset_by_server" | "closed_by_server")),
        _ => false,
    };
    assert!(tally.keys().all(known), "{tally:?}");
    assert!(rows.iter().any(|row| row.resent) && counts.reset > 0, "{counts:?}");
    assert_eq!(counts.resent, rows.iter().filter(|row| row.resent).count() as u64);
}

fn half_an_answer_and_a_half_close_end_in_a_reset_row() {
    let (rows, counts) = run_against(
        |stream, _, query| {
            let _ = stream.write_all(&framed(query)[..9]);
            let _ = stream.shutdown(Shutdown::Write);
            true
        },
        |settings| settings.policy.pipeline = 1,
    );
    let tally = tally(&rows);
    assert!(tally.keys().all(|(status, reason)| status == "reset" && reason.is_some()), "{tally:?}");
    assert!(rows.iter().all(|row| row.resent));
    assert_eq!(counts.resent, 500);
}

fn a_server_that_never_answers_times_out_on_open_connections() {
    let (rows, counts) = run_against(|_, _, _| true, |settings| settings.query_timeout = 300_000_000);
    assert_eq!(tally(&rows), [(("timeout".into(), None), 500)].into());
    assert_eq!((counts.opened, counts.failed), (50, 0));
}

fn a_server_that_is_down_fails_every_connection() {
    let closed = TcpListener::bind(any_port()).unwrap().local_addr().unwrap();
    let settings = settings(closed);
    let monitor = Monitor::new(settings.workers);
    let rows = replay(&settings, over_tcp(queries(200, 100_000)), &monitor);
    assert_eq!(tally(&rows), [(("connect_failed".into(), Some("connection_refused")), 200)].into());
    assert_eq!((monitor.connections().opened, monitor.connections().failed), (0, 200));
}

fn a_listener_that_never_accepts_ends_in_timeouts_of_either_kind() {
    // The kernel completes as many connections as fit the backlog, and leaves the others waiting.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&any_port().into()).unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut settings = settings(address);
    settings.policy.connect_timeout = 100_000_000;
    let rows = replay(&settings, over_tcp(queries(100, 100_000)), &Monitor::new(settings.workers));
    let tally = tally(&rows);
    let expected: BTreeSet<_> =
        [("connect_failed".to_owned(), Some("connect_timeout")), ("timeout".to_owned(), None)].into();
    assert_eq!(tally.into_keys().collect::<BTreeSet<_>>(), expected);
}

fn an_idle_client_closes_its_connection() {
    let (rows, counts) = run_against(honest, |settings| {
        // Each client asks every 10 ms.
        settings.policy = Policy { idle_timeout: 1_000_000, ..Policy::default() };
    });
    all_answered(&rows);
    assert!(counts.closed_idle > 50 && counts.opened > 100, "{counts:?}");
}

fn truncated_answers_are_asked_for_over_tcp_and_stay_one_query() {
    let responder = start(honest);
    let udp = UdpSocket::bind(responder.address).unwrap();
    udp.set_read_timeout(Some(TICK)).unwrap();
    let server = responder.address;
    let replay_with = |tc_fallback| {
        let mut settings = patient(server);
        settings.policy.tc_fallback = tc_fallback;
        let monitor = Monitor::new(settings.workers);
        let mut rows = replay(&settings, queries(200, 100_000), &monitor);
        rows.retain(|row| row.status.is_query());
        (rows, monitor.connections().opened)
    };
    let stopped = Arc::clone(&responder.stop);
    let truncating = std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while !stopped.load(Ordering::Relaxed) {
            let Ok((length, client)) = udp.recv_from(&mut buffer) else { continue };
            buffer[2] |= 0x82;
            udp.send_to(&buffer[..length], client).unwrap();
        }
    });
    let (with, without) = (replay_with(true), replay_with(false));
    drop(responder);
    truncating.join().unwrap();
    assert_eq!(tally(&with.0), [(("answered".into(), None), 200)].into());
    assert!(with.0.iter().all(|row| row.fell_back && row.transport == Transport::Tcp && !row.tc));
    assert_eq!(with.1, 50);
    assert!(without.0.iter().all(|row| !row.fell_back && row.transport == Transport::Udp && row.tc));
    assert_eq!(without.1, 0);
}

fn a_client_has_a_connection_for_each_server_that_its_queries_were_recorded_for() {
    let servers = [start(honest), start(honest)];
    let [first, second] = [servers[0].address, servers[1].address];
    // One by its address alone, since the port was recorded; one with both.
    let maps = [format!("192.0.2.1:53={first}"), format!("192.0.2.2={}", second.ip())];
    let targets = Targets::Recorded(maps.iter().map(|map| map.parse().unwrap()).collect());
    let mut trace = over_tcp(queries(500, 200_000));
    for query in trace.iter_mut().filter(|query| query.index % 100 >= 50) {
        query.server = format!("192.0.2.2:{}", second.port()).parse().unwrap();
    }
    let settings = Settings { targets, ..patient(first) };
    let monitor = Monitor::new(settings.workers);
    let rows = replay(&settings, trace, &monitor);
    all_answered(&rows);
    assert!(rows.iter().all(|row| row.server == if row.index % 100 < 50 { first } else { second }));
    let mut of_client: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in &rows {
        of_client.entry((row.client, row.server)).or_default().insert(row.connection);
    }
    assert_eq!(of_client.len(), 100);
    assert!(of_client.values().all(|connections| connections.len() == 1));
    assert_eq!(monitor.connections().opened, 100);
}
