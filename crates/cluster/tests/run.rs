//! A run on several agents, with a real nats-server, against one host: the same queries, sent once each, in one run directory.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use ldplayer_cluster::message::{Hello, PROTOCOL, Say};
use ldplayer_cluster::{Agent, Bus, ClusterError, Embedded, Limits, OnLoss, Order, direct, subjects};
use ldplayer_core::TraceTime;
use ldplayer_results::{Document, RunReport, State, read_document};
use ldplayer_run::{RunSpec, prepare};
use ldplayer_trace::{Input, OpenOptions, open, open_numbered};

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
        upload: false,
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
            let limits = Limits::new(Vec::new(), Some(Path::new("/"))).unwrap();
            let agent =
                Agent::register(Bus::connect(server.link(), &name).unwrap(), &name, &[], place, limits).unwrap();
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
    assert!(few.to_string().starts_with("found 1 of 2 agents") && few.to_string().contains("(a0)"), "{few}");
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
        program: String::new(),
        network: 0,
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
        few.to_string().starts_with("found 1 of 2 agents") && few.to_string().contains("of another release: 1"),
        "{few}"
    );
}

#[test]
fn a_directory_without_a_run_under_way_is_not_gone_on_with() {
    let (server, folder) = (Embedded::start().unwrap(), tempfile::tempdir().unwrap());
    let bus = Bus::connect(server.link(), "controller").unwrap();
    let refused = |reason: &str| {
        let said = ldplayer_cluster::resume(&bus, folder.path(), &mut ()).unwrap_err().to_string();
        assert!(said.starts_with("cannot resume the run in") && said.contains(reason), "{said}");
    };
    refused("no unfinished run of several hosts");
    std::fs::write(folder.path().join("controller.json"), "{").unwrap();
    refused("controller.json");
}

/// Both runs of a specification: on one host, and on three agents.
fn both(server: &Embedded, spec: &RunSpec, folder: &Path) -> [RunReport; 2] {
    let alone = prepare(spec.clone()).unwrap().execute(&folder.join("alone"), false, Vec::new(), &mut ()).unwrap();
    let together = with_agents(server, 3, folder, |bus| {
        direct(bus, spec.clone(), &order(3), (&folder.join("together"), false), &mut ()).unwrap()
    });
    [alone.document.report, together.report]
}

/// What a run kept of its responses: each query's row in the trace and its answer, in their order in the file.
fn kept(run: &Path) -> Vec<(u64, Option<Bytes>, TraceTime)> {
    let (mut source, mut rows) = (open_numbered(&[run.join("responses.parquet")]).unwrap(), Vec::new());
    while source.read(&mut rows).unwrap() {}
    rows.into_iter().map(|row| (row.index, row.response, row.time)).collect()
}

#[test]
fn responses_that_agents_keep_are_those_that_one_host_keeps() {
    let (server, folder) = (Embedded::start().unwrap(), tempfile::tempdir().unwrap());
    let spec = RunSpec { keep_responses: true, ..spec(responder()) };
    let [alone, together] = both(&server, &spec, folder.path());
    let [mut one, mut all] = ["alone", "together"].map(|run| kept(&folder.path().join(run)));
    assert!(all.is_sorted_by_key(|(.., time)| *time));
    assert_eq!(together.summary.responses.kept, Some(all.len() as u64));
    assert_eq!((all.len(), alone.summary.responses.kept), (one.len(), Some(one.len() as u64)));
    [&mut one, &mut all].into_iter().for_each(|rows| rows.sort_by_key(|(index, ..)| *index));
    let without_times = |rows: Vec<(u64, Option<Bytes>, TraceTime)>| {
        rows.into_iter().map(|(index, response, _)| (index, response)).collect::<Vec<_>>()
    };
    assert!(one.len() > 1_000 && without_times(one) == without_times(all));
    let left: Vec<PathBuf> = (0..3).map(|agent| folder.path().join(format!("together/agents/a{agent}"))).collect();
    assert!(left.iter().all(|agent| agent.join("run.json").exists() && !agent.join("responses.parquet").exists()));
}

