//! The types that all stages of ldplayer share. No I/O, no clock, no unsafe.
//!
//! ```text
//!   capture ──► Transaction ──plan──► Query ──replay──► Outcome ──► results
//!                 (trace)     (workload)      (replay)
//!       with time of the recording │ with time of the run, counted from its start
//!            TraceTime             │             RunTime
//! ```
//!
//! A capture becomes [`Transaction`]s; planning turns each into a [`Query`]; replaying turns each query into one
//! [`Outcome`]; the results are made of outcomes. These are the arrows of the architecture.
//!
//! # The contract
//!
//! - Time is a value: [`TraceTime`] and [`RunTime`] are nanoseconds, and nothing here asks what time it is.
//! - A client is an address. [`shard`] says who plays it, the same on every host, in every version and run.
//! - Every query has just one outcome that [`Status::is_query`] counts; late and stray responses are outcomes beside it.
//! - How clients use connections is one table, [`policy`]. What of an input could not be read is one type,
//!   [`damage::Tally`]. Two responses are compared by their [`Fingerprint`]s. Batches travel between hosts in one form, [`wire`].
//! - A random choice is drawn from a seed ([`random`]), never from the machine.
//!
//! # Limitations
//!
//! Times range from the year 1678 to 2262. A [`Message`] is a view of octets: what is not looked at is not checked.
//!
//! # Example
//!
//! ```
//! use ldplayer_core::shard::shard;
//! use ldplayer_core::{Policy, PolicyOverrides, RunTime};
//!
//! // Which of four hosts with four workers each plays a client, and which of the workers: one number says both.
//! let client = "192.0.2.7".parse()?;
//! assert_eq!(shard(client, 16) / 4, shard(client, 4));
//!
//! // A class of clients that differs in one thing from all others.
//! let class = PolicyOverrides { idle_timeout: Some(0), ..PolicyOverrides::default() };
//! assert_eq!(class.over(Policy::default()), Policy { idle_timeout: 0, ..Policy::default() });
//!
//! assert_eq!(RunTime(1_500) - RunTime(500), 1_000);
//! # Ok::<(), std::net::AddrParseError>(())
//! ```
//!
//! # Files
//!
//! The words that all stages share: `Transaction`, `Query`, `Outcome`, a borrowed view of a DNS message, names, times, address
//! blocks, the function from a client's address to its shard, which nests over hosts and workers. `policy.rs` is the one table of
//! how clients use connections: options, class files, specifications and run.json follow from it. `expr.rs` is the form of
//! conditions, whose fields are each language's own; `spec.rs` reads TOML that people write; `compare.rs` makes fingerprints of responses and compares them; `damage.rs`
//! says what of an input could not be read, `wire.rs` how batches travel between hosts. No I/O, no clock.

#![forbid(unsafe_code)]

pub mod cidr;
pub mod client;
pub mod client_subnet;
pub mod compare;
pub mod compressed;
pub mod damage;
pub mod expr;
pub mod extended_error;
pub mod histogram;
pub mod ip;
pub mod message;
pub mod name;
pub mod nearest;
pub mod outcome;
pub mod policy;
pub mod printable;
pub mod query;
pub mod random;
pub mod shard;
pub mod size;
pub mod spec;
pub mod stall;
pub mod text;
pub mod time;
pub mod transaction;
pub mod transport;
pub mod wire;

pub use cidr::Cidr;
pub use client_subnet::ClientSubnet;
pub use compare::{Answer, Differs, Fingerprint, Ignore, IgnoreRule};
pub use message::Message;
pub use outcome::{Outcome, Reason, Segments, Status};
pub use policy::{Policy, PolicyOverrides};
pub use query::{Attempt, Dependency, Expected, Follows, Pair, Query};
pub use stall::Stalls;
pub use time::{RunTime, TraceTime};
pub use transaction::Transaction;
pub use transport::{Transport, UnknownTransport};
