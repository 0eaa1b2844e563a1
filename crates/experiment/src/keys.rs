//! What the keys of all tables of an experiment file have in common: which there are, and how lists and paths are read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ldplayer_results::Expectation;
use ldplayer_workload::spec::{BadSpec, Item};

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

/// Resolves a file named in the experiment: relative to the experiment file, or else to the current directory.
pub(crate) fn place(folder: &Path, word: &str) -> PathBuf {
    let beside = folder.join(word);
    let path = if beside.exists() || !Path::new(word).exists() { beside } else { PathBuf::from(word) };
    std::path::absolute(&path).unwrap_or(path)
}

/// The elements of a list, or the value itself.
pub(crate) fn each<T>(item: &Item<'_>, read: impl Fn(&Item<'_>) -> Result<T, BadSpec>) -> Result<Vec<T>, BadSpec> {
    if item.is_list() { item.list()?.iter().map(read).collect() } else { Ok(vec![read(item)?]) }
}

/// A list of expectations, or a single one.
pub(crate) fn expectations(item: &Item<'_>) -> Result<Vec<Expectation>, BadSpec> {
    each(item, |item| item.parsed(str::parse))
}