#[test]
fn answers_of_agents_are_compared_and_asked_for_again_as_those_of_one_host() {
    let (server, folder) = (Embedded::start().unwrap(), tempfile::tempdir().unwrap());
    let mut spec = spec(responder());
    spec.stop = Some("5s".parse().unwrap());
    spec.compare_answers = Some(ldplayer_run::Server::Recorded);
    let [alone, together] = both(&server, &spec, folder.path()).map(|report| report.summary.answers_compared.unwrap());
    assert!(alone.compared > 100 && alone.again.as_ref().unwrap().confirmed > 100, "{alone:?}");
    assert_eq!(together, alone);
    let rows = |name: &str| {
        let path = folder.path().join("together").join(name);
        let (mut source, mut rows) = (open(&[Input::File(path)], &OpenOptions::default()).unwrap(), Vec::new());
        while source.read(&mut rows).unwrap() {}
        rows.len() as u64
    };
    let confirmed = together.again.unwrap().confirmed;
    assert_eq!([rows("disagreements.parquet"), rows("disagreements-now.parquet")], [confirmed; 2]);
}

/// The agents are threads of one process: what they use is that of the process, once.
#[test]
fn what_agents_use_is_added_up_and_a_server_of_this_host_is_watched() {
    let (server, folder) = (Embedded::start().unwrap(), tempfile::tempdir().unwrap());
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let spec = RunSpec { watch_pid: Some(child.id()), ..spec(responder()) };
    let [alone, together] = both(&server, &spec, folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let telemetry = &together.summary.telemetry;
    let [client, watched] = [&telemetry.client, &telemetry.server].map(|side| side.as_ref().unwrap());
    assert_eq!((client.processes_peak, watched.processes_peak), (Some(1), Some(1)));
    assert!(client.rss_peak_bytes > watched.rss_peak_bytes && watched.rss_peak_bytes > Some(0), "{client:?}");
    assert_eq!(alone.summary.telemetry.server.unwrap().processes_peak, Some(1));
    assert!(client.from_s <= 0.0 && client.to_s + 1.0 > together.summary.elapsed_s, "{client:?}");
    assert!(client.samples >= 3 && client.in_bytes > Some(100_000), "{client:?}");
}

#[test]
fn agents_fetch_a_trace_that_only_the_controller_has() {
    let (server, folder) = (Embedded::start().unwrap(), tempfile::tempdir().unwrap());
    let (order, run) = (Order { own_trace: true, upload: true, ..order(2) }, folder.path().join("run"));
    let report = with_agents(&server, 2, folder.path(), |bus| {
        direct(bus, spec(responder()), &order, (&run, false), &mut ()).unwrap().report
    });
    let queries = &report.summary.queries;
    assert_eq!((report.state, queries.sent + queries.not_sent), (State::Complete, queries.trace.unwrap()));
    assert!(queries.answered > 1_000, "{queries:?}");
    let of_agent: Document<RunSpec> = read_document(&run.join("agents/a0")).unwrap();
    let read = Path::new(&of_agent.spec.trace[0]);
    assert!(read.ends_with("0/l-root-20161006.pcap.xz") && read != Path::new(CAPTURE), "{}", read.display());
    assert!(!read.exists(), "what was fetched is left behind");
}

#[test]
fn standard_input_is_no_file_to_fetch() {
    let (server, folder) = (Embedded::start().unwrap(), tempfile::tempdir().unwrap());
    let order = Order { own_trace: true, upload: true, ..order(1) };
    let spec = RunSpec { trace: vec!["-".into()], ..spec(responder()) };
    let bus = Bus::connect(server.link(), "controller").unwrap();
    let refused = direct(&bus, spec, &order, (&folder.path().join("run"), false), &mut ()).unwrap_err().to_string();
    assert!(refused.starts_with("--upload: cannot upload standard input"), "{refused}");
}
