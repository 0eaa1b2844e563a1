//! Captures in, transactions out, and back: reading, pairing and writing. Opens files, and sends nothing: the one socket
//! is that on which dnstap may come in.
//!
//! A [`Source`] yields transactions in batches, sorted by time, and counts what it could not use in its [`Tally`].

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
pub use sink::{Format, Sink, UnknownFormat, Written, create};
pub use source::{DNS_PORT, Input, OpenOptions, Role, Source, UnknownRole, open, unknown_server};
