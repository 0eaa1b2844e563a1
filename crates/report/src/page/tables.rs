//! The tables of queries, timing, latency and connections.

use std::collections::BTreeMap;

use super::{Line, share};
use ldplayer_results::needed;
use ldplayer_results::numbers::{fixed, grouped, in_time};
use ldplayer_results::words;
use ldplayer_results::{Connections, RunReport, ServerAnswers, Spread, Summary, Tail};

/// What became of the queries of the trace.
pub fn accounts(report: &RunReport) -> Vec<Line> {
    let queries = &report.summary.queries;
    let count = |name: &str, n: u64| Line::new(name, vec![grouped(n), share(n, queries.trace)]);
    let parts = |counts: &BTreeMap<String, u64>| -> Vec<Line> {
        by_count(counts).map(|(name, n)| Line::sub(&name, vec![grouped(n), share(n, queries.trace)])).collect()
    };
    let trace = queries.trace.map_or("unknown".to_owned(), grouped);
    let mut lines = vec![Line::new("in the trace", vec![trace, String::new()]), count("sent", queries.sent)];
    let used = words::by_transport(&queries.sent_by_transport);
    lines.extend(used.iter().map(|(name, n)| Line::sub(name, vec![grouped(**n), share(**n, queries.trace)])));
    lines.push(count("answered", queries.answered));
    lines.push(count("timed out", queries.timed_out));
    lines.push(count("failed", queries.failed));
    lines.extend(parts(&queries.failed_by_status));
    lines.push(count("not sent", queries.not_sent));
    lines.extend(parts(&queries.not_sent_by_reason));
    if queries.lost > 0 {
        lines.push(count("lost with their agent", queries.lost));
        lines.extend(parts(&queries.lost_by_reason));
    }
    let bare = |n: u64| vec![grouped(n), String::new()];
    lines.push(Line::new("late responses", bare(queries.late)));
    lines.push(Line::new("responses to no query", bare(queries.stray)));
    lines.extend(by_count(&queries.stray_by_reason).map(|(name, n)| Line::sub(&name, bare(n))));
    lines
}

/// Counts by reason in words, the most frequent first.
fn by_count(counts: &BTreeMap<String, u64>) -> impl Iterator<Item = (String, u64)> {
    let mut order: Vec<(&String, u64)> = counts.iter().map(|(name, &n)| (name, n)).collect();
    order.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    order.into_iter().map(|(name, n)| (words::reason(name), n))
}

/// Answers with an extended error, the most frequent first.
pub fn extended_errors(summary: &Summary) -> Vec<Line> {
    let mut order: Vec<(&String, u64)> = summary.ede.iter().map(|(name, &n)| (name, n)).collect();
    order.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    order
        .into_iter()
        .map(|(name, n)| Line::new(name, vec![grouped(n), share(n, Some(summary.queries.answered))]))
        .collect()
}

/// Kept responses by the server that sent them.
pub fn servers(summary: &Summary) -> Vec<Line> {
    let line = |server: &ServerAnswers| {
        let tail = &server.latency_ms;
        let ms = |figure: Option<f64>| figure.map_or_else(String::new, |ms| fixed(ms, 3));
        let counts = [grouped(tail.queries), share(tail.queries, summary.responses.kept), grouped(server.failing)];
        Line::new(server.name(), [&counts[..], &[tail.p50, tail.p99, tail.max].map(ms)].concat())
    };
    summary.nsid.iter().map(line).collect()
}

/// What users saw of clients that react.
pub fn lookups(summary: &Summary) -> Option<Vec<Line>> {
    let lookups = summary.lookups.as_ref()?;
    let of = |n: u64, whole: u64| vec![grouped(n), share(n, Some(whole))];
    let mut lines = vec![
        Line::new("lookups", vec![grouped(lookups.asked), String::new()]),
        Line::new("the client gave up", of(lookups.failed, lookups.asked)),
        Line::new("attempts", vec![grouped(lookups.packets), format!("{:.3} a lookup", lookups.attempts)]),
        Line::new("retries", of(lookups.retries, lookups.packets)),
    ];
    lines.extend(by_count(&lookups.retries_by_reason).map(|(name, n)| Line::sub(&name, of(n, lookups.packets))));
    lines.push(Line::new("at another server", of(lookups.failovers, lookups.packets)));
    Some(lines)
}

/// Timing errors in microseconds: min, quartiles, tails.
pub fn timing(report: &RunReport) -> Vec<Line> {
    let timing = &report.summary.timing;
    let rows = [("sent − due", timing.error_us), ("gap to the query before", timing.interarrival_error_us)];
    let line = |(name, spread): (&str, Option<Spread>)| {
        let s = spread?;
        let cells = [s.min, s.p1, s.p25, s.p50, s.p75, s.p99, s.p999, s.max];
        Some(Line::new(name, cells.map(in_time).to_vec()))
    };
    rows.into_iter().filter_map(line).collect()
}

