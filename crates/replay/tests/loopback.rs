//! The whole engine against a responder on loopback: every query has one outcome, whatever the server does.

mod common;
#[path = "common/link.rs"]
mod link;
#[path = "common/sources.rs"]
mod sources;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ldplayer_core::shard::Shards;
use ldplayer_core::{Outcome, Query, Reason, RunTime, Status, Transport};
use ldplayer_net::clock;
use ldplayer_net::interfaces::DEVICE;
use ldplayer_net::netlink::Netlink;
use ldplayer_net::packets::SenderKind;
use ldplayer_net::tun::Tun;
use ldplayer_net::veth::{self, CLIENTS, MTU};
use ldplayer_replay::{
    Drain, Feed, LinkError, Monitor, NetworkPath, Precision, RunStart, Settings, Sources, Targets, prepare, run,
};

use common::{Batches, Rows, queries, replay, settings, tally};
use link::{any_port, on_each_path};
use sources::all_sources;

on_each_path! {
    the_kernel_tells_when_it_sent_each_query,
    an_honest_server_answers_all_and_each_client_keeps_its_address,
    queries_that_are_begun_ahead_of_their_time_leave_when_they_are_due,
    a_window_bounds_what_is_outstanding_when_fast,
    a_server_that_answers_twice_leaves_duplicates,
    a_server_that_answers_garbage_is_told_as_such,
    a_server_that_is_down_refuses,
    other_transports_are_not_sent_and_say_so,
    an_interrupted_run_accounts_for_what_it_read,
    a_worker_knows_when_its_last_query_ended_without_an_answer,
    a_drain_that_fails_ends_the_run_with_its_error,
    a_reader_that_waits_for_input_does_not_keep_an_interrupted_run,
    an_aborted_run_waits_for_no_answer_and_keeps_its_rows,
    a_run_starts_when_it_is_told_and_its_rows_are_of_its_shards,
    a_burst_makes_no_timeouts_of_answers_that_came_in_time,
    servers_of_a_family_share_the_clients_and_each_client_keeps_its_own,
    queries_go_to_the_servers_that_they_were_recorded_for,
}

/// What the responder does with a query.
type Behaviour = fn(&[u8]) -> Vec<Vec<u8>>;

