//! Whether two sides were asked the same in the same way: the differences beyond the chosen ones.

use super::{Pair, Side};
use crate::model::RunReport;

/// How a key is read of a run.
type Key = (&'static str, fn(&RunReport) -> String);

/// The settings that compared runs should have in common. Keys are a specification's if it has them.
const KEYS: [Key; 14] = [
    ("trace", |run| format!("{} from {}", run.config.trace.join(" "), run.trace_first)),
    ("queries", |run| run.summary.queries.trace.map_or("unknown".to_owned(), |count| count.to_string())),
    ("rules", |run| format!("{:?}", run.config.rules)),
    ("timing", |run| run.config.timing.clone()),
    ("start and stop", |run| format!("{} s to {:?}", run.config.start_s, run.config.stop_s)),
    ("transport", |run| run.config.transport.clone()),
    ("sources", |run| run.config.sources.clone()),
    ("query_timeout", |run| format!("{} s", run.config.query_timeout_s)),
    ("connections", |run| format!("{:?}", run.config.connections.policy.policy)),
    ("workers", |run| run.config.workers.to_string()),
    ("precision", |run| run.config.precision.clone()),
    ("host", |run| run.environment.machine.host.clone()),
    ("cpu", |run| run.environment.machine.cpu.clone()),
    ("kernel", |run| run.environment.machine.kernel.clone()),
];
/// Characters of a value that are shown.
const SHOWN: usize = 120;

/// A line for each key that differs, or that differs among the runs of a side.
pub fn warnings(pair: &Pair) -> Vec<String> {
    let differs = |(key, read): &Key| {
        if pair.chosen.iter().any(|chosen| chosen == key || (is_policy(chosen) && *key == "connections")) {
            return None;
        }
        let (a, b) = (values(&pair.a, *read), values(&pair.b, *read));
        let are_alike = a == b && a.len() <= 1;
        (!are_alike && !a.is_empty() && !b.is_empty())
            .then(|| format!("not like with like: {key}: A has {}, B has {}", a.join(" and "), b.join(" and ")))
    };
    KEYS.iter().filter_map(differs).collect()
}

/// Whether a key of a specification is one of how clients use connections.
fn is_policy(key: &str) -> bool {
    const OTHERS: [&str; 8] = ["server", "trace", "rules", "timing", "transport", "sources", "workers", "precision"];
    !OTHERS.contains(&key)
}

fn values(side: &Side, read: fn(&RunReport) -> String) -> Vec<String> {
    let mut values: Vec<String> = side.runs.iter().map(|(_, run)| read(run).chars().take(SHOWN).collect()).collect();
    values.sort_unstable();
    values.dedup();
    values
}
