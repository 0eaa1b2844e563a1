//! The whole engine against a responder on loopback: every query has one outcome, whatever the server does.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use ldplayer_core::message::{CLASS_IN, QueryParts, flag};
use ldplayer_core::{Outcome, Query, Reason, RunTime, Transport};
use ldplayer_replay::{Drain, Feed, LinkError, Monitor, Precision, Servers, Settings, Sources, run};

/// What the responder does with a query.
type Behaviour = fn(&[u8]) -> Vec<Vec<u8>>;

struct Responder {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    fn start(behaviour: Behaviour) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
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

struct Batches(Vec<Vec<Query>>);

impl Feed for Batches {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        batch.append(&mut self.0.remove(0));
        Ok(!self.0.is_empty())
    }
}

#[derive(Default)]
struct Rows(Vec<Outcome>);

impl Drain for Rows {
    fn outcomes(&mut self, _worker: usize, rows: &[Outcome]) -> Result<(), LinkError> {
        self.0.extend_from_slice(rows);
        Ok(())
    }
}

/// `count` queries of 50 clients, `gap` nanoseconds apart.
fn queries(count: u64, gap: i64) -> Vec<Query> {
    let query = |index: u64| {
        let mut wire = Vec::new();
        let label = format!("q{index:07}");
        let name = [&[8], label.as_bytes(), b"\x07example\0"].concat();
        QueryParts { id: 1, flags: flag::RD, name: &name, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut wire);
        Query {
            index,
            due: RunTime(index as i64 * gap),
            client: [10, 0, 0, (index % 50) as u8].into(),
            client_port: 0,
            server: "192.0.2.1:53".parse().unwrap(),
            transport: Transport::Udp,
            wire: Bytes::from(wire),
        }
    };
    (0..count).map(query).collect()
}

fn settings(server: SocketAddr) -> Settings {
    Settings {
        sources: Sources::Pool(vec!["127.9.0.0/16".parse().unwrap()]),
        servers: Servers { v4: Some(server), v6: None },
        workers: 2,
        cores: Vec::new(),
        precision: Precision::Normal,
        query_timeout: 300_000_000,
        max_lag: None,
        fast: false,
        window: 100,
        max_sockets: 100,
        seed: 1,
    }
}

/// Replays and checks the identity: each query of the trace has exactly one row of its own.
fn replay(settings: &Settings, trace: Vec<Query>, monitor: &Monitor) -> Vec<Outcome> {
    let count = trace.len() as u64;
    let batches = trace.chunks(128).map(<[Query]>::to_vec).collect();
    let mut rows = Rows::default();
    let ended = run(settings, &mut Batches(batches), &mut rows, monitor).unwrap();
    let mut own: Vec<u64> = rows.0.iter().filter(|row| row.status.is_query()).map(|row| row.index).collect();
    own.sort_unstable();
    assert!(own.windows(2).all(|pair| pair[0] != pair[1]), "a query has two rows");
    assert_eq!(own.len() as u64, ended.trace_queries);
    assert!(ended.trace_queries == count || monitor.is_stopped());
    let counts = monitor.counts();
    assert_eq!(counts.sent, counts.answered + counts.timed_out + counts.failed);
    assert_eq!(counts.sent + counts.not_sent, ended.trace_queries);
    rows.0
}

fn tally(rows: &[Outcome]) -> BTreeMap<(String, Option<&'static str>), usize> {
    let mut tally = BTreeMap::new();
    for row in rows {
        *tally.entry((row.status.to_string(), row.reason.map(Reason::as_str))).or_default() += 1;
    }
    tally
}

fn run_against(behaviour: Behaviour, change: impl FnOnce(&mut Settings)) -> Vec<Outcome> {
    let responder = Responder::start(behaviour);
    let mut settings = settings(responder.address);
    change(&mut settings);
    replay(&settings, queries(1_000, 100_000), &Monitor::new(settings.workers))
}

#[test]
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

#[test]
fn every_client_has_one_port_with_sources_ports() {
    let rows = run_against(|query| vec![answer(query)], |settings| settings.sources = Sources::Ports);
    let mut ports: BTreeMap<_, Vec<u16>> = BTreeMap::new();
    rows.iter().for_each(|row| ports.entry(row.client).or_default().push(row.client_port));
    assert_eq!(ports.len(), 50);
    assert!(ports.values().all(|ports| ports.iter().all(|&port| port == ports[0])));
}

#[test]
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

#[test]
fn a_server_that_answers_twice_leaves_duplicates() {
    let rows = run_against(|query| vec![answer(query); 2], |_| ());
    let tally = tally(&rows);
    assert_eq!(tally[&("answered".into(), None)], 1_000);
    // The second answers to the last queries may come after the run.
    assert!(tally[&("stray".into(), Some("duplicate"))] > 900, "{tally:?}");
}

#[test]
fn a_server_that_answers_garbage_is_told_as_such() {
    let rows = run_against(|query| vec![query[..7].to_vec()], |_| ());
    let tally = tally(&rows);
    assert_eq!(tally[&("timeout".into(), None)], 1_000);
    assert_eq!(tally[&("stray".into(), Some("garbage"))], 1_000);
}

#[test]
fn a_server_that_is_down_refuses() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for sources in [Sources::Ports, Sources::Pool(vec!["127.9.0.0/16".parse().unwrap()])] {
        let settings = Settings { sources, ..settings(closed) };
        let rows = replay(&settings, queries(300, 1_000_000), &Monitor::new(settings.workers));
        // The kernel limits how many refusals it tells in a second; the others time out.
        let tally = tally(&rows);
        assert!(tally.contains_key(&("refused".into(), None)), "{tally:?}");
        assert!(tally.keys().all(|(status, _)| status == "refused" || status == "timeout"), "{tally:?}");
    }
}

#[test]
fn other_transports_are_not_sent_and_say_so() {
    let responder = Responder::start(|query| vec![answer(query)]);
    let settings = settings(responder.address);
    let mut trace = queries(100, 1_000);
    trace.iter_mut().step_by(4).for_each(|query| query.transport = Transport::Tcp);
    let rows = replay(&settings, trace, &Monitor::new(settings.workers));
    let tally = tally(&rows);
    assert_eq!(tally[&("not_sent".into(), Some("transport_not_available"))], 25);
    assert_eq!(tally[&("answered".into(), None)], 75);
}

#[test]
fn an_interrupted_run_accounts_for_what_it_read() {
    let responder = Responder::start(|query| vec![answer(query)]);
    let settings = Settings { precision: Precision::Low, ..settings(responder.address) };
    let monitor = Monitor::new(settings.workers);
    monitor.stop();
    let rows = replay(&settings, queries(5_000, 1_000_000_000), &monitor);
    assert!(rows.iter().all(|row| row.reason == Some(Reason::Interrupted)));
}

#[test]
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
    let mut feed = Batches(vec![queries(2_000, 10_000_000)]);
    let ended = run(&settings, &mut feed, &mut Full, &monitor).unwrap();
    assert_eq!(ended.drain_error.unwrap().to_string(), "no space left");
    assert!(monitor.is_stopped());
}
