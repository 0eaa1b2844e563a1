//! The network stack of emulated clients.

#![forbid(unsafe_code)]

pub mod frame;
pub mod tcp;
