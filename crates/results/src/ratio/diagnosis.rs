//! Findings from the figures of a line, each with its evidence; no finding without enough of it.

use serde::Serialize;

use super::figures::percent;
use super::{Fit, Line, Quantiles};
use crate::numbers::counted;

/// Pairs, and answers of a transport, below which nothing is said of it.
const FEWEST: u64 = 20;
/// Median response time over UDP below which a ratio is one of processing times, in milliseconds.
const NO_NETWORK_MS: f64 = 1.0;
/// How far from its round trips the usual ratio of a transport is at most.
const NEAR: f64 = 0.4;
/// Ratios beyond so many times the usual one are a tail.
const TAIL_TIMES: f64 = 2.5;
/// Percentages from which on something is worth a word, a tail is heavy, and something holds for a server as a whole.
const SOME: f64 = 1.0;
const MANY: f64 = 5.0;
const MOST: f64 = 50.0;
/// A loss of single packets slows so many times as many queries over TCP as it loses over UDP: there are more packets, each way.
const LOSS_TIMES: f64 = 4.0;
/// A segment that comes so much later than the one before has waited for an acknowledgement; as a share of the response time over UDP.
const HALF_A_ROUND_TRIP: f64 = 0.5;
/// For so many milliseconds a receiver delays an acknowledgement under Linux (RFC 9293 §3.8.6.3 allows more).
const DELAYED_ACK_MS: f64 = 40.0;
/// A delay of fewer milliseconds that clients of all distances have is none.
const CONSTANT_MS: f64 = 2.0;
/// Distance of the quartiles above which there is no peak.
const SPREAD: f64 = 0.6;

/// Something that the figures say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, such as `split_length`.
    pub code: &'static str,
    /// What it is, in a sentence.
    pub text: String,
    /// What shows it, a figure each.
    pub evidence: Vec<String>,
}

impl Finding {
    fn new(code: &'static str, text: impl Into<String>, evidence: Vec<String>) -> Self {
        Self { code, text: text.into(), evidence }
    }
}

/// All findings, the most telling first.
pub fn findings(line: &Line) -> Vec<Finding> {
    if let Some(only) = without_ratio(line) {
        return only.into_iter().chain(rcodes(line)).collect();
    }
    let (tail, shape) = (tail(line), shape(line));
    // If that is explained, a finding about the median adds nothing.
    let is_explained = tail.is_some() || waits_for_acknowledgement(line);
    let shape = shape.filter(|shape| !is_explained || ["normal", "no_network"].contains(&shape.code));
    let found = [split(line), tail, shape, failing(line), closing(line), udp(line), truncated(line), rcodes(line)];
    found.into_iter().flatten().collect()
}

/// What is to be said where one of both sides has too few answers for ratios.
fn without_ratio(line: &Line) -> Option<Vec<Finding>> {
    let counts = &line.pairs;
    let (udp, other) = (counts.valid + counts.only_udp, counts.valid + counts.only_other);
    let name = line.transport.to_uppercase();
    let made = counts.asked - counts.not_sent;
    let shares = vec![
        format!("UDP: {udp} of {made} answered{}", reasons(line, "udp")),
        format!("{name}: {other} of {made} answered{}", reasons(line, line.transport)),
    ];
    let one = |code, text: String| Some(vec![Finding::new(code, text, shares.clone())]);
    match (udp, other) {
        _ if made < FEWEST => one("too_few_pairs", format!("fewer than {FEWEST} pairs: nothing is said of them")),
        (0, 0) => one("no_answer", "the server does not answer at all".to_owned()),
        (0, _) => one("no_udp", "the server does not answer over UDP, so there is no ratio".to_owned()),
        (_, 0) => one("no_connections", format!("no {name} at all: every query over it failed while UDP was answered")),
        (..FEWEST, _) => {
            one("too_few_pairs", format!("fewer than {FEWEST} answers over UDP: nothing is said of ratios"))
        }
        (_, ..FEWEST) => one("mostly_failing", format!("{name} is answered so rarely that nothing is said of ratios")),
        _ => None,
    }
}

