//! The points of the report's figures, few enough to embed in a page.

use ldplayer_core::{Answer, Transport};
use serde::Serialize;

use super::accounts::Activity;
pub use super::curve::Curve;
use super::ordered::CONNECTIONS;
use super::slices::needed;
use super::spread::{Censored, Spread};
use super::timeline::{Timeline, Windows, partial};
use crate::model::Summary;

/// Points of a curve.
const POINTS: usize = 400;
/// Points of a curve where there are many.
const CLASS_POINTS: usize = 100;
/// Points of the slow side of the latency curve.
const TAIL_POINTS: i32 = 160;
/// Points of a figure over time; longer runs are merged to this many.
pub const TIME_POINTS: usize = 600;

/// All figures.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Timing error by slice of time.
    pub boxes: Vec<Box5>,
    /// Cumulative timing error.
    pub error_cdf: Vec<Point>,
    /// Cumulative gaps between queries, recorded and replayed.
    pub gaps: Vec<Point>,
    /// Rate by time.
    pub rate: Vec<RatePoint>,
    /// Cumulative rate error in 1-s and 0.1-s windows.
    pub rate_cdf: Vec<Point>,
    /// Cumulative time of lookups, and of their attempts.
    pub lookup_time: Vec<Point>,
    /// First attempts and retries per second.
    pub attempts_time: Vec<Point>,
    /// Queries and answers per second.
    pub throughput: Vec<Point>,
    /// Queries per second by how their answers compare with the expected ones.
    pub compared_time: Vec<Point>,
    /// Responses by code, and queries without one.
    pub rcodes: Vec<Bar>,
    /// Answers per second by code, by when their queries were sent.
    pub rcodes_time: Vec<Point>,
    /// Queries per second that have no answer, by when they were sent.
    pub without_time: Vec<Point>,
    /// Megabits per second of queries and responses.
    pub mbps_time: Vec<Point>,
    /// Percentiles of latency over time.
    pub latency_time: Vec<LatencyPoint>,
    /// What the slices of the percentiles are like.
    pub latency_slices: Vec<LatencySlices>,
    /// How the latency of answered queries is spread.
    pub latency_histogram: Vec<Bucket>,
    /// The slow side of latency.
    pub latency_tail: Vec<Point>,
    /// Milliseconds from sent within which 0, 1, … 100 % were answered.
    pub latency_cdf: Vec<Point>,
    /// Cumulative latency by how busy the client is.
    pub latency_activity: Vec<Point>,
    /// Cumulative latency by transport and how a query came by its connection.
    pub latency_connections: Vec<Point>,
    /// Connections open, and the kernel's sockets in TIME_WAIT, over time.
    pub connections_time: Vec<Point>,
    /// Connections per second: opened, resumed, failed, closed.
    pub handshakes: Vec<Point>,
    /// Cores used by both ends.
    pub cpu_time: Vec<Point>,
    /// Bytes of memory of both ends and of the kernel.
    pub memory_time: Vec<Point>,
    /// TCP sockets of the server by state.
    pub server_sockets: Vec<Point>,
    /// TCP sockets of the client by state.
    pub client_sockets: Vec<Point>,
    /// Datagrams and connections lost per second, and segments sent again.
    pub losses_time: Vec<Point>,
    /// Bytes per second in the namespaces of both ends.
    pub traffic_time: Vec<Point>,
    /// Context switches per second.
    pub switches_time: Vec<Point>,
}

/// A point of a named curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
    /// Which curve.
    pub of: Curve,
}

/// A bar.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// What programs tell it apart by.
    pub key: String,
    /// What is counted.
    pub name: String,
    /// How many.
    pub n: u64,
    /// Whether these queries have a response.
    pub answered: bool,
}

/// A bar of a histogram of latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// Where it begins, in milliseconds.
    pub from: f64,
    /// Where the next one begins.
    pub to: f64,
    /// Queries in it.
    pub n: u64,
}

