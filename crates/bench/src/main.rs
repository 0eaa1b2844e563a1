//! Benchmarks against the bare limits of the machine and against the peers.

fn main() {}
