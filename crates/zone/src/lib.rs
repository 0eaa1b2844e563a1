//! Zones: zone files in, a compact store, and whole replies out. No sockets, no clock.
#![forbid(unsafe_code)]

pub mod error;
pub mod load;
mod rdata;
pub mod records;
pub mod rtype;
mod scan;
