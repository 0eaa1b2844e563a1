//! The formats of inputs: a row each, with how its content is known and who reads it.

use std::io::BufRead;

use super::compressed::Opened;
use super::{OpenOptions, Source, capture, cdns, dnstap, framestream, parquet, text};
use crate::TraceError;

/// A source, and whether it is known to be sorted.
type Rows = (Box<dyn Source>, bool);

/// A format.
struct Format {
    /// The name, or several, as messages have them.
    name: &'static str,
    /// Whether a file that begins so is of the format.
    is_beginning: fn(&[u8]) -> bool,
    /// Reads an input among so many.
    open: fn(Opened, &OpenOptions, usize) -> Result<Rows, TraceError>,
}

/// All formats, in the order of trial. The last row takes any text.
const ALL: [Format; 5] = [
    Format {
        name: "pcap, pcapng",
        is_beginning: capture::is_capture,
        open: |opened, options, inputs| Ok((capture::open(&opened.path, opened.reader, options, inputs)?, false)),
    },
    Format {
        name: "dnstap",
        is_beginning: framestream::is_framestream,
        open: |opened, options, inputs| Ok((dnstap::open(&opened.path, opened.reader, options, inputs)?, false)),
    },
    Format {
        name: "C-DNS",
        is_beginning: cdns::is_cdns,
        open: |opened, options, _| Ok((cdns::open(&opened.path, opened.reader, options)?, false)),
    },
    Format {
        name: "Parquet",
        is_beginning: |head| head.starts_with(parquet::MAGIC),
        open: |opened, _, _| open_parquet(&opened),
    },
    Format {
        name: "TSV with a header line, LDplayer text or dnsperf queries",
        is_beginning: |_| true,
        open: |opened, options, _| {
            Ok((Box::new(text::TextSource::open(&opened.path, opened.reader, options.text_format)?), false))
        },
    },
];

/// The names of all formats, for messages.
pub(super) fn names() -> String {
    ALL.map(|format| format.name).join(", ")
}

/// Opens an input by its content.
pub(super) fn open(mut opened: Opened, options: &OpenOptions, inputs: usize) -> Result<Rows, TraceError> {
    let head = opened.reader.fill_buf();
    let head = head.map_err(|source| TraceError::File { path: opened.path.clone(), source })?;
    let [.., text] = &ALL;
    let format = ALL.iter().find(|format| (format.is_beginning)(head)).unwrap_or(text);
    (format.open)(opened, options, inputs)
}

fn open_parquet(opened: &Opened) -> Result<Rows, TraceError> {
    if !opened.seekable {
        return Err(TraceError::Format {
            path: opened.path.clone(),
            what: "Parquet cannot be read from a pipe or a compressed file, since its footer is read first".into(),
            remedy: "give the name of the uncompressed file".into(),
        });
    }
    // Its metadata are read from another handle.
    opened.meter.reach_end();
    let rows = parquet::ParquetSource::open(&opened.path)?;
    let is_sorted = rows.says_sorted();
    Ok((Box::new(rows), is_sorted))
}
