//! From pairs to the figures of a line.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ldplayer_core::{Status, Transport};

use super::{Counts, Exchange, Fit, Line, MAX_POINTS, Pair, Peak, Point, Quantiles, RttClass, Wire, round_trips};

const NS_PER_MS: f64 = 1e6;
/// Points of a fit at most and at least.
const FITTED: usize = 400;
const FEWEST_FITTED: usize = 20;
/// How far apart the tenth and the ninetieth percentile of response times over UDP are at least where a line is fitted: as a ratio, and in milliseconds.
const APART: f64 = 1.5;
const APART_MS: f64 = 2.0;
/// Bins of the histogram in a ratio of 1.
const BINS: f64 = 100.0;
/// Width of the window in which most ratios are sought.
const WINDOW: f64 = 0.2;
/// Octets that fit in one segment on any path: the least MTU of IPv6 without the headers and options of IPv6 and TCP.
const ONE_SEGMENT: u16 = 1_280 - 40 - 32;
/// Octets of a response's length.
const LENGTH: u16 = 2;
/// A connection that took so much longer to come up than a response over UDP sent its SYN again, after the second that RFC 6298 §2
/// says, or nearly so long.
const SYN_AGAIN: i64 = 900_000_000;
/// An answer that comes so long after its connection waited, if that is so many response times over UDP, too.
const WAITED: i64 = 500_000_000;
const WAITED_TIMES: i64 = 10;
/// Borders of the classes of round-trip times, in milliseconds.
const CLASSES: [f64; 9] = [0.0, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0];
/// Code of a response without an error.
const NOERROR: u16 = 0;

/// The figures of a server's pairs, without findings.
pub fn line(server: String, transport: Transport, pairs: &[Pair]) -> Line {
    let ratios = sorted(pairs.iter().filter_map(ratio).collect());
    let counts = counts(pairs);
    let above = ratios.iter().filter(|&&ratio| ratio > 10.0).count();
    Line {
        server,
        transport: transport.as_str(),
        expected: round_trips(transport),
        failures: by_transport(transport, pairs, |exchange| failure(exchange).into_iter().collect()),
        rcodes: by_transport(transport, pairs, |exchange| {
            exchange.rcode.filter(|&code| code != NOERROR).into_iter().collect()
        }),
        ratio: quantiles(&ratios, 0),
        ratio_with_failures: quantiles(&ratios, counts.only_udp),
        peak: peak(&ratios),
        above_10_percent: percent(above as u64, counts.valid),
        histogram: histogram(&ratios),
        rtt_classes: classes(pairs),
        parts_ms: parts(pairs),
        wire: wire(pairs),
        fit: fit(pairs.iter().filter_map(|pair| Some((pair.udp.took?, pair.other.took?)))),
        points: points(pairs),
        pairs: counts,
        findings: Vec::new(),
        replay: Vec::new(),
    }
}

/// The ratio of a pair with both answers.
fn ratio(pair: &Pair) -> Option<f64> {
    let (udp, other) = pair.udp.took.zip(pair.other.took)?;
    Some(other as f64 / (udp as f64).max(1.0))
}

fn counts(pairs: &[Pair]) -> Counts {
    let mut counts = Counts { asked: pairs.len() as u64, ..Counts::default() };
    for pair in pairs {
        let ends = [&pair.udp, &pair.other].map(|exchange| exchange.took.is_some());
        let is_unsent = [&pair.udp, &pair.other].iter().any(|exchange| exchange.status == Status::NotSent);
        let of = match ends {
            _ if is_unsent => &mut counts.not_sent,
            [true, true] => &mut counts.valid,
            [true, false] => &mut counts.only_udp,
            [false, true] => &mut counts.only_other,
            [false, false] => &mut counts.neither,
        };
        *of += 1;
        counts.udp_truncated += u64::from(pair.udp.is_truncated);
        counts.second_connection += u64::from(pair.other.is_resent && ends[1]);
    }
    counts
}

/// Why a query that was sent was not answered.
fn failure(exchange: &Exchange) -> Option<String> {
    let has_failed = exchange.took.is_none() && exchange.status != Status::NotSent;
    has_failed.then(|| exchange.reason.clone().unwrap_or_else(|| exchange.status.as_str().to_owned()))
}