/// The reasons of failures over a transport, the most frequent first.
fn reasons(line: &Line, transport: &str) -> String {
    let mut reasons: Vec<(&String, &u64)> = line.failures.get(transport).into_iter().flatten().collect();
    reasons.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let words: Vec<String> = reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// The length in a segment of its own, as it was seen; or a short response in several segments.
fn split(line: &Line) -> Option<Finding> {
    let wire = &line.wire;
    let mut evidence: Vec<String> = apart(line).into_iter().chain(segments(line)).collect();
    if waits_for_acknowledgement(line) {
        let text = if is_as_late_as_an_acknowledgement(line) {
            "the server writes the length of a response in a segment of its own, and the response waits until that \
             one is acknowledged (Nagle's algorithm)"
        } else {
            "the server writes the length of a response in a segment of its own, and the response comes later, though not by what an \
             acknowledgement takes: of unknown cause"
        };
        evidence.extend(wire.rest_fit.map(|fit| in_fit("the rest of a response comes", &fit)));
        return Some(Finding::new("split_length", text, evidence));
    }
    let is_split =
        percent(wire.several_segments, wire.counted) >= MOST || percent(wire.length_apart, wire.answered) >= MOST;
    if is_split {
        evidence.push("that costs no round trip here".to_owned());
        let text = "responses that fit in one segment come in several, one right behind the other";
        return Some(Finding::new("split_response", text, evidence));
    }
    None
}

/// Whether most responses came behind their length, and so much later that it had been acknowledged in between.
fn waits_for_acknowledgement(line: &Line) -> bool {
    let (wire, udp) = (&line.wire, line.parts_ms.get("udp").and_then(|udp| udp.p50));
    let is_later = wire.rest_later_ms.zip(udp).is_some_and(|(later, udp)| later >= udp * HALF_A_ROUND_TRIP);
    percent(wire.length_apart, wire.answered) >= MOST && is_later
}

/// Whether responses came as much later than their length as its acknowledgement takes: a round trip, or that and the time for which a receiver delays
/// it. Where clients differ, it has to be a round trip of each.
fn is_as_late_as_an_acknowledgement(line: &Line) -> bool {
    let is_of_each = line.wire.rest_fit.is_none_or(|fit| (fit.slope - 1.0).abs() <= NEAR);
    let late = line.wire.rest_later_ms.zip(line.parts_ms.get("udp").and_then(|udp| udp.p50));
    let is_near = |later: f64, udp: f64| {
        [0.0, DELAYED_ACK_MS].into_iter().any(|delay| (later - udp - delay).abs() <= udp * NEAR + delay * NEAR)
    };
    is_of_each && late.is_some_and(|(later, udp)| is_near(later, udp))
}

/// What a fit says, in words.
fn in_fit(what: &str, fit: &Fit) -> String {
    format!(
        "{what} {:.1} ms and {:.2} round trips later, by a line through clients that are {:.1} to {:.1} ms away",
        fit.constant_ms, fit.slope, fit.from_ms, fit.to_ms
    )
}

/// How often the length came before the response, and how long before.
fn apart(line: &Line) -> Option<String> {
    let (wire, udp) = (&line.wire, line.parts_ms.get("udp")?.p50?);
    let later = wire.rest_later_ms?;
    Some(format!(
        "on {} of {} connections the two octets of the length arrived before any of the response, which was whole {later:.1} ms later \
         ({:.1} round trips, medians)",
        wire.length_apart,
        wire.answered,
        later / udp.max(f64::MIN_POSITIVE)
    ))
}

fn segments(line: &Line) -> Option<String> {
    let wire = &line.wire;
    let told = format!(
        "the kernel counted two or more segments with data on {} of {} connections whose response fits in one",
        wire.several_segments, wire.counted
    );
    (wire.counted > 0).then_some(told)
}

/// Outlier ratios and their causes.
fn tail(line: &Line) -> Option<Finding> {
    let counts = &line.pairs;
    let with_udp = counts.valid + counts.only_udp;
    let beyond = beyond(line);
    let (slow, lost) = (percent(beyond, with_udp), lost(line));
    let queued = line.wire.slow_to_connect + line.wire.slow_to_answer;
    let is_heavy = slow >= MANY || percent(queued, with_udp) >= MANY;
    if !is_heavy {
        return None;
    }
    let mut evidence = vec![format!(
        "{beyond} of {with_udp} pairs ({slow:.1} %) have a ratio above {:.1} or a timeout over {}",
        tail_limit(line),
        line.transport
    )];
    evidence.push(format!("{:.1} % of the queries over UDP were lost", lost));
    if lost > 0.0 && slow <= lost * LOSS_TIMES && !is_rate_limited(line) {
        let text =
            "a heavy tail, and UDP loses packets, too: that is the path, or a server that is overloaded as a whole";
        return Some(Finding::new("loss", text, evidence));
    }
    evidence.extend(queues(line));
    if queued + refused(line) == 0 {
        return Some(Finding::new("heavy_tail", "a heavy tail, and nothing that tells from what", evidence));
    }
    let text =
        "a heavy tail as of a server that takes only so many connections at once: others wait, or are turned away";
    Some(Finding::new("accept_queue", text, evidence))
}

/// Pairs with UDP answered whose other query took far more than the usual, or for ever. Without a network, small times are no tail.
fn beyond(line: &Line) -> u64 {
    let limit = tail_limit(line);
    // Bins are in percent of the pairs with both.
    let slow: f64 = line.histogram.iter().filter(|&&(bin, _)| bin >= limit).map(|&(_, share)| share).sum();
    let slow = if has_network(line) { (slow * line.pairs.valid as f64 / 100.0).round() as u64 } else { 0 };
    slow + line.pairs.only_udp
}

/// The ratio from which on pairs are in the tail: relative to the round trips of the transport, or to the best quarter of the pairs where
/// those take more.
fn tail_limit(line: &Line) -> f64 {
    line.ratio.p25.unwrap_or(line.expected).max(line.expected) * TAIL_TIMES
}

fn has_network(line: &Line) -> bool {
    line.parts_ms.get("udp").and_then(|udp| udp.p50).is_some_and(|udp| udp >= NO_NETWORK_MS)
}

/// Percentage of the queries over UDP that were not answered.
fn lost(line: &Line) -> f64 {
    let counts = &line.pairs;
    percent(counts.only_other + counts.neither, counts.asked - counts.not_sent)
}

/// Queries over the other transport that were turned away.
fn refused(line: &Line) -> u64 {
    let of = |word: &str| line.failures.get(line.transport).and_then(|reasons| reasons.get(word)).copied().unwrap_or(0);
    ["connection_refused", "reset_by_server", "closed_by_server", "connect_timeout", "timeout"].map(of).iter().sum()
}

fn queues(line: &Line) -> Vec<String> {
    let wire = &line.wire;
    let told = [
        (
            wire.slow_to_connect,
            format!(
                "{} of {} connections took 0.9 s longer to come up than they had to, as when the first SYN is not answered and sent again",
                wire.slow_to_connect, wire.answered
            ),
        ),
        (
            wire.slow_to_answer,
            format!(
                "{} of {} connections came up at once and were answered more than half a second later: accepted late",
                wire.slow_to_answer, wire.answered
            ),
        ),
        (
            wire.resent_segments,
            format!("on {} of {} connections this host sent a segment again", wire.resent_segments, wire.answered),
        ),
        (
            refused(line),
            format!(
                "over {} {} not answered{}",
                line.transport,
                counted(refused(line), "query was", "queries were"),
                reasons(line, line.transport)
            ),
        ),
    ];
    told.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect()
}

/// Where the ratios are.
fn shape(line: &Line) -> Option<Finding> {
    let (udp, median, peak) = (line.parts_ms.get("udp")?.p50?, line.ratio.p50?, line.peak?);
    let mut evidence = vec![
        format!("median ratio {median:.2}, quartiles {} to {}", told(line.ratio.p25), told(line.ratio.p75)),
        format!("{:.0} % of the pairs are within 0.1 of {:.2}", peak.percent, peak.at),
    ];
    if !has_network(line) {
        evidence.push(format!("median response time over UDP {udp:.3} ms"));
        let text =
            "there is no network to speak of: the ratio is one of processing times, and says nothing of round trips";
        return Some(Finding::new("no_network", text, evidence));
    }
    let (expected, name) = (line.expected, line.transport.to_uppercase());
    let spread = quartiles(&line.ratio);
    if let Some(constant) = constant_delay(line) {
        return Some(constant);
    }
    if (median - expected).abs() > NEAR || spread > SPREAD {
        evidence.extend(in_round_trips(line, udp));
    }
    let finding = match median - expected {
        _ if spread > SPREAD => {
            Finding::new("no_peak", format!("no clear peak at {expected:.0} or {:.0}", expected + 1.0), evidence)
        }
        off if off.abs() <= NEAR => {
            let text =
                format!("about {expected:.0}: a query over {name} takes the {expected:.0} round trips that it must");
            Finding::new("normal", text, evidence)
        }
        _ if is_held(line, udp) => {
            let text = "the answer comes a round trip or more after it could, as when a server writes session tickets of TLS before \
                        it and holds it until those are acknowledged (Nagle's algorithm)";
            Finding::new("held_response", text, evidence)
        }
        off if (1.0 - NEAR..=1.0 + NEAR).contains(&off) => {
            evidence.push("the length was not seen in a segment of its own".to_owned());
            let or_constant = match line.fit {
                Some(fit) => {
                    evidence.push(in_fit("answers come", &fit));
                    ""
                }
                None => ", or a delay of that length: clients that are all as far away do not tell",
            };
            let text = format!(
                "about {:.0}: a round trip more than it must be, of unknown cause{or_constant}",
                expected + 1.0
            );
            Finding::new("one_more_round_trip", text, evidence)
        }
        off if off < 0.0 => {
            let text = format!("less than the {expected:.0} round trips of a new connection: UDP is answered late");
            Finding::new("below_expected", text, evidence)
        }
        _ => Finding::new(
            "above_expected",
            format!("more than {:.0} round trips, of unknown cause", expected + 1.0),
            evidence,
        ),
    };
    Some(finding)
}

/// A delay that clients of all distances have: by a line through them, answers take the round trips that they must, and some time.
fn constant_delay(line: &Line) -> Option<Finding> {
    let fit = line.fit?;
    let is_constant = (fit.slope - line.expected).abs() <= NEAR
        && fit.constant_ms >= CONSTANT_MS
        && fit.constant_ms >= fit.from_ms * HALF_A_ROUND_TRIP;
    let text = format!(
        "each answer over {} comes {:.0} ms after it could, however far the client is: a delay in the server, and no round trip",
        line.transport.to_uppercase(),
        fit.constant_ms
    );
    is_constant.then(|| Finding::new("constant_delay", text, vec![in_fit("answers come", &fit)]))
}

/// Whether a connection over TLS takes its round trips, and the answer on it more than one. TLS hides what came before it.
fn is_held(line: &Line, udp: f64) -> bool {
    let part = |part: &str| line.parts_ms.get(part).and_then(|part| part.p50).map(|part| part / udp);
    let is_over_tls = line.expected > 2.0;
    let is_one = |part: Option<f64>| part.is_some_and(|part| (part - 1.0).abs() <= NEAR);
    is_over_tls
        && is_one(part("connect"))
        && is_one(part("handshake"))
        && part("first_byte").is_some_and(|part| part >= 2.0 - NEAR)
}

/// What each part of a response time takes, in round trips.
fn in_round_trips(line: &Line, udp: f64) -> Option<String> {
    let names = [
        ("connect", "connect"),
        ("handshake", "handshake"),
        ("first_byte", "query to first byte"),
        ("last_byte", "first to last byte"),
    ];
    let part = |(part, name): (&str, &str)| Some(format!("{name} {:.1}", line.parts_ms.get(part)?.p50? / udp));
    let parts: Vec<String> = names.into_iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| format!("in round trips (medians): {}", parts.join(", ")))
}

