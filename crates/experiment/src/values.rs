//! How values of keys are read that several tables of an experiment file have: lists, expectations, paths.

use std::path::{Path, PathBuf};

use ldplayer_results::Expectation;
use ldplayer_workload::spec::{BadSpec, Item};

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
