//! Writes one input into a data set: a file for each hour and shard, and a manifest behind them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ldplayer_columnar::{Compression, FileOptions, FileWriter};
use ldplayer_core::Transaction;
use ldplayer_core::damage::Tally;
use ldplayer_core::shard::shard;
use parquet::errors::ParquetError;
use sha2::{Digest, Sha256};

use super::{UNFINISHED, folder, hour_of};
use crate::TraceError;
use crate::manifest::{MANIFEST, Part, PartFile, Settings, Span};
use crate::sink::Output;
use crate::sink::parquet::{Group, refusal, schema};

/// Rows of a row group: fewer than in a file of its own, since there is a group for each hour and shard at once.
const ROWS: usize = 32 * 1024;
/// Octets of messages at which a row group is closed.
const OCTETS: usize = 8 << 20;
/// Rows that a row group takes at once.
const PIECE: usize = 512;
/// Hours that are written at once. Rows of an earlier one get a file more.
const HOURS: i64 = 2;
/// Files of a part: a capture of ten days has a thousand with four shards. One whose times jump to and fro would have any number.
const FILES: usize = 10_000;
/// How much of each end of an input its fingerprint is made from, in octets.
const ENDS: u64 = 1 << 20;

/// Writes the transactions of one input.
pub struct PartWriter {
    set: PathBuf,
    part: Part,
    open: Vec<Open>,
}

/// A file of an hour and a shard that is being written.
struct Open {
    hour: i64,
    shard: usize,
    path: PathBuf,
    file: FileWriter<Output>,
    group: Box<Group>,
    /// Rows that are not in the group yet, which takes several at once faster.
    waiting: Vec<Transaction>,
    /// Of the messages in the group.
    octets: usize,
    rows: u64,
}

impl PartWriter {
    /// Begins the part of `input` in the data set `set`. What an earlier try has left is removed.
    ///
    /// # Errors
    /// The input cannot be read, or the set not be written.
    pub fn new(set: &Path, input: &Path, fingerprint: String, settings: Settings) -> Result<Self, TraceError> {
        let part = Part::new(input, fingerprint, settings);
        let begun = Self { set: set.to_owned(), part, open: Vec::new() };
        let unfinished = begun.unfinished();
        match fs::remove_dir_all(&unfinished) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(TraceError::File { path: unfinished, source })
            }
            _ => make_folder(set, Path::new(unfinished.file_name().unwrap_or_default())).map(|()| begun),
        }
    }

    /// Writes a batch, and empties it.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn write(&mut self, batch: &mut Vec<Transaction>) -> Result<(), TraceError> {
        // Connections are numbered in each input anew.
        let streams = self.part.fingerprint.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let streams = streams.unwrap_or_default() << 32;
        for mut row in batch.drain(..) {
            row.stream = row.stream.map(|stream| streams | stream & u64::from(u32::MAX));
            self.part.transactions += 1;
            let span = self.part.span.get_or_insert(Span { first: row.time, last: row.time });
            (span.first, span.last) = (span.first.min(row.time), span.last.max(row.time));
            let at = self.at(hour_of(row.time), shard(row.client.ip(), self.part.settings.shards))?;
            self.open[at].push(row)?;
        }
        Ok(())
    }

    /// The open file of an hour and a shard.
    fn at(&mut self, hour: i64, shard: usize) -> Result<usize, TraceError> {
        if let Some(at) = self.open.iter().position(|open| open.hour == hour && open.shard == shard) {
            return Ok(at);
        }
        let newest = self.open.iter().map(|open| open.hour).max().unwrap_or(hour).max(hour);
        let is_kept = |open: &Open| open.hour == hour || newest - open.hour < HOURS;
        let (kept, ended) = std::mem::take(&mut self.open).into_iter().partition(is_kept);
        self.open = kept;
        let ended: Vec<Open> = ended;
        ended.into_iter().try_for_each(|open| self.end(open))?;
        self.open.push(self.begin(hour, shard)?);
        Ok(self.open.len() - 1)
    }

    fn begin(&self, hour: i64, shard: usize) -> Result<Open, TraceError> {
        if self.part.files.len() >= FILES {
            let (path, what) =
                (PathBuf::from(&self.part.input), format!("its times jump: {FILES} files of hours and shards"));
            return Err(TraceError::Format {
                path,
                what,
                remedy: "convert it to a file, and sort that by time".into(),
            });
        }
        let folder = folder(hour, shard);
        let before = self.part.files.iter().filter(|file| file.path.parent() == Some(&folder)).count();
        let path = folder.join(format!("{}-{before}.parquet", self.part.fingerprint));
        make_folder(&self.unfinished(), &folder)?;
        let unfinished = self.unfinished().join(&path);
        let options = FileOptions { compression: Compression::Zstd, sorted_by: Some(0) };
        let file = FileWriter::new(Output::create(&unfinished, true)?, &schema(None), options);
        let file = file.map_err(|error| refusal(&unfinished, error))?;
        Ok(Open {
            hour,
            shard,
            path,
            file,
            group: Box::new(Group::new(None)),
            waiting: Vec::with_capacity(PIECE),
            octets: 0,
            rows: 0,
        })
    }

    /// Completes a file.
    fn end(&mut self, mut open: Open) -> Result<(), TraceError> {
        open.flush()?;
        let Open { path, file, rows, .. } = open;
        file.finish().map_err(|error| refusal(&path, error))?.finish()?;
        self.part.files.push(PartFile { path, rows });
        Ok(())
    }

    /// Gives a finished file its name in the set.
    fn publish(&self, file: &Path, name: &Path) -> Result<(), TraceError> {
        make_folder(&self.set, name.parent().unwrap_or(name))?;
        let to = self.set.join(name);
        fs::rename(self.unfinished().join(file), &to).map_err(|source| TraceError::File { path: to, source })
    }

    fn unfinished(&self) -> PathBuf {
        self.set.join(format!("{UNFINISHED}{}", self.part.fingerprint))
    }

    /// Completes all files, gives them their names in the set, and writes the manifest: only now the part is one of the set.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn finish(mut self, tally: &Tally) -> Result<Part, TraceError> {
        let open = std::mem::take(&mut self.open);
        open.into_iter().try_for_each(|open| self.end(open))?;
        self.part.tally = tally.clone();
        for PartFile { path, .. } in &self.part.files {
            self.publish(path, path)?;
        }
        let unfinished = self.unfinished().join(MANIFEST);
        let refused = |source| TraceError::File { path: unfinished.clone(), source };
        let mut output = Output::create(&unfinished, true)?;
        serde_json::to_writer_pretty(&mut output, &self.part).map_err(|error| refused(error.into()))?;
        output.finish()?;
        self.publish(Path::new(MANIFEST), &Path::new(MANIFEST).join(format!("{}.json", self.part.fingerprint)))?;
        // Dropping it removes the folder.
        Ok(self.part.clone())
    }
}