/// A box with whiskers, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Box5 {
    /// Beginning of the slice of time, in seconds.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Queries in it.
    pub queries: u64,
    /// 1st percentile; `null` where there are too few queries for it.
    pub p1: Option<f64>,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// 99th percentile; `null` where there are too few queries for it.
    pub p99: Option<f64>,
}

/// Rate of a stretch of time.
#[derive(Clone, Debug, Serialize)]
pub struct RatePoint {
    /// Start in seconds.
    pub t: f64,
    /// (sent − due) / due in percent.
    pub percent: f64,
}

/// A percentile of latency in a slice of time.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyPoint {
    /// Middle of the slice, in seconds.
    pub t: f64,
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Queries in it.
    pub queries: u64,
    /// The percentile in milliseconds; `null` where it falls among unanswered queries.
    pub ms: Option<f64>,
    /// Which percentile.
    pub of: Curve,
}

/// What the slices of a percentile are like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencySlices {
    /// Which percentile.
    pub of: Curve,
    /// Queries that a slice has at least.
    pub least: u64,
    /// The number of slices; 0 if the whole run has too few queries.
    pub slices: usize,
    /// The narrowest of them in seconds.
    pub narrowest_s: f64,
    /// The widest of them in seconds.
    pub widest_s: f64,
}

impl Box5 {
    /// The box of a distribution that has at least one figure, in a slice from one second to another.
    pub fn new((from, to): (f64, f64), mut errors: Spread) -> Self {
        let queries = errors.len();
        let mut us = |quantile| errors.quantile(quantile).unwrap_or_default() as f64 / 1e3;
        let (p1, p99) = (us(0.01), us(0.99));
        let if_enough = |percentile| Some(percentile).filter(|_| queries >= needed(0.99));
        Self { from, to, queries, p1: if_enough(p1), p25: us(0.25), p50: us(0.5), p75: us(0.75), p99: if_enough(p99) }
    }
}

impl LatencySlices {
    /// Of the points of one percentile.
    pub fn new(of: Curve, least: u64, points: &[LatencyPoint]) -> Self {
        let widths = || points.iter().map(|point| point.to - point.from);
        let narrowest_s = widths().min_by(f64::total_cmp).unwrap_or(0.0);
        Self { of, least, slices: points.len(), narrowest_s, widest_s: widths().fold(0.0, f64::max) }
    }
}

/// Makes the figures of a run.
pub fn draw(timeline: &mut Timeline, summary: &Summary) -> Figures {
    let scheduled = timeline.scheduled();
    let mut rate_cdf = window_cdf(&timeline.seconds, scheduled, Curve::Seconds);
    rate_cdf.extend(window_cdf(&timeline.tenths, scheduled, Curve::Tenths));
    let mut gaps = gap_cdf(&mut timeline.gaps_due, Curve::Recorded);
    gaps.extend(gap_cdf(&mut timeline.gaps_sent, Curve::Replayed));
    let (latency_time, latency_slices) = timeline.latency_over_time();
    let (sending, answering) = (timeline.sending(), timeline.answering());
    Figures {
        boxes: timeline.boxes(),
        error_cdf: cdf(&mut timeline.errors, 1e-3, Curve::Error),
        gaps,
        rate: rate_over_time(&timeline.seconds, scheduled),
        rate_cdf,
        throughput: timeline.outcomes.throughput(sending, answering),
        rcodes_time: timeline.outcomes.by_code(sending),
        without_time: timeline.outcomes.without(sending.max(scheduled)),
        mbps_time: timeline.outcomes.megabits(answering),
        compared_time: compared(timeline),
        rcodes: rcodes(summary),
        latency_time,
        latency_slices,
        latency_histogram: timeline.outcomes.histogram(),
        latency_tail: latency_tail(timeline),
        latency_cdf: latency_cdf(&mut timeline.from_sent, Curve::FromSent),
        latency_activity: latency_activity(timeline),
        latency_connections: latency_connections(timeline),
        ..Figures::default()
    }
}