/// Counts words of the queries over UDP and over the other transport.
fn by_transport<W: Ord>(
    transport: Transport,
    pairs: &[Pair],
    words: impl Fn(&Exchange) -> Vec<W>,
) -> BTreeMap<&'static str, BTreeMap<W, u64>> {
    let mut all: BTreeMap<&'static str, BTreeMap<W, u64>> = BTreeMap::new();
    for pair in pairs {
        for (name, exchange) in [(Transport::Udp.as_str(), &pair.udp), (transport.as_str(), &pair.other)] {
            for word in words(exchange) {
                *all.entry(name).or_default().entry(word).or_default() += 1;
            }
        }
    }
    all
}

fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    figures
}

/// Quantiles of sorted figures and of so many endless ones (nearest rank).
pub fn quantiles(sorted: &[f64], endless: u64) -> Quantiles {
    let n = sorted.len() as u64 + endless;
    let at = |quantile: f64| sorted.get(((quantile * n as f64).ceil() as usize).max(1) - 1).copied();
    Quantiles { n, p10: at(0.1), p25: at(0.25), p50: at(0.5), p75: at(0.75), p90: at(0.9), p99: at(0.99), max: at(1.0) }
}

/// A part of a whole in percent; 0 where there is no whole.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Where most of the sorted ratios are, the lowest of several such places.
fn peak(ratios: &[f64]) -> Option<Peak> {
    let (mut best, mut from) = ((0, 0), 0);
    for (to, &ratio) in ratios.iter().enumerate() {
        while ratio - ratios[from] > WINDOW {
            from += 1;
        }
        if to + 1 - from > best.1 - best.0 {
            best = (from, to + 1);
        }
    }
    let inside = ratios.get(best.0..best.1).filter(|inside| !inside.is_empty())?;
    Some(Peak { at: inside[inside.len() / 2], percent: percent(inside.len() as u64, ratios.len() as u64) })
}

/// Bins of 1/100 that have a ratio, in percent of all.
fn histogram(ratios: &[f64]) -> Vec<(f64, f64)> {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for ratio in ratios {
        *bins.entry((ratio * BINS) as u64).or_default() += 1;
    }
    bins.into_iter().map(|(bin, count)| (bin as f64 / BINS, percent(count, ratios.len() as u64))).collect()
}

fn parts(pairs: &[Pair]) -> BTreeMap<&'static str, Quantiles> {
    let answered = || pairs.iter().map(|pair| &pair.other).filter(|exchange| exchange.took.is_some());
    let first = |exchange: &Exchange| {
        // From when the query could be written: the time before is reported apart.
        Some(exchange.took? - exchange.rest? - exchange.connect.unwrap_or(0) - exchange.handshake.unwrap_or(0))
    };
    let parts = [
        ("udp", of(pairs.iter().map(|pair| pair.udp.took))),
        ("total", of(answered().map(|exchange| exchange.took))),
        ("connect", of(answered().map(|exchange| exchange.connect))),
        ("handshake", of(answered().map(|exchange| exchange.handshake))),
        ("first_byte", of(answered().map(first))),
        ("last_byte", of(answered().map(|exchange| exchange.rest))),
    ];
    parts.into_iter().filter(|(_, part)| part.n > 0).collect()
}

/// Quantiles in milliseconds of the known ones among durations in nanoseconds.
fn of(durations: impl Iterator<Item = Option<i64>>) -> Quantiles {
    quantiles(&sorted(durations.flatten().map(|ns| ns as f64 / NS_PER_MS).collect()), 0)
}

fn wire(pairs: &[Pair]) -> Wire {
    let answered = || pairs.iter().filter(|pair| pair.other.took.is_some());
    let count = |is: &dyn Fn(&Pair) -> bool| answered().filter(|pair| is(pair)).count() as u64;
    let later = answered().filter(|pair| pair.other.length_apart).map(|pair| pair.other.rest);
    let fits = |exchange: &Exchange| exchange.response_bytes + LENGTH <= ONE_SEGMENT;
    // A segment that the server sent again would be counted twice.
    let several = |pair: &Pair| {
        pair.other.segments.is_some_and(|segments| segments.arrived > 1 && segments.resent == 0) && fits(&pair.other)
    };
    Wire {
        answered: count(&|_| true),
        counted: count(&|pair| pair.other.segments.is_some() && fits(&pair.other)),
        several_segments: count(&several),
        length_apart: count(&|pair| pair.other.length_apart),
        rest_later_ms: of(later).p50,
        rest_fit: fit(answered()
            .filter(|pair| pair.other.length_apart)
            .filter_map(|pair| Some((pair.udp.took?, pair.other.rest?)))),
        resent_segments: count(&|pair| pair.other.segments.is_some_and(|segments| segments.resent > 0)),
        slow_to_connect: count(&is_slow_to_connect),
        slow_to_answer: count(&is_slow_to_answer),
    }
}

