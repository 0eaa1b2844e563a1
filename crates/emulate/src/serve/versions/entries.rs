//! The file as it is read for a server: cut into entries, which each zone parses when it is read. A list of a million versions takes many
//! times its memory as a whole.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};

use foldhash::fast::FixedState;
use jiff::Timestamp;
use ldplayer_core::name::Presentation;
use ldplayer_zone::{VersionedSet, Zone, rtype};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{FILE, SetEntry, wire};
use crate::serve::set::SetError;

/// The file of a zone set; without one, a list of nothing.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    text: Option<Vec<u8>>,
}

/// The record sets of a file.
#[derive(Debug)]
pub struct Entries<'t> {
    file: &'t File,
    start: Option<String>,
    sets: Vec<Entry<'t>>,
    /// The first of each zone, by the hash of its apex.
    first: HashMap<u64, usize, FixedState>,
}

/// A record set of the file.
#[derive(Debug)]
struct Entry<'t> {
    text: &'t str,
    /// The place of the next one whose zone has this hash.
    next: Option<usize>,
}

/// The object that the file is.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<'t> {
    #[serde(default)]
    start: Option<String>,
    #[serde(borrow)]
    sets: Vec<&'t RawValue>,
}

/// The zone of an entry.
#[derive(Deserialize)]
struct OfZone<'t> {
    #[serde(borrow)]
    zone: Cow<'t, str>,
}

/// Gives the zones of a set the versions that its file has; when the recording began, in nanoseconds since 1970.
///
/// # Errors
/// The file cannot be read, is invalid, or is about a zone or record set that is not there.
pub fn apply(directory: &Path, zones: &mut [Zone]) -> Result<Option<i64>, SetError> {
    let file = File::read(directory)?;
    let entries = file.entries()?;
    zones.iter_mut().try_for_each(|zone| entries.give(zone))?;
    entries.finish(zones)
}

impl File {
    /// The file of the zone set in this directory.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn read(directory: &Path) -> Result<Self, SetError> {
        let path = directory.join(FILE);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path, text: None }),
            Err(error) => Err(SetError::Versions { problem: error.to_string(), file: path }),
            Ok(text) => Ok(Self { path, text: Some(text) }),
        }
    }

    /// Its entries.
    ///
    /// # Errors
    /// It is not of this form.
    pub fn entries(&self) -> Result<Entries<'_>, SetError> {
        let whole: Whole<'_> = match &self.text {
            Some(text) => serde_json::from_slice(text).map_err(|error| self.wrong(in_a_line(&error)))?,
            None => Whole::default(),
        };
        let texts = whole.sets.into_iter().map(RawValue::get);
        let mut sets: Vec<Entry<'_>> = texts.map(|text| Entry { text, next: None }).collect();
        let hashes = sets.iter().map(|entry| self.apex(entry.text).map(|apex| hash(&apex)));
        let hashes = hashes.collect::<Result<Vec<_>, _>>()?;
        let mut first = HashMap::default();
        for (at, (entry, hash)) in sets.iter_mut().zip(hashes).enumerate().rev() {
            entry.next = first.insert(hash, at);
        }
        Ok(Entries { file: self, start: whole.start, sets, first })
    }

    fn apex(&self, entry: &str) -> Result<Vec<u8>, SetError> {
        let OfZone { zone } = serde_json::from_str(entry).map_err(|error| self.wrong(self.told(entry, &error)))?;
        wire(&zone).map_err(|problem| self.wrong(problem))
    }

    fn wrong(&self, problem: String) -> SetError {
        SetError::Versions { file: self.path.clone(), problem }
    }

    /// An error in an entry, with its line in the file.
    fn told(&self, entry: &str, error: &serde_json::Error) -> String {
        let start = self.text.as_ref().map_or(entry.as_ptr(), |text| text.as_ptr());
        let before = entry.as_ptr().addr().saturating_sub(start.addr());
        let lines = self.text.iter().flatten().take(before).filter(|&&octet| octet == b'\n').count();
        let told = in_a_line(error);
        let what = told.rsplit_once(" at line ").map_or(&*told, |(what, _)| what);
        format!("{what} at line {}", lines + error.line())
    }
}

impl Entries<'_> {
    /// Gives the record sets of a zone the versions that are theirs.
    ///
    /// # Errors
    /// An entry is not of this form, or is about a set that is not there or cannot vary.
    pub fn give(&self, zone: &mut Zone) -> Result<(), SetError> {
        let first = self.first.get(&hash(zone.apex())).map(|&at| &self.sets[at]);
        let mut sets = Vec::new();
        for entry in std::iter::successors(first, |entry| entry.next.map(|at| &self.sets[at])) {
            let (apex, set) = self.set(entry.text).map_err(|problem| self.file.wrong(problem))?;
            sets.extend((apex == zone.apex()).then_some(set));
        }
        if sets.is_empty() {
            return Ok(());
        }
        zone.vary(&sets).map_err(|(at, error)| {
            let set = &sets[at];
            self.file.wrong(format!("{} {}: {error}", Presentation(&set.owner), rtype::name_of(set.rtype)))
        })
    }

    fn set(&self, entry: &str) -> Result<(Vec<u8>, VersionedSet), String> {
        // Texts with escapes are not those of the file.
        if let Ok(entry) = serde_json::from_str::<SetEntry<&str>>(entry) {
            return versions(&entry);
        }
        versions(&serde_json::from_str::<SetEntry>(entry).map_err(|error| self.file.told(entry, &error))?)
    }

    /// When the recording began, in nanoseconds since 1970, once all zones have theirs.
    ///
    /// # Errors
    /// An entry is about a zone that is not there, or the start is no time.
    pub fn finish(&self, zones: &[Zone]) -> Result<Option<i64>, SetError> {
        if zones.iter().map(Zone::varying).sum::<usize>() < self.sets.len() {
            let known: HashSet<&[u8]> = zones.iter().map(Zone::apex).collect();
            let apexes = self.sets.iter().map(|entry| self.file.apex(entry.text)).collect::<Result<Vec<_>, _>>()?;
            if let Some(apex) = apexes.iter().filter(|apex| !known.contains(&***apex)).min() {
                return Err(self.file.wrong(format!("the set has no zone {}", Presentation(apex))));
            }
        }
        let Some(start) = &self.start else { return Ok(None) };
        let time = start.parse::<Timestamp>();
        let time = time.map_err(|error| self.file.wrong(format!("start `{start}`: {error}")))?;
        Ok(i64::try_from(time.as_nanosecond()).ok())
    }
}

fn hash(apex: &[u8]) -> u64 {
    FixedState::default().hash_one(apex)
}

fn versions(entry: &SetEntry<impl AsRef<str>>) -> Result<(Vec<u8>, VersionedSet), String> {
    let (name, rtype) = (entry.name.as_ref(), entry.rtype.as_ref());
    let named = |problem| format!("{} {}: {problem}", name.escape_debug(), rtype.escape_debug());
    entry.read().map_err(named)
}

/// An error repeats names of keys as they are.
fn in_a_line(error: &serde_json::Error) -> String {
    error.to_string().replace('\n', " ")
}
