//! The specification of a run: all keys, typed, in TOML and JSON.

mod read;
mod serial;

use ldplayer_workload::{ClientClass, Qps, Timing};

use crate::keys::RunSpec;
use crate::words::{Speed, TransportChoice};
pub use read::BadSpec;

/// The version that this release writes, and the only one that it reads.
pub const VERSION: u32 = 1;

impl RunSpec {
    /// The client classes, once files are embedded; empty if all clients are alike.
    pub fn classes(&self) -> &[ClientClass] {
        match &self.transport {
            TransportChoice::Shares(classes) if self.class.is_empty() => classes,
            _ => &self.class,
        }
    }

    /// Timing with the speed or the rate in it.
    pub fn timing(&self) -> Timing {
        let rate = self.rate.map(|Qps(qps)| Timing::Rate(qps));
        rate.or_else(|| self.speed.map(|Speed(factor)| Timing::Scaled(factor))).unwrap_or(self.timing)
    }
}
