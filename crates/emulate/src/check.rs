//! Checks that a zone set can be served, reached and validated, and predicts the answers to a trace.
//!
//! [`check`] loads the zones as the server does, runs the checkers of stock servers on them, follows the delegations from the root down,
//! and verifies signatures. It returns findings and prints nothing.

pub mod coverage;
mod dnssec;
mod links;
mod report;
pub mod resolved;
mod stock;
mod versions;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ldplayer_core::name::{self, Presentation};
use ldplayer_zone::Zone;
use ldplayer_zone::error::{LoadError, Problem};
use ldplayer_zone::load::Reading;

use crate::serve::lame::Lame;
use crate::serve::set::{self, SetError, ZoneSet};
use crate::sources::{self, Source, on_all_cores};
use crate::stock::StockError;
pub use report::{Delegations, Finding, Report, Severity, ZoneReport};
pub use stock::{Checker, Program};

/// Why a set cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The directory has no zones, or does not exist. Exit status 2.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The records of a file are not a valid zone. Exit status 2.
    #[error(transparent)]
    Zone(#[from] Problem),
    /// A checker is not installed. Exit status 3.
    #[error("{source}, or check --without {checker}")]
    Missing {
        /// Its package.
        source: StockError,
        /// Its name in options.
        checker: &'static str,
    },
    /// A checker cannot be run. Exit status 3.
    #[error("{}: {source}", path.display())]
    Program {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Checks the zones of a directory; signatures at `now`, in seconds since 1970 modulo 2^32 (RFC 4034 §3.1.5).
///
/// # Errors
/// The set cannot be checked. Errors in zones are in the report.
pub fn check(
    directory: &Path,
    checkers: &[Program],
    reading: Reading,
    now: u32,
) -> Result<(ZoneSet, Report), CheckError> {
    let files = set::files(directory)?;
    let mut report = Report::new(files.len());
    let sources = load(&files, reading, &mut report);
    stock::check(checkers, directory, &sources, &mut report)?;
    let (mut zones, sources) = build(sources, &mut report);
    versions::check(directory, &mut zones, &sources, &mut report);
    let set = ZoneSet::with_lame(zones, Vec::new(), &Lame::read(directory)?)?;
    links::check(&set, &sources, &mut report);
    dnssec::check(&sources, now, &mut report)?;
    Ok((set, report))
}

/// Reads all zones, parents before children; those that cannot be read are reported and skipped.
fn load(files: &[PathBuf], reading: Reading, report: &mut Report) -> Vec<Source> {
    let mut sources: BTreeMap<Vec<u8>, Source> = BTreeMap::new();
    for (file, read) in files.iter().zip(on_all_cores(files, |file| sources::read_one(file, reading))) {
        match read {
            Err(error) => report.add(of_error(file.clone(), &error)),
            Ok(source) => match sources.get(&source.apex) {
                None => drop(sources.insert(source.apex.clone(), source)),
                Some(first) => {
                    let (apex, first) = (Presentation(&source.apex), first.file.display());
                    let text = format!(
                        "{first} also holds the zone {apex}; a set must hold each zone once: remove one of the files"
                    );
                    report.add(Finding::error("load", file.clone(), 0, text));
                }
            },
        }
    }
    let mut sources: Vec<Source> = sources.into_values().collect();
    sources.sort_by_cached_key(|source| {
        let mut labels: Vec<Vec<u8>> = name::labels(&source.apex).map(<[u8]>::to_vec).collect();
        labels.reverse();
        labels
    });
    sources
}

fn of_error(file: PathBuf, error: &SetError) -> Finding {
    match error {
        SetError::Zone(LoadError::Entry { file, line, problem }) => {
            Finding::error("load", file.clone(), *line, problem.to_string())
        }
        SetError::Zone(LoadError::Zone { problem, .. }) => Finding::error("load", file, 0, problem.to_string()),
        SetError::Zone(LoadError::Read { file, source }) => {
            Finding::error("load", file.clone(), 0, format!("cannot be read: {source}"))
        }
        SetError::Class { class, .. } => {
            Finding::error("load", file, 0, format!("the zone has class {class}: only class IN is served"))
        }
        SetError::Versions { problem, .. } => Finding::error("load", file, 0, problem.clone()),
        other => Finding::error("load", file, 0, other.to_string()),
    }
}

/// Builds the zones as `serve` does, and reports their oddities.
fn build(sources: Vec<Source>, report: &mut Report) -> (Vec<Zone>, Vec<Source>) {
    let built = on_all_cores(&sources, |source| Zone::from_records(&source.records));
    let (mut zones, mut kept) = (Vec::with_capacity(sources.len()), Vec::with_capacity(sources.len()));
    for (source, built) in sources.into_iter().zip(built) {
        match built {
            Err(error) => report.add(of_error(source.file.clone(), &error.into())),
            Ok((zone, oddities)) => {
                let odd = oddities
                    .into_iter()
                    .map(|odd| Finding::warning("load", odd.file, odd.line, odd.oddity.to_string()));
                odd.for_each(|finding| report.add(finding));
                zones.push(zone);
                kept.push(source);
            }
        }
    }
    report.loaded.insert("ldplayer", zones.len());
    (zones, kept)
}