/// A straight line through durations over UDP and others, in nanoseconds, where those over UDP differ enough: the median of the slopes between
/// pairs of points (Theil, 1950; Sen, 1968), which outliers do not move.
fn fit(points: impl Iterator<Item = (i64, i64)>) -> Option<Fit> {
    let mut points: Vec<(f64, f64)> =
        points.map(|(udp, other)| (udp as f64 / NS_PER_MS, other as f64 / NS_PER_MS)).collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let step = points.len().div_ceil(FITTED).max(1);
    let chosen: Vec<(f64, f64)> = points.into_iter().step_by(step).collect();
    let at = |share: f64| chosen.get((chosen.len() as f64 * share) as usize).map(|point| point.0);
    let (from_ms, to_ms) = at(0.1).zip(at(0.9))?;
    let width = to_ms - from_ms;
    if chosen.len() < FEWEST_FITTED || to_ms < from_ms * APART || width < APART_MS {
        return None;
    }
    let slopes = chosen.iter().enumerate().flat_map(|(at, a)| {
        let far = chosen[at..].iter().filter(move |b| b.0 - a.0 >= width / 2.0);
        far.map(move |b| (b.1 - a.1) / (b.0 - a.0))
    });
    let slope = quantiles(&sorted(slopes.collect()), 0).p50?;
    let rests = sorted(chosen.iter().map(|(udp, other)| other - slope * udp).collect());
    Some(Fit { constant_ms: quantiles(&rests, 0).p50?, slope, from_ms, to_ms })
}

/// Whether a connection took a second longer to come up than its client's round-trip time.
fn is_slow_to_connect(pair: &Pair) -> bool {
    pair.other.connect.is_some_and(|took| took - pair.udp.took.unwrap_or(0) >= SYN_AGAIN)
}

/// Whether a connection came up at once, and its answer came much later than over UDP.
fn is_slow_to_answer(pair: &Pair) -> bool {
    let Exchange { took: Some(took), connect, handshake, .. } = pair.other else { return false };
    let [connect, handshake] = [connect, handshake].map(|part| part.unwrap_or(0));
    let waited = took - connect - handshake;
    let usual = pair.udp.took.unwrap_or(0).saturating_mul(WAITED_TIMES);
    !is_slow_to_connect(pair) && waited >= WAITED.max(usual)
}

/// Clients by their median response time over UDP. One without an answer over UDP is of no class.
fn classes(pairs: &[Pair]) -> Vec<RttClass> {
    let mut of_client: BTreeMap<IpAddr, Vec<&Pair>> = BTreeMap::new();
    pairs.iter().for_each(|pair| of_client.entry(pair.client).or_default().push(pair));
    let mut of_class: BTreeMap<usize, (u64, Vec<&Pair>)> = BTreeMap::new();
    for pairs in of_client.into_values() {
        let Some(rtt) = of(pairs.iter().map(|pair| pair.udp.took)).p50 else { continue };
        let class = of_class.entry(CLASSES.partition_point(|&from| from <= rtt) - 1).or_default();
        class.0 += 1;
        class.1.extend(pairs);
    }
    of_class.into_iter().map(|(class, (clients, pairs))| rtt_class(class, clients, &pairs)).collect()
}

fn rtt_class(class: usize, clients: u64, pairs: &[&Pair]) -> RttClass {
    let over_udp = || pairs.iter().filter(|pair| pair.udp.took.is_some() && pair.other.status != Status::NotSent);
    RttClass {
        from_ms: CLASSES[class],
        to_ms: CLASSES.get(class + 1).copied(),
        clients,
        pairs: over_udp().count() as u64,
        failed: over_udp().filter(|pair| pair.other.took.is_none()).count() as u64,
        ratio: quantiles(&sorted(pairs.iter().filter_map(|pair| ratio(pair)).collect()), 0),
    }
}

/// The pairs as points, of very many every so-manieth.
fn points(pairs: &[Pair]) -> Vec<Point> {
    let begun = pairs.iter().map(|pair| pair.udp.due).min().unwrap_or(0);
    let ms = |took: Option<i64>| took.map(|ns| ns as f64 / NS_PER_MS);
    let point = |pair: &Pair| Point((pair.udp.due - begun) as f64 / 1e9, ms(pair.udp.took), ms(pair.other.took));
    pairs.iter().step_by(pairs.len().div_ceil(MAX_POINTS).max(1)).map(point).collect()
}
