//! The words every stage of ldplayer shares. No I/O, no clock, no unsafe.
//!
//! A capture becomes [`Transaction`]s; planning turns each into a [`Query`]; replaying turns each query into one
//! [`Outcome`]; the results are made of outcomes. These four types are the arrows of the architecture.

#![forbid(unsafe_code)]

pub mod cidr;
pub mod damage;
pub mod histogram;
pub mod message;
pub mod name;
pub mod nearest;
pub mod outcome;
pub mod policy;
pub mod query;
pub mod random;
pub mod shard;
pub mod stall;
pub mod text;
pub mod time;
pub mod transaction;
pub mod transport;
pub mod wire;

pub use cidr::Cidr;
pub use message::Message;
pub use outcome::{Answer, Outcome, Reason, Status};
pub use policy::{Policy, PolicyOverrides};
pub use query::Query;
pub use stall::Stalls;
pub use time::{RunTime, TraceTime};
pub use transaction::Transaction;
pub use transport::{Transport, UnknownTransport};
