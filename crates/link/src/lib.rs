//! What a link does to packets: when each arrives, or that it is lost.
//!
//! ```text
//!   --rtt, --jitter, --loss, --bandwidth ──► LinkSpec ──► Link ──► Passage ──► Schedule ──► due packets
//!                    addresses and ports ──► Flows ───┘
//! ```
//!
//! No I/O and no clock: time is an argument, in nanoseconds of any clock that does not go back. The same seed and the same packets have the
//! same fate, wherever the link is: between the hosts of a testbed, or in the sender that makes the clients' packets.
//!
//! # Files
//!
//! What a link does to packets, sans-I/O: `spec.rs` is how its properties are written, `line.rs` what it does to a packet (delay,
//! loss, rate), `flows.rs` what is remembered of a flow, `schedule.rs` packets that wait. The wire of a testbed and the sender of
//! frames both use it.

#![forbid(unsafe_code)]

mod flows;
mod line;
mod prefixes;
mod recent;
mod schedule;
mod spec;
mod written;

pub use flows::{Direction, Ends, Flows};
pub use line::{Crossing, Link, LinkSpec, Passage};
pub use prefixes::{BadPrefixes, Blocks, LONGEST, Prefixes};
pub use recent::Recent;
pub use schedule::{Due, Schedule};
pub use spec::{Distribution, Jitter, Loss, Rate, Rtt, SpecError};
pub use written::{RttSource, Written};
