//! The clock of a worker: run time 0 is at an origin of the monotonic clock.

use ldplayer_core::RunTime;
use ldplayer_net::clock;

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    origin: i64,
}

impl RunClock {
    /// The clock of a run whose time 0 is at `origin` of the monotonic clock, in nanoseconds.
    pub const fn new(origin: i64) -> Self {
        Self { origin }
    }

    /// The time of the run.
    pub fn now(self) -> RunTime {
        RunTime(clock::monotonic_ns() - self.origin)
    }

    /// Sleeps until a time of the run.
    pub fn sleep_until(self, at: RunTime) {
        clock::sleep_until(self.origin + at.0);
    }

    /// Offset of the wall clock (and so of kernel timestamps) from run time, in nanoseconds.
    pub fn wall_offset(self) -> i64 {
        clock::realtime_offset_ns() + self.origin
    }

    /// When something arrived, by the kernel's timestamp: never later than now, and now without one.
    pub fn arrived(self, stamp_ns: Option<i64>) -> RunTime {
        let now = self.now();
        stamp_ns.map_or(now, |stamp| RunTime(stamp - self.wall_offset()).min(now))
    }
}
