//! The rows of the runs that count as one dataset in Hive partitions: `dataset/transport=udp/repeat=1/0.parquet`.
//!
//! Files are hard links, so that they take no room; where a file system has none they are copies.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ldplayer_results::store::RunDir;

use crate::record::{Record, RunRecord};

/// The directory in that of the experiment.
const NAME: &str = "dataset";
/// The key of the last partition.
const REPEAT: &str = "repeat";

/// Makes the dataset of an experiment anew. A run whose rows are gone, as those of a search's trials are, has no part in it.
///
/// # Errors
/// The disk is full, or what the system said.
pub(crate) fn write(record: &Record, directory: &Path) -> io::Result<()> {
    let root = directory.join(NAME);
    match fs::remove_dir_all(&root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for (repeat, run) in record.cells.iter().flat_map(|cell| record.counted_of(cell)) {
        let Some(from) = &run.directory else { continue };
        let files = RunDir::new(&directory.join(from)).row_files().map(|(whole, _)| whole).unwrap_or_default();
        if !files.is_empty() {
            link(&files, &root.join(partition(record, run, repeat)))?;
        }
    }
    Ok(())
}

fn link(files: &[PathBuf], to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for file in files {
        let to = to.join(file.file_name().unwrap_or_default());
        if fs::hard_link(file, &to).is_err() {
            fs::copy(file, &to)?;
        }
    }
    Ok(())
}

/// The partition of a run: a directory for each key in the order of the matrix, and one for the repeat.
fn partition(record: &Record, run: &RunRecord, repeat: u32) -> PathBuf {
    let keys = record.axes.iter().filter_map(|axis| Some((&*axis.key, run.keys.get(&axis.key)?)));
    let mut path: PathBuf = keys.map(|(key, value)| format!("{key}={}", escaped(value))).collect();
    path.push(format!("{REPEAT}={repeat}"));
    path
}

/// A value as Hive writes it in paths: what file systems and patterns give a meaning to by its code.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for octet in value.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'+' | b',' | b' ' => {
                text.push(octet.into())
            }
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{octet:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_safe_in_paths_and_patterns() {
        assert_eq!(escaped("rules/a=b*.toml"), "rules%2Fa%3Db%2A.toml");
        assert_eq!((escaped("50ms"), escaped("20%"), escaped("é")), ("50ms".into(), "20%25".into(), "%C3%A9".into()));
    }
}