/// A cumulative curve with more points towards both ends.
fn cdf(spread: &mut Spread, scale: f64, of: Curve) -> Vec<Point> {
    let half = POINTS / 2;
    let low = (0..=half).map(|at| 0.5 * 10f64.powf(-4.0 * (1.0 - at as f64 / half as f64)));
    let mut shares: Vec<f64> = low.collect();
    shares.extend(shares.clone().into_iter().rev().map(|share| 1.0 - share));
    let point = |share| spread.quantile(share).map(|ns| Point { x: ns as f64 * scale, y: share * 100.0, of });
    shares.into_iter().filter_map(point).collect()
}

/// Gaps in seconds for a logarithmic axis; queries at the same moment are put at its lower end, 100 ns.
fn gap_cdf(gaps: &mut Spread, of: Curve) -> Vec<Point> {
    let mut points = cdf(gaps, 1e-9, of);
    points.iter_mut().for_each(|point| point.x = point.x.max(1e-7));
    points
}

fn window_cdf(windows: &Windows, scheduled: i64, of: Curve) -> Vec<Point> {
    let mut errors: Vec<f64> = windows.whole(scheduled).filter_map(|(_, counts)| percent(counts)).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let step = errors.len().div_ceil(POINTS).max(1);
    let last = errors.len().saturating_sub(1);
    let share = |at: usize| (at + 1) as f64 * 100.0 / errors.len() as f64;
    let chosen = (0..errors.len()).filter(|&at| at % step == 0 || at == last);
    chosen.map(|at| Point { x: errors[at], y: share(at), of }).collect()
}

/// The rate error of a window in percent; `None` when nothing was due in it.
pub fn percent((due, sent): (u64, u64)) -> Option<f64> {
    (due > 0).then(|| (sent as f64 - due as f64) * 100.0 / due as f64)
}

/// Of merged windows the worst is shown, so that merging hides nothing.
fn rate_over_time(windows: &Windows, scheduled: i64) -> Vec<RatePoint> {
    let mut counts: Vec<(u64, u64)> = windows.counts().collect();
    // Nothing is drawn where nothing was due.
    partial(scheduled, windows.length())
        .and_then(|at| counts.get_mut(at))
        .into_iter()
        .for_each(|counts| *counts = (0, 0));
    let step = counts.len().div_ceil(TIME_POINTS).max(1);
    let worst = |chunk: &[(u64, u64)]| {
        chunk.iter().filter_map(|&count| percent(count)).max_by(|a, b| a.abs().total_cmp(&b.abs()))
    };
    let point = |(at, chunk): (usize, &[(u64, u64)])| {
        worst(chunk).map(|percent| RatePoint { t: (at * step) as f64 * windows.length_s(), percent })
    };
    counts.chunks(step).enumerate().filter_map(point).collect()
}

/// Curves of the comparisons that there are, each over the whole of the run: a curve that ends has not gone to zero. A run of less
/// than a second has that one.
fn compared(timeline: &Timeline) -> Vec<Point> {
    let seconds = timeline.compared.iter().map(Vec::len).max().unwrap_or(0);
    let seconds = partial(timeline.scheduled(), timeline.seconds.length()).unwrap_or(seconds).clamp(1, seconds.max(1));
    let there = Answer::ALL.into_iter().zip(&timeline.compared).filter(|(_, counts)| !counts.is_empty());
    let curve = |(answer, counts): (Answer, &Vec<u64>)| {
        let mut whole = counts.clone();
        whole.resize(seconds, 0);
        per_second(&whole, Curve::Compared(answer))
    };
    there.flat_map(curve).collect()
}

