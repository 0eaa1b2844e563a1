//! A study as text: a table with a row for each server and transport, and the findings about each.

use std::fmt;

use ldplayer_results::numbers::{self, grouped};
use ldplayer_results::ratio::{Line, Quantiles, RttClass, Study};

/// The heads of the table.
const HEADS: [&str; 11] = ["server", "over", "pairs", "valid", "failed", "p25", "p50", "p75", "p90", "p99", ">10"];

/// A line's cells for the table, without its name and transport.
pub fn cells(line: &Line) -> Vec<String> {
    let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    let quantiles = [line.ratio.p25, line.ratio.p50, line.ratio.p75, line.ratio.p90, line.ratio.p99].map(ratio);
    let counts = [line.pairs.asked, line.pairs.valid, line.pairs.only_udp].map(grouped);
    counts.into_iter().chain(quantiles).chain([format!("{:.1} %", line.above_10_percent)]).collect()
}

/// A line's name: server and transport.
pub fn named(line: &Line) -> String {
    format!("{} over {}", line.server, line.transport)
}

/// The round-trip times of a class.
pub fn between(class: &RttClass) -> String {
    match class.to_ms {
        Some(to) if class.from_ms == 0.0 => format!("below {to} ms"),
        Some(to) => format!("{} to {to} ms", class.from_ms),
        None => format!("{} ms and more", class.from_ms),
    }
}

/// Clients, pairs and failures of a class.
pub fn counted(class: &RttClass) -> Vec<String> {
    [class.clients, class.pairs, class.failed].map(grouped).to_vec()
}

/// A study as text.
pub struct StudyText<'a>(pub &'a Study);

impl fmt::Display for StudyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let study = self.0;
        let rtt = study.rtt.as_ref().map_or(String::new(), |rtt| format!(", round-trip time {rtt}"));
        writeln!(
            f,
            "SOA {}: response time over a new connection ÷ that over UDP; {}, {} of each{rtt}\n",
            study.zone,
            numbers::counted(study.clients.into(), "client", "clients"),
            numbers::counted(study.rounds.into(), "pair", "pairs")
        )?;
        table(f, &rows(&study.lines, |line| line.ratio))?;
        let with: Vec<&Line> =
            study.lines.iter().filter(|line| line.pairs.only_udp > 0 && line.pairs.valid > 0).collect();
        if !with.is_empty() {
            writeln!(f, "\nwith failures where UDP was answered, as endless:")?;
            table(f, &rows(with, |line| line.ratio_with_failures))?;
        }
        study.lines.iter().try_for_each(|line| findings(f, line))
    }
}

/// The rows of the table, heads first.
fn rows<'a>(lines: impl IntoIterator<Item = &'a Line>, ratio: impl Fn(&Line) -> Quantiles) -> Vec<Vec<String>> {
    let heads = HEADS.map(str::to_owned).to_vec();
    let row = |line: &Line| {
        let shown = Line { ratio: ratio(line), points: Vec::new(), ..line.clone() };
        [vec![line.server.clone(), line.transport.to_owned()], cells(&shown)].concat()
    };
    std::iter::once(heads).chain(lines.into_iter().map(row)).collect()
}

fn table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| match column {
            0 | 1 => format!("{cell:<0$}", widths[column]),
            _ => format!("{cell:>0$}", widths[column]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// What is found of a line, with its evidence, and the parts of its response times.
fn findings(f: &mut fmt::Formatter<'_>, line: &Line) -> fmt::Result {
    writeln!(f, "\n{}", named(line))?;
    for finding in &line.findings {
        writeln!(f, "  {}: {}", finding.code, finding.text)?;
        finding.evidence.iter().try_for_each(|evidence| writeln!(f, "    - {evidence}"))?;
    }
    let median = |part: &str| line.parts_ms.get(part).and_then(|part| part.p50);
    let part = |(part, name): (&str, &str)| Some(format!("{name} {:.3}", median(part)?));
    let parts = [
        ("udp", "udp"),
        ("total", line.transport),
        ("connect", "connect"),
        ("handshake", "handshake"),
        ("first_byte", "query to first byte"),
        ("last_byte", "first to last byte"),
    ];
    let parts: Vec<String> = parts.into_iter().filter_map(part).collect();
    if !parts.is_empty() {
        writeln!(f, "  medians in ms: {}", parts.join(" | "))?;
    }
    for class in &line.rtt_classes {
        let clients = numbers::counted(class.clients, "client", "clients");
        let (pairs, failed) = (numbers::counted(class.pairs, "pair", "pairs"), grouped(class.failed));
        let median = class.ratio.p50.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let name = between(class);
        writeln!(f, "  RTT {name}: {clients}, {pairs}, {failed} failed, median ratio {median}")?;
    }
    line.replay.iter().try_for_each(|check| writeln!(f, "  replay: {check}"))
}
