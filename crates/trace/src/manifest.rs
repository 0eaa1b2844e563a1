//! What a data set has, and what became of its inputs: one file each, so that inputs can be converted on several hosts at once.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use ldplayer_core::TraceTime;
use ldplayer_core::damage::Tally;
use serde::{Deserialize, Serialize};

use crate::TraceError;

/// The folder of manifests in a data set.
pub(crate) const MANIFEST: &str = "_manifest";
/// What the name of a folder of an hour begins with.
pub(crate) const HOUR: &str = "hour=";

/// The version of the files written.
const VERSION: u32 = 1;
/// A gap between the inputs that is longer is told, in nanoseconds. Captures are cut within milliseconds.
const HOLE_NS: i64 = 1_000_000_000;

/// How the inputs of a set are read and divided: the same for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Ports that carry DNS.
    pub capture_ports: Vec<u16>,
    /// Roles taken from dnstap and C-DNS, empty for all.
    pub roles: Vec<String>,
    /// Whether copies of datagrams were left out.
    pub drop_duplicates: bool,
    /// Shards of the clients.
    pub shards: usize,
}

/// One file of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartFile {
    /// Its path within the set.
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
}

/// The time that an input covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Of the first transaction.
    pub first: TraceTime,
    /// Of the last one.
    pub last: TraceTime,
}

/// What became of one input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    version: u32,
    /// The release that wrote it.
    pub ldplayer: String,
    /// The input as it was named.
    pub input: String,
    /// What it is known by: [`crate::set::fingerprint`].
    pub fingerprint: String,
    /// How it was read.
    pub settings: Settings,
    /// Rows in all files.
    pub transactions: u64,
    /// `None` where the input has no transaction.
    pub span: Option<Span>,
    /// The files.
    pub files: Vec<PartFile>,
    /// What was read, foreign, and damaged.
    pub tally: Tally,
}

impl Part {
    /// A part without files.
    pub(crate) fn new(input: &Path, fingerprint: String, settings: Settings) -> Self {
        Self {
            version: VERSION,
            ldplayer: env!("CARGO_PKG_VERSION").into(),
            input: input.display().to_string(),
            fingerprint,
            settings,
            transactions: 0,
            span: None,
            files: Vec::new(),
            tally: Tally::default(),
        }
    }
}

/// All parts of a data set.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// In the order of time; those without a transaction come first.
    pub parts: Vec<Part>,
}

impl Manifest {
    /// Reads the parts of the data set in a folder; there are no parts if it is no data set, or not there.
    ///
    /// # Errors
    /// A file cannot be read, or is no part of this version.
    pub fn of(set: &Path) -> Result<Self, TraceError> {
        let folder = set.join(MANIFEST);
        let refused = |source| TraceError::File { path: folder.clone(), source };
        let entries = match fs::read_dir(&folder) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            found => found.map_err(refused)?.collect::<io::Result<Vec<_>>>().map_err(refused)?,
        };
        let is_part = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
        let paths = entries.into_iter().map(|entry| entry.path()).filter(is_part);
        let mut parts = paths.map(|path| read(&path)).collect::<Result<Vec<_>, _>>()?;
        parts.sort_by(|a, b| (a.span.map(|span| span.first), &a.input).cmp(&(b.span.map(|span| span.first), &b.input)));
        Ok(Self { parts })
    }

    /// The accounts of all inputs together.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.parts.iter().for_each(|part| tally.merge(&part.tally));
        tally
    }

    /// Gaps of more than a second between the inputs, in which none of them has a transaction.
    pub fn holes(&self) -> Vec<Span> {
        let mut holes = Vec::new();
        let mut reached = None;
        for Span { first, last } in self.parts.iter().filter_map(|part| part.span) {
            if let Some(reached) = reached.filter(|reached: &TraceTime| first.0.saturating_sub(reached.0) > HOLE_NS) {
                holes.push(Span { first: reached, last: first });
            }
            reached = reached.max(Some(last));
        }
        holes
    }

    /// The number of inputs that begin before an earlier one ends: of several places, or the same traffic twice.
    pub fn overlaps(&self) -> usize {
        let mut reached = None;
        let is_over = |span: &Span| {
            reached
                .replace(reached.max(Some(span.last)).unwrap_or(span.last))
                .is_some_and(|reached| span.first < reached)
        };
        self.parts.iter().filter_map(|part| part.span).filter(is_over).count()
    }
}

fn read(path: &Path) -> Result<Part, TraceError> {
    let text = fs::read(path).map_err(|source| TraceError::File { path: path.to_owned(), source })?;
    let bad = |what: String| TraceError::Format {
        path: path.to_owned(),
        what: format!("no manifest of a part: {what}"),
        remedy: "remove it, and convert its input again".into(),
    };
    let part: Part = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    let is_within = |file: &PartFile| file.path.components().all(|part| matches!(part, Component::Normal(_)));
    match part.version {
        VERSION if part.files.iter().all(is_within) => Ok(part),
        VERSION => Err(bad("it names a file outside the set".into())),
        other => Err(bad(format!("version {other}, and this ldplayer knows {VERSION}"))),
    }
}

/// The files of a folder that is a trace: [`files_below`] it and the manifests of a data set.
///
/// # Errors
/// A folder cannot be read.
pub fn all_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let manifest = folder.join(MANIFEST);
    let manifests = if manifest.is_dir() { files_below(&manifest)? } else { Vec::new() };
    Ok([files_below(folder)?, manifests].concat())
}

/// The regular files in a folder and the folders below it, sorted by path. Hidden ones and those that begin with `_` are left out, as Spark does, and
/// links are not followed.
///
/// # Errors
/// A folder cannot be read.
pub fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let kind = entry.file_type()?;
        if entry.file_name().as_encoded_bytes().starts_with(b".")
            || entry.file_name().as_encoded_bytes().starts_with(b"_")
        {
            continue;
        }
        match kind.is_dir() {
            true => files.extend(files_below(&entry.path())?),
            false if kind.is_file() => files.push(entry.path()),
            false => {}
        }
    }
    Ok(files)
}
