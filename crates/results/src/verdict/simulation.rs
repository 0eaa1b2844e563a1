//! Verdicts about a simulated core that a server shares with a neighbour: what is right is known, since each run is also made without the neighbour.

use super::host::Host;
use super::timing;
use crate::RunReport;
use crate::analysis::spread::{Censored, Spread};
use crate::limits::VerdictLimits;
use crate::model::{CpuWait, Good, Latency, Queries, Rate, RateError, Summary, Tail, Timing, Waited};

const RUNS: u64 = 40;
const RUN_NS: i64 = 1_000_000_000;
/// The neighbour takes this much …
const BURST_NS: i64 = 3_000_000;
/// … of each such period.
const PERIOD_NS: i64 = 10_000_000;
/// Waking up, which is no waiting for a core up to there.
const WAKE_NS: i64 = 10_000;
/// What the server takes for a query, and the network and the kernel besides.
const SERVICE_NS: i64 = 15_000;
const AROUND_NS: i64 = 20_000;
/// A figure is another one if it changes by more than a tenth.
const CHANGED: f64 = 1.1;

/// Pseudo-random numbers, the same for each seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A core: whoever wakes up gets it at once, but with a neighbour only with this probability while that has it.
#[derive(Clone, Copy)]
struct Core {
    preempts: Option<f64>,
}

impl Core {
    const ALONE: Self = Self { preempts: None };

    /// How long someone waits who wakes up then.
    fn wait(self, at: i64, random: &mut Random) -> i64 {
        // The same numbers are drawn alone, so that a run differs by the neighbour only.
        let (waking, draw) = ((random.share() * 8_000.0) as i64, random.share());
        let left = BURST_NS - at % PERIOD_NS;
        match self.preempts {
            Some(preempts) if left > 0 && draw >= preempts => left,
            _ => waking,
        }
    }
}

/// What a run of a sender and a server on a core each gives.
fn run(qps: f64, seed: u64, client: Core, server: Core) -> RunReport {
    let [mut arrivals, mut of_client, mut of_server] = [1, 2, 3].map(|part| Random(seed * 1_000 + part));
    let (mut late, mut sent, mut due_at) = (Spread::default(), Censored::default(), Censored::default());
    let (mut due, mut client_free, mut server_free, mut waited) = (0, 0, 0, [0; 2]);
    loop {
        due += (-(1.0 - arrivals.share()).ln() / qps * 1e9) as i64;
        if due >= RUN_NS {
            break;
        }
        let wait = client.wait(due.max(client_free), &mut of_client);
        waited[0] += (wait - WAKE_NS).max(0);
        let submitted = due.max(client_free) + wait;
        client_free = submitted;
        // A server that has work goes on with it; only one that slept has to get its core back.
        let arrived = submitted + AROUND_NS;
        let wait = if arrived >= server_free { server.wait(arrived, &mut of_server) } else { 0 };
        waited[1] += (wait - WAKE_NS).max(0);
        server_free = arrived.max(server_free) + wait + SERVICE_NS;
        late.push(submitted - due);
        sent.push(Some(server_free - submitted));
        due_at.push(Some(server_free - due));
    }
    report(late, sent.tail(), due_at.tail(), waited)
}

fn report(mut late: Spread, from_sent: Tail, from_intended: Tail, waited: [i64; 2]) -> RunReport {
    let sent = from_sent.queries;
    let [client, server] = waited.map(|ns| {
        let share = ns as f64 / RUN_NS as f64;
        Some(Waited { seconds: ns as f64 / 1e9, share, most_s: None })
    });
    let summary = Summary {
        queries: Queries { sent, sent_by_transport: [("udp".to_owned(), sent)].into(), ..Queries::default() },
        timing: Timing { error_us: late.summary_us(), ..Timing::default() },
        latency_ms: Latency { from_sent, from_intended, ..Latency::default() },
        rate: Rate { window_s: 1.0, windows: 1, error_percent: Some(RateError::default()), ..Rate::default() },
        cpu_wait: CpuWait { server, client, others_cores: Some(0.3) },
        ..Summary::default()
    };
    let mut report = RunReport { summary, limits: VerdictLimits::NORMAL, ..RunReport::default() };
    Host::of(&report).mark(&mut report.summary);
    report
}

/// Whether the verdict is that nothing of the host spoilt the run.
fn is_fine(run: &RunReport) -> bool {
    timing::checks(&run.summary, &run.limits, &Host::of(run), false).iter().all(|check| check.ok)
}

/// The median, the 90th and the 99th percentile.
fn claimed(tail: &Tail) -> [f64; 3] {
    [tail.p50, tail.p90, tail.p99].map(|ms| ms.unwrap_or(f64::INFINITY))
}

fn marks(good: Option<Good>) -> [Option<bool>; 3] {
    good.map_or([None; 3], |good| [good.p50, good.p90, good.p99])
}

/// How many verdicts are right, and how many percentiles of both latencies are marked as good that the neighbour has changed.
fn judged(qps: f64, client: Core, server: Core) -> (u64, usize) {
    let (mut verdicts, mut flattering) = (0, 0);
    for seed in 0..RUNS {
        let [alone, found] = [(Core::ALONE, Core::ALONE), (client, server)].map(|(c, s)| run(qps, seed, c, s));
        let tails = |run: &RunReport| [run.summary.latency_ms.from_sent, run.summary.latency_ms.from_intended];
        let mut is_changed = false;
        for (was, is) in tails(&alone).iter().zip(&tails(&found)) {
            for ((was, is), mark) in claimed(was).into_iter().zip(claimed(is)).zip(marks(is.good)) {
                let changed = is > was * CHANGED;
                is_changed |= changed;
                flattering += usize::from(changed && mark == Some(true));
            }
        }
        verdicts += u64::from(is_fine(&found) != is_changed);
    }
    (verdicts, flattering)
}

/// The percentiles of both latencies in all runs.
const MARKS: usize = RUNS as usize * 6;

#[test]
fn with_and_without_a_neighbour_19_of_20_verdicts_are_right_and_marks_do_not_flatter() {
    let with = |preempts| Core { preempts: Some(preempts) };
    let situations = [
        ("alone", Core::ALONE, Core::ALONE),
        ("on the server's core", Core::ALONE, with(0.9)),
        ("on the server's core, which seldom gets it back", Core::ALONE, with(0.6)),
        ("on the client's core", with(0.0), Core::ALONE),
    ];
    for (who, client, server) in situations {
        for qps in [2_000.0, 10_000.0] {
            let (verdicts, flattering) = judged(qps, client, server);
            assert!(verdicts * 20 >= RUNS * 19, "{who}, {qps} queries/s: {verdicts} of {RUNS} verdicts");
            assert!(flattering * 20 <= MARKS, "{who}, {qps} queries/s: {flattering} of {MARKS} marks");
        }
    }
}