struct Responder {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    fn start(behaviour: Behaviour) -> Self {
        // Room for all that a test sends, however busy the machine is.
        let socket = ldplayer_net::udp::UdpSocket::serve(any_port(), 64 << 20).unwrap();
        let socket = UdpSocket::from(std::os::fd::OwnedFd::from(socket));
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (address, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
                for answer in behaviour(&buffer[..length]) {
                    socket.send_to(&answer, client).unwrap();
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer(query: &[u8]) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2] |= 0x80;
    answer
}

fn run_against(behaviour: Behaviour, change: impl FnOnce(&mut Settings)) -> Vec<Outcome> {
    let responder = Responder::start(behaviour);
    let mut settings = settings(responder.address);
    change(&mut settings);
    replay(&settings, queries(1_000, 100_000), &Monitor::new(settings.workers))
}

fn an_honest_server_answers_all_and_each_client_keeps_its_address() {
    let rows = run_against(|query| vec![answer(query)], |_| ());
    assert_eq!(tally(&rows), [(("answered".into(), None), 1_000)].into());
    for client in 0..50 {
        let of_client: Vec<&Outcome> = rows.iter().filter(|row| row.index % 50 == client).collect();
        assert_eq!(of_client.len(), 20);
        assert!(of_client.iter().all(|row| row.client == of_client[0].client && row.client_port != 0));
    }
    assert!(rows.iter().all(|row| row.submitted >= Some(row.intended) && row.answered >= row.submitted));
}

/// At gaps from none to more than a spinning worker looks ahead.
fn queries_that_are_begun_ahead_of_their_time_leave_when_they_are_due() {
    let responder = Responder::start(|query| vec![answer(query)]);
    for precision in [Precision::High, Precision::Normal, Precision::Low] {
        let settings = Settings { precision, workers: 1, ..settings(responder.address) };
        let mut trace = queries(3_000, 0);
        let mut due = 5_000_000;
        for query in &mut trace {
            query.due = RunTime(due);
            due += i64::from(query.index as u32 * 7_919 % 40) * 5_000;
        }
        let rows = replay(&settings, trace, &Monitor::new(1));
        assert_eq!(tally(&rows), [(("answered".into(), None), 3_000)].into());
        let early = rows.iter().filter(|row| row.submitted < Some(row.intended)).count();
        assert_eq!(early, 0, "{precision:?}");
    }
}

#[test]
fn every_client_has_one_port_with_sources_ports() {
    let rows = run_against(|query| vec![answer(query)], |settings| settings.sources = Sources::Ports);
    let mut ports: BTreeMap<_, Vec<u16>> = BTreeMap::new();
    rows.iter().for_each(|row| ports.entry(row.client).or_default().push(row.client_port));
    assert_eq!(ports.len(), 50);
    assert!(ports.values().all(|ports| ports.iter().all(|&port| port == ports[0])));
}

fn a_window_bounds_what_is_outstanding_when_fast() {
    let rows = run_against(
        |query| vec![answer(query)],
        |settings| {
            settings.fast = true;
            settings.window = 3;
        },
    );
    assert_eq!(tally(&rows), [(("answered".into(), None), 1_000)].into());
}

fn a_server_that_answers_twice_leaves_duplicates() {
    let rows = run_against(|query| vec![answer(query); 2], |_| ());
    let tally = tally(&rows);
    assert_eq!(tally[&("answered".into(), None)], 1_000);
    // The second answers to the last queries may come after the run.
    assert!(tally[&("stray".into(), Some("duplicate"))] > 900, "{tally:?}");
}

fn a_server_that_answers_garbage_is_told_as_such() {
    let rows = run_against(|query| vec![query[..7].to_vec()], |_| ());
    let tally = tally(&rows);
    assert_eq!(tally[&("timeout".into(), None)], 1_000);
    assert_eq!(tally[&("stray".into(), Some("garbage"))], 1_000);
}

/// The device loses them as it has no carrier: AF_XDP at once, AF_PACKET after some thousand tries each. The TAP device has nothing to do with it.
#[test]
fn queries_whose_frames_a_device_loses_are_not_sent_and_hold_nobody_up() {
    link::in_link(|| {
        let netlink = Netlink::open().unwrap();
        netlink.interface_down(netlink.index(DEVICE).unwrap()).unwrap();
        for (sender, count) in [(SenderKind::Xdp, 300), (SenderKind::Packet, 3)] {
            let mut settings = Settings { workers: 1, ..settings("203.0.113.53:53".parse().unwrap()) };
            let NetworkPath::Packets(packets) = &mut settings.path else { panic!("a path without frames") };
            (packets.sender, packets.queries) = (sender, None);
            let rows = replay(&settings, queries(count, 100_000), &Monitor::new(settings.workers));
            assert_eq!(tally(&rows), [(("not_sent".into(), Some("send_error")), count as usize)].into(), "{sender:?}");
        }
    });
}

#[test]
fn clients_whose_tap_device_is_taken_leave_by_the_link() {
    link::in_link(|| {
        let _taken = Tun::open_tap(veth::QUERIES).unwrap();
        let responder = Responder::start(|query| vec![answer(query)]);
        let settings = settings(responder.address);
        let rows = replay(&settings, queries(300, 100_000), &Monitor::new(settings.workers));
        assert_eq!(tally(&rows), [(("answered".into(), None), 300)].into());
    });
}

#[test]
fn a_run_whose_interface_goes_down_comes_to_its_end() {
    link::in_link(|| {
        let ways = [(SenderKind::Packet, veth::queries()), (SenderKind::Packet, None), (SenderKind::Xdp, None)];
        for (sender, tap) in ways {
            let netlink = Netlink::open().unwrap();
            let clients = netlink.index(tap.unwrap_or(CLIENTS)).unwrap();
            netlink.interface_up(clients, MTU.into(), 1_000).unwrap();
            let server = UdpSocket::bind(any_port()).unwrap();
            let mut settings = Settings { workers: 1, ..settings(server.local_addr().unwrap()) };
            let NetworkPath::Packets(packets) = &mut settings.path else { panic!("a path without frames") };
            (packets.sender, packets.queries) = (sender, tap.map(str::to_owned));
            let mut trace = queries(300, 100_000);
            trace.iter_mut().skip(1).for_each(|query| query.due.0 += 1_000_000_000);
            let rows = std::thread::scope(|scope| {
                // Between the first query and the others, which are due a second later.
                scope.spawn(|| {
                    let mut query = [0; 512];
                    let (length, client) = server.recv_from(&mut query).unwrap();
                    server.send_to(&answer(&query[..length]), client).unwrap();
                    netlink.interface_down(clients).unwrap();
                });
                replay(&settings, trace, &Monitor::new(1))
            });
            assert_eq!(tally(&rows)[&("connect_failed".into(), Some("unreachable"))], 299, "{sender:?}");
        }
    });
}

fn a_server_that_is_down_refuses() {
    // Below those that the kernel gives to clients, which would take one that was just closed.
    let mut free = (20_000..30_000).filter_map(|port| UdpSocket::bind(("127.0.0.1", port)).ok());
    let closed = free.next().unwrap().local_addr().unwrap();
    for sources in all_sources() {
        let settings = Settings { sources, ..settings(closed) };
        let rows = replay(&settings, queries(300, 1_000_000), &Monitor::new(settings.workers));
        // The kernel limits how many refusals it tells in a second; the others time out.
        let tally = tally(&rows);
        assert!(tally.contains_key(&("refused".into(), None)), "{tally:?}");
        assert!(tally.keys().all(|(status, _)| status == "refused" || status == "timeout"), "{tally:?}");
    }
}

/// Whether this network has a UDP socket that is connected to a port.
fn is_connected_to(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    let peer = format!(":{port:04X}");
    sockets.lines().filter_map(|line| line.split_whitespace().nth(2)).any(|remote| remote.ends_with(&peer))
}

/// Of a list of three queries, the first one was as late as it takes to open a socket.
#[test]
fn the_socket_of_the_first_query_is_open_before_that_is_due() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    server.set_nonblocking(true).unwrap();
    let settings = Settings { sources: Sources::Ports, query_timeout: 1_000_000, ..settings(address) };
    let trace = queries(1, 0).into_iter().map(|query| Query { due: RunTime(3_000_000_000), ..query }).collect();
    let replaying = std::thread::spawn(move || replay(&settings, trace, &Monitor::new(settings.workers)));
    while !is_connected_to(address.port()) {
        assert!(server.recv(&mut [0; 512]).is_err(), "the query came before anybody saw its socket");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(server.recv(&mut [0; 512]).is_err(), "the query came with its socket");
    assert_eq!(tally(&replaying.join().unwrap()), BTreeMap::from([(("timeout".to_owned(), None), 1)]));
}

fn other_transports_are_not_sent_and_say_so() {
    let responder = Responder::start(|query| vec![answer(query)]);
    let settings = settings(responder.address);
    let mut trace = queries(100, 1_000);
    trace.iter_mut().step_by(4).for_each(|query| query.transport = Transport::Doq);
    let rows = replay(&settings, trace, &Monitor::new(settings.workers));
    let tally = tally(&rows);
    assert_eq!(tally[&("not_sent".into(), Some("transport_not_available"))], 25);
    assert_eq!(tally[&("answered".into(), None)], 75);
}

fn an_interrupted_run_accounts_for_what_it_read() {
    let responder = Responder::start(|query| vec![answer(query)]);
    let settings = Settings { precision: Precision::Low, ..settings(responder.address) };
    let monitor = Monitor::new(settings.workers);
    monitor.stop();
    let rows = replay(&settings, queries(5_000, 1_000_000_000), &monitor);
    assert!(rows.iter().all(|row| row.reason == Some(Reason::Interrupted)));
}

/// The rows have no time of timeouts, and what is still waited for at an interrupt times out early.
fn a_worker_knows_when_its_last_query_ended_without_an_answer() {
    let silent = Responder::start(|_| Vec::new());
    let (last, rows) = last_unanswered_of(silent.address, 30_000_000);
    let sent = rows.iter().filter_map(|row| row.submitted).max().unwrap();
    assert!(last.unwrap() - sent >= 30_000_000, "{last:?} is before the last timeout of what was sent at {sent:?}");
    let echo = Responder::start(|query| vec![answer(query)]);
    assert_eq!(last_unanswered_of(echo.address, 10_000_000_000).0, None);
}

fn last_unanswered_of(server: SocketAddr, query_timeout: i64) -> (Option<RunTime>, Vec<Outcome>) {
    let settings = Settings { query_timeout, workers: 1, ..settings(server) };
    let mut rows = Rows::default();
    let monitor = Monitor::new(1);
    let (ended, _) = run(&settings, Batches(vec![queries(3, 1_000_000)]), &mut rows, &monitor).unwrap();
    (ended.workers[0].last_unanswered, rows.0)
}

fn a_drain_that_fails_ends_the_run_with_its_error() {
    struct Full;
    impl Drain for Full {
        fn outcomes(&mut self, _: usize, _: &[Outcome]) -> Result<(), LinkError> {
            Err("no space left".into())
        }
    }
    let responder = Responder::start(|query| vec![answer(query)]);
    let settings = settings(responder.address);
    let monitor = Monitor::new(settings.workers);
    let feed = Batches(vec![queries(2_000, 10_000_000)]);
    let (ended, _) = run(&settings, feed, &mut Full, &monitor).unwrap();
    assert_eq!(ended.drain_error.unwrap().to_string(), "no space left");
    assert!(monitor.is_stopped());
}

/// Yields some queries and then waits for input that does not come.
struct Silent {
    first: Vec<Query>,
    input: std::sync::mpsc::Receiver<()>,
}

impl Feed for Silent {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        if self.first.is_empty() {
            // It returns when the test is over.
            let _ = self.input.recv();
        }
        batch.append(&mut self.first);
        Ok(true)
    }
}

fn a_reader_that_waits_for_input_does_not_keep_an_interrupted_run() {
    let responder = Responder::start(|query| vec![answer(query)]);
    let settings = settings(responder.address);
    let monitor = Monitor::new(settings.workers);
    let (_input, silent) = std::sync::mpsc::channel();
    let (feed, mut rows) = (Silent { first: queries(100, 10_000), input: silent }, Rows::default());
    let (ended, feed) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while monitor.counts().answered < 100 {
                std::thread::yield_now();
            }
            monitor.stop();
        });
        run(&settings, feed, &mut rows, &monitor).unwrap()
    });
    assert!(feed.is_none(), "the reader is left behind");
    assert_eq!((ended.trace_queries, tally(&rows.0)), (100, [(("answered".into(), None), 100)].into()));
}

