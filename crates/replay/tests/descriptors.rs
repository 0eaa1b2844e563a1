//! A process without file descriptors left. Alone in its process, since the limit is that of all tests in it.

mod common;

use std::net::SocketAddr;

use ldplayer_core::{Status, Transport};
use ldplayer_replay::{Monitor, SHARED_SOCKETS, Settings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use common::{queries, replay, settings, tally};

/// Descriptors that the run may open beside those that are open before: its poller and its sockets for UDP among them.
const LEFT: u64 = 12 + SHARED_SOCKETS as u64;

#[test]
fn what_finds_no_descriptor_is_not_sent_and_the_rest_goes_on() {
    // The kernel takes connections up to the backlog, and no descriptor of ours.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.listen(1_000).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + LEFT), ..limit }).unwrap();
    let mut trace = queries(200, 200_000);
    trace.iter_mut().for_each(|query| query.transport = Transport::Tcp);
    let settings = Settings { workers: 1, query_timeout: 400_000_000, max_sockets: 2_000, ..settings(address) };
    let monitor = Monitor::new(settings.workers);
    let rows = replay(&settings, trace, &monitor);
    setrlimit(Resource::Nofile, limit).unwrap();
    let tally = tally(&rows);
    let kinds: Vec<_> = tally.keys().map(|(status, reason)| (status.as_str(), *reason)).collect();
    assert_eq!(kinds, [("not_sent", Some("no_source_address")), ("timeout", None)], "{tally:?}");
    let counts = monitor.connections();
    assert!((1..50).contains(&counts.opened) && counts.failed == 0, "{counts:?}");
    // Every client that has a connection goes on using it.
    let sent = rows.iter().filter(|row| row.status == Status::Timeout).count() as u64;
    assert!(sent >= counts.opened && rows.iter().all(|row| row.submitted.is_some() == (row.status == Status::Timeout)));
}
