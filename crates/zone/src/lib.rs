//! Zones: zone files in, a compact store, and whole replies out. No sockets, no clock.
#![forbid(unsafe_code)]

pub mod answer;
pub mod construct;
pub mod error;
pub mod finding;
pub mod harvest;
pub mod hints;
pub mod load;
mod rdata;
pub mod records;
pub mod rtype;
mod scan;
pub mod sign;
pub mod store;
pub mod write;

pub use answer::{Choose, Kind, Reply, Scratch, Transport, respond};
pub use error::LoadError;
pub use finding::{Finding, Oddity, signatures};
pub use records::Records;
pub use store::{BuildError, RrSet, Zone};
