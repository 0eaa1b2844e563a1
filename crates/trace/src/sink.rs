//! Trace output: one trait for all output formats, and files that appear only when complete.

mod dnsperf;
mod lines;
pub(crate) mod parquet;
mod pcap;
mod tsv;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ldplayer_core::{Message, Transaction};

use self::lines::LineSink;
use crate::TraceError;

use self::parquet::Extra;
#[cfg(test)]
pub(crate) use self::parquet::schema as parquet_schema;

/// Size of the write buffer in octets.
const BUFFER: usize = 256 * 1024;

/// What standard output is called in errors.
const STDOUT: &str = "standard output";

/// Accepts transactions in the order of time.
pub trait Sink: Send {
    /// Writes a batch, and empties it. The buffer may be exchanged with an earlier batch's.
    ///
    /// # Errors
    /// When the system refuses, or a value does not fit the format.
    fn write(&mut self, batch: &mut Vec<Transaction>) -> Result<(), TraceError>;

    /// Completes the output; only now a file gets its final name.
    ///
    /// # Errors
    /// As for [`Self::write`].
    fn finish(self: Box<Self>) -> Result<Written, TraceError>;
}

/// The numbers of transactions written and left out by a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Transactions written.
    pub transactions: u64,
    /// Transactions that the format cannot hold, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl Written {
    pub(crate) fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }
}

/// Why a text of names and types cannot hold a query: it has more than one question, or other records than OPT (a dynamic update, or the
/// SOA record of an IXFR query), or a question that cannot be read.
pub(crate) fn more_than_a_question(message: &Message<'_>) -> Option<&'static str> {
    let [questions, answers, authorities, additionals] = message.counts();
    let others = additionals.saturating_sub(u16::from(message.opt_offset().is_some()));
    match questions {
        2.. => Some("several_questions"),
        1 if message.question().is_none() => Some("bad_question"),
        _ if answers > 0 || authorities > 0 || others > 0 => Some("has_records"),
        _ => None,
    }
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Every column, for replaying and for SQL.
    Parquet,
    /// One query a line, for reading and editing.
    Tsv,
    /// Packets with nanosecond stamps.
    Pcap,
    /// A name and a type a line.
    Dnsperf,
}

/// A word or file name without a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown output format of `{0}`: use .parquet, .tsv, .pcap or .txt (dnsperf), or --to parquet|tsv|pcap|dnsperf"
)]
pub struct UnknownFormat(pub String);

/// What is known of a format: its name, the extensions of its files, and who writes it.
type Row = (Format, &'static str, &'static [&'static str], fn(Output) -> Result<Box<dyn Sink>, TraceError>);

impl Format {
    const ALL: [Row; 4] = [
        (Self::Parquet, "parquet", &["parquet", "pq"], |output| Ok(Box::new(parquet::ParquetSink::new(output, None)?))),
        (Self::Tsv, "tsv", &["tsv"], |output| Ok(Box::new(LineSink::new(output, tsv::head(), tsv::write_line)))),
        (Self::Pcap, "pcap", &["pcap"], |output| Ok(Box::new(pcap::PcapSink::new(output)?))),
        (Self::Dnsperf, "dnsperf", &["txt", "dnsperf"], |output| {
            Ok(Box::new(LineSink::new(output, String::new(), dnsperf::write_line)))
        }),
    ];

    /// The format for the extension of `path`.
    ///
    /// # Errors
    /// There is none, or it is unknown.
    pub fn of_path(path: &Path) -> Result<Self, UnknownFormat> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let extension = extension.to_ascii_lowercase();
        let known = Self::ALL.iter().find(|(_, _, extensions, _)| extensions.contains(&extension.as_str()));
        known.map(|(format, ..)| *format).ok_or_else(|| UnknownFormat(path.display().to_string()))
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.iter().find(|(_, name, ..)| *name == word);
        known.map(|(format, ..)| *format).ok_or_else(|| UnknownFormat(word.to_owned()))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].1)
    }
}

/// Opens an output: `-` is standard output. An existing file is refused unless `force` is given.
///
/// # Errors
/// When the file exists and may not be replaced, or the system refuses it.
pub fn create(path: &Path, format: Format, force: bool) -> Result<Box<dyn Sink>, TraceError> {
    let (.., sink) = Format::ALL[format as usize];
    sink(Output::create(path, force)?)
}

/// Opens a Parquet trace that has one more column, `index`: the [`Transaction::index`] of each row, by which rows of several files are
/// paired. Readers of traces do not look at it.
///
/// # Errors
/// As for [`create`].
pub fn create_numbered(path: &Path, force: bool) -> Result<Box<dyn Sink>, TraceError> {
    Ok(Box::new(parquet::ParquetSink::new(Output::create(path, force)?, Some(Extra::Index))?))
}

/// As [`create`], with one more column, `retry_of`: the [`Transaction::retry_of`] of each row. Readers of traces do not look at it.
///
/// # Errors
/// As for [`create`]; or the format cannot hold it.
pub fn create_marked(path: &Path, format: Format, force: bool) -> Result<Box<dyn Sink>, TraceError> {
    match format {
        Format::Parquet => Ok(Box::new(parquet::ParquetSink::new(Output::create(path, force)?, Some(Extra::RetryOf))?)),
        Format::Tsv => {
            let output = Output::create(path, force)?;
            Ok(Box::new(LineSink::new(output, tsv::marked_head(), tsv::write_marked_line)))
        }
        Format::Pcap | Format::Dnsperf => {
            Err(cannot_write(path, &format!("{format} has no column for retries"), "write .parquet or .tsv"))
        }
    }
}

