//! A run on several agents, with a real nats-server, against one host: the same queries, sent once each, in one run directory.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use ldplayer_cluster::message::{Hello, PROTOCOL, Say};
use ldplayer_cluster::{Agent, Bus, ClusterError, Embedded, OnLoss, Order, direct, subjects};
use ldplayer_results::{Document, State};
use ldplayer_run::{RunSpec, prepare};

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/l-root-20161006.pcap.xz");

/// Answers every query with itself, as a response.
fn responder() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut message = [0; 4_096];
        while let Ok((length, client)) = socket.recv_from(&mut message) {
            message[2] |= 0x80;
            // A client that is gone needs no answer.
            let _ = socket.send_to(&message[..length], client);
        }
    });
    address
}

fn spec(server: SocketAddr) -> RunSpec {
    let text = format!(
        "trace = '{CAPTURE}'\nserver = '{server}'\ntransport = 'udp'\nspeed = 30.0\nstop = '30s'\nquery_timeout = '1s'\nworkers = 1\nsources = 'ports'\nprecision = 'low'"
    );
    RunSpec::parse(&text).unwrap()
}

fn order(agents: usize) -> Order {
    Order {
        name: "test".into(),
        agents,
        patience: Duration::from_secs(20),
        ahead_ns: 5_000_000_000,
        room: 64 << 20,
        replicas: 1,
        on_loss: OnLoss::Stop,
        own_trace: false,
        feeders: 0,
        command_line: vec!["test".into()],
    }
}

/// Agents on threads of this process while `act` runs.
fn with_agents<T>(server: &Embedded, count: usize, scratch: &Path, act: impl FnOnce(&Bus) -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for agent in 0..count {
            let (name, place): (String, PathBuf) = (format!("a{agent}"), scratch.join(agent.to_string()));
            std::fs::create_dir_all(&place).unwrap();
            let agent = Agent::register(Bus::connect(server.link(), &name).unwrap(), &name, &[], place).unwrap();
            scope.spawn(|| agent.run(&stop));
        }
        let done = act(&Bus::connect(server.link(), "controller").unwrap());
        stop.store(true, Ordering::Relaxed);
        done
    })
}

#[test]
fn a_run_on_four_agents_sends_what_one_host_sends() {
    let (server, target) = (Embedded::start().unwrap(), responder());
    let folder = tempfile::tempdir().unwrap();
    let alone: Document<RunSpec> = prepare(spec(target))
        .unwrap()
        .execute(&folder.path().join("alone"), false, Vec::new(), &mut ())
        .unwrap()
        .document;
    let together = with_agents(&server, 4, folder.path(), |bus| {
        direct(bus, spec(target), &order(4), (&folder.path().join("together"), false), &mut ()).unwrap()
    });
    let (alone, together) = (alone.report, together.report);
    assert_eq!(together.state, State::Complete);
    assert_eq!(together.summary.queries.trace, alone.summary.queries.trace);
    assert_eq!(together.summary.queries.sent, alone.summary.queries.sent);
    assert_eq!(together.summary.clients.total, alone.summary.clients.total);
    assert_eq!(together.tally, alone.tally);
    let accounts = together.verdict.checks.iter().find(|check| check.name.contains("account"));
    assert!(accounts.is_none_or(|check| check.ok), "{accounts:?}");
    let queries = &together.summary.queries;
    assert_eq!(queries.sent + queries.not_sent, queries.trace.unwrap());
}

#[test]
fn fewer_agents_than_asked_for_are_named() {
    let (server, target) = (Embedded::start().unwrap(), responder());
    let folder = tempfile::tempdir().unwrap();
    let few = with_agents(&server, 1, folder.path(), |bus| {
        let order = Order { patience: Duration::from_millis(1), ..order(2) };
        direct(bus, spec(target), &order, (&folder.path().join("run"), false), &mut ()).unwrap_err()
    });
    assert!(matches!(few, ClusterError::Few { .. }), "{few}");
    assert!(few.to_string().starts_with("1 of 2 agents came") && few.to_string().contains("(a0)"), "{few}");
}

/// An agent of another release, as far as a controller sees it: it says who it is.
fn another_release(server: &Embedded) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (user, address) = server.link().url.trim_start_matches("nats://").split_once('@').unwrap();
    let (user, password) = user.split_once(':').unwrap();
    let hello = Hello {
        protocol: PROTOCOL + 1,
        release: "9.9".into(),
        name: "later".into(),
        id: "later".into(),
        cores: 1,
        files: 1,
        ports: 1,
        sources: Vec::new(),
        clock: String::new(),
        boot: String::new(),
        run: None,
    };
    let said = serde_json::to_vec(&Say::Hello(hello)).unwrap();
    runtime.block_on(async {
        let options = async_nats::ConnectOptions::new().user_and_password(user.into(), password.into());
        let client = options.connect(address).await.unwrap();
        let mut asked = client.subscribe(subjects::AGENTS).await.unwrap();
        client.flush().await.unwrap();
        tokio::spawn(async move {
            while let Some(message) = asked.next().await {
                client.publish(message.reply.unwrap(), said.clone().into()).await.unwrap();
                client.flush().await.unwrap();
            }
        });
    });
    runtime
}

#[test]
fn an_agent_of_another_release_is_not_taken_and_told() {
    let (server, target) = (Embedded::start().unwrap(), responder());
    let _later = another_release(&server);
    let folder = tempfile::tempdir().unwrap();
    let few = with_agents(&server, 1, folder.path(), |bus| {
        let order = Order { patience: Duration::from_millis(1), ..order(2) };
        direct(bus, spec(target), &order, (&folder.path().join("run"), false), &mut ()).unwrap_err()
    });
    assert!(
        few.to_string().starts_with("1 of 2 agents came") && few.to_string().contains("1 are of another release"),
        "{few}"
    );
}

#[test]
fn a_directory_without_a_run_under_way_is_not_gone_on_with() {
    let (server, folder) = (Embedded::start().unwrap(), tempfile::tempdir().unwrap());
    let bus = Bus::connect(server.link(), "controller").unwrap();
    let refused = |reason: &str| {
        let said = ldplayer_cluster::resume(&bus, folder.path(), &mut ()).unwrap_err().to_string();
        assert!(said.starts_with("cannot go on with the run in") && said.contains(reason), "{said}");
    };
    refused("no run of several hosts is under way in it");
    std::fs::write(folder.path().join("controller.json"), "{").unwrap();
    refused("controller.json");
}