fn an_aborted_run_waits_for_no_answer_and_keeps_its_rows() {
    let responder = Responder::start(|_| vec![]);
    let settings = Settings { query_timeout: 3_600_000_000_000, ..settings(responder.address) };
    let monitor = Monitor::new(settings.workers);
    let rows = std::thread::scope(|scope| {
        scope.spawn(|| {
            while monitor.counts().sent < 100 {
                std::thread::yield_now();
            }
            monitor.abort();
        });
        replay(&settings, queries(100, 10_000), &monitor)
    });
    assert_eq!(tally(&rows), [(("timeout".into(), Some("interrupted")), 100)].into());
}

fn a_run_starts_when_it_is_told_and_its_rows_are_of_its_shards() {
    struct ByShard(BTreeMap<usize, Vec<Outcome>>);
    impl Drain for ByShard {
        fn outcomes(&mut self, shard: usize, rows: &[Outcome]) -> Result<(), LinkError> {
            self.0.entry(shard).or_default().extend_from_slice(rows);
            Ok(())
        }
    }
    let responder = Responder::start(|query| vec![answer(query)]);
    let settings = settings(responder.address);
    let monitor = Monitor::new(settings.workers);
    // The second of three hosts with two workers each.
    let shards = Shards { first: 2, total: 6 };
    let ready = prepare(settings, shards, Batches(vec![queries(1_000, 10_000)]), &monitor);
    let start = RunStart { monotonic_ns: clock::monotonic_ns() + 40_000_000, wall: None };
    let mut rows = ByShard(BTreeMap::new());
    let (ended, _) = ready.run(start, &mut rows).unwrap();
    assert!(clock::monotonic_ns() >= start.monotonic_ns);
    assert_eq!(rows.0.keys().copied().collect::<Vec<_>>(), [2, 3]);
    for (&shard, rows) in &rows.0 {
        assert!(rows.iter().all(|row| ldplayer_core::shard::shard(row_client(row), 6) == shard));
        assert!(rows.iter().all(|row| row.submitted >= Some(row.intended)), "nothing was sent before run time 0");
    }
    let own: usize = rows.0.values().map(Vec::len).sum();
    assert_eq!((ended.trace_queries, ended.of_other_shards), (own as u64, 1_000 - own as u64));
}

