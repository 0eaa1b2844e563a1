//! Where transactions come from: one trait over every input format.

mod dnsperf;
mod ldplayer;
mod merge;
pub(crate) mod parquet;
mod sort;
pub(crate) mod text;
pub(crate) mod tsv;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use ldplayer_core::Transaction;

use crate::{Tally, TraceError};

/// A stream of transactions, sorted by time within a bounded window.
pub trait Source: Send {
    /// Appends the next batch (some hundreds to some thousands) to `batch`; `false` when the input is exhausted.
    ///
    /// # Errors
    /// What makes further reading impossible. What was yielded before stays valid.
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError>;

    /// What was seen so far.
    fn tally(&self) -> &Tally;
}

/// One input as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// `-`: standard input.
    Stdin,
    /// A file, its format known by its content.
    File(PathBuf),
}

impl From<&str> for Input {
    fn from(word: &str) -> Self {
        if word == "-" { Self::Stdin } else { Self::File(word.into()) }
    }
}

/// How captures are read.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Ports that carry DNS; 53 unless told otherwise.
    pub ports: Vec<u16>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { ports: vec![53] }
    }
}

/// Octets read from the system at a time.
const BUFFER: usize = 256 * 1024;
/// How Parquet files begin.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Opens inputs of any format, known by their content. Several are merged by time.
///
/// # Errors
/// When the system refuses an input, or when it is of no known format.
pub fn open(inputs: &[Input], options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let mut sources = inputs.iter().map(|input| open_one(input, options)).collect::<Result<Vec<_>, _>>()?;
    match sources.len() {
        1 => Ok(sources.remove(0)),
        _ => Ok(Box::new(merge::Merged::new(sources))),
    }
}

fn open_one(input: &Input, _options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let (path, reader): (&Path, Box<dyn Read + Send>) = match input {
        Input::Stdin => (Path::new("standard input"), Box::new(io::stdin())),
        Input::File(path) => {
            let file = File::open(path).map_err(|source| TraceError::File { path: path.clone(), source })?;
            (path, Box::new(file))
        }
    };
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let head = reader.fill_buf().map_err(|source| TraceError::File { path: path.to_owned(), source })?;
    match input {
        Input::File(path) if head.starts_with(PARQUET_MAGIC) => parquet::open(path),
        Input::Stdin if head.starts_with(PARQUET_MAGIC) => Err(TraceError::Format {
            path: path.to_owned(),
            what: "Parquet cannot be read from a pipe, since its directory is at its end".into(),
            remedy: "give the file by its name".into(),
        }),
        _ => text::open(path, Box::new(reader)),
    }
}
