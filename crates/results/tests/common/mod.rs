//! Made-up outcomes for tests: a seeded run of some clients against a server that mostly answers.
#![allow(dead_code, reason = "every test uses another part")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use ldplayer_core::damage::Tally;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Outcome, Reason, RunTime, Stalls, Status, TraceTime, Transport};
use ldplayer_net::machine::Facts;
use ldplayer_results::{
    Connections, Environment, Figure, Recorder, RunConfig, RunEnd, RunReport, RunSetup, Side, TelemetrySample,
    VerdictLimits, Warning, WarningCode,
};
use serde_json::json;

/// What the runs are asked for as.
pub const SPEC: &str = "a spec";

/// A small generator of numbers (splitmix64), so that every run of a test sees the same.
pub struct Numbers(pub u64);

impl Numbers {
    /// Evenly in 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A query that was answered 1 ms after it was sent, exactly on time.
pub fn outcome(index: u64, intended: i64) -> Outcome {
    Outcome {
        index,
        client: Ipv4Addr::new(192, 0, 2, (index % 250) as u8).into(),
        client_port: 40_000,
        server: SocketAddr::new(Ipv4Addr::new(198, 51, 100, 1).into(), 53),
        transport: Transport::Udp,
        intended: RunTime(intended),
        submitted: Some(RunTime(intended)),
        answered: Some(RunTime(intended + 1_000_000)),
        status: Status::Answered,
        rcode: Some(0),
        aa: true,
        query_bytes: 45,
        response_bytes: 320,
        ..Outcome::EMPTY
    }
}

/// The row without an answer.
pub fn unanswered(mut outcome: Outcome) -> Outcome {
    (outcome.answered, outcome.rcode, outcome.response_bytes) = (None, None, 0);
    outcome.status = Status::Timeout;
    outcome
}

/// The row of a query that was never sent.
pub fn unsent(outcome: Outcome, reason: Reason) -> Outcome {
    Outcome { status: Status::NotSent, reason: Some(reason), submitted: None, ..unanswered(outcome) }
}

/// Poisson arrivals over `seconds`, with jitter, tails, timeouts, several rcodes, strays and late answers.
pub fn lifelike(seconds: f64, rate: f64) -> Vec<Outcome> {
    let mut numbers = Numbers(7);
    let mut rows = Vec::new();
    let mut due = 0.3e9;
    while due < (seconds + 0.3) * NS_PER_S as f64 {
        let row = lifelike_row(rows.len() as u64, due as i64, &mut numbers);
        rows.push(row);
        due += numbers.exponential(1e9 / rate);
    }
    for at in (500..rows.len()).step_by(1_000) {
        let extra = |status, reason| Outcome { status, reason, ..rows[at].clone() };
        let stray = Outcome { index: u64::MAX, ..extra(Status::Stray, Some(Reason::Duplicate)) };
        let extras = [stray, extra(Status::Late, None)];
        rows.extend(extras);
    }
    rows
}

fn lifelike_row(index: u64, due: i64, numbers: &mut Numbers) -> Outcome {
    let mut row = outcome(index, due);
    let client = (numbers.unit().powi(3) * 2_000.0) as u16;
    row.client = if client.is_multiple_of(5) {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, client))
    } else {
        IpAddr::V4(Ipv4Addr::new(192, 0, (client >> 8) as u8, client as u8))
    };
    let stall = if numbers.unit() < 0.002 { numbers.exponential(400_000.0) } else { 0.0 };
    let lateness = 2_000.0 + numbers.exponential(4_000.0) - 3_000.0 * numbers.unit() + stall;
    let submitted = due + lateness as i64;
    let slow = if numbers.unit() < 0.03 { numbers.exponential(30e6) } else { 0.0 };
    let swell = 1.0 + 0.5 * (due as f64 / 4e9).sin();
    let latency = 120_000.0 + numbers.exponential(90_000.0) * swell + slow;
    row.submitted = Some(RunTime(submitted));
    row.answered = Some(RunTime(submitted + latency as i64));
    row.rcode = Some([0, 0, 0, 0, 0, 3, 3, 3, 2, 5][(numbers.unit() * 10.0) as usize]);
    row.response_bytes = 100 + (numbers.unit() * 1_100.0) as u16;
    if numbers.unit() < 0.004 { unanswered(row) } else { row }
}

