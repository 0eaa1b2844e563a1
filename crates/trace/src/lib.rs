//! Captures in, transactions out, and back: reading, pairing and writing. Opens files, and sends nothing: the one socket
//! is that on which dnstap may come in.
//!
//! ```text
//!   file, pipe, socket ─► decompression ─► pcap, pcapng ─► link, IP, fragments, UDP, TCP ─┐
//!                        (own thread)   ├► dnstap, C-DNS ────────────────────────────────┼► pairing ─► order ─► Source
//!                                       └► Parquet, TSV, LDplayer text, dnsperf ──────────┘
//! ```
//!
//! # The contract of a source
//!
//! [`open`] tells formats by their content, never by their names, and merges several inputs by time. A [`Source`] yields
//! transactions in batches, sorted by time within a bounded window; what comes later than that is kept and counted. Memory does
//! not grow with the input. Whatever the input, it ends in transactions, counted damage or an error of one line, never in a
//! panic. Its [`Tally`] says what was read, what was foreign, what was damaged and where first, and how much of each input was
//! read: [`Tally::is_whole`] is the question that whoever needs all of it asks. The accounts hold for what was read so far.
//!
//! ```
//! use ldplayer_trace::{Input, OpenOptions, open};
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("trace.tsv");
//! std::fs::write(&path, "time\tsrc\tqname\tqtype\n1.5\t192.0.2.1\texample.\tNS\n2\t192.0.2\texample.\tNS\n")?;
//! let mut source = open(&[Input::File(path)], &OpenOptions::default())?;
//! let mut rows = Vec::new();
//! while source.read(&mut rows)? {}
//! assert_eq!((rows.len(), source.tally().queries), (1, 1));
//! // The second line has no address of a client.
//! assert!(!source.tally().is_whole());
//! assert!(source.tally().explain_unread().unwrap().starts_with("1 bad_address, first at packet or line 3"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limitations
//!
//! DNS over TLS, HTTPS and QUIC is not decrypted: captures give UDP and TCP, and the other transports come from dnstap, C-DNS,
//! Parquet and text. A message is one transaction with the query and the response that fit together, by addresses, ports, ID and
//! question; one that comes without the other is a transaction of its own. Parquet needs a file by its name, since its directory
//! is at its end. A damaged record is found by what its header says; a change within a record that has no checksum is not.

#![forbid(unsafe_code)]

mod arena;
pub mod columns;
mod distinct;
mod error;
mod inspect;
mod packet;
mod pair;
mod record;
mod refused;
mod sink;
mod source;

pub use distinct::EXACT_LIMIT;
pub use error::TraceError;
pub use inspect::{Families, Inspector, Summary};
pub use ldplayer_core::damage::{Damage, Place, Tally};
pub use record::Recording;
pub use sink::{Format, Sink, UnknownFormat, Written, create, create_numbered};
pub use source::{DNS_PORT, Input, OpenOptions, Role, Source, UnknownRole, open, open_numbered, unknown_server};
