//! The keys of an experiment file.

use std::collections::BTreeSet;

use crate::stage;

/// Keys of the plan.
pub(crate) const OF_PLANS: [&str; 11] =
    ["version", "name", "repeats", "warm_up", "max_retries", "generate", "server", "matrix", "exclude", "gate", "find"];
/// The matrix key for servers.
pub(crate) const SERVER: &str = "server";

/// All keys allowed at the top level of a file.
pub(crate) fn known_keys(run_keys: &[String]) -> Vec<&str> {
    let mut known: BTreeSet<&str> = run_keys.iter().map(String::as_str).collect();
    known.extend(OF_PLANS);
    known.extend(stage::keys());
    known.into_iter().collect()
}
