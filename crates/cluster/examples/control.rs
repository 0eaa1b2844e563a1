//! What the control traffic of very many agents takes: a real NATS server on this host, agents that only answer, and a controller that asks all that
//! it asks in a run of a minute. Prints one line of JSON. Usage: control [AGENTS]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::ConnectOptions;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use ldplayer_cluster::message::{Ask, Hello, PROTOCOL, Part, Progress, Say, Source, Stage};
use ldplayer_cluster::{Bus, Embedded, agents, offsets, subjects};
use ldplayer_core::{Outcome, RunTime, Status};
use ldplayer_net::clock;
use ldplayer_report::metrics::{Latencies, LatencyCounts, Snapshot, WorkerFigures};
use tokio::runtime::{Builder, Runtime};

/// Workers of an agent, whose figures are told.
const WORKERS: usize = 16;
/// Rounds of progress: ten seconds of a run, four a second.
const ROUNDS: usize = 40;
/// Octets of a specification with rules in it.
const SPEC: usize = 4_000;
const WITHIN: Duration = Duration::from_secs(10);

/// What all agents together have sent and got.
#[derive(Default)]
struct Traffic {
    questions: AtomicU64,
    octets: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let count = std::env::args().nth(1).and_then(|argument| argument.parse().ok()).unwrap_or(1_000);
    let server = Embedded::start()?;
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("agents").enable_all().build()?;
    let traffic = Arc::new(Traffic::default());
    begin(&runtime, &server.link().url, count, &traffic)?;
    let bus = Bus::connect(server.link(), "controller")?;
    let (found, who_s) = timed(|| agents(&bus, WITHIN, count));
    let found = found?;
    if found.len() < count {
        return Err(format!("{} of {count} agents answered", found.len()).into());
    }
    let (clocks, clocks_s) = timed(|| offsets(&bus, &found));
    let worst = clocks.into_iter().collect::<Result<Vec<_>, _>>()?.iter().map(|offset| offset.error).max().unwrap_or(0);
    let ((), prepare_s) = timed(|| ask_all(&bus, &found, |seat| Ask::Prepare(Box::new(part(seat, count as u32)))));
    let ((), start_s) = timed(|| ask_all(&bus, &found, |seat| Ask::Start { run: 1, seat, at_ns: 0, wall_ns: 0 }));
    let before = traffic.octets.load(Ordering::Relaxed);
    let mut rounds: Vec<f64> = Vec::new();
    for round in 0..ROUNDS {
        let ask = |seat| Ask::Progress { run: 1, seat, latencies: round % 4 == 0 };
        rounds.push(timed(|| ask_all(&bus, &found, ask)).1);
    }
    rounds.sort_by(f64::total_cmp);
    let a_second = (traffic.octets.load(Ordering::Relaxed) - before) as f64 / (ROUNDS as f64 / 4.0);
    println!(
        "{{\"agents\": {count}, \"found_s\": {who_s:.3}, \"clocks_s\": {clocks_s:.3}, \"clock_error_us\": {:.1}, \"prepare_s\": {prepare_s:.3}, \
         \"start_s\": {start_s:.3}, \"progress_s\": {:.3}, \"progress_longest_s\": {:.3}, \"progress_bytes_a_second\": {a_second:.0}, \"questions\": {}}}",
        worst as f64 / 1e3,
        rounds[rounds.len() / 2],
        rounds[rounds.len() - 1],
        traffic.questions.load(Ordering::Relaxed),
    );
    Ok(())
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    (act(), began.elapsed().as_secs_f64())
}

/// Asks each agent, all at once, and insists on an answer of each.
fn ask_all(bus: &Bus, agents: &[Hello], ask: impl Fn(u32) -> Ask) {
    let asked: Vec<_> =
        (0..).zip(agents).map(|(seat, hello)| (subjects::agent(&hello.id), ask(seat), hello.name.clone())).collect();
    let silent = bus.ask_each::<_, Say>(&asked, "anything", WITHIN).into_iter().filter(Result::is_err).count();
    assert!(silent == 0, "{silent} agents did not answer");
}