/// The same over connections: of each client one, until it has been idle for two seconds; every third client speaks TLS.
pub fn connected(seconds: f64, rate: f64) -> Vec<Outcome> {
    let mut rows = lifelike(seconds, rate);
    let mut last: HashMap<IpAddr, (u64, i64)> = HashMap::new();
    let (mut numbers, mut count) = (Numbers(8), 0);
    for row in rows.iter_mut().filter(|row| row.status.is_query()) {
        let before = last.get(&row.client).copied();
        row.reused = before.is_some_and(|(_, at)| row.intended.0 - at < 2 * NS_PER_S);
        count += u64::from(!row.reused);
        let number = before.filter(|_| row.reused).map_or(count, |(number, _)| number);
        last.insert(row.client, (number, row.intended.0));
        let is_tls = number.is_multiple_of(3);
        row.transport = if is_tls { Transport::Dot } else { Transport::Tcp };
        row.connection = Some(number);
        row.resumed = is_tls && before.is_some();
        let round_trips = if row.reused { 1 } else { 2 + 2 * i64::from(is_tls) };
        let trip = 100_000 + numbers.exponential(40_000.0) as i64;
        row.answered = row.answered.map(|at| RunTime(at.0 + round_trips * trip));
    }
    rows
}

/// What both ends of a run used, twice a second: a server that has not enough of anything in the middle of the run.
pub fn usage(seconds: i64) -> Vec<TelemetrySample> {
    let mut samples = Vec::new();
    let mut numbers = Numbers(9);
    let (mut cpu, mut lost) = (0.0, 0.0);
    for half in 0..=seconds * 2 {
        let (t, at) = (half as f64 / 2.0, RunTime(half * NS_PER_S / 2));
        let busy = 1.0 + 0.6 * (t / seconds as f64 * 3.1).sin() + 0.1 * numbers.unit();
        cpu += busy / 2.0;
        lost += if (0.4..0.5).contains(&(t / seconds as f64)) { (900.0 * numbers.unit()).round() } else { 0.0 };
        let mut sample =
            |side, figure, value: f64| samples.push(TelemetrySample { at, side, figure, value: Some(value) });
        for (side, share) in [(Side::Server, 1.0), (Side::Client, 0.4)] {
            sample(side, Figure::CpuSeconds, cpu * share);
            sample(side, Figure::RssBytes, 80e6 * share + 2e6 * t);
            sample(side, Figure::InBytes, (t * 4e6 * share).round());
            sample(side, Figure::OutBytes, (t * 9e6 * share).round());
            sample(side, Figure::VoluntarySwitches, (t * 9_000.0 * share).round());
            sample(side, Figure::InvoluntarySwitches, (t * 700.0 * share).round());
            sample(side, Figure::TcpMemoryBytes, 1e6 + 3e5 * busy);
            sample(side, Figure::SocketsEstablished, (800.0 * busy).round());
            sample(side, Figure::SocketsListen, 2.0);
            sample(side, Figure::SocketsTimeWait, (300.0 * (2.0 - busy)).round().max(0.0));
            sample(side, Figure::SocketsCloseWait, 0.0);
            sample(side, Figure::TcpRetransmitted, (lost / 50.0).round());
        }
        sample(Side::Server, Figure::PssBytes, 61e6 + 2e6 * t);
        sample(Side::Server, Figure::UdpSocketDrops, lost);
        sample(Side::Server, Figure::AcceptQueueOverflows, (lost / 9.0).round());
    }
    samples
}

/// The end of a run over connections, as the engine counted and sampled them.
pub fn end_connected(queries: u64, seconds: i64) -> RunEnd {
    let mut telemetry = Vec::new();
    for at in 0..seconds * 5 {
        let mut sample = |name: &'static str, value: f64| {
            let at = RunTime(at * NS_PER_S / 5);
            let figure = Figure::named(name).unwrap();
            telemetry.push(TelemetrySample { at, side: Side::Client, figure, value: Some(value) });
        };
        let open = 800.0 * (1.0 - (-at as f64 / 20.0).exp());
        sample("connections_open", open.round());
        sample("tcp_time_wait", (at as f64 * 5.0).min(300.0));
        sample("connections_opened", open.round() + at as f64 * 40.0);
        sample("connections_resumed", at as f64 * 11.0);
        sample("connections_failed", (at / 25) as f64);
        sample("connections_closed_by_client", at as f64 * 30.0);
        sample("connections_closed_by_server", at as f64 * 10.0);
    }
    telemetry.extend(usage(seconds));
    let closed = [("client_idle", 9_000), ("client_last_query", 40), ("server", 2_800), ("reset", 200)];
    let connections = Connections {
        opened: 12_800,
        failed: 12,
        resumed: 3_300,
        peak_open: 801,
        open_at_end: 760,
        closed: closed.map(|(name, count)| (name.to_owned(), count)).into(),
    };
    RunEnd { telemetry, connections: Some(connections), ..end(queries) }
}

