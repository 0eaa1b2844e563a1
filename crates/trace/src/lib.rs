//! Reads captures and traces as transactions, and writes traces. It opens files and sends nothing; its only socket
//! receives dnstap.
//!
//! ```text
//!   file, pipe, socket ─► decompression ─► pcap, pcapng ─► link, tunnels, IP, UDP, TCP ────┐
//!                        (own thread)   ├► dnstap, C-DNS ────────────────────────────────┼► pairing ─► order ─► Source
//!                                       └► Parquet, TSV, LDplayer text, dnsperf ──────────┘
//! ```
//!
//! # The contract of a source
//!
//! [`open`] recognises formats by content, never by name, and merges several inputs by time. A [`Source`] yields
//! transactions in batches, sorted by time within a bounded window; later ones are kept and counted. Memory does not grow with
//! the input. Any input results in transactions, counted damage or an error of one line, never in a panic. The [`Tally`] of a
//! source counts what was read, what was foreign and what was damaged, with the first place of each kind of damage, and how much of
//! each input has been read so far: callers that need all of it check [`Tally::is_whole`].
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
//! Parquet and text. A transaction is a query with the response that matches it in addresses, ports, ID and question, or one
//! of the two alone. Parquet traces must be files, since their metadata are at the end. Damage is detected in the headers of
//! records; changes within a record without a checksum go unnoticed.
//!
//! # Files
//!
//! Captures in, transactions out, and back. Sources (`source/`; `formats.rs` is the table of formats) tell them by content and count every piece of damage with its
//! place: packets (`capture.rs` over pcap and pcapng), dnstap (`dnstap.rs` over `framestream.rs`, and `live.rs` for a socket),
//! C-DNS (`cdns/`, which rebuilds the messages from tables) and text. Sinks (`sink/`) write traces (`sink/parquet/` gathers
//! columns for `columnar`). A data set (`set/`) is a folder of such files, by hour and shard. Iterators: no sockets but that for dnstap, and memory that does not grow with the input.

#![forbid(unsafe_code)]

mod arena;
pub mod columns;
mod dependencies;
mod distinct;
mod error;
mod hint;
mod inspect;
mod manifest;
mod packet;
mod pair;
mod record;
mod refused;
mod retries;
pub mod set;
mod sink;
mod source;

pub use dependencies::{Dependencies, DependencyCounts, Evidence, Followed, Links};
pub use distinct::EXACT_LIMIT;
pub use error::TraceError;
pub use hint::why_nothing;
pub use inspect::{Families, Inspector, Summary};
pub use ldplayer_core::damage::{Damage, Place, Tally};
pub use record::Recording;
pub use retries::{RecordedRetries, Retries, Retry, RetryCounts, RetryFilter};
pub use sink::{Format, Sink, UnknownFormat, Written, create, create_marked, create_numbered};
pub use source::{
    DNS_PORT, Expansion, Input, OpenOptions, Role, Source, TextFormat, UnknownRole, open, open_numbered, unknown_server,
};
