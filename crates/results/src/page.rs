//! `report.html`: one file with everything in it, that opens by a double click and asks no network.

mod agents;
mod answers;
mod usage;

use std::path::Path;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;

use crate::analysis::Analysis;
use crate::analysis::figures::{Bar, Figures};
use crate::error::ResultsError;
use crate::model::{Connections, RunReport, State, Telemetry};
use crate::store;
use crate::text::grouped;

const TEMPLATE: &str = include_str!("../assets/report.html.j2");
pub(crate) const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
pub(crate) const D3: &str = include_str!("../assets/d3.min.js");
pub(crate) const PLOT: &str = include_str!("../assets/plot.umd.min.js");

/// Writes the page of a run.
pub fn write(path: &Path, report: &RunReport, analysis: &Analysis) -> Result<(), ResultsError> {
    let figures = Figures { closes: closes(&report.summary.connections), ..analysis.figures.clone() };
    let data = serde_json::to_string(&figures).map_err(ResultsError::json(path))?;
    let html = render(report, &data).map_err(|source| ResultsError::Page { path: path.to_owned(), source })?;
    store::replace(path, html.as_bytes())
}

fn render(report: &RunReport, figures: &str) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    // The name ends in .html, so everything that is not marked as safe is escaped.
    environment.add_template("report.html", TEMPLATE)?;
    let safe = |text: &str| Value::from_safe_string(text.to_owned());
    environment.get_template("report.html")?.render(context! {
        title => report.title(),
        style => safe(STYLE),
        scripts => [safe(D3), safe(PLOT), safe(SCRIPT)],
        data => safe(&inside_script(figures)),
        state => report.state.to_string(),
        ended => report.state != State::Running,
        server => report.verdict.server.word(),
        report => Value::from(Serde(report)),
        accounts => Value::from(Serde(accounts(report))),
        answers => Value::from(Serde(answers::lines(report.summary.answers_compared.as_ref()))),
        agents => Value::from(Serde(agents::lines(&report.agents))),
        agents_head => Value::from(Serde(agents::HEAD)),
        timing => Value::from(Serde(timing(report))),
        latency => Value::from(Serde(latency(report))),
        connected => report.summary.connections.opened + report.summary.connections.failed > 0,
        connections => Value::from(Serde(connections(report))),
        sampled => report.summary.telemetry != Telemetry::default(),
        watched => report.summary.telemetry.server.is_some(),
        usage => Value::from(Serde(usage::lines(&report.summary.telemetry))),
        facts => Value::from(Serde(facts(report))),
        config => Value::from(Serde(lines(&report.config))),
        environment => Value::from(Serde(lines(&report.environment))),
        tally => Value::from(Serde(lines(&serde_json::to_value(&report.tally).unwrap_or_default()))),
        stalls => Value::from(Serde(lines(&report.stalls))),
    })
}

/// JSON that cannot end the script element it stands in, nor open a comment there.
pub(crate) fn inside_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A row of a table: its head and its cells.
#[derive(Serialize)]
struct Line {
    name: String,
    cells: Vec<String>,
    sub: bool,
}

impl Line {
    fn new(name: &str, cells: Vec<String>) -> Self {
        Self { name: name.to_owned(), cells, sub: false }
    }

    fn sub(name: &str, cells: Vec<String>) -> Self {
        Self { sub: true, ..Self::new(name, cells) }
    }
}

fn accounts(report: &RunReport) -> Vec<Line> {
    let queries = &report.summary.queries;
    let count = |name: &str, n: u64| Line::new(name, vec![grouped(n), share(n, queries.trace)]);
    let parts = |counts: &std::collections::BTreeMap<String, u64>| -> Vec<Line> {
        counts.iter().map(|(name, &n)| Line::sub(name, vec![grouped(n), share(n, queries.trace)])).collect()
    };
    let trace = queries.trace.map_or("unknown".to_owned(), grouped);
    let mut lines = vec![Line::new("in the trace", vec![trace, String::new()]), count("sent", queries.sent)];
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
    lines.push(Line::new("late responses", vec![grouped(queries.late), String::new()]));
    lines.push(Line::new("stray responses", vec![grouped(queries.stray), String::new()]));
    lines.extend(queries.stray_by_reason.iter().map(|(name, &n)| Line::sub(name, vec![grouped(n), String::new()])));
    lines
}

fn share(part: u64, whole: Option<u64>) -> String {
    match whole {
        Some(whole) if whole > 0 => format!("{:.2} %", part as f64 * 100.0 / whole as f64),
        _ => String::new(),
    }
}

/// Timing errors in microseconds: min, quartiles, tails.
fn timing(report: &RunReport) -> Vec<Line> {
    let timing = &report.summary.timing;
    let rows = [("sent − due", timing.error_us), ("gap to the query before", timing.interarrival_error_us)];
    let line = |(name, spread): (&str, Option<crate::model::Spread>)| {
        let s = spread?;
        let cells = [s.min, s.p1, s.p25, s.p50, s.p75, s.p99, s.p999, s.max];
        Some(Line::new(name, cells.map(|us| format!("{us:.1}")).to_vec()))
    };
    rows.into_iter().filter_map(line).collect()
}

