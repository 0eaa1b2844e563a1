//! `ratio.html`: one file with everything in it, that opens by a double click and asks no network.

use std::path::Path;

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use ldplayer_results::ResultsError;
use ldplayer_results::numbers::grouped;
use ldplayer_results::ratio::figures::percent;
use ldplayer_results::ratio::{Line, Quantiles, RttClass, Study};
use ldplayer_results::store::replace;

use super::draw;
use super::text::{between, cells, counted, named};
use crate::page::{environment, not_made};

const TEMPLATE: &str = include_str!("../../assets/ratio.html.j2");
const STYLE: &str = include_str!("../../assets/report.css");

/// Writes the page of a study.
pub fn write(study: &Study, path: &Path) -> Result<(), ResultsError> {
    let html = render(study).map_err(not_made(path))?;
    replace(path, html.as_bytes())
}

fn render(study: &Study) -> Result<String, minijinja::Error> {
    let mut environment = environment(study);
    // The name ends in .html, so everything that is not marked as safe is escaped.
    environment.add_template("ratio.html", TEMPLATE)?;
    let safe = |text: String| Value::from_safe_string(text);
    let lines: Vec<Value> = study.lines.iter().map(shown).collect();
    environment.get_template("ratio.html")?.render(context! {
        title => format!("UDP and connections: SOA {}", study.zone),
        style => safe(STYLE.to_owned()),
        study => Value::from(Serde(study)),
        command => study.command_line.join(" "),
        facts => Value::from(Serde(facts(study))),
        parts => safe(draw::parts(study)),
        lines,
    })
}

/// Single figures for the head of the page.
fn facts(study: &Study) -> Vec<(&'static str, String)> {
    let sum = |of: fn(&Line) -> u64| study.lines.iter().map(of).sum::<u64>();
    vec![
        ("servers and transports", grouped(study.lines.len() as u64)),
        ("clients", grouped(study.clients.into())),
        ("pairs", grouped(sum(|line| line.pairs.asked))),
        ("with both answers", grouped(sum(|line| line.pairs.valid))),
        ("failed where UDP was answered", grouped(sum(|line| line.pairs.only_udp))),
    ]
}

/// A row of a table: its head and its cells.
#[derive(Serialize)]
struct Row {
    name: String,
    cells: Vec<String>,
}

/// A line as the page shows it.
fn shown(line: &Line) -> Value {
    let safe = |text: String| Value::from_safe_string(text);
    context! {
        name => named(line),
        expected => format!("{:.0}", line.expected),
        first => line.findings.first().map(|finding| finding.code).unwrap_or_default(),
        line => Value::from(Serde(line)),
        summary => Value::from(Serde(cells(line))),
        histogram => safe(draw::histogram(line)),
        scatter => safe(draw::scatter(line)),
        failures => Value::from(Serde(failures(line))),
        parts => Value::from(Serde(parts(line))),
        classes => Value::from(Serde(classes(line))),
    }
}

fn failures(line: &Line) -> Vec<Row> {
    let counts = &line.pairs;
    let row =
        |name: &str, count: u64| Row { name: name.to_owned(), cells: vec![grouped(count), share(count, counts.asked)] };
    let mut rows = vec![
        row("both answered", counts.valid),
        row(&format!("{} failed, UDP answered", line.transport), counts.only_udp),
        row(&format!("UDP failed, {} answered", line.transport), counts.only_other),
        row("neither answered", counts.neither),
        row("not sent", counts.not_sent),
    ];
    for (transport, reasons) in &line.failures {
        rows.extend(reasons.iter().map(|(reason, count)| row(&format!("{transport}: {reason}"), *count)));
    }
    rows
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", percent(part, whole))
}

fn parts(line: &Line) -> Vec<Row> {
    let names = [
        ("udp", "UDP"),
        ("total", "all of it"),
        ("connect", "connect"),
        ("handshake", "handshake"),
        ("first_byte", "query to first byte"),
        ("last_byte", "first to last byte"),
    ];
    let row = |(part, name): (&str, &str)| {
        let took = line.parts_ms.get(part)?;
        Some(Row { name: name.to_owned(), cells: quantiles(took, 3) })
    };
    names.into_iter().filter_map(row).collect()
}

fn classes(line: &Line) -> Vec<Row> {
    let row =
        |class: &RttClass| Row { name: between(class), cells: [counted(class), quantiles(&class.ratio, 2)].concat() };
    line.rtt_classes.iter().map(row).collect()
}

fn quantiles(of: &Quantiles, digits: usize) -> Vec<String> {
    let told = |value: Option<f64>| value.map_or("—".to_owned(), |value| format!("{value:.digits$}"));
    [of.p25, of.p50, of.p75, of.p90, of.p99, of.max].map(told).to_vec()
}
