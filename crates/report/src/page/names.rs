//! The tables of names, types, zones and clients that are slow, fail, or get no answer.

use serde::Serialize;

use super::{Line, share};
use ldplayer_results::numbers::{counted, fixed, grouped};
use ldplayer_results::{Names, StandOut, Top};

/// What queries are listed by: the key in run.json, the head of the column, and what opens the table.
const PARTS: [(&str, &str, &str); 5] = [
    ("name", "name", "Names"),
    ("domain", "domain", "Domains, two labels"),
    ("tld", "TLD", "Top-level domains"),
    ("type", "type", "Types"),
    ("client", "client", "Clients"),
];

/// Queries that have something in common.
#[derive(Serialize)]
pub struct Kind {
    id: &'static str,
    lead: String,
    parts: Vec<Part>,
}

/// Those with most of them.
#[derive(Serialize)]
struct Part {
    title: &'static str,
    head: &'static str,
    /// Whether it is shown before anybody asks.
    open: bool,
    lines: Vec<Line>,
}

/// The section, where names are known.
pub fn section(names: Option<&Names>) -> Option<Vec<Kind>> {
    let names = names?;
    let slow = match &names.slower_than {
        Some(threshold) => format!(
            "{} more than {} ms, the {} of this run",
            counted(names.slow.queries, "answer took", "answers took"),
            fixed(threshold.ms, 3),
            threshold.percentile
        ),
        None => "Too few answers to call any of them slow".to_owned(),
    };
    let failing = counted(names.failing.queries, "query failed", "queries failed");
    let failing = format!("{failing} or got an answer other than NOERROR and NXDOMAIN");
    let timed_out = counted(names.timed_out.queries, "query timed out", "queries timed out");
    Some(vec![
        kind("slow", slow, &names.slow),
        kind("failing", failing, &names.failing),
        kind("timed_out", timed_out, &names.timed_out),
    ])
}

fn kind(id: &'static str, lead: String, found: &StandOut) -> Kind {
    let part = |(key, head, title): (&str, &'static str, &'static str)| {
        let top = found.by.get(key).filter(|top| !top.is_empty())?;
        let lines = top.iter().map(|top| Line::new(&top.value, cells(top, found.queries))).collect();
        Some(Part { title, head, open: key == "name", lines })
    };
    Kind { id, lead, parts: PARTS.into_iter().filter_map(part).collect() }
}

fn cells(top: &Top, all: u64) -> Vec<String> {
    let slowest = top.slowest_ms.map_or_else(|| "—".to_owned(), |ms| format!("{} ms", fixed(ms, 3)));
    vec![grouped(top.queries), share(top.queries, Some(all)), grouped(top.of), slowest]
}