/// Latencies in milliseconds: queries and percentiles.
fn latency(report: &RunReport) -> Vec<Line> {
    let latency = &report.summary.latency_ms;
    let mut lines = vec![
        Line::new("from sent", tail(&latency.from_sent)),
        Line::new("from due", tail(&latency.from_intended)),
        Line::new("from sent, answered only", tail(&latency.answered_only)),
    ];
    let classes = [
        ("by transport", &latency.by_transport),
        ("by connection", &latency.by_connection),
        ("part", &latency.by_phase),
        ("by client activity", &latency.by_client_activity),
        ("by queries of the client", &latency.by_client_queries),
        ("by class", &latency.by_class),
    ];
    for (head, class) in classes {
        lines.extend(class.iter().map(|(name, figures)| Line::sub(&format!("{head}: {name}"), tail(figures))));
    }
    for (transport, class) in &latency.by_transport_and_connection {
        lines
            .extend(class.iter().map(|(name, figures)| Line::sub(&format!("over {transport}: {name}"), tail(figures))));
    }
    lines
}

/// What became of connections.
fn connections(report: &RunReport) -> Vec<Line> {
    let Connections { opened, failed, resumed, peak_open, open_at_end, closed } = &report.summary.connections;
    let line = |name: &str, count: u64| Line::new(name, vec![grouped(count)]);
    let part = |name: &str, count: u64| Line::sub(name, vec![grouped(count)]);
    let mut lines = vec![line("opened", *opened), part("with a resumed session", *resumed), line("failed", *failed)];
    lines.extend([line("open at most", *peak_open), line("open at the end", *open_at_end)]);
    lines.push(line("closed", closed.values().sum()));
    lines.extend(closed.iter().map(|(name, &count)| part(closer(name), count)));
    let queries = &report.summary.queries;
    lines.push(line("queries sent again on a new connection", queries.resent));
    lines.push(line("queries asked again over TCP", queries.fell_back));
    lines
}

/// Who closed connections, the most frequent first.
fn closes(connections: &Connections) -> Vec<Bar> {
    let bar =
        |(name, &n): (&String, &u64)| Bar { name: closer(name).to_owned(), n, answered: name.starts_with("client") };
    let mut bars: Vec<Bar> = connections.closed.iter().map(bar).collect();
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.n));
    bars
}

/// A key of the summary in words.
fn closer(key: &str) -> &str {
    match key {
        "client_idle" => "client: idle",
        "client_last_query" => "client: last query",
        "client_for_room" => "client: for room",
        "server" => "server: in order",
        "reset" => "reset or error",
        other => other,
    }
}

fn tail(tail: &crate::model::Tail) -> Vec<String> {
    let ms = |value: Option<f64>| value.map_or("—".to_owned(), |ms| format!("{ms:.3}"));
    let mut cells = vec![grouped(tail.queries)];
    cells.extend([tail.p50, tail.p90, tail.p99, tail.p999, tail.max].map(ms));
    cells
}

/// Single figures for the head of the page.
fn facts(report: &RunReport) -> Vec<(String, String)> {
    let summary = &report.summary;
    let ms = |value: Option<f64>| value.map_or("—".to_owned(), |ms| format!("{ms:.3} ms"));
    let rate = summary.rate.qps_mean.map_or("—".to_owned(), |qps| format!("{} q/s", grouped(qps.round() as u64)));
    let answered = share(summary.queries.answered, Some(summary.queries.sent));
    let facts = [
        ("queries sent", grouped(summary.queries.sent)),
        ("answered", if answered.is_empty() { "—".to_owned() } else { answered }),
        ("mean rate", rate),
        ("clients", grouped(summary.clients.total)),
        ("median latency", ms(summary.latency_ms.from_sent.p50)),
        ("p99 latency", ms(summary.latency_ms.from_sent.p99)),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// A part of `run.json` as lines of dotted key and value.
fn lines(part: &impl Serialize) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    // The types of the report have string keys only, which is all that could fail.
    flatten("", &serde_json::to_value(part).unwrap_or_default(), &mut lines);
    lines
}

fn flatten(path: &str, value: &serde_json::Value, lines: &mut Vec<(String, String)>) {
    use serde_json::Value::{Array, Null, Object, String};
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Object(map) => map.iter().for_each(|(key, value)| flatten(&below(key), value, lines)),
        Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(&below(&at.to_string()), item, lines));
        }
        Array(items) => lines.push((path.to_owned(), items.iter().map(plain).collect::<Vec<_>>().join(" "))),
        Null if path.is_empty() => {}
        String(_) | Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            lines.push((path.to_owned(), plain(value)))
        }
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => "—".to_owned(),
        other => other.to_string(),
    }
}
