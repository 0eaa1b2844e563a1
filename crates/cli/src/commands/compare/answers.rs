//! `compare --answers`: the answers that changed, by domain, name and type, with what they said before and say now.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use ldplayer_core::name::{Presentation, labels};
use ldplayer_core::printable::Printable;
use ldplayer_core::text::counted;
use ldplayer_core::{Answer, Ignore, Message};
use ldplayer_results::ResultsError;
use ldplayer_results::answers::{Changed, changed};
use ldplayer_results::compare::Pair;
use ldplayer_results::rcode;
use ldplayer_trace::columns::type_name;
use serde::Serialize;

/// Kinds of changes that are kept at most.
const MOST_KEPT: usize = 100_000;
/// Changes that are printed of a domain, and domains.
const MOST_OF_DOMAIN: usize = 10;
const MOST_DOMAINS: usize = 20;
/// Records of an answer that are named each.
const MOST_RECORDS: usize = 4;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;

/// A name and type whose answer changed in a way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// The last two labels of the name.
    domain: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    /// `better`, `worse` or `changed`.
    answer: &'static str,
    old: String,
    new: String,
}

/// What changed, with how many queries saw it.
#[derive(Default, Serialize)]
pub struct Changes {
    queries: u64,
    /// Queries that are in no change, since there were too many kinds.
    more: u64,
    changes: Vec<(Change, u64)>,
}

/// The answers that changed between the first runs of both sides that kept responses; `None` where there are none.
pub fn of(pair: &Pair) -> Result<Option<Changes>, ResultsError> {
    let (Some(a), Some(b)) = (pair.a.kept_responses(), pair.b.kept_responses()) else { return Ok(None) };
    between(a, b)
}

fn between(a: &Path, b: &Path) -> Result<Option<Changes>, ResultsError> {
    let (mut kinds, mut found) = (BTreeMap::<Change, u64>::new(), Changes::default());
    let has_both = changed(a, b, &Ignore::default(), |one| {
        found.queries += 1;
        let change = Change::of(&one);
        let is_full = kinds.len() >= MOST_KEPT;
        match kinds.get_mut(&change) {
            Some(count) => *count += 1,
            None if is_full => found.more += 1,
            None => drop(kinds.insert(change, 1)),
        }
    })?;
    found.changes = kinds.into_iter().collect();
    Ok(has_both.then_some(found))
}

/// Prints the changes by domain, those with most queries first.
pub fn print(changes: &Changes) -> io::Result<()> {
    let mut out = crate::printing::stdout();
    let mut domains: BTreeMap<&str, Vec<&(Change, u64)>> = BTreeMap::new();
    changes.changes.iter().for_each(|change| domains.entry(&change.0.domain).or_default().push(change));
    let queries = |changes: &[&(Change, u64)]| changes.iter().map(|(_, count)| count).sum::<u64>();
    let mut domains: Vec<_> = domains.into_iter().collect();
    domains.sort_by_key(|(_, changes)| std::cmp::Reverse(queries(changes)));
    write_line!(out, "answers    {} not as before", counted(changes.queries, "is", "are"))?;
    for (domain, mut of_domain) in domains.iter().take(MOST_DOMAINS).cloned() {
        write_line!(out, "{} ({})", Printable(domain), counted(queries(&of_domain), "query", "queries"))?;
        of_domain.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (change, count) in of_domain.iter().take(MOST_OF_DOMAIN) {
            let Change { name, kind, answer, old, new, .. } = change;
            write_line!(out, "  {count:>6}  {answer:7}  {} {kind}: {old} -> {new}", Printable(name))?;
        }
        rest(&mut out, "  ", of_domain.len().saturating_sub(MOST_OF_DOMAIN), "change", "changes")?;
    }
    rest(&mut out, "", domains.len().saturating_sub(MOST_DOMAINS), "domain", "domains")
}

fn rest(out: &mut impl Write, indent: &str, count: usize, one: &str, many: &str) -> io::Result<()> {
    match count {
        0 => Ok(()),
        more => write_line!(out, "{indent}and {} more (--json has all)", counted(more as u64, one, many)),
    }
}

impl Change {
    fn of(changed: &Changed<'_>) -> Self {
        let question = Message::new(changed.query).and_then(|query| query.question());
        let wire = question.as_ref().map_or(&[0][..], |question| question.name).to_ascii_lowercase();
        let labels: Vec<&[u8]> = labels(&wire).collect();
        let length: usize = labels.iter().rev().take(2).map(|label| label.len() + 1).sum();
        let domain = &wire[wire.len() - (length + 1).min(wire.len())..];
        Self {
            domain: Presentation(domain).to_string(),
            name: Presentation(&wire).to_string(),
            kind: question.map_or_else(|| "-".to_owned(), |question| type_name(question.qtype).to_string()),
            answer: match changed.answer {
                Answer::Worse => "worse",
                Answer::Better => "better",
                _ => "changed",
            },
            old: said(changed.old),
            new: said(changed.new),
        }
    }
}

/// What a response says: its code, and its answer in short.
fn said(response: Option<&[u8]>) -> String {
    let Some(message) = response.and_then(Message::new) else { return "no answer".to_owned() };
    let code = rcode::name(message.rcode());
    let mut records = answer_section(&message);
    let more = records.len().saturating_sub(MOST_RECORDS);
    records.sort_unstable();
    records.truncate(MOST_RECORDS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match records.is_empty() {
        true => code,
        false => format!("{code} {}{more}", records.join(" ")),
    }
}

/// The records of the answer section: addresses as they are, others by their type.
fn answer_section(message: &Message<'_>) -> Vec<String> {
    let [_, answers, ..] = message.counts();
    let (mut at, mut found) = (message.behind_questions(), Vec::new());
    for _ in 0..answers {
        let Some(start) = at else { break };
        let Some((next, kind)) = message.record_at(start) else { break };
        let data = message.rdata_at(start).and_then(|data| message.octets().get(data..next)).unwrap_or_default();
        found.push(match (kind, data) {
            (TYPE_A, &[a, b, c, d]) => std::net::Ipv4Addr::new(a, b, c, d).to_string(),
            (TYPE_AAAA, data) => <[u8; 16]>::try_from(data)
                .map_or_else(|_| "AAAA".to_owned(), |octets| std::net::Ipv6Addr::from(octets).to_string()),
            (kind, _) => type_name(kind).to_string(),
        });
        at = Some(next);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::message::{CLASS_IN, QueryParts, flag};

    fn message(flags: u16, address: Option<u8>) -> Vec<u8> {
        let mut wire = Vec::new();
        let name = b"\x03WWW\x07example\x03org\0";
        QueryParts { id: 1, flags, name, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut wire);
        if let Some(last) = address {
            wire[7] = 1;
            wire.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, last]);
        }
        wire
    }

    #[test]
    fn a_change_says_what_was_answered_before_and_what_is_now() {
        let (query, old, new) = (message(0, None), message(flag::QR, Some(1)), message(flag::QR | 3, None));
        let changed = Changed { answer: Answer::Worse, query: &query, old: Some(&old), new: Some(&new) };
        let change = Change::of(&changed);
        assert_eq!((&*change.domain, &*change.name, &*change.kind), ("example.org.", "www.example.org.", "A"));
        assert_eq!((&*change.old, &*change.new, change.answer), ("NOERROR 192.0.2.1", "NXDOMAIN", "worse"));
        assert_eq!(Change::of(&Changed { new: None, ..changed }).new, "no answer");
    }
}