/// Counts by second as a curve.
pub fn per_second(counts: &[u64], of: Curve) -> Vec<Point> {
    let step = counts.len().div_ceil(TIME_POINTS).max(1);
    let mean = |chunk: &[u64]| chunk.iter().sum::<u64>() as f64 / chunk.len() as f64;
    let point = |(at, chunk): (usize, &[u64])| Point { x: (at * step) as f64, y: mean(chunk), of };
    counts.chunks(step).enumerate().map(point).collect()
}

fn rcodes(summary: &Summary) -> Vec<Bar> {
    let answered = |(name, &n): (&String, &u64)| Bar { key: name.clone(), name: name.clone(), n, answered: true };
    let mut bars: Vec<Bar> = summary.rcodes.iter().map(answered).collect();
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.n));
    let queries = &summary.queries;
    let without =
        [(Curve::TimedOut, queries.timed_out), (Curve::Failed, queries.failed), (Curve::NotSent, queries.not_sent)];
    let unanswered = |(of, n): (Curve, u64)| Bar { key: of.key(), name: of.legend(), n, answered: false };
    bars.extend(without.into_iter().filter(|&(_, n)| n > 0).map(unanswered));
    bars
}

fn latency_tail(timeline: &mut Timeline) -> Vec<Point> {
    let mut points = tail_curve(&mut timeline.from_sent, Curve::FromSent);
    points.extend(tail_curve(&mut timeline.from_intended, Curve::FromDue));
    let used: Vec<usize> = (0..timeline.by_transport.len()).filter(|&at| timeline.by_transport[at].len() > 0).collect();
    if used.len() > 1 {
        for at in used {
            points.extend(tail_curve(&mut timeline.by_transport[at], Curve::Over(Transport::ALL[at])));
        }
    }
    points
}

fn latency_activity(timeline: &mut Timeline) -> Vec<Point> {
    let volumes = Activity::VOLUMES.iter().zip(&mut timeline.by_volume);
    let volumes = volumes.map(|(name, latency)| (Curve::Clients(name), latency));
    let busiest = timeline.by_rank.first_mut().map(|latency| (Curve::Clients(Activity::RANKS[0]), latency));
    volumes.chain(busiest).flat_map(|(of, latency)| latency_cdf(latency, of)).collect()
}

fn latency_connections(timeline: &mut Timeline) -> Vec<Point> {
    let transports = Transport::ALL.iter().zip(&mut timeline.by_transport_and_connection);
    let curves = transports.flat_map(|(transport, classes)| {
        CONNECTIONS.iter().zip(classes).map(move |(class, latency)| (Curve::Connection(*transport, class), latency))
    });
    curves.flat_map(|(of, latency)| latency_cdf(latency, of)).collect()
}

/// Share of the queries answered within a time. It ends where the queries do that were answered.
pub fn latency_cdf(latency: &mut Censored, of: Curve) -> Vec<Point> {
    let shares = (0..=CLASS_POINTS).map(|at| at as f64 / CLASS_POINTS as f64);
    let point = |share: f64| Some(Point { x: latency.quantile_ms(share)?.max(1e-3), y: share * 100.0, of });
    shares.map(point).take_while(Option::is_some).flatten().collect()
}

/// Latency by the share of queries that are slower: 100 % down to the slowest one, evenly on a logarithmic axis.
fn tail_curve(latency: &mut Censored, of: Curve) -> Vec<Point> {
    if latency.len() == 0 {
        return Vec::new();
    }
    let lowest = (1.0 / latency.len() as f64).max(1e-6).log10();
    let slower = (0..=TAIL_POINTS).map(|at| 10f64.powf(lowest * f64::from(at) / f64::from(TAIL_POINTS)));
    let point = |slower: f64| {
        let ms = latency.quantile_ms(1.0 - slower)?;
        Some(Point { x: slower * 100.0, y: ms.max(1e-3), of })
    };
    slower.map(point).take_while(Option::is_some).flatten().collect()
}