/// The client of a query of [`queries`], by its row of the trace.
fn row_client(row: &Outcome) -> std::net::IpAddr {
    [10, 0, 0, (row.index % 50) as u8].into()
}

fn a_burst_makes_no_timeouts_of_answers_that_came_in_time() {
    const BURST: u64 = 20_000;
    let responder = Responder::start(|query| vec![answer(query)]);
    let query_timeout = 200_000_000;
    let settings = Settings { workers: 1, query_timeout, ..settings(responder.address) };
    let rows = replay(&settings, queries(BURST, 0), &Monitor::new(settings.workers));
    // However late the responder is on this machine: what the kernel had before the deadline is no timeout.
    let late = rows.iter().filter(|row| row.status == Status::Late);
    for row in late {
        let took = row.answered.unwrap() - row.submitted.unwrap();
        assert!(took >= query_timeout, "an answer after {took} ns was taken for a timeout");
    }
    assert!(rows.iter().any(|row| row.status == Status::Answered), "{:?}", tally(&rows));
}

fn servers_of_a_family_share_the_clients_and_each_client_keeps_its_own() {
    let servers = [(); 3].map(|()| Responder::start(|query| vec![answer(query)]));
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    for sources in all_sources() {
        let targets = Targets::Fixed(addresses.clone());
        let settings = Settings { sources, targets, ..settings(addresses[0]) };
        let rows = replay(&settings, queries(1_000, 100_000), &Monitor::new(settings.workers));
        assert_eq!(tally(&rows), [(("answered".into(), None), 1_000)].into());
        let mut of_client: BTreeMap<_, Vec<SocketAddr>> = BTreeMap::new();
        rows.iter().for_each(|row| of_client.entry(row.client).or_default().push(row.server));
        assert!(of_client.values().all(|asked| asked.iter().all(|server| *server == asked[0])));
        let used: std::collections::BTreeSet<SocketAddr> = of_client.values().map(|asked| asked[0]).collect();
        assert_eq!(used, addresses.iter().copied().collect());
    }
}

