//! Reads the zone files of a set as records, on all cores.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ldplayer_zone::Records;
use ldplayer_zone::error::LoadError;
use ldplayer_zone::load::Reading;

use crate::serve::set::{self, SetError};

/// A parsed zone.
pub struct Source {
    /// The zone file.
    pub file: PathBuf,
    /// Its records.
    pub records: Records,
    /// The zone name in wire format, in lower case.
    pub apex: Vec<u8>,
}

/// Reads all zones of a directory, in file name order.
///
/// # Errors
/// A file cannot be read or is not a zone, or two files hold the same zone.
pub fn read(directory: &Path, reading: Reading) -> Result<Vec<Source>, SetError> {
    let files = set::files(directory)?;
    let sources: Vec<Source> =
        on_all_cores(&files, |file| read_one(file, reading)).into_iter().collect::<Result<_, _>>()?;
    ensure_distinct(&sources)?;
    Ok(sources)
}

/// Reads one zone.
///
/// # Errors
/// The file cannot be read, has an error, no SOA record, or several.
pub fn read_one(file: &Path, reading: Reading) -> Result<Source, SetError> {
    let records = set::records(file, reading)?;
    let no_zone = |problem| LoadError::Zone { file: file.to_owned(), problem };
    let apex = records.apex().map_err(no_zone)?.to_vec();
    Ok(Source { file: file.to_owned(), records, apex })
}

fn ensure_distinct(sources: &[Source]) -> Result<(), SetError> {
    let mut files = std::collections::BTreeMap::new();
    for source in sources {
        if let Some(first) = files.insert(&source.apex, &source.file) {
            let apex = ldplayer_core::name::Presentation(&source.apex).to_string();
            return Err(SetError::Twice { apex, first: first.clone(), second: source.file.clone() });
        }
    }
    Ok(())
}

/// The number of threads to use.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Maps items on all cores; results are in the order of the items.
pub fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads().min(items.len())).map(|_| scope.spawn(run)).collect();
        let mut done = Vec::with_capacity(items.len());
        for thread in threads {
            done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}
