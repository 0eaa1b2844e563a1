//! Packet sockets against the kernel: a pair of devices, each in a network namespace of its own.

mod errors;
mod filter;
mod kernel;
mod link;
mod ring;
mod send;
mod stamps;
mod tap;

use link::{Link, frames};