fn quartiles(ratio: &Quantiles) -> f64 {
    ratio.p75.zip(ratio.p25).map_or(0.0, |(upper, lower)| upper - lower)
}

fn told(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

/// Queries that failed where UDP was answered.
fn failing(line: &Line) -> Option<Finding> {
    let (failed, of) = (line.pairs.only_udp, line.pairs.valid + line.pairs.only_udp);
    let share = percent(failed, of);
    let name = line.transport.to_uppercase();
    let evidence = vec![format!("{failed} of {of} ({share:.1} %){}", reasons(line, line.transport))];
    (share >= SOME).then(|| Finding::new("failing", format!("{name} fails where UDP is answered"), evidence))
}

/// Connections that ended before their answer.
fn closing(line: &Line) -> Option<Finding> {
    let (again, of) = (line.pairs.second_connection, line.wire.answered);
    let evidence = vec![format!("{again} of {of} answers came on a second connection")];
    let text = "the server ends connections before it answers";
    (percent(again, of) >= SOME).then(|| Finding::new("closed_before_answer", text, evidence))
}

/// Whether some answers over UDP are dropped and others truncated, while others come whole: what response rate limiting does.
fn is_rate_limited(line: &Line) -> bool {
    let truncated = percent(line.pairs.udp_truncated, line.pairs.valid + line.pairs.only_udp);
    lost(line) >= SOME && (SOME..100.0 - MANY).contains(&truncated)
}

fn udp(line: &Line) -> Option<Finding> {
    let lost = lost(line);
    let mut evidence = vec![format!("{lost:.1} % of the queries over UDP{}", reasons(line, "udp"))];
    if is_rate_limited(line) {
        evidence
            .push(format!("over UDP {} truncated", counted(line.pairs.udp_truncated, "answer was", "answers were")));
        let text = "answers over UDP are dropped and truncated, some of each: the server limits their rate (RRL) for clients of one prefix";
        return Some(Finding::new("rate_limited", text, evidence));
    }
    (lost >= SOME).then(|| Finding::new("udp_lost", "UDP is not always answered", evidence))
}

fn truncated(line: &Line) -> Option<Finding> {
    let (truncated, of) = (line.pairs.udp_truncated, line.pairs.valid + line.pairs.only_udp);
    if is_rate_limited(line) {
        return None;
    }
    let evidence = vec![format!("{truncated} of {of} answers over UDP were truncated")];
    let text = "answers over UDP are truncated: they are compared as they are";
    (percent(truncated, of) >= SOME).then(|| Finding::new("udp_truncated", text, evidence))
}

/// Answers that are errors. They are answers in time all the same.
fn rcodes(line: &Line) -> Option<Finding> {
    let all = line
        .rcodes
        .iter()
        .flat_map(|(transport, codes)| codes.iter().map(move |(code, count)| (*transport, *code, *count)));
    let evidence: Vec<String> =
        all.map(|(transport, code, count)| format!("{count} over {transport}: {}", crate::rcode::name(code))).collect();
    let text = "answers have an error: ask for a zone that the server has (--zone)";
    (!evidence.is_empty()).then(|| Finding::new("error_answers", text, evidence))
}
