//! Servers to replay against: stock ones, started for a run and stopped with it.

#![forbid(unsafe_code)]

pub mod stock;