fn config() -> RunConfig {
    let command_line = ["ldplayer", "replay", "b-root.pcap.xz"].map(str::to_owned).to_vec();
    [
        ("trace", json!(["b-root.pcap.xz"])),
        ("server", json!(["198.51.100.1:53"])),
        ("timing", json!("original")),
        ("transport", json!("as-recorded")),
        ("queries_per_connection", json!(7)),
        ("resumption", json!(true)),
        ("tls_port", json!(853)),
        ("sources", json!("original")),
        ("query_timeout", json!("5s")),
        ("precision", json!("high")),
        ("seed", json!(42)),
    ]
    .into_iter()
    .fold(RunConfig { command_line, ..RunConfig::default() }, |config, (key, value)| config.with(key, value))
}

/// A set-up with something to show in every table.
pub fn setup(workers: usize) -> RunSetup {
    RunSetup {
        config: config(),
        environment: Environment {
            machine: Facts { cores: 2, kernel: "6.18.0".to_owned(), ..Facts::default() },
            cpu_dma_latency: "0 us".to_owned(),
        },
        started: TraceTime(1_764_000_000_123_456_789),
        workers,
        trace_first: TraceTime(1_475_762_100_000_000_001),
        speed_note: Some("as fast as recorded".to_owned()),
        classes: vec!["dot-clients".to_owned(), "others".to_owned()],
        expect: Vec::new(),
    }
}

/// The end of a run through a trace of `queries`.
pub fn end(queries: u64) -> RunEnd {
    RunEnd {
        started: TraceTime(1_764_000_000_500_000_000),
        trace_queries: queries,
        warnings: vec![Warning::with_remedy(
            WarningCode::CpuStolen,
            "the host took 12 ms of CPU time",
            "run on a machine of your own",
        )],
        telemetry: vec![TelemetrySample {
            at: RunTime(0),
            side: Side::Client,
            figure: Figure::RssBytes,
            value: Some(1e8),
        }],
        limits: VerdictLimits::HIGH,
        stalls: Stalls { count: 2, total_ns: 8_000_000, longest_ns: 7_500_000 },
        tally: Tally { packets: 100_000, skipped: [("not_dns_port".into(), 12)].into(), ..Tally::default() },
        ..RunEnd::default()
    }
}

/// Records `rows` by two workers in the order in which they ended, and ends the run.
pub fn run(dir: &Path, rows: Vec<Outcome>) -> RunReport {
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    run_to(dir, rows, end(queries))
}

/// As [`run`], in the place of another run.
pub fn run_over(dir: &Path, rows: Vec<Outcome>) -> RunReport {
    let mut recorder = Recorder::create(dir, true, setup(1), SPEC).expect("a run directory");
    recorder.record(0, &rows).expect("rows are written");
    recorder.finish(end(rows.len() as u64)).expect("the run ends well").document.report
}

/// As [`run`], with another end.
pub fn run_to(dir: &Path, mut rows: Vec<Outcome>, end: RunEnd) -> RunReport {
    rows.sort_by_key(|row| row.answered.or(row.submitted).map_or(row.intended.0 + 5 * NS_PER_S, |time| time.0));
    let mut recorder = Recorder::create(dir, false, setup(2), SPEC).expect("a new run directory");
    let (even, odd): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.index % 2 == 0);
    for (worker, rows) in [even, odd].into_iter().enumerate() {
        rows.chunks(4_000).for_each(|batch| recorder.record(worker, batch).expect("rows are written"));
    }
    recorder.finish(end).expect("the run ends well").document.report
}