impl Drop for PartWriter {
    /// Removes what is not in the set. Errors cannot be told, and the next try removes what is left.
    fn drop(&mut self) {
        self.open.clear();
        let _ = fs::remove_dir_all(self.unfinished());
    }
}

impl Open {
    fn push(&mut self, row: Transaction) -> Result<(), TraceError> {
        self.octets += row.message_octets();
        self.rows += 1;
        self.waiting.push(row);
        if self.waiting.len() == PIECE {
            self.gather();
        }
        if self.group.rows() >= ROWS || self.octets >= OCTETS { self.flush() } else { Ok(()) }
    }

    fn gather(&mut self) {
        self.group.extend(&self.waiting);
        self.waiting.clear();
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        self.gather();
        if self.group.rows() > 0 {
            let written: Result<(), ParquetError> = self.file.write_group(self.group.rows(), &self.group.columns());
            written.map_err(|error| refusal(&self.path, error))?;
            self.group.clear();
            self.octets = 0;
        }
        Ok(())
    }
}

/// Makes a folder and those above it within `place`. One that is a link is refused: files would go elsewhere.
fn make_folder(place: &Path, folder: &Path) -> Result<(), TraceError> {
    let mut path = place.to_owned();
    for part in folder {
        path.push(part);
        let made = match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => Ok(()),
                Ok(_) => Err(io::Error::other("is no folder, and a data set has none of links")),
                Err(error) => Err(error),
            },
            made => made,
        };
        made.map_err(|source| TraceError::File { path: path.clone(), source })?;
    }
    Ok(())
}

/// What an input is known by, wherever it lies: the first 24 digits of the SHA-256 of its size, its first and its last mebibyte.
///
/// # Errors
/// It is no file that can be read.
pub fn fingerprint(input: &Path) -> Result<String, TraceError> {
    let digest = || -> io::Result<_> {
        let mut file = File::open(input)?;
        let size = file.metadata()?.len();
        let mut hash = Sha256::new();
        hash.update(size.to_be_bytes());
        let mut octets = Vec::new();
        file.by_ref().take(ENDS).read_to_end(&mut octets)?;
        file.seek(SeekFrom::Start(size.saturating_sub(ENDS)))?;
        file.take(ENDS).read_to_end(&mut octets)?;
        hash.update(&octets);
        Ok(hash.finalize())
    };
    let digest = digest().map_err(|source| TraceError::File { path: input.to_owned(), source })?;
    Ok(digest.iter().take(12).map(|octet| format!("{octet:02x}")).collect())
}