fn queries_go_to_the_servers_that_they_were_recorded_for() {
    let servers = [(); 2].map(|()| Responder::start(|query| vec![answer(query)]));
    let [first, second] = [servers[0].address, servers[1].address];
    for sources in all_sources() {
        let maps = vec![format!("192.0.2.1:53={second}").parse().unwrap()];
        let mut trace = queries(600, 100_000);
        trace.iter_mut().filter(|query| query.index % 3 == 0).for_each(|query| query.server = first);
        trace
            .iter_mut()
            .filter(|query| query.index % 3 == 1)
            .for_each(|query| query.server.set_ip([0, 0, 0, 0].into()));
        let settings = Settings { sources, targets: Targets::Recorded(maps), ..settings(first) };
        let rows = replay(&settings, trace, &Monitor::new(settings.workers));
        let expected = [(("answered".into(), None), 400), (("not_sent".into(), Some("no_server")), 200)];
        assert_eq!(tally(&rows), expected.into());
        let answered = rows.iter().filter(|row| row.status == Status::Answered);
        answered.for_each(|row| assert_eq!(row.server, if row.index % 3 == 0 { first } else { second }));
    }
}

fn the_kernel_tells_when_it_sent_each_query() {
    let responder = Responder::start(|query| vec![answer(query)]);
    for sources in all_sources() {
        let mut settings = Settings { sources, ..settings(responder.address) };
        if let NetworkPath::Packets(packets) = &mut settings.path {
            packets.queries = None;
        }
        let (monitor, mut rows) = (Monitor::new(settings.workers), Rows::default());
        let shards = Shards::all(settings.workers);
        let ready = prepare(settings, shards, Batches(vec![queries(1_000, 20_000)]), &monitor);
        ready.with_send_stamps().run(RunStart::soon(), &mut rows).unwrap();
        assert_eq!(tally(&rows.0), [(("answered".into(), None), 1_000)].into());
        assert!(rows.0.iter().all(|row| row.submitted <= row.sent && row.sent.is_some()));
        // Both are stamps of one clock, whose distance to ours is measured for each batch anew.
        assert!(rows.0.iter().all(|row| row.sent.unwrap() - row.answered.unwrap() < 1_000_000));
    }
}
