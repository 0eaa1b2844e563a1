//! What a replay runs against: stock servers, and a wire and a testbed to reach them.

#![forbid(unsafe_code)]

pub mod check;
pub mod harvest;
pub mod serve;
pub mod sources;
pub mod stock;
pub mod testbed;
pub mod views;
pub mod wire;
