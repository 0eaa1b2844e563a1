//! Packet sockets against the kernel: a pair of devices, each in a network namespace of its own.

mod errors;
mod link;
mod send;

use link::{Link, frames};