/// Latencies in milliseconds: queries and percentiles.
pub fn latency(report: &RunReport) -> Vec<Line> {
    let latency = &report.summary.latency_ms;
    let lookups = report.summary.lookups.as_ref().map(|lookups| Line::new("lookups", tail(&lookups.time_ms)));
    let mut lines: Vec<Line> = lookups.into_iter().collect();
    lines.extend([
        Line::new("from sent", tail(&latency.from_sent)),
        Line::new("from due", tail(&latency.from_intended)),
        Line::new("from sent, answered queries", tail(&latency.answered_only)),
    ]);
    let mut group = |head: &str, classes: Vec<(String, &Tail)>| {
        if !classes.is_empty() {
            lines.push(Line::new(head, Vec::new()));
            lines.extend(classes.into_iter().map(|(name, figures)| Line::sub(&name, tail(figures))));
        }
    };
    group("by transport", words::by_transport(&latency.by_transport));
    group("by connection", words::in_order(&words::CONNECTIONS, &latency.by_connection));
    let of_both = words::by_transport(&latency.by_transport_and_connection);
    let of_both = of_both.into_iter().filter(|_| latency.by_transport_and_connection.len() > 1);
    of_both.for_each(|(name, classes)| {
        group(&format!("over {name}"), words::in_order(&words::CONNECTIONS, classes));
    });
    group("parts of answered queries over connections", words::in_order(&words::PHASES, &latency.by_phase));
    group("by how busy the client is", words::in_order(&words::CLIENTS, &latency.by_client_activity));
    group("by queries of the client", words::in_order(&words::CLIENTS, &latency.by_client_queries));
    group("by class", latency.by_class.iter().map(|(name, figures)| (name.clone(), figures)).collect());
    lines
}

/// What became of connections.
pub fn connections(report: &RunReport) -> Vec<Line> {
    let Connections { opened, failed, resumed, peak_open, open_at_end, closed } = &report.summary.connections;
    let line = |name: &str, count: u64| Line::new(name, vec![grouped(count)]);
    let part = |name: &str, count: u64| Line::sub(name, vec![grouped(count)]);
    let mut lines = vec![line("opened", *opened), part("with a resumed session", *resumed), line("failed", *failed)];
    lines.extend([line("open at most", *peak_open), line("open at the end", *open_at_end)]);
    lines.push(line("closed", closed.values().sum()));
    lines.extend(words::in_order(&words::CLOSES, closed).into_iter().map(|(name, &count)| part(&name, count)));
    let queries = &report.summary.queries;
    lines.push(line("queries sent again on a new connection", queries.resent));
    lines.push(line("queries asked again over TCP", queries.fell_back));
    lines
}

/// Queries, mean and percentiles; a percentile that too few queries lie beyond is left empty.
fn tail(tail: &Tail) -> Vec<String> {
    let mut cells = vec![grouped(tail.queries), milliseconds(tail.mean)];
    let percentiles = [(0.5, tail.p50), (0.9, tail.p90), (0.95, tail.p95), (0.99, tail.p99), (0.999, tail.p999)];
    cells.extend(percentiles.map(|(quantile, ms)| match tail.queries >= needed(quantile) {
        true => milliseconds(ms),
        false => String::new(),
    }));
    cells.push(milliseconds(tail.max));
    cells
}

fn milliseconds(ms: Option<f64>) -> String {
    ms.map_or("—".to_owned(), |ms| fixed(ms, 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_results::{Latency, Summary};

    #[test]
    fn a_percentile_is_left_out_where_too_few_queries_lie_beyond_it() {
        let of = |queries| {
            let (mean, p50, p95, p99, p999) = (Some(0.5), Some(1.0), Some(2.0), Some(3.0), Some(4.0));
            tail(&Tail { queries, mean, p50, p95, p99, p999, ..Tail::default() })
        };
        assert_eq!(of(9), ["9", "0.500", "", "", "", "", "", "—"]);
        assert_eq!(of(499), ["499", "0.500", "1.000", "—", "2.000", "", "", "—"]);
        assert_eq!(of(5_000), ["5,000", "0.500", "1.000", "—", "2.000", "3.000", "4.000", "—"]);
    }

    #[test]
    fn classes_have_words_and_the_order_of_their_meaning() {
        let tails = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), Tail::default())).collect();
        let latency_ms = Latency {
            by_client_queries: tails(&["1", "11_to_100", "2_to_10", "over_100"]),
            by_client_activity: tails(&["busiest_1_percent", "rest"]),
            by_phase: tails(&["connect", "first_byte", "handshake", "last_byte"]),
            ..Latency::default()
        };
        let report = RunReport { summary: Summary { latency_ms, ..Summary::default() }, ..RunReport::default() };
        let names: Vec<String> = latency(&report).into_iter().map(|line| line.name).collect();
        let at =
            |name: &str| names.iter().position(|known| known == name).unwrap_or_else(|| panic!("{name} in {names:?}"));
        let order = [
            "connecting",
            "TLS or QUIC handshake",
            "from its first byte to its last",
            "busiest 1 % of clients",
            "other clients",
            "clients with 1 query",
            "clients with 2 to 10 queries",
            "clients with more than 100 queries",
        ];
        assert!(order.map(at).is_sorted(), "{names:?}");
        assert!(names.iter().all(|name| !name.contains('_')));
    }
}
