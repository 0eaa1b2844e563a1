//! Whether two sides were asked the same in the same way: the differences beyond the chosen ones.

use std::collections::HashSet;

use ldplayer_core::policy;
use serde_json::Value;

use super::{Pair, Side};
use crate::config;
use crate::model::RunReport;

/// The keys of a specification that compared runs should have in common, beside the trace and the connection policy.
const KEYS: [&str; 18] = [
    "rules",
    "timing",
    "for",
    "loop",
    "clients",
    "start",
    "stop",
    "transport",
    "class",
    "sources",
    "path",
    "rtt",
    "jitter",
    "loss",
    "bandwidth",
    "query_timeout",
    "workers",
    "precision",
];
/// Keys that are resolved to the value of another one.
const RESOLVED: [(&str, &str); 4] =
    [("rate", "timing"), ("speed", "timing"), ("transport_shares", "transport"), ("transport_shares", "class")];
/// What is read of a run besides its keys.
type Fact = (&'static str, fn(&RunReport) -> String);
const FACTS: [Fact; 5] = [
    ("trace", |run| format!("{} from {}", run.config.words("trace").join(" "), run.trace_first)),
    ("queries", |run| run.summary.queries.trace.map_or("unknown".to_owned(), |count| count.to_string())),
    ("host", |run| run.environment.machine.host.clone()),
    ("cpu", |run| run.environment.machine.cpu.clone()),
    ("kernel", |run| run.environment.machine.kernel.clone()),
];
/// Characters of a value that are shown.
const SHOWN: usize = 120;

/// A line for each key that differs, or that differs among the runs of a side.
pub fn warnings(pair: &Pair) -> Vec<String> {
    let facts = FACTS.iter().map(|(name, read)| (*name, values(pair, |run| Some(read(run)))));
    let keys = KEYS.iter().map(|key| (*key, values(pair, |run| given(run, key))));
    let policy = policy::KEYS.iter().map(|key| (key.name, values(pair, |run| used(run, key.name))));
    facts
        .filter(|(key, _)| *key != "trace" || !is_one_trace(pair))
        .chain(keys)
        .chain(policy)
        .filter(|(key, _)| !is_chosen(pair, key))
        .filter_map(difference)
        .collect()
}

/// Whether all runs replayed files of the same octets, wherever these were.
fn is_one_trace(pair: &Pair) -> bool {
    let hashes = |(_, run): &(_, RunReport)| -> Option<Vec<String>> {
        run.traces.iter().map(|file| file.sha256.clone()).collect::<Option<_>>().filter(|all: &Vec<_>| !all.is_empty())
    };
    let all: Option<HashSet<Vec<String>>> = pair.a.runs.iter().chain(&pair.b.runs).map(hashes).collect();
    all.is_some_and(|all| all.len() == 1)
}

fn is_chosen(pair: &Pair, key: &str) -> bool {
    let is = |chosen: &str| chosen == key || RESOLVED.contains(&(chosen, key));
    pair.chosen.iter().any(|chosen| is(chosen))
}

/// The value of a key; `None` where the run does not say it.
fn given(run: &RunReport, key: &str) -> Option<String> {
    Some(match run.config.keys.get(key)? {
        Value::Null => "none".to_owned(),
        value => config::word(value),
    })
}

/// The same of a key of the connection policy; `None` also where no query used its transports.
fn used(run: &RunReport, key: &str) -> Option<String> {
    run.config.keys.get(key).filter(|value| !value.is_null()).map(config::word)
}

/// The different values of each side.
fn values(pair: &Pair, read: impl Fn(&RunReport) -> Option<String>) -> [Vec<String>; 2] {
    [&pair.a, &pair.b].map(|side: &Side| {
        let shown = |text: String| text.chars().take(SHOWN).collect();
        let mut values: Vec<String> = side.runs.iter().filter_map(|(_, run)| read(run).map(shown)).collect();
        values.sort_unstable();
        values.dedup();
        values
    })
}

fn difference((key, [a, b]): (&str, [Vec<String>; 2])) -> Option<String> {
    let are_alike = a == b && a.len() <= 1;
    (!are_alike && !a.is_empty() && !b.is_empty())
        .then(|| format!("not like with like: {key}: A has {}, B has {}", a.join(" and "), b.join(" and ")))
}
