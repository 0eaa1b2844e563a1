//! Trace input: one trait for all input formats.

mod buffer;
mod capture;
mod cdns;
mod compressed;
mod dnsperf;
mod dnstap;
mod folder;
mod formats;
mod framestream;
mod ldplayer;
mod limit;
mod live;
mod merge;
mod packets;
pub(crate) mod parquet;
mod pcap;
mod pcapng;
mod protobuf;
mod role;
mod sort;
pub(crate) mod text;
pub(crate) mod tsv;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ldplayer_core::Transaction;
use ldplayer_core::damage::{Ending, Extent};
use ldplayer_core::size::Size;

use self::compressed::Meter;
pub use self::limit::Expansion;
pub(crate) use self::live::{Live, Writers};
pub use self::role::{Role, UnknownRole};
use self::sort::{Sorted, Window};
pub use self::text::TextFormat;
pub use self::tsv::{DNS_PORT, unknown_server};

use crate::{Tally, TraceError};

/// A stream of transactions, sorted by time within a bounded window.
pub trait Source: Send {
    /// Appends the next batch (some hundreds to some thousands, fewer of large messages) to `batch`; `false` when the input is exhausted.
    ///
    /// # Errors
    /// Reading cannot continue. What was yielded before stays valid.
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError>;

    /// The tally so far.
    fn tally(&self) -> &Tally;

    /// Whether the input is a list of queries, as dnsperf takes it, which has neither times nor clients.
    fn is_list(&self) -> bool {
        false
    }
}

impl Source for Box<dyn Source> {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        (**self).read(batch)
    }

    fn tally(&self) -> &Tally {
        (**self).tally()
    }

    fn is_list(&self) -> bool {
        (**self).is_list()
    }
}

/// One input as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// `-`: standard input.
    Stdin,
    /// A file, its format known by its content; or a folder of such files.
    File(PathBuf),
    /// `unix:PATH`: a listening socket, for software that sends dnstap.
    Unix(PathBuf),
}

impl From<&str> for Input {
    fn from(word: &str) -> Self {
        match word.strip_prefix("unix:") {
            Some(path) => Self::Unix(path.into()),
            None if word == "-" => Self::Stdin,
            None => Self::File(word.into()),
        }
    }
}

/// The input as given by the user.
impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How captures and other records of traffic are read.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Ports that carry DNS; 53 by default.
    pub ports: Vec<u16>,
    /// Roles whose messages are read from formats that record roles, dnstap and C-DNS; empty for all.
    pub roles: Vec<Role>,
    /// Whether to leave out datagrams that a capture has twice.
    pub drop_duplicates: bool,
    /// The format of text without header; `None` for what most of its first lines are.
    pub text_format: Option<TextFormat>,
    /// The most that is read of an input, in octets of its decompressed content: reading one that has more ends with an error.
    pub max_input: Option<Size>,
    /// Told of archives that expand to far more than is stored, at each doubling.
    pub tell_expansion: Option<fn(Expansion<'_>)>,
    /// Ends reading from sockets once set: they have no end of their own.
    pub stop: Arc<AtomicBool>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            ports: vec![53],
            roles: Vec::new(),
            drop_duplicates: false,
            text_format: None,
            max_input: None,
            tell_expansion: None,
            stop: Arc::default(),
        }
    }
}

/// Octets of messages in a batch; the last transaction of a batch may take more.
const BATCH_OCTETS: usize = 2 << 20;

/// The control frame at the end of a stream of frames.
pub(crate) fn stop_frame() -> Vec<u8> {
    framestream::Control::new(framestream::control::STOP, None).compose()
}

/// Opens inputs of any format, known by their content. Several are merged by time; a folder is its files, or the data set in it.
///
/// # Errors
/// When the system refuses an input, or when it is of no known format.
pub fn open(inputs: &[Input], options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let sources = inputs.iter().map(|input| match input {
        Input::File(path) if path.is_dir() => folder::open(path, options),
        _ => open_one(input, options, inputs.len()),
    });
    Ok(merged(sources.collect::<Result<_, _>>()?))
}

/// Several sources as one, in the order of time.
fn merged(mut sources: Vec<Box<dyn Source>>) -> Box<dyn Source> {
    match sources.len() {
        1 => sources.remove(0),
        _ => Box::new(merge::Merged::new(sources)),
    }
}

/// Opens files of [`create_numbered`](crate::create_numbered) as one, in the order of time; their transactions keep their [`Transaction::index`].
///
/// # Errors
/// When the system refuses a file, or when it is no Parquet trace.
pub fn open_numbered(paths: &[PathBuf]) -> Result<Box<dyn Source>, TraceError> {
    let sorted = |path: &PathBuf| {
        let rows = parquet::ParquetSource::open(path)?.numbered();
        let (name, window) = (path.display().to_string(), Window::one_of(paths.len()));
        Ok(Box::new(Sorted::new(rows, name, Meter::default(), window)) as Box<dyn Source>)
    };
    Ok(Box::new(merge::Merged::new(paths.iter().map(sorted).collect::<Result<_, TraceError>>()?)))
}

/// Opens one of several `inputs`, sorted within a bounded window.
fn open_one(input: &Input, options: &OpenOptions, inputs: usize) -> Result<Box<dyn Source>, TraceError> {
    let opened = compressed::open(input, options)?;
    let (name, meter) = (opened.path.display().to_string(), opened.meter.clone());
    let (rows, is_sorted) = formats::open(opened, options, inputs)?;
    let window = if is_sorted { Window::NONE } else { Window::one_of(inputs) };
    Ok(Box::new(Sorted::new(rows, name, meter, window)))
}

/// Notes in the tally how much of an input was read.
fn note(tally: &mut Tally, (content, ending): (u64, Ending)) {
    if tally.inputs.is_empty() {
        tally.inputs.push(Extent::default());
    }
    (tally.inputs[0].content, tally.inputs[0].ending) = (content, ending);
}
