//! The meta-DNS-server: one process that answers for every zone of a set as each zone's own servers would.

pub mod index;
pub mod tcp;