/// A file under a temporary name until it is complete; deleted if it is dropped before.
pub(crate) struct Output {
    path: PathBuf,
    /// The temporary name of an incomplete file; `None` if it is not a regular file.
    temporary: Option<PathBuf>,
    /// Whether the output is a pipe, whose reader may wait for each batch.
    is_live: bool,
    writer: BufWriter<Box<dyn Write + Send>>,
}

impl Output {
    pub fn create(path: &Path, force: bool) -> Result<Self, TraceError> {
        if path == Path::new("-") {
            let mut output = Self::over(PathBuf::from(STDOUT), None, Box::new(io::stdout()));
            output.is_live = true;
            return Ok(output);
        }
        let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink());
        if is_link && !fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Err(cannot_write(path, "is a link", "give the name of the file itself, or remove the link"));
        }
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                return Err(cannot_write(&path, "is a directory", "give the name of a file in it"));
            }
            Ok(found) if found.is_file() && !force => {
                return Err(cannot_write(&path, "already exists", "choose another name, or use --force to replace it"));
            }
            // Devices and pipes are written to, never replaced.
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(&path).map_err(|error| write_error(&path, error))?;
                return Ok(Self::over(path, None, Box::new(file)));
            }
            _ => {}
        }
        let temporary = temporary_name(&path);
        let file = File::create_new(&temporary).map_err(|error| write_error(&path, error))?;
        Ok(Self::over(path, Some(temporary), Box::new(file)))
    }

    fn over(path: PathBuf, temporary: Option<PathBuf>, writer: Box<dyn Write + Send>) -> Self {
        Self { path, temporary, is_live: false, writer: BufWriter::with_capacity(BUFFER, writer) }
    }

    /// The name given by the user.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), TraceError> {
        self.writer.flush().map_err(|error| self.error(error))?;
        if let Some(temporary) = self.temporary.take() {
            fs::rename(&temporary, &self.path).map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    /// An error of the system, with what to do about a full disk.
    pub fn error(&self, source: io::Error) -> TraceError {
        write_error(&self.path, source)
    }
}

fn write_error(path: &Path, source: io::Error) -> TraceError {
    if source.kind() == io::ErrorKind::StorageFull {
        // Outputs without a temporary name stay: standard output, a device, a pipe.
        let is_streamed = path == Path::new(STDOUT) || path.exists() && !path.is_file();
        let remedy = match is_streamed {
            true => "free some space or choose another disk",
            false => "free some space or choose another disk; the incomplete output was removed",
        };
        return cannot_write(path, "the disk is full", remedy);
    }
    TraceError::File { path: path.to_owned(), source }
}

impl Write for Output {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(octets)?;
        if self.is_live {
            self.writer.flush()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The error cannot be reported, and the name of the file left behind tells what it is.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn cannot_write(path: &Path, what: &str, remedy: &str) -> TraceError {
    TraceError::Format { path: path.to_owned(), what: what.into(), remedy: remedy.into() }
}

/// A hidden name beside `path`, so that renaming stays within one file system.
fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Nobody foresees it, and could have a link there.
    path.with_file_name(format!(".{name}.{:016x}.part", RandomState::new().hash_one(&*name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_go_by_extension_or_word() {
        let of = |path: &str| Format::of_path(Path::new(path));
        assert_eq!(of("a/b.PARQUET"), Ok(Format::Parquet));
        assert_eq!(of("queries.txt"), Ok(Format::Dnsperf));
        assert!(of("a.pcap.gz").is_err() && of("parquet").is_err());
        for (format, word, ..) in Format::ALL {
            assert_eq!((word.parse(), format.to_string().as_str()), (Ok(format), word));
        }
    }

    #[test]
    fn a_file_appears_only_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.tsv");
        let entries = || fs::read_dir(directory.path()).unwrap().count();
        drop(create(&path, Format::Tsv, false).unwrap());
        assert_eq!(entries(), 0);
        let sink = create(&path, Format::Tsv, false).unwrap();
        assert!(!path.exists());
        sink.finish().unwrap();
        assert!(path.exists() && entries() == 1);
    }

    #[test]
    fn an_existing_file_needs_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.tsv");
        fs::write(&path, "mine").unwrap();
        let refusal = create(&path, Format::Tsv, false).err().unwrap().to_string();
        assert!(refusal.contains("already exists") && refusal.contains("--force"), "{refusal}");
        drop(create(&path, Format::Tsv, true).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        create(&path, Format::Tsv, true).unwrap().finish().unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("time\t"));
    }

    #[test]
    fn a_full_disk_is_one_clear_line() {
        for format in [Format::Tsv, Format::Pcap, Format::Parquet] {
            let sink = create(Path::new("/dev/full"), format, false).unwrap();
            let refusal = sink.finish().unwrap_err().to_string();
            assert!(refusal.contains("the disk is full"), "{format}: {refusal}");
        }
    }
}