fn part(seat: u32, shards: u32) -> Part {
    Part {
        run: 1,
        name: "simulation".to_owned(),
        seat,
        shard: seat,
        shards,
        first_ns: 0,
        spec: serde_json::Value::String("x".repeat(SPEC)),
        source: Source::Stream,
        trace: Vec::new(),
        ahead_ns: 10_000_000_000,
        from_ns: None,
        tls_ca: None,
    }
}

/// Connects so many agents, each by a connection of its own, and has them answer.
fn begin(runtime: &Runtime, url: &str, count: usize, traffic: &Arc<Traffic>) -> Result<(), async_nats::Error> {
    let (user, rest) = url.trim_start_matches("nats://").split_once(':').unwrap_or_default();
    let (password, address) = rest.split_once('@').unwrap_or_default();
    let latencies = told();
    runtime.block_on(async {
        let connect = |number: usize| {
            let options = ConnectOptions::new().user_and_password(user.to_owned(), password.to_owned());
            let (latencies, traffic) = (latencies.clone(), Arc::clone(traffic));
            async move {
                let client = options.connect(address).await?;
                let hello = hello(number);
                let mut everybody = client.subscribe(subjects::AGENTS).await?;
                let mut own = client.subscribe(subjects::agent(&hello.id)).await?;
                client.flush().await?;
                tokio::spawn(async move {
                    loop {
                        let message = tokio::select! {
                            message = everybody.next() => message,
                            message = own.next() => message,
                        };
                        let received_ns = clock::monotonic_ns();
                        let Some(message) = message else { return };
                        let (Some(reply), Ok(ask)) = (message.reply, serde_json::from_slice(&message.payload)) else {
                            continue;
                        };
                        let say = serde_json::to_vec(&answer(ask, received_ns, &hello, &latencies)).unwrap_or_default();
                        traffic.questions.fetch_add(1, Ordering::Relaxed);
                        traffic.octets.fetch_add((message.payload.len() + say.len()) as u64, Ordering::Relaxed);
                        // A controller that is gone needs no answer.
                        let _ = client.publish(reply, say.into()).await;
                    }
                });
                Ok::<_, async_nats::Error>(())
            }
        };
        for some in (0..count).collect::<Vec<_>>().chunks(50) {
            try_join_all(some.iter().map(|&number| connect(number))).await?;
        }
        Ok(())
    })
}

fn hello(number: usize) -> Hello {
    Hello {
        protocol: PROTOCOL,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        name: format!("host-{number}"),
        id: format!("simulated{number}"),
        cores: WORKERS,
        files: 500_000,
        ports: 28_232,
        sources: Vec::new(),
        clock: "chrony".to_owned(),
        // As on another host, so that the exchanges count.
        boot: String::new(),
        program: format!("simulated{number}"),
        network: number as u64,
        run: None,
    }
}

/// Latencies of a hundred thousand queries, as wide as those of a busy server.
fn told() -> LatencyCounts {
    let latencies = Latencies::default();
    let answered = |number: i64| Outcome {
        status: Status::Answered,
        submitted: Some(RunTime(0)),
        answered: Some(RunTime(100_000 + number * number % 50_000_000)),
        ..Outcome::EMPTY
    };
    latencies.observe(&(0..100_000).map(answered).collect::<Vec<_>>());
    latencies.counts()
}

fn answer(ask: Ask, received_ns: i64, hello: &Hello, latencies: &LatencyCounts) -> Say {
    match ask {
        Ask::Who => Say::Hello(hello.clone()),
        Ask::Clock => Say::Clock { received_ns, answered_ns: clock::monotonic_ns() },
        Ask::Progress { latencies: with, .. } => {
            let worker = WorkerFigures {
                sent: 12_345_678,
                answered: 12_345_000,
                timed_out: 678,
                lag_s: 1.25e-5,
                ..WorkerFigures::default()
            };
            let figures = Snapshot { run_s: 12.345, workers: vec![worker; WORKERS], ..Snapshot::default() };
            let latencies = with.then(|| latencies.clone());
            Say::Progress(Progress { stage: Stage::Running, figures, latencies, read_to_ns: Some(1), skipped: 0 })
        }
        _ => Say::Done,
    }
}
