//! What the host of a run may have changed: queries were late, or a side waited for a core; and which percentiles of latency that touches.

use crate::analysis::needed;
use crate::limits::TimingLimits;
use crate::model::{Good, RunReport, Spread, Summary, Tail, Waited};
use crate::numbers::fixed;

/// Lateness, or a wait, matters from this share of a latency on.
const MATTERS: f64 = 0.1;

/// A share of waiting up to which nothing is told from slow wake-ups: alone at 200 queries a second, runs with less had a 99.9th percentile below
/// 0.5 ms, and most of those with more one of some milliseconds.
const WAKING: f64 = 0.002;

/// A percentile of latency.
#[derive(Clone, Copy)]
pub struct Percentile {
    /// Its name in run.json.
    name: &'static str,
    /// From 0 to 1.
    quantile: f64,
    /// Whether a run claims it where it has enough queries: the verdict is about it.
    is_claimed: bool,
    read: fn(&Tail) -> Option<f64>,
}

/// The percentiles that carry a mark.
const PERCENTILES: [Percentile; 5] = [
    Percentile { name: "p50", quantile: 0.5, is_claimed: true, read: |tail| tail.p50 },
    Percentile { name: "p90", quantile: 0.9, is_claimed: true, read: |tail| tail.p90 },
    Percentile { name: "p95", quantile: 0.95, is_claimed: false, read: |tail| tail.p95 },
    Percentile { name: "p99", quantile: 0.99, is_claimed: true, read: |tail| tail.p99 },
    Percentile { name: "p999", quantile: 0.999, is_claimed: false, read: |tail| tail.p999 },
];

/// What the host did.
pub struct Host {
    /// How late queries were, and may be; `None` where nothing was due at a time.
    lateness: Option<(Spread, TimingLimits)>,
    /// How long the server waited for a core; not at all where that is not known.
    server: Wait,
    /// The same of the workers, by the share of the queries whose answers they take the time of themselves: over connections.
    client: Wait,
}

impl Host {
    /// The host of a run.
    pub fn of(report: &RunReport) -> Self {
        let summary = &report.summary;
        let wait = |waited: Option<Waited>, part| waited.map_or(Wait::default(), |waited| Wait::of(waited, part));
        let server = summary.cpu_wait.server.filter(|_| !report.has_quota());
        Self {
            lateness: summary.timing.error_us.zip(report.limits.timing),
            server: wait(server, 1.0),
            client: wait(summary.cpu_wait.client, over_connections(summary)),
        }
    }

    /// Marks the percentiles of both latencies.
    pub fn mark(&self, summary: &mut Summary) {
        let latency = &mut summary.latency_ms;
        [&mut latency.from_intended, &mut latency.from_sent]
            .into_iter()
            .for_each(|tail| tail.good = Some(self.good(tail)));
    }

    fn good(&self, tail: &Tail) -> Good {
        let judge = |percentile: &Percentile| {
            let touched_by = |wait: Wait| wait.touches(percentile, tail);
            let touched = self.is_late(percentile, tail) || touched_by(self.server) || touched_by(self.client);
            percentile.is_judged(tail).then_some(!touched)
        };
        let [p50, p90, p95, p99, p999] = PERCENTILES.each_ref().map(judge);
        Good { p50, p90, p95, p99, p999 }
    }

    /// How late queries of a percentile were, in microseconds, and how late they may be.
    fn lateness_us(&self, percentile: &Percentile) -> Option<(f64, f64)> {
        let (error, limits) = self.lateness?;
        Some(match percentile.name {
            "p50" => (error.p25.abs().max(error.p75.abs()), limits.quartile_us),
            "p90" => (error.p90, limits.p99_us),
            // The 95th percentile of lateness is not kept, and is no higher.
            "p95" | "p99" => (error.p99, limits.p99_us),
            _ => (error.p999, limits.p99_us),
        })
    }

    /// Whether lateness may have changed a percentile: it is beyond the limit, and more than a tenth of it.
    fn is_late(&self, percentile: &Percentile, tail: &Tail) -> bool {
        let Some((late, limit)) = self.lateness_us(percentile) else { return false };
        // One that falls among the unanswered is endless.
        let latency_us = (percentile.read)(tail).map_or(f64::INFINITY, |ms| ms * 1e3);
        late > limit && late > latency_us * MATTERS
    }

    /// The claimed percentiles that lateness touches, in words.
    pub fn touched_by_lateness(&self, summary: &Summary) -> Vec<String> {
        claimed(summary, |percentile, tail| self.is_late(percentile, tail))
    }
}

impl Percentile {
    /// Whether so many queries are beyond it that it says something of them all.
    fn is_judged(&self, tail: &Tail) -> bool {
        tail.queries >= needed(self.quantile)
    }
}

/// How long a side waited for a core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// As a part of the time, and of the queries that it touches.
    share: f64,
    /// No single wait was longer, in seconds.
    most_s: f64,
}

impl Wait {
    /// That of a side, which touches this part of the queries.
    pub fn of(waited: Waited, part: f64) -> Self {
        Self { share: waited.share * part, most_s: waited.most_s.unwrap_or(f64::INFINITY) }
    }

    /// Queries arrive at any time: those that did while the side waited are as many as half of those beyond the percentile. Between runs
    /// alone and with a neighbour, this limit was right in all of 160 (docs/benchmarks/verdicts.md).
    fn is_often_enough(self, percentile: &Percentile) -> bool {
        self.share > wait_limit(percentile.quantile)
    }

    /// Whether it may have changed a percentile: waits were many, and one of them may have been a tenth of that.
    fn touches(self, percentile: &Percentile, tail: &Tail) -> bool {
        let matters_s = (percentile.read)(tail).map_or(0.0, |ms| ms / 1e3 * MATTERS);
        self.is_often_enough(percentile) && self.most_s >= matters_s
    }

    /// The claimed percentiles that it may have changed, in words.
    pub fn touched(self, summary: &Summary) -> Vec<String> {
        claimed(summary, |percentile, tail| self.touches(percentile, tail))
    }

    /// Whether there were enough waits to change a percentile that is claimed.
    pub fn is_long(self, summary: &Summary) -> bool {
        !claimed(summary, |percentile, _| self.is_often_enough(percentile)).is_empty()
    }
}

/// The share of the time for which a side may wait, so that it touches no percentile up to a quantile.
pub fn wait_limit(quantile: f64) -> f64 {
    ((1.0 - quantile) / 2.0).max(WAKING)
}

/// The share of the queries that went over anything but UDP, whose answers the kernel stamps.
pub fn over_connections(summary: &Summary) -> f64 {
    let by_transport = &summary.queries.sent_by_transport;
    let all: u64 = by_transport.values().sum();
    let over_udp = by_transport.get("udp").copied().unwrap_or(0);
    if all == 0 { 0.0 } else { (all - over_udp) as f64 / all as f64 }
}

fn claimed(summary: &Summary, is_touched: impl Fn(&Percentile, &Tail) -> bool) -> Vec<String> {
    let of = |percentile: &Percentile| {
        let tails = [&summary.latency_ms.from_sent, &summary.latency_ms.from_intended];
        let tail = tails.into_iter().find(|tail| percentile.is_judged(tail) && is_touched(percentile, tail))?;
        let shown = (percentile.read)(tail).map_or("unanswered".to_owned(), |ms| format!("{} ms", fixed(ms, 3)));
        Some(format!("{} ({shown})", percentile.name))
    };
    PERCENTILES.iter().filter(|percentile| percentile.is_claimed).filter_map(of).collect()
}
