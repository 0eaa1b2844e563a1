//! Captures in, transactions out: reading, pairing, converting and planning. Opens files, and sends nothing: the one socket
//! is that on which dnstap may come in.
//!
//! A [`Source`] yields transactions in batches, sorted by time, and counts what it could not use in its [`Tally`].

#![forbid(unsafe_code)]

mod arena;
mod classes;
mod columns;
mod distinct;
mod error;
pub mod generate;
mod inspect;
pub mod mutate;
mod nearest;
mod packet;
mod pair;
mod plan;
mod record;
mod sink;
mod source;
mod spec;
mod tally;

pub use classes::{ClassDraws, ClientClass, Habits, TlsVersion, check_shares, read_classes};
pub use distinct::EXACT_LIMIT;
pub use error::TraceError;
pub use inspect::{Families, Inspector, Summary};
pub use plan::{PlanOptions, Planner, Timing, UnknownTiming};
pub use record::Recording;
pub use sink::{Format, Sink, UnknownFormat, Written, create};
pub use source::{Input, OpenOptions, Role, Source, UnknownRole, open};
pub use spec::BadSpec;
pub use tally::{Damage, Place, Tally};
